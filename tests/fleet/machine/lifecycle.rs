//! Births, runs, ends and deaths.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::table::{self, State, TRANSITIONS};
use pi_agents::fleet::machine::{Effect, Input, LadderSignal, MachineConfig, Timer};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;

use super::world::World;

#[test]
fn an_agent_lives_through_spawn_run_and_idle() {
    // R-LIFE-02, R-LIFE-03, R-LIFE-06
    let mut w = World::new();
    let a = w.spawn("task");
    assert_eq!(w.status(a.agent), Status::Starting);
    assert!(
        w.answers(a.call).is_empty(),
        "not before the prompt is accepted"
    );
    w.ready(&a);
    assert_eq!(w.prompts(&a).len(), 1);
    w.accept_next(&a, Disposition::Started);
    assert_eq!(w.status(a.agent), Status::Running);
    assert!(
        matches!(w.answer(a.call), Ok(Reply::Spawned { ref name, session_path: Some(_), .. }) if name == "max")
    );
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    assert_eq!(w.status(a.agent), Status::Idle);
    assert_eq!(w.run_ends(a.agent), 1);
    assert_eq!(w.view(a.agent).runs_ended, 1);
}

#[test]
fn the_record_is_written_before_the_launch() {
    // design §2: a crash in between loses no agent
    let mut w = World::new();
    let a = w.spawn("task");
    let save = w
        .effects
        .iter()
        .position(|e| *e == Effect::Save(a.agent))
        .unwrap();
    let launch = w
        .effects
        .iter()
        .position(|e| matches!(e, Effect::Launch { .. }))
        .unwrap();
    assert!(save < launch);
}

#[test]
fn an_agent_that_does_not_stay_is_closed_once_its_run_settled() {
    // R-LIFE-16
    let mut w = World::new();
    let a = w.spawn_with("task", false, None);
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    assert_eq!(w.status(a.agent), Status::Completed);
    assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert_eq!(w.status(a.agent), Status::Completed);
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn a_first_prompt_that_is_handled_is_a_failed_start() {
    // R-LIFE-03
    let mut w = World::new();
    let a = w.spawn("/help");
    w.ready(&a);
    w.accept_next(&a, Disposition::Handled);
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
    assert!(matches!(w.status(a.agent), Status::Failed { .. }));
}

#[test]
fn a_missing_disposition_is_one_explicit_failure() {
    // R-LIFE-03
    let mut w = World::new();
    let a = w.spawn("task");
    w.ready(&a);
    w.accept_next(&a, Disposition::Missing);
    assert!(w.answer(a.call).unwrap_err().message.contains("too old"));
}

#[test]
fn a_rejected_spawn_has_no_effects_but_its_answer() {
    // R-TOOL-07
    let mut w = World::new();
    let a = w.spawn("   ");
    assert_eq!(w.effects.len(), 1);
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::Invalid);
    let b = w.spawn("x");
    assert_eq!(w.view(b.agent).name, "max", "no name was used up");
}

#[test]
fn a_child_that_dies_at_start_fails_its_spawn_with_the_reason() {
    // B033, R-DELIV-09
    let mut w = World::new();
    let a = w.spawn("task");
    w.input(Input::Launched {
        instance: a.instance,
        pid: 1,
    });
    w.exit(&a, Some(127), None);
    w.swept(&a);
    let error = w.answer(a.call).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(
        error.message.contains("exit code 127: Error: it broke"),
        "{}",
        error.message
    );
    assert!(matches!(w.status(a.agent), Status::Failed { .. }));
    assert_eq!(w.launches(a.agent).len(), 1, "no restart");
}

