//! Orders of inputs that the simulation (`tests/sim`) found to break a promise, each as the smallest case.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{HostKind, SpawnMode};
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData};
use pi_agents::fleet::machine::{ChildCommand, Effect, Exit, Input, Restored, Timer};
use pi_agents::fleet::outbox::Activity;
use pi_agents::fleet::roster::MessageState;
use pi_agents::pi::message::StopReason;

use super::parent::{completions, sync, with_pi};
use super::world::{Played, World};

fn user(text: &str) -> Fact {
    Fact::UserMessage { text: text.into() }
}

/// A timer was started and neither taken off nor over.
fn armed(world: &World, is: impl Fn(&Timer) -> bool) -> bool {
    let mut armed = false;
    for effect in &world.effects {
        match effect {
            Effect::Arm { timer, .. } if is(timer) => armed = true,
            Effect::Disarm(timer) if is(timer) => armed = false,
            _ => {}
        }
    }
    armed
}

fn notices(world: &World) -> Vec<String> {
    let text = |e: &Effect| match e {
        Effect::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    world.effects.iter().filter_map(text).collect()
}

/// An agent whose task is with the child and not answered.
fn asked(world: &mut World) -> Played {
    let played = world.spawn("task");
    world.ready(&played);
    played
}

// R-LIFE-12
#[test]
fn a_stop_takes_the_deadline_of_an_unanswered_prompt_off() {
    let mut world = World::new();
    let played = asked(&mut world);
    assert!(armed(&world, |t| matches!(t, Timer::Prompt(..))));
    world.stop(played.agent);
    assert!(!armed(&world, |t| matches!(t, Timer::Prompt(..))));
}

// R-LIFE-12: a process that died at once can be reported dead before it is reported started.
#[test]
fn a_process_that_is_dead_when_it_is_reported_started_is_asked_nothing() {
    let mut world = World::new();
    let played = world.spawn("task");
    world.exit(&played, Some(1), None);
    world.input(Input::Launched {
        instance: played.instance,
        pid: 4711,
    });
    assert!(world.commands(&played).is_empty());
    assert_eq!(world.view(played.agent).pid, None);
}

// R-LIFE-02
#[test]
fn a_stop_stays_a_stop_when_the_start_takes_too_long_after_it() {
    let mut world = World::new();
    let played = world.spawn("task");
    let call = world.stop(played.agent);
    world.timer(Timer::Start(played.instance));
    assert!(!matches!(world.status(played.agent), Status::Failed { .. }));
    world.input(Input::LaunchFailed {
        instance: played.instance,
        reason: "no such program".into(),
        hint: None,
    });
    assert_eq!(
        world.status(played.agent),
        Status::Stopped { by: StopCause::You }
    );
    assert_eq!(world.answer(call), Ok(Reply::Stopped { was_live: true }));
}

// R-LIFE-04: what a dead process said last is heard after its death.
#[test]
fn a_stray_settlement_of_a_dead_process_starts_no_timer() {
    let mut world = World::new();
    let played = world.running();
    world.exit(&played, Some(1), None);
    world.fact(&played, Fact::StraySettled);
    assert!(!armed(&world, |t| matches!(t, Timer::AskState(_))));
}

// R-DELIV-17: a core that dies now must come back with the reason its caller was told.
#[test]
fn the_record_of_a_failed_start_is_written_when_the_caller_is_told() {
    let mut world = World::new();
    let played = world.spawn("task");
    world.input(Input::Launched {
        instance: played.instance,
        pid: 4711,
    });
    let effects = world.timer(Timer::Start(played.instance));
    assert!(effects.contains(&Effect::Save(played.agent)));
    assert!(matches!(world.status(played.agent), Status::Failed { .. }));
}

// R-DELIV-11
#[test]
fn an_accepted_message_that_the_model_never_saw_is_reported_when_its_run_ends() {
    let mut world = World::new();
    let played = world.running();
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    world.settle(&played, StopReason::Stop);
    assert!(notices(&world).iter().any(|n| n.contains("and this")));
    assert!(world.view(played.agent).pending.is_empty());
}

// R-DELIV-11
#[test]
fn a_message_that_the_child_rewrote_is_not_called_lost() {
    let mut world = World::new();
    let played = world.running();
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    world.fact(&played, user("and this, said otherwise"));
    world.settle(&played, StopReason::Stop);
    assert!(notices(&world).is_empty());
}

// R-LIFE-16, R-LIFE-03: Pi takes a prompt between `agent_end` and `agent_settled` as the start of the next run.
#[test]
fn a_prompt_that_starts_the_next_run_keeps_the_process_of_an_agent_that_does_not_stay() {
    let mut world = World::new();
    let played = world.spawn_with("task", false, None);
    world.ready(&played);
    world.accept_next(&played, Disposition::Started);
    world.fact(&played, Fact::RunStarted);
    world.fact(&played, user("task"));
    world.send(played.agent, "more");
    world.accept_next(&played, Disposition::Started);
    world.settle(&played, StopReason::Stop);
    assert_eq!(world.status(played.agent), Status::Running);
    assert_eq!(world.count(|e| matches!(e, Effect::CloseStdin { .. })), 0);
    world.fact(&played, Fact::RunStarted);
    world.fact(&played, user("more"));
    world.settle(&played, StopReason::Stop);
    assert_eq!(world.status(played.agent), Status::Completed);
    assert_eq!(world.run_ends(played.agent), 2);
}

// R-LIFE-11: an extension whose own first run fails must not have the agent started again and again.
#[test]
fn a_message_is_worth_one_launch() {
    let mut world = World::new();
    let played = world.spawn("task");
    world.input(Input::Launched {
        instance: played.instance,
        pid: 4711,
    });
    world.fact(&played, Fact::RunStarted);
    world.settle(&played, StopReason::Error);
    world.exit(&played, Some(0), None);
    world.swept(&played);
    assert_eq!(world.launches(played.agent), [played.instance]);
    assert_eq!(world.answer(played.call).unwrap_err().code, ErrorCode::Gone);
}

// R-LIFE-07
#[test]
fn nothing_is_written_to_a_process_whose_input_is_closed() {
    let mut world = World::new();
    let played = world.running();
    let call = CallId::fresh();
    world.input(Input::Abort {
        call,
        agent: played.agent,
    });
    world.stop(played.agent);
    world.respond(&played, "clear", Ok(ResponseData::Dropped(Vec::new())));
    assert!(!world.commands(&played).contains(&ChildCommand::Abort));
}

// R-DELIV-11
#[test]
fn a_message_that_the_model_has_is_not_called_undelivered() {
    let mut world = World::new();
    let played = world.running();
    let (stopped, _) = world.send(played.agent, "and this");
    world.fact(&played, user("and this"));
    world.stop(played.agent);
    assert!(matches!(world.answer(stopped), Ok(Reply::Sent { .. })));

    let mut world = World::new();
    let played = world.running();
    let (late, _) = world.send(played.agent, "and this");
    world.fact(&played, user("and this"));
    let prompt = world.prompts(&played).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(played.instance, prompt));
    assert!(matches!(world.answer(late), Ok(Reply::Sent { .. })));
    assert!(notices(&world).is_empty());
}

