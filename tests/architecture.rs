//! Checks of the source tree itself: who imports whom, how long files are, what is forgotten. A breach is named with
//! file, line and rule, so that the message says what to do.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use source::{Source, case_numbers, modules_of, requirement_ids, rust_files};

/// Who may import whom (`docs/architecture.md`). A layer that is not here fails.
const LAYERS: [(&str, &[&str]); 13] = [
    ("pi", &[]),
    ("sys", &[]),
    ("config", &["sys"]),
    ("fleet", &["pi"]),
    ("client", &["fleet"]),
    ("tools", &["fleet", "pi"]),
    (
        "supervisor",
        &["bridge", "client", "fleet", "tools", "pi", "sys", "config"],
    ),
    ("control", &["client", "fleet", "sys", "config"]),
    ("guard", &["sys"]),
    ("bridge", &["sys"]),
    ("demo", &["pi"]),
    ("tui", &["client", "fleet", "config", "sys"]),
    ("cli", ALL),
];

const ALL: &[&str] = &[
    "bridge",
    "pi",
    "sys",
    "config",
    "fleet",
    "client",
    "tools",
    "supervisor",
    "control",
    "guard",
    "demo",
    "tui",
];

/// What a screen may use of `sys`: it draws and restores the terminal, the rest is the core's.
const SYS_FOR_TUI: [&str; 3] = ["signals", "panic", "logging"];

/// What the pure layers must not touch (design: no clock, no I/O, no randomness, no runtime).
const IMPURE: [&str; 12] = [
    "tokio::",
    "rustix::",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env::",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "Uuid::new_v4",
    "Uuid::now_v7",
];

/// Ids are made here, by callers outside the machine.
const IMPURE_ALLOWED: [(&str, &str); 1] = [("src/fleet/ids.rs", "Uuid::now_v7")];

/// A file longer than this is named when the test runs.
const LONG: usize = 500;

/// A file longer than this fails.
const TOO_LONG: usize = 700;

/// Longer files that are one thing and read better whole, each with its reason.
const MAY_BE_LONG: [(&str, &str); 0] = [];

/// Everything at the top of the repository, beside dot files.
const TOP: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "assets",
    "docs",
    "skills",
    "src",
    "tests",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

/// `src/tui/panes/x.rs` belongs to `tui`.
fn layer_of(file: &str) -> Option<&str> {
    let rest = file.strip_prefix("src/")?;
    let name = rest.split('/').next()?;
    Some(name.strip_suffix(".rs").unwrap_or(name)).filter(|name| !["lib", "main"].contains(name))
}

#[track_caller]
fn none(what: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{what}:\n  {}", breaches.join("\n  "));
}

#[test]
fn layers_import_only_what_they_may() {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.into_iter().collect();
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    for path in rust_files(&root().join("src")) {
        let file = relative(&path);
        let Some(layer) = layer_of(&file) else {
            continue;
        };
        let Some(allowed) = layers.get(layer) else {
            breaches.push(format!("{file}: layer {layer} is not in the table"));
            continue;
        };
        seen.insert(layer.to_owned());
        let source = Source::read(&path);
        for import in source.crate_imports(&modules_of(&file)) {
            let to = import.path.first().map_or("", String::as_str);
            let at = format!("{file}:{}", import.line);
            if to == layer || to.is_empty() {
                continue;
            }
            if !allowed.contains(&to) {
                breaches.push(format!("{at}: {layer} may not import {to}"));
            } else if (layer, to) == ("tui", "sys")
                && !import
                    .path
                    .get(1)
                    .is_some_and(|part| SYS_FOR_TUI.contains(&part.as_str()))
            {
                breaches.push(format!("{at}: tui may use only {SYS_FOR_TUI:?} of sys"));
            }
        }
    }
    none("who may import whom", &breaches);
    for (layer, _) in LAYERS {
        assert!(seen.contains(layer), "layer {layer} has no file any more");
    }
}

