//! Who a Pi is: a person's, a child's, one in a child's shell; secrets; copies; owners of our names.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;

use serde_json::{Value, json};

use super::world::{Plan, World};
use crate::support::model::Turn;
use crate::support::versions::Version;
use crate::support::wait;

/// A child's identity, as a core gives it.
fn child(plan: Plan, depth: u32, most: u32) -> Plan {
    plan.env("PI_SUBAGENT_AGENT_ID", "max")
        .env("PI_SUBAGENT_DEPTH", &depth.to_string())
        .env("PI_SUBAGENT_MAX_DEPTH", &most.to_string())
}

// R-PI-02: what a bridge says of itself, and how it starts its core.
#[test]
fn the_handshake_says_what_holds() {
    for version in Version::ALL {
        let mut world = Plan::new(version).arg("--model").arg("scripted/s1").start();
        let core = world.core.joined(0);
        let hello = core.wait_told("initialize", |_| true);
        assert_eq!(hello["role"], "bridge");
        assert_eq!(hello["client"]["name"], "pi-agents-bridge");
        let facts = core.facts();
        let state = world.rpc.request("get_state", json!({}))["data"].clone();
        assert_eq!(facts["session"], state["sessionId"]);
        assert_eq!(facts["session_file"], state["sessionFile"]);
        assert_eq!(facts["reason"], "startup");
        assert_eq!(facts["mode"], "rpc");
        assert_eq!(facts["has_ui"], true);
        assert_eq!(facts["model"], "scripted/s1");
        assert_eq!(facts["thinking"], state["thinkingLevel"]);
        assert_eq!(facts["pi_version"], version.number());
        assert_eq!(facts["pid"], world.rpc.pid());
        assert_eq!(facts["state"], "idle");
        assert_eq!(facts["cwd"], json!(world.pi.work()));
        assert_eq!(facts.get("proof"), None);
        // It is what the Rust types say.
        let typed: pi_agents::control::protocol::Initialize =
            serde_json::from_value(hello).unwrap();
        assert_eq!(typed.host.unwrap().pid, world.rpc.pid());
        for message in core.told("host/state") {
            serde_json::from_value::<pi_agents::control::bridge::HostState>(message).unwrap();
        }
        let relay = core.relay();
        assert_eq!(relay["args"], json!(["serve", "--stdio"]));
        // Its own session: what reaches Pi's terminal does not reach it.
        let pid = relay["pid"].as_u64().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        assert_eq!(fields[3], pid.to_string(), "its session is {}", fields[3]);
        // A change of the model is told.
        world.rpc.request(
            "set_model",
            json!({"provider": "scripted", "modelId": "s2"}),
        );
        core.wait_told("host/state", |state| {
            state["model"] == "scripted/s2" && state["thinking"] == "off"
        });
        world.rpc.close_stdin();
        world.rpc.wait_exit();
        assert_eq!(core.wait_told("host/leaving", |_| true)["reason"], "quit");
        wait::wait_until("the core to be let go", || core.ended());
    }
}

// R-ID-08, design §6: the secrets are read once; no tool, no extension and no core sees them.
#[test]
fn secrets_do_not_stay_in_the_environment() {
    for version in Version::ALL {
        let plan = Plan::new(version);
        let socket = plan.socket();
        let mut world = plan
            .without("PI_AGENTS_BIN")
            .env("PI_AGENTS_SOCKET", socket.to_str().unwrap())
            .env("PI_AGENTS_TOKEN", "sesame")
            .source("hands.ts", "export default (pi) => pi.registerCommand(\"again\", { handler: async (_, ctx) => { await ctx.reload(); } });")
            .start();
        let core = world.core.joined(0);
        assert_eq!(core.relay(), Value::Null, "it joined and started nothing");
        assert_eq!(
            core.facts()["proof"],
            json!({"agent": null, "token": "sesame"})
        );
        world.model.on(
            "go",
            [
                Turn::call("bash", json!({"command": "env | sort; cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c TOKEN"})),
                Turn::say("done"),
            ],
        );
        world.rpc.run("go");
        let output = &world.model.requests()[1].tool_results()[0];
        assert!(output.contains("PI_OFFLINE=1"), "{output}");
        assert!(!output.contains("PI_AGENTS_SOCKET"), "{output}");
        assert!(!output.contains("sesame"), "{output}");
        let env = core.facts()["env"].to_string();
        assert!(
            env.contains("PI_OFFLINE") && !env.contains("sesame"),
            "{env}"
        );
        // A reload finds them all the same.
        world.rpc.prompt("/again");
        let next = world.core.joined(1);
        assert_eq!(next.facts()["proof"]["token"], "sesame");
    }
}

