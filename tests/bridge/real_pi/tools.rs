//! The tools on their way from the model to the core and back.

use serde_json::{Value, json};

use super::world::{Plan, World};
use crate::bridge::scripted_core::{Handshake, Script, text_result};
use crate::support::model::Turn;
use crate::support::rpc::message_text;
use crate::support::versions::Version;
use crate::support::wait;

const TOOLS: [&str; 3] = ["agent_spawn", "agent_send", "agent_stop"];

// R-TOOL-01, R-TOOL-08, R-TOOL-11: calls run side by side, each under its own id; what the core
// says of one arrives unchanged.
#[test]
fn calls_and_results_pass_unchanged() {
    for version in Version::ALL {
        let script = Script {
            tool: Box::new(|call| match call["name"].as_str()? {
                "agent_stop" => Some(json!({
                    "content": [{"type": "text", "text": "max cannot be stopped"}],
                    "isError": true,
                    "details": {"agent": "max"},
                })),
                _ => Some(json!({
                    "content": [{"type": "text", "text": format!("did {}", call["arguments"]["label"])}],
                    "details": {"label": call["arguments"]["label"]},
                    "usage": {"input": 7, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 8,
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
                })),
            }),
            ..Script::default()
        };
        let mut world = Plan::new(version)
            .script(script)
            .env("TEAM", "blue")
            .start();
        let core = world.core.joined(0);
        world.model.on(
            "go",
            [
                Turn::call(
                    "agent_spawn",
                    json!({"prompt": "p", "label": "a", "timeoutMs": 5, "tools": []}),
                )
                .tool(
                    "agent_spawn",
                    json!({"prompt": "p", "label": "b", "run_in_background": true}),
                )
                .tool("agent_stop", json!({"agent_id": "@max"})),
                Turn::say("done"),
            ],
        );
        let records = world.rpc.run("go");
        let calls = core.told("tools/call");
        assert_eq!(calls.len(), 3);
        let started = records
            .iter()
            .filter(|r| r["type"] == "tool_execution_start");
        let ids: Vec<&Value> = started.map(|r| &r["toolCallId"]).collect();
        let told: Vec<&Value> = calls.iter().map(|call| &call["call"]).collect();
        assert_eq!(told, ids);
        assert_eq!(calls[0]["generation"], core.generation());
        assert_eq!(
            calls[0]["arguments"],
            json!({"prompt": "p", "label": "a", "timeoutMs": 5, "tools": []})
        );
        let env = calls[0]["env"].as_array().unwrap();
        assert!(env.contains(&json!({"name": "TEAM", "value": "blue"})));
        let end = |id: &Value| {
            let mut ends = records.iter().filter(|r| r["type"] == "tool_execution_end");
            ends.find(|r| r["toolCallId"] == *id).unwrap()
        };
        assert_eq!(end(ids[1])["isError"], false);
        assert_eq!(end(ids[1])["result"]["details"], json!({"label": "b"}));
        assert_eq!(end(ids[1])["result"]["usage"]["input"], 7);
        assert_eq!(end(ids[2])["isError"], true);
        assert_eq!(end(ids[2])["result"]["details"], json!({"agent": "max"}));
        assert_eq!(
            world.model.requests()[1].tool_results(),
            ["did \"a\"", "did \"b\"", "max cannot be stopped"]
        );
    }
}

// R-TOOL-08: a refusal of the core is a tool error with its way out.
#[test]
fn a_refusal_of_the_core_is_a_tool_error() {
    let script = Script {
        tool: Box::new(|_| None),
        ..Script::default()
    };
    let mut world = Plan::new(Version::Newest).script(script).start();
    let core = world.core.joined(0);
    world.model.on(
        "go",
        [
            Turn::call("agent_stop", json!({"agent_id": "zoe"})),
            Turn::say("done"),
        ],
    );
    world.rpc.prompt("go");
    core.wait_told("tools/call", |_| true);
    let id = core
        .received()
        .iter()
        .find(|m| m["method"] == "tools/call")
        .unwrap()["id"]
        .clone();
    core.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32010, "message": "no agent is called zoe",
        "data": {"code": "not_found", "message": "no agent is called zoe", "hint": "max is known"}}}));
    world.rpc.wait_settled(0);
    let end = world
        .rpc
        .wait_record("the end", |r| r["type"] == "tool_execution_end");
    assert_eq!(end["isError"], true);
    assert_eq!(
        message_text(&end["result"]),
        "no agent is called zoe\nmax is known"
    );
    assert_eq!(end["result"]["details"]["error"]["code"], "not_found");
}