#[test]
fn a_running_child_that_is_killed_fails_with_its_signal() {
    // R-LIFE-09
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, None, Some(9));
    assert!(
        matches!(w.status(a.agent), Status::Failed { ref reason } if reason.contains("signal 9"))
    );
    assert_eq!(w.run_ends(a.agent), 1);
    w.swept(&a);
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn an_idle_child_that_dies_makes_no_second_result() {
    // R-LIFE-09
    let mut w = World::new();
    let a = w.idle();
    w.exit(&a, None, Some(9));
    w.swept(&a);
    assert_eq!(w.status(a.agent), Status::Completed);
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn stop_climbs_the_ladder_and_answers_when_nothing_is_left() {
    // R-LIFE-07, R-TOOL-03
    let mut w = World::new();
    let a = w.running();
    let stop = w.stop(a.agent);
    assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
    assert!(w.view(a.agent).closing);
    assert_eq!(
        w.status(a.agent),
        Status::Running,
        "not stopped before it is dead"
    );
    let term = w.timer(Timer::Ladder(a.instance));
    assert!(term.contains(&Effect::Signal {
        instance: a.instance,
        signal: LadderSignal::Term
    }));
    let kill = w.timer(Timer::Ladder(a.instance));
    assert!(kill.contains(&Effect::Signal {
        instance: a.instance,
        signal: LadderSignal::Kill
    }));
    w.exit(&a, None, Some(9));
    assert_eq!(w.status(a.agent), Status::Stopped { by: StopCause::You });
    assert!(w.answers(stop).is_empty(), "descendants may still be there");
    w.swept(&a);
    assert_eq!(w.answer(stop), Ok(Reply::Stopped { was_live: true }));
    let outcomes: Vec<_> = w
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::RunEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [Outcome::Stopped { by: StopCause::You }]);
    let again = w.stop(a.agent);
    assert_eq!(
        w.answer(again),
        Ok(Reply::Stopped { was_live: false }),
        "idempotent"
    );
}

#[test]
fn stop_of_a_queued_or_starting_agent_ends_its_spawn_once() {
    // B027, R-TOOL-17
    let mut w = World::with(MachineConfig {
        launch_slots: 1,
        ..MachineConfig::default()
    });
    let first = w.spawn("one");
    let second = w.spawn("two");
    assert_eq!(w.status(second.agent), Status::Queued);
    let stop = w.stop(second.agent);
    assert_eq!(
        w.status(second.agent),
        Status::Stopped { by: StopCause::You }
    );
    assert_eq!(w.answer(stop), Ok(Reply::Stopped { was_live: true }));
    assert_eq!(w.answer(second.call).unwrap_err().code, ErrorCode::Gone);
    let stop = w.stop(first.agent);
    w.input(Input::Launched {
        instance: first.instance,
        pid: 1,
    });
    assert_eq!(
        w.count(|e| matches!(e, Effect::CloseStdin { .. })),
        1,
        "the ladder begins at once"
    );
    w.exit(&first, Some(0), None);
    w.swept(&first);
    assert_eq!(w.answer(stop), Ok(Reply::Stopped { was_live: true }));
    assert_eq!(w.answer(first.call).unwrap_err().code, ErrorCode::Gone);
    assert!(w.launches(second.agent).is_empty());
}

#[test]
fn launches_are_paced_and_running_agents_do_not_count() {
    // R-PI-11
    let mut w = World::with(MachineConfig {
        launch_slots: 2,
        ..MachineConfig::default()
    });
    let all: Vec<_> = (0..5).map(|n| w.spawn(&format!("task {n}"))).collect();
    assert_eq!(w.count(|e| matches!(e, Effect::Launch { .. })), 2);
    w.ready(&all[0]);
    assert_eq!(
        w.count(|e| matches!(e, Effect::Launch { .. })),
        3,
        "a live one frees its slot"
    );
    w.exit(&all[1], Some(1), None);
    assert_eq!(w.count(|e| matches!(e, Effect::Launch { .. })), 4);
    assert_eq!(w.launches(all[3].agent).len(), 1, "in order");
}

#[test]
fn a_run_that_starts_by_itself_is_a_run_and_a_second_start_does_not_split_it() {
    // R-LIFE-14, B016
    let mut w = World::new();
    let a = w.idle();
    w.fact(&a, Fact::RunStarted);
    assert_eq!(w.status(a.agent), Status::Running);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    w.settle(&a, StopReason::Stop);
    assert_eq!(w.run_ends(a.agent), 2);
    assert_eq!(w.status(a.agent), Status::Idle);
}

