//! Calls that wait for their agent: side by side, cancelled at every stage, long, and failed.

use std::time::Duration;

use serde_json::{Value, json};

use super::look::agents_of;
use super::{Parent, spawn};
use crate::support::model::{Gate, Outcome, Step, Turn};
use crate::support::processes::Process;
use crate::support::rpc::message_text;
use crate::support::versions::Version;
use crate::support::wait;

/// Two that work at the same time.
// R-TOOL-01, R-TOOL-09, R-TOOL-11, R-TOOL-15, R-DELIV-09
#[test]
fn two_agents_of_one_message_work_at_the_same_time_and_their_usage_counts_once() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        let gates = [Gate::new(), Gate::new()];
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", labelled("part one", "first"))
                    .tool("agent_spawn", labelled("part two", "second"))
                    .usage(1000, 10),
                Turn::say("both done").usage(2000, 20),
            ],
        );
        for (part, gate, tokens) in [("one", &gates[0], 100), ("two", &gates[1], 30)] {
            parent.model.on(
                &format!("part {part}"),
                [
                    Turn::call("bash", json!({"command": "true"})).usage(tokens, 1),
                    Turn::new()
                        .gate(gate)
                        .text(&format!("result of {part}"))
                        .usage(tokens, 2),
                ],
            );
        }
        parent.begin("the whole");
        for gate in &gates {
            gate.wait_arrival("both agents at the model at once");
        }
        // The second is done first.
        gates[1].open();
        wait::wait_until("the end of the second", || parent.ends().len() == 1);
        gates[0].open();
        parent.rpc.wait_settled(0);
        let results = parent.asked("the whole").pop().unwrap().tool_results();
        assert!(results[0].starts_with("result of one"), "{results:?}");
        assert!(results[1].starts_with("result of two"), "{results:?}");
        let mut ends = parent.ends();
        ends.sort_by_key(|end| end["result"]["details"]["label"].to_string());
        for (end, label, tokens) in [(&ends[0], "first", 200), (&ends[1], "second", 60)] {
            let details = &end["result"]["details"];
            assert_eq!(end["isError"], false, "{end}");
            assert_eq!(details["label"], label, "{end}");
            assert_eq!(details["status"], "completed", "{end}");
            assert!(details["took_ms"].as_u64().unwrap() > 0, "{end}");
            assert_eq!(details["usage"]["input"], tokens, "{end}");
            assert_eq!(details["usage"]["output"], 3, "{end}");
        }
        let stats = parent.rpc.request("get_session_stats", json!({}));
        let tokens = &stats["data"]["tokens"];
        assert_eq!(tokens["input"], 3000 + 200 + 60, "{version:?}: {stats}");
        assert_eq!(tokens["output"], 30 + 3 + 3, "{version:?}: {stats}");
        // Nothing of it comes a second time.
        wait::stays("no completion", Duration::from_millis(200), || {
            parent.asked("the whole").len() == 2
        });
    }
}

fn labelled(prompt: &str, label: &str) -> Value {
    json!({"prompt": prompt, "label": label})
}

/// Where the child is when the parent is aborted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Starting,
    Running,
    Settling,
}

/// Holds an agent called `zoe` where the test wants it, and counts the listeners that a call left at the
/// signal of its parent.
const HELD: &str = r#"
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { getEventListeners } from "node:events";
const at = `${process.env.HOME}/`;
const wait = async (name) => {
    writeFileSync(`${at}${name}`, "");
    while (existsSync(`${at}hold-${name}`)) await new Promise((resolve) => setTimeout(resolve, 5));
};
export default async function (pi) {
    const who = process.env.PI_SUBAGENT_AGENT_ID;
    if (who === "zoe") {
        await wait("starting");
        pi.on("agent_end", () => wait("settling"));
    }
    if (who !== undefined) return;
    const count = (signal) => getEventListeners(signal, "abort").length;
    const signals = new Map();
    pi.on("tool_call", (event, ctx) => {
        signals.set(event.toolCallId, [ctx.signal, count(ctx.signal)]);
    });
    pi.on("tool_execution_end", (event) => {
        const [signal, before] = signals.get(event.toolCallId);
        appendFileSync(`${at}listeners`, `${count(signal) - before}\n`);
    });
}
"#;

