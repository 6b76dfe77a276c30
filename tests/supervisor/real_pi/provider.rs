//! Providers that fail: the row says so, and every run ends exactly once.

use pi_agents::client::{ErrorCode, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{EntryKind, Outcome};

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::versions::Version;

#[test]
fn a_401_fails_the_run_with_its_reason() {
    // R-LIFE-04, R-DELIV-15
    let model = ModelServer::start();
    model.on(
        "task",
        [Turn::error(401, "invalid key"), Turn::say("better now")],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = core.wait_agent(&name, "failed", |a| {
        matches!(a.status, Status::Failed { .. })
    });
    let Status::Failed { reason } = &row.status else {
        unreachable!()
    };
    assert!(
        reason.contains("401") && reason.contains("invalid key"),
        "{reason}"
    );
    core.wait_agent(&name, "its process is gone", |a| a.pid.is_none());
    assert_eq!(core.run_ends(&name), 1);
    // R-LIFE-10: a message replaces the failed resident.
    core.send(&name, "try again");
    core.wait_agent(&name, "idle", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    assert_eq!(
        core.texts(&name).last().map(String::as_str),
        Some("better now")
    );
}

#[test]
fn a_429_is_shown_as_a_retry_and_the_run_ends_once() {
    // B004, R-LIFE-04: agent_end is not the end
    let model = ModelServer::start();
    model.on(
        "task",
        [Turn::error(429, "slow down"), Turn::say("there you are")],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    assert_eq!(core.run_ends(&name), 1);
    let history = core.history(&name);
    assert!(
        history
            .iter()
            .all(|a| !matches!(a.status, Status::Failed { .. })),
        "never shown as failed"
    );
    core.wait_entries(&name, "a notice of the retry", |e| {
        e.iter().any(|e| matches!(&e.kind, EntryKind::Notice { text, .. } if text.contains("retry") || text.contains("again"))).then_some(())
    });
    assert_eq!(core.texts(&name), ["there you are"]);
}

#[test]
fn a_500_for_ever_says_retrying_and_then_failed() {
    let model = ModelServer::start();
    model.on_always("task", Turn::error(500, "out of order"));
    let pi = HermeticPi::new(Version::Newest, &model);
    pi.write_settings(&serde_json::json!({
        "defaultProvider": "scripted", "defaultModel": "s1", "quietStartup": true,
        "retry": {"baseDelayMs": 200},
    }));
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "retrying 2/3", |a| {
        a.status == Status::Running
            && a.retry
                .as_ref()
                .is_some_and(|r| r.attempt == 2 && r.max == 3)
    });
    let row = core.wait_agent(&name, "failed", |a| {
        matches!(a.status, Status::Failed { .. })
    });
    assert!(row.retry.is_none());
    assert_eq!(core.run_ends(&name), 1);
    core.wait_entries(&name, "the reason", |e| {
        e.iter().any(|e| matches!(&e.kind, EntryKind::RunEnd { outcome: Outcome::Failed { reason }, .. } if reason.contains("500"))).then_some(())
    });
}

#[test]
fn a_connection_that_breaks_mid_answer_is_tried_again() {
    let model = ModelServer::start();
    model.on(
        "task",
        [
            Turn::new().text("half an ans").disconnect(),
            Turn::say("the whole answer"),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    assert_eq!(core.run_ends(&name), 1);
    assert_eq!(
        core.texts(&name).last().map(String::as_str),
        Some("the whole answer")
    );
}

#[test]
fn an_unknown_model_is_refused_before_the_first_prompt() {
    // R-TOOL-04, R-PI-10: Pi itself would take it
    let model = ModelServer::start();
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.model = Some("scripted/s11".into());
    let error = core.ask(Request::Spawn(request)).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(
        error.message.contains("model not found: scripted/s11"),
        "{error}"
    );
    assert!(
        error.message.contains("scripted/s1"),
        "near matches: {error}"
    );
    assert!(model.requests().is_empty());
}

#[test]
fn no_model_at_all_fails_the_start_with_pis_own_words() {
    let model = ModelServer::start();
    let pi = HermeticPi::new(Version::Newest, &model);
    std::fs::remove_file(pi.sandbox.agent_dir().join("models.json")).unwrap();
    let core = Core::start(&pi);
    let error = core
        .ask(Request::Spawn(core.spawn_request("task")))
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(
        error.message.contains("No API key") || error.message.contains("model"),
        "{error}"
    );
    core.wait_agent("max", "failed", |a| {
        matches!(a.status, Status::Failed { .. }) && a.pid.is_none()
    });
}