#[test]
fn a_failed_run_closes_its_process_and_a_message_replaces_it() {
    // R-LIFE-10
    let mut w = World::new();
    let a = w.running();
    w.fact(
        &a,
        Fact::RunEnded(RunEnd {
            stop: StopReason::Error,
            error: Some("401: invalid key".into()),
            ..RunEnd::default()
        }),
    );
    assert!(matches!(w.status(a.agent), Status::Failed { ref reason } if reason.contains("401")));
    let (call, instance) = w.send(a.agent, "again");
    assert_eq!(
        w.launches(a.agent).len(),
        1,
        "never before the old process is gone"
    );
    w.exit(&a, Some(0), None);
    assert_eq!(
        w.launches(a.agent).len(),
        1,
        "nor before its left-overs are gone"
    );
    w.swept(&a);
    assert_eq!(w.launches(a.agent), [a.instance, instance]);
    let b = a.in_process(instance);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    assert!(matches!(
        w.answer(call),
        Ok(Reply::Sent { revived: true, .. })
    ));
}

#[test]
fn a_timed_out_run_is_stopped_with_the_cause_and_closes() {
    // R-LIFE-13
    let mut w = World::new();
    let a = w.spawn_with("task", true, Some(5000));
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    let effects = w.fact(&a, Fact::RunStarted);
    let timer = effects
        .iter()
        .find_map(|e| match e {
            Effect::Arm {
                timer: timer @ Timer::Run(..),
                after,
            } => Some((*timer, *after)),
            _ => None,
        })
        .expect("a deadline");
    assert_eq!(timer.1.as_millis(), 5000);
    w.timer(timer.0);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert_eq!(
        w.status(a.agent),
        Status::Stopped {
            by: StopCause::Timeout
        }
    );
}

#[test]
fn a_deadline_of_an_earlier_run_does_nothing() {
    // R-LIFE-12
    let mut w = World::new();
    let a = w.spawn_with("task", true, Some(5000));
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    w.fact(&a, Fact::RunStarted);
    w.timer(Timer::Run(a.instance, 1));
    assert!(!w.view(a.agent).closing);
}

#[test]
fn inputs_of_an_old_process_cannot_touch_a_newer_one() {
    // R-LIFE-12
    let mut w = World::new();
    let a = w.idle();
    w.stop(a.agent);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let (_, instance) = w.send(a.agent, "come back");
    let b = a.in_process(instance);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    w.fact(&b, Fact::RunStarted);
    let before = w.view(a.agent);
    w.settle(&a, StopReason::Error);
    w.exit(&a, None, Some(9));
    w.swept(&a);
    w.timer(Timer::Ladder(a.instance));
    assert_eq!(w.view(a.agent), before);
}

#[test]
fn stop_during_a_revival_leaves_nothing_and_a_later_message_may_start_it() {
    // B029, R-LIFE-12
    let mut w = World::new();
    let a = w.idle();
    w.stop(a.agent);
    w.exit(&a, Some(0), None);
    let (first, _) = w.send(a.agent, "come back");
    let stop = w.stop(a.agent);
    w.swept(&a);
    assert_eq!(
        w.launches(a.agent).len(),
        1,
        "the pending launch is fenced off"
    );
    assert_eq!(w.answer(first).unwrap_err().code, ErrorCode::Gone);
    assert!(w.answer(stop).is_ok());
    w.send(a.agent, "now really");
    assert_eq!(w.launches(a.agent).len(), 2);
}

#[test]
fn shutdown_stops_all_refuses_new_work_and_exits_once() {
    // R-LIFE-08
    let mut w = World::new();
    let a = w.running();
    let b = w.idle();
    let call = pi_agents::fleet::ids::CallId::fresh();
    w.input(Input::Shutdown { call: Some(call) });
    let late = w.spawn("late");
    assert_eq!(w.answer(late.call).unwrap_err().code, ErrorCode::Conflict);
    for p in [&a, &b] {
        w.exit(p, Some(0), None);
        assert!(w.answers(call).is_empty());
        w.swept(p);
    }
    assert_eq!(w.answer(call), Ok(Reply::Done));
    assert_eq!(w.count(|e| *e == Effect::Exit), 1);
    assert_eq!(
        w.status(a.agent),
        Status::Stopped {
            by: StopCause::Shutdown
        }
    );
}

