//! Orders of inputs that the simulation (`tests/sim`) found to break a promise, each as the smallest case.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{HostKind, SpawnMode};
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{Disposition, Fact, ResponseData};
use pi_agents::fleet::machine::{ChildCommand, Effect, Input, Restored, Timer};
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