// R-LIFE-16
#[test]
fn an_agent_that_does_not_stay_ends_when_a_command_started_no_run() {
    let mut world = World::new();
    let played = world.spawn_with("task", false, None);
    world.ready(&played);
    world.accept_next(&played, Disposition::Started);
    world.fact(&played, Fact::RunStarted);
    world.settle(&played, StopReason::Stop);
    world.exit(&played, Some(0), None);
    world.swept(&played);
    let (_, instance) = world.send(played.agent, "/command");
    let again = played.in_process(instance);
    world.ready(&again);
    world.has_commands(&again, &["command"]);
    world.accept_next(&again, Disposition::Handled);
    assert_eq!(world.status(played.agent), Status::Completed);
    assert_eq!(world.count(|e| *e == Effect::CloseStdin { instance }), 1);
}

// R-LIFE-15
#[test]
fn a_text_is_given_back_once_when_a_stop_comes_between_an_abort() {
    let mut world = World::new();
    let played = world.running();
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    let call = CallId::fresh();
    world.input(Input::Abort {
        call,
        agent: played.agent,
    });
    world.stop(played.agent);
    world.respond(
        &played,
        "clear",
        Ok(ResponseData::Dropped(vec!["and this".into()])),
    );
    world.exit(&played, Some(0), None);
    assert_eq!(
        world.answer(call),
        Ok(Reply::Aborted {
            returned: Vec::new()
        })
    );
    assert_eq!(notices(&world).len(), 1);
}

