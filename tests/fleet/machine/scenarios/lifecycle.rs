//! Lives of agents and of the core.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{Caller, HostKind, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{CallId, HostId};
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData};
use pi_agents::fleet::machine::table::{State, TRANSITIONS, allowed};
use pi_agents::fleet::machine::{Effect, Input, MachineConfig, Timer};
use pi_agents::fleet::outbox::JournalRecord;
use pi_agents::pi::message::StopReason;

use super::super::parent::*;
use super::super::world::World;
use super::play::{Play, seeds};

/// Runs that are owed: opened, and not over.
fn opened(w: &World) -> usize {
    w.count(|e| {
        matches!(
            e,
            Effect::Journal {
                record: JournalRecord::Opened { .. },
                ..
            }
        )
    })
}

#[test]
fn s43_when_a_spawn_is_answered_its_run_is_owed_or_will_never_be() {
    // R-DELIV-01, R-DELIV-09, R-DELIV-17: started, queued behind others, refused, aborted at once
    for outcome in [
        "started",
        "queued",
        "launch failed",
        "handled",
        "refused",
        "aborted",
        "stopped",
    ] {
        let mut w = with_pi_and(MachineConfig {
            launch_slots: 1,
            ..MachineConfig::default()
        });
        if outcome == "queued" {
            w.running();
        }
        let before = opened(&w);
        let a = w.spawn("task");
        let instance = a.instance;
        assert!(
            w.answers(a.call).is_empty(),
            "not before it is known: {outcome}"
        );
        match outcome {
            "launch failed" => {
                w.input(Input::LaunchFailed {
                    instance,
                    reason: "no such program".into(),
                    hint: None,
                });
            }
            "aborted" => drop(w.input(Input::Cancel { call: a.call })),
            "stopped" => drop(w.stop_by(Stopper::Parent(w.caller), a.agent)),
            _ => {
                w.ready(&a);
                let disposition = match outcome {
                    "handled" => Disposition::Handled,
                    "refused" => Disposition::Missing,
                    _ => Disposition::Started,
                };
                w.accept_next(&a, disposition);
            }
        }
        if outcome == "handled" {
            // Told when nothing of it is left, and forgotten (R-TOOL-07).
            assert!(w.answers(a.call).is_empty());
            w.exit(&a, Some(0), None);
            w.swept(&a);
            assert!(!w.machine.knows(a.agent));
        }
        let owed = matches!(outcome, "started" | "queued");
        assert_eq!(w.answer(a.call).is_ok(), owed, "{outcome}");
        assert_eq!(
            opened(&w) - before,
            usize::from(owed),
            "{outcome}: in the same step"
        );
        if owed {
            w.fact(&a, Fact::RunStarted);
            w.settle(&a, StopReason::Stop);
            assert_eq!(opened(&w) - before, 1, "it is the run that began");
        } else {
            w.input(Input::Launched { instance, pid: 1 });
        }
        w.exit(&a, Some(0), None);
        w.swept(&a);
        sync(&mut w);
        let told = completions(&w);
        let mine = told.iter().filter(|c| c.id.instance == instance).count();
        assert_eq!(mine, usize::from(owed), "{outcome}");
    }
}

