//! Messages of the parent to its agents, in every state they can be in.

use pi_agents::fleet::agent::Status;
use serde_json::{Value, json};

use super::kit::{Lead, replies, until};
use super::spawn;
use crate::support::model::{Gate, Request, Turn};
use crate::support::versions::Version;

/// An agent that answers each message with its text.
fn echo(lead: &Lead, task: &'static str) {
    lead.parent.model.answer(move |request: &Request| {
        let mine = request.first_user_text() == task && !request.tools().is_empty();
        mine.then(|| Turn::say(&format!("answer to {}", request.last_user_text())))
    });
}

fn send(to: &str, message: &str) -> Value {
    json!({"to": to, "message": message})
}

// R-DELIV-01, R-DELIV-11, R-DELIV-13, R-PI-07: messages to a running agent join its run; each reaches its
// model once, in order, and the whole has one result.
#[test]
fn three_messages_to_a_running_agent_make_one_result() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let task = "part one";
        lead.parent.model.answer(move |request: &Request| {
            let begins = request.first_user_text() == task && request.messages().len() == 2;
            begins.then(|| Turn::call("bash", until("go")))
        });
        echo(&lead, task);
        lead.spawns(task);
        let used = lead.does([Turn::new()
            .tool("agent_send", send("max", "one"))
            .tool("agent_send", send("@max", "two"))
            .tool("agent_send", send("max", "three"))]);
        for used in &used {
            assert!(!used.error, "{used:?}");
            assert_eq!(
                used.text,
                "@max has the message and reads it when its present tool calls are done. \
                 Its final reply arrives by itself."
            );
        }
        lead.makes("go");
        let told = lead.wait_told(1);
        assert_eq!(
            told[0]["result"], "answer to [from parent] three",
            "{version:?}"
        );
        let last = lead.parent.asked(task).pop().unwrap();
        assert_eq!(
            last.texts("user"),
            [
                task,
                "[from parent] one",
                "[from parent] two",
                "[from parent] three"
            ],
            "{version:?}"
        );
        lead.stays_quiet();
        let row = lead.row("max").unwrap();
        assert_eq!((row.status, row.runs_ended), (Status::Idle, 1));
    }
}

// R-TOOL-02, R-LIFE-06, R-LIFE-10, R-LIFE-16: an idle agent takes a message as it is; one that did not stay,
// one that failed and one that was stopped come back from their sessions; each answers once.
#[test]
fn a_message_reaches_an_agent_whatever_became_of_it() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        for task in ["kept", "gone"] {
            echo(&lead, task);
        }
        lead.agent(
            "broken",
            [Turn::error(400, "no such luck"), Turn::say("answer to it")],
        );
        let once = json!({"prompt": "gone", "label": "a part", "persistent": false, "run_in_background": true});
        let names = lead.spawns_with([spawn("kept", true), once, spawn("broken", true)]);
        let [kept, gone, broken] = <[String; 3]>::try_from(names).unwrap();
        let told = lead.wait_told(3);
        let of = |told: &[Value], name: &str| -> Vec<Value> {
            let mut all = told.to_vec();
            all.retain(|t| t["agent_id"] == name);
            all
        };
        let first = of(&told, &kept);
        assert_eq!(
            (&first[0]["status"], &first[0]["idle"]),
            (&json!("completed"), &json!(true))
        );
        let first = of(&told, &gone);
        assert_eq!(
            (&first[0]["status"], &first[0]["idle"]),
            (&json!("completed"), &Value::Null)
        );
        let first = of(&told, &broken);
        assert_eq!(
            (&first[0]["status"], &first[0]["idle"]),
            (&json!("failed"), &Value::Null)
        );
        for name in [&gone, &broken] {
            lead.wait_row(name, "without a process", |a| a.pid.is_none());
        }
        let used = lead.does([Turn::new()
            .tool("agent_send", send(&format!("@{kept}"), "again"))
            .tool("agent_send", send(&gone, "again"))
            .tool("agent_send", send(&broken, "again"))
            .tool("agent_send", send("sam", "again"))
            .tool("agent_send", send("@@max", "again"))
            .tool("agent_send", send("@parent", "again"))
            .tool("agent_send", send(&kept, "  "))]);
        assert_eq!(
            used[0].text,
            format!("@{kept} has the message. Its final reply arrives by itself.")
        );
        for (name, used) in [(&gone, &used[1]), (&broken, &used[2])] {
            let text = format!(
                "@{name} was started again from its session and has the message. \
                 Its final reply arrives by itself."
            );
            assert_eq!(used.text, text);
        }
        for unknown in &used[3..6] {
            assert!(unknown.error, "{unknown:?}");
            for name in [&kept, &gone, &broken] {
                assert!(unknown.text.contains(&format!("@{name}")), "{unknown:?}");
            }
        }
        assert!(
            used[6].error && used[6].text.contains("empty"),
            "{:?}",
            used[6]
        );
        let told = lead.wait_told(6);
        for name in [&kept, &gone, &broken] {
            let all = of(&told, name);
            assert_eq!(all.len(), 2, "{all:#?}");
            assert_eq!(all[1]["status"], "completed", "{version:?}: {all:#?}");
            assert_ne!(all[0]["completion_id"], all[1]["completion_id"]);
            assert_eq!(all[0]["session_path"], all[1]["session_path"]);
        }
        assert_eq!(
            of(&told, &gone)[1].get("idle"),
            None,
            "it does not stay now either"
        );
        for task in ["kept", "gone", "broken"] {
            let last = lead.parent.asked(task).pop().unwrap();
            assert_eq!(
                last.texts("user"),
                [task, "[from parent] again"],
                "{version:?}"
            );
        }
        // It has its earlier conversation.
        let last = lead.parent.asked("gone").pop().unwrap();
        assert_eq!(last.texts("assistant"), ["answer to gone"]);

        assert!(!lead.stops(&kept).error);
        let used = lead.sends(&kept, "once more");
        assert!(
            used.text.contains("was started again from its session"),
            "{used:?}"
        );
        let told = lead.wait_told(7);
        assert_eq!(told[6]["result"], "answer to [from parent] once more");
    }
}