// R-DELIV-11: a prompt whose answer came too late is acted on after all; that must not hide one that is lost.
#[test]
fn a_late_prompt_that_is_acted_on_hides_no_lost_one() {
    let mut world = World::new();
    let played = world.running();
    world.send(played.agent, "late");
    let late = world.prompts(&played).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(played.instance, late));
    world.send(played.agent, "lost");
    world.accept_next(&played, Disposition::Queued);
    world.fact(&played, user("late"));
    world.settle(&played, StopReason::Stop);
    assert!(notices(&world).iter().any(|n| n.contains("lost")));
}

// R-PI-07
#[test]
fn the_view_says_that_an_agent_compacts() {
    let mut world = World::new();
    let played = world.idle();
    let begun = world.fact(&played, Fact::CompactionStarted);
    assert!(begun.contains(&Effect::Publish(played.agent)));
    world.send(played.agent, "later");
    let waits = &world.view(played.agent).pending[0];
    assert_eq!(waits.state, MessageState::Queued);
    let ended = world.fact(&played, Fact::CompactionEnded);
    assert!(ended.contains(&Effect::Publish(played.agent)));
    let waits = &world.view(played.agent).pending[0];
    assert_eq!(waits.state, MessageState::Sent);
}

// R-TOOL-18: the task was taken and worked on; that Pi did not say so takes nothing from the result.
#[test]
fn a_result_that_is_waited_for_comes_although_the_prompt_was_never_answered() {
    let mut world = World::new();
    let played = world.spawn_mode("task", true, None, SpawnMode::Foreground);
    world.ready(&played);
    world.fact(&played, Fact::RunStarted);
    world.fact(&played, user("task"));
    world.settle(&played, StopReason::Stop);
    assert!(matches!(
        world.answer(played.call),
        Ok(Reply::Finished { .. })
    ));
    let prompt = world.prompts(&played).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(played.instance, prompt));
    assert_eq!(world.status(played.agent), Status::Idle);
}

// R-DELIV-11, R-TOOL-18: the model has the task, and the run that would be its answer was not heard: the call is told what is
// known, and that is not that nothing began.
#[test]
fn a_task_that_the_model_has_is_not_called_not_started() {
    type End = fn(&mut World, &Played);
    let ends: [(&str, End); 3] = [
        ("exit code 1", |world, played| {
            world.exit(played, Some(1), None);
        }),
        ("closed its output", |world, played| {
            world.input(Input::OutputEnded {
                instance: played.instance,
            });
            world.exit(played, Some(0), None);
        }),
        ("stopped", |world, played| {
            world.stop(played.agent);
        }),
    ];
    for (cause, end) in ends {
        let mut world = with_pi();
        let played = world.spawn_mode("task", true, None, SpawnMode::Foreground);
        world.ready(&played);
        // A run that was over, as far as was heard, before the task was given to the model.
        world.fact(&played, Fact::RunStarted);
        world.settle(&played, StopReason::Error);
        world.fact(&played, user("task"));
        end(&mut world, &played);
        let error = world.answer(played.call).unwrap_err();
        assert!(!error.message.contains("not started"), "{error:?}");
        assert!(
            error.message.contains("the model has the task"),
            "{error:?}"
        );
        assert!(error.message.contains(cause), "{error:?}");
        let hint = error.hint.unwrap_or_default();
        assert!(hint.contains("/sessions/one.jsonl"), "{hint}");
    }
}