/// Everything that is there when a foreground call is cancelled.
fn cancelled(version: Version, stage: Stage) {
    let mut parent = Parent::open(version, |pi, _| {
        Parent::extension(&pi.sandbox.agent_dir(), "held.ts", HELD);
        let name = format!("hold-{}", format!("{stage:?}").to_lowercase());
        std::fs::write(pi.sandbox.home().join(name), "").unwrap();
    });
    let background = Gate::new();
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("in the background", true)),
            Turn::call("agent_spawn", spawn("the part", false)),
            Turn::say("going on"),
        ],
    );
    parent.model.on(
        "in the background",
        [Turn::new().gate(&background).text("background result")],
    );
    parent.model.on(
        "the part",
        [match stage {
            Stage::Running => Turn::say("partial").then(Step::Hang),
            _ => Turn::say("foreground result"),
        }],
    );
    parent.begin("the whole");
    background.wait_arrival("the background agent at the model");
    let other = parent.agents("max");
    let reached = parent
        .pi
        .sandbox
        .home()
        .join(format!("{stage:?}").to_lowercase());
    let held = match stage {
        Stage::Running => {
            let asked = parent.model.wait_first("the part");
            parent.model.wait_first("in the background");
            Some(asked.number)
        }
        _ => {
            wait::wait_until("the agent to be there", || reached.exists());
            None
        }
    };
    assert!(!other.is_empty() && !parent.agents("zoe").is_empty());
    parent.rpc.request("abort", json!({}));
    let settled = parent.rpc.wait_record("the end of the run", |r| {
        r["type"] == "agent_settled" || r["type"] == "agent_end" && r["willRetry"] == true
    });
    assert_eq!(settled["aborted"], true, "{settled}");
    let end = parent.ends().pop().unwrap();
    assert_eq!(end["isError"], true, "{end}");
    let said = message_text(&end["result"]);
    assert!(said.contains("aborted"), "{said}");
    assert!(!said.contains("foreground result"), "{said}");
    // Nothing of it lives, and the other one goes on.
    parent.wait_ended("zoe");
    assert!(other.iter().all(Process::alive), "{other:?}");
    if let Some(number) = held {
        let request = &parent.model.requests()[number];
        assert_eq!(request.outcome, Outcome::Abandoned);
    }
    let listeners = std::fs::read_to_string(parent.pi.sandbox.home().join("listeners"));
    assert!(listeners.unwrap().lines().all(|n| n == "0"));
    // The result of the other one is kept for the next run: a person who pressed Esc is asked for nothing.
    background.open();
    wait::wait_until("the other result in the session", || {
        let entries = parent.rpc.request("get_entries", json!({}));
        entries.to_string().contains("background result")
    });
    assert_eq!(parent.asked("the whole").len(), 2);
    let before = parent.rpc.records().len();
    parent.rpc.prompt("go on");
    parent.rpc.wait_settled(before);
    let requests = parent.asked("the whole");
    let told = Parent::replies(requests.last().unwrap());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["agent_id"], "max");
    // Its name is not used again, and nobody is there under it.
    let row = parent.records_on_disk();
    let row = row.iter().find(|r| r["name"] == "zoe").unwrap();
    assert_eq!(row["status"]["state"], "stopped", "{row}");
}

// R-TOOL-10, R-TOOL-17, R-DELIV-04
#[test]
fn an_abort_before_the_agent_is_ready_withdraws_the_launch() {
    for version in Version::ALL {
        cancelled(version, Stage::Starting);
    }
}

// R-TOOL-10, R-DELIV-04
#[test]
fn an_abort_while_the_agent_runs_stops_it() {
    for version in Version::ALL {
        cancelled(version, Stage::Running);
    }
}

// R-TOOL-10, R-DELIV-04
#[test]
fn an_abort_while_the_agent_settles_stops_it() {
    for version in Version::ALL {
        cancelled(version, Stage::Settling);
    }
}

/// Aborts the run when a call is about to be made.
const ABORTS: &str = r#"
export default function (pi) {
    if (process.env.PI_SUBAGENT_AGENT_ID) return;
    pi.on("tool_call", (event, ctx) => { if (event.toolName === "agent_spawn") ctx.abort(); });
}
"#;

// R-TOOL-10
#[test]
fn a_call_that_is_cancelled_already_starts_nothing() {
    for version in Version::ALL {
        let mut parent = Parent::open(version, |pi, _| {
            Parent::extension(&pi.sandbox.agent_dir(), "aborts.ts", ABORTS);
        });
        parent.model.on(
            "the whole",
            [Turn::call("agent_spawn", spawn("the part", false))],
        );
        parent.begin("the whole");
        let records = parent.rpc.wait_settled(0);
        let settled = records.iter().find(|r| r["type"] == "agent_settled");
        assert_eq!(settled.unwrap()["aborted"], true);
        assert_eq!(parent.ends()[0]["isError"], true);
        wait::stays("nothing starts", Duration::from_millis(300), || {
            parent.all_agents().is_empty()
        });
        assert!(parent.records_on_disk().is_empty());
        assert_eq!(parent.model.requests().len(), 1);
    }
}

/// A line of the model's stream with this text.
fn raw(text: &str) -> Step {
    let delta =
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    Step::Raw(delta.to_string())
}

