//! The screen over a scripted fleet, to look at it: `cargo run --example tui-preview`.
//!
//! `PREVIEW=empty` begins without agents, `PREVIEW=problem` with the first-run screen,
//! `PREVIEW=idle` with agents that do nothing, `PREVIEW=running` with one that only runs,
//! `PREVIEW=never` never connects, `PREVIEW=panic-thread` and `panic-loop` break.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "fake_client.rs"]
mod fake_client;
#[path = "scripted_fleet.rs"]
mod scripted_fleet;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_client::{FakeClient, NOON, agent, id};
use pi_agents::client::{AgentRef, ErrorCode, FleetClient, Reply, Request, RequestError};
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::ids::AgentId;
use pi_agents::fleet::transcript::EntryKind;
use pi_agents::tui::{self, Attempt, Connector, RunOptions, StartCheck, StartProblem};

#[tokio::main]
async fn main() {
    let mode = std::env::var("PREVIEW").unwrap_or_default();
    pi_agents::sys::panic::install(None);
    let client = Arc::new(match mode.as_str() {
        "empty" | "problem" => FakeClient::new(Vec::new()),
        _ => scripted_fleet::client(),
    });
    to_now(&client);
    if mode == "idle" || mode == "running" {
        client.change(|fleet| {
            for agent in &mut fleet.agents {
                agent.dialogs.clear();
                agent.retry = None;
                agent.status = Status::Idle;
                agent.activity = None;
            }
            if let Some(first) = fleet.agents.first_mut().filter(|_| mode == "running") {
                first.status = Status::Running;
            }
        });
        client.state().logs.clear();
    }
    act_as_core(&client);
    if mode.is_empty() {
        tokio::spawn(stream(Arc::clone(&client)));
    }
    let core: Arc<dyn FleetClient> = client;
    let problem = mode == "problem";
    let connect: Connector = Arc::new(move |attempt| {
        let core = Arc::clone(&core);
        assert!(mode != "panic-loop", "in the loop");
        let mode = mode.clone();
        Box::pin(async move {
            match mode.as_str() {
                "never" => std::future::pending().await,
                "panic-thread" => {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    let _ = tokio::spawn(async { panic!("in a thread") }).await;
                }
                _ => {}
            }
            if problem && attempt != Attempt::Demo {
                return Err(no_pi());
            }
            Ok(core)
        })
    });
    let options = RunOptions {
        folder: "/home/you/shop".into(),
        home: Some("/home/you".into()),
        owner: true,
        reconnects: true,
        reduced_motion: std::env::var_os("PREVIEW_STILL").is_some(),
        ..RunOptions::default()
    };
    let end = tui::run(options, connect).await;
    let _ = writeln!(std::io::stdout(), "end: {end:?}");
}

/// The sample stands at noon of one day; the screen has today's clock.
fn to_now(client: &FakeClient) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let by = i64::try_from(now.as_millis()).unwrap() - NOON;
    tools_to_now(client, by);
    client.change(|fleet| {
        for agent in &mut fleet.agents {
            agent.since_ms += by;
            agent.run_started_ms = agent.run_started_ms.map(|at| at + by);
            for dialog in &mut agent.dialogs {
                dialog.since_ms += by;
            }
            if let Some(retry) = &mut agent.retry {
                retry.since_ms += by;
            }
        }
    });
}

fn tools_to_now(client: &FakeClient, by: i64) {
    let ids: Vec<AgentId> = client.state().logs.keys().copied().collect();
    for id in ids {
        client.say(id, |log| {
            for seq in log.first_seq()..log.next_seq() {
                log.update(seq, |kind| {
                    if let EntryKind::Tool(tool) = kind {
                        tool.started_ms = tool.started_ms.map(|at| at + by);
                    }
                });
            }
        });
    }
}

