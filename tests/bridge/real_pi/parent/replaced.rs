//! A session that is loaded again, left, resumed, forked, or gone back in: its agents end before the
//! next one starts, and what it is owed reaches it once, and nobody else.

use serde_json::{Value, json};

use super::told::{HANDS, TASK, delivered, names, told};
use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;

/// What is said of a run that ended with its session.
const ENDED: &str = "stopped because its session ended\n\n(no output)";

pub(super) fn with_hands(version: Version) -> Parent {
    Parent::open(version, |pi, command| {
        let path = pi.sandbox.root().join("hands.ts");
        std::fs::write(&path, HANDS).unwrap();
        command.arg("--extension").arg(path);
        command.env("PI_AGENTS_LOG", "debug");
    })
}

/// One agent whose result is there, one that works on: its name.
fn one_done_and_one_at_work(parent: &mut Parent) -> String {
    let gate = Gate::new();
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true))
                .tool("agent_spawn", spawn("part two", true)),
            Turn::say("started"),
            Turn::say("one is there"),
            Turn::say("thank you"),
            Turn::say("as you say"),
        ],
    );
    parent
        .model
        .on("part one", [Turn::new().gate(&gate).text("result of one")]);
    parent.model.on("part two", [Turn::hang()]);
    parent.rpc.run(TASK);
    parent.model.wait_first("part two");
    let before = parent.rpc.records().len();
    gate.open();
    parent.rpc.wait_settled(before);
    let mut names = names(&parent.asked("the whole")[1]);
    let pids: Vec<String> = names
        .iter()
        .flat_map(|name| parent.agents(name))
        .map(|p| p.pid.to_string())
        .collect();
    assert_eq!(pids.len(), 2, "both are resident");
    std::fs::write(parent.pi.work().join("watch"), pids.join(" ")).unwrap();
    names.remove(1)
}

