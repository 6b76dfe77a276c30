//! Questions of agents to a parent that is idle, busy or aborted, and the answers to them.

use pi_agents::fleet::agent::Status;
use serde_json::json;

use super::kit::{Lead, entries, question, replies, text_of, until};
use super::spawn;
use crate::support::model::{Gate, Outcome, Step, Turn};
use crate::support::versions::Version;
use crate::support::wait;

fn ask(question: &str) -> Turn {
    Turn::call("agent_send", json!({"to": "@parent", "message": question}))
}

// R-DELIV-10, R-DELIV-13: a question wakes an idle parent; meanwhile its agent works on, and the answer
// reaches it between two of its steps.
#[test]
fn a_question_wakes_an_idle_parent_and_its_answer_steers_the_agent() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let held = Gate::new();
        lead.agent(
            "part one",
            [
                Turn::call("bash", until("ask")),
                ask("which\n\"branch\"?"),
                Turn::call("bash", until("go")),
                Turn::say("done on main"),
            ],
        );
        lead.reacts(
            "which",
            [Turn::new().gate(&held).tool(
                "agent_send",
                json!({"to": "max", "message": "main, please"}),
            )],
        );
        assert_eq!(lead.spawns("part one"), "max");
        lead.idle();
        let before = lead.requests().len();
        lead.makes("ask");
        held.wait_arrival("the parent to be asked");
        // Exactly this text, in a run of its own.
        let woken = lead.requests();
        assert_eq!(woken.len(), before + 1, "{version:?}");
        let text =
            r#"{"kind":"non_blocking_question","agent_id":"max","question":"which\n\"branch\"?"}"#;
        assert_eq!(woken[before].last_user_text(), text);
        // The agent did not wait for it.
        lead.parent.model.wait_request("the agent to go on", |all| {
            let mut of_agent = all.iter().filter(|r| r.first_user_text() == "part one");
            of_agent.nth(2).map(|_| ())
        });
        held.open();
        lead.parent
            .model
            .wait_request("the parent's answer to be taken", |all| {
                let taken = |r: &&String| r.starts_with("@max has the message and reads it when");
                let mut results = all.iter().flat_map(|r| r.tool_results());
                results.find(|r| taken(&r)).map(|_| ())
            });
        lead.makes("go");
        let told = lead.wait_told(2);
        assert_eq!(
            told[0],
            question("max", "which\n\"branch\"?"),
            "{version:?}"
        );
        assert_eq!(told[1]["kind"], "final_reply");
        assert_eq!(told[1]["result"], "done on main");
        assert_eq!(told[1]["status"], "completed");
        assert_eq!(told[1]["idle"], true);
        let of_agent = lead.parent.asked("part one");
        assert_eq!(
            of_agent.len(),
            4,
            "{version:?}: one more answer of its model"
        );
        let last = of_agent[3].messages();
        let (before, answer) = (&last[last.len() - 2], &last[last.len() - 1]);
        assert_eq!(
            before["role"], "tool",
            "after its tool, before its next answer"
        );
        assert_eq!(text_of(answer), "[from parent] main, please");
        assert_eq!(
            of_agent[3].texts("user"),
            ["part one", "[from parent] main, please"]
        );
    }
}

// R-DELIV-02, R-DELIV-10: several questions and then the result reach a busy parent within its run,
// in the order in which the agent gave them.
#[test]
fn questions_and_the_result_reach_a_busy_parent_in_their_order() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent(
            "part one",
            [
                Turn::call("bash", until("ask")),
                Turn::new()
                    .tool("agent_send", json!({"to": "@parent", "message": "first?"}))
                    .tool("agent_send", json!({"to": "@parent", "message": "second?"})),
                ask("third?"),
                Turn::say("the end"),
            ],
        );
        lead.spawns("part one");
        lead.idle();
        let before = lead.parent.rpc.records().len();
        lead.makes("ask");
        lead.busy_until("the end");
        let runs = lead.parent.rpc.records().split_off(before);
        let of = |kind: &str| runs.iter().filter(|r| r["type"] == kind).count();
        // The questions may have come before the parent began: then they woke it.
        assert!(
            of("agent_settled") <= 2,
            "{version:?}: {}",
            of("agent_settled")
        );
        let told = lead.told();
        let questions = ["first?", "second?", "third?"].map(|q| question("max", q));
        assert_eq!(told[..3], questions, "{version:?}");
        assert_eq!(told[3]["result"], "the end");
        assert_eq!(told.len(), 4, "{version:?}: {told:#?}");
    }
}

