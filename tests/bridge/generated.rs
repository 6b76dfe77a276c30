//! Golden files of the bridge's part of the protocol, its page, and the tools' file.
//! `UPDATE_GENERATED=1` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pi_agents::client::{EnvText, EnvVar};
use pi_agents::control::bridge::{
    self, Ack, Activity, Branch, Content, Contributions, Delivery, DeliveryKind, Epoch, HostFacts,
    HostState, HostWelcome, LaunchEvent, LeaveReason, Leaving, Limits, METHODS, Named, NamedAgent,
    Offer, OfferMode, PiMode, Proof, Refusal, Refused, Roster, StartReason, Tool, ToolCall,
    ToolCancel, ToolList, ToolProgress, ToolResult, method,
};
use pi_agents::control::protocol::{
    self, Direction, Initialize, Initialized, NEWEST_VERSION, Nothing, Program, Role,
};
use pi_agents::control::rpc::{self, Message, RpcId};
use pi_agents::fleet::ids::{CoreId, HostId};
use pi_agents::fleet::roster::CoreView;
use pi_agents::tools::subagents::{self, NestedSpawnArgs, Position, SendArgs, SpawnArgs, StopArgs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn compare(path: &Path, text: &str) {
    let path = root().join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    pretty_assertions::assert_eq!(
        there,
        text,
        "{} is out of date: run the tests with UPDATE_GENERATED=1",
        path.display()
    );
}

fn pretty(line: &[u8]) -> String {
    let value: Value = serde_json::from_slice(line).unwrap();
    format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
}

/// Examples, and that each is read back as what was written.
#[derive(Default)]
struct Examples(BTreeMap<String, String>);

impl Examples {
    fn call<P, R>(&mut self, name: &str, params: &P, result: &R)
    where
        P: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
        R: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let line = rpc::call(1, name, params).unwrap();
        let Ok(Message::Call { params: read, .. }) = rpc::parse(&line) else {
            panic!("{name} is no call");
        };
        assert_eq!(
            protocol::params_of::<P>(name, read.as_deref()).unwrap(),
            *params
        );
        let file = name.replace('/', "-");
        self.0.insert(file.clone(), pretty(&line));
        let line = rpc::result(&RpcId::Number(1), result).unwrap();
        let Ok(Message::Answer {
            outcome: Ok(Some(read)),
            ..
        }) = rpc::parse(&line)
        else {
            panic!("{name} has no answer");
        };
        assert_eq!(serde_json::from_str::<R>(read.get()).unwrap(), *result);
        self.0.insert(format!("{file}.reply"), pretty(&line));
    }

    fn notice<P>(&mut self, name: &str, params: &P)
    where
        P: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let line = rpc::notice(name, params).unwrap();
        let Ok(Message::Notice { params: read, .. }) = rpc::parse(&line) else {
            panic!("{name} is no notice");
        };
        assert_eq!(
            protocol::params_of::<P>(name, read.as_deref()).unwrap(),
            *params
        );
        self.0.insert(name.replace('/', "-"), pretty(&line));
    }
}

fn tool() -> Tool {
    Tool {
        name: "agent_stop".into(),
        title: "Stop agent".into(),
        description: "Stops an agent.".into(),
        prompt_snippet: "Stop an agent".into(),
        input_schema: json!({"type": "object"}),
    }
}

