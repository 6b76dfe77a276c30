//! Pi's modes without a conversation: a task in, an answer out, nothing left.

use std::process::Output;

use serde_json::{Value, json};

use super::look::agents_of;
use super::{Parent, spawn};
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Gate, ModelServer, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// A Pi that does one task.
struct Once {
    model: ModelServer,
    pi: HermeticPi,
}

impl Once {
    fn new(version: Version) -> Self {
        let model = ModelServer::start();
        let pi = HermeticPi::new(version, &model);
        Self { model, pi }
    }

    fn run(&self, mode: &[&str]) -> Output {
        let mut command = Parent::command_in(&self.pi, mode, |_, command| {
            command.arg("/skill:pi-subagents-workflow the whole");
            command.stdin(std::process::Stdio::null());
        });
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        wait::wait_for_or(
            "nothing to be left",
            || self.pi.sandbox.processes().is_empty().then_some(()),
            || format!("{:?}", self.pi.sandbox.processes()),
        );
        output
    }

    fn results(&self) -> Vec<String> {
        self.model.requests().pop().unwrap().tool_results()
    }
}

// R-PI-01, R-TOOL-01, R-LIFE-08
#[test]
fn a_print_waits_for_its_agent_and_leaves_nothing() {
    for version in Version::ALL {
        for mode in [&["-p"][..], &["--mode", "json"]] {
            let once = Once::new(version);
            once.model.on(
                "the whole",
                [
                    Turn::call("agent_spawn", spawn("the part", false)),
                    Turn::say("all done"),
                ],
            );
            once.model.on("the part", [Turn::say("there are 42 files")]);
            let output = once.run(mode);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("all done"), "{text}");
            let results = once.results();
            assert!(results[0].starts_with("there are 42 files"), "{results:?}");
            if mode.len() > 1 {
                let records: Vec<Value> = text
                    .lines()
                    .map(|line| serde_json::from_str(line).unwrap())
                    .collect();
                let mut ends = records.iter().filter(|r| r["type"] == "tool_execution_end");
                let end = ends.next().unwrap();
                assert_eq!(end["isError"], false, "{end}");
                assert_eq!(end["result"]["details"]["agent_id"], "max", "{end}");
            }
        }
    }
}

// R-PI-17, R-DELIV-02, R-LIFE-08
#[test]
fn what_a_print_starts_in_the_background_is_told_while_it_lasts_and_ends_with_it() {
    for version in Version::ALL {
        let once = Once::new(version);
        let last = Gate::new();
        let gate = last.clone();
        // It works until a result has reached it.
        once.model.answer(move |request| {
            if !request.first_user_text().contains("the whole") {
                return None;
            }
            if request.tool_results().is_empty() {
                let quick = Turn::call("agent_spawn", spawn("the quick part", true));
                return Some(quick.tool("agent_spawn", spawn("the slow part", true)));
            }
            Some(if Parent::replies(request).is_empty() {
                Turn::call("bash", json!({"command": "sleep 0.1"}))
            } else {
                Turn::new().gate(&gate).text("all done")
            })
        });
        once.model
            .on("the quick part", [Turn::say("there are 42 files")]);
        let bash = json!({"command": "sleep 300"});
        once.model.on("the slow part", [Turn::call("bash", bash)]);
        let output = std::thread::scope(|scope| {
            let running = scope.spawn(|| once.run(&["-p"]));
            last.wait_arrival("the result to reach the print");
            wait::wait_until("the slow one's tool", || {
                agents_of(&once.pi.sandbox).len() >= 3
            });
            last.open();
            running.join().unwrap()
        });
        let mut asked = once.model.requests();
        asked.retain(|r| r.first_user_text().contains("the whole"));
        for result in &asked[1].tool_results()[..2] {
            assert!(result.contains("ends with it"), "{result}");
        }
        let told = Parent::replies(asked.last().unwrap());
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["result"], "there are 42 files");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("all done"), "{text}");
    }
}
