//! Calls that are taken back, and causes.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{LeaveReason, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use pi_agents::fleet::interpret::{Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::{ChildEnv, Effect, Input, MachineConfig, Timer};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;

use super::super::parent::*;
use super::super::world::{Played, World};
use super::play::{Rng, seeds};

#[test]
fn s09_a_call_cancelled_before_it_came_has_no_effect_but_its_answer() {
    // R-TOOL-10, R-TOOL-17: every kind of call, every state of its agent
    for state_of in ["queued", "launching", "running", "idle", "stopped"] {
        for kind in ["spawn", "send", "stop", "abort", "shutdown"] {
            let mut w = with_pi_and(MachineConfig {
                launch_slots: 1,
                ..MachineConfig::default()
            });
            let a = match state_of {
                "queued" => {
                    w.spawn("another");
                    w.spawn("task")
                }
                "launching" => w.spawn("task"),
                "running" => w.running(),
                _ => w.idle(),
            };
            if state_of == "stopped" {
                w.stop(a.agent);
                w.exit(&a, Some(0), None);
                w.swept(&a);
            }
            let call = CallId::fresh();
            w.input(Input::Cancel { call });
            let (before, seen) = (w.effects.len(), w.view(a.agent));
            let (agent, by) = (a.agent, w.caller);
            w.input(match kind {
                "spawn" => Input::Spawn {
                    call,
                    by,
                    mode: SpawnMode::Foreground,
                    agent: AgentId::fresh(),
                    instance: InstanceId::fresh(),
                    message: MessageId::fresh(),
                    spec: w.view(agent).spec,
                    prompt: "task".into(),
                    env: ChildEnv::default(),
                },
                "send" => Input::Send {
                    call,
                    agent,
                    by: Sender::Parent(by),
                    message: MessageId::fresh(),
                    instance: InstanceId::fresh(),
                    text: "hello".into(),
                    env: ChildEnv::default(),
                },
                "stop" => Input::Stop {
                    call,
                    agent,
                    by: Stopper::Parent(by),
                },
                "abort" => Input::Abort { call, agent },
                _ => Input::Shutdown { call: Some(call) },
            });
            let what = format!("{kind}, {state_of}");
            assert_eq!(w.effects.len(), before + 1, "{what}");
            assert_eq!(
                w.answer(call).unwrap_err().code,
                ErrorCode::Cancelled,
                "{what}"
            );
            assert_eq!(w.view(agent), seen, "{what}");
        }
    }
}

#[test]
fn s10_a_cancelled_foreground_call_stops_its_child_and_is_no_success() {
    // R-TOOL-10, R-DELIV-09: whatever its child still makes of its run
    for end in ["settles", "fails", "dies", "ladder"] {
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
        w.ready(&a);
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        w.input(Input::Cancel { call: a.call });
        assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
        match end {
            "settles" => w.settle(&a, StopReason::Stop),
            "fails" => w.settle(&a, StopReason::Error),
            "ladder" => {
                w.timer(Timer::Ladder(a.instance));
                w.timer(Timer::Ladder(a.instance));
            }
            _ => {}
        }
        w.exit(
            &a,
            (end != "ladder").then_some(0),
            (end == "ladder").then_some(9),
        );
        w.swept(&a);
        sync(&mut w);
        assert_eq!(
            w.answer(a.call).unwrap_err().code,
            ErrorCode::Cancelled,
            "{end}"
        );
        let by = StopCause::Cancelled;
        assert_eq!(w.status(a.agent), Status::Stopped { by }, "{end}");
        assert_eq!(
            w.machine.last_outcome(a.agent),
            Some(Outcome::Stopped { by }),
            "{end}"
        );
        assert!(completions(&w).is_empty(), "{end}");
    }
}

