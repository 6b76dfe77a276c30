//! Whole kinds of the cases that orderings of inputs can show: the same blow at every point of a life.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::HostKind;
use pi_agents::fleet::ids::{AgentId, CallId};
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::{
    ChildCommand, Effect, Input, LadderSignal, MachineConfig, Restored, Timer,
};
use pi_agents::fleet::roster::RetryView;
use pi_agents::fleet::transcript::{Level, Outcome};
use pi_agents::pi::message::StopReason;

use super::world::{Played, World};

/// Where a process is when the blow comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    /// Waits for its turn to be launched.
    Queued,
    /// Asked for, not there yet.
    Launching,
    /// There, has not answered.
    Handshake,
    /// The list of models is awaited.
    Models,
    /// Its prompt is written and not answered.
    Prompted,
    /// Its prompt was accepted, no run has begun.
    Accepted,
    Running,
    /// Pi waits before another attempt.
    Retrying,
    Compacting,
    /// An abort is on its way.
    Aborting,
}

const STARTING: [Point; 5] = [
    Point::Queued,
    Point::Launching,
    Point::Handshake,
    Point::Models,
    Point::Prompted,
];

const LIVE: [Point; 5] = [
    Point::Accepted,
    Point::Running,
    Point::Retrying,
    Point::Compacting,
    Point::Aborting,
];

/// A machine of which another agent holds the only slot, if the point is before the launch.
fn world(point: Point) -> (World, Option<Played>) {
    let mut w = World::with(MachineConfig {
        launch_slots: 1,
        ..MachineConfig::default()
    });
    let holds = (point == Point::Queued).then(|| w.spawn("holds the slot"));
    if point == Point::Models {
        w.model = Some("fake/one".to_owned());
    }
    (w, holds)
}

/// Brings a process that was asked for to that point.
fn lead(w: &mut World, p: &Played, point: Point) {
    if matches!(point, Point::Queued | Point::Launching) {
        return;
    }
    if point == Point::Handshake {
        w.input(Input::Launched {
            instance: p.instance,
            pid: 4711,
        });
        return;
    }
    w.ready(p);
    if matches!(point, Point::Models | Point::Prompted) {
        return;
    }
    w.accept_next(p, Disposition::Started);
    if point == Point::Accepted {
        return;
    }
    w.fact(p, Fact::RunStarted);
    match point {
        Point::Compacting => drop(w.fact(p, Fact::CompactionStarted)),
        Point::Aborting => drop(w.input(Input::Abort {
            call: CallId::fresh(),
            agent: p.agent,
        })),
        Point::Retrying => drop(w.fact(
            p,
            Fact::Retrying(RetryView {
                attempt: 1,
                max: 3,
                delay_ms: 2000,
                since_ms: 1,
                error: "529 overloaded".to_owned(),
            }),
        )),
        _ => {}
    }
}

/// A first start at that point.
fn starting(point: Point) -> (World, Played, Option<Played>) {
    let (mut w, holds) = world(point);
    let p = w.spawn("task");
    lead(&mut w, &p, point);
    (w, p, holds)
}

/// A revival at that point, with the call of the message that asked for it.
fn reviving(point: Point) -> (World, Played, CallId, Option<Played>) {
    let (mut w, _) = world(Point::Launching);
    if point == Point::Models {
        w.model = Some("fake/one".to_owned());
    }
    let p = w.spawn("task");
    w.ready(&p);
    if point == Point::Models {
        w.respond(&p, "models", Err("cannot list".to_owned()));
    }
    w.accept_next(&p, Disposition::Started);
    w.fact(&p, Fact::RunStarted);
    w.settle(&p, StopReason::Stop);
    w.stop(p.agent);
    w.exit(&p, Some(0), None);
    w.swept(&p);
    w.model = None;
    let holds = (point == Point::Queued).then(|| w.spawn("holds the slot"));
    let (call, instance) = w.send(p.agent, "come back");
    let p = p.in_process(instance);
    lead(&mut w, &p, point);
    (w, p, call, holds)
}

