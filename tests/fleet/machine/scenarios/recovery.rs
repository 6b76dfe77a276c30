//! Ends that nobody asked for: a core that is lost, a child that goes silent or does not go, a session
//! that is reloaded.

use pi_agents::fleet::agent::{AgentSpec, Status, StopCause, ToolChoice};
use pi_agents::fleet::answer::Reply;
use pi_agents::fleet::completion::CompletionStatus;
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, HostId};
use pi_agents::fleet::interpret::{Disposition, Fact, RunEnd};
use pi_agents::fleet::machine::{Effect, Input, LadderSignal, MachineConfig, Restored, Timer};
use pi_agents::fleet::outbox::{Activity, JournalRecord, OfferMode};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;

use super::super::parent::*;
use super::super::world::{Played, World};

/// What the journal of the present host holds: the last record of each id.
fn journal(w: &World) -> Vec<JournalRecord> {
    let mut last: Vec<JournalRecord> = Vec::new();
    for effect in &w.effects {
        if let Effect::Journal { host, record, .. } = effect
            && *host == w.caller.host
        {
            last.retain(|r| r.id() != record.id());
            last.push(record.clone());
        }
    }
    last
}

/// The next core: it knows the agents by their records and the host by its journal.
fn next_core(w: &World, kind: HostKind) -> World {
    let mut next = World::new();
    for id in w.machine.ids() {
        let view = w.view(id);
        next.machine.restore(Restored {
            id,
            host: view.host,
            kind,
            name: view.name,
            spec: view.spec,
            session_id: id.to_string(),
            session_path: view.session_path,
            status: view.status,
            since_ms: view.since_ms,
            run_took_ms: view.run_took_ms,
            runs_ended: view.runs_ended,
            last: w.machine.last_outcome(id),
        });
    }
    next.caller = Caller {
        generation: 2,
        ..w.caller
    };
    next
}

fn join_with(w: &mut World, journal: Vec<JournalRecord>) {
    let call = CallId::fresh();
    let Caller { host, generation } = w.caller;
    w.input(Input::HostJoined {
        call,
        host,
        kind: HostKind::Pi,
        generation,
        known: Vec::new(),
        undecided: Vec::new(),
        durable: true,
        journal,
    });
    assert_eq!(w.answer(call), Ok(Reply::Done));
}

#[test]
fn s60_a_lost_core_owes_each_result_once_and_revives_nothing() {
    // R-DELIV-05, R-DELIV-17, R-ID-01: accepted, running, settled and not told, stopped, in the foreground
    let mut w = with_pi_and(MachineConfig {
        launch_slots: 9,
        ..MachineConfig::default()
    });
    let accepted = w.spawn("task");
    w.ready(&accepted);
    w.accept_next(&accepted, Disposition::Started);
    let running = w.running();
    let settled = w.idle();
    let idle = w.running();
    w.stop_by(Stopper::Parent(w.caller), idle.agent);
    w.settle(&idle, StopReason::Stop);
    let foreground = w.spawn_mode("task", true, None, SpawnMode::Foreground);
    w.ready(&foreground);
    w.accept_next(&foreground, Disposition::Started);
    w.fact(&foreground, Fact::RunStarted);
    let starting = w.spawn("never accepted");

    let mut next = next_core(&w, HostKind::Pi);
    assert_eq!(next.effects, [], "nothing is revived unasked");
    join_with(&mut next, journal(&w));
    state(&mut next, Activity::Busy);
    sync(&mut next);
    let told = completions(&next);
    let of = |p: &Played| {
        let of: Vec<_> = told
            .iter()
            .filter(|c| c.id.instance == p.instance)
            .collect();
        assert!(of.len() <= 1, "{of:?}");
        of.first().map(|c| (c.status, c.result.clone()))
    };
    for lost in [&accepted, &running] {
        let (status, result) = of(lost).expect("told");
        assert_eq!(status, CompletionStatus::Failed);
        assert!(result.starts_with("supervisor lost"), "{result}");
    }
    assert_eq!(
        of(&settled),
        Some((CompletionStatus::Completed, "the answer".to_owned()))
    );
    for p in [&idle, &foreground, &starting] {
        assert_eq!(of(p), None, "nothing is owed, or its call says so");
    }
    let lost = |p: &Played| matches!(next.status(p.agent), Status::Failed { reason } if reason == "supervisor lost");
    assert!(lost(&accepted) && lost(&running) && lost(&foreground) && lost(&starting));
    // No name is given out again, and a message brings an agent back.
    let fresh = next.spawn("another");
    let names: Vec<String> = next.machine.ids().map(|id| next.view(id).name).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    assert!(next.launches(fresh.agent).contains(&fresh.instance));
    let (_, instance) = next.send_by(Sender::Parent(next.caller), running.agent, "go on");
    assert_eq!(next.launches(running.agent), [instance]);
}