// R-TOOL-11, R-TOOL-19: progress carries the id of its call, and is nothing after the end.
#[test]
fn progress_reaches_its_own_call() {
    for version in Version::ALL {
        let script = Script {
            tool: Box::new(|_| None),
            ..Script::default()
        };
        let mut world = Plan::new(version).script(script).start();
        let core = world.core.joined(0);
        world.model.on(
            "go",
            [
                Turn::call("agent_spawn", json!({"prompt": "p", "label": "a"}))
                    .tool("agent_spawn", json!({"prompt": "p", "label": "b"})),
                Turn::say("done"),
            ],
        );
        world.rpc.prompt("go");
        wait::wait_until("both calls", || core.told("tools/call").len() == 2);
        let calls = core.told("tools/call");
        let progress = |call: &Value, text: &str| {
            core.notify(
                "tools/progress",
                json!({"call": call["call"], "content": [{"type": "text", "text": text}], "details": {"at": text}}),
            );
        };
        progress(&calls[1], "reading");
        let update = world
            .rpc
            .wait_record("progress", |r| r["type"] == "tool_execution_update");
        assert_eq!(update["toolCallId"], calls[1]["call"]);
        assert_eq!(message_text(&update["partialResult"]), "reading");
        assert_eq!(update["partialResult"]["details"], json!({"at": "reading"}));
        let messages = core.received();
        let ids = messages
            .iter()
            .filter(|m| m["method"] == "tools/call")
            .map(|m| &m["id"]);
        for id in ids {
            core.send(&json!({"jsonrpc": "2.0", "id": id, "result": text_result("ok")}));
        }
        progress(&calls[1], "too late");
        world.rpc.wait_settled(0);
        let updates = world
            .rpc
            .records()
            .into_iter()
            .filter(|r| r["type"] == "tool_execution_update");
        assert_eq!(updates.count(), 1);
    }
}

// R-TOOL-12: a person's session knows the skill and gets the tools when it reads it.
#[test]
fn the_skill_activates_the_tools() {
    for version in Version::ALL {
        let script = || Script {
            activate: false,
            ..Script::default()
        };
        let mut world = Plan::new(version).script(script()).start();
        world.core.joined(0);
        let skill = pi_agents::bridge::folder(&world.pi.sandbox.cache())
            .join("skills/pi-subagents-workflow/SKILL.md");
        world.model.on(
            "go",
            [
                Turn::call("read", json!({"path": skill})),
                Turn::say("now I know"),
            ],
        );
        world.rpc.run("go");
        let requests = world.model.requests();
        let has = |n: usize| TOOLS.map(|name| requests[n].tools().iter().any(|tool| tool == name));
        assert_eq!(has(0), [false; 3]);
        assert_eq!(has(1), [true; 3]);
        assert!(requests[0].system_text().contains("pi-subagents-workflow"));
        assert!(!requests[0].system_text().contains("How to brief one"));
        // The body is in what the model asked for.
        assert!(requests[1].tool_results()[0].contains("How to brief one"));

        let mut world = Plan::new(version).script(script()).start();
        world.core.joined(0);
        world.model.on("brief", [Turn::say("I see")]);
        world.rpc.run("/skill:pi-subagents-workflow brief me");
        let tools = world.model.requests()[0].tools();
        assert!(
            TOOLS
                .iter()
                .all(|name| tools.iter().any(|tool| tool == name)),
            "{tools:?}"
        );
    }
}

// R-TOOL-12: a setting makes them active at once.
#[test]
fn the_core_can_activate_the_tools_at_once() {
    let (mut world, _core) = World::joined(Version::Newest);
    world.model.on("go", [Turn::say("ok")]);
    world.rpc.run("go");
    let tools = world.model.requests()[0].tools();
    assert!(
        TOOLS
            .iter()
            .all(|name| tools.iter().any(|tool| tool == name)),
        "{tools:?}"
    );
}

// R-PI-01, design §6: a print starts a core when it has use for one, and stays for the answer.
#[test]
fn a_print_starts_the_core_with_the_first_call() {
    for version in Version::ALL {
        let script = || Script {
            handshake: Handshake::After(std::time::Duration::from_millis(300)),
            tool: Box::new(|_| {
                std::thread::sleep(std::time::Duration::from_millis(300));
                Some(text_result("the reply"))
            }),
            ..Script::default()
        };
        let plan = |text: &str| {
            Plan::new(version)
                .script(script())
                .mode("json")
                .arg("--tools")
                .arg("agent_spawn")
                .arg(text)
        };
        let (mut command, core, model, _pi) = plan("hello").command();
        model.on("hello", [Turn::say("hi")]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(core.count(), 0);

        let (mut command, core, model, _pi) = plan("spawn").command();
        model.on(
            "spawn",
            [
                Turn::call("agent_spawn", json!({"prompt": "p", "label": "a"})),
                Turn::say("done"),
            ],
        );
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(model.requests()[1].tool_results(), ["the reply"]);
        let connection = core.connection(0);
        assert_eq!(connection.facts()["mode"], "json");
        assert_eq!(connection.facts()["has_ui"], false);
        wait::wait_until("the core to be let go", || connection.ended());
    }
}

// R-DELIV-17: a print waits for the reason too, with nothing else that keeps it alive.
#[test]
fn a_print_says_why_there_is_no_core() {
    for version in Version::ALL {
        for program in ["/nowhere/pi-agents", "/bin/false"] {
            let (mut command, _core, model, _pi) = Plan::new(version)
                .env("PI_AGENTS_BIN", program)
                .mode("json")
                .arg("--tools")
                .arg("agent_spawn")
                .arg("spawn")
                .command();
            model.on(
                "spawn",
                [
                    Turn::call("agent_spawn", json!({"prompt": "p", "label": "a"})),
                    Turn::say("a pity"),
                ],
            );
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let results = model.requests()[1].tool_results();
            assert!(results[0].contains(program), "{results:?}");
        }
    }
}