// R-DELIV-04, R-DELIV-18: after an abort nothing wakes the parent; the card shows at once, and the model
// reads it with the next prompt. The answer then wakes the agent, which is idle by now.
#[test]
fn a_question_after_an_abort_waits_for_the_next_prompt() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent(
            "part one",
            [
                Turn::call("bash", until("ask")),
                ask("which branch?"),
                Turn::call("bash", until("go")),
                Turn::say("the end"),
                Turn::say("on main then"),
            ],
        );
        lead.spawns("part one");
        lead.idle();
        let before = lead.parent.rpc.records().len();
        let step = lead.begins([Turn::hang()]);
        lead.parent.model.wait_request("the parent's run", |all| {
            let mut all = all.iter();
            all.find(|r| r.last_user_text() == step && r.outcome == Outcome::Running)
                .map(|_| ())
        });
        lead.parent.rpc.request("abort", json!({}));
        lead.parent.rpc.wait_settled(before);
        let requests = lead.requests().len();
        lead.makes("ask");
        let card = |lead: &mut Lead, kind: &str| {
            let ours = |e: &&serde_json::Value| {
                e["type"] == "custom_message" && e.to_string().contains(kind)
            };
            lead.saved().iter().filter(ours).count()
        };
        wait::wait_until("the card of the question", || {
            card(&mut lead, "non_blocking_question") == 1
        });
        lead.makes("go");
        wait::wait_until("the card of the result", || {
            card(&mut lead, "final_reply") == 1
        });
        lead.stays_quiet();
        assert_eq!(
            lead.requests().len(),
            requests,
            "{version:?}: nothing woke it"
        );
        let told = lead.told();
        assert_eq!(told[0], question("max", "which branch?"));
        assert_eq!(told[1]["result"], "the end");
        assert_eq!(told.len(), 2, "{version:?}: {told:#?}");
        let used = lead.sends("@max", "main");
        assert_eq!(
            used.text,
            "@max has the message. Its final reply arrives by itself."
        );
        let told = lead.wait_told(3);
        assert_eq!(told[2]["result"], "on main then");
        assert_ne!(told[2]["completion_id"], told[1]["completion_id"]);
        let of_agent = lead.parent.asked("part one");
        assert_eq!(
            of_agent.last().unwrap().texts("user"),
            ["part one", "[from parent] main"]
        );
        lead.wait_row("max", "idle", |a| a.status == Status::Idle);
    }
}

// R-TOOL-02, R-TOOL-08: a child reaches its parent and nobody else; what it cannot send is an error.
#[test]
fn whom_an_agent_cannot_reach_is_an_error() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let to = |to: &str, message: &str| json!({"to": to, "message": message});
        lead.agent(
            "part two",
            [
                Turn::new()
                    .tool("agent_send", to("max", "hello?"))
                    .tool("agent_send", to("@zoe", "hello?"))
                    .tool("agent_send", to("", "hello?"))
                    .tool("agent_send", to("@parent", " \n"))
                    .tool("agent_stop", json!({"agent_id": "max"})),
                Turn::say("nobody there"),
            ],
        );
        lead.agent("part one", [Turn::hang()]);
        assert_eq!(lead.spawns_all(&["part one"]), ["max"]);
        assert_eq!(lead.spawns_all(&["part two"]), ["zoe"]);
        let told = lead.wait_told(1);
        assert_eq!(told[0]["result"], "nobody there");
        let path = told[0]["session_path"].as_str().unwrap();
        let results: Vec<_> = entries(path)
            .into_iter()
            .filter(|e| e["message"]["role"] == "toolResult")
            .collect();
        assert_eq!(results.len(), 5);
        for result in &results {
            assert_eq!(result["message"]["isError"], true, "{version:?}: {result}");
        }
        for result in &results[..3] {
            assert!(result.to_string().contains("@parent"), "{result}");
        }
        // It reached nobody.
        let other = lead.parent.asked("part one");
        assert_eq!(other.len(), 1);
        assert_eq!(replies(&lead.told()).len(), 1);
    }
}