#[test]
fn the_pure_layers_are_pure() {
    let mut breaches = Vec::new();
    for layer in ["fleet", "pi", "client.rs"] {
        for path in rust_files(&root().join("src").join(layer)) {
            let file = relative(&path);
            for (line, text) in Source::read(&path).code_lines() {
                for word in IMPURE {
                    if text.contains(word) && !IMPURE_ALLOWED.contains(&(file.as_str(), word)) {
                        breaches.push(format!("{file}:{line}: {word}"));
                    }
                }
            }
        }
    }
    none(
        "no clock, no I/O, no randomness, no runtime here",
        &breaches,
    );
}

#[test]
fn unsafe_is_only_at_the_edge() {
    let mut breaches = Vec::new();
    for path in rust_files(&root().join("src")) {
        let file = relative(&path);
        if layer_of(&file) == Some("sys") {
            continue;
        }
        for (line, text) in Source::read(&path).code_lines() {
            let word = |word: &str| {
                text.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|part| part == word)
            };
            if word("unsafe") || word("unsafe_code") {
                breaches.push(format!("{file}:{line}"));
            }
        }
    }
    none("unsafe belongs into src/sys", &breaches);
}

#[test]
#[allow(clippy::print_stdout)] // shown with --nocapture, and when the test fails
fn files_stay_short() {
    let exceptions: BTreeMap<&str, &str> = MAY_BE_LONG.into_iter().collect();
    let mut breaches = Vec::new();
    for dir in ["src", "tests"] {
        for path in rust_files(&root().join(dir)) {
            let file = relative(&path);
            let text = fs::read_to_string(&path).expect("a source file");
            let lines = text.lines().count();
            if lines > TOO_LONG && !exceptions.contains_key(file.as_str()) {
                breaches.push(format!("{file}: {lines} lines"));
            } else if lines > LONG {
                println!("long: {file}: {lines} lines");
            }
        }
    }
    none(&format!("files of at most {TOO_LONG} lines"), &breaches);
    for (file, _) in MAY_BE_LONG {
        assert!(
            root().join(file).exists(),
            "{file} needs no exception any more"
        );
    }
}

#[test]
fn no_test_file_is_forgotten() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let mut roots = Vec::new();
    for kind in ["test", "bench", "example", "bin"] {
        let targets = manifest.get(kind).and_then(toml::Value::as_array);
        for target in targets.into_iter().flatten() {
            let path = target.get("path").and_then(toml::Value::as_str);
            roots.push(root().join(path.expect("every target names its path")));
        }
    }
    let mut reached = BTreeSet::new();
    for root in roots {
        source::reach(&root, true, &mut reached);
    }
    let forgotten: Vec<String> = rust_files(&root().join("tests"))
        .into_iter()
        .filter(|path| !reached.contains(&path.canonicalize().expect("a file")))
        .map(|path| relative(&path))
        .collect();
    none("files that no `mod` line and no target names", &forgotten);
}

/// What git knows of, or will know: committed, staged and new files.
fn repository_files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .expect("names are UTF-8")
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| root().join(path).exists())
        .collect()
}

#[test]
fn the_top_level_is_what_was_agreed() {
    let top: BTreeSet<String> = repository_files()
        .iter()
        .filter_map(|path| path.components().next())
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    let strange: Vec<String> = top
        .iter()
        .filter(|name| !TOP.contains(&name.as_str()))
        .cloned()
        .collect();
    none("nothing else at the top of the repository", &strange);
    for needed in [
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "README.md",
        "docs",
        "src",
        "tests",
    ] {
        assert!(top.contains(needed), "{needed} is missing");
    }
}

#[test]
fn cited_requirements_exist() {
    let known = fs::read_to_string(root().join("tests/fixtures/requirement_ids.txt")).expect("ids");
    let known: BTreeSet<&str> = known.lines().collect();
    let mut breaches = Vec::new();
    let mut cited = 0;
    for path in repository_files() {
        let text = path
            .extension()
            .is_some_and(|ext| ["rs", "md", "toml"].iter().any(|known| ext == *known));
        if !text || path.starts_with("tests/fixtures") {
            continue;
        }
        let content = fs::read_to_string(root().join(&path)).expect("text");
        for (line, id) in requirement_ids(&content) {
            cited += 1;
            if !known.contains(id.as_str()) {
                breaches.push(format!("{}:{line}: {id}", path.display()));
            }
        }
    }
    none("requirements that do not exist", &breaches);
    assert!(
        cited > 50,
        "only {cited} citations were found: is this test blind?"
    );
}

