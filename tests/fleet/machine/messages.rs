//! Messages: the lane, steering, abort, what is given back.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData};
use pi_agents::fleet::machine::{ChildCommand, Effect, Input, Timer};
use pi_agents::fleet::roster::MessageState;
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;

use super::world::World;

#[test]
fn only_one_prompt_is_unanswered_and_order_is_kept() {
    // R-PI-07: real Pi loses prompts sent in a burst
    let mut w = World::new();
    let a = w.idle();
    let before = w.prompts(&a).len();
    let (one, _) = w.send(a.agent, "one");
    let (two, _) = w.send(a.agent, "two");
    let (three, _) = w.send(a.agent, "three");
    assert_eq!(w.prompts(&a).len(), before + 1);
    w.accept_next(&a, Disposition::Started);
    assert_eq!(w.prompts(&a).len(), before + 2);
    w.accept_next(&a, Disposition::Queued);
    w.accept_next(&a, Disposition::Queued);
    let texts: Vec<_> = w.prompts(&a)[before..]
        .iter()
        .map(|(_, t)| t.clone())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    assert!(matches!(
        w.answer(one),
        Ok(Reply::Sent { steered: false, .. })
    ));
    assert!(matches!(
        w.answer(two),
        Ok(Reply::Sent { steered: true, .. })
    ));
    assert!(w.answer(three).is_ok());
}

#[test]
fn a_message_shows_where_it_is_until_the_model_has_seen_it() {
    // R-DELIV-11
    let mut w = World::new();
    let a = w.running();
    w.send(a.agent, "also the lint job");
    assert_eq!(w.view(a.agent).pending[0].state, MessageState::Sent);
    w.accept_next(&a, Disposition::Queued);
    assert_eq!(w.view(a.agent).pending[0].state, MessageState::Accepted);
    w.fact(
        &a,
        Fact::UserMessage {
            text: "also the lint job".into(),
        },
    );
    assert!(w.view(a.agent).pending.is_empty());
}

#[test]
fn a_message_seen_before_its_response_is_not_shown_as_waiting_afterwards() {
    // R-DELIV-11: responses and events are not ordered
    let mut w = World::new();
    let a = w.idle();
    let (call, _) = w.send(a.agent, "go on");
    w.fact(&a, Fact::RunStarted);
    w.fact(
        &a,
        Fact::UserMessage {
            text: "go on".into(),
        },
    );
    w.accept_next(&a, Disposition::Started);
    assert!(w.answer(call).is_ok());
    assert!(w.view(a.agent).pending.is_empty());
}

#[test]
fn messages_during_a_revival_share_it() {
    // R-LIFE-11
    let mut w = World::new();
    let a = w.idle();
    w.stop(a.agent);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let (one, instance) = w.send(a.agent, "one");
    let (two, _) = w.send(a.agent, "two");
    assert_eq!(
        w.launches(a.agent).len(),
        2,
        "the first life and one revival"
    );
    let b = a.in_process(instance);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    w.accept_next(&b, Disposition::Queued);
    let texts: Vec<_> = w.prompts(&b).into_iter().map(|(_, t)| t).collect();
    assert_eq!(texts, ["one", "two"], "each once, in order, nothing old");
    assert!(w.answer(one).is_ok() && w.answer(two).is_ok());
}

#[test]
fn a_prompt_refused_by_compaction_waits_for_its_end() {
    let mut w = World::new();
    let a = w.idle();
    w.fact(&a, Fact::CompactionStarted);
    let (call, _) = w.send(a.agent, "later");
    let before = w.prompts(&a).len();
    w.fact(&a, Fact::CompactionEnded);
    assert_eq!(w.prompts(&a).len(), before + 1);
    let (id, _) = w.prompts(&a).last().cloned().unwrap();
    w.respond(
        &a,
        &id,
        Err("Cannot submit a prompt while compaction is in progress. Wait".into()),
    );
    assert!(w.answers(call).is_empty());
    assert_eq!(w.prompts(&a).len(), before + 1);
    w.timer(Timer::Compaction(a.instance));
    assert_eq!(w.prompts(&a).len(), before + 2);
    w.accept_next(&a, Disposition::Started);
    assert!(w.answer(call).is_ok());
}

#[test]
fn abort_waits_for_the_prompt_then_clears_then_aborts_and_gives_back() {
    // R-LIFE-15, R-PI-07
    let mut w = World::new();
    let a = w.running();
    let (queued, _) = w.send(a.agent, "one more thing");
    let (unwritten, _) = w.send(a.agent, "and another");
    let abort = CallId::fresh();
    w.input(Input::Abort {
        call: abort,
        agent: a.agent,
    });
    assert!(
        !w.commands(&a).contains(&ChildCommand::ClearQueue),
        "a prompt is unanswered"
    );
    assert_eq!(w.answer(unwritten).unwrap_err().code, ErrorCode::Gone);
    w.accept_next(&a, Disposition::Queued);
    assert!(w.answer(queued).is_ok());
    assert!(w.commands(&a).contains(&ChildCommand::ClearQueue));
    assert!(!w.commands(&a).contains(&ChildCommand::Abort));
    w.respond(
        &a,
        "clear",
        Ok(ResponseData::Dropped(vec!["one more thing".into()])),
    );
    assert!(w.commands(&a).contains(&ChildCommand::Abort));
    w.settle(&a, StopReason::Aborted);
    w.respond(&a, "abort", Ok(ResponseData::Other));
    assert_eq!(
        w.answer(abort),
        Ok(Reply::Aborted {
            returned: vec!["one more thing".into()]
        })
    );
    assert_eq!(
        w.status(a.agent),
        Status::Idle,
        "the agent stays (R-DELIV-16)"
    );
    assert!(w.view(a.agent).pending.is_empty());
    assert!(w.effects.iter().any(|e| matches!(
        e,
        Effect::RunEnded {
            outcome: Outcome::Stopped { by: StopCause::You },
            ..
        }
    )));
}

