//! Who owns a run, and who hears of its end.

use pi_agents::fleet::answer::Reply;
use pi_agents::fleet::completion::CompletionStatus;
use pi_agents::fleet::host::{Caller, Sender, Stopper};
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::pi::message::StopReason;

use super::parent::*;

#[test]
fn a_side_chat_stays_private_and_so_does_what_follows_by_itself() {
    // R-DELIV-07, R-DELIV-08, R-LIFE-14
    let mut w = with_pi();
    let a = told(&mut w);
    w.send(a.agent, "how is it going?");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    assert!(completions(&w).is_empty(), "a side chat");
    run(&mut w, &a);
    assert!(completions(&w).is_empty(), "its own run after a side chat");
    w.send_by(Sender::Parent(w.caller), a.agent, "go on");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    assert_eq!(completions(&w).len(), 1, "the parent's own");
    run(&mut w, &a);
    assert_eq!(completions(&w).len(), 2, "its own run after the parent's");
}

#[test]
fn the_boundary_stands_before_anything_is_written() {
    // R-DELIV-08: also for input that the child handles as a command, whenever it acts on it
    let mut w = with_pi();
    let a = told(&mut w);
    w.send(a.agent, "/watch");
    // The command's run begins before its answer.
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    w.accept_next(&a, Disposition::Handled);
    run(&mut w, &a);
    sync(&mut w);
    assert!(completions(&w).is_empty());
}

#[test]
fn a_handled_command_of_the_parent_claims_nothing() {
    // R-DELIV-08
    let mut w = with_pi();
    let a = told(&mut w);
    w.send(a.agent, "hello");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    w.send_by(Sender::Parent(w.caller), a.agent, "/note");
    w.accept_next(&a, Disposition::Handled);
    run(&mut w, &a);
    assert!(completions(&w).is_empty());
}

#[test]
fn a_side_chat_during_an_owed_run_does_not_cancel_the_answer() {
    // R-DELIV-07
    let mut w = with_pi();
    let a = w.running();
    w.send(a.agent, "by the way");
    w.accept_next(&a, Disposition::Queued);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
    // A message that Pi took only after that run is a run of the person.
    w.send(a.agent, "and now?");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn a_side_chat_that_arrives_just_after_the_owed_run_is_private() {
    // R-DELIV-07: submitted while the run was on, taken by an idle Pi
    let mut w = with_pi();
    let a = w.running();
    w.send(a.agent, "by the way");
    w.settle(&a, StopReason::Stop);
    w.fact(&a, Fact::RunStarted);
    w.accept_next(&a, Disposition::Started);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn a_message_of_the_parent_during_a_side_chat_owns_the_run() {
    // R-DELIV-07
    let mut w = with_pi();
    let a = told(&mut w);
    w.send(a.agent, "hello");
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.send_by(Sender::Parent(w.caller), a.agent, "and the task?");
    w.accept_next(&a, Disposition::Queued);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn continue_hands_the_answer_to_the_parent_once() {
    // R-DELIV-14
    let mut w = with_pi();
    let a = told(&mut w);
    w.send_by(Sender::Continue, a.agent, "go on");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn who_stops_an_agent_decides_whether_its_parent_hears_of_it() {
    // R-DELIV-06, R-TOOL-03
    let stop = |by: fn(Caller) -> Stopper, owed: bool| {
        let mut w = with_pi();
        let a = if owed { w.running() } else { told(&mut w) };
        let by = by(w.caller);
        let call = w.stop_by(by, a.agent);
        w.exit(&a, Some(0), None);
        w.swept(&a);
        sync(&mut w);
        assert!(matches!(
            w.answer(call),
            Ok(Reply::Stopped { was_live: true })
        ));
        completions(&w)
    };
    assert!(stop(Stopper::Parent, true).is_empty());
    assert!(stop(Stopper::Parent, false).is_empty());
    assert!(stop(|_| Stopper::User, false).is_empty());
    let told = stop(|_| Stopper::User, true);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].status, CompletionStatus::Stopped);
    assert!(
        told[0].result.starts_with("stopped by the user"),
        "{told:?}"
    );
    assert!(!told[0].idle);
}

#[test]
fn a_stop_does_not_retract_an_earlier_result() {
    // R-DELIV-06
    let mut w = with_pi();
    let a = w.idle();
    w.stop_by(Stopper::Parent(w.caller), a.agent);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
}
