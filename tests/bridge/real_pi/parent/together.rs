//! The whole way, once: foreground, background, a question, and a parent that is killed.

use serde_json::{Value, json};

use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::rpc::{last_answer, message_text};
use crate::support::versions::Version;
use crate::support::wait;

#[test]
fn a_foreground_agent_works_and_its_reply_is_the_result() {
    // R-TOOL-01, R-TOOL-05, R-TOOL-12, R-DELIV-09, R-DELIV-12
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("count the files", false)),
                Turn::say("all done"),
            ],
        );
        parent
            .model
            .on("count the files", [Turn::say("there are 42 files")]);
        let records = parent.rpc.run("/skill:pi-subagents-workflow the whole");
        assert_eq!(message_text(last_answer(&records)), "all done");
        let requests = parent.asked("the whole");
        let results = requests.last().unwrap().tool_results();
        assert!(
            results[0].starts_with("there are 42 files"),
            "{version:?}: {results:?}"
        );
        assert!(results[0].contains("@max"), "{results:?}");
        let child = parent.model.wait_first("count the files");
        assert!(
            child.system_text().contains("final reply"),
            "the rule is in its system prompt"
        );
        assert!(child.tools().contains(&"agent_send".to_owned()));
        assert!(!child.tools().contains(&"agent_spawn".to_owned()));
    }
}

#[test]
fn a_result_wakes_an_idle_parent_once_and_a_question_by_itself() {
    // R-DELIV-03, R-DELIV-10
    let mut parent = Parent::start(Version::Newest);
    let gate = Gate::new();
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true)),
            Turn::say("started"),
            Turn::say("main, please"),
            Turn::say("good"),
        ],
    );
    parent.model.on(
        "part one",
        [
            Turn::call(
                "agent_send",
                json!({"to": "@parent", "message": "which branch?"}),
            ),
            Turn::new().gate(&gate).text("it is done"),
        ],
    );
    parent.rpc.run("/skill:pi-subagents-workflow the whole");
    let question = json!({
        "kind": "non_blocking_question",
        "agent_id": "max",
        "question": "which branch?",
    });
    let asked =
        |text: &String| serde_json::from_str::<Value>(text).is_ok_and(|value| value == question);
    wait::wait_for_or(
        "the question",
        || {
            let requests = parent.asked("the whole");
            let any = requests.iter().any(|r| r.texts("user").iter().any(asked));
            any.then_some(())
        },
        || {
            let requests = parent.model.requests();
            let texts: Vec<_> = requests
                .iter()
                .map(|r| (r.texts("user"), r.tool_results()))
                .collect();
            format!("{texts:#?}\n{:#?}", parent.rpc.records().last())
        },
    );
    wait::wait_until("the parent to be idle again", || {
        parent.rpc.request("get_state", json!({}))["data"]["isStreaming"] == false
    });
    gate.open();
    wait::wait_until("the result", || parent.asked("the whole").len() == 4);
    let requests = parent.asked("the whole");
    let told = Parent::replies(&requests[3]);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["result"], "it is done");
}

#[test]
fn nothing_is_left_of_a_parent_that_is_killed() {
    // R-LIFE-08, R-PI-02
    let mut parent = Parent::start(Version::Newest);
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true)),
            Turn::say("started"),
        ],
    );
    parent.model.on("part one", [Turn::hang()]);
    parent.rpc.run("/skill:pi-subagents-workflow the whole");
    parent.model.wait_first("part one");
    let pid = parent.rpc.pid();
    crate::support::processes::signal(pid, rustix::process::Signal::KILL);
    wait::wait_until("nothing to be left", || {
        let left = parent.pi.sandbox.processes();
        left.iter().all(|p| p.pid == pid)
    });
}
