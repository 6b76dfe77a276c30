//! Agents in the background: the call returns when they have started, and their results come by
//! themselves, to a parent that works, does nothing, or was aborted.

use serde_json::json;

use super::told::{TASK, names, results, told};
use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

#[test]
fn a_background_call_returns_at_the_start_and_the_result_is_the_contracts() {
    // R-TOOL-01, R-DELIV-01
    for version in Version::ALL {
        let mut parent = Parent::with(version, &[("PI_AGENTS_LOG", "debug")]);
        let (held, first, second) = (Gate::new(), Gate::new(), Gate::new());
        let mut other = spawn("part two", true);
        other["persistent"] = json!(false);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)).tool("agent_spawn", other),
                Turn::say("started"),
                Turn::new().gate(&held).text("one of two"),
                Turn::say("thank you"),
            ],
        );
        for (part, gate) in [("one", &first), ("two", &second)] {
            let result = format!("result of {part}");
            parent.model.on(
                &format!("part {part}"),
                [Turn::new().gate(gate).text(&result)],
            );
        }
        parent.rpc.run(TASK);
        // Both still work: no result was waited for.
        let requests = parent.asked("the whole");
        let answers = requests[1].tool_results();
        let mut paths = Vec::new();
        let names = names(&requests[1]);
        for (answer, name) in answers.iter().zip(&names) {
            assert!(
                answer.starts_with(&format!("@{name} has started")),
                "{answer}"
            );
            let (_, path) = answer.split_once("Session: ").expect("a session path");
            assert!(!answer.contains("result of"), "{answer}");
            paths.push(path.to_owned());
        }
        first.wait_arrival("the first agent's request");
        second.wait_arrival("the second agent's request");
        for (path, part) in paths.iter().zip(["part one", "part two"]) {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(part), "the session of the agent: {text}");
        }
        first.open();
        held.wait_arrival("the wake");
        second.open();
        parent.wait_held(1);
        let before = parent.rpc.records().len();
        held.open();
        parent.rpc.wait_settled(before);
        let session = parent.session();
        let last = parent.told_once(&session, "the whole", &["result of one", "result of two"]);
        for (at, part) in ["one", "two"].into_iter().enumerate() {
            let id = last[at]["completion_id"].clone();
            assert!(id.as_str().is_some_and(|id| id.ends_with(":1")), "{id}");
            let mut expected = json!({
                "kind": "final_reply",
                "completion_id": id,
                "status": "completed",
                "agent_id": names[at],
                "result": format!("result of {part}"),
                "session_path": paths[at],
            });
            // Only one that stays is idle.
            if part == "one" {
                expected["idle"] = json!(true);
            }
            assert_eq!(last[at], expected, "{version:?}");
        }
    }
}

#[test]
fn three_results_reach_a_busy_parent_together_with_one_continuation() {
    // B037, R-DELIV-01, R-DELIV-02
    for version in Version::ALL {
        let mut parent = Parent::with(version, &[("PI_AGENTS_LOG", "debug")]);
        let (held, children) = (Gate::new(), Gate::new());
        parent.model.on(
            "the whole",
            [
                three(),
                Turn::new().gate(&held).text("meanwhile"),
                Turn::say("thank you"),
            ],
        );
        answers(&parent, &children);
        let before = parent.rpc.records().len();
        parent.rpc.prompt(TASK);
        held.wait_arrival("the parent's second request");
        children.open();
        parent.wait_held(3);
        held.open();
        parent.rpc.wait_settled(before);
        let requests = parent.asked("the whole");
        assert_eq!(requests.len(), 3, "{version:?}: one continuation");
        let session = parent.session();
        parent.told_once(&session, "the whole", &RESULTS);
    }
}

