//! What a person sees of a foreground agent while it works, and that nothing depends on it.

use serde_json::{Value, json};

use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::rpc::{last_answer, message_text};
use crate::support::versions::Version;

fn updates<'a>(records: &'a [Value], call: &Value) -> Vec<&'a Value> {
    let of_call = |r: &&Value| r["type"] == "tool_execution_update" && r["toolCallId"] == *call;
    records.iter().filter(of_call).collect()
}

/// Pi's ids of the calls whose prompt holds this.
fn call_of(records: &[Value], prompt: &str) -> Value {
    let mut starts = records
        .iter()
        .filter(|r| r["type"] == "tool_execution_start");
    let start = starts.find(|r| {
        r["args"]["prompt"]
            .as_str()
            .is_some_and(|p| p.contains(prompt))
    });
    start.expect("the call was begun")["toolCallId"].clone()
}

// R-TOOL-11, R-TOOL-19: two at once, each under its own id, in the oldest and the newest Pi.
#[test]
fn updates_show_what_the_agents_do_under_the_ids_of_their_calls() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        let gates = [Gate::new(), Gate::new()];
        let seen = parent.pi.sandbox.root().join("seen");
        let look = |word| {
            format!(
                "true {word}; while ! test -e {}; do sleep 0.05; done",
                seen.display()
            )
        };
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", false))
                    .tool("agent_spawn", spawn("part two", false)),
                Turn::say("all done"),
            ],
        );
        for (word, gate) in ["one", "two"].into_iter().zip(&gates) {
            parent.model.on(
                &format!("part {word}"),
                [
                    Turn::call("bash", json!({"command": look(word)})),
                    Turn::new()
                        .text(&format!("found {word}\n"))
                        .gate(gate)
                        .text("that is all"),
                ],
            );
        }
        let before = parent.rpc.records().len();
        parent.rpc.prompt("/skill:pi-subagents-workflow the whole");
        for word in ["one", "two"] {
            let doing = format!("bash: true {word}; while");
            parent.rpc.wait_record(&doing, |r| {
                let operation = &r["partialResult"]["details"]["operation"];
                operation.as_str().is_some_and(|o| o.starts_with(&doing))
            });
        }
        std::fs::write(&seen, "").unwrap();
        for word in ["one", "two"] {
            let mark = format!("found {word}");
            parent.rpc.wait_record(&mark, |r| {
                r["type"] == "tool_execution_update"
                    && r["partialResult"]["details"]["tail"] == mark.as_str()
            });
        }
        gates.iter().for_each(Gate::open);
        let records = parent.rpc.wait_settled(before);
        assert_eq!(message_text(last_answer(&records)), "all done");
        for (word, other) in [("one", "two"), ("two", "one")] {
            let call = call_of(&records, &format!("part {word}"));
            let told = updates(&records, &call);
            let details = |u: &Value| u["partialResult"]["details"].clone();
            let doing = format!("bash: true {word};");
            let shows = |u: &&Value| {
                let operation = details(u)["operation"].clone();
                operation.as_str().is_some_and(|o| o.starts_with(&doing))
            };
            assert!(told.iter().any(shows), "{version:?}: {call}");
            for update in &told {
                assert_eq!(details(update)["call"], call);
                let text = update.to_string();
                assert!(!text.contains(&format!("true {other};")), "{text}");
                assert!(!text.contains(&format!("found {other}")), "{text}");
                assert!(message_text(&update["partialResult"]).starts_with('@'));
            }
            let elapsed = |u: &Value| details(u)["elapsed_ms"].as_u64().unwrap();
            assert!(
                told.windows(2)
                    .all(|p| elapsed(p[1]) >= elapsed(p[0]) + 100)
            );
            let end = records
                .iter()
                .position(|r| r["type"] == "tool_execution_end" && r["toolCallId"] == call)
                .unwrap();
            assert!(
                updates(&records[end..], &call).is_empty(),
                "none behind the end"
            );
            // What the model reads is the reply, and nothing of the updates.
            let result = message_text(&records[end]["result"]);
            assert!(
                result.starts_with(&format!("found {word}\nthat is all")),
                "{result}"
            );
            assert!(!result.contains("running"), "{result}");
            assert_eq!(records[end]["result"]["details"]["call"], call);
        }
    }
}