#[test]
fn s10_a_cancelled_call_is_told_nothing_more_whoever_ended_the_run_first() {
    // R-TOOL-10, R-DELIV-09, R-DELIV-06
    for first in ["a person", "the time limit", "a write that failed"] {
        for expected in [false, true] {
            let mut w = with_pi();
            let a = w.spawn_mode("task", true, Some(9), SpawnMode::Foreground);
            w.ready(&a);
            w.accept_next(&a, Disposition::Started);
            if !expected {
                w.fact(&a, Fact::RunStarted);
            }
            let instance = a.instance;
            match first {
                "a person" => drop(w.stop(a.agent)),
                "the time limit" if !expected => drop(w.timer(Timer::Run(instance, 1))),
                _ => drop(w.input(Input::WriteFailed { instance })),
            }
            w.input(Input::Cancel { call: a.call });
            w.exit(&a, Some(0), None);
            w.swept(&a);
            sync(&mut w);
            assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::Cancelled);
            assert!(completions(&w).is_empty(), "{first}, {expected}");
        }
    }
}

/// A foreground call from its asking to its end, one input at a time.
fn lived(w: &mut World, at: usize, a: &Played) {
    match at {
        0 => {
            let instance = a.instance;
            w.input(Input::Launched { instance, pid: 1 });
        }
        1 => w.respond(a, "state", Ok(ResponseData::State(Default::default()))),
        2 => w.accept_next(a, Disposition::Started),
        3 => drop(w.fact(a, Fact::RunStarted)),
        4 => drop(w.fact(
            a,
            Fact::UserMessage {
                text: "task".into(),
            },
        )),
        5 => w.settle(a, StopReason::Stop),
        6 => sync(w),
        _ => w.exit(a, Some(0), None),
    }
}

#[test]
fn s14_a_cancel_at_any_moment_is_seen_once_and_leaves_nobody() {
    // R-TOOL-10: before its call, between any two steps, after its end; once and again
    for at in 0..=9 {
        for again in [false, true] {
            let mut w = with_pi();
            let (call, agent, instance) = (CallId::fresh(), AgentId::fresh(), InstanceId::fresh());
            let a = Played {
                call,
                agent,
                instance,
            };
            if at == 0 {
                w.input(Input::Cancel { call });
            }
            let spec = {
                let spec = w.spawn("another").agent;
                w.view(spec).spec
            };
            let by = w.caller;
            w.input(Input::Spawn {
                call,
                by,
                mode: SpawnMode::Foreground,
                agent,
                instance,
                message: MessageId::fresh(),
                spec,
                prompt: "task".into(),
                env: ChildEnv::default(),
            });
            for step in 0..8 {
                if at == step + 1 {
                    w.input(Input::Cancel { call });
                }
                // What was withdrawn does not get further than its end.
                let ending = w
                    .count(|e| matches!(e, Effect::CloseStdin { instance: i } if *i == instance))
                    > 0;
                if w.machine.knows(agent) && (!ending || step == 7) {
                    lived(&mut w, step, &a);
                }
                if again && at <= step + 1 {
                    w.input(Input::Cancel { call });
                }
            }
            w.swept(&a);
            sync(&mut w);
            assert_eq!(w.answers(call).len(), 1, "at {at}");
            let settled = at > 6;
            match w.answer(call) {
                Ok(Reply::Finished { .. }) => assert!(settled, "at {at}"),
                Err(error) => {
                    assert!(!settled, "at {at}");
                    assert_eq!(error.code, ErrorCode::Cancelled, "at {at}");
                }
                other => panic!("at {at}: {other:?}"),
            }
            assert!(completions(&w).is_empty(), "at {at}");
            if w.machine.knows(agent) {
                assert!(!w.status(agent).is_live(), "at {at}: {:?}", w.status(agent));
            }
        }
    }
}

#[test]
fn s13_waits_that_settle_or_are_cancelled_leave_nothing_behind() {
    // R-TOOL-10: 10 000 of every kind that can be waited for, and cancels of what is over
    let mut w = with_pi();
    let a = w.running();
    let mut rng = Rng(13);
    let mut size = 0;
    for n in 0..10_000 {
        let call = match rng.below(3) {
            0 => w.send_by(Sender::Parent(w.caller), a.agent, "more").0,
            1 => {
                let call = CallId::fresh();
                w.input(Input::Abort {
                    call,
                    agent: a.agent,
                });
                call
            }
            _ => CallId::fresh(),
        };
        w.input(Input::Cancel { call });
        while let Some((id, _)) = w.prompts(&a).pop() {
            w.respond(&a, &id, Ok(ResponseData::Disposition(Disposition::Queued)));
            w.fact(
                &a,
                Fact::UserMessage {
                    text: "more".into(),
                },
            );
            w.effects.clear();
        }
        for id in ["clear", "abort"] {
            w.respond(&a, id, Ok(ResponseData::Other));
        }
        w.effects.clear();
        // After the settlement nothing hears of it.
        w.input(Input::Cancel { call });
        assert!(
            w.effects.is_empty(),
            "a cancel after the end: {:?}",
            w.effects
        );
        if n == 1_000 {
            size = format!("{:?}", w.machine).len();
        }
    }
    let grown = format!("{:?}", w.machine).len();
    assert!(grown <= size + 1_000, "{size} bytes became {grown}");
}

