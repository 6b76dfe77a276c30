//! One example of every message, for the golden files and the reference.

use std::path::PathBuf;

use pi_agents::client::{
    AgentRef, EnvText, EnvVar, ErrorCode, Reply, Request, RequestError, SpawnRequest, Update,
};
use pi_agents::fleet::agent::{Status, StopCause, Thinking, ToolChoice};
use pi_agents::fleet::history::{
    Asked, Beginning, By, CallKind, Change, Did, Explanation, HistoryEntry, Recorded, What,
};
use pi_agents::fleet::ids::{AgentId, MessageId};
use pi_agents::fleet::machine::table::State;
use pi_agents::fleet::roster::{
    AgentView, Badge, ContextUse, DialogAnswer, DialogKind, DialogView, FleetDelta, FleetSnapshot,
    MessageState, PendingMessage, RetryView, UsageTotals,
};
use pi_agents::fleet::transcript::{
    Entry, EntryChange, EntryKind, Level, Outcome, ToolEntry, ToolState, TranscriptPatch,
};
use uuid::Uuid;

use super::fake_core::{agent_view, core_view};

fn agent() -> AgentId {
    AgentId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0009))
}

fn busy_agent() -> AgentView {
    let mut view = agent_view(agent().0.as_u128(), "fix the flaky test");
    view.spec.model = Some("openai/gpt-5".into());
    view.spec.thinking = Some(Thinking::High);
    view.spec.tools = ToolChoice::Only(vec!["read".into(), "bash".into()]);
    view.usage = UsageTotals {
        input: 1200,
        output: 340,
        cache_read: 9000,
        cache_write: 0,
        cost: 0.0125,
    };
    view.context = Some(ContextUse {
        tokens: 10_540,
        window: 400_000,
    });
    view.tool_uses = 3;
    view.activity = Some("bash: npm test".into());
    view.retry = Some(RetryView {
        attempt: 1,
        max: 3,
        delay_ms: 2000,
        since_ms: 1_700_000_001_000,
        error: "429 too many requests".into(),
    });
    view.pending = vec![PendingMessage {
        id: MessageId(Uuid::from_u128(0x77)),
        text: "use the other file".into(),
        state: MessageState::Accepted,
    }];
    view.dialogs = vec![DialogView {
        id: "d1".into(),
        title: "Run it?".into(),
        kind: DialogKind::Select {
            options: vec!["yes".into(), "no".into()],
        },
        since_ms: 1_700_000_002_000,
        timeout_ms: Some(30_000),
    }];
    view.statuses = vec![("plan".into(), "2/5".into())];
    view.session_path = Some(PathBuf::from("/home/ada/sessions/a.jsonl"));
    view
}

pub fn fleet() -> FleetSnapshot {
    let mut stopped = agent_view(12, "write the notes");
    stopped.name = "zoe".into();
    stopped.status = Status::Stopped { by: StopCause::You };
    stopped.pid = None;
    let mut failed = agent_view(13, "talk to the moon");
    failed.name = "kai".into();
    failed.status = Status::Failed {
        reason: "401 unauthorised".into(),
    };
    let mut core = core_view();
    core.badges = vec![Badge::Unguarded];
    FleetSnapshot {
        rev: 41,
        core,
        agents: vec![busy_agent(), stopped, failed],
    }
}

/// Requests by method name, as in `METHODS`, each with an example of its answer.
pub fn requests() -> Vec<(Request, Reply)> {
    vec![
        (
            Request::Spawn(SpawnRequest {
                prompt: "Fix the flaky test".into(),
                label: Some("flaky test".into()),
                model: Some("openai/gpt-5".into()),
                thinking: Some(Thinking::High),
                tools: ToolChoice::Only(vec!["read".into(), "bash".into()]),
                cwd: Some(PathBuf::from("sub/folder")),
                persistent: Some(true),
                timeout_ms: Some(600_000),
                env: vec![
                    EnvVar {
                        name: EnvText::Text("PATH".into()),
                        value: EnvText::Text("/usr/bin".into()),
                    },
                    EnvVar {
                        name: EnvText::Text("ODD".into()),
                        value: EnvText::Bytes {
                            bytes: vec![0xff, 0x41],
                        },
                    },
                ],
            }),
            Reply::Spawned {
                agent: agent(),
                name: "max".into(),
                session_path: Some(PathBuf::from("/home/ada/sessions/a.jsonl")),
            },
        ),
        (
            Request::Send {
                agent: AgentRef::Name("max".into()),
                text: "use the other file".into(),
                env: vec![],
            },
            Reply::Sent {
                message: MessageId(Uuid::from_u128(0x77)),
                revived: false,
                steered: true,
            },
        ),
        (
            Request::Continue {
                agent: AgentRef::Name("max".into()),
                text: Some("Go on, and say which tests are left".into()),
                env: vec![],
            },
            Reply::Sent {
                message: MessageId(Uuid::from_u128(0x78)),
                revived: true,
                steered: false,
            },
        ),
        (
            Request::Stop {
                agent: AgentRef::Id(agent()),
            },
            Reply::Stopped { was_live: true },
        ),
        (
            Request::Abort {
                agent: AgentRef::Id(agent()),
            },
            Reply::Aborted {
                returned: vec!["use the other file".into()],
            },
        ),
        (
            Request::Answer {
                agent: AgentRef::Id(agent()),
                dialog: "d1".into(),
                answer: DialogAnswer::Value("yes".into()),
            },
            Reply::Done,
        ),
        (
            Request::Explain {
                agent: AgentRef::Name("kai".into()),
            },
            Reply::Explained {
                explanation: Box::new(explanation()),
            },
        ),
        (
            Request::Watch {
                agents: vec![agent()],
            },
            Reply::Done,
        ),
        (Request::Resync, Reply::Done),
        (
            Request::Snapshot,
            Reply::Snapshot {
                fleet: Box::new(fleet()),
            },
        ),
        (Request::Shutdown, Reply::Done),
    ]
}

