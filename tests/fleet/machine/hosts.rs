//! Hosts, and results on their way to a parent.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::completion::{CompletionStatus, Delivery};
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::HostId;
use pi_agents::fleet::interpret::{Disposition, Fact, RunEnd};
use pi_agents::fleet::machine::{Effect, Input, OfferAnswer, Timer};
use pi_agents::fleet::outbox::{Activity, OfferMode};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;

use super::parent::*;

#[test]
fn a_background_run_gives_one_completion_that_is_a_copy_of_its_settlement() {
    // R-DELIV-01, R-LIFE-05, R-TOOL-13
    let mut w = with_slow_disk();
    let a = w.running();
    sync(&mut w);
    assert!(matches!(w.answer(a.call), Ok(Reply::Spawned { .. })));
    w.settle(&a, StopReason::Stop);
    assert!(completions(&w).is_empty(), "not before it is on the disk");
    // Another run begins before the first result is on its way.
    w.send_by(Sender::Parent(w.caller), a.agent, "more");
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    sync(&mut w);
    let told = completions(&w);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].id.instance, a.instance);
    assert_eq!(told[0].id.run, 1);
    assert_eq!(told[0].agent, "max");
    assert_eq!(told[0].status, CompletionStatus::Completed);
    assert_eq!(told[0].result, "the answer");
    assert!(told[0].idle);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    let told = completions(&w);
    assert_eq!(told.len(), 2);
    assert_eq!(told[1].id.run, 2);
}

#[test]
fn three_messages_to_one_running_agent_are_one_completion() {
    // R-DELIV-01
    let mut w = with_pi();
    let a = w.running();
    for text in ["one", "two", "three"] {
        w.send_by(Sender::Parent(w.caller), a.agent, text);
        w.accept_next(&a, Disposition::Queued);
        w.fact(&a, Fact::UserMessage { text: text.into() });
    }
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn a_foreground_result_is_the_answer_of_the_call_only() {
    // R-DELIV-09, R-TOOL-01
    let mut w = with_pi();
    let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    assert!(w.answers(a.call).is_empty(), "not before the run settled");
    assert!(w.view(a.agent).waited_for);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    let Ok(Reply::Finished {
        outcome, result, ..
    }) = w.answer(a.call)
    else {
        panic!("a finished run");
    };
    assert_eq!(outcome, Outcome::Completed { cut: false });
    assert_eq!(result, "the answer");
    assert!(completions(&w).is_empty());
    // Its later runs are told like any other.
    w.send_by(Sender::Parent(w.caller), a.agent, "more");
    w.accept_next(&a, Disposition::Started);
    run(&mut w, &a);
    assert_eq!(completions(&w).len(), 1);
}

#[test]
fn a_foreground_run_that_did_not_complete_ends_its_call_once_with_cause_and_text() {
    // R-TOOL-18, R-DELIV-15
    for end in ["dies", "fails", "stopped", "times out", "never begins"] {
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, Some(5_000), SpawnMode::Foreground);
        w.ready(&a);
        w.accept_next(&a, Disposition::Started);
        if end != "never begins" {
            w.fact(&a, Fact::RunStarted);
        }
        let partial = RunEnd {
            text: "half".into(),
            ..RunEnd::default()
        };
        match end {
            "dies" | "never begins" => {
                w.fact(&a, Fact::Unfinished(partial));
                w.exit(&a, None, Some(9));
            }
            "fails" => {
                w.fact(
                    &a,
                    Fact::RunEnded(RunEnd {
                        stop: StopReason::Error,
                        error: Some("overloaded".into()),
                        ..partial
                    }),
                );
            }
            "stopped" => {
                w.stop(a.agent);
                w.fact(&a, Fact::Unfinished(partial));
                w.exit(&a, Some(0), None);
            }
            _ => {
                w.timer(Timer::Run(a.instance, 1));
                w.fact(&a, Fact::Unfinished(partial));
                w.exit(&a, Some(0), None);
            }
        }
        sync(&mut w);
        let Ok(Reply::Finished {
            outcome, result, ..
        }) = w.answer(a.call)
        else {
            panic!("{end}: a finished run");
        };
        assert!(!matches!(outcome, Outcome::Completed { .. }), "{end}");
        let (cause, text) = result.split_once("\n\n").expect("cause, then text");
        assert!(
            cause.starts_with("failed: ") || cause.starts_with("stopped "),
            "{end}: {cause}"
        );
        let want = if end == "never begins" {
            "(no output)"
        } else {
            "half"
        };
        assert_eq!(text, want, "{end}");
        assert!(completions(&w).is_empty(), "{end}: only the call is told");
    }
}