// R-DELIV-11, R-TOOL-18
#[test]
fn a_task_that_the_model_has_is_not_said_to_be_undecided_when_its_answer_never_comes() {
    let mut world = World::new();
    let played = world.spawn_mode("task", true, None, SpawnMode::Foreground);
    world.ready(&played);
    world.fact(&played, Fact::RunStarted);
    world.settle(&played, StopReason::Error);
    world.fact(&played, user("task"));
    let prompt = world.prompts(&played).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(played.instance, prompt));
    let error = world.answer(played.call).unwrap_err();
    assert!(
        error.message.contains("the model has the task"),
        "{error:?}"
    );
    assert!(!error.message.contains("may still"), "{error:?}");
}

// R-TOOL-10, R-TOOL-17: the words of a call that is taken back say what there was.
#[test]
fn a_call_that_is_taken_back_is_not_told_that_nothing_was_started_when_something_was() {
    let mut world = World::new();
    let played = world.spawn_mode("task", true, None, SpawnMode::Foreground);
    world.ready(&played);
    world.input(Input::Cancel { call: played.call });
    let error = world.answer(played.call).unwrap_err();
    assert_eq!(error.code, ErrorCode::Cancelled);
    assert!(!error.message.contains("nothing was started"), "{error:?}");
}

/// The timer is over: it is armed no more.
fn over(world: &mut World, timer: Timer) {
    assert!(armed(world, |t| *t == timer), "{timer:?} was started");
    let its = |e: &Effect| matches!(e, Effect::Arm { timer: t, .. } if *t == timer);
    world.effects.retain(|e| !its(e));
    world.timer(timer);
}

/// A run that died without a word: what the child says when it is asked for its state is all there is.
fn vanished(world: &mut World) -> Played {
    let played = world.running();
    world.fact(&played, Fact::StraySettled);
    over(world, Timer::AskState(played.instance));
    played
}

fn idle_state(compacting: bool) -> Result<ResponseData, String> {
    Ok(ResponseData::State(ChildState {
        compacting,
        ..ChildState::default()
    }))
}

// R-LIFE-04, rule F1: a child that compacts when it is asked is asked again when that is over.
#[test]
fn a_run_that_vanished_before_a_compaction_ends_after_it() {
    let mut world = World::new();
    let played = vanished(&mut world);
    world.fact(&played, Fact::CompactionStarted);
    world.respond(&played, "state", idle_state(true));
    assert_eq!(world.run_ends(played.agent), 0);
    world.fact(&played, Fact::CompactionEnded);
    assert!(armed(&world, |t| matches!(t, Timer::AskState(_))));
    over(&mut world, Timer::AskState(played.instance));
    world.respond(&played, "state", idle_state(false));
    assert_eq!(world.run_ends(played.agent), 1);
    assert!(!armed(&world, |t| matches!(t, Timer::AskState(_))));
}

// R-LIFE-04, rule F1: nor does a question that nobody answered, or one that a prompt made void, end the asking.
#[test]
fn a_run_that_vanished_is_asked_for_until_it_is_known() {
    let mut world = World::new();
    let played = vanished(&mut world);
    let asked = world.commands(&played).len();
    over(&mut world, Timer::AskState(played.instance));
    assert_eq!(world.commands(&played).len(), asked + 1);
    world.send(played.agent, "more");
    world.respond(&played, "state", idle_state(false));
    assert_eq!(world.run_ends(played.agent), 0, "a prompt is on its way");
    let prompt = world.prompts(&played).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(played.instance, prompt));
    assert!(armed(&world, |t| matches!(t, Timer::AskState(_))));
    over(&mut world, Timer::AskState(played.instance));
    world.respond(&played, "state", idle_state(false));
    assert_eq!(world.run_ends(played.agent), 1);
}

