//! What an agent that comes back is like, and what other extensions of the parent's session add to a launch.

use std::path::Path;
use std::process::Command;

use pi_agents::client::Request as Asked;
use pi_agents::fleet::agent::Status;
use serde_json::{Value, json};

use super::kit::{Lead, entries, named};
use super::spawn;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Request, Turn};
use crate::support::versions::Version;

/// What a model is, what it may use, and how much it is to think, as its server is told.
fn settings(request: &Request) -> (Value, Vec<String>, Value) {
    let body = &request.body;
    let mut tools = request.tools();
    tools.sort_unstable();
    (
        body["model"].clone(),
        tools,
        body["reasoning_effort"].clone(),
    )
}

// R-TOOL-04, R-TOOL-05, R-LIFE-10: tools, model and level stay what they were, whatever the parent's are by then.
#[test]
fn an_agent_that_comes_back_has_its_tools_its_model_and_its_level() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let level = |lead: &mut Lead, level: &str| {
            let response = lead
                .parent
                .rpc
                .request("set_thinking_level", json!({"level": level}));
            assert_eq!(response["success"], true);
        };
        for task in ["given", "inherited"] {
            lead.agent(task, [Turn::say("first"), Turn::say("second")]);
        }
        level(&mut lead, "low");
        let mut given = spawn("given", true);
        given["model"] = json!("scripted/s1");
        given["thinking"] = json!("high");
        given["tools"] = json!(["read"]);
        let names = lead.spawns_with([given, spawn("inherited", true)]);
        lead.wait_told(2);
        let used = lead.does([Turn::new()
            .tool("agent_stop", json!({"agent_id": names[0]}))
            .tool("agent_stop", json!({"agent_id": names[1]}))]);
        assert!(used.iter().all(|u| !u.error), "{used:?}");
        let model = json!({"provider": "scripted", "modelId": "s2"});
        lead.parent.rpc.request("set_model", model);
        level(&mut lead, "off");
        let message = |name: &str| json!({"to": name, "message": "again"});
        lead.does([Turn::new()
            .tool("agent_send", message(&names[0]))
            .tool("agent_send", message(&names[1]))]);
        let told = lead.wait_told(4);
        for (task, effort) in [("given", "high"), ("inherited", "low")] {
            let asked = lead.parent.asked(task);
            assert_eq!(asked.len(), 2);
            let before = settings(&asked[0]);
            assert_eq!(before.0, "s1", "{version:?} {task}");
            assert_eq!(before.2, effort, "{version:?} {task}: {}", asked[0].body);
            assert_eq!(settings(&asked[1]), before, "{version:?} {task}");
            let own = before
                .1
                .iter()
                .any(|t| t == "agent_spawn" || t == "agent_stop");
            assert!(!own, "{before:?}");
        }
        assert_eq!(
            settings(&lead.parent.asked("given")[0]).1,
            ["agent_send", "read"]
        );
        let bash = settings(&lead.parent.asked("inherited")[0]).1;
        assert!(bash.contains(&"bash".to_owned()), "{bash:?}");
        // Its own session says the same.
        let given = told.iter().find(|t| t["agent_id"] == names[0]).unwrap();
        let saved = entries(given["session_path"].as_str().unwrap());
        let of = |kind: &str, field: &str| {
            let all = saved.iter().filter(|e| e["type"] == kind);
            all.map(|e| e[field].clone()).collect::<Vec<_>>()
        };
        let levels = of("thinking_level_change", "thinkingLevel");
        assert!(
            !levels.is_empty() && levels.iter().all(|l| l == "high"),
            "{levels:?}"
        );
        let models = of("model_change", "modelId");
        assert!(
            !models.is_empty() && models.iter().all(|m| m == "s1"),
            "{models:?}"
        );
    }
}

/// Does to each launch what a file in the work folder says.
const LISTENER: &str = r#"
import { readFileSync } from "node:fs";
let emissions = 0;
export default function (pi) {
	pi.events.on("pi-subagents:child-launch:v1", (launch) => {
		emissions += 1;
		new Function("launch", "emissions", readFileSync(`${process.cwd()}/what`, "utf8"))(launch, emissions);
	});
}
"#;

fn listens(pi: &HermeticPi, command: &mut Command) {
    let path = pi.sandbox.root().join("listener.ts");
    std::fs::write(&path, LISTENER).unwrap();
    std::fs::write(pi.work().join("what"), "").unwrap();
    command
        .arg("--extension")
        .arg(path)
        .env("PI_AGENTS_LOG", "trace");
}

fn what(lead: &Lead, code: &str) {
    std::fs::write(lead.parent.pi.work().join("what"), code).unwrap();
}