// R-DELIV-10, R-DELIV-12: the parent of a foreground agent reads its question when the call is over; the reply itself
// is the call's result and nothing else.
#[test]
fn a_question_of_a_foreground_agent_waits_for_the_end_of_the_call() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent(
            "part one",
            [ask("which branch?"), Turn::say("done on main")],
        );
        let before = lead.parent.rpc.records().len();
        let used = lead.uses("agent_spawn", spawn("part one", false));
        assert!(
            used.text.starts_with("done on main\n"),
            "{version:?}: {used:?}"
        );
        lead.parent.rpc.wait_settled(before);
        let records = lead.parent.rpc.records().split_off(before);
        let starts = records
            .iter()
            .filter(|r| r["type"] == "agent_start")
            .count();
        assert_eq!(starts, 1, "{version:?}: within its run");
        let told = lead.told();
        assert_eq!(told, [question("max", "which branch?")], "{version:?}");
        let child = lead.parent.model.wait_first("part one");
        assert!(
            child
                .system_text()
                .contains("put your questions into the reply")
        );
    }
}

/// A call of `agent_send` with its arguments in one piece, as they are: half of a pair that stands for one
/// character is in them where a model was cut in the middle.
fn sends_raw(to: &str, text: &str) -> Turn {
    let arguments = format!(r#"{{"to":"{to}","message":"{text}"}}"#);
    let chunk = json!({
        "id": "chatcmpl-x",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "s1",
        "choices": [{"index": 0, "finish_reason": null, "delta": {"tool_calls": [{
            "index": 0,
            "id": "call_raw",
            "type": "function",
            "function": {"name": "agent_send", "arguments": arguments},
        }]}}],
    });
    Turn::new()
        .then(Step::Raw(chunk.to_string()))
        .finish("tool_calls")
}

// R-Q-01, R-TOOL-09: whatever stands in a text, it arrives, and what is too long for a model is cut where the whole
// can be found.
#[test]
fn odd_and_long_texts_arrive_in_both_directions() {
    const ODD: &str = r#"half \ud83d, \u2028 whole \ud83d\ude00, \"quoted\""#;
    const READ: &str = "half \u{fffd}, \u{2028} whole \u{1f600}, \"quoted\"";
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let long = format!("{}the end of it?", "many words and more\\n".repeat(10_000));
        lead.agent(
            "part one",
            [
                sends_raw("@parent", ODD),
                sends_raw("@parent", &long),
                Turn::say("done"),
                Turn::say("again"),
            ],
        );
        lead.spawns("part one");
        let told = lead.wait_told(3);
        assert_eq!(told[0], question("max", READ), "{version:?}");
        let text = told[1]["question"].as_str().unwrap();
        assert!(text.len() < 52_000, "{version:?}: {}", text.len());
        assert!(
            text.ends_with("the end of it?") && text.contains("session"),
            "{text:.200}"
        );
        let used = lead.does([sends_raw("max", ODD)]);
        assert!(!used[0].error, "{version:?}: {used:?}");
        lead.wait_told(4);
        let last = lead.parent.asked("part one").pop().unwrap();
        assert_eq!(
            last.last_user_text(),
            format!("[from parent] {READ}"),
            "{version:?}"
        );
    }
}