// R-LIFE-04: a run that goes on is asked for once, not for ever.
#[test]
fn a_run_that_goes_on_after_a_stray_settlement_is_left_alone() {
    let mut world = World::new();
    let played = vanished(&mut world);
    let streaming = ChildState {
        streaming: true,
        ..ChildState::default()
    };
    world.respond(&played, "state", Ok(ResponseData::State(streaming)));
    assert_eq!(world.run_ends(played.agent), 0);
    assert!(!armed(&world, |t| matches!(t, Timer::AskState(_))));
}

// R-LIFE-04, rule F1: a run of its own can vanish before the first prompt is written.
#[test]
fn a_run_that_vanished_while_the_agent_started_is_asked_for_when_it_is_there() {
    let mut world = World::new();
    world.model = Some("p/real".into());
    let played = world.spawn("task");
    world.ready(&played);
    world.fact(&played, Fact::RunStarted);
    world.fact(&played, Fact::StraySettled);
    world.respond(&played, "models", Err("cannot list".into()));
    assert!(armed(&world, |t| matches!(t, Timer::AskState(_))));
}

// R-DELIV-11, R-LIFE-11: sent again is only what is proven not to have been consumed. A process whose last words were not
// read proves nothing.
#[test]
fn a_message_is_not_sent_again_that_a_process_may_have_consumed_unheard() {
    for unheard in [false, true] {
        let mut world = World::new();
        let played = world.spawn_with("task", false, None);
        world.begin(&played);
        let (_, instance) = world.send(played.agent, "and this");
        world.accept_next(&played, Disposition::Queued);
        let held = vec!["and this".to_owned()];
        world.fact(
            &played,
            Fact::QueueChanged {
                steering: held,
                follow_up: Vec::new(),
            },
        );
        world.settle(&played, StopReason::Stop);
        world.input(Input::Exited {
            instance: played.instance,
            exit: Exit {
                code: Some(0),
                unheard,
                ..Exit::default()
            },
        });
        world.swept(&played);
        let again = world.launches(played.agent).contains(&instance);
        assert_eq!(again, !unheard);
        assert_eq!(notices(&world).len(), usize::from(unheard));
    }
}

// R-LIFE-15, R-DELIV-11: the queue was cleared although the answer came when nobody waited for the abort any more.
#[test]
fn what_a_late_answer_says_was_dropped_is_given_back() {
    let mut world = World::new();
    let played = world.running();
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    world.input(Input::Abort {
        call: CallId::fresh(),
        agent: played.agent,
    });
    world.timer(Timer::Abort(played.instance));
    let dropped = || Ok(ResponseData::Dropped(vec!["and this".into()]));
    world.respond(&played, "clear", dropped());
    assert!(world.view(played.agent).pending.is_empty());
    assert_eq!(notices(&world).len(), 1);
    assert!(notices(&world)[0].contains("and this"));
    // An answer that comes twice drops nothing more.
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    world.respond(&played, "clear", dropped());
    assert_eq!(world.view(played.agent).pending.len(), 1);
}