fn hello() -> (Initialize, Initialized) {
    let env = vec![
        EnvVar {
            name: EnvText::Text("LANG".into()),
            value: EnvText::Text("C.UTF-8".into()),
        },
        EnvVar {
            name: EnvText::Text("RAW".into()),
            value: EnvText::Bytes {
                bytes: vec![255, 65],
            },
        },
    ];
    let facts = HostFacts {
        session: "01930000-0000-7000-8000-00000000000a".into(),
        session_file: Some("/home/ada/.pi/agent/sessions/a.jsonl".into()),
        session_file_exists: true,
        reason: StartReason::Resume,
        cwd: "/home/ada/project".into(),
        mode: PiMode::Tui,
        has_ui: true,
        model: Some("openai/gpt-5".into()),
        thinking: Some("medium".into()),
        pi_version: Some("1.6.0".into()),
        pid: 4242,
        trusted: true,
        state: Activity::Idle,
        known: vec!["01930000-0000-7000-8000-00000000000b:1".into()],
        durable: true,
        undecided: vec![],
        branch: Roster {
            agents: Some(vec!["01930000-0000-7000-8000-00000000000c".into()]),
            names: vec!["max".into(), "zoe".into()],
        },
        env,
        proof: Some(Proof {
            agent: Some("max".into()),
            token: "5f2c…".into(),
        }),
    };
    let welcome = HostWelcome {
        id: "01930000-0000-7000-8000-00000000000a".into(),
        generation: 1,
        tools: vec![tool()],
        activate: false,
        limits: Limits {
            line_bytes: 16 << 20,
        },
    };
    let hello = Initialize {
        role: Role::Bridge,
        versions: [1, 1],
        client: Program {
            name: "pi-agents-bridge".into(),
            version: "0.1.0".into(),
        },
        host: Some(Box::new(facts)),
    };
    let core = CoreView {
        id: CoreId(Uuid::from_u128(1)),
        pid: 7,
        version: "0.1.0".into(),
        host: HostId(Uuid::from_u128(2)),
        folder: PathBuf::from("/home/ada/project"),
        pi: "pi".into(),
        demo: false,
        badges: vec![],
        attached: 1,
        sessions: Vec::new(),
    };
    let initialized = Initialized {
        version: 1,
        core,
        host: Some(Box::new(welcome)),
    };
    (hello, initialized)
}

fn examples() -> BTreeMap<String, String> {
    let mut all = Examples::default();
    let (hello, initialized) = hello();
    all.call(protocol::method::INITIALIZE, &hello, &initialized);
    let tools = ToolList {
        tools: vec![tool()],
    };
    all.call(method::TOOLS_LIST, &Nothing {}, &tools);
    all.call(
        method::TOOLS_CALL,
        &ToolCall {
            generation: 1,
            call: "call_1".into(),
            name: "agent_stop".into(),
            arguments: json!({"agent_id": "max"}),
            env: vec![],
            models: vec![],
            tools: vec![],
        },
        &ToolResult {
            content: vec![Content::Text {
                text: "max stopped".into(),
            }],
            is_error: false,
            details: json!({"agent": "max", "label": "fix the flaky test"}),
            usage: None,
        },
    );
    all.notice(
        method::TOOLS_CANCEL,
        &ToolCancel {
            generation: 1,
            call: "call_1".into(),
        },
    );
    all.notice(
        method::TOOLS_PROGRESS,
        &ToolProgress {
            call: "call_1".into(),
            content: vec![Content::Text {
                text: "@max running · bash: npm test\nI run the tests first.".into(),
            }],
            details: json!({
                "agent_id": "max",
                "call": "call_1",
                "elapsed_ms": 1200,
                "label": "fix the flaky test",
                "model": "openai/gpt-5",
                "operation": "bash: npm test",
                "session_path": "/home/ada/sessions/a.jsonl",
                "since_ms": 1_796_040_200_000_i64,
                "status": "running",
                "tail": "I run the tests first.",
                "tail_cut": false,
                "thinking": "medium",
                "tool_uses": 1,
                "usage": {"cache_read": 0, "cache_write": 0, "cost": 0.01, "input": 1000, "output": 250},
            }),
        },
    );
    all.notice(
        method::STATE,
        &HostState {
            generation: 1,
            seq: 3,
            state: Activity::Busy,
            model: Some("openai/gpt-5".into()),
            thinking: Some("medium".into()),
            dialogs: 0,
        },
    );
    all.notice(
        method::BRANCH,
        &Branch {
            generation: 1,
            branch: Roster {
                agents: Some(vec![]),
                names: vec!["max".into(), "zoe".into()],
            },
        },
    );
    all.notice(
        method::NAMED,
        &Named {
            generation: 1,
            agents: vec![NamedAgent {
                id: "01930000-0000-7000-8000-00000000000c".into(),
                name: "max".into(),
            }],
        },
    );
    all.notice(
        method::OFFER,
        &Offer {
            generation: 1,
            epoch: 5,
            mode: OfferMode::Boundary,
            deliveries: vec![Delivery {
                id: "01930000-0000-7000-8000-00000000000b:1".into(),
                kind: DeliveryKind::FinalReply,
                content: json!({
                    "kind": "final_reply",
                    "completion_id": "01930000-0000-7000-8000-00000000000b:1",
                    "status": "completed",
                    "agent_id": "max",
                    "result": "It was a race.",
                    "session_path": "/home/ada/sessions/a.jsonl",
                    "idle": true,
                })
                .to_string(),
                details: json!({"label": "fix the flaky test", "took_ms": 27_500}),
            }],
        },
    );
    let epoch = Epoch {
        generation: 1,
        epoch: 5,
    };
    all.notice(method::WITHDRAW, &epoch);
    all.notice(method::TAKEN, &epoch);
    all.notice(
        method::REFUSED,
        &Refused {
            generation: 1,
            epoch: 5,
            why: Refusal::Idle,
        },
    );
    all.notice(
        method::ACK,
        &Ack {
            generation: 1,
            epoch: Some(5),
            found: vec!["01930000-0000-7000-8000-00000000000b:1".into()],
            missing: vec![],
            durable: true,
        },
    );
    all.call(
        method::LAUNCH_EVENT,
        &LaunchEvent { generation: 1 },
        &Contributions {
            env: [("TEAM".to_owned(), "blue".to_owned())].into(),
            extensions: vec!["/home/ada/ext.ts".into()],
        },
    );
    all.call(
        method::LEAVING,
        &Leaving {
            generation: 1,
            reason: LeaveReason::Reload,
        },
        &Nothing {},
    );
    all.0
}