#[test]
fn three_results_wake_an_idle_parent_once() {
    // B037, R-DELIV-03: those that come while the run goes on that the first one started join it
    for version in Version::ALL {
        let mut parent = Parent::with(version, &[("PI_AGENTS_LOG", "debug")]);
        let (held, children) = (Gate::new(), Gate::new());
        parent.model.on(
            "the whole",
            [
                three(),
                Turn::say("started"),
                Turn::new().gate(&held).text("I see"),
                Turn::say("thank you"),
            ],
        );
        answers(&parent, &children);
        parent.rpc.run(TASK);
        let before = parent.rpc.records().len();
        children.open();
        held.wait_arrival("the wake");
        let woken = told(&parent.asked("the whole")[2]).len();
        parent.wait_held(3 - woken);
        held.open();
        let records = parent.rpc.wait_settled(before);
        let starts = records.iter().filter(|r| r["type"] == "agent_start");
        assert_eq!(starts.count(), 1, "{version:?}: one wake");
        let requests = parent.asked("the whole").len();
        assert_eq!(requests, if woken == 3 { 3 } else { 4 }, "{version:?}");
        let session = parent.session();
        parent.told_once(&session, "the whole", &RESULTS);
    }
}

#[test]
fn a_result_is_told_once_whoever_looks_on() {
    // B035, R-DELIV-03: viewers show the end, and only the core tells the session
    let mut parent = Parent::start(Version::Newest);
    let end = Gate::new();
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true)),
            Turn::say("started"),
            Turn::say("thank you"),
        ],
    );
    parent
        .model
        .on("part one", [Turn::new().gate(&end).text("result of one")]);
    parent.rpc.run(TASK);
    end.wait_arrival("the agent at work");
    let viewers = [parent.viewer(), parent.viewer()];
    let before = parent.rpc.records().len();
    end.open();
    for viewer in &viewers {
        viewer.wait_shows("runs_ended: 1");
    }
    let records = parent.rpc.wait_settled(before);
    let starts = records.iter().filter(|r| r["type"] == "agent_start");
    assert_eq!(starts.count(), 1, "one wake");
    assert_eq!(parent.asked("the whole").len(), 3);
    let session = parent.session();
    parent.told_once(&session, "the whole", &["result of one"]);
}

#[test]
fn after_an_abort_results_and_questions_wait_for_the_next_prompt() {
    // R-DELIV-04, R-DELIV-18
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        let (ask, end) = (Gate::new(), Gate::new());
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::hang(),
                Turn::say("thank you"),
            ],
        );
        let question = json!({"to": "@parent", "message": "which branch?"});
        parent.model.on(
            "part one",
            [
                Turn::new().gate(&ask).tool("agent_send", question),
                Turn::new().gate(&end).text("it is done"),
            ],
        );
        parent.rpc.run(TASK);
        let before = parent.rpc.records().len();
        parent.rpc.prompt("something else");
        wait::wait_until("the request", || parent.asked("the whole").len() == 3);
        parent.rpc.request("abort", json!({}));
        parent.rpc.wait_settled(before);
        let session = parent.session();
        ask.open();
        parent.wait_delivered(&session, &["which branch?"]);
        end.open();
        parent.wait_delivered(&session, &["it is done"]);
        parent.stays_quiet("the whole");
        assert_eq!(parent.asked("the whole").len(), 3, "{version:?}");
        parent.rpc.run("go on");
        assert_eq!(parent.asked("the whole").len(), 4, "{version:?}");
        let last = parent.told_once(&session, "the whole", &["it is done"]);
        assert_eq!(
            last[0],
            json!({"kind": "non_blocking_question", "agent_id": "max", "question": "which branch?"})
        );
        assert_eq!(results(&last), ["it is done"]);
    }
}

const RESULTS: [&str; 3] = ["result of one", "result of three", "result of two"];

fn three() -> Turn {
    Turn::call("agent_spawn", spawn("part one", true))
        .tool("agent_spawn", spawn("part two", true))
        .tool("agent_spawn", spawn("part three", true))
}

fn answers(parent: &Parent, gate: &Gate) {
    for part in ["one", "two", "three"] {
        let result = format!("result of {part}");
        parent.model.on(
            &format!("part {part}"),
            [Turn::new().gate(gate).text(&result)],
        );
    }
}
