//! Children that die or close their streams at the wrong moment.

use std::time::{Duration, Instant};

use pi_agents::client::ErrorCode;
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{EntryKind, Level, Outcome};
use rustix::process::Signal;

use super::{FAST_LADDER, agents_alive, is_failed, notices, reason, wait_idle, wait_run_ends};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::{processes, wait};

#[test]
fn a_grandchild_that_holds_stdout_does_not_hide_the_death() {
    // B023, R-LIFE-09
    for code in [0, 3] {
        let pi = FakePi::new();
        let core = Core::start(&pi);
        let go = pi.work().join("go");
        let name = core.spawn(&format!(
            "fake:grandchild holding ;; wait {} ;; exit {code}",
            go.display()
        ));
        let grandchild = pi.wait_events("grandchild", 1)[0]["pid"].as_u64().unwrap();
        core.wait_agent(&name, "running", |a| a.status == Status::Running);
        std::fs::write(go, "").unwrap();
        pi.wait_events("end", 1);
        let began = Instant::now();
        let row = core.wait_agent(&name, "failed", is_failed);
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(if wait::crowded() { 8 } else { 1 }),
            "{took:?}"
        );
        assert!(
            reason(&row).contains(&format!("exit code {code}")),
            "{row:?}"
        );
        core.wait_agent(&name, "swept", |a| a.pid.is_none());
        crate::support::wait::wait_until("the grandchild is gone", || {
            !processes::alive(u32::try_from(grandchild).unwrap())
        });
        assert_eq!(wait_run_ends(&core, &name, 1).len(), 1);
    }
}

#[test]
fn death_in_the_middle_of_a_run_fails_it_once() {
    // R-LIFE-09; half a record on the way out harms nothing
    for (script, words) in [
        ("fake:stream 3 1 ;; exit 7", "exit code 7"),
        ("fake:stream 3 1 ;; signal SEGV", "killed by signal 11"),
        ("fake:stream 3 1 ;; half 5", "exit code 5"),
    ] {
        let pi = FakePi::new();
        let core = Core::start(&pi);
        let name = core.spawn(script);
        let row = core.wait_agent(&name, "failed and gone", |a| {
            is_failed(a) && a.pid.is_none()
        });
        assert!(reason(&row).contains(words), "{script}: {row:?}");
        let ends = wait_run_ends(&core, &name, 1);
        assert_eq!(ends.len(), 1, "{script}");
        assert!(matches!(&ends[0], Outcome::Failed { reason } if reason.contains(words)));
        assert!(
            core.texts(&name)[0].starts_with("w0 w1"),
            "partial text stays"
        );
        assert_eq!(row.runs_ended, 1);
        core.send(&name, "back again");
        wait_idle(&core, &name, 2);
    }
}

#[test]
fn an_idle_child_that_is_killed_leaves_its_row_completed() {
    // R-LIFE-09: no second result
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = wait_idle(&core, &name, 1);
    processes::signal(row.pid.unwrap(), Signal::KILL);
    let row = core.wait_agent(&name, "completed and gone", |a| {
        a.status == Status::Completed && a.pid.is_none()
    });
    assert_eq!(row.runs_ended, 1);
    assert_eq!(core.run_ends(&name), 1);
    let notice = super::wait_notice(&core, &name, "the idle process ended");
    assert!(notice.contains("killed by signal 9"), "{notice}");
    core.send(&name, "back");
    wait_idle(&core, &name, 2);
}

#[test]
fn a_child_that_dies_on_a_message_fails_alone_and_can_be_revived() {
    // B012, R-LIFE-11: what became of the message is not known: reported, not sent again
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let other = core.spawn("task");
    wait_idle(&core, &name, 1);
    wait_idle(&core, &other, 1);
    core.send(&name, "fake:exit 9");
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    assert_eq!(core.agent(&other).status, Status::Idle);
    core.send(&name, "once more");
    wait_idle(&core, &name, 3);
    let sent = pi.commands("prompt");
    let deadly = sent
        .iter()
        .filter(|c| c["message"] == "fake:exit 9")
        .count();
    assert_eq!(deadly, 1, "sent once");
}

#[test]
fn a_closed_stdout_is_not_taken_for_death() {
    // "death is concluded from EOF on a pipe" is what must not be
    let pi = FakePi::new();
    let vars = [
        FAST_LADDER,
        &[("PI_AGENTS_LAUNCH_PROMPT_TIMEOUT_MS", "300")],
    ]
    .concat();
    let core = Core::start_with(&pi, &vars);
    let name = core.spawn("fake:close-stdout ;; hang");
    core.wait_agent(&name, "running", |a| a.status == Status::Running);
    // Nothing can be heard of it any more; the message's deadline says so.
    let error = core.ask(core.send_request(&name, "hello?")).unwrap_err();
    assert_eq!(error.code, ErrorCode::Conflict);
    assert!(core.agent(&name).pid.is_some());
    core.stop(&name);
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
}

#[test]
fn a_failing_tool_is_no_failure_of_the_agent() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:tool exit 3");
    wait_idle(&core, &name, 1);
    let failed = core.entries(&name).into_iter().any(|e| {
        matches!(&e.kind, EntryKind::Tool(t)
            if t.state == pi_agents::fleet::transcript::ToolState::Failed)
    });
    assert!(failed);
    assert!(notices(&core, &name, Level::Error).is_empty());
}

#[test]
fn a_child_that_closes_its_output_and_lives_on_is_ended() {
    // R-LIFE-09: a row never stays `running` for a child nobody can hear
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:close-stdout ;; hang");
    let row = core.wait_agent(&name, "failed, without a process", |a| {
        matches!(a.status, Status::Failed { .. }) && a.pid.is_none()
    });
    let Status::Failed { reason } = row.status else {
        unreachable!()
    };
    assert!(reason.contains("closed its output"), "{reason}");
    assert_eq!(core.run_ends(&name), 1);
}