// R-DELIV-05, R-PI-01: the shapes both ends code against.
#[test]
fn messages_look_as_in_the_golden_files() {
    let folder = Path::new("tests/fixtures/bridge-protocol");
    let examples = examples();
    for (name, text) in &examples {
        compare(&folder.join(format!("{name}.json")), text);
    }
    let mut want: BTreeSet<String> =
        ["initialize".to_owned(), "initialize.reply".to_owned()].into();
    for m in METHODS {
        let name = m.name.replace('/', "-");
        if matches!(m.direction, Direction::Call | Direction::CoreCall) {
            want.insert(format!("{name}.reply"));
        }
        want.insert(name);
    }
    let have: BTreeSet<String> = examples.into_keys().collect();
    assert_eq!(have, want);
    let on_disk: BTreeSet<String> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.trim_end_matches(".json").to_owned()
        })
        .collect();
    assert_eq!(on_disk, want);
}

#[test]
fn the_reference_of_the_bridge_is_up_to_date() {
    let examples = examples();
    let mut page = format!(
        "# Protocol of the bridge, version {NEWEST_VERSION}\n\n\
         <!-- Generated by tests/bridge/generated.rs from src/control/bridge.rs; `UPDATE_GENERATED=1 cargo test --test it bridge::` writes it again. -->\n\n\
         What the extension in a Pi session and its core say to each other, beside what\n\
         [control-protocol.md](control-protocol.md) says of lines and errors. The bridge starts a core and speaks over\n\
         its stdin and stdout (`pi-agents serve --stdio`), or joins one at `PI_AGENTS_SOCKET`. It decides nothing: the core says\n\
         what is offered and how, the bridge hands over, may refuse, and reports what it found in the session.\n\n\
         - Each offer is answered by exactly one `host/taken` or `host/refused`, unless the connection ends first.\n\
         - Every id of a taken offer comes back in exactly one `host/ack`, as found or as missing; perhaps over the next\n\
         \x20 connection of the same session, where the handshake names it in `undecided`.\n\
         - The answer to `initialize` begins a generation. A message of another generation is not meant: an offer is refused,\n\
         \x20 everything else ignored.\n\
         - A bridge whose core is lost starts it again once; calls that were waiting end as errors, held offers are forgotten.\n"
    );
    let mut section = |title: &str, parts: &[(&str, &str, bool)]| {
        let _ = writeln!(page, "\n## {title}");
        for (name, doc, answered) in parts {
            let file = name.replace('/', "-");
            let _ = write!(
                page,
                "\n### `{name}`\n\n{doc}\n\n```json\n{}```\n",
                examples[&file]
            );
            if *answered {
                let reply = &examples[&format!("{file}.reply")];
                let _ = write!(page, "\n```json\n{reply}```\n");
            }
        }
    };
    section(
        "The handshake",
        &[(
            protocol::method::INITIALIZE,
            "As of every client, with the facts of the Pi session in `host`. The answer's `host` says who the bridge is here and which generation holds.",
            true,
        )],
    );
    for (direction, title) in [
        (Direction::Call, "Calls, bridge to core"),
        (Direction::ClientNotice, "Notices, bridge to core"),
        (Direction::CoreCall, "Calls, core to bridge"),
        (Direction::Notice, "Notices, core to bridge"),
    ] {
        let answered = matches!(direction, Direction::Call | Direction::CoreCall);
        let parts: Vec<_> = METHODS
            .iter()
            .filter(|m| m.direction == direction)
            .map(|m| (m.name, m.doc, answered))
            .collect();
        section(title, &parts);
    }
    compare(Path::new("docs/bridge-protocol.md"), &page);
}