/// Why sessions started so far, and how many of the watched processes lived at that moment.
fn starts(parent: &Parent) -> Vec<String> {
    let text = std::fs::read_to_string(parent.pi.work().join("starts")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Pi 1.4.0 says it twice when it changes the session.
    lines.dedup();
    lines
}

/// State of an agent as it is on record.
fn on_record(parent: &Parent, name: &str) -> Value {
    let folder = parent.pi.sandbox.state().join("pi-agents/session-agents");
    let hosts = std::fs::read_dir(folder).unwrap().flatten();
    let files = hosts.flat_map(|host| std::fs::read_dir(host.path()).unwrap().flatten());
    let records = files.filter_map(|f| std::fs::read_to_string(f.path()).ok());
    let mut records = records.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    let record = records.find(|record| record["name"] == name);
    record.expect("a record")["status"].clone()
}

#[test]
fn a_reload_ends_the_agents_and_tells_of_each_once() {
    // R-PI-03, R-DELIV-05, R-DELIV-17
    for version in Version::ALL {
        let mut parent = with_hands(version);
        let at_work = one_done_and_one_at_work(&mut parent);
        let session = parent.session();
        assert_eq!(parent.rpc.prompt("/again")["success"], true);
        assert_eq!(starts(&parent), ["startup 0", "reload 0"], "{version:?}");
        parent.wait_delivered(&session, &["because its session ended"]);
        parent.stays_quiet("the whole");
        assert_eq!(on_record(&parent, &at_work)["state"], "stopped");
        assert_eq!(on_record(&parent, &at_work)["by"], "host_gone");
        parent.rpc.run("go on");
        assert_eq!(parent.asked("the whole").len(), 4, "{version:?}");
        let last = parent.told_once(&session, "the whole", &["result of one", ENDED]);
        assert_eq!(last[1]["status"], "stopped");
        assert_eq!(last[1]["agent_id"], at_work);
        assert_eq!(last[1].get("idle"), None, "{last:?}");
        // It knows what it was told.
        assert_eq!(parent.rpc.prompt("/again")["success"], true);
        parent.wait_joined(3);
        parent.rpc.run("and once more");
        parent.told_once(&session, "the whole", &["result of one", ENDED]);
    }
}

#[test]
fn another_session_is_told_nothing_and_the_same_one_once() {
    // R-PI-03, R-DELIV-05, R-DELIV-17: /new, /resume
    for version in Version::ALL {
        let mut parent = with_hands(version);
        let at_work = one_done_and_one_at_work(&mut parent);
        let first = parent.session();
        parent.rpc.request("new_session", json!({}));
        assert_eq!(starts(&parent), ["startup 0", "new 0"], "{version:?}");
        parent.model.on(
            "something else",
            [
                Turn::call("agent_spawn", spawn("part three", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("part three", [Turn::hang()]);
        parent
            .rpc
            .run("/skill:pi-subagents-workflow something else");
        let second = parent.session();
        assert_ne!(first, second);
        let requests = parent.asked("something else");
        assert!(requests.iter().all(|r| told(r).is_empty()), "{version:?}");
        // Names are each session's own.
        assert!(requests[1].tool_results()[0].starts_with("@max "));
        let back = json!({"sessionPath": first});
        assert_eq!(parent.rpc.request("switch_session", back)["success"], true);
        assert_eq!(starts(&parent)[2], "resume 0", "{version:?}");
        parent.wait_delivered(&first, &["because its session ended"]);
        parent.stays_quiet("the whole");
        parent.rpc.run("go on");
        let last = parent.told_once(&first, "the whole", &["result of one", ENDED]);
        assert_eq!(last[1]["agent_id"], at_work);
        let there = json!({"sessionPath": second});
        parent.rpc.request("switch_session", there);
        parent.wait_delivered(&second, &["because its session ended"]);
        assert_eq!(delivered(&second).len(), 1, "{version:?}");
        assert_eq!(delivered(&first).len(), 2, "{version:?}");
    }
}

#[test]
fn a_fork_is_told_nothing_of_what_its_origin_is_owed() {
    // R-PI-03, R-DELIV-05, R-DELIV-17: /fork
    for version in Version::ALL {
        let mut parent = with_hands(version);
        one_done_and_one_at_work(&mut parent);
        let first = parent.session();
        let entries = parent.rpc.request("get_entries", json!({}));
        let entries = entries["data"]["entries"].as_array().unwrap();
        let user = entries.iter().find(|e| e["message"]["role"] == "user");
        let fork = json!({"entryId": user.unwrap()["id"]});
        assert_eq!(parent.rpc.request("fork", fork)["success"], true);
        assert_eq!(starts(&parent), ["startup 0", "fork 0"], "{version:?}");
        parent.model.on("on another way", [Turn::say("yes")]);
        parent.rpc.run("on another way");
        let second = parent.session();
        assert_ne!(first, second);
        assert!(delivered(&second).is_empty(), "{version:?}");
        assert!(
            parent
                .asked("on another way")
                .iter()
                .all(|r| told(r).is_empty())
        );
        let back = json!({"sessionPath": first});
        assert_eq!(parent.rpc.request("switch_session", back)["success"], true);
        parent.wait_delivered(&first, &["because its session ended"]);
        parent.rpc.run("go on");
        parent.told_once(&first, "the whole", &["result of one", ENDED]);
        assert!(delivered(&second).is_empty(), "{version:?}");
    }
}

#[test]
fn a_result_comes_once_whatever_branch_is_open() {
    // R-DELIV-05: /tree changes no session; its agents work on
    for version in Version::ALL {
        let mut parent = with_hands(version);
        let gate = Gate::new();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::say("as you say"),
                Turn::say("again"),
            ],
        );
        parent.model.on("result of one", [Turn::say("thank you")]);
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent.rpc.run(TASK);
        let session = parent.session();
        let leaf = parent.rpc.request("get_entries", json!({}))["data"]["leafId"].clone();
        let leaf = leaf.as_str().unwrap().to_owned();
        assert_eq!(parent.rpc.prompt("/back")["success"], true);
        let before = parent.rpc.records().len();
        gate.open();
        parent.rpc.wait_settled(before);
        // The branch without the task has the result alone.
        parent.told_once(&session, "result of one", &["result of one"]);
        assert_eq!(parent.rpc.prompt(&format!("/to {leaf}"))["success"], true);
        parent.stays_quiet("the whole");
        parent.rpc.run("go on");
        let requests = parent.asked("the whole");
        assert_eq!(requests.len(), 3, "{version:?}");
        assert!(told(&requests[2]).is_empty(), "it is in the other branch");
        assert_eq!(delivered(&session).len(), 1, "{version:?}");
        // The next core finds it there, too.
        assert_eq!(parent.rpc.prompt("/again")["success"], true);
        parent.wait_joined(2);
        parent.rpc.run("and once more");
        assert_eq!(delivered(&session).len(), 1, "{version:?}");
    }
}
