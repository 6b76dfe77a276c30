//! Calls that start nothing, and what the agents of the others may use.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Parent, spawn};
use crate::support::model::{Request, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// Leaves a file when a Pi of an agent was started; one of them takes a task for itself; all have a tool
/// of their own.
const WATCH: &str = r#"
import { writeFileSync } from "node:fs";
export default function (pi) {
    pi.registerTool({
        name: "count_words",
        label: "Count words",
        description: "Counts words.",
        parameters: { type: "object", properties: {} },
        execute: async () => ({ content: [{ type: "text", text: "7" }], details: {} }),
    });
    if (process.env.PI_SUBAGENT_AGENT_ID === undefined) return;
    writeFileSync(`${process.env.HOME}/started-${process.pid}`, "");
    pi.on("input", (event) => event.text.includes("a task for nobody") ? { action: "handled" } : undefined);
}
"#;

fn watched(version: Version) -> Parent {
    Parent::open(version, |pi, _| {
        Parent::extension(&pi.sandbox.agent_dir(), "watch.ts", WATCH);
        std::fs::write(pi.work().join("a-file"), "").unwrap();
    })
}

impl Parent {
    /// How many processes of agents were started so far.
    fn started(&self) -> usize {
        let folder = std::fs::read_dir(self.pi.sandbox.home()).unwrap();
        let names = folder.flatten().map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("started-"))
            .count()
    }
}

/// What is wrong with a call, and what its error says.
fn wrong() -> Vec<(Value, &'static [&'static str])> {
    vec![
        (
            json!({"model": "scripted/s1x"}),
            &["model not found: scripted/s1x", "scripted/s1"],
        ),
        (json!({"model": "s3:high"}), &["model not found: s3", "s2"]),
        (json!({"tools": ["read", "reed"]}), &["reed", "mean read"]),
        (json!({"cwd": "nowhere"}), &["nowhere", "does not exist"]),
        (json!({"cwd": "a-file"}), &["a-file", "not a folder"]),
        (json!({"prompt": ""}), &["prompt is empty"]),
        (json!({"prompt": " \n"}), &["prompt is empty"]),
        (json!({"label": ""}), &["label is empty"]),
        (json!({"timeoutMs": 0}), &["timeoutMs"]),
        (json!({"timeoutMs": -5}), &["timeoutMs"]),
        (json!({"timeoutMs": 2_147_483_648_u64}), &["timeoutMs"]),
        (json!({"timeoutMs": "soon"}), &["timeoutMs"]),
    ]
}