#[test]
fn s16_a_background_agent_hears_nothing_of_a_cancel_of_its_spawn() {
    // R-TOOL-10: after its acceptance, at any time
    let mut w = with_pi();
    let a = w.spawn("task");
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    for step in 0..3 {
        assert!(w.input(Input::Cancel { call: a.call }).is_empty());
        match step {
            0 => drop(w.fact(&a, Fact::RunStarted)),
            1 => w.settle(&a, StopReason::Stop),
            _ => sync(&mut w),
        }
    }
    assert_eq!(w.status(a.agent), Status::Idle);
    assert_eq!(completions(&w).len(), 1);
    assert_eq!(w.answers(a.call).len(), 1);
}

#[test]
fn s17_the_first_cause_of_an_end_stays_and_is_shown() {
    // R-LIFE-02, R-TOOL-18, R-LIFE-05: in every order of causes
    let causes = [
        (StopCause::You, "by the user"),
        (StopCause::Parent, "by its parent"),
        (StopCause::Timeout, "by the time limit"),
        (StopCause::Shutdown, "on quit"),
        (StopCause::HostGone, "because its session ended"),
        (StopCause::Cancelled, "because the call was cancelled"),
    ];
    seeds(300, |seed| {
        let mut rng = Rng(seed);
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, Some(9), SpawnMode::Foreground);
        w.ready(&a);
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        let mut left: Vec<_> = causes.to_vec();
        let mut first = None;
        for _ in 0..1 + rng.below(causes.len()) {
            let (cause, words) = left.remove(rng.below(left.len()));
            match cause {
                StopCause::You => drop(w.stop(a.agent)),
                StopCause::Parent => drop(w.stop_by(Stopper::Parent(w.caller), a.agent)),
                StopCause::Timeout => drop(w.timer(Timer::Run(a.instance, 1))),
                StopCause::Shutdown => drop(w.input(Input::Shutdown { call: None })),
                StopCause::HostGone => leave(&mut w, LeaveReason::Quit),
                _ => drop(w.input(Input::Cancel { call: a.call })),
            }
            first.get_or_insert((cause, words));
        }
        let (by, words) = first.expect("one at least");
        if rng.chance(50) {
            w.fact(&a, Fact::Unfinished(RunEnd::default()));
        }
        w.exit(&a, Some(1), None);
        w.swept(&a);
        assert_eq!(w.status(a.agent), Status::Stopped { by });
        assert_eq!(
            w.machine.last_outcome(a.agent),
            Some(Outcome::Stopped { by })
        );
        assert_eq!(w.run_ends(a.agent), 1);
        if let Ok(Reply::Finished { result, .. }) = w.answer(a.call) {
            // A model reads it, to which "you" would be itself.
            let words = words.replace("by you", "by the user");
            assert!(result.starts_with(&format!("stopped {words}")), "{result}");
        }
    });
}

#[test]
fn an_agent_stop_of_a_run_that_somebody_else_is_ending_sends_no_completion() {
    // R-TOOL-03, R-DELIV-06
    for by_parent in [false, true] {
        let mut w = with_pi();
        let a = w.running();
        w.stop(a.agent);
        if by_parent {
            w.stop_by(Stopper::Parent(w.caller), a.agent);
        }
        w.exit(&a, Some(0), None);
        w.swept(&a);
        sync(&mut w);
        assert_eq!(completions(&w).len(), usize::from(!by_parent));
        let by = StopCause::You;
        assert_eq!(w.status(a.agent), Status::Stopped { by });
    }
}