// R-LIFE-18: values as bytes, and what Pi changed after its start.
#[test]
fn the_environment_is_whole() {
    let plan = Plan::new(Version::Newest);
    let (mut command, core, _model, _pi) = plan
        .source(
            "sets.ts",
            "export default () => { process.env.LATER = \"set by an extension\"; };",
        )
        .command();
    let raw = std::ffi::OsString::from_vec(vec![b'a', 0xff, b'z']);
    command.env("RAW", &raw).env("TEXT", "grün");
    let rpc = crate::support::rpc::Rpc::start(command);
    let facts = core.joined(0).facts();
    let env = facts["env"].as_array().unwrap();
    let value = |name: &str| {
        let mut all = env.iter();
        all.find(|variable| variable["name"] == name)
            .map(|v| v["value"].clone())
    };
    assert_eq!(value("RAW"), Some(json!({"bytes": raw.as_bytes()})));
    assert_eq!(value("TEXT"), Some(json!("grün")));
    assert_eq!(value("LATER"), Some(json!("set by an extension")));
    drop(rpc);
}

// R-TOOL-06, R-TOOL-12, R-DELIV-10: a child at the depth limit can ask its parent, from the first
// request on, and nothing else; it starts no core and knows of no skill.
#[test]
fn a_child_at_the_limit_asks_its_parent() {
    for version in Version::ALL {
        let plan = Plan::new(version);
        let socket = plan.socket();
        let mut world = child(plan, 1, 1)
            .env("PI_AGENTS_SOCKET", socket.to_str().unwrap())
            .env("PI_AGENTS_TOKEN", "sesame")
            .start();
        world.model.on(
            "go",
            [
                Turn::call(
                    "agent_send",
                    json!({"to": "@parent", "message": "Which branch?\n\"main\"?"}),
                ),
                Turn::call("agent_send", json!({"to": "@parent", "message": " "})),
                Turn::say("done"),
            ],
        );
        let records = world.rpc.run("go");
        let requests = world.model.requests();
        let agent_tools: Vec<String> = requests[0]
            .tools()
            .into_iter()
            .filter(|name| name.starts_with("agent_"))
            .collect();
        assert_eq!(agent_tools, ["agent_send"]);
        assert!(!requests[0].system_text().contains("pi-subagents-workflow"));
        let statuses: Vec<&Value> = records
            .iter()
            .filter(|r| r["method"] == "setStatus" && r["statusKey"] == "pi-subagent-msg")
            .collect();
        assert_eq!(statuses.len(), 1);
        let text = statuses[0]["statusText"].as_str().unwrap();
        let message: Value = serde_json::from_str(text).unwrap();
        assert_eq!(message["message"], "Which branch?\n\"main\"?");
        let ends: Vec<&Value> = records
            .iter()
            .filter(|r| r["type"] == "tool_execution_end")
            .collect();
        assert_eq!(message["id"], ends[0]["toolCallId"]);
        assert_eq!(ends[0]["isError"], false);
        assert_eq!(ends[1]["isError"], true);
        assert_eq!(world.core.count(), 0);
    }
}

// R-ID-03, R-ID-08: a child below the limit joins the core of its tree and proves who it is.
#[test]
fn a_child_below_the_limit_joins_its_core() {
    let plan = Plan::new(Version::Newest);
    let socket = plan.socket();
    let mut world = child(plan, 1, 2)
        .env("PI_AGENTS_SOCKET", socket.to_str().unwrap())
        .env("PI_AGENTS_TOKEN", "sesame")
        .start();
    let core = world.core.joined(0);
    assert_eq!(core.relay(), Value::Null);
    assert_eq!(
        core.facts()["proof"],
        json!({"agent": "max", "token": "sesame"})
    );
    world.model.on(
        "go",
        [
            Turn::call("agent_spawn", json!({"prompt": "p", "label": "l"}))
                .tool("agent_send", json!({"to": "@parent", "message": "hm?"}))
                .tool("agent_send", json!({"to": "sam", "message": "hm?"})),
            Turn::say("done"),
        ],
    );
    world.rpc.run("go");
    let calls = core.told("tools/call");
    let names: Vec<&Value> = calls.iter().map(|call| &call["name"]).collect();
    assert_eq!(names, ["agent_spawn", "agent_send"]);
    assert_eq!(calls[1]["arguments"]["to"], "sam");
    let schema = world.model.requests()[0].body["tools"].to_string();
    assert!(!schema.contains("run_in_background"), "{schema}");
    // Its core is lost, and it never starts one of its own.
    core.die();
    let again = world.core.joined(1);
    assert_eq!(again.relay(), Value::Null);
}