fn no_pi() -> StartProblem {
    StartProblem {
        title: "Pi cannot be started here.".into(),
        checks: vec![
            StartCheck {
                ok: true,
                text: "Node 22.21.1 (/usr/local/bin/node)".into(),
                commands: Vec::new(),
            },
            StartCheck {
                ok: false,
                text: "Pi is not installed: no `pi` on the PATH".into(),
                commands: vec!["  npm install -g @earendil-works/pi-coding-agent".into()],
            },
            StartCheck {
                ok: false,
                text: "no model is configured".into(),
                commands: vec!["  pi   then /login".into()],
            },
        ],
        demo: true,
        again: true,
    }
}

/// Requests change the fleet, as far as a picture needs it.
fn act_as_core(client: &Arc<FakeClient>) {
    let weak = Arc::downgrade(client);
    client.answer(move |state, request| {
        let find = |agent: &AgentRef| -> Option<AgentId> {
            match agent {
                AgentRef::Id(id) => Some(*id),
                AgentRef::Name(_) => None,
            }
        };
        let later = |change: Box<dyn FnOnce(&FakeClient) + Send>| {
            let weak = weak.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                if let Some(client) = weak.upgrade() {
                    change(&client);
                }
            });
        };
        match request {
            Request::Spawn(spawn) if spawn.model.as_deref() == Some("sonet") => Some(Err(
                RequestError::new(ErrorCode::StartFailed, "model not found: sonet")
                    .with_hint("did you mean sonnet?"),
            )),
            Request::Spawn(spawn) => {
                let n = 100 + state.fleet.agents.len() as u128;
                let label: String = spawn.prompt.chars().take(40).collect();
                let mut view = agent(n, &format!("new{n}"), &label);
                view.since_ms = now();
                view.run_started_ms = Some(now());
                let prompt = spawn.prompt.clone();
                later(Box::new(move |client| {
                    client.change(|fleet| fleet.agents.push(view));
                    client.entry(
                        id(n),
                        EntryKind::User {
                            text: prompt,
                            images: 0,
                        },
                    );
                }));
                Some(Ok(Reply::Spawned {
                    agent: id(n),
                    name: format!("new{n}"),
                    session_path: None,
                }))
            }
            Request::Stop { agent } => {
                let id = find(agent)?;
                later(Box::new(move |client| {
                    client.agent(id, |view| {
                        view.status = Status::Stopped { by: StopCause::You };
                        view.dialogs.clear();
                        view.retry = None;
                        view.since_ms = now();
                    });
                }));
                None
            }
            Request::Answer { agent, .. } => {
                let id = find(agent)?;
                later(Box::new(move |client| {
                    client.agent(id, |view| view.dialogs.clear());
                }));
                None
            }
            Request::Send { agent, text, .. } => {
                let id = find(agent)?;
                let text = text.clone();
                later(Box::new(move |client| {
                    client.agent(id, |view| view.pending.push(scripted_fleet::pending(&text)));
                }));
                None
            }
            Request::Continue { .. } => None,
            Request::Abort { agent } => {
                let id = find(agent)?;
                let returned = state
                    .fleet
                    .agents
                    .iter()
                    .find(|view| view.id == id)
                    .map(|view| view.pending.iter().map(|m| m.text.clone()).collect())
                    .unwrap_or_default();
                later(Box::new(move |client| {
                    client.agent(id, |view| {
                        view.status = Status::Idle;
                        view.pending.clear();
                        view.runs_ended += 1;
                    });
                }));
                Some(Ok(Reply::Aborted { returned }))
            }
            _ => None,
        }
    });
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// The first agent goes on talking.
async fn stream(client: Arc<FakeClient>) {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut seq = None;
    for n in 0..2000_u32 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        client.say(id(1), |log| {
            let at = *seq.get_or_insert_with(|| {
                log.push(
                    now(),
                    EntryKind::Text {
                        text: String::new(),
                        done: false,
                    },
                )
            });
            log.append(at, &format!("word{n} "));
            if n % 12 == 11 {
                log.append(at, "\n\n");
            }
        });
    }
}
