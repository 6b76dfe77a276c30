//! Start, watch, finish; several agents; messages.

use pi_agents::client::{Reply, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{Entry, EntryKind, Outcome, ToolState};
use serde_json::json;

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Gate, ModelServer, Turn};
use crate::support::versions::Version;
use crate::support::wait;

fn at(entries: &[Entry], is: impl Fn(&EntryKind) -> bool) -> usize {
    entries
        .iter()
        .position(|e| is(&e.kind))
        .unwrap_or_else(|| panic!("not in {entries:#?}"))
}

pub(super) fn start_watch_finish(version: Version) {
    let model = ModelServer::start();
    let gate = Gate::new();
    model.on(
        "count the lines",
        [
            Turn::new()
                .thinking("I look at the file first.")
                .tool("bash", json!({"command": "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"}))
                .usage(1000, 20),
            Turn::new().text("There are ").gate(&gate).text("two lines.").usage(1100, 30),
        ],
    );
    let pi = HermeticPi::new(version, &model);
    let core = Core::start(&pi);
    let name = core.spawn("count the lines");
    core.wait_agent(&name, "running", |a| a.status == Status::Running);

    // The call with its live output, while it runs.
    core.wait_entries(&name, "output of the running call", |entries| {
        entries
            .iter()
            .find(|e| {
                matches!(&e.kind,
            EntryKind::Tool(t) if t.state == ToolState::Running && t.output.contains("one"))
            })
            .cloned()
    });
    core.wait_agent(&name, "names the command", |a| {
        a.activity
            .as_deref()
            .is_some_and(|s| s.contains("bash") && s.contains("echo one"))
    });
    std::fs::write(pi.work().join("go"), "").unwrap();

    // The text as it streams, before it is whole.
    core.wait_entries(&name, "half of the answer", |entries| {
        entries
            .iter()
            .find(|e| {
                matches!(&e.kind,
            EntryKind::Text { text, done: false } if text == "There are ")
            })
            .cloned()
    });
    gate.open();

    let row = core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    let entries = core.wait_entries(&name, "the end of the run", |entries| {
        entries
            .iter()
            .any(|e| matches!(e.kind, EntryKind::RunEnd { .. }))
            .then(|| entries.to_vec())
    });
    let prompt = at(
        &entries,
        |k| matches!(k, EntryKind::User { text, .. } if text == "count the lines"),
    );
    let thinking = at(
        &entries,
        |k| matches!(k, EntryKind::Thinking { text, .. } if text.contains("look at the file")),
    );
    let tool = at(
        &entries,
        |k| matches!(k, EntryKind::Tool(t) if t.state == ToolState::Done && t.output.contains("two")),
    );
    let text = at(
        &entries,
        |k| matches!(k, EntryKind::Text { text, done: true } if text == "There are two lines."),
    );
    let end = at(&entries, |k| {
        matches!(
            k,
            EntryKind::RunEnd {
                outcome: Outcome::Completed { cut: false },
                tool_uses: 1,
                ..
            }
        )
    });
    assert!(
        prompt < thinking && thinking < tool && tool < text && text < end,
        "{entries:#?}"
    );
    assert_eq!(core.run_ends(&name), 1);

    // Tokens and cost as the provider reported them: (1000+1100)·3 + (20+30)·15 per million.
    assert_eq!((row.usage.input, row.usage.output), (2100, 50));
    assert!(
        (row.usage.cost - 0.00705).abs() < 1e-9,
        "{}",
        row.usage.cost
    );
    assert_eq!(row.tool_uses, 1);
    assert_eq!(row.model.as_deref(), Some("scripted/s1"));
    let context = row.context.unwrap();
    assert_eq!((context.tokens, context.window), (1130, 128_000));
    assert!(row.session_path.unwrap().is_file());

    // R-DELIV-12: what the child was told about its reply, from the model's own log.
    let request = model.wait_first("count the lines");
    assert!(
        request
            .system_text()
            .contains("Your final reply of each run reaches them by itself")
    );
    core.shutdown();
}

#[test]
fn start_watch_and_finish() {
    // R-LIFE-01, R-LIFE-03, R-LIFE-06, R-TUI-05, R-DELIV-12
    start_watch_finish(Version::Newest);
}

#[test]
fn start_watch_and_finish_with_the_oldest_pi() {
    // R-PI-06
    start_watch_finish(Version::Oldest);
}

#[test]
fn three_agents_at_once_keep_their_streams_apart() {
    let model = ModelServer::start();
    let names = ["alpha", "beta", "gamma"];
    let gates: Vec<Gate> = names.iter().map(|_| Gate::new()).collect();
    for (name, gate) in names.iter().zip(&gates) {
        model.on(
            name,
            [Turn::new()
                .text(&format!("{name} begins "))
                .gate(gate)
                .text(&format!("{name} ends"))],
        );
    }
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let agents: Vec<String> = names
        .iter()
        .map(|n| core.spawn(&format!("task {n}")))
        .collect();
    assert_eq!(agents, ["max", "zoe", "kai"]);
    for gate in &gates {
        gate.wait_arrival("all three are answering at once");
    }
    for gate in gates.iter().rev() {
        gate.open();
    }
    for (agent, name) in agents.iter().zip(names) {
        core.wait_agent(agent, "idle", |a| a.status == Status::Idle);
        assert_eq!(
            core.wait_entries(agent, "its answer", |e| {
                let texts: Vec<_> = e
                    .iter()
                    .filter_map(|e| match &e.kind {
                        EntryKind::Text { text, done: true } => Some(text.clone()),
                        _ => None,
                    })
                    .collect();
                (!texts.is_empty()).then_some(texts)
            }),
            [format!("{name} begins {name} ends")]
        );
    }
}

