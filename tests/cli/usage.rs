//! Help, versions, wrong command lines, broken settings.

use std::io::Write;
use std::process::Stdio;

use crate::support::core::{Core, PROGRAM, serve};
use crate::support::fake::FakePi;

use super::{ended, json, run};

const VERBS: &[&str] = &[
    "ps", "spawn", "send", "stop", "shutdown", "serve", "demo", "doctor",
];

#[test]
fn help_and_version_always_work() {
    // B102, R-OPS-01
    let pi = FakePi::new();
    let (code, out, err) = run(&pi, &["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for verb in VERBS {
        assert!(out.contains(&format!("  {verb} ")), "{verb}: {out}");
        let (code, help, _) = run(&pi, &[verb, "--help"]);
        assert_eq!(code, 0, "{verb}");
        assert!(help.contains("Usage:"), "{verb}: {help}");
    }
    assert!(!out.contains("demo-agent"), "{out}");
    assert!(!out.contains('\u{1b}'), "no escapes in a pipe");
    let (code, out, _) = run(&pi, &["--version"]);
    assert_eq!(code, 0);
    assert_eq!(out, format!("pi-agents {}\n", env!("CARGO_PKG_VERSION")));
    // Also without a home and without anything in the environment.
    let bare = std::process::Command::new(PROGRAM)
        .env_clear()
        .arg("--help")
        .output()
        .unwrap();
    assert!(bare.status.success());
}

#[test]
fn a_wrong_command_line_is_code_2() {
    let pi = FakePi::new();
    for args in [
        &["no-such-verb"][..],
        &["ps", "--no-such-option"],
        &["spawn"],
        &["send", "max"],
        &["stop"],
        &["stop", "--all", "max"],
        &["serve", "--host", "somebody"],
        &["spawn", "--limit", "soon", "task"],
    ] {
        let (code, out, err) = run(&pi, args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(out.is_empty() && !err.is_empty(), "{args:?}");
    }
    let (code, _, err) = run(&pi, &["spawn", "--thinking", "a-lot", "task"]);
    assert_eq!(code, 2);
    assert!(err.contains("a-lot") && err.contains("minimal"), "{err}");
    let (code, _, err) = run(&pi, &["ps", "--in", "not/there"]);
    assert_eq!(code, 2);
    assert!(err.contains("not/there"), "{err}");
}

#[test]
fn a_wrong_command_line_with_json_is_a_line_of_json() {
    // docs/json.md: any verb says its failures so
    let pi = FakePi::new();
    for (args, wanted) in [
        (&["ps", "--bogus"][..], "--bogus"),
        (&["spawn"], "<TASK>"),
        (&["spawn", "--limit", "x", "task"], "--limit"),
        (&["stop"], "required"),
        (&["no-such-verb"], "no-such-verb"),
    ] {
        let (code, value) = json(&pi, args);
        let error = &value["error"];
        assert_eq!((code, &error["exit"]), (2, &2.into()), "{args:?}: {value}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(wanted), "{args:?}: {value}");
        assert!(!message.contains('\n') && !message.starts_with("error"));
        assert!(error["hint"].as_str().unwrap().contains("--help"));
    }
    // A word of the task is no option.
    let (code, out, err) = run(&pi, &["spawn", "--bogus", "--", "--json"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("--bogus"), "{err}");
    // Help is asked for, not wrong.
    let (code, out, _) = run(&pi, &["ps", "--json", "--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage:"), "{out}");
}

#[test]
fn the_line_of_serve_is_as_documented() {
    // docs/json.md
    let pi = FakePi::new();
    let (mut guard, ready) = serve(&pi, &[]);
    assert_eq!(ready["version"], 1, "{ready}");
    assert!(ready["ready"]["core"].is_string(), "{ready}");
    let (mut second, refused) = serve(&pi, &[]);
    assert_eq!(refused["version"], 1, "{refused}");
    assert_eq!(refused["error"]["exit"], 5, "{refused}");
    assert!(refused["error"]["message"].is_string());
    assert_eq!(second.wait().unwrap().code(), Some(5));
    assert_eq!(run(&pi, &["shutdown"]).0, 0);
    guard.wait().unwrap();
}

/// Runs the program with its output into a device that is full.
#[cfg(target_os = "linux")]
fn into_full(pi: &FakePi, args: &[&str]) -> (i32, String) {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = pi
        .command(PROGRAM)
        .args(args)
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let (code, _, err) = ended(&output);
    (code, err)
}

#[cfg(target_os = "linux")]
#[test]
fn lost_output_is_no_success() {
    // R-OPS-01
    let pi = FakePi::new();
    let (code, err) = into_full(&pi, &["ps", "--json"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("no core works for"), "{err}");
    let _core = Core::start(&pi);
    for args in [&["ps"][..], &["ps", "--json"], &["--help"], &["--version"]] {
        let (code, err) = into_full(&pi, args);
        assert_eq!(code, 1, "{args:?}: {err}");
        assert!(err.contains("output cannot be written"), "{args:?}: {err}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    // B102
    let pi = FakePi::new();
    let _core = Core::start(&pi);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = pi
        .command(PROGRAM)
        .arg("ps")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let (code, _, err) = ended(&output);
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn options_after_the_words_are_options_and_no_part_of_the_task() {
    // R-PI-10: `spawn fix it --model x` must not run another model with a longer task.
    let pi = FakePi::new();
    let _core = Core::start(&pi);
    let (code, _, err) = run(
        &pi,
        &[
            "spawn", "do", "it", "--label", "named", "--model", "fake/one",
        ],
    );
    assert_eq!(code, 0, "{err}");
    assert_eq!(pi.commands("prompt")[0]["message"], "do it");
    let (code, _, err) = run(&pi, &["spawn", "do", "it", "--modle", "x"]);
    assert_eq!(code, 2);
    assert!(err.contains("--modle"), "{err}");
    let (code, _, err) = run(
        &pi,
        &["spawn", "--label", "x", "--", "explain", "--mode", "rpc"],
    );
    assert_eq!(code, 0, "{err}");
    assert_eq!(pi.commands("prompt")[1]["message"], "explain --mode rpc");
}

#[test]
fn without_a_core_the_code_is_3_and_the_way_out_is_named() {
    let pi = FakePi::new();
    for args in [
        &["ps"][..],
        &["spawn", "task"],
        &["send", "max", "hello"],
        &["stop", "max"],
        &["stop", "--all"],
        &["shutdown"],
    ] {
        let (code, out, err) = run(&pi, args);
        assert_eq!(code, 3, "{args:?}: {err}");
        assert!(out.is_empty(), "{out}");
        assert!(err.contains("no core works for"), "{err}");
        assert!(err.contains("pi-agents serve"), "{err}");
    }
    let (code, value) = json(&pi, &["ps"]);
    assert_eq!(code, 3);
    assert_eq!(value["error"]["exit"], 3);
    assert!(value["error"]["hint"].is_string());
}

#[test]
fn a_core_of_another_folder_is_not_this_ones() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    core.spawn("task");
    let other = pi.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let (code, _, _) = run(&pi, &["ps", "--in", other.to_str().unwrap()]);
    assert_eq!(code, 3);
    let (code, value) = json(&pi, &["ps", "--in", pi.work().to_str().unwrap()]);
    assert_eq!(code, 0);
    assert_eq!(value["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn a_broken_settings_file_is_told_by_line_and_key() {
    // R-OPS-04
    let pi = FakePi::new();
    let dir = pi.sandbox.config().join("pi-agents");
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("config.toml");
    for (text, line, word) in [
        ("# first\nmodle = \"x\"\n", "line 2", "modle"),
        ("[stop]\n\neof_ms = \"soon\"\n", "line 3", "eof_ms"),
        ("pi = \"pi\"\nlog = \n", "line 2", ""),
        ("[launch]\nslots = 0\n", "line 2", "slots"),
        ("\nlog = \"loud\"\n", "line 2", "`loud` is not a log level"),
    ] {
        std::fs::write(&file, text).unwrap();
        let (code, _, err) = run(&pi, &["ps"]);
        assert_eq!(code, 2, "{text:?}: {err}");
        assert!(err.contains("config.toml"), "{err}");
        assert!(err.contains(line) && err.contains(word), "{text:?}: {err}");
    }
    std::fs::remove_file(&file).unwrap();
    let pi = pi.with_env("PI_AGENTS_STOP_EOF_MS", "soon");
    let (code, _, err) = run(&pi, &["ps"]);
    assert_eq!(code, 2);
    assert!(err.contains("PI_AGENTS_STOP_EOF_MS"), "{err}");
}

#[test]
fn the_level_of_the_log_comes_from_the_settings() {
    // R-OPS-04, R-OPS-05
    let pi = FakePi::new();
    let dir = pi.sandbox.config().join("pi-agents");
    std::fs::create_dir(&dir).unwrap();
    let logs = pi.sandbox.state().join("pi-agents/logs");
    let file = dir.join("config.toml");
    for (level, told) in [("info", true), ("error", false)] {
        std::fs::write(&file, format!("log = \"{level}\"\n")).unwrap();
        let core = Core::start(&pi);
        core.shutdown();
        let mut said = String::new();
        for entry in std::fs::read_dir(&logs).unwrap() {
            let path = entry.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("core-")
            {
                said += &std::fs::read_to_string(&path).unwrap();
                std::fs::remove_file(&path).unwrap();
            }
        }
        assert_eq!(said.contains("core ended"), told, "{level}: {said}");
    }
    let pi = pi.with_env("PI_AGENTS_LOG", "loud");
    let (code, _, err) = run(&pi, &["ps"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("PI_AGENTS_LOG: `loud` is not a log level"),
        "{err}"
    );
}

#[test]
fn a_core_that_cannot_start_says_why_in_one_line() {
    let pi = FakePi::new().with_env("PI_AGENTS_LAUNCH_SLOTS", "many");
    let (code, out, err) = run(&pi, &["serve"]);
    assert_eq!(code, 2, "{out} {err}");
    assert!(
        format!("{out}{err}").contains("PI_AGENTS_LAUNCH_SLOTS"),
        "{out} {err}"
    );
    let (code, out, err) = run(&FakePi::new(), &["serve", "--in", "/no/such/folder"]);
    assert_eq!(code, 2, "{out} {err}");
}

#[test]
fn a_task_can_come_from_standard_input() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut child = crate::support::core::World::command(&pi, PROGRAM)
        .args(["spawn", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = "first line\n  second line, with \"quotes\"\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let (code, out, err) = ended(&child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with('@') && out.contains("started"), "{out}");
    assert_eq!(pi.commands("prompt")[0]["message"], text);
    let fleet = core.wait_fleet("it is known", |f| f.agents.len() == 1);
    assert_eq!(fleet.agents[0].spec.label, "first line");
}

#[test]
fn options_of_the_dashboard_before_a_subcommand_are_refused() {
    // `pi-agents --cwd OTHER shutdown` must not stop the agents of this folder
    let world = crate::support::fake::FakePi::new();
    for option in ["--cwd", "--pi", "--model"] {
        let output = crate::support::core::verb(&world, &[option, "x", "shutdown"]);
        assert_eq!(output.status.code(), Some(2), "{option}");
    }
}