/// Lets the ladder run to its end against a process that does nothing about it; gives the signals.
fn endure(w: &mut World, p: &Played) -> Vec<LadderSignal> {
    w.input(Input::Launched {
        instance: p.instance,
        pid: 4711,
    });
    let before = w.effects.len();
    for _ in 0..3 {
        w.timer(Timer::Ladder(p.instance));
    }
    let signals = w.effects[before..].iter().filter_map(|e| match e {
        Effect::Signal { signal, .. } => Some(*signal),
        _ => None,
    });
    let signals = signals.collect();
    w.exit(p, None, Some(9));
    w.swept(p);
    signals
}

fn outcomes(w: &World, agent: AgentId) -> Vec<Outcome> {
    let ends = w.effects.iter().filter_map(|e| match e {
        Effect::RunEnded {
            agent: a, outcome, ..
        } if *a == agent => Some(outcome.clone()),
        _ => None,
    });
    ends.collect()
}

fn notices(w: &World, wanted: Level) -> Vec<String> {
    let all = w.effects.iter().filter_map(|e| match e {
        Effect::Notice { level, text, .. } if *level == wanted => Some(text.clone()),
        _ => None,
    });
    all.collect()
}

fn you() -> Status {
    Status::Stopped { by: StopCause::You }
}

// B027, R-LIFE-12, R-TOOL-17
#[test]
fn a_stop_at_any_point_of_the_start_ends_the_spawn_once() {
    for point in STARTING {
        let (mut w, p, _) = starting(point);
        let launched = w.launches(p.agent).len();
        let stop = w.stop(p.agent);
        if launched == 1 {
            assert!(w.answers(stop).is_empty(), "{point:?}: not gone yet");
            endure(&mut w, &p);
        }
        let error = w.answer(p.call).unwrap_err();
        assert_eq!(error.code, ErrorCode::Gone, "{point:?}");
        assert!(
            error.message.contains("not started") && error.message.contains("stopped"),
            "{point:?}: {error}"
        );
        assert_eq!(w.answer(stop), Ok(Reply::Stopped { was_live: true }));
        assert_eq!(w.status(p.agent), you(), "{point:?}");
        assert_eq!(outcomes(&w, p.agent), [], "{point:?}: nothing ran");
        assert_eq!(w.launches(p.agent).len(), launched, "{point:?}");
        // Nothing of it comes later, and stopping again is harmless.
        for timer in [
            Timer::Start(p.instance),
            Timer::RunBegins(p.instance),
            Timer::Ladder(p.instance),
        ] {
            w.timer(timer);
        }
        let again = w.stop(p.agent);
        assert_eq!(w.answer(again), Ok(Reply::Stopped { was_live: false }));
        assert_eq!(w.answers(p.call).len(), 1, "{point:?}");
    }
}

// B027: whoever waits is told too when all is shut down, or when the child turns out not to start
#[test]
fn a_start_that_is_cut_short_in_another_way_is_answered_once() {
    for point in STARTING {
        let (mut w, p, holds) = starting(point);
        let call = CallId::fresh();
        w.input(Input::Shutdown { call: Some(call) });
        if !w.launches(p.agent).is_empty() {
            endure(&mut w, &p);
        }
        if let Some(holds) = holds {
            endure(&mut w, &holds);
            assert!(w.answer(holds.call).is_err());
        }
        assert!(w.answer(p.call).is_err(), "{point:?}");
        assert_eq!(w.answer(call), Ok(Reply::Done), "{point:?}");
    }
    // A stop that meets a launch that fails: one answer each.
    let (mut w, p, _) = starting(Point::Launching);
    let stop = w.stop(p.agent);
    w.input(Input::LaunchFailed {
        instance: p.instance,
        reason: "no such program".to_owned(),
        hint: None,
    });
    assert!(w.answer(p.call).is_err());
    assert!(w.answer(stop).is_ok());
    assert_eq!(w.status(p.agent), you());
}