/// An agent of an earlier core that was messaged and failed again.
pub fn explanation() -> Explanation {
    let view = &fleet().agents[2];
    let at = 1_700_000_000_000;
    let failed = Status::Failed {
        reason: "401 unauthorised".into(),
    };
    Explanation {
        agent: view.id,
        name: view.name.clone(),
        hosted: true,
        status: failed.clone(),
        closing: false,
        since_ms: at + 12_345,
        dialogs: 0,
        asked: Some(Asked {
            task: Beginning {
                text: "Talk to the moon".into(),
                chars: 16,
            },
            cwd: Some(PathBuf::from("sub/folder")),
            tools: ToolChoice::Only(vec!["read".into()]),
            ..Asked::default()
        }),
        effective: view.spec.clone(),
        model: Some("openai/gpt-5".into()),
        thinking: Some("medium".into()),
        pid: None,
        session_path: Some(PathBuf::from("/home/ada/sessions/a.jsonl")),
        runs_ended: 3,
        now_ms: at + 20_000,
        known_since_ms: at,
        recorded: Some(Recorded {
            status: Status::Idle,
            since_ms: at - 60_000,
        }),
        left_out: 2,
        entries: vec![
            HistoryEntry {
                at_ms: at + 12_345,
                mono_ms: 12_345,
                first_ms: at + 12_345,
                count: 1,
                process: Some(1),
                ignored: false,
                what: What::RunEnded {
                    stop: "error".into(),
                    error: Some("401 unauthorised".into()),
                },
                did: vec![
                    Did::RunOver {
                        outcome: Outcome::Failed {
                            reason: "401 unauthorised".into(),
                        },
                        took_ms: 300,
                        tokens: 0,
                        tool_uses: 0,
                    },
                    Did::ClosedInput,
                ],
                change: Some(Change {
                    from: Some(State::Running),
                    to: failed,
                    when: Some("provider error, or the process died".into()),
                }),
            },
            HistoryEntry {
                at_ms: at + 12_000,
                mono_ms: 12_000,
                first_ms: at + 11_000,
                count: 4,
                process: Some(1),
                ignored: false,
                what: What::QueueChanged {
                    steering: 0,
                    follow_up: 0,
                },
                did: vec![],
                change: None,
            },
            HistoryEntry {
                at_ms: at + 10_000,
                mono_ms: 10_000,
                first_ms: at + 10_000,
                count: 1,
                process: None,
                ignored: false,
                what: What::MessageAsked {
                    message: Beginning {
                        text: "try again".into(),
                        chars: 9,
                    },
                    by: By::You,
                },
                did: vec![
                    Did::Launched {
                        process: 1,
                        resumes: true,
                    },
                    Did::Answered {
                        call: CallKind::Send,
                        error: Some("not delivered".into()),
                        code: Some(ErrorCode::Gone),
                    },
                ],
                change: Some(Change {
                    from: Some(State::Completed),
                    to: Status::Starting,
                    when: Some("revived by a message".into()),
                }),
            },
        ],
    }
}

pub fn updates() -> Vec<Update> {
    vec![
        Update::Snapshot(Box::new(fleet())),
        Update::Delta(FleetDelta {
            since: 41,
            rev: 43,
            core: None,
            agents: vec![busy_agent()],
        }),
        Update::Transcript {
            agent: agent(),
            patch: patch(),
        },
    ]
}

fn patch() -> TranscriptPatch {
    let kinds = vec![
        EntryKind::User {
            text: "Fix the flaky test".into(),
            images: 0,
        },
        EntryKind::Thinking {
            text: "Which one?".into(),
            done: true,
        },
        EntryKind::Tool(ToolEntry {
            call_id: "call_1".into(),
            name: "bash".into(),
            args: "{\"command\":\"npm test\"}".into(),
            output: "1 failed".into(),
            hidden_lines: 12,
            state: ToolState::Failed,
            started_ms: Some(1_700_000_003_000),
            took_ms: Some(1250),
        }),
        EntryKind::Notice {
            level: Level::Warning,
            text: "compacted".into(),
        },
        EntryKind::Custom {
            custom_type: "note".into(),
            text: "from an extension".into(),
        },
        EntryKind::RunEnd {
            outcome: Outcome::Failed {
                reason: "500".into(),
            },
            took_ms: 9000,
            tokens: 1540,
            tool_uses: 1,
        },
    ];
    let mut changes: Vec<EntryChange> = kinds
        .into_iter()
        .enumerate()
        .map(|(i, kind)| EntryChange::Put {
            entry: Entry {
                seq: 4 + i as u64,
                at_ms: 1_700_000_000_000 + i as i64,
                kind,
            },
        })
        .collect();
    changes.push(EntryChange::Append {
        seq: 10,
        from: 5,
        text: " more".into(),
    });
    TranscriptPatch {
        since: 8,
        rev: 20,
        reset: false,
        first_seq: 2,
        changes,
    }
}

pub fn refusal() -> RequestError {
    RequestError::new(ErrorCode::NotFound, "no agent is called zoe")
        .with_hint("`pi-agents ps` lists them")
}