// R-ID-08: a Pi in a child's shell has its variables and no proof: it is nobody, and has no tools.
#[test]
fn a_pi_in_the_shell_of_a_child_is_not_the_child() {
    for version in Version::ALL {
        let mut world = child(Plan::new(version), 1, 2)
            .arg("--tools")
            .arg("bash,agent_send,agent_spawn")
            .start();
        world.model.on("go", [Turn::say("done")]);
        world.rpc.run("go");
        let request = &world.model.requests()[0];
        assert_eq!(request.tools(), ["bash"]);
        assert!(!request.system_text().contains("pi-subagents-workflow"));
        assert_eq!(world.core.count(), 0);
    }
}

// Design §6: two copies, one installed for good and one named on the command line, are one bridge.
#[test]
fn two_copies_are_one_bridge() {
    for version in Version::ALL {
        let plan = Plan::new(version);
        let installed = plan.sandbox().agent_dir().join("extensions");
        std::fs::create_dir_all(&installed).unwrap();
        let other = pi_agents::bridge::install(&plan.sandbox().data()).unwrap();
        std::os::unix::fs::symlink(&other, installed.join("pi-agents")).unwrap();
        let mut world = plan
            .source("hands.ts", "export default (pi) => pi.registerCommand(\"again\", { handler: async (_, ctx) => { await ctx.reload(); } });")
            .start();
        let core = world.core.joined(0);
        world.model.on(
            "go",
            [
                Turn::call("agent_stop", json!({"agent_id": "max"})),
                Turn::say("done"),
            ],
        );
        world.rpc.run("go");
        let tools = world.model.requests()[0].tools();
        let spawns = tools.iter().filter(|name| *name == "agent_spawn");
        assert_eq!(spawns.count(), 1);
        assert_eq!(core.told("tools/call").len(), 1);
        core.wait_state("idle");
        core.offer(1, "silent", &["one:1"]);
        core.ack(1);
        let ours = world
            .saved()
            .into_iter()
            .filter(|e| e["type"] == "custom_message");
        assert_eq!(ours.count(), 1);
        // After a reload too.
        world.rpc.prompt("/again");
        world.core.joined(1);
        wait::stays(
            "one connection",
            std::time::Duration::from_millis(200),
            || world.core.count() == 2,
        );
    }
}

// Design §6: how Pi fails when another extension owns a name of ours. The launcher and `doctor` name
// the owner from this line.
#[test]
fn a_foreign_owner_of_a_name_is_named_by_pi() {
    const OWNS: &str = r#"
export default function (pi) {
    pi.registerTool({ name: "agent_spawn", label: "x", description: "x", parameters: { type: "object", properties: {} },
        execute: async () => ({ content: [], details: {} }) });
}
"#;
    for version in Version::ALL {
        let plan = Plan::new(version).source("owns.ts", OWNS);
        let owner = plan.sandbox().root().join("owns.ts");
        let bridge = pi_agents::bridge::folder(&plan.sandbox().cache()).join("src/index.ts");
        blames(plan, &owner, &bridge);
        // Which one is blamed depends on the order of loading: what is installed comes last.
        let plan = Plan::new(version);
        let installed = plan.sandbox().agent_dir().join("extensions");
        std::fs::create_dir_all(&installed).unwrap();
        let owner = installed.join("owns.ts");
        std::fs::write(&owner, OWNS).unwrap();
        let bridge = pi_agents::bridge::folder(&plan.sandbox().cache()).join("src/index.ts");
        blames(plan, &owner, &bridge);
    }
}

/// Pi ends before it says anything, and names both.
#[track_caller]
fn blames(plan: Plan, blamed: &std::path::Path, other: &std::path::Path) {
    let mut world: World = plan.start();
    let status = world.rpc.wait_exit();
    assert_eq!(status.code(), Some(1));
    assert!(world.rpc.records().is_empty());
    let stderr = world.rpc.stderr();
    let expected = format!(
        "Failed to load extension \"{}\": Tool \"agent_spawn\" conflicts with {}",
        blamed.display(),
        other.display()
    );
    assert!(stderr.contains(&expected), "{stderr}");
    assert_eq!(world.core.count(), 0);
}