#[test]
fn a_session_that_ends_takes_its_agents_with_it_and_its_results_wait_for_it() {
    // R-LIFE-08, R-LIFE-12, R-PI-03, R-DELIV-05, R-DELIV-17
    let mut w = with_pi();
    let a = w.running();
    let queued = w.spawn("another");
    leave(&mut w, LeaveReason::Reload);
    assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
    // What is asked in its name now is refused and starts nothing.
    let late = w.spawn("too late");
    assert_eq!(w.answer(late.call).unwrap_err().code, ErrorCode::Gone);
    let (call, _) = w.send_by(Sender::Parent(w.caller), a.agent, "too late");
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Gone);
    let (call, _) = w.send(a.agent, "from the person");
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Conflict);
    w.input(Input::Launched {
        instance: queued.instance,
        pid: 2,
    });
    for p in [&a, &queued] {
        w.exit(p, Some(0), None);
        w.swept(p);
    }
    sync(&mut w);
    for p in [&a, &queued] {
        let by = StopCause::HostGone;
        assert_eq!(w.status(p.agent), Status::Stopped { by });
    }
    assert_eq!(w.count(|e| matches!(e, Effect::HostClosed { .. })), 1);
    assert!(completions(&w).is_empty(), "nobody is there to be told");
    // The same session comes back.
    w.caller.generation = 2;
    let caller = w.caller;
    let call = join(&mut w, caller, HostKind::Pi);
    assert_eq!(w.answer(call), Ok(Reply::Done));
    state(&mut w, Activity::Busy);
    let told = completions(&w);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].status, CompletionStatus::Stopped);
    // Its agents can be messaged again.
    let (_, instance) = w.send_by(Sender::Parent(w.caller), a.agent, "back");
    assert_eq!(w.launches(a.agent).last(), Some(&instance));
}

#[test]
fn one_session_has_one_deliverer() {
    // R-DELIV-05
    let mut w = with_pi();
    let caller = Caller {
        generation: 2,
        ..w.caller
    };
    let call = join(&mut w, caller, HostKind::Pi);
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Conflict);
    leave(&mut w, LeaveReason::New);
    let caller = w.caller;
    let call = join(&mut w, caller, HostKind::Pi);
    assert_eq!(
        w.answer(call).unwrap_err().code,
        ErrorCode::Gone,
        "an old generation"
    );
}

#[test]
fn an_agent_is_only_its_hosts() {
    // R-TOOL-02
    let mut w = with_pi();
    let a = w.running();
    let other = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    join(&mut w, other, HostKind::Pi);
    let (call, _) = w.send_by(Sender::Parent(other), a.agent, "hello");
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::NotFound);
    let call = w.stop_by(Stopper::Parent(other), a.agent);
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::NotFound);
    let known = w.machine.resolve_name(Some(other.host), "max").unwrap_err();
    assert!(known.hint.unwrap().contains("no agents"));
}

#[test]
fn a_message_to_the_parent_is_a_question_with_its_own_wake() {
    // R-DELIV-10
    let mut w = with_pi();
    state(&mut w, Activity::Idle);
    let a = w.running();
    w.fact(
        &a,
        Fact::ToParent {
            text: "which branch?".into(),
        },
    );
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    let host = w.caller.host;
    w.timer(Timer::Wake(host));
    let offers: Vec<_> = w
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Offer {
                mode,
                deliveries,
                epoch,
                ..
            } => Some((*mode, *epoch, deliveries.clone())),
            _ => None,
        })
        .collect();
    assert!(!offers.is_empty());
    assert!(
        offers
            .iter()
            .all(|(mode, _, d)| { *mode == OfferMode::Wake && d.len() == 1 })
    );
    let first = &offers[0].2[0];
    assert!(matches!(first, Delivery::Question(q) if q.question == "which branch?"));
    assert!(matches!(w.status(a.agent), Status::Idle));
}

#[test]
fn what_was_taken_and_found_is_never_offered_again() {
    // R-DELIV-05
    let mut w = with_pi();
    let a = w.idle();
    sync(&mut w);
    let (epoch, id) = w
        .effects
        .iter()
        .find_map(|e| match e {
            Effect::Offer {
                epoch, deliveries, ..
            } => Some((*epoch, deliveries[0].id())),
            _ => None,
        })
        .expect("an offer");
    let Caller { host, generation } = w.caller;
    let answer = |answer| Input::Offered {
        host,
        generation,
        epoch,
        answer,
    };
    w.input(answer(OfferAnswer::Taken));
    w.input(answer(OfferAnswer::Checked {
        found: vec![id],
        missing: Vec::new(),
        durable: true,
    }));
    state(&mut w, Activity::Idle);
    state(&mut w, Activity::Busy);
    leave(&mut w, LeaveReason::Reload);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    w.caller.generation = 2;
    let caller = w.caller;
    join(&mut w, caller, HostKind::Pi);
    state(&mut w, Activity::Busy);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1);
}
