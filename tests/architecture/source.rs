//! Reads Rust source well enough for the checks: without comments and texts, with its imports and modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a folder (or the file itself), sorted.
pub fn rust_files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(path) else {
        return files;
    };
    for entry in entries {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Module path of a file below `src`: `src/tui/panes/mod.rs` is `tui::panes`.
pub fn modules_of(file: &str) -> Vec<String> {
    let inner = file.strip_prefix("src/").unwrap_or(file);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|part| part == "mod") {
        parts.pop();
    }
    parts
}

/// A use of something of this crate by its path.
pub struct Import {
    /// 1-based.
    pub line: usize,
    /// Module path from the crate's root.
    pub path: Vec<String>,
}

/// Source without comments, texts and characters; lines are kept.
pub struct Source {
    code: String,
}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> Self {
        Self::new(&fs::read_to_string(path).expect("a source file"))
    }

    /// Takes text.
    pub fn new(text: &str) -> Self {
        Self { code: strip(text) }
    }

    /// Lines with their numbers.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(n, line)| (n + 1, line))
    }

    /// Every path that begins with `crate::` or with enough `super::` to reach the root, groups spread out.
    /// `modules` is the module path of the file itself.
    pub fn crate_imports(&self, modules: &[String]) -> Vec<Import> {
        let mut imports = Vec::new();
        let bytes = self.code.as_bytes();
        let ident = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let mut at = 0;
        while at < bytes.len() {
            let begins = at == 0 || !ident(bytes[at - 1]) && bytes[at - 1] != b':';
            let rest = &self.code[at..];
            let found = if !begins {
                None
            } else if let Some(tail) = rest.strip_prefix("crate::") {
                Some((Vec::new(), tail))
            } else if rest.starts_with("super::") {
                let mut tail = rest;
                let mut ups = 0;
                while let Some(next) = tail.strip_prefix("super::") {
                    tail = next;
                    ups += 1;
                }
                // Inside an inline module `super` means this file: then this reaches one level less far, never more.
                let left = modules.len().saturating_sub(ups);
                Some((modules[..left].to_vec(), tail))
            } else {
                None
            };
            if let Some((base, tail)) = found {
                let line = self.code[..at].matches('\n').count() + 1;
                for path in spread(tail) {
                    let mut full = base.clone();
                    full.extend(path);
                    imports.push(Import { line, path: full });
                }
                at += rest.len() - tail.len();
            } else {
                at += 1;
                while at < bytes.len() && !self.code.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
        imports
    }
}

/// The first two parts of every path of `a::{b, c::d}, …`.
fn spread(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        let mut paths = Vec::new();
        let (mut depth, mut start) = (1_usize, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 || depth == 1 && c == ',' {
                let item = group[start..at].trim();
                if !item.is_empty() {
                    paths.extend(spread(item));
                }
                start = at + 1;
            }
            if depth == 0 {
                break;
            }
        }
        return paths;
    }
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Vec::new();
    }
    let Some(rest) = rest.strip_prefix("::") else {
        return vec![vec![name.to_owned()]];
    };
    let inner = spread(rest);
    if inner.is_empty() {
        return vec![vec![name.to_owned()]];
    }
    inner
        .into_iter()
        .map(|path| {
            let mut full = vec![name.to_owned()];
            full.extend(path.into_iter().take(1));
            full
        })
        .collect()
}

/// Blanks out comments, texts and characters.
fn strip(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = ' ';
    while let Some(c) = rest.chars().next() {
        let word = previous.is_alphanumeric() || previous == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if c == '"' {
            quoted(rest)
        } else if c == 'r' && !word {
            raw(rest)
        } else if c == '\'' {
            character(rest)
        } else {
            0
        };
        if length == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.push(' ');
            code.extend(rest[..length].chars().filter(|c| *c == '\n'));
            rest = &rest[length..];
        }
        previous = c;
    }
    code
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"` and `r#"…"#`; 0 for anything else that begins with `r`.
fn raw(text: &str) -> usize {
    let hashes = text[1..].bytes().take_while(|b| *b == b'#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    text[body..]
        .find(&end)
        .map_or(text.len(), |at| body + at + end.len())
}

/// `'x'`, `'\n'`, `'\u{1F600}'`; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            // The escaped character itself may be a quote.
            let after = text[2..].chars().next().map_or(2, |c| 2 + c.len_utf8());
            text[after..].find('\'').map_or(0, |at| after + at + 1)
        }
        Some((_, c)) => {
            let after = 1 + c.len_utf8();
            if text[after..].starts_with('\'') {
                after + 1
            } else {
                0
            }
        }
        None => 0,
    }
}