// R-TOOL-04, R-TOOL-07, R-TOOL-08, R-TOOL-16, R-PI-10
#[test]
fn what_is_wrong_with_a_call_is_a_tool_error_and_nothing_is_started() {
    for version in Version::ALL {
        let mut parent = watched(version);
        let mut calls = Turn::new();
        for background in [false, true] {
            for (with, _) in wrong() {
                let mut arguments = spawn("never", background);
                for (name, value) in with.as_object().unwrap() {
                    arguments[name] = value.clone();
                }
                calls = calls.tool("agent_spawn", arguments);
            }
        }
        parent.model.on(
            "the whole",
            [
                calls,
                Turn::call("agent_spawn", spawn("the part", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("the part", [Turn::hang()]);
        parent.begin("the whole");
        parent.rpc.wait_settled(0);
        let requests = parent.asked("the whole");
        let results = requests[1].tool_results();
        for (result, (with, says)) in results.iter().zip(wrong().iter().chain(&wrong())) {
            for text in *says {
                assert!(result.contains(text), "{version:?} {with}: {result}");
            }
        }
        let ends = parent.ends();
        assert_eq!(results.len(), 2 * wrong().len());
        assert!(
            ends[..results.len()]
                .iter()
                .all(|end| end["isError"] == true)
        );
        // The first name is still there, and it is the only agent that ever was.
        let started = requests[2].tool_results().pop().unwrap();
        assert!(started.starts_with("@max has started"), "{started}");
        parent.model.wait_first("the part");
        assert_eq!(parent.started(), 1);
        assert_eq!(parent.records_on_disk().len(), 1);
        assert_eq!(parent.agent_sessions().len(), 1);
        let asked = parent.model.requests();
        let of_agents = |r: &&Request| !r.first_user_text().contains("the whole");
        assert_eq!(asked.iter().filter(of_agents).count(), 1);
    }
}

// R-LIFE-03, R-TOOL-07, R-DELIV-09
#[test]
fn a_task_that_an_extension_takes_is_no_start() {
    for version in Version::ALL {
        let mut parent = watched(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("a task for nobody", false))
                    .tool("agent_spawn", spawn("a task for nobody", true)),
                Turn::call("agent_spawn", spawn("the part", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("the part", [Turn::hang()]);
        parent.begin("the whole");
        parent.rpc.wait_settled(0);
        let requests = parent.asked("the whole");
        for result in requests[1].tool_results() {
            assert!(result.contains("handled as a command"), "{result}");
        }
        assert!(parent.ends()[..2].iter().all(|end| end["isError"] == true));
        let started = requests[2].tool_results().pop().unwrap();
        assert!(started.starts_with("@max has started"), "{started}");
        parent.model.wait_first("the part");
        assert_eq!(parent.started(), 3);
        let names: Vec<_> = parent.all_agents().iter().map(|p| p.pid).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(parent.records_on_disk().len(), 1);
        assert_eq!(parent.agent_sessions().len(), 1);
        assert!(Parent::replies(requests.last().unwrap()).is_empty());
    }
}

/// A tool that only an extension of the launch has.
const GIVES: &str = r#"
export default function (pi) {
    pi.events.on("pi-subagents:child-launch:v1", (launch) => {
        launch.extensions.push(`${process.env.HOME}/given.ts`);
    });
}
"#;
const GIVEN: &str = r#"
export default function (pi) {
    pi.registerTool({
        name: "given_tool",
        label: "Given",
        description: "Given.",
        parameters: { type: "object", properties: {} },
        execute: async () => ({ content: [], details: {} }),
    });
}
"#;

// R-PI-10, R-PI-04: what the session does not know may come with the launch.
#[test]
fn a_tool_of_an_extension_that_the_launch_brings_is_no_typo() {
    let mut parent = Parent::open(Version::Newest, |pi, command| {
        let home = pi.sandbox.home();
        std::fs::write(home.join("given.ts"), GIVEN).unwrap();
        std::fs::write(home.join("gives.ts"), GIVES).unwrap();
        command.arg("--extension").arg(home.join("gives.ts"));
    });
    let mut arguments = spawn("the part", false);
    arguments["tools"] = json!(["given_tool"]);
    parent.model.on(
        "the whole",
        [Turn::call("agent_spawn", arguments), Turn::say("ok")],
    );
    parent.model.on("the part", [Turn::say("done")]);
    parent.begin("the whole");
    parent.rpc.wait_settled(0);
    let tools = tools(&parent.model.wait_first("the part"));
    assert_eq!(tools, set(&["given_tool", "agent_send"]));
}

fn tools(request: &Request) -> BTreeSet<String> {
    request.tools().into_iter().collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

// R-TOOL-05, R-TOOL-02
#[test]
fn an_agent_has_exactly_the_tools_it_was_given_and_the_way_to_its_parent() {
    for version in Version::ALL {
        let mut parent = watched(version);
        let with = |prompt: &str, tools: Option<Value>| {
            let mut arguments = spawn(prompt, false);
            if let Some(tools) = tools {
                arguments["tools"] = tools;
            }
            arguments
        };
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", with("with none", Some(json!([])))),
                Turn::call("agent_spawn", with("with one", Some(json!(["read"])))),
                Turn::call("agent_spawn", with("with all", None)).tool(
                    "agent_spawn",
                    with("with its own", Some(json!(["count_words", "agent_send"]))),
                ),
                Turn::call("agent_stop", json!({"agent_id": "max"}))
                    .tool("agent_stop", json!({"agent_id": "zoe"})),
                Turn::call("agent_send", json!({"to": "@max", "message": "again"}))
                    .tool("agent_send", json!({"to": "@zoe", "message": "again"})),
                Turn::say("done"),
                Turn::say("thank you"),
                Turn::say("thank you"),
            ],
        );
        for who in ["all", "none", "one", "its own"] {
            let marker = format!("with {who}");
            parent
                .model
                .on(&marker, [Turn::say("done"), Turn::say("done again")]);
        }
        parent.begin("the whole");
        parent.rpc.wait_settled(0);
        let asked = parent.asked("the whole");
        let mut defaults = tools(&asked[0]);
        for own in ["agent_spawn", "agent_stop"] {
            assert!(defaults.remove(own));
        }
        assert!(defaults.len() >= 6, "{defaults:?}");
        let of = |who: &str| {
            let mut requests = parent.model.requests();
            requests.retain(|r| r.first_user_text().contains(&format!("with {who}")));
            requests
        };
        assert_eq!(tools(&of("all")[0]), defaults, "{version:?}");
        assert_eq!(
            tools(&of("its own")[0]),
            set(&["count_words", "agent_send"])
        );
        for (who, has) in [
            ("none", set(&["agent_send"])),
            ("one", set(&["read", "agent_send"])),
        ] {
            wait::wait_until("both runs", || of(who).len() == 2);
            for request in of(who) {
                assert_eq!(tools(&request), has, "{version:?} {who}");
            }
        }
    }
}