/// An extension that gives a tool of that name.
fn gives_tool(path: &Path, name: &str) {
    let source = format!(
        "export default (pi) => pi.registerTool({{ name: \"{name}\", label: \"x\", description: \"x\",
            parameters: {{ type: \"object\", properties: {{}} }}, execute: async () => ({{ content: [], details: {{}} }}) }});"
    );
    std::fs::write(path, source).unwrap();
}

/// Variables a process began with.
fn environ(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let parts = bytes.split(|b| *b == 0).filter(|p| !p.is_empty());
    parts
        .map(|p| String::from_utf8_lossy(p).into_owned())
        .collect()
}

// R-PI-04, R-ID-03: every launch, and nothing else, asks anew what is to be added; a relative path is one in the
// agent's folder; who the agent is and what proves it cannot be added.
#[test]
fn every_launch_asks_anew_what_the_other_extensions_add() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, listens);
        let sub = lead.parent.pi.work().join("sub");
        std::fs::create_dir(&sub).unwrap();
        gives_tool(&sub.join("first.ts"), "first_tool");
        gives_tool(&sub.join("second.ts"), "second_tool");
        let evil = "for (const name of ['PI_SUBAGENT_AGENT_ID', 'PI_SUBAGENT_DEPTH', 'PI_SUBAGENT_MAX_DEPTH', 'PI_AGENTS_TOKEN',
            'PI_AGENTS_SOCKET', 'PI_AGENTS_INSTANCE']) launch.env[name] = 'evil';
            launch.env.COUNT = String(emissions); launch.env.PATH = '/usr/bin:/bin';";
        what(
            &lead,
            &format!("{evil} launch.extensions.push('./first.ts', './first.ts');"),
        );
        let look = Turn::call(
            "bash",
            json!({"command": "echo $COUNT $PI_SUBAGENT_AGENT_ID $PI_SUBAGENT_DEPTH $PI_SUBAGENT_MAX_DEPTH"}),
        );
        lead.agent(
            "part one",
            [
                look.clone(),
                Turn::say("one"),
                Turn::say("two"),
                look,
                Turn::say("three"),
            ],
        );
        let mut arguments = spawn("part one", true);
        arguments["cwd"] = json!("sub");
        lead.spawns_with([arguments]);
        lead.wait_told(1);
        let clean = |lead: &Lead| {
            let pid = lead
                .wait_row("max", "idle", |a| a.status == Status::Idle)
                .pid;
            let all = environ(pid.unwrap());
            let evil: Vec<_> = all.iter().filter(|v| v.ends_with("=evil")).collect();
            assert!(evil.is_empty(), "{version:?}: {evil:?}");
        };
        clean(&lead);
        what(
            &lead,
            &format!("{evil} launch.extensions.push('second.ts');"),
        );
        assert!(!lead.sends("max", "to an idle one").error);
        lead.wait_told(2);
        assert!(!lead.stops("max").error);
        let used = lead.sends("max", "to one that is gone");
        assert!(!used.error, "{version:?}: {used:?}");
        lead.wait_told(3);
        clean(&lead);
        let asked = lead.parent.asked("part one");
        let results: Vec<_> = asked.last().unwrap().tool_results();
        assert_eq!(results, ["1 max 1 1\n", "2 max 1 1\n"], "{version:?}");
        let has = |n: usize, tool: &str| asked[n].tools().iter().any(|t| t == tool);
        let both = |n: usize| (has(n, "first_tool"), has(n, "second_tool"));
        assert_eq!(both(0), (true, false), "{version:?}");
        assert_eq!(both(2), (true, false), "{version:?}: the same process");
        assert_eq!(both(3), (false, true), "{version:?}");
    }
}

/// Files below a folder whose contents hold the word, in any case.
fn holding(word: &str, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            holding(word, &path, found);
        } else if kind.is_file() {
            let text =
                String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).to_lowercase();
            if text.contains(word) {
                found.push(path.display().to_string());
            }
        }
    }
}