// B029, R-LIFE-12
#[test]
fn a_stop_at_any_point_of_a_revival_leaves_no_process() {
    for point in STARTING {
        let (mut w, p, call, _) = reviving(point);
        let launched = w.launches(p.agent).len();
        let runs = outcomes(&w, p.agent).len();
        let stop = w.stop(p.agent);
        if launched == 2 {
            let signals = endure(&mut w, &p);
            assert!(signals.contains(&LadderSignal::Kill), "{point:?}");
        }
        assert_eq!(
            w.answer(call).unwrap_err().code,
            ErrorCode::Gone,
            "{point:?}"
        );
        assert!(w.answer(stop).is_ok(), "{point:?}");
        assert_eq!(w.status(p.agent), you(), "{point:?}");
        assert_eq!(w.launches(p.agent).len(), launched, "{point:?}");
        assert_eq!(
            outcomes(&w, p.agent).len(),
            runs,
            "{point:?}: no run was ended"
        );
        // What the stopped process still says is nobody's.
        w.ready(&p);
        w.fact(&p, Fact::RunStarted);
        assert_eq!(w.status(p.agent), you(), "{point:?}");
        w.send(p.agent, "now really");
        assert!(
            matches!(w.status(p.agent), Status::Queued | Status::Starting),
            "{point:?}: an explicit message may start it again"
        );
        assert_eq!(w.view(p.agent).pending.len(), 1, "{point:?}: nothing old");
    }
}

// B021, B031, R-LIFE-07
#[test]
fn a_stop_of_a_deaf_process_climbs_to_the_kill_at_any_point() {
    for point in LIVE {
        let (mut w, p, _) = starting(point);
        let stop = w.stop(p.agent);
        let second = w.stop(p.agent);
        let signals = endure(&mut w, &p);
        assert_eq!(
            signals[..2],
            [LadderSignal::Term, LadderSignal::Kill],
            "{point:?}"
        );
        assert_eq!(w.count(|e| matches!(e, Effect::CloseStdin { .. })), 1);
        for call in [stop, second] {
            assert_eq!(w.answer(call), Ok(Reply::Stopped { was_live: true }));
        }
        assert_eq!(w.status(p.agent), you(), "{point:?}");
        let want = usize::from(point != Point::Accepted);
        assert_eq!(outcomes(&w, p.agent).len(), want, "{point:?}");
    }
}

// B031: a stop that follows an abort nobody obeyed is not held up by it
#[test]
fn whoever_waits_for_an_abort_is_answered_by_the_stop_or_in_time() {
    for answered in [0, 1] {
        let mut w = World::new();
        let p = w.running();
        let abort = CallId::fresh();
        w.input(Input::Abort {
            call: abort,
            agent: p.agent,
        });
        if answered == 1 {
            w.respond(&p, "clear", Ok(ResponseData::Dropped(Vec::new())));
            assert!(w.commands(&p).contains(&ChildCommand::Abort));
        }
        let stop = w.stop(p.agent);
        endure(&mut w, &p);
        assert!(w.answer(stop).is_ok());
        assert!(w.answer(abort).is_ok(), "answered commands: {answered}");
    }
    // Without a stop its deadline answers.
    let mut w = World::new();
    let p = w.running();
    let abort = CallId::fresh();
    w.input(Input::Abort {
        call: abort,
        agent: p.agent,
    });
    w.timer(Timer::Abort(p.instance));
    assert!(w.answer(abort).is_ok());
    assert_eq!(w.status(p.agent), Status::Running);
}

// B031: an unknown agent is an error at once, whatever is asked of it
#[test]
fn an_unknown_agent_is_refused_at_once() {
    let mut w = World::new();
    w.running();
    let nobody = AgentId::fresh();
    let stop = w.stop(nobody);
    let (send, _) = w.send(nobody, "hello");
    let abort = CallId::fresh();
    w.input(Input::Abort {
        call: abort,
        agent: nobody,
    });
    for call in [stop, send, abort] {
        assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::NotFound);
    }
}

// B033, R-LIFE-09, R-DELIV-09
#[test]
fn a_death_at_any_point_of_the_start_is_one_error_with_its_reason() {
    for point in STARTING.into_iter().skip(1) {
        for (code, signal, words) in [
            (Some(0), None, "exit code 0"),
            (Some(1), None, "exit code 1"),
            (Some(127), None, "exit code 127"),
            (None, Some(11), "killed by signal 11"),
        ] {
            for broken_pipe in [false, true] {
                let (mut w, p, _) = starting(point);
                if point == Point::Launching {
                    w.input(Input::Launched {
                        instance: p.instance,
                        pid: 4711,
                    });
                }
                // The broken pipe is often seen first; with exit code 0 it is the better reason.
                if broken_pipe && code != Some(0) {
                    w.input(Input::WriteFailed {
                        instance: p.instance,
                    });
                }
                w.exit(&p, code, signal);
                w.swept(&p);
                let error = w.answer(p.call).unwrap_err();
                assert_eq!(error.code, ErrorCode::StartFailed, "{point:?} {words}");
                assert!(
                    error.message.contains(words) && error.message.contains("Error: it broke"),
                    "{point:?}: {error}"
                );
                assert!(
                    matches!(w.status(p.agent), Status::Failed { reason } if reason.contains(words)),
                    "{point:?} {words}"
                );
                assert_eq!(outcomes(&w, p.agent), [], "told by the error alone");
                assert_eq!(w.launches(p.agent).len(), 1, "no second try");
                assert_eq!(notices(&w, Level::Error).len(), 1, "{point:?} {words}");
            }
        }
    }
}