/// Adds a file and every file its `mod` lines lead to.
pub fn reach(file: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) {
    let Ok(real) = file.canonicalize() else {
        return;
    };
    if !reached.insert(real) {
        return;
    }
    let text = fs::read_to_string(file).expect("a source file");
    let dir = file.parent().expect("a folder");
    let owns_folder = is_root || file.file_name().is_some_and(|name| name == "mod.rs");
    let children = if owns_folder {
        dir.to_owned()
    } else {
        dir.join(file.file_stem().expect("a name"))
    };
    let mut path_attribute = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path_attribute = rest.split('"').next().map(str::to_owned);
            continue;
        }
        let declared = line
            .strip_prefix("pub ")
            .or_else(|| line.strip_prefix("pub(crate) "))
            .unwrap_or(line)
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        let Some(name) = declared else {
            continue;
        };
        match path_attribute.take() {
            Some(path) => reach(&dir.join(path), false, reached),
            None => {
                reach(&children.join(format!("{name}.rs")), false, reached);
                reach(&children.join(name).join("mod.rs"), false, reached);
            }
        }
    }
}

/// Every number of a case in a text (`B` and three digits), with its line.
pub fn case_numbers(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let digits = word.strip_prefix('B').unwrap_or_default();
            if digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()) {
                found.push((number + 1, word.to_owned()));
            }
        }
    }
    found
}

/// Every name of a requirement in a text, with its line.
pub fn requirement_ids(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut previous = ' ';
        for (at, c) in line.char_indices() {
            let begins = c == 'R' && !previous.is_alphanumeric();
            previous = c;
            let Some(rest) = line[at..].strip_prefix("R-").filter(|_| begins) else {
                continue;
            };
            let area = rest.bytes().take_while(u8::is_ascii_uppercase).count();
            let Some(tail) = rest[area..].strip_prefix('-').filter(|_| area > 0) else {
                continue;
            };
            let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                found.push((
                    number + 1,
                    format!("R-{}-{}", &rest[..area], &tail[..digits]),
                ));
            }
        }
    }
    found
}

#[test]
fn comments_and_texts_are_no_code() {
    let code = strip(
        "a // b\n/* c /* d */ e */ f \"g \\\" h\" 'i' '\\'' &'j k r\"l\" r#\"m \" n\"# rest '\\u{41}' o",
    );
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "f", "&'j", "k", "rest", "o"]);
    assert_eq!(strip("x \"a\nb\" y").lines().count(), 2);
}

#[test]
fn imports_are_seen_in_every_form() {
    let modules = ["tui".to_owned(), "panes".to_owned()];
    let source = Source::new(
        "use crate::fleet::agent::Status;\nuse crate::{client, pi::{self, event}, sys::signals as s};\n\
         fn f() { crate::control::go(); super::local(); super::super::supervisor::x(); my_crate::no(); }\n\
         // use crate::guard;\n",
    );
    let found: Vec<String> = source
        .crate_imports(&modules)
        .into_iter()
        .map(|import| format!("{}:{}", import.line, import.path.join("::")))
        .collect();
    assert_eq!(
        found,
        [
            "1:fleet::agent",
            "2:client",
            "2:pi::self",
            "2:pi::event",
            "2:sys::signals",
            "3:control::go",
            "3:tui::local",
            "3:supervisor::x",
        ]
    );
}

#[test]
fn ids_are_found_whole() {
    let ids: Vec<String> = requirement_ids("R-LIFE-04, xR-NO-1 (R-Q-01/R-TUI-10)\nR-X R--1 R-A-")
        .into_iter()
        .map(|(_, id)| id)
        .collect();
    assert_eq!(ids, ["R-LIFE-04", "R-Q-01", "R-TUI-10"]);
}

#[test]
fn case_numbers_are_found_whole() {
    let numbers: Vec<String> = case_numbers("B031, (B002-x.jsonl) b033 AB034 B03 B0355 B036_x")
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    assert_eq!(numbers, ["B031", "B002"]);
}
