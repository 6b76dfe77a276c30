//! Which core a shell verb is about, when Pi sessions have cores of their own (design §2).

use serde_json::{Value, json};

use super::bridge::{Bridge, facts};
use crate::support::core::{Core, verb};
use crate::support::fake::FakePi;
use crate::support::wait;

pub const FIRST: &str = "0199c0de-0000-7000-8000-000000000001";
pub const SECOND: &str = "0199c0df-0000-7000-8000-000000000002";

/// Exit code, stdout, stderr.
pub fn run(pi: &FakePi, args: &[&str]) -> (i32, String, String) {
    let output = verb(pi, args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("not by signal");
    (code, text(output.stdout), text(output.stderr))
}

pub fn json_of(pi: &FakePi, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(pi, &[args, &["--json"]].concat());
    let value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    (code, value)
}

#[track_caller]
fn works(pi: &FakePi, args: &[&str]) -> String {
    let (code, out, err) = run(pi, args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    out
}

#[track_caller]
fn fails(pi: &FakePi, args: &[&str], with: i32, says: &[&str]) {
    let (code, out, err) = run(pi, args);
    assert_eq!((code, out.as_str()), (with, ""), "{args:?}: {err}");
    for word in says {
        assert!(err.contains(word), "{args:?} does not say {word:?}: {err}");
    }
}

#[test]
fn a_name_that_only_a_pi_session_has_is_found_without_an_option() {
    // R-OPS-01
    let pi = FakePi::new();
    fails(&pi, &["ps"], 3, &["no core works for"]);
    let mut bridge = Bridge::start(&pi, FIRST);
    bridge.spawn("fake:hang");
    assert!(works(&pi, &["explain", "max"]).contains("running"));
    // A core of one's own that has nobody of that name changes nothing.
    let core = Core::start(&pi);
    assert!(works(&pi, &["explain", "@max"]).contains("running"));
    assert_eq!(works(&pi, &["stop", "max"]), "@max stopped\n");
    fails(&pi, &["stop", "zoe"], 4, &["@zoe", "known here: @max"]);
    core.shutdown();
    // Everything that names nobody is about one's own agents.
    fails(
        &pi,
        &["stop", "--all"],
        3,
        &["no core works", "--session 0199c0de"],
    );
    fails(&pi, &["spawn", "task"], 3, &["no core works"]);
    fails(&pi, &["shutdown"], 3, &["no core works"]);
    fails(&pi, &["explain", "max", "--own"], 3, &["no core works"]);
}

#[test]
fn a_name_that_several_have_is_asked_back_with_the_options() {
    // R-OPS-01: nothing is guessed
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:hang");
    let mut first = Bridge::start(&pi, FIRST);
    let mut second = Bridge::start(&pi, SECOND);
    assert_eq!(first.spawn("fake:hang"), name);
    assert_eq!(second.spawn("fake:hang"), name);
    for args in [
        &["stop", &name][..],
        &["explain", &name],
        &["send", &name, "hello"],
    ] {
        let says = [
            "several agents are called @max",
            "--own",
            "--session 0199c0de",
            "--session 0199c0df",
        ];
        fails(&pi, args, 2, &says);
    }
    assert_eq!(pi.commands("prompt").len(), 3, "nothing was sent");
    assert!(works(&pi, &["explain", &name, "--own"]).contains("running"));
    assert_eq!(
        works(&pi, &["stop", &name, "--session", "0199c0de"]),
        "@max stopped\n"
    );
    let state = |args: &[&str]| {
        let (_, said) = json_of(&pi, &[&["explain", &name], args].concat());
        said["explanation"]["status"]["state"].clone()
    };
    assert_eq!(state(&["--own"]), "running");
    assert_eq!(state(&["--session", FIRST]), "stopped");
    assert_eq!(state(&["--session", "0199c0df"]), "running");
    // An id is one agent, wherever it is.
    let id = core.agent(&name).id.to_string();
    assert_eq!(works(&pi, &["stop", &id]), format!("@{id} stopped\n"));
    assert_eq!(state(&["--session", "0199c0df"]), "running");
    // All of one session.
    assert_eq!(
        works(&pi, &["stop", "--all", "--session", "0199c0df"]),
        "@max stopped\n"
    );
}

#[test]
fn a_session_that_is_not_clear_is_asked_back() {
    // R-OPS-01: none is its own exit code
    let pi = FakePi::new();
    let _first = Bridge::start(&pi, FIRST);
    let _second = Bridge::start(&pi, SECOND);
    let says = [
        "several Pi sessions",
        "--session 0199c0de",
        "--session 0199c0df",
    ];
    fails(&pi, &["ps", "--session", "0199"], 2, &says);
    let says = ["no Pi session is running", "--session 0199c0de"];
    fails(&pi, &["ps", "--session", "0200"], 3, &says);
    fails(&pi, &["ps", "--session", ""], 3, &says);
    fails(&pi, &["ps", "--session", FIRST, "--own"], 2, &["--own"]);
    fails(&pi, &["ps", "--session", FIRST, "--in", "."], 2, &["--in"]);
    // It is found from any folder.
    let mut command = pi.command(crate::support::core::PROGRAM);
    let output = command
        .args(["ps", "--session", "0199c0df"])
        .current_dir("/")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn ps_lists_the_agents_of_the_folder_by_whose_they_are() {
    // R-OPS-01
    let pi = FakePi::new();
    let mut first = Bridge::start(&pi, FIRST);
    first.spawn("fake:hang");
    let (code, list) = json_of(&pi, &["ps"]);
    assert_eq!(
        (code, &list["core"], &list["agents"]),
        (0, &Value::Null, &json!([]))
    );
    let other = &list["others"][0];
    assert_eq!(other["core"]["sessions"][0]["session"], FIRST);
    assert_eq!(other["agents"][0]["name"], "max");
    let core = Core::start(&pi);
    core.spawn("fake:hang");
    let _second = Bridge::start(&pi, SECOND);
    let out = works(&pi, &["ps"]);
    let folder = pi.work().canonicalize().unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], format!("you · {}", folder.display()));
    assert!(lines[1].contains("@max"), "{out}");
    assert!(out.contains(&format!("pi session {FIRST} · ")), "{out}");
    assert!(out.contains(&format!("pi session {SECOND} · ")), "{out}");
    assert_eq!(lines.len(), 5, "{out}");
    let out = works(&pi, &["ps", "--own"]);
    assert_eq!(out.lines().count(), 1, "{out}");
    let out = works(&pi, &["ps", "--session", "0199c0de"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    // Another folder sees them only when it asks for all.
    let mut command = pi.command(crate::support::core::PROGRAM);
    let output = command
        .args(["ps", "--all", "--json"])
        .current_dir("/")
        .output();
    let output = output.unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["others"].as_array().map(Vec::len), Some(3), "{list}");
    fails(&pi, &["ps", "--in", "/"], 3, &["no core works for /"]);
}

#[test]
fn a_session_that_left_is_none_any_more() {
    // R-LIFE-08
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut bridge = Bridge::start(&pi, FIRST);
    bridge.spawn("fake:hang");
    bridge.hang_up();
    bridge.wait_exit();
    fails(&pi, &["explain", "max"], 4, &["no such agent"]);
    fails(&pi, &["ps", "--session", FIRST], 3, &["no Pi session"]);
    drop(core);
    // One whose session says goodbye before its process goes.
    let mut bridge = Bridge::with(&pi, facts(&pi, SECOND, &[])).unwrap();
    bridge.spawn("fake:say done");
    bridge.leave("quit");
    wait::wait_until("the session to be gone from the list", || {
        let (code, list) = json_of(&pi, &["ps"]);
        code == 3 || list["others"][0]["core"].get("sessions").is_none()
    });
}