// R-LIFE-15: the answer to an abort that was given up is not the answer to the next one.
#[test]
fn a_late_answer_to_an_abort_ends_no_later_one() {
    let mut world = World::new();
    let played = world.running();
    let abort = |world: &mut World| {
        let call = CallId::fresh();
        world.input(Input::Abort {
            call,
            agent: played.agent,
        });
        call
    };
    let dropped = |texts: &[&str]| {
        let texts = texts.iter().map(|t| (*t).to_owned()).collect();
        Ok(ResponseData::Dropped(texts))
    };
    world.send(played.agent, "and this");
    world.accept_next(&played, Disposition::Queued);
    let first = abort(&mut world);
    world.respond(&played, "clear", dropped(&["and this"]));
    world.timer(Timer::Abort(played.instance));
    assert!(matches!(world.answer(first), Ok(Reply::Aborted { returned }) if returned.len() == 1));
    let second = abort(&mut world);
    world.respond(&played, "abort", Ok(ResponseData::Other));
    world.respond(&played, "clear", dropped(&["and this"]));
    let written = |world: &World| {
        let commands = world.commands(&played);
        commands
            .iter()
            .filter(|c| **c == ChildCommand::Abort)
            .count()
    };
    assert!(world.answers(second).is_empty());
    assert_eq!(written(&world), 1);
    world.respond(&played, "clear-2", dropped(&[]));
    assert_eq!(written(&world), 2);
    world.respond(&played, "abort", Ok(ResponseData::Other));
    assert_eq!(
        world.answer(second),
        Ok(Reply::Aborted {
            returned: Vec::new()
        })
    );
}

// R-DELIV-11, R-DELIV-12: nobody waits any more for an agent whose waited-for start failed: what its next process is given and
// told is an ordinary message.
#[test]
fn an_agent_that_is_started_again_after_a_failed_start_is_waited_for_by_nobody() {
    let mut world = World::new();
    let played = world.spawn_mode("task", true, None, SpawnMode::Foreground);
    world.exit(&played, Some(1), None);
    world.swept(&played);
    let (call, instance) = world.send(played.agent, "again");
    let again = played.in_process(instance);
    let waited_for = world.effects.iter().rev().find_map(|e| match e {
        Effect::Launch { plan, .. } => Some(plan.waited_for),
        _ => None,
    });
    assert_eq!(waited_for, Some(false));
    world.ready(&again);
    world.fact(&again, Fact::RunStarted);
    world.settle(&again, StopReason::Error);
    world.fact(&again, user("again"));
    let prompt = world.prompts(&again).last().unwrap().0.parse().unwrap();
    world.timer(Timer::Prompt(again.instance, prompt));
    assert!(matches!(world.answer(call), Ok(Reply::Sent { .. })));
}

// R-DELIV-09: a run of an extension's own before the task was accepted is nobody's result, and a spawn that failed is told
// by its call alone.
#[test]
fn a_spawn_that_fails_after_a_run_of_its_own_is_told_by_its_call_alone() {
    for mode in [SpawnMode::Background, SpawnMode::Foreground] {
        let mut world = with_pi();
        let played = world.spawn_mode("task", true, None, mode);
        world.input(Input::Launched {
            instance: played.instance,
            pid: 4711,
        });
        world.fact(&played, Fact::RunStarted);
        world.exit(&played, Some(1), None);
        world.swept(&played);
        sync(&mut world);
        assert!(world.answer(played.call).is_err());
        assert!(completions(&world).is_empty());
    }
}

// R-DELIV-05, R-DELIV-17
#[test]
fn the_journal_of_a_host_that_is_known_from_the_records_of_its_agents_is_taken_in() {
    let mut before = with_pi();
    let played = before.running();
    before.settle(&played, StopReason::Stop);
    let journal: Vec<_> = before
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Journal { record, .. } => Some(record.clone()),
            _ => None,
        })
        .collect();
    let view = before.view(played.agent);
    let mut after = World::new();
    after.machine.restore(Restored {
        id: played.agent,
        host: before.caller.host,
        kind: HostKind::Pi,
        name: view.name,
        spec: view.spec,
        session_id: "s".into(),
        session_path: None,
        status: Status::Idle,
        since_ms: 0,
        run_took_ms: None,
        runs_ended: 1,
        last: None,
    });
    after.input(Input::HostJoined {
        call: CallId::fresh(),
        host: before.caller.host,
        kind: HostKind::Pi,
        generation: 2,
        known: Vec::new(),
        undecided: Vec::new(),
        durable: true,
        journal,
    });
    after.input(Input::HostState {
        host: before.caller.host,
        generation: 2,
        activity: Activity::Busy,
    });
    let told = completions(&after);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].id.instance, played.instance);
}