// B023, R-LIFE-09: the wait status alone takes the row out of `running`; what is left comes later
#[test]
fn a_death_at_any_point_of_a_run_ends_it_once_and_at_once() {
    for point in LIVE.into_iter().skip(1) {
        for code in [0, 3] {
            let (mut w, p, _) = starting(point);
            w.exit(&p, Some(code), None);
            let words = format!("exit code {code}");
            assert!(
                matches!(w.status(p.agent), Status::Failed { reason } if reason.contains(&words)),
                "{point:?}"
            );
            assert_eq!(w.view(p.agent).pid, None);
            w.settle(&p, StopReason::Stop);
            w.swept(&p);
            assert!(
                matches!(outcomes(&w, p.agent).as_slice(), [Outcome::Failed { reason }] if reason.contains(&words)),
                "{point:?}"
            );
        }
    }
}

// B012, R-LIFE-11: a child that cannot be written to fails alone, and a message brings it back
#[test]
fn a_broken_pipe_at_any_point_of_a_life_fails_that_agent_alone() {
    for (point, idle) in [
        (Point::Accepted, false),
        (Point::Running, false),
        (Point::Running, true),
        (Point::Compacting, false),
    ] {
        let (mut w, p, _) = starting(point);
        let other = w.running();
        if idle {
            w.settle(&p, StopReason::Stop);
        }
        let (call, _) = w.send(p.agent, "hello");
        for _ in 0..2 {
            w.input(Input::WriteFailed {
                instance: p.instance,
            });
        }
        assert!(w.view(p.agent).closing, "{point:?}");
        endure(&mut w, &p);
        let error = w.answer(call).unwrap_err();
        assert_eq!(error.code, ErrorCode::Gone, "{point:?}");
        assert!(matches!(w.status(p.agent), Status::Failed { .. }));
        assert_eq!(w.status(other.agent), Status::Running);
        assert_eq!(w.launches(p.agent).len(), 1, "nothing is tried again");
        let (call, instance) = w.send(p.agent, "once more");
        let p = p.in_process(instance);
        w.ready(&p);
        w.accept_next(&p, Disposition::Started);
        assert!(w.answer(call).is_ok(), "{point:?}: revived");
        let texts: Vec<_> = w.prompts(&p).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["once more"], "{point:?}: nothing old");
    }
}

// B010: a run that was announced and does not begin is said once, and asked for until it does
#[test]
fn a_run_that_does_not_begin_is_said_whatever_the_child_answers() {
    let busy = |streaming: bool, compacting: bool| {
        Ok(ResponseData::State(ChildState {
            streaming,
            compacting,
            ..ChildState::default()
        }))
    };
    for answer in [None, Some(busy(true, false)), Some(busy(false, true))] {
        let mut w = World::new();
        let p = w.idle();
        w.send(p.agent, "hello");
        w.accept_next(&p, Disposition::Started);
        let asked = |w: &World| {
            let commands = w.commands(&p).into_iter();
            commands.filter(|c| *c == ChildCommand::GetState).count()
        };
        let before = asked(&w);
        for _ in 0..5 {
            let effects = w.timer(Timer::RunBegins(p.instance));
            assert!(
                effects.iter().any(|e| matches!(
                    e,
                    Effect::Arm { timer: Timer::RunBegins(i), .. } if *i == p.instance
                )),
                "never left alone"
            );
            if let Some(answer) = &answer {
                w.respond(&p, "state", answer.clone());
            }
        }
        assert_eq!(asked(&w), before + 5);
        let said = notices(&w, Level::Warning);
        assert_eq!(said.len(), 1, "once: {said:?}");
        assert!(said[0].contains("no run has begun for 20 s"), "{said:?}");
        assert_eq!(w.status(p.agent), Status::Running);
        // It begins after all: nothing more is asked or said.
        w.fact(&p, Fact::RunStarted);
        w.timer(Timer::RunBegins(p.instance));
        assert_eq!(asked(&w), before + 5);
        w.settle(&p, StopReason::Stop);
        // The next message is watched anew.
        w.send(p.agent, "again");
        w.accept_next(&p, Disposition::Started);
        for _ in 0..3 {
            w.timer(Timer::RunBegins(p.instance));
        }
        assert_eq!(notices(&w, Level::Warning).len(), 2);
    }
}