#[test]
fn abort_of_nothing_is_refused() {
    let mut w = World::new();
    let a = w.idle();
    let abort = CallId::fresh();
    w.input(Input::Abort {
        call: abort,
        agent: a.agent,
    });
    assert_eq!(w.answer(abort).unwrap_err().code, ErrorCode::Conflict);
}

#[test]
fn a_child_that_dies_with_messages_gives_them_back_and_does_not_restart() {
    // R-LIFE-11: an ambiguous failure is reported, not retried
    let mut w = World::new();
    let a = w.running();
    let (one, _) = w.send(a.agent, "one");
    let (two, _) = w.send(a.agent, "two");
    w.exit(&a, None, Some(9));
    w.swept(&a);
    for call in [one, two] {
        assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Gone);
    }
    assert_eq!(w.launches(a.agent).len(), 1);
}

#[test]
fn an_accepted_message_that_was_never_seen_is_named_when_the_agent_is_stopped() {
    // nothing is lost: its text is in the transcript
    let mut w = World::new();
    let a = w.running();
    w.send(a.agent, "remember the lint job");
    w.accept_next(&a, Disposition::Queued);
    w.stop(a.agent);
    assert!(w.effects.iter().any(|e| matches!(e,
        Effect::Notice { text, .. } if text.contains("remember the lint job"))));
}

#[test]
fn a_failed_run_hands_unseen_messages_to_its_replacement() {
    // R-DELIV-11: the process is gone, so it is proven that they were not consumed
    let mut w = World::new();
    let a = w.running();
    w.send(a.agent, "next");
    w.accept_next(&a, Disposition::Queued);
    w.fact(
        &a,
        Fact::QueueChanged {
            steering: vec!["next".into()],
            follow_up: vec![],
        },
    );
    w.settle(&a, StopReason::Error);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let launches = w.launches(a.agent);
    assert_eq!(launches.len(), 2);
    let b = a.in_process(launches[1]);
    w.ready(&b);
    assert_eq!(w.prompts(&b).len(), 1);
    assert_eq!(w.prompts(&b)[0].1, "next");
}

#[test]
fn a_held_prompt_has_a_deadline_and_the_lane_goes_on() {
    let mut w = World::new();
    let a = w.idle();
    let (one, _) = w.send(a.agent, "one");
    let (two, _) = w.send(a.agent, "two");
    let (id, _) = w.prompts(&a).last().cloned().unwrap();
    w.timer(Timer::Prompt(a.instance, id.parse().unwrap()));
    assert!(w.answer(one).unwrap_err().message.contains("no answer"));
    assert_eq!(w.prompts(&a).last().unwrap().1, "two");
    w.respond(&a, &id, Ok(ResponseData::Disposition(Disposition::Started)));
    assert_eq!(w.answers(one).len(), 1, "a late answer is nobody's");
    w.accept_next(&a, Disposition::Started);
    assert!(w.answer(two).is_ok());
}

#[test]
fn an_accepted_prompt_without_a_run_says_so() {
    // B010
    let mut w = World::new();
    let a = w.idle();
    w.send(a.agent, "hello");
    w.accept_next(&a, Disposition::Started);
    assert_eq!(w.status(a.agent), Status::Running);
    w.timer(Timer::RunBegins(a.instance));
    w.respond(&a, "state", Ok(ResponseData::State(ChildState::default())));
    assert_eq!(w.status(a.agent), Status::Idle);
    assert!(
        w.effects
            .iter()
            .any(|e| matches!(e, Effect::Notice { text, .. } if text.contains("no run began")))
    );
}

#[test]
fn a_deaf_child_is_ended_and_its_message_given_back() {
    // B012
    let mut w = World::new();
    let a = w.idle();
    let (call, _) = w.send(a.agent, "hello");
    w.input(Input::WriteFailed {
        instance: a.instance,
    });
    assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
    w.exit(&a, Some(0), None);
    let error = w.answer(call).unwrap_err();
    assert_eq!(error.code, ErrorCode::Gone);
    assert!(error.message.contains("takes no more input"), "{error}");
    w.swept(&a);
    assert!(matches!(w.status(a.agent), Status::Failed { .. }));
}

#[test]
fn a_child_that_died_before_it_could_be_written_to_is_told_by_its_exit() {
    // B033: the broken pipe is often seen before the exit status.
    let mut w = World::new();
    let a = w.spawn("task");
    w.input(Input::Launched {
        instance: a.instance,
        pid: 4711,
    });
    w.input(Input::WriteFailed {
        instance: a.instance,
    });
    w.exit(&a, Some(3), None);
    let error = w.answer(a.call).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("exit code 3"), "{error}");
    assert!(
        matches!(w.status(a.agent), Status::Failed { reason } if reason.starts_with("exit code 3"))
    );
}

#[test]
fn a_message_to_a_dead_process_that_is_not_swept_yet_is_a_revival_and_says_so() {
    // R-LIFE-10, R-LIFE-11
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, None, Some(9));
    let (call, instance) = w.send(a.agent, "come back");
    assert!(w.answers(call).is_empty());
    assert_eq!(w.launches(a.agent).len(), 1, "not before it is swept");
    w.swept(&a);
    let b = a.in_process(instance);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    assert!(matches!(
        w.answer(call),
        Ok(Reply::Sent { revived: true, .. })
    ));
}
