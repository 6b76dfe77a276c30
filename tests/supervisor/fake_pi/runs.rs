//! When a run begins and ends, and what of it is kept.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::transcript::{EntryKind, Outcome};

use super::{case, wait_idle, wait_run_ends};
use crate::support::core::Core;
use crate::support::fake::FakePi;

const COMPLETED: Outcome = Outcome::Completed { cut: false };

#[test]
fn a_stray_settlement_never_ends_a_run() {
    // R-LIFE-04, R-PI-07
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let go = pi.work().join("go");
    let name = core.spawn(&format!("fake:stray ;; wait {}", go.display()));
    core.wait_entries(&name, "the run goes on", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Text { text, .. } if text == "waiting"))
            .then_some(())
    });
    // The core asks the child whether it is idle, and believes what it says.
    pi.wait_log("a second get_state", |log| {
        let asked = log.iter().filter(|e| e["command"]["type"] == "get_state");
        (asked.count() >= 2).then_some(())
    });
    assert_eq!(core.agent(&name).status, Status::Running);
    assert_eq!(core.run_ends(&name), 0);
    std::fs::write(go, "").unwrap();
    wait_idle(&core, &name, 1);
    assert_eq!(wait_run_ends(&core, &name, 1), [COMPLETED]);
    let early = core.history(&name);
    assert!(
        early
            .iter()
            .all(|a| a.status != Status::Idle || a.runs_ended == 1)
    );
}

#[test]
fn a_retry_is_one_run_until_it_settles() {
    // B004, R-LIFE-04: the recorded pauses are shortened, their order is not.
    let recording =
        case("B004-retry-before-settled.rpc.jsonl").replace("\"ms\":2000", "\"ms\":300");
    let pi = FakePi::new().replay_lines(recording.as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "retrying 1/3", |a| {
        a.status == Status::Running
            && a.retry
                .as_ref()
                .is_some_and(|r| (r.attempt, r.max) == (1, 3))
    });
    let row = wait_idle(&core, &name, 1);
    assert!(row.retry.is_none());
    assert!(row.run_took_ms >= Some(1000), "the whole time: {row:?}");
    assert_eq!(wait_run_ends(&core, &name, 1), [COMPLETED]);
    assert_eq!(core.texts(&name).last().unwrap(), "the real final answer");
    let history = core.history(&name);
    let at = |wanted: &dyn Fn(&Status) -> bool| history.iter().position(|a| wanted(&a.status));
    let first_run = at(&|s| *s == Status::Running).unwrap();
    let first_idle = at(&|s| *s == Status::Idle).unwrap();
    assert!(
        history[first_run..first_idle]
            .iter()
            .all(|a| a.status == Status::Running)
    );
    assert!(at(&|s| matches!(s, Status::Failed { .. } | Status::Completed)).is_none());
}

#[test]
fn doubled_events_are_one_run_with_one_tool_call() {
    // B016
    let pi = FakePi::new().replay_lines(case("B016-duplicate-events.rpc.jsonl").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("go");
    wait_idle(&core, &name, 1);
    pi.wait_events("replay ended", 1);
    // What comes after the second settlement is a run of its own: the stray one is behind us.
    core.send(&name, "more");
    wait_idle(&core, &name, 2);
    let row = core.agent(&name);
    assert_eq!(row.tool_uses, 1);
    assert_eq!(wait_run_ends(&core, &name, 2).len(), 2);
    let texts = core.texts(&name);
    assert_eq!(
        texts.iter().filter(|t| *t == "only once").count(),
        1,
        "{texts:?}"
    );
    assert_eq!(core.fleet().agents.len(), 1);
}

#[test]
fn a_run_the_child_aborted_is_stopped_and_its_text_kept() {
    // B025, R-DELIV-15
    let pi = FakePi::new().replay_lines(case("B025-aborted-turn.rpc.jsonl").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let ends = wait_run_ends(&core, &name, 1);
    assert_eq!(
        ends,
        [Outcome::Stopped {
            by: StopCause::Child
        }]
    );
    assert_eq!(core.texts(&name), ["partial thou"]);
    let row = core.wait_agent(&name, "its run is over", |a| a.runs_ended == 1);
    assert_ne!(row.status, Status::Completed);
    assert!(
        core.history(&name)
            .iter()
            .all(|a| a.status != Status::Completed)
    );
}

#[test]
fn an_answer_that_was_cut_is_completed_and_says_so() {
    // R-DELIV-15
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:length as far as it goes");
    wait_idle(&core, &name, 1);
    assert_eq!(
        wait_run_ends(&core, &name, 1),
        [Outcome::Completed { cut: true }]
    );
}

#[test]
fn a_run_has_a_time_limit_and_the_agent_closes() {
    // R-LIFE-13
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut request = core.spawn_request("fake:hang");
    request.timeout_ms = Some(200);
    let name = core.spawn_as(request);
    let row = core.wait_agent(&name, "stopped and gone", |a| {
        matches!(a.status, Status::Stopped { .. }) && a.pid.is_none()
    });
    assert_eq!(
        row.status,
        Status::Stopped {
            by: StopCause::Timeout
        }
    );
    assert_eq!(
        wait_run_ends(&core, &name, 1),
        [Outcome::Stopped {
            by: StopCause::Timeout
        }]
    );
    // It can be brought back, and the bound holds again.
    core.send(&name, "fake:hang");
    core.wait_agent(&name, "stopped again", |a| {
        a.status
            == Status::Stopped {
                by: StopCause::Timeout,
            }
            && a.runs_ended == 2
    });
}

#[test]
fn an_agent_that_does_not_stay_is_closed_in_order() {
    // R-LIFE-16
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.persistent = Some(false);
    let name = core.spawn_as(request);
    core.wait_agent(&name, "completed and gone", |a| {
        a.status == Status::Completed && a.pid.is_none()
    });
    assert!(core.history(&name).iter().all(|a| a.status != Status::Idle));
    let end = pi.wait_events("end", 1);
    assert_eq!(end[0]["cause"], "stdin ended", "not by signal");
    core.send(&name, "once more");
    core.wait_agent(&name, "completed again", |a| {
        a.status == Status::Completed && a.runs_ended == 2 && a.pid.is_none()
    });
}