#[test]
fn a_stray_settled_asks_and_ends_a_run_only_if_the_child_is_idle() {
    // R-LIFE-04, rule F1
    let mut w = World::new();
    let a = w.running();
    w.fact(&a, Fact::StraySettled);
    assert_eq!(w.status(a.agent), Status::Running);
    w.timer(Timer::AskState(a.instance));
    w.respond(
        &a,
        "state",
        Ok(ResponseData::State(ChildState {
            streaming: true,
            ..ChildState::default()
        })),
    );
    assert_eq!(w.run_ends(a.agent), 0);
    w.timer(Timer::AskState(a.instance));
    w.respond(&a, "state", Ok(ResponseData::State(ChildState::default())));
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn terminal_states_are_left_only_by_a_revival() {
    // R-LIFE-02
    for (from, to, _) in TRANSITIONS {
        assert!(table::allowed(*from, *to));
        if matches!(from, State::Completed | State::Failed | State::Stopped) {
            assert!(
                matches!(to, State::Queued | State::Starting),
                "{from:?} → {to:?}"
            );
        }
    }
}

#[test]
fn an_abort_inside_a_tool_that_pi_calls_an_error_is_stopped() {
    // R-DELIV-15
    let end = RunEnd {
        stop: StopReason::Error,
        aborted: true,
        error: Some("This operation was aborted".into()),
        ..RunEnd::default()
    };
    assert!(matches!(end.outcome(), Outcome::Stopped { .. }));
}

#[test]
fn a_child_that_closed_its_output_and_lives_on_is_ended_with_that_reason() {
    // R-LIFE-09: never `running` for ever
    let mut w = World::new();
    let a = w.running();
    w.input(Input::OutputEnded {
        instance: a.instance,
    });
    assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert!(
        matches!(w.status(a.agent), Status::Failed { ref reason } if reason.contains("closed its output"))
    );
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn a_settlement_is_frozen_and_cannot_touch_the_run_after_it() {
    // R-LIFE-05
    let mut w = World::new();
    let a = w.running();
    w.fact(
        &a,
        Fact::RunEnded(RunEnd {
            stop: StopReason::Stop,
            tool_uses: 3,
            ..RunEnd::default()
        }),
    );
    w.send(a.agent, "next");
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    // What settled is told with its own facts, whatever happens to the next run.
    let told = |w: &World| -> Vec<u64> {
        w.effects
            .iter()
            .filter_map(|e| match e {
                Effect::RunEnded { tool_uses, .. } => Some(*tool_uses),
                _ => None,
            })
            .collect()
    };
    assert_eq!(told(&w), [3]);
    assert_eq!(w.status(a.agent), Status::Running);
    assert_eq!(
        w.view(a.agent).run_took_ms,
        None,
        "the new run has no end yet"
    );
    w.settle(&a, StopReason::Error);
    assert_eq!(told(&w), [3, 0]);
    // Timers and states of the first run change nothing any more.
    w.timer(Timer::AskState(a.instance));
    assert_eq!(w.run_ends(a.agent), 2);
}

#[test]
fn a_harmless_line_of_pi_is_not_the_reason_of_a_death() {
    let exit = |lines: &[&str]| pi_agents::fleet::machine::Exit {
        code: Some(3),
        signal: None,
        stderr_tail: lines.iter().map(|l| (*l).to_owned()).collect(),
        known: None,
        unheard: false,
    };
    let warning =
        "Warning: No project session found with id 'x'; creating a new session with that id.";
    assert_eq!(exit(&[warning]).words(), "exit code 3");
    assert_eq!(
        exit(&["disk on fire", warning]).words(),
        "exit code 3: disk on fire"
    );
    assert_eq!(
        exit(&["Error: bad flag", "Hint: try -h"]).words(),
        "exit code 3: Error: bad flag"
    );
}

#[test]
fn a_stop_between_death_and_sweep_says_that_nothing_was_running() {
    // R-TOOL-03: the same answer whether the last left-over is gone yet or not
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, None, Some(9));
    let call = w.stop(a.agent);
    assert!(w.answers(call).is_empty(), "left-overs may still be there");
    w.swept(&a);
    assert_eq!(w.answer(call), Ok(Reply::Stopped { was_live: false }));
    assert!(
        matches!(w.status(a.agent), Status::Failed { .. }),
        "what happened stays"
    );
}
