//! `pi-agents doctor`: what is wrong and how to mend it (R-OPS-02).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::core::{Core, PROGRAM, World};
use crate::support::fake::FakePi;

use super::{ended, json, run};

/// The checks that came out bad: title and way out as one text.
fn bad(value: &Value) -> Vec<String> {
    let checks = value["checks"].as_array().unwrap();
    checks
        .iter()
        .filter(|c| c["verdict"] == "bad")
        .map(|c| {
            let fix: Vec<&str> = c["fix"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| l.as_str().unwrap())
                .collect();
            format!("{}\n{}", c["title"].as_str().unwrap(), fix.join("\n"))
        })
        .collect()
}

/// A world in which a model seems to be configured.
fn world() -> FakePi {
    FakePi::new().with_env("SOME_API_KEY", "x")
}

fn script(pi: &FakePi, name: &str, text: &str) -> PathBuf {
    let dir = pi.sandbox.root().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn all_is_well() {
    let pi = world();
    let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(bad(&value), Vec::<String>::new());
    assert_eq!(code, 0);
    let titles = value["checks"].to_string();
    for what in [
        "Pi ",
        "saved sessions",
        "records",
        "sockets",
        "no core works",
    ] {
        assert!(titles.contains(what), "{what}: {titles}");
    }
    let (code, out, _) = run(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(code, 0);
    assert!(out.contains("✓ Pi ") && !out.contains('✗'), "{out}");
}

#[test]
fn no_pi_at_all() {
    let pi = world().with_env("PATH", "/nonexistent");
    let (code, value) = json(&pi, &["doctor"]);
    assert_eq!(code, 6);
    let bad = bad(&value);
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(
        bad[0].contains("Pi is not installed") && bad[0].contains("npm install"),
        "{bad:?}"
    );
    let (code, out, _) = run(&pi, &["doctor"]);
    assert_eq!(code, 6);
    assert!(
        out.contains("✗ Pi is not installed") && out.contains("npm install"),
        "{out}"
    );
}

#[test]
fn a_pi_that_is_too_old() {
    // R-PI-06: version found, version needed, how to get it
    let pi = world().version("1.3.0");
    let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(code, 6);
    let bad = bad(&value).join("\n");
    assert!(bad.contains("1.3.0") && bad.contains("1.4.0"), "{bad}");
}

#[test]
fn another_program_called_pi() {
    // B100
    let pi = world();
    let other = script(&pi, "pi", "#!/bin/sh\nprintf '3.14159\\033[31m265358979'\n");
    let path = format!("{}:/usr/bin:/bin", other.parent().unwrap().display());
    let pi = pi.with_env("PATH", path);
    let (code, value) = json(&pi, &["doctor"]);
    assert_eq!(code, 6);
    let text = bad(&value).join("\n");
    assert!(
        text.contains(other.to_str().unwrap()) && text.contains("is not Pi"),
        "{text}"
    );
    assert!(text.contains("--pi"), "how to choose: {text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    // And no agent is started with it.
    let guard = crate::support::core::Core::start_with(&WithoutPi(&pi), &[]);
    let (code, _, err) = run(&pi, &["spawn", "task"]);
    assert_eq!(code, 6, "{err}");
    assert!(err.contains("is not Pi") && err.contains("--pi"), "{err}");
    assert!(guard.fleet().agents.is_empty());
}

/// That world, where `--pi` names what PATH has.
struct WithoutPi<'a>(&'a FakePi);

impl World for WithoutPi<'_> {
    fn command(&self, program: &str) -> std::process::Command {
        self.0.command(program)
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        self.0.env()
    }
    fn pi(&self) -> String {
        "pi".to_owned()
    }
}

#[test]
fn no_model_configured() {
    let pi = FakePi::new();
    let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(code, 6);
    let text = bad(&value).join("\n");
    assert!(
        text.contains("no model configured") && text.lines().count() > 1,
        "{text}"
    );
}

#[test]
fn folders_that_cannot_be_used() {
    // As root no permission stops a write; a file where a folder has to be does.
    let pi = world();
    for (dir, what) in [
        (pi.sandbox.data(), "saved sessions"),
        (pi.sandbox.state(), "records"),
    ] {
        let place = dir.join("pi-agents");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::write(&place, "").unwrap();
        let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
        assert_eq!(code, 6, "{what}");
        let bad = bad(&value);
        assert_eq!(bad.len(), 1, "{bad:?}");
        assert!(
            bad[0].contains(what) && bad[0].contains(place.to_str().unwrap()),
            "{bad:?}"
        );
        assert!(bad[0].lines().count() > 1, "it says what to do: {bad:?}");
        std::fs::remove_file(&place).unwrap();
    }
}

#[test]
fn a_core_is_named() {
    let pi = world();
    let core = crate::support::core::Core::start(&pi);
    let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(code, 0);
    assert!(value["checks"].to_string().contains(&core.pid.to_string()));
}

/// A limit on the size of files stands for a full disk: an empty file can be made, nothing written.
#[test]
fn a_place_that_takes_no_bytes_is_not_writable() {
    let pi = world();
    let pi_command = pi.pi();
    let shell = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let output = World::command(&pi, "/bin/sh")
        .args(["-c", shell, "sh", PROGRAM, "doctor", "--json", "--pi"])
        .arg(&pi_command)
        .output()
        .unwrap();
    let (code, out, err) = ended(&output);
    assert_eq!(code, 6, "{out}{err}");
    let value: Value = serde_json::from_str(&out).unwrap();
    let bad = bad(&value);
    for what in ["saved sessions", "records", "sockets"] {
        let told = bad.iter().find(|b| b.starts_with(what));
        let told = told.unwrap_or_else(|| panic!("{what}: {bad:?}"));
        assert!(told.contains("cannot write in") && told.contains("free space"));
    }
}

#[test]
fn a_shell_without_pi_is_told_that_the_core_is_another_matter() {
    let pi = world();
    let core = Core::start(&pi);
    let pi = pi.with_env("PATH", "/nonexistent");
    let (code, value) = json(&pi, &["doctor"]);
    assert_eq!(code, 6);
    let bad = bad(&value);
    assert!(bad[0].contains("Pi is not installed"), "{bad:?}");
    assert!(
        bad[0].contains("PATH and settings of this shell"),
        "{bad:?}"
    );
    core.shutdown();
}

#[test]
fn a_damaged_record_is_named_with_the_way_out() {
    let pi = world();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = core.wait_agent(&name, "idle", |a| a.runs_ended == 1);
    core.shutdown();
    let record = find(&pi.sandbox.state(), &format!("{}.json", row.id)).unwrap();
    std::fs::write(&record, "{").unwrap();
    let (code, value) = json(&pi, &["doctor", "--pi", &pi.pi()]);
    assert_eq!(code, 0, "agents can be started all the same");
    let checks = value["checks"].as_array().unwrap();
    let notes: Vec<&Value> = checks
        .iter()
        .filter(|c| c["verdict"] == "note" && c["title"].as_str().unwrap().contains("damaged"))
        .collect();
    assert_eq!(notes.len(), 1, "{value:#}");
    let title = notes[0]["title"].as_str().unwrap();
    assert!(title.contains(record.to_str().unwrap()), "{title}");
    assert!(notes[0]["fix"].to_string().contains("pi --session"));

    // Whoever lists the agents is told that one is missing there.
    let core = Core::start(&pi);
    let (code, out, err) = run(&pi, &["ps"]);
    assert_eq!(code, 0);
    assert!(out.contains("no agents here yet"), "{out}");
    assert_eq!(err, "pi-agents: damaged record, see doctor\n");
    core.shutdown();
}

/// The file below `dir` with that name.
fn find(dir: &std::path::Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return find(&path, name);
        }
        path.file_name().is_some_and(|n| n == name).then_some(path)
    })
}