#[test]
fn s60_a_second_lost_core_changes_nothing() {
    // R-DELIV-05: its journal is what the first left and what the second added
    let mut w = with_pi();
    w.running();
    let mut second = next_core(&w, HostKind::Pi);
    let mut records = journal(&w);
    join_with(&mut second, records.clone());
    records.extend(journal(&second));
    let mut third = next_core(&second, HostKind::Pi);
    third.caller.generation = 3;
    join_with(&mut third, records);
    state(&mut third, Activity::Busy);
    sync(&mut third);
    assert_eq!(completions(&third).len(), 1);
}

#[test]
fn what_ends_with_its_session_comes_back_silently() {
    // R-DELIV-17, R-DELIV-06: whatever the child made of its end, also over a lost core
    for reason in [
        LeaveReason::Reload,
        LeaveReason::New,
        LeaveReason::Resume,
        LeaveReason::Fork,
        LeaveReason::Quit,
        LeaveReason::Lost,
    ] {
        for end in ["in order", "crashes", "stopped before", "core lost"] {
            let mut w = with_slow_disk();
            let a = w.running();
            let before = w.idle();
            if end == "stopped before" {
                w.stop(a.agent);
            }
            leave(&mut w, reason);
            if end != "core lost" {
                for p in [&a, &before] {
                    w.exit(p, Some(if end == "crashes" { 1 } else { 0 }), None);
                    w.swept(p);
                }
                let by = match end {
                    "stopped before" => StopCause::You,
                    _ => StopCause::HostGone,
                };
                assert_eq!(
                    w.status(a.agent),
                    Status::Stopped { by },
                    "marked in the roster"
                );
            }
            let records = journal(&w);
            let mut w = if end == "core lost" {
                next_core(&w, HostKind::Pi)
            } else {
                w.caller.generation = 2;
                w
            };
            join_with(&mut w, records);
            state(&mut w, Activity::Idle);
            sync(&mut w);
            let host = w.caller.host;
            let quiet: Vec<_> = offered(&w);
            assert_eq!(quiet.len(), 1, "{reason:?}, {end}: {quiet:?}");
            assert_eq!(quiet[0].0, OfferMode::Silent, "{reason:?}, {end}");
            assert_eq!(quiet[0].1.id.instance, a.instance);
            // What had settled before is owed with a wake, as ever.
            w.timer(Timer::Wake(host));
            let all = offered(&w);
            assert_eq!(all.len(), 2, "{reason:?}, {end}");
            assert_eq!(all[1].0, OfferMode::Wake);
            assert_eq!(all[1].1.id.instance, before.instance);
        }
    }
}

#[test]
fn what_ended_with_its_session_rides_with_a_run_that_is_on() {
    // R-DELIV-17: with its next accepted run
    let mut w = with_pi();
    let a = w.running();
    leave(&mut w, LeaveReason::Reload);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    w.caller.generation = 2;
    join_with(&mut w, Vec::new());
    state(&mut w, Activity::Busy);
    sync(&mut w);
    let modes: Vec<_> = offered(&w).into_iter().map(|(mode, _)| mode).collect();
    assert_eq!(modes, [OfferMode::Boundary]);
}

