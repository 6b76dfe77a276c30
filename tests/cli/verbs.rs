//! The shell verbs against a running core (R-OPS-01).

use pi_agents::fleet::roster::Badge;
use serde_json::{Value, json};

use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::wait;

use super::{json, run};

/// Waits until `ps --json` shows the agent as wanted and gives its row.
#[track_caller]
fn wait_row(pi: &FakePi, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    wait::wait_for(&format!("@{name}: {what}"), || {
        let (_, list) = json(pi, &["ps"]);
        let rows = list["agents"].as_array().unwrap();
        let row = rows.iter().find(|r| r["name"] == name)?;
        wanted(row).then(|| row.clone())
    })
}

fn state(row: &Value) -> &str {
    row["status"]["state"].as_str().unwrap()
}

#[test]
fn spawn_send_stop_and_shutdown_as_json() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (code, list) = json(&pi, &["ps"]);
    assert_eq!((code, &list["agents"]), (0, &json!([])));

    let (code, spawned) = json(
        &pi,
        &[
            "spawn",
            "--label",
            "the label",
            "--model",
            "fake/one",
            "--tools",
            "read, bash",
            "do it",
        ],
    );
    assert_eq!(code, 0, "{spawned}");
    let name = spawned["name"].as_str().unwrap().to_owned();
    assert!(spawned["agent"].is_string());
    let row = wait_row(&pi, &name, "idle", |r| state(r) == "idle");
    assert_eq!(row["spec"]["label"], "the label");
    assert_eq!(
        row["spec"]["tools"],
        json!({"choice": "only", "names": ["read", "bash"]})
    );
    assert_eq!(row["session_path"], spawned["session_path"]);
    assert_eq!(row["runs_ended"], 1);

    let (code, sent) = json(&pi, &["send", &format!("@{name}"), "fake:hang"]);
    assert_eq!(code, 0, "{sent}");
    assert_eq!(
        (&sent["revived"], &sent["steered"]),
        (&json!(false), &json!(false))
    );
    wait_row(&pi, &name, "running", |r| {
        state(r) == "running" && !r["run_started_ms"].is_null()
    });
    let (_, steered) = json(&pi, &["send", &name, "and", "another", "thing"]);
    assert_eq!(steered["steered"], true);
    assert!(
        pi.commands("prompt")
            .iter()
            .any(|c| c["message"] == "and another thing"),
        "words are joined"
    );

    let (code, stopped) = json(&pi, &["stop", &format!("@{name}")]);
    assert_eq!(code, 0);
    assert_eq!(
        stopped["stopped"],
        json!([{"name": name, "was_live": true}])
    );
    let (_, again) = json(&pi, &["stop", &name]);
    assert_eq!(again["stopped"], json!([{"name": name, "was_live": false}]));
    let row = wait_row(&pi, &name, "stopped", |r| state(r) == "stopped");
    assert_eq!(row["status"]["by"], "you");

    // By its id too.
    let (code, revived) = json(&pi, &["send", spawned["agent"].as_str().unwrap(), "back"]);
    assert_eq!((code, &revived["revived"]), (0, &json!(true)));

    let (code, ended) = json(&pi, &["shutdown"]);
    assert_eq!((code, &ended["ended"]), (0, &json!(true)));
    core.wait_lost();
    assert_eq!(run(&pi, &["ps"]).0, 3);
}

#[test]
fn the_same_for_eyes() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (_, out, _) = run(&pi, &["ps"]);
    assert!(out.contains("no agents here yet"), "{out}");
    let (code, out, err) = run(&pi, &["spawn", "do", "it"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let name = out
        .strip_prefix('@')
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    assert!(
        out.lines().nth(1).unwrap().starts_with("session: /"),
        "{out}"
    );
    core.wait_agent(&name, "idle", |a| a.runs_ended == 1);
    let (_, out, _) = run(&pi, &["ps"]);
    assert!(
        out.contains(&format!("@{name}")) && out.contains(" idle ") && out.contains(" · do it"),
        "{out}"
    );
    let (_, out, _) = run(&pi, &["send", &name, "more"]);
    assert_eq!(out, format!("@{name} delivered\n"));
    let (_, out, _) = run(&pi, &["stop", &name]);
    assert_eq!(out, format!("@{name} stopped\n"));
    let (_, out, _) = run(&pi, &["stop", &name]);
    assert_eq!(out, format!("@{name} was not running\n"));
    let (_, out, _) = run(&pi, &["send", &name, "again"]);
    assert_eq!(out, format!("@{name} revived and delivered\n"));
    let (code, out, _) = run(&pi, &["shutdown"]);
    assert_eq!(code, 0);
    assert!(out.contains("the core has ended"), "{out}");
}

#[test]
fn stop_all_stops_all() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    for _ in 0..3 {
        core.spawn("fake:hang");
    }
    let (code, stopped) = json(&pi, &["stop", "--all"]);
    assert_eq!(code, 0);
    assert_eq!(stopped["stopped"].as_array().unwrap().len(), 3);
    let (_, none) = json(&pi, &["stop", "--all"]);
    assert_eq!(none["stopped"], json!([]));
}