/// The word stands nowhere: in no file, in nothing that anybody was told.
#[track_caller]
fn stands_nowhere(lead: &Lead, word: &str) {
    let mut found = Vec::new();
    holding(word, &lead.parent.pi.sandbox.root(), &mut found);
    for (what, text) in [
        ("Pi's output", format!("{:?}", lead.parent.rpc.records())),
        ("Pi's complaints", lead.parent.rpc.stderr()),
        (
            "the model",
            format!(
                "{:?}",
                lead.parent
                    .model
                    .requests()
                    .iter()
                    .map(|r| &r.body)
                    .collect::<Vec<_>>()
            ),
        ),
        ("a viewer", format!("{:?}", lead.asks_core(Asked::Snapshot))),
        (
            "explain",
            format!(
                "{:?}",
                lead.asks_core(Asked::Explain {
                    agent: named("max")
                })
            ),
        ),
    ] {
        if text.to_lowercase().contains(word) {
            let at = text.to_lowercase().find(word).unwrap();
            let part = text.get(at.saturating_sub(200)..).unwrap_or(&text);
            found.push(format!("{what}: {:.400}", part));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Files of the program in its folders, but for its logs.
fn files(lead: &Lead) -> Vec<String> {
    let mut all = Vec::new();
    for folder in [
        lead.parent.pi.sandbox.state(),
        lead.parent.pi.sandbox.data(),
    ] {
        holding("", &folder, &mut all);
    }
    all.retain(|path| !path.contains("/logs/"));
    all.sort();
    all
}

// R-PI-04, R-TOOL-07: a launch that another extension rejects, or would make impossible, has started nothing, made
// no file and used up no name, and says nothing of what was in it; an agent that was to come back stays as it was.
#[test]
fn a_rejected_launch_starts_nothing_and_tells_nothing() {
    const BAD: &[&str] = &[
        "launch.error = 'ses' + 'ame';",
        "launch.env.A = 'ses' + 'ame'; launch.error = '';",
        "launch.env['ses' + 'ame'] = 7;",
        "launch.env.A = Promise.resolve('ses' + 'ame');",
        "launch.env = { then() {}, A: 'ses' + 'ame' };",
        "launch.env.A = 'ses' + 'ame\\0';",
        "launch.env['1' + 'ses' + 'ame'] = 'x';",
        "launch.extensions.push('/ses' + 'ame\\0');",
        "launch.extensions = Promise.resolve(['/ses' + 'ame']);",
        "launch.env.A = 'ses' + 'ame'; launch.extensions.push('');",
    ];
    for version in Version::ALL {
        let mut lead = Lead::open(version, listens);
        // Its core is there, with what it makes for itself.
        assert!(lead.stops("max").error);
        let before = files(&lead);
        for code in BAD {
            what(&lead, code);
            for background in [true, false] {
                let used = lead.uses("agent_spawn", spawn("part one", background));
                assert!(used.error, "{code}: {used:?}");
                assert!(used.text.contains("another extension"), "{code}: {used:?}");
            }
        }
        assert_eq!(files(&lead), before, "{version:?}: no file was made");
        assert_eq!(lead.row("max"), None, "{version:?}: no agent was made");
        assert_eq!(lead.parent.asked("part one").len(), 0);
        what(&lead, "");
        lead.agent("part one", [Turn::say("one"), Turn::say("two")]);
        assert_eq!(
            lead.spawns("part one"),
            "max",
            "{version:?}: no name is used up"
        );
        lead.wait_told(1);
        assert!(!lead.stops("max").error);
        for code in BAD {
            what(&lead, code);
            let used = lead.sends("max", "again");
            assert!(used.error, "{code}: {used:?}");
            assert!(used.text.contains("another extension"), "{code}: {used:?}");
            assert_eq!(lead.row("max").unwrap().pid, None);
        }
        assert_eq!(lead.parent.asked("part one").len(), 1);
        stands_nowhere(&lead, "sesame");
        what(&lead, "");
        assert!(!lead.sends("max", "once more").error);
        let told = lead.wait_told(2);
        assert_eq!(told[1]["result"], "two", "{version:?}");
        let last = lead.parent.asked("part one").pop().unwrap();
        assert_eq!(last.texts("user"), ["part one", "[from parent] once more"]);
    }
}

// R-PI-04, R-LIFE-18: what was added to a launch, and the parent's environment, are written and shown nowhere, also
// when the launch fails by what was added.
#[test]
fn what_was_added_to_a_launch_stands_nowhere() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, |pi, command| {
            listens(pi, command);
            command.env("OF_THE_HOST", format!("{}{}", "ses", "ame"));
        });
        let hidden = lead.parent.pi.work().join("sesame");
        std::fs::create_dir(&hidden).unwrap();
        gives_tool(&hidden.join("gives.ts"), "a_tool");
        let fails = "export default (pi) => pi.on(\"agent_start\", () => { throw new Error(process.env.A); });";
        std::fs::write(hidden.join("fails.ts"), fails).unwrap();
        what(
            &lead,
            "launch.env.A = 'ses' + 'ame';
             launch.extensions.push('./ses' + 'ame/gives.ts', 'ses' + 'ame/fails.ts');",
        );
        lead.agent(
            "part one",
            [Turn::say("one"), Turn::say("two"), Turn::say("three")],
        );
        lead.spawns("part one");
        lead.wait_told(1);
        assert!(
            lead.parent.asked("part one")[0]
                .tools()
                .contains(&"a_tool".to_owned())
        );
        assert!(!lead.stops("max").error);
        assert!(!lead.sends("max", "again").error);
        lead.wait_told(2);
        assert!(!lead.stops("max").error);
        stands_nowhere(&lead, "sesame");
        // Pi cannot load these and says so with the whole path.
        for path in [
            "/nowhere/ses' + 'ame.ts",
            "./no/ses' + 'ame.ts",
            "ses' + 'ame.ts",
        ] {
            what(
                &lead,
                &format!("launch.env.A = 'ses' + 'ame'; launch.extensions.push('{path}');"),
            );
            let used = lead.sends("max", "again");
            assert!(used.error && used.text.contains("extension"), "{used:?}");
            let used = lead.uses("agent_spawn", spawn("part two", true));
            assert!(used.error && used.text.contains("extension"), "{used:?}");
        }
        stands_nowhere(&lead, "sesame");
    }
}