#[test]
fn a_host_that_is_back_before_its_agents_are_gone_hears_of_both() {
    // R-PI-03, R-LIFE-12
    let mut w = with_pi();
    let old = w.running();
    leave(&mut w, LeaveReason::Lost);
    w.caller.generation = 2;
    join_with(&mut w, Vec::new());
    state(&mut w, Activity::Busy);
    let new = w.running();
    let closed = |w: &World| {
        let mut generations = Vec::new();
        for e in &w.effects {
            if let Effect::HostClosed { generation, .. } = e {
                generations.push(*generation);
            }
        }
        generations
    };
    assert!(closed(&w).is_empty());
    w.exit(&old, Some(0), None);
    w.swept(&old);
    assert_eq!(closed(&w), [1], "its new agents do not hold it up");
    leave(&mut w, LeaveReason::Quit);
    w.exit(&new, Some(0), None);
    w.swept(&new);
    assert_eq!(closed(&w), [1, 2]);
}

/// Lets the ladder of a process run out, as often as said, and gives what it was sent.
fn climb(w: &mut World, p: &Played, rungs: usize) -> Vec<LadderSignal> {
    let before = w.effects.len();
    for _ in 0..rungs {
        w.timer(Timer::Ladder(p.instance));
    }
    w.effects[before..]
        .iter()
        .filter_map(|e| match e {
            Effect::Signal { signal, .. } => Some(*signal),
            _ => None,
        })
        .collect()
}

#[test]
fn s61_a_child_that_goes_silent_is_terminal_within_the_ladder_and_can_be_resumed() {
    // R-LIFE-09, R-LIFE-10, R-DELIV-06: its output ends, it cannot be written to, it is killed
    for silence in ["output ended", "write failed", "killed"] {
        for mode in [SpawnMode::Background, SpawnMode::Foreground] {
            let mut w = with_pi();
            let a = w.spawn_mode("task", true, None, mode.clone());
            w.ready(&a);
            w.accept_next(&a, Disposition::Started);
            w.fact(&a, Fact::RunStarted);
            let instance = a.instance;
            match silence {
                "output ended" => drop(w.input(Input::OutputEnded { instance })),
                "write failed" => drop(w.input(Input::WriteFailed { instance })),
                _ => {}
            }
            if silence != "killed" {
                assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
                let signals = climb(&mut w, &a, 2);
                assert_eq!(signals, [LadderSignal::Term, LadderSignal::Kill]);
            }
            w.fact(
                &a,
                Fact::Unfinished(RunEnd {
                    text: "half".into(),
                    ..RunEnd::default()
                }),
            );
            w.exit(&a, None, Some(9));
            w.swept(&a);
            sync(&mut w);
            assert!(
                matches!(w.status(a.agent), Status::Failed { .. }),
                "{silence}"
            );
            assert_eq!(w.run_ends(a.agent), 1);
            let told = completions(&w);
            match mode {
                SpawnMode::Background => {
                    assert_eq!(told.len(), 1, "{silence}");
                    assert_eq!(told[0].status, CompletionStatus::Failed);
                    assert!(told[0].result.ends_with("half"), "{}", told[0].result);
                    assert!(!told[0].idle);
                }
                SpawnMode::Foreground => {
                    assert!(told.is_empty(), "{silence}");
                    let Ok(Reply::Finished { outcome, .. }) = w.answer(a.call) else {
                        panic!("finished");
                    };
                    assert!(matches!(outcome, Outcome::Failed { .. }));
                }
            }
            let (call, instance) = w.send_by(Sender::Parent(w.caller), a.agent, "go on");
            let b = a.in_process(instance);
            w.ready(&b);
            w.accept_next(&b, Disposition::Started);
            assert!(matches!(
                w.answer(call),
                Ok(Reply::Sent { revived: true, .. })
            ));
            let texts: Vec<_> = w.prompts(&b).into_iter().map(|(_, t)| t).collect();
            assert_eq!(texts, ["go on"], "nothing old is replayed");
        }
    }
}