// R-TOOL-09, R-TOOL-13
#[test]
fn a_long_reply_is_cut_for_the_model_and_whole_in_the_session() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("write much", false)),
                Turn::say("read"),
            ],
        );
        let lines: Vec<String> = (0..110_000)
            .map(|n| format!("line {n:06} of the report, and it has more to say\n"))
            .collect();
        let whole: String = lines.concat();
        assert!(whole.len() > 5_000_000);
        let mut turn = Turn::new();
        for part in lines.chunks(10_000) {
            turn = turn.then(raw(&part.concat()));
        }
        parent.model.on("write much", [turn]);
        parent.begin("the whole");
        parent.rpc.wait_settled(0);
        let result = parent.asked("the whole")[1].tool_results().remove(0);
        let session = parent.agent_sessions().remove(0);
        assert!(result.len() < 52 * 1024, "{}", result.len());
        assert!(result.lines().count() <= 2005);
        assert!(result.contains(session.to_str().unwrap()), "{result}");
        assert!(result.contains("line 109999"), "the end is what it found");
        let end = parent.ends().remove(0);
        let details = end["result"]["details"].to_string();
        assert!(details.len() < 1 << 20, "{}", details.len());
        let saved = std::fs::read_to_string(&session).unwrap();
        let found = saved.lines().any(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            message_text(&entry["message"]) == whole
        });
        assert!(found, "the whole text is in {}", session.display());
    }
}

/// How a foreground run can end badly.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bad {
    ModelError,
    Timeout,
    Person,
}

// R-TOOL-18, R-DELIV-15, R-LIFE-13
#[test]
fn a_run_that_does_not_complete_is_a_tool_error_with_cause_text_and_session() {
    for version in Version::ALL {
        for bad in [Bad::ModelError, Bad::Timeout, Bad::Person] {
            let mut parent = Parent::start(version);
            let mut arguments = spawn("the part", false);
            if bad == Bad::Timeout {
                arguments["timeoutMs"] = json!(400);
            }
            parent.model.on(
                "the whole",
                [
                    Turn::call("agent_spawn", arguments).usage(1000, 10),
                    Turn::say("a pity").usage(1000, 10),
                ],
            );
            let hang = Gate::new();
            let last = match bad {
                Bad::ModelError => Turn::error(400, "no credit left"),
                _ => Turn::say("I have found a first").gate(&hang),
            };
            parent.model.on(
                "the part",
                [
                    Turn::call("bash", json!({"command": "true"}))
                        .text("I begin")
                        .usage(100, 1),
                    last,
                ],
            );
            parent.begin("the whole");
            let cause = match bad {
                Bad::ModelError => "no credit left",
                Bad::Timeout => "time limit",
                Bad::Person => {
                    hang.wait_arrival("the agent at the model");
                    parent.person_stops("max");
                    "stopped by the user"
                }
            };
            parent.rpc.wait_settled(0);
            let requests = parent.asked("the whole");
            assert_eq!(requests.len(), 2, "{bad:?}");
            let result = requests[1].tool_results().remove(0);
            assert!(result.contains(cause), "{bad:?}: {result}");
            let partial = match bad {
                Bad::ModelError => "I begin",
                _ => "I have found a first",
            };
            assert!(result.contains(partial), "{version:?} {bad:?}: {result}");
            let session = parent.agent_sessions().remove(0);
            assert!(result.contains(session.to_str().unwrap()), "{result}");
            assert_eq!(parent.ends().len(), 1);
            let end = parent.ends().remove(0);
            assert_eq!(end["isError"], true, "{end}");
            assert_eq!(end["result"]["details"]["agent_id"], "max", "{end}");
            parent.wait_ended("max");
            // What it cost counts all the same.
            let stats = parent.rpc.request("get_session_stats", json!({}));
            assert_eq!(stats["data"]["tokens"]["input"], 2100, "{bad:?}: {stats}");
            wait::stays("it ends once", Duration::from_millis(100), || {
                parent.asked("the whole").len() == 2
            });
        }
    }
}

// R-TOOL-10: a real Esc.
#[test]
fn an_esc_in_pis_screen_stops_the_agent() {
    let model = crate::support::model::ModelServer::start();
    let pi = crate::support::hermetic_pi::HermeticPi::new(Version::Newest, &model);
    let command = Parent::command_in(&pi, &[], |_, _| {});
    model.on(
        "the whole",
        [Turn::call("agent_spawn", spawn("the part", false))],
    );
    model.on("the part", [Turn::hang()]);
    let mut terminal = crate::support::pty::Setup::new().start(&command);
    terminal.wait_text("medium");
    terminal.send(b"/skill:pi-subagents-workflow the whole");
    terminal.wait_text("the whole");
    terminal.keys("<enter>");
    let asked = model.wait_first("the part");
    terminal.keys("<esc>");
    wait::wait_until("the request to be given up", || {
        model.requests()[asked.number].outcome == Outcome::Abandoned
    });
    terminal.wait_text("aborted");
    wait::wait_until("nothing of the agent to live", || {
        agents_of(&pi.sandbox).is_empty()
    });
    terminal.keys("<ctrl-d>");
    assert!(terminal.exit_status().success());
    wait::wait_until("nothing to be left", || pi.sandbox.processes().is_empty());
}
