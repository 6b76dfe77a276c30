//! Bringing agents back.

use pi_agents::client::{ErrorCode, Reply};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::EntryKind;

use super::{FAST_LADDER, agents_alive, pids, stopped_by_you, wait_idle};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::processes;

fn stopped(core: &Core, prompt: &str) -> String {
    let name = core.spawn(prompt);
    wait_idle(core, &name, 1);
    core.stop(&name);
    core.wait_agent(&name, "stopped and gone", |a| {
        stopped_by_you(a) && a.pid.is_none()
    });
    name
}

/// User messages of the transcript.
fn user_texts(core: &Core, name: &str) -> Vec<String> {
    let entries = core.entries(name).into_iter();
    entries
        .filter_map(|e| match e.kind {
            EntryKind::User { text, .. } => Some(text),
            _ => None,
        })
        .collect()
}

#[test]
fn two_messages_at_once_share_one_revival_and_keep_their_order() {
    // R-LIFE-11
    let pi = FakePi::new().options("--start-delay 100");
    let core = Core::start(&pi);
    let name = stopped(&core, "task");
    let first = core.ask_later(core.send_request(&name, "fake:hang"));
    core.wait_agent(&name, "one message waits", |a| a.pending.len() == 1);
    let second = core.ask_later(core.send_request(&name, "second"));
    assert!(matches!(
        core.fetch(first),
        Ok(Reply::Sent { revived: true, .. })
    ));
    assert!(matches!(core.fetch(second), Ok(Reply::Sent { .. })));
    assert_eq!(pids(&pi).len(), 2, "one revival for both");
    let prompts = pi.commands("prompt");
    let texts: Vec<_> = prompts
        .iter()
        .map(|c| c["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        ["task", "fake:hang", "second"],
        "each once, in order"
    );
    // From its saved session, with its history (R-LIFE-10).
    let argv = pi.events("start")[1]["argv"].to_string();
    assert!(
        argv.contains("\"--session\"") && !argv.contains("--session-id"),
        "{argv}"
    );
    core.stop(&name);
}

#[test]
fn a_stop_during_the_revival_prevents_it_and_a_later_message_revives() {
    // B029, R-LIFE-12
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = stopped(&core, "task");
    // The first start was quick, this one never becomes ready.
    let mut request = core.send_request(&name, "come back");
    if let pi_agents::client::Request::Send { env, .. } = &mut request {
        env.push(super::environment::var(
            "FAKE_PI_OPTS",
            "--start-delay 60000",
        ));
    }
    let reviving = core.ask_later(request);
    pi.wait_events("start", 2);
    core.stop(&name);
    let error = core.fetch(reviving).unwrap_err();
    assert_eq!(error.code, ErrorCode::Gone);
    core.wait_agent(&name, "stopped and gone", |a| {
        stopped_by_you(a) && a.pid.is_none()
    });
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
    assert!(matches!(
        core.send(&name, "now really"),
        Reply::Sent { revived: true, .. }
    ));
    wait_idle(&core, &name, 2);
    assert_eq!(
        user_texts(&core, &name),
        ["task", "now really"],
        "nothing old is replayed"
    );
}

#[test]
fn a_message_to_an_agent_that_is_being_stopped_waits_until_it_is_gone() {
    // R-LIFE-10: never two writers on one session
    let pi = FakePi::new().options("--ignore-eof --ignore-term");
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("fake:hang");
    let row = core.wait_agent(&name, "it runs", |a| a.pid.is_some());
    let old = row.pid.unwrap();
    let stopping = core.ask_later(pi_agents::client::Request::Stop {
        agent: pi_agents::client::AgentRef::Name(name.clone()),
    });
    core.wait_agent(&name, "closing", |a| a.closing || stopped_by_you(a));
    assert!(matches!(
        core.send(&name, "go on"),
        Reply::Sent { revived: true, .. }
    ));
    assert!(!processes::alive(old), "the old process was gone first");
    assert_eq!(core.fetch(stopping), Ok(Reply::Stopped { was_live: true }));
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    let log = pi.log();
    let second = log.iter().rposition(|e| e["event"] == "start").unwrap();
    let last_of_old = log.iter().rposition(|e| e["pid"] == old).unwrap();
    assert!(last_of_old < second, "{log:#?}");
}

#[test]
fn a_revival_that_fails_is_told_and_not_tried_again() {
    // R-LIFE-11: no restart loop
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = stopped(&core, "task");
    let mut request = core.send_request(&name, "come back");
    if let pi_agents::client::Request::Send { env, .. } = &mut request {
        env.push(super::environment::var("FAKE_PI_OPTS", "--exit 6"));
    }
    let error = core.ask(request).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("exit code 6"), "{error}");
    let row = core.wait_agent(&name, "failed and gone", |a| {
        super::is_failed(a) && a.pid.is_none()
    });
    assert!(row.pending.is_empty());
    assert_eq!(pids(&pi).len(), 2);
    core.send(&name, "healthy again");
    wait_idle(&core, &name, 2);
}

#[test]
fn a_deleted_folder_refuses_the_revival_with_the_reason() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let folder = pi.work().join("sub");
    std::fs::create_dir(&folder).unwrap();
    let mut request = core.spawn_request("task");
    request.cwd = Some("sub".into());
    let name = core.spawn_as(request);
    wait_idle(&core, &name, 1);
    core.stop(&name);
    std::fs::remove_dir(&folder).unwrap();
    let error = core.ask(core.send_request(&name, "back")).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(
        error.message.contains("sub") && error.message.contains("not there"),
        "{error}"
    );
    assert_eq!(pids(&pi).len(), 1);
}