#[test]
fn a_message_to_a_running_agent_steers_it_at_the_next_tool_boundary() {
    // R-PI-07, R-DELIV-11
    let model = ModelServer::start();
    model.on(
        "first task",
        [
            Turn::call(
                "bash",
                json!({"command": "while [ ! -e go ]; do sleep 0.02; done"}),
            ),
            Turn::say("done as redirected"),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("first task");
    core.wait_entries(&name, "the call runs", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Tool(t) if t.state == ToolState::Running))
            .then_some(())
    });
    let reply = core.send(&name, "look at the tests instead");
    assert!(
        matches!(
            reply,
            Reply::Sent {
                steered: true,
                revived: false,
                ..
            }
        ),
        "{reply:?}"
    );
    core.wait_agent(&name, "shows the waiting message", |a| a.pending.len() == 1);
    std::fs::write(pi.work().join("go"), "").unwrap();
    core.wait_agent(&name, "idle", |a| {
        a.status == Status::Idle && a.pending.is_empty()
    });
    let second = model.wait_request("the second request", |r| r.get(1).cloned());
    assert_eq!(second.last_user_text(), "look at the tests instead");
    assert_eq!(
        second.tool_results().len(),
        1,
        "after the tool, before the next answer"
    );
    assert_eq!(core.run_ends(&name), 1, "it joined the run");
}

#[test]
fn a_message_to_an_idle_agent_starts_a_new_run() {
    // R-LIFE-06, B010
    let model = ModelServer::start();
    model.on("first", [Turn::say("one"), Turn::say("two")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("first");
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    let reply = core.send(&name, "second");
    assert!(
        matches!(
            reply,
            Reply::Sent {
                steered: false,
                revived: false,
                ..
            }
        ),
        "{reply:?}"
    );
    core.wait_agent(&name, "idle again", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    wait::wait_until("both answers", || core.texts(&name) == ["one", "two"]);
}

#[test]
fn messages_sent_in_one_breath_all_reach_the_model_in_order() {
    // R-PI-07: real Pi loses prompts that are sent in a burst
    let model = ModelServer::start();
    model.on_always("begin", Turn::say("ok"));
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("begin");
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    let asked: Vec<_> = (1..=4)
        .map(|n| core.ask_later(core.send_request(&name, &format!("message {n}"))))
        .collect();
    for answer in asked {
        assert!(matches!(core.fetch(answer), Ok(Reply::Sent { .. })));
    }
    let texts = model.wait_request("all four", |requests| {
        let texts = requests.last()?.texts("user");
        (texts.len() == 5).then_some(texts)
    });
    assert_eq!(
        texts,
        ["begin", "message 1", "message 2", "message 3", "message 4"]
    );
    core.wait_agent(&name, "idle", |a| {
        a.status == Status::Idle && a.pending.is_empty()
    });
}

#[test]
fn an_abort_ends_the_run_keeps_the_agent_and_gives_queued_messages_back() {
    // R-LIFE-15, R-DELIV-16
    let model = ModelServer::start();
    model.on(
        "long",
        [
            Turn::call("bash", json!({"command": "sleep 300"})),
            Turn::say("after all"),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("long");
    core.wait_entries(&name, "the call runs", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Tool(t) if t.state == ToolState::Running))
            .then_some(())
    });
    core.send(&name, "one more thing");
    let agent = pi_agents::client::AgentRef::Name(name.clone());
    let reply = core.ask(Request::Abort { agent });
    assert_eq!(
        reply,
        Ok(Reply::Aborted {
            returned: vec!["one more thing".into()]
        })
    );
    let row = core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    assert!(row.pending.is_empty());
    assert!(row.pid.is_some(), "the process stays");
    core.wait_entries(&name, "stopped by you", |e| {
        e.iter()
            .any(|e| {
                matches!(
                    &e.kind,
                    EntryKind::RunEnd {
                        outcome: Outcome::Stopped { .. },
                        ..
                    }
                )
            })
            .then_some(())
    });
    core.send(&name, "go on");
    core.wait_agent(&name, "idle after another run", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
}

#[test]
fn an_agent_that_does_not_stay_ends_in_order_and_comes_back() {
    // R-LIFE-16
    let model = ModelServer::start();
    model.on("once", [Turn::say("done"), Turn::say("again")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let mut request = core.spawn_request("once");
    request.persistent = Some(false);
    let name = core.spawn_as(request);
    let row = core.wait_agent(&name, "completed, without a process", |a| {
        a.status == Status::Completed && a.pid.is_none()
    });
    assert_eq!(row.runs_ended, 1);
    assert!(matches!(
        core.send(&name, "more"),
        Reply::Sent { revived: true, .. }
    ));
    core.wait_agent(&name, "completed again", |a| {
        a.status == Status::Completed && a.runs_ended == 2
    });
}