// R-LIFE-04, R-DELIV-11: a message in the pause before another attempt is neither lost nor doubled.
#[test]
fn a_message_in_the_pause_before_another_attempt_arrives_once() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, |pi, _| {
            let mut settings = pi.settings();
            settings["retry"]["baseDelayMs"] = json!(700);
            pi.write_settings(&settings);
        });
        lead.agent("part one", [Turn::error(429, "slow down")]);
        echo(&lead, "part one");
        lead.spawns("part one");
        lead.wait_row("max", "pausing", |a| a.retry.is_some());
        let used = lead.sends("max", "also that");
        assert!(!used.error, "{used:?}");
        let told = lead.wait_told(1);
        assert_eq!(told[0]["status"], "completed");
        assert_eq!(
            told[0]["result"], "answer to [from parent] also that",
            "{version:?}"
        );
        let last = lead.parent.asked("part one").pop().unwrap();
        assert_eq!(last.texts("user"), ["part one", "[from parent] also that"]);
        lead.stays_quiet();
    }
}

// R-PI-07, R-DELIV-11: so is one while the agent shortens its conversation.
#[test]
fn a_message_during_a_compaction_arrives_once() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, |pi, _| {
            let mut settings = pi.settings();
            settings["compaction"] = json!({"enabled": true, "keepRecentTokens": 1});
            pi.write_settings(&settings);
        });
        let held = Gate::new();
        let gate = held.clone();
        // What makes a summary uses no tools.
        lead.parent.model.answer(move |request: &Request| {
            request
                .tools()
                .is_empty()
                .then(|| Turn::new().gate(&gate).text("## Goal\nA summary."))
        });
        let long = format!("part one {}", "pad ".repeat(1500));
        lead.agent(
            "part one",
            [Turn::say("the first answer").usage(127_000, 20)],
        );
        // Its conversation begins with the summary by then.
        lead.parent
            .model
            .on_last("also that", Turn::say("the second answer"));
        lead.spawns(&long);
        held.wait_arrival("the compaction");
        let step = lead.begins([Turn::call("agent_send", send("max", "also that"))]);
        lead.parent.model.wait_request("the call", |all| {
            let mut all = all.iter();
            all.find(|r| r.last_user_text() == step).map(|_| ())
        });
        lead.wait_row("max", "has the message", |a| !a.pending.is_empty());
        held.open();
        let used = lead.outcome(&step, 1);
        assert!(!used[0].error, "{version:?}: {used:?}");
        lead.wait_row("max", "idle", |a| {
            a.status == Status::Idle && a.pending.is_empty()
        });
        lead.parent.model.wait_request("the last result", |all| {
            let mut texts = all.iter().flat_map(|r| r.texts("user"));
            texts.find(|t| t.contains("the second answer")).map(|_| ())
        });
        lead.stays_quiet();
        // It joined the run that was ending, or began another.
        let told = lead.told();
        let mut results: Vec<_> = replies(&told).iter().map(|r| r["result"].clone()).collect();
        assert_eq!(
            results.pop(),
            Some(json!("the second answer")),
            "{version:?}"
        );
        assert!(
            results.is_empty() || results == ["the first answer"],
            "{version:?}: {told:#?}"
        );
        let with_message = |r: &Request| {
            let texts = r.texts("user");
            texts
                .iter()
                .filter(|t| *t == "[from parent] also that")
                .count()
        };
        let mut of_agent = lead.parent.model.requests();
        of_agent.retain(|r| !r.tools().is_empty() && with_message(r) > 0);
        assert_eq!(of_agent.len(), 1, "{version:?}: one request has it");
        assert_eq!(with_message(&of_agent[0]), 1, "{version:?}");
    }
}

// R-LIFE-10, R-LIFE-11, R-LIFE-16: an agent that does not stay is messaged in the moment in which its result
// arrives, while its process is being closed: each time it comes back once, with the message.
#[test]
fn a_message_meets_an_agent_that_is_being_closed() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent("part one", ["one", "two", "three", "four"].map(Turn::say));
        for (result, message) in [("one", "to two"), ("two", "to three"), ("three", "to four")] {
            let told = format!("\"result\":\"{result}\"");
            lead.reacts(&told, [Turn::call("agent_send", send("max", message))]);
        }
        let once = json!({"prompt": "part one", "label": "a part", "persistent": false, "run_in_background": true});
        lead.spawns_with([once]);
        let told = lead.wait_told(4);
        let results: Vec<_> = told.iter().map(|t| t["result"].as_str().unwrap()).collect();
        assert_eq!(results, ["one", "two", "three", "four"], "{version:?}");
        assert!(told.iter().all(|t| t.get("idle").is_none()), "{told:#?}");
        let last = lead.parent.asked("part one").pop().unwrap();
        assert_eq!(
            last.texts("user"),
            [
                "part one",
                "[from parent] to two",
                "[from parent] to three",
                "[from parent] to four"
            ],
            "{version:?}"
        );
        lead.stays_quiet();
        lead.wait_row("max", "closed", |a| a.pid.is_none());
    }
}