#[test]
fn s62_a_child_that_answered_and_does_not_go_is_ended_and_its_result_is_out_before() {
    // R-LIFE-16, R-LIFE-07
    let mut w = with_pi();
    let a = w.spawn_with("task", false, None);
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.settle(&a, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 1, "not held up by its process");
    assert_eq!(w.status(a.agent), Status::Completed);
    let signals = climb(&mut w, &a, 4);
    let (term, kill) = (LadderSignal::Term, LadderSignal::Kill);
    assert_eq!(signals, [term, kill, kill, kill], "never given up");
    w.exit(&a, None, Some(9));
    w.swept(&a);
    sync(&mut w);
    assert_eq!(
        w.status(a.agent),
        Status::Completed,
        "how it went away is no matter"
    );
    assert_eq!(completions(&w).len(), 1);
    assert_eq!(w.run_ends(a.agent), 1);
}

#[test]
fn a_foreground_call_whose_host_leaves_is_answered_once_and_its_result_not_lost() {
    // R-TOOL-18, R-DELIV-17: at each state, and with a late cancel of the call
    for at in [
        "queued",
        "launching",
        "ready",
        "accepted",
        "running",
        "settled",
    ] {
        for cancelled in [false, true] {
            let mut w = with_pi_and(MachineConfig {
                launch_slots: 1,
                ..MachineConfig::default()
            });
            let other = (at == "queued").then(|| w.spawn("another"));
            let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
            if matches!(at, "ready" | "accepted" | "running" | "settled") {
                w.ready(&a);
            }
            if matches!(at, "accepted" | "running" | "settled") {
                w.accept_next(&a, Disposition::Started);
            }
            if matches!(at, "running" | "settled") {
                w.fact(&a, Fact::RunStarted);
            }
            if at == "settled" {
                w.settle(&a, StopReason::Stop);
            }
            leave(&mut w, LeaveReason::New);
            if cancelled {
                w.input(Input::Cancel { call: a.call });
            }
            for p in [Some(&a), other.as_ref()].into_iter().flatten() {
                w.input(Input::Launched {
                    instance: p.instance,
                    pid: 1,
                });
                w.exit(p, Some(0), None);
                w.swept(p);
            }
            assert_eq!(w.answers(a.call).len(), 1, "{at}, {cancelled}");
            assert_eq!(
                w.count(|e| matches!(e, Effect::HostClosed { .. })),
                1,
                "{at}"
            );
            w.caller.generation = 2;
            join_with(&mut w, Vec::new());
            state(&mut w, Activity::Idle);
            sync(&mut w);
            let mine = completions(&w)
                .iter()
                .filter(|c| c.id.instance == a.instance)
                .count();
            // What was running ended with its session, and nobody was there for the call's answer.
            let owed = matches!(at, "accepted" | "running") && !cancelled;
            assert_eq!(mine, usize::from(owed), "{at}, {cancelled}");
        }
    }
}

#[test]
fn a_spawn_whose_host_left_between_its_check_and_its_step_leaves_no_trace() {
    // R-LIFE-12, R-TOOL-07: also when the host is back already, at another generation
    for back in [false, true] {
        let mut w = with_pi();
        let old = w.caller;
        leave(&mut w, LeaveReason::Reload);
        if back {
            w.caller.generation = 2;
            join_with(&mut w, Vec::new());
        }
        let now = w.caller;
        w.caller = old;
        let before = w.effects.len();
        let late = w.spawn("too late");
        assert_eq!(w.effects.len(), before + 1, "its answer and nothing else");
        assert!(w.answer(late.call).is_err());
        assert!(!w.machine.knows(late.agent));
        w.caller = now;
        if back {
            let first = w.spawn("in time");
            assert_eq!(w.view(first.agent).name, "max", "no name was used up");
        }
    }
}