#[test]
fn s46_only_what_the_table_has_is_allowed_and_an_end_is_left_by_a_revival_only() {
    // R-LIFE-02
    for from in State::ALL {
        for to in State::ALL {
            let listed = TRANSITIONS.iter().any(|(f, t, _)| (*f, *t) == (from, to));
            assert_eq!(allowed(from, to), listed);
            let end = matches!(from, State::Completed | State::Failed | State::Stopped);
            if end {
                let revival = matches!(to, State::Queued | State::Starting);
                assert_eq!(listed, revival, "{from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn s46_a_late_completion_does_not_overwrite_a_stop() {
    // R-LIFE-02, R-LIFE-05
    let mut w = with_pi();
    let a = w.running();
    w.stop_by(Stopper::Parent(w.caller), a.agent);
    w.settle(&a, StopReason::Stop);
    w.fact(&a, Fact::RunStarted);
    w.exit(&a, Some(0), None);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    w.swept(&a);
    sync(&mut w);
    let by = StopCause::Parent;
    assert_eq!(w.status(a.agent), Status::Stopped { by });
    assert!(completions(&w).is_empty());
}

#[test]
fn s48_a_stop_reaches_a_revived_agent_too() {
    // R-TOOL-03, R-LIFE-12: in each state of the revival
    for at in ["waiting", "launching", "ready", "accepted", "running"] {
        let mut w = with_pi();
        let a = w.idle();
        w.stop(a.agent);
        let sent = (at == "waiting").then(|| w.send_by(Sender::Parent(w.caller), a.agent, "back"));
        if sent.is_none() {
            w.exit(&a, Some(0), None);
            w.swept(&a);
        }
        let (call, instance) =
            sent.unwrap_or_else(|| w.send_by(Sender::Parent(w.caller), a.agent, "back"));
        let b = a.in_process(instance);
        if matches!(at, "ready" | "accepted" | "running") {
            w.ready(&b);
        }
        if matches!(at, "accepted" | "running") {
            w.accept_next(&b, Disposition::Started);
        }
        if at == "running" {
            w.fact(&b, Fact::RunStarted);
        }
        let stop = w.stop_by(Stopper::Parent(w.caller), a.agent);
        if at == "waiting" {
            w.exit(&a, Some(0), None);
            w.swept(&a);
            assert!(
                !w.launches(a.agent).contains(&instance),
                "not launched any more"
            );
        } else {
            w.input(Input::Launched { instance, pid: 3 });
            w.exit(&b, Some(0), None);
            w.swept(&b);
        }
        assert!(matches!(w.answer(stop), Ok(Reply::Stopped { .. })), "{at}");
        assert_eq!(w.answers(call).len(), 1, "{at}");
        assert!(matches!(w.status(a.agent), Status::Stopped { .. }), "{at}");
        sync(&mut w);
        assert_eq!(completions(&w).len(), 1, "{at}: only the run of before");
    }
}

#[test]
fn s49_after_any_order_of_events_nothing_is_armed_waited_for_or_owed() {
    // R-LIFE-02, R-LIFE-10, R-LIFE-12, R-PI-07, R-DELIV-01, R-DELIV-05, R-DELIV-09, R-DELIV-17, R-TOOL-03, R-TOOL-10
    let many = std::env::var("PI_AGENTS_TEST_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    seeds(many.unwrap_or(400), |seed| {
        let mut play = Play::new(seed);
        let steps = 20 + play.rng.below(400);
        for _ in 0..steps {
            play.step();
        }
        play.comes_to_rest();
    });
}

#[test]
fn s59_a_shutdown_ends_what_there_is_answers_who_waits_and_a_second_is_no_news() {
    // R-LIFE-08, R-TOOL-18: with a session joined and an agent below an agent
    let mut w = with_pi_and(MachineConfig {
        max_depth: 2,
        launch_slots: 2,
        ..MachineConfig::default()
    });
    let top = w.caller;
    let running = w.running();
    let idle = w.idle();
    let nested = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    let kind = HostKind::Nested {
        agent: running.agent,
    };
    join(&mut w, nested, kind);
    w.caller = nested;
    let below = w.spawn_mode("part", false, None, SpawnMode::Foreground);
    w.ready(&below);
    w.accept_next(&below, Disposition::Started);
    w.fact(&below, Fact::RunStarted);
    w.caller = top;
    let starting = w.spawn("starting");
    let launching = w.spawn("launching");
    w.input(Input::Launched {
        instance: starting.instance,
        pid: 4,
    });
    let queued = w.spawn("queued");
    w.spawn("queued too");
    let ask = |w: &mut World| {
        let call = CallId::fresh();
        w.input(Input::Shutdown { call: Some(call) });
        call
    };
    let first = ask(&mut w);
    let again = ask(&mut w);
    assert_eq!(w.answer(queued.call).unwrap_err().code, ErrorCode::Gone);
    let late = w.spawn("too late");
    assert_eq!(w.answer(late.call).unwrap_err().code, ErrorCode::Conflict);
    let (late, _) = w.send_by(Sender::Parent(top), idle.agent, "too late");
    assert_eq!(w.answer(late).unwrap_err().code, ErrorCode::Conflict);
    let late = Caller {
        generation: 2,
        ..top
    };
    let late = join(&mut w, late, HostKind::Pi);
    assert_eq!(w.answer(late).unwrap_err().code, ErrorCode::Conflict);
    w.input(Input::Launched {
        instance: launching.instance,
        pid: 5,
    });
    let all = [running, idle, below, starting, launching];
    for p in &all {
        assert!(w.answers(first).is_empty(), "not before all are gone");
        w.exit(p, Some(0), None);
        w.swept(p);
    }
    let by = StopCause::Shutdown;
    for p in [running, idle, starting, launching, queued] {
        assert_eq!(w.status(p.agent), Status::Stopped { by });
    }
    assert!(!w.status(below.agent).is_live());
    assert_eq!(w.answer(first), Ok(Reply::Done));
    assert_eq!(w.answer(again), Ok(Reply::Done));
    for p in &all {
        assert_eq!(w.answers(p.call).len(), 1);
    }
    let last = ask(&mut w);
    assert_eq!(w.answer(last), Ok(Reply::Done), "also after the end");
    assert_eq!(w.count(|e| *e == Effect::Exit), 1);
    // What the session is owed is written before the end.
    let settled = |e: &Effect| {
        matches!(e, Effect::Journal { record: JournalRecord::Settled { completion, .. }, .. }
            if completion.id.instance == running.instance)
    };
    let written = w.effects.iter().position(settled);
    let exit = w.effects.iter().position(|e| *e == Effect::Exit);
    assert!(written.is_some() && written < exit);
}

#[test]
fn a_run_that_begins_by_itself_has_its_own_id_deadline_and_owner() {
    // R-LIFE-14, R-DELIV-08
    let mut w = with_pi();
    let a = w.spawn_with("task", true, Some(9));
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    assert_eq!(w.status(a.agent), Status::Idle);
    w.fact(&a, Fact::RunStarted);
    assert_eq!(
        w.status(a.agent),
        Status::Running,
        "before its first activity"
    );
    let armed =
        |e: &Effect| matches!(e, Effect::Arm { timer, .. } if *timer == Timer::Run(a.instance, 2));
    assert_eq!(w.count(armed), 1);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    let runs: Vec<u64> = completions(&w).iter().map(|c| c.id.run).collect();
    assert_eq!(runs, [1, 2]);
}

#[test]
fn a_run_that_a_child_begins_before_its_task_is_no_answer_of_the_call() {
    // R-DELIV-09, R-TOOL-18, R-LIFE-14: an extension starts one as soon as the session is there
    for end in ["goes on", "handled", "dies"] {
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
        w.ready(&a);
        w.fact(&a, Fact::RunStarted);
        if end == "dies" {
            w.exit(&a, Some(1), None);
            w.swept(&a);
            sync(&mut w);
            assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
            assert!(completions(&w).is_empty(), "its error says it");
            continue;
        }
        w.settle(&a, StopReason::Stop);
        sync(&mut w);
        assert_eq!(completions(&w).len(), 1, "a result like any other");
        if end == "handled" {
            w.accept_next(&a, Disposition::Handled);
            w.exit(&a, Some(0), None);
            w.swept(&a);
            sync(&mut w);
            assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
        } else {
            w.accept_next(&a, Disposition::Started);
            run(&mut w, &a);
            assert!(matches!(w.answer(a.call), Ok(Reply::Finished { .. })));
        }
        assert_eq!(completions(&w).len(), 1);
        // No claim is left that would hold a later result back.
        if end == "goes on" {
            run(&mut w, &a);
            assert_eq!(completions(&w).len(), 2);
        }
    }
}

#[test]
fn a_call_waits_for_no_run_although_its_task_was_seen_before_it_was_accepted() {
    // R-DELIV-09, R-TOOL-18: a text is no run, whoever names it
    for end in ["runs", "says it is idle", "dies"] {
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
        w.ready(&a);
        w.fact(
            &a,
            Fact::UserMessage {
                text: "task".into(),
            },
        );
        w.accept_next(&a, Disposition::Started);
        assert_eq!(w.status(a.agent), Status::Running, "{end}");
        assert!(w.answers(a.call).is_empty(), "{end}");
        match end {
            "runs" => run(&mut w, &a),
            "dies" => w.exit(&a, Some(1), None),
            _ => {
                w.timer(Timer::RunBegins(a.instance));
                let idle = ResponseData::State(ChildState::default());
                w.respond(&a, "state", Ok(idle));
            }
        }
        assert!(
            matches!(w.answer(a.call), Ok(Reply::Finished { .. })),
            "{end}"
        );
        sync(&mut w);
        assert!(completions(&w).is_empty(), "{end}: the call has it");
    }
}

#[test]
fn what_an_idle_agent_begins_while_it_is_being_stopped_is_told_to_nobody() {
    // R-DELIV-06: an idle child stops silently
    let mut w = with_pi();
    let a = told(&mut w);
    w.stop(a.agent);
    w.fact(&a, Fact::RunStarted);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    sync(&mut w);
    assert!(completions(&w).is_empty());
}