/// A line of `tests/fixtures/cases.txt`.
struct Case {
    number: String,
    kind: String,
    later: bool,
}

fn known_cases() -> Vec<Case> {
    let text = fs::read_to_string(root().join("tests/fixtures/cases.txt")).expect("cases");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (case, later) = match line.split_once(" | later: ") {
                Some((case, why)) => (case, Some(why)),
                None => (line, None),
            };
            assert!(later.is_none_or(|why| why.len() > 10), "say why: {line}");
            let words: Vec<&str> = case.split_whitespace().collect();
            assert!(words.len() > 4, "number, kind and a title: {line}");
            assert_eq!(case_numbers(words[0]).len(), 1, "a number: {line}");
            Case {
                number: words[0].to_owned(),
                kind: words[1].to_owned(),
                later: later.is_some(),
            }
        })
        .collect()
}

#[test]
fn cited_cases_exist_and_those_of_the_core_are_proven() {
    let cases = known_cases();
    let known: BTreeSet<&str> = cases.iter().map(|case| case.number.as_str()).collect();
    assert_eq!(known.len(), cases.len(), "a number stands twice");
    let mut breaches = Vec::new();
    let mut proven = BTreeSet::new();
    for path in repository_files() {
        let text = path
            .extension()
            .is_some_and(|ext| ["rs", "md"].iter().any(|known| ext == *known));
        // The checks of these checks speak of numbers that need not exist.
        if !text || path.starts_with("tests/architecture") || path.starts_with("tests/fixtures") {
            continue;
        }
        let content = fs::read_to_string(root().join(&path)).expect("text");
        for (line, number) in case_numbers(&content) {
            if !known.contains(number.as_str()) {
                breaches.push(format!("{}:{line}: {number}", path.display()));
            }
            let comment = content
                .lines()
                .nth(line - 1)
                .is_some_and(|text| text.trim_start().starts_with("//"));
            if comment && path.starts_with("tests") {
                proven.insert(number);
            }
        }
    }
    none("cases that are not in tests/fixtures/cases.txt", &breaches);
    let forgotten: Vec<String> = cases
        .iter()
        .filter(|case| ["protocol", "lifecycle"].contains(&case.kind.as_str()))
        .filter(|case| !case.later && !proven.contains(&case.number))
        .map(|case| case.number.clone())
        .collect();
    none("cases that no test cites", &forgotten);
    assert!(proven.len() > 30, "only {proven:?}: is this test blind?");
}

#[test]
fn every_folder_is_explained() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).expect("architecture.md");
    let mut missing = Vec::new();
    for entry in fs::read_dir(root().join("src")).expect("src") {
        let path = entry.expect("entry").path();
        let name = path
            .file_name()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !text.contains(&format!("`{name}/`")) {
            missing.push(name);
        }
    }
    none(
        "folders of src that docs/architecture.md does not explain",
        &missing,
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for path in repository_files() {
        if path.extension().is_none_or(|ext| ext != "md") || path.starts_with("tests/fixtures") {
            continue;
        }
        let content = fs::read_to_string(root().join(&path)).expect("text");
        let dir = root().join(path.parent().unwrap_or(Path::new("")));
        for target in content.split("](").skip(1) {
            let target = target.split([')', '#']).next().unwrap_or_default();
            let outside = target.is_empty() || target.contains("://");
            if !outside && !dir.join(target).exists() {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    none("links to files that are not there", &broken);
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    // Put together here, so that this file is not its own breach.
    let words = ["/work", "/tmp"]
        .map(|start| format!("{start}{}", if start == "/work" { "/main" } else { "/wt/" }));
    let more = [format!("/work{}", "/shared"), format!("/ro{}", "ot/.")];
    let mut breaches = Vec::new();
    for path in repository_files() {
        let Ok(content) = fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for word in words.iter().chain(&more) {
            if content.contains(word.as_str()) {
                breaches.push(format!("{}: {word}", path.display()));
            }
        }
    }
    none("paths of one machine", &breaches);
}