fn restored(host: HostId, kind: HostKind, name: &str, status: Status) -> Restored {
    Restored {
        id: AgentId::fresh(),
        host,
        kind,
        name: name.to_owned(),
        spec: AgentSpec {
            label: "a task".into(),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: "/".into(),
            persistent: true,
            timeout_ms: None,
            call: None,
        },
        session_id: "s".into(),
        session_path: Some("/sessions/one.jsonl".into()),
        status,
        since_ms: 0,
        run_took_ms: None,
        runs_ended: 0,
        last: None,
    }
}

#[test]
fn restored_agents_keep_their_place_in_the_tree_whatever_the_order_of_records() {
    // R-ID-01, R-ID-02, R-ID-04
    for parent_first in [true, false] {
        // Nobody has to wait for its turn.
        let mut w = World::with(MachineConfig {
            launch_slots: 8,
            ..MachineConfig::default()
        });
        let (pi, below) = (HostId::fresh(), HostId::fresh());
        let max = restored(pi, HostKind::Pi, "max", Status::Idle);
        let kind = HostKind::Nested { agent: max.id };
        let sam = restored(below, kind, "max", Status::Running);
        let (max_id, sam_id) = (max.id, sam.id);
        let mut records = vec![max, sam];
        if !parent_first {
            records.reverse();
        }
        for record in records {
            w.machine.restore(record);
        }
        assert_eq!(w.view(sam_id).key, "max/max");
        assert_eq!(w.view(sam_id).depth, 2);
        assert_eq!(w.view(sam_id).parent, Some(max_id));
        assert!(matches!(w.status(sam_id), Status::Failed { .. }));
        // A host of an earlier core is not there: nothing can be asked in its name or of its agents.
        let (call, _) = w.send(max_id, "hello");
        assert!(w.answer(call).unwrap_err().hint.is_some());
        w.caller = Caller {
            host: pi,
            generation: 7,
        };
        join_with(&mut w, Vec::new());
        let fresh = w.spawn("another");
        assert_eq!(w.view(fresh.agent).name, "zoe", "max is taken");
        // The agent below is its parent's: dead with it until the parent is back.
        let (call, _) = w.send_by(Sender::Parent(w.caller), sam_id, "hello");
        assert!(w.answer(call).is_err());
        let nested = Caller {
            host: below,
            generation: 1,
        };
        let call = join(&mut w, nested, kind);
        assert!(w.answer(call).is_err(), "no process, no host");
        let (_, instance) = w.send_by(Sender::Parent(w.caller), max_id, "back");
        w.input(Input::Launched { instance, pid: 9 });
        let call = join(&mut w, nested, kind);
        assert_eq!(w.answer(call), Ok(Reply::Done));
        let (call, instance) = w.send_by(Sender::Parent(nested), sam_id, "go on");
        assert!(w.answers(call).is_empty());
        assert_eq!(w.launches(sam_id), [instance]);
    }
}

#[test]
fn a_dead_process_is_no_host() {
    // R-ID-04, R-ID-08: between its death and the end of what it left behind
    let mut w = with_pi_and(MachineConfig {
        max_depth: 3,
        ..MachineConfig::default()
    });
    let a = w.running();
    w.exit(&a, Some(1), None);
    let nested = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    let call = join(&mut w, nested, HostKind::Nested { agent: a.agent });
    assert!(w.answer(call).is_err());
    w.caller = nested;
    let child = w.spawn_mode("part", false, None, SpawnMode::Foreground);
    assert!(w.answer(child.call).is_err());
    assert!(!w.machine.knows(child.agent));
}
