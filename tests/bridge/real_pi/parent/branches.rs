//! The agents that a session speaks of are those of its open branch.

use serde_json::{Value, json};

use super::replaced::with_hands;
use super::told::{TASK, names};
use super::{Parent, spawn};
use crate::support::model::{Gate, Request, Turn};
use crate::support::versions::Version;

fn stop(name: &str) -> Turn {
    Turn::call("agent_stop", json!({"agent_id": name}))
}

/// The last result of a tool that a conversation saw.
fn last_result(parent: &Parent, marker: &str) -> String {
    let request: Request = parent.asked(marker).pop().expect("a request");
    request.tool_results().pop().expect("a result")
}

/// An idle parent is woken by the agent behind the gate.
fn woken(parent: &mut Parent, gate: &Gate) {
    let before = parent.rpc.records().len();
    gate.open();
    parent.rpc.wait_settled(before);
}

fn leaf(parent: &mut Parent) -> String {
    let entries = parent.rpc.request("get_entries", json!({}));
    entries["data"]["leafId"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_is_known_on_the_branches_that_name_it() {
    // R-PI-03, R-ID-01, R-TOOL-02
    for version in Version::ALL {
        let mut parent = with_hands(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::say("thank you"),
                stop("zoe"),
                stop("max"),
                Turn::say("done"),
            ],
        );
        parent.model.on(
            "another way",
            [
                stop("max"),
                Turn::call("agent_spawn", spawn("part two", true)),
                Turn::say("started"),
                Turn::say("thank you"),
            ],
        );
        let gates = [Gate::new(), Gate::new()];
        for (part, gate) in ["one", "two"].into_iter().zip(&gates) {
            let result = format!("result of {part}");
            parent.model.on(
                &format!("part {part}"),
                [Turn::new().gate(gate).text(&result)],
            );
        }
        parent.rpc.run(TASK);
        let session = parent.session();
        woken(&mut parent, &gates[0]);
        let with_max = leaf(&mut parent);

        // Before it was spawned there is none, and its name is used up.
        parent.rpc.prompt("/back");
        parent.rpc.run("another way");
        let requests = parent.asked("another way");
        let results = requests[2].tool_results();
        assert!(
            results[0].contains("no such agent: @max"),
            "{version:?}: {results:?}"
        );
        assert!(results[0].contains("no agents here yet"), "{results:?}");
        assert!(results[1].starts_with("@zoe "), "{results:?}");
        woken(&mut parent, &gates[1]);

        // Back again it is known, and what the other branch has is not.
        parent.rpc.prompt(&format!("/to {with_max}"));
        parent.rpc.run("go on");
        let requests = parent.asked("the whole");
        let results = requests.last().unwrap().tool_results();
        assert!(
            results[1].contains("no such agent: @zoe"),
            "{version:?}: {results:?}"
        );
        assert!(results[1].contains("known here: @max"), "{results:?}");
        assert!(results[2].contains("max"), "{results:?}");
        assert!(!results[2].contains("no such agent"), "{results:?}");

        // Also for whoever resumes it: the branch that is open is the one with max.
        parent.kill();
        parent.start_again(&["--session", session.to_str().unwrap()]);
        parent.wait_joined(1);
        parent.model.answer(|request| {
            let last = request.last_user_text();
            let asked = request.messages().last()?["role"] == "user";
            (last.contains("who is there") && asked).then(|| stop("zoe"))
        });
        parent.model.on_last("who is there", Turn::say("I see"));
        parent.rpc.run("/skill:pi-subagents-workflow who is there");
        let answer = last_result(&parent, "the whole");
        assert!(answer.contains("no such agent: @zoe"), "{answer}");
        assert!(answer.contains("known here: @max"), "{answer}");
        let requests = parent.model.requests();
        let read = requests
            .iter()
            .any(|r| r.body.to_string().contains("pi-agents-roster"));
        assert!(!read, "no model reads who is named");
    }
}

#[test]
fn an_agent_whose_result_comes_to_another_branch_can_be_answered_there() {
    // R-PI-03, R-DELIV-10: whoever is told something can answer
    for version in Version::ALL {
        let mut parent = with_hands(version);
        let gate = Gate::new();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
            ],
        );
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent
            .model
            .on("result of one", [stop("max"), Turn::say("thank you")]);
        parent.rpc.run(TASK);
        parent.rpc.prompt("/back");
        let before = parent.rpc.records().len();
        gate.open();
        parent.rpc.wait_settled(before);
        let answer = last_result(&parent, "result of one");
        assert!(!answer.contains("no such agent"), "{version:?}: {answer}");
        assert!(
            parent.agents("max").is_empty(),
            "{version:?}: it was stopped"
        );
    }
}

#[test]
fn a_fork_knows_no_agents_of_its_origin_and_uses_no_name_of_theirs() {
    // R-PI-03, R-ID-01
    for version in Version::ALL {
        let mut parent = with_hands(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::say("thank you"),
                Turn::say("yes"),
                stop("max"),
                Turn::call("agent_spawn", spawn("part two", true)),
                Turn::say("started"),
            ],
        );
        let gate = Gate::new();
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent.model.on("part two", [Turn::hang()]);
        parent.rpc.run(TASK);
        woken(&mut parent, &gate);
        parent.rpc.run("go on");
        let entries = parent.rpc.request("get_entries", json!({}));
        let entries = entries["data"]["entries"].as_array().unwrap();
        let of_user = |e: &&Value| e["message"]["role"] == "user";
        let second = entries.iter().rfind(of_user).unwrap()["id"].clone();
        let fork = json!({"entryId": second});
        assert_eq!(parent.rpc.request("fork", fork)["success"], true);
        parent.wait_joined(2);
        parent
            .rpc
            .run("/skill:pi-subagents-workflow on another way");
        let requests = parent.asked("the whole");
        let results = requests.last().unwrap().tool_results();
        assert!(
            results[1].contains("no such agent: @max"),
            "{version:?}: {results:?}"
        );
        assert!(results[2].starts_with("@zoe "), "{results:?}");
        assert_eq!(names(&requests[1]), ["max"]);
    }
}