#[test]
fn an_unknown_agent_is_code_4_and_the_known_ones_are_named() {
    // R-TOOL-02
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (code, _, err) = run(&pi, &["send", "nobody", "hello"]);
    assert_eq!(code, 4);
    assert!(
        err.contains("@nobody") && err.contains("no agents"),
        "{err}"
    );
    let name = core.spawn("task");
    for args in [&["send", "nobody", "hello"][..], &["stop", "@nobody"]] {
        let (code, _, err) = run(&pi, args);
        assert_eq!(code, 4, "{args:?}");
        assert!(
            err.contains("@nobody") && err.contains(&format!("@{name}")),
            "{err}"
        );
    }
    // The one that is there is stopped all the same.
    let (code, failed) = json(&pi, &["stop", &name, "nobody"]);
    assert_eq!(code, 4, "{failed}");
    assert_eq!(failed["error"]["exit"], 4);
    core.wait_agent(&name, "stopped", |a| !a.status.is_live());
}

#[test]
fn a_start_that_fails_is_code_6_with_its_reason() {
    let pi = FakePi::new().options("--exit 3");
    let _core = Core::start(&pi);
    let (code, out, err) = run(&pi, &["spawn", "task"]);
    assert_eq!((code, out.as_str()), (6, ""));
    assert!(
        err.contains("exit code 3: Error: fake pi was told"),
        "{err}"
    );
    let (code, value) = json(&pi, &["spawn", "task"]);
    assert_eq!(code, 6);
    assert!(
        value["error"]["message"]
            .as_str()
            .unwrap()
            .contains("exit code 3")
    );
    let (code, _, err) = run(&pi, &["spawn", "--cwd", "nowhere", "task"]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("nowhere") && err.contains("does not exist"),
        "{err}"
    );
}

#[test]
fn nothing_a_child_says_acts_on_the_terminal() {
    // B044, R-TUI-10
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31mred\u{202e}";
    let mut request = core.spawn_request(&format!("fake:error {hostile}why"));
    request.label = Some(format!("{hostile}label"));
    let name = core.spawn_as(request);
    core.wait_agent(&name, "failed", |a| a.pid.is_none() && !a.status.is_live());
    let (code, out, _) = run(&pi, &["ps"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("label") && out.contains("failed") && out.contains("why"),
        "{out:?}"
    );
    assert_eq!(out.lines().count(), 1);
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!out.contains(bad), "{out:?}");
    // What the asker himself typed comes back in an error.
    let (code, _, err) = run(&pi, &["stop", "no\u{1b}[31mbody"]);
    assert_eq!(code, 4);
    assert!(!err.contains(bad), "{err:?}");
    // JSON carries it whole, escaped.
    let (_, list) = json(&pi, &["ps"]);
    let label = list["agents"][0]["spec"]["label"].as_str().unwrap();
    assert!(label.contains('\u{1b}'), "{label:?}");
    let (_, raw, _) = run(&pi, &["ps", "--json"]);
    assert!(!raw.contains(['\u{1b}', '\u{7}']), "{raw:?}");
}

#[test]
fn every_printed_name_is_in_the_documentation() {
    // docs/json.md: what a script can rely on
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "idle", |a| a.runs_ended == 1);
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut missing = Vec::new();
    let mut look = |value: &Value| {
        let mut open = vec![value.clone()];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        if !page.contains(&format!("`{key}`")) {
                            missing.push(key);
                        }
                        open.push(value);
                    }
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
    };
    look(&json(&pi, &["ps"]).1);
    look(&json(&pi, &["spawn", "another"]).1);
    look(&json(&pi, &["send", &name, "hello"]).1);
    look(&json(&pi, &["send", "nobody", "hello"]).1);
    look(&json(&pi, &["stop", &name]).1);
    look(&json(&pi, &["explain", &name]).1);
    look(&json(&pi, &["doctor"]).1);
    look(&json(&pi, &["shutdown"]).1);
    // What this core had no reason to say.
    for badge in Badge::ALL {
        let name = serde_json::to_value(badge).unwrap();
        look(&json!({ (name.as_str().unwrap()): null }));
    }
    assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
}

#[test]
fn no_name_is_documented_twice_in_a_table() {
    // docs/json.md: two rows about one field can say two things
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut seen = std::collections::HashSet::new();
    let mut tables = 0;
    for line in page.lines() {
        let Some(first) = line.strip_prefix("| `") else {
            tables += usize::from(line.starts_with("|---"));
            seen.clear();
            continue;
        };
        let names = first.split(" | ").next().unwrap().split('`').step_by(2);
        for name in names.filter(|name| !name.is_empty()) {
            assert!(seen.insert(name.to_owned()), "twice: {name}");
        }
    }
    assert!(tables > 5, "{tables}");
}