// B010: a compaction before the run is a reason that is shown already
#[test]
fn a_compaction_before_the_run_is_no_silence() {
    let mut w = World::new();
    let p = w.idle();
    w.send(p.agent, "hello");
    w.accept_next(&p, Disposition::Started);
    w.fact(&p, Fact::CompactionStarted);
    for _ in 0..3 {
        w.timer(Timer::RunBegins(p.instance));
    }
    assert_eq!(notices(&w, Level::Warning), [""; 0]);
}

fn aborted_by_itself(persistent: bool) -> (World, Played) {
    let mut w = World::new();
    let p = w.spawn_with("task", persistent, None);
    w.ready(&p);
    w.accept_next(&p, Disposition::Started);
    w.fact(&p, Fact::RunStarted);
    w.fact(
        &p,
        Fact::RunEnded(RunEnd {
            stop: StopReason::Aborted,
            aborted: true,
            text: "partial thou".to_owned(),
            ..RunEnd::default()
        }),
    );
    (w, p)
}

// B025, R-DELIV-15: told once as stopped, and never shown as completed, whatever comes after
#[test]
fn an_aborted_run_is_never_completed() {
    let by = StopCause::Child;
    for persistent in [true, false] {
        let (mut w, p) = aborted_by_itself(persistent);
        assert_eq!(outcomes(&w, p.agent), [Outcome::Stopped { by }]);
        let rests = if persistent {
            Status::Idle
        } else {
            Status::Stopped { by }
        };
        assert_eq!(w.status(p.agent), rests);
        // Its process ends: no success comes of it, and no second end.
        w.exit(&p, Some(0), None);
        w.swept(&p);
        assert_eq!(w.status(p.agent), Status::Stopped { by });
        assert_eq!(outcomes(&w, p.agent).len(), 1);
    }
    // After a run that did complete it is completed again.
    let (mut w, p) = aborted_by_itself(true);
    w.send(p.agent, "go on");
    w.accept_next(&p, Disposition::Started);
    w.fact(&p, Fact::RunStarted);
    w.settle(&p, StopReason::Stop);
    w.exit(&p, Some(0), None);
    assert_eq!(w.status(p.agent), Status::Completed);
}

// B025: nor by a core that reads its record
#[test]
fn an_aborted_run_is_not_completed_by_a_new_core() {
    let (w, p) = aborted_by_itself(true);
    let view = w.view(p.agent);
    let mut next = World::new();
    next.machine.restore(Restored {
        host: next.caller.host,
        kind: HostKind::Person,
        id: p.agent,
        name: view.name,
        spec: view.spec,
        session_id: p.agent.to_string(),
        session_path: None,
        status: view.status,
        since_ms: 0,
        run_took_ms: None,
        runs_ended: view.runs_ended,
        last: w.machine.last_outcome(p.agent),
    });
    let by = StopCause::Child;
    assert_eq!(next.status(p.agent), Status::Stopped { by });
}

// B016, B035: each end is told once, in its order, whatever is repeated
#[test]
fn three_ends_at_once_are_three_ends() {
    let mut w = World::new();
    let agents: Vec<Played> = (0..3).map(|_| w.running()).collect();
    for p in agents.iter().rev() {
        w.settle(p, StopReason::Stop);
        w.settle(p, StopReason::Stop);
        w.fact(p, Fact::StraySettled);
        w.respond(p, "state", Ok(ResponseData::State(ChildState::default())));
    }
    let told: Vec<AgentId> = w
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::RunEnded { agent, .. } => Some(*agent),
            _ => None,
        })
        .collect();
    let want: Vec<AgentId> = agents.iter().rev().map(|p| p.agent).collect();
    assert_eq!(told, want);
}
