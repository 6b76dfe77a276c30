//! What a Pi session is told is on the disk first.

use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{LeaveReason, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{Effect, Input};
use pi_agents::fleet::outbox::JournalRecord;
use pi_agents::pi::message::StopReason;

use super::parent::{completions, leave, sync, with_slow_disk};
use super::world::{Played, World};

/// A spawn whose task was accepted.
fn accepted(w: &mut World, mode: SpawnMode) -> Played {
    let a = w.spawn_mode("task", true, None, mode);
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    a
}

fn fail(w: &mut World) {
    let host = w.caller.host;
    w.input(Input::JournalFailed { host });
}

#[test]
fn a_start_is_told_when_the_journal_has_the_run() {
    // R-DELIV-05, R-DELIV-17: a core that is lost after the answer owes the run.
    let mut w = with_slow_disk();
    let a = accepted(&mut w, SpawnMode::Background);
    assert!(w.answers(a.call).is_empty(), "promised before it was safe");
    assert!(
        w.count(|e| matches!(
            e,
            Effect::Journal {
                record: JournalRecord::Opened { .. },
                ..
            }
        )) == 1
    );
    sync(&mut w);
    assert!(matches!(w.answer(a.call), Ok(Reply::Spawned { .. })));
}

#[test]
fn a_message_is_told_when_the_journal_has_the_run_it_starts() {
    // R-DELIV-05, R-DELIV-17
    let mut w = with_slow_disk();
    let a = super::parent::told(&mut w);
    sync(&mut w);
    let by = Sender::Parent(w.caller);
    let (call, _) = w.send_by(by, a.agent, "more");
    w.accept_next(&a, Disposition::Started);
    assert!(w.answers(call).is_empty());
    sync(&mut w);
    assert!(matches!(w.answer(call), Ok(Reply::Sent { .. })));
}

#[test]
fn a_stop_is_on_record_before_its_run_has_ended() {
    // R-TOOL-03: or a core that is lost now would report the stopped run.
    for expected in [false, true] {
        let mut w = with_slow_disk();
        let a = accepted(&mut w, SpawnMode::Background);
        if !expected {
            w.fact(&a, Fact::RunStarted);
        }
        sync(&mut w);
        let call = w.stop_by(Stopper::Parent(w.caller), a.agent);
        let ended = |e: &Effect| {
            let Effect::Journal { record, .. } = e else {
                return false;
            };
            matches!(record, JournalRecord::Ended { .. })
        };
        assert_eq!(w.count(ended), 1, "expected: {expected}");
        w.exit(&a, Some(0), None);
        w.swept(&a);
        assert!(matches!(w.answer(call), Ok(Reply::Stopped { .. })));
        sync(&mut w);
        assert_eq!(w.count(ended), 1);
        assert!(completions(&w).is_empty());
    }
}

#[test]
fn a_start_that_failed_is_on_record_when_it_is_told() {
    // R-DELIV-09: its error is all that is told of it, also by the next core.
    let mut w = with_slow_disk();
    let a = w.spawn_mode("/command", true, None, SpawnMode::Background);
    w.ready(&a);
    w.fact(&a, Fact::RunStarted);
    let before = w.effects.len();
    w.accept_next(&a, Disposition::Handled);
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
    let owed = w.effects[..before]
        .iter()
        .any(|e| matches!(e, Effect::Journal { .. }));
    let ended = w.effects[before..].iter().any(|e| {
        matches!(
            e,
            Effect::Journal {
                record: JournalRecord::Ended { .. },
                ..
            }
        )
    });
    assert!(owed && ended, "owed {owed}, ended {ended}");
    sync(&mut w);
    assert!(completions(&w).is_empty());
}

#[test]
fn a_journal_that_cannot_be_written_holds_nothing_up() {
    // R-DELIV-05: delivered all the same, whenever it fails.
    for before in [true, false] {
        let mut w = with_slow_disk();
        if before {
            fail(&mut w);
        }
        let a = accepted(&mut w, SpawnMode::Background);
        if !before {
            fail(&mut w);
        }
        assert!(
            matches!(w.answer(a.call), Ok(Reply::Spawned { .. })),
            "before: {before}"
        );
    }
}

#[test]
fn a_session_that_leaves_gets_its_answers_and_a_core_that_ends_gives_them() {
    // R-TOOL-10: nothing waits for a disk for ever.
    let mut w = with_slow_disk();
    let a = accepted(&mut w, SpawnMode::Background);
    leave(&mut w, LeaveReason::Quit);
    w.answer(a.call).ok();

    let mut w = with_slow_disk();
    let a = accepted(&mut w, SpawnMode::Background);
    let call = CallId::fresh();
    w.input(Input::Shutdown { call: Some(call) });
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert!(matches!(w.answer(call), Ok(Reply::Done)));
    w.answer(a.call).ok();
}

#[test]
fn a_start_that_was_not_told_is_withdrawn_when_its_call_is_taken_back() {
    // R-TOOL-17: its session never heard the name, so nothing of it is told.
    for settled in [false, true] {
        let mut w = with_slow_disk();
        let a = accepted(&mut w, SpawnMode::Background);
        if settled {
            w.fact(&a, Fact::RunStarted);
            w.settle(&a, StopReason::Stop);
        }
        w.input(Input::Cancel { call: a.call });
        assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::Cancelled);
        w.exit(&a, Some(0), None);
        w.swept(&a);
        sync(&mut w);
        assert!(completions(&w).is_empty(), "settled: {settled}");
        assert_eq!(w.answers(a.call).len(), 1);
        assert!(!w.status(a.agent).is_live());
    }
}

#[test]
fn a_message_that_was_accepted_stays_when_its_call_is_taken_back() {
    // R-TOOL-17
    let mut w = with_slow_disk();
    let a = super::parent::told(&mut w);
    sync(&mut w);
    let (call, _) = w.send_by(Sender::Parent(w.caller), a.agent, "more");
    w.accept_next(&a, Disposition::Started);
    w.input(Input::Cancel { call });
    assert!(matches!(w.answer(call), Ok(Reply::Sent { .. })));
    sync(&mut w);
    assert_eq!(w.answers(call).len(), 1);
    assert!(w.status(a.agent).is_live());
}

#[test]
fn a_result_waits_for_nothing() {
    // R-DELIV-09: a result that was asked for and is on the disk as taken could only be lost.
    let mut w = with_slow_disk();
    let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
    w.begin(&a);
    w.settle(&a, StopReason::Stop);
    assert!(matches!(w.answer(a.call), Ok(Reply::Finished { .. })));
}

#[test]
fn only_calls_of_the_session_wait() {
    // R-DELIV-07: a person's side chat is owed to nobody.
    let mut w = with_slow_disk();
    let a = super::parent::told(&mut w);
    sync(&mut w);
    let (call, _) = w.send(a.agent, "a word");
    w.accept_next(&a, Disposition::Started);
    assert!(matches!(w.answer(call), Ok(Reply::Sent { .. })));
}