// R-TOOL-14: names and schemas are golden; the bridge's file is what the Rust types say.
#[test]
fn the_file_of_tools_is_up_to_date() {
    compare(
        Path::new("assets/bridge/tools.json"),
        &subagents::as_json().unwrap(),
    );
}

// R-TOOL-06: the schema of each position is what its arguments are read by, field by field.
#[test]
fn schemas_and_arguments_agree() {
    fn reads(position: Position, tool: &str, arguments: Value) -> Result<(), String> {
        let read = match (position, tool) {
            (Position::Root, subagents::SPAWN) => {
                serde_json::from_value::<SpawnArgs>(arguments).map(drop)
            }
            (_, subagents::SPAWN) => serde_json::from_value::<NestedSpawnArgs>(arguments).map(drop),
            (_, subagents::SEND) => serde_json::from_value::<SendArgs>(arguments).map(drop),
            (_, subagents::STOP) => serde_json::from_value::<StopArgs>(arguments).map(drop),
            _ => panic!("{tool} has no arguments"),
        };
        read.map_err(|error| error.to_string())
    }
    fn sample(schema: &Value) -> Value {
        match (&schema["enum"], schema["type"].as_str().unwrap()) {
            (Value::Array(words), _) => words[0].clone(),
            (_, "string") => json!("x"),
            (_, "boolean") => json!(true),
            (_, "integer") => json!(1),
            (_, "array") => json!(["read"]),
            (_, other) => panic!("no example of {other}"),
        }
    }
    for position in Position::ALL {
        for tool in subagents::definitions(position) {
            let schema = serde_json::to_value(&tool.input_schema).unwrap();
            let properties = schema["properties"].as_object().unwrap();
            let full: serde_json::Map<String, Value> = properties
                .iter()
                .map(|(name, schema)| (name.clone(), sample(schema)))
                .collect();
            assert_eq!(reads(position, tool.name, full.clone().into()), Ok(()));
            for name in properties.keys() {
                let mut without = full.clone();
                without.remove(name);
                let needed = tool.input_schema.required.contains(&name.as_str());
                let read = reads(position, tool.name, without.into());
                assert_eq!(read.is_err(), needed, "{} without {name}", tool.name);
            }
            let mut more = full.clone();
            more.insert("other".into(), json!(1));
            assert!(reads(position, tool.name, more.into()).is_err());
            // Plain words, understood by every provider: no `anyOf`, no `$ref`, no `null`.
            for (name, schema) in properties {
                for key in schema.as_object().unwrap().keys() {
                    let plain = ["type", "description", "enum", "items", "minimum", "maximum"];
                    assert!(plain.contains(&key.as_str()), "{name} has {key}");
                }
            }
        }
    }
    // Nested ones wait, leaves only ask.
    let names = |position| -> Vec<&str> {
        let tools = subagents::definitions(position);
        tools.iter().map(|tool| tool.name).collect()
    };
    assert_eq!(
        names(Position::Nested),
        ["agent_spawn", "agent_send", "agent_stop"]
    );
    assert_eq!(names(Position::Leaf), ["agent_send"]);
    let background = json!({"prompt": "x", "label": "x", "run_in_background": true});
    assert!(reads(Position::Nested, "agent_spawn", background.clone()).is_err());
    assert!(reads(Position::Root, "agent_spawn", background).is_ok());
    assert_eq!(Position::at(0, 1), Position::Root);
    assert_eq!(Position::at(1, 1), Position::Leaf);
    assert_eq!(Position::at(1, 2), Position::Nested);
    assert_eq!(Position::at(3, 2), Position::Leaf);
}

// R-OPS-05: what is secret is not printed by accident.
#[test]
fn secrets_are_not_printed() {
    let (hello, _) = hello();
    let printed = format!("{hello:?}");
    assert!(!printed.contains("5f2c"), "{printed}");
    assert!(!printed.contains("C.UTF-8"), "{printed}");
    let contributions = bridge::Contributions {
        env: [("KEY".to_owned(), "sesame".to_owned())].into(),
        extensions: vec!["/secret/place".into()],
    };
    let printed = format!("{contributions:?}");
    assert!(!printed.contains("sesame") && !printed.contains("place"));
}
