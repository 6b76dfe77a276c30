//! SIGKILL and SIGSTOP at random moments of a run: to the child, its tool, the core, the guard.
//! (R-LIFE-07, R-LIFE-08, R-LIFE-09)

use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::roster::{AgentView, Badge};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use super::super::fake_pi::{FAST_LADDER, is_failed, stopped_by_you, wait_idle};
use super::{Rng, wait_alone, wait_recorded, with_options, with_seeds};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::processes::{self, signal};
use crate::support::wait;

/// Where in its life an agent is when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// The process is there and has not begun to read.
    Launching,
    /// It has not answered the first question yet.
    Handshake,
    /// The prompt is not answered yet.
    InFlight,
    /// A tool runs.
    Tool,
    /// Text arrives.
    Streaming,
    /// The answer is complete, the run is not settled.
    Settling,
    /// It is on the stop ladder.
    Ending,
}

const ALL: [Point; 7] = [
    Point::Launching,
    Point::Handshake,
    Point::InFlight,
    Point::Tool,
    Point::Streaming,
    Point::Settling,
    Point::Ending,
];

type Call = JoinHandle<Result<Reply, RequestError>>;

/// Two agents of one core: one idle, which nothing of this must touch, and the one that is hit.
struct Scene {
    core: Core,
    pi: FakePi,
    bystander: String,
    name: String,
    /// The process that is hit.
    child: u32,
    spawning: Option<Call>,
    stopping: Option<Call>,
}

impl Scene {
    /// Brings an agent to that point and lets a random part of it pass.
    fn at(point: Point, rng: &mut Rng) -> Self {
        let pi = FakePi::new();
        let core = Core::start_with(&pi, FAST_LADDER);
        let bystander = core.spawn("bystander");
        wait_idle(&core, &bystander, 1);
        let (options, prompt) = match point {
            Point::Launching => ("--start-delay 150", "task"),
            Point::Handshake | Point::InFlight => ("--read-delay 120", "task"),
            Point::Tool => ("", "fake:tool sleep 0.4"),
            Point::Streaming => ("", "fake:stream 100 3"),
            Point::Settling => ("", "fake:say hi ;; settle-delay 250"),
            Point::Ending => ("--ignore-eof", "fake:hang"),
        };
        let request = with_options(core.spawn_request(prompt), options);
        let spawning = Some(core.ask_later(Request::Spawn(request)));
        let child = pi.wait_events("start", 2)[1]["pid"].as_u64().unwrap();
        let child = u32::try_from(child).unwrap();
        let fleet = core.wait_fleet("both are known", |f| f.agents.len() == 2);
        let name = fleet
            .agents
            .iter()
            .find(|a| a.name != bystander)
            .unwrap()
            .name
            .clone();
        core.watch_all();
        let mut scene = Self {
            core,
            pi,
            bystander,
            name,
            child,
            spawning,
            stopping: None,
        };
        scene.reach(point, rng);
        scene
    }

    fn reach(&mut self, point: Point, rng: &mut Rng) {
        match point {
            Point::Launching => rng.pass(140),
            Point::Handshake => rng.pass(110),
            Point::InFlight => {
                self.wait_command("get_state");
                rng.pass(110);
            }
            Point::Tool => {
                wait::wait_until("its tool runs", || self.tool().is_some());
                rng.pass(300);
            }
            Point::Streaming | Point::Settling => {
                self.wait_command("prompt");
                rng.pass(260);
            }
            Point::Ending => {
                self.core
                    .wait_agent(&self.name, "running", |a| a.status == Status::Running);
                self.stopping = Some(self.core.ask_later(self.stop_request()));
                self.pi
                    .wait_log("its stdin ended", |log| self.logged(log, "stdin ended"));
                rng.pass(140);
            }
        }
    }

    fn logged(&self, log: &[serde_json::Value], event: &str) -> Option<()> {
        let ours = |e: &&serde_json::Value| e["event"] == event && e["pid"] == self.child;
        log.iter().find(ours).map(|_| ())
    }

    fn wait_command(&self, kind: &str) {
        self.pi.wait_log(kind, |log| {
            let ours =
                |e: &&serde_json::Value| e["command"]["type"] == kind && e["pid"] == self.child;
            log.iter().find(ours).map(|_| ())
        });
    }

    fn stop_request(&self) -> Request {
        Request::Stop {
            agent: AgentRef::Name(self.name.clone()),
        }
    }

    /// The leader of the tool's session.
    fn tool(&self) -> Option<u32> {
        let below = processes::descendants_of(self.child);
        below.first().map(|p| p.pid)
    }

    /// Every call that was made is answered, once, in time.
    fn answers(&mut self) -> Vec<Result<Reply, RequestError>> {
        let calls = self.spawning.take().into_iter().chain(self.stopping.take());
        calls.map(|call| self.core.fetch(call)).collect()
    }

    /// Its end, when it has one: neither working nor being ended.
    #[track_caller]
    fn over(&self) -> AgentView {
        self.core.wait_agent(&self.name, "over", |a| {
            !a.status.is_working() && !a.closing && (a.status == Status::Idle || a.pid.is_none())
        })
    }

    /// The run ended as often in the transcript as in the row, at most once; what is on the disk
    /// is what is shown; the other agent was not touched.
    #[track_caller]
    fn one_end(&self, row: &AgentView) {
        assert!(row.runs_ended <= 1, "{row:#?}");
        let ends = usize::try_from(row.runs_ended).unwrap();
        assert_eq!(self.core.run_ends(&self.name), ends, "{row:#?}");
        wait_recorded(&self.core, &self.pi, &self.name);
        let other = self.core.agent(&self.bystander);
        assert_eq!((other.status, other.runs_ended), (Status::Idle, 1));
    }

    /// Nothing is alive but the process of the other agent, and of this one while it is idle.
    #[track_caller]
    fn nothing_left(&self, row: &AgentView) {
        let other = self.core.agent(&self.bystander).pid;
        let but: Vec<u32> = other.into_iter().chain(row.pid).collect();
        wait_alone(&self.pi, &but);
    }

    /// The next message brings it back (R-LIFE-10).
    #[track_caller]
    fn comes_back(&self) {
        let runs = self.core.agent(&self.name).runs_ended;
        self.core.send(&self.name, "back");
        self.core.wait_agent(&self.name, "back", |a| {
            a.status == Status::Idle && a.runs_ended == runs + 1
        });
    }

    /// The life it has without a fault.
    #[track_caller]
    fn as_if_nothing(&mut self, point: Point) {
        for answer in self.answers() {
            assert!(answer.is_ok(), "{answer:?}");
        }
        let row = self.over();
        if point == Point::Ending {
            assert!(stopped_by_you(&row), "{row:#?}");
        } else {
            assert_eq!(row.status, Status::Idle, "{row:#?}");
        }
        assert_eq!(row.runs_ended, 1);
        self.one_end(&row);
        self.nothing_left(&row);
    }
}

/// Plays so many of the points with each seed, in an order and a choice that the seed makes.
fn play(points: usize, play: impl Fn(Point, &mut Rng)) {
    with_seeds(|rng| {
        let mut order = ALL;
        order.sort_by_cached_key(|_| rng.next());
        for point in order.into_iter().take(points) {
            play(point, rng);
        }
    });
}

#[test]
fn a_child_that_is_killed_ends_once_with_the_reason_and_comes_back() {
    // R-LIFE-09, R-LIFE-11
    play(7, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.child, Signal::KILL);
        for answer in s.answers() {
            if let Err(error) = answer {
                let codes = [ErrorCode::StartFailed, ErrorCode::Gone];
                assert!(codes.contains(&error.code), "{point:?}: {error}");
                assert!(error.message.contains("signal 9"), "{point:?}: {error}");
            }
        }
        let row = s.core.wait_agent(&s.name, "gone", |a| {
            a.pid.is_none() && !a.closing && !a.status.is_working()
        });
        match &row.status {
            Status::Failed { reason } => assert!(reason.contains("signal 9"), "{point:?} {reason}"),
            // Its run had settled already.
            Status::Completed => assert_eq!(row.runs_ended, 1, "{point:?}"),
            Status::Stopped { by: StopCause::You } => assert_eq!(point, Point::Ending),
            other => panic!("{point:?}: {other:?}"),
        }
        s.one_end(&row);
        s.nothing_left(&row);
        s.comes_back();
    });
}

#[test]
fn a_child_that_is_stopped_and_continued_goes_on() {
    play(4, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.child, Signal::STOP);
        rng.pass(120);
        signal(s.child, Signal::CONT);
        s.as_if_nothing(point);
        s.comes_back();
    });
}

#[test]
fn a_child_that_stays_stopped_is_ended_by_the_ladder_in_its_time() {
    // R-LIFE-07: SIGKILL reaches what SIGSTOP holds
    play(5, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.child, Signal::STOP);
        rng.pass(50);
        let began = Instant::now();
        let stopped = s.core.ask(s.stop_request());
        let took = began.elapsed();
        assert!(matches!(stopped, Ok(Reply::Stopped { .. })), "{stopped:?}");
        // Two rungs of 150 ms; the rest is for a machine that does other things too.
        assert!(
            took < Duration::from_secs(2) || wait::crowded(),
            "{point:?}: {took:?}"
        );
        for answer in s.answers() {
            if let Err(error) = answer {
                assert_eq!(error.code, ErrorCode::Gone, "{point:?}: {error}");
            }
        }
        let row = s.over();
        assert!(stopped_by_you(&row), "{point:?}: {row:#?}");
        s.one_end(&row);
        s.nothing_left(&row);
        s.comes_back();
    });
}

#[test]
fn a_tool_that_is_killed_or_stopped_holds_up_nothing() {
    // R-LIFE-07, R-LIFE-09
    with_seeds(|rng| {
        for (first, then) in [
            (Signal::KILL, None),
            (Signal::STOP, Some(Signal::CONT)),
            (Signal::STOP, None),
        ] {
            let mut s = Scene::at(Point::Tool, rng);
            if let Some(tool) = s.tool() {
                signal(tool, first);
                if let Some(then) = then {
                    rng.pass(100);
                    signal(tool, then);
                }
            }
            if first == Signal::STOP && then.is_none() {
                s.answers();
                assert_eq!(
                    s.core.ask(s.stop_request()),
                    Ok(Reply::Stopped { was_live: true })
                );
                let row = s.over();
                assert!(stopped_by_you(&row), "{row:#?}");
                s.one_end(&row);
                s.nothing_left(&row);
            } else {
                s.as_if_nothing(Point::Tool);
            }
            s.comes_back();
        }
    });
}

#[test]
fn a_core_that_is_killed_leaves_records_and_nothing_else() {
    // R-LIFE-08, design §2: `supervisor lost`, nothing revived unasked
    play(5, |point, rng| {
        let mut s = Scene::at(point, rng);
        let in_progress = !matches!(point, Point::Streaming | Point::Settling);
        signal(s.core.pid, Signal::KILL);
        for answer in s.answers() {
            if let Err(error) = answer {
                assert_eq!(error.code, ErrorCode::Disconnected, "{point:?}: {error}");
            }
        }
        s.core.wait_lost();
        wait_alone(&s.pi, &[]);
        wait::wait_for("its guard ends", || s.core.guard.try_wait().unwrap());
        let starts = s.pi.events("start").len();

        let next = Core::start_with(&s.pi, FAST_LADDER);
        let row = next.agent(&s.name);
        match &row.status {
            Status::Failed { reason } => assert_eq!(reason, "supervisor lost"),
            Status::Completed => assert!(!in_progress, "{point:?}: {row:#?}"),
            Status::Stopped { .. } => assert_eq!(point, Point::Ending),
            other => panic!("{point:?}: {other:?}"),
        }
        assert_eq!(row.pid, None);
        let other = next.agent(&s.bystander);
        assert_eq!((other.status, other.pid), (Status::Completed, None));
        assert_eq!(s.pi.events("start").len(), starts, "nothing revived");
        // Only when asked, each from its own record.
        for (name, runs) in [(&s.name, row.runs_ended), (&s.bystander, 1)] {
            next.send(name, "back");
            next.wait_agent(name, "back", |a| {
                a.status == Status::Idle && a.runs_ended == runs + 1
            });
        }
        next.shutdown();
        wait_alone(&s.pi, &[]);
    });
}

#[test]
fn a_core_that_is_stopped_and_continued_goes_on() {
    play(4, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.core.pid, Signal::STOP);
        rng.pass(250);
        signal(s.core.pid, Signal::CONT);
        s.as_if_nothing(point);
        s.comes_back();
    });
}

#[test]
fn a_guard_that_is_killed_harms_nothing() {
    // design §2: a lost guard stops nothing
    play(3, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.core.guard.id(), Signal::KILL);
        s.core.guard.wait().unwrap();
        s.as_if_nothing(point);
        s.core
            .wait_fleet("the badge", |f| f.core.badges.contains(&Badge::Unguarded));
        s.comes_back();
        let (pi, core) = (s.pi, s.core.pid);
        s.core.shutdown();
        wait::wait_until("the core ends", || !processes::alive(core));
        wait_alone(&pi, &[]);
    });
}

#[test]
fn a_guard_that_is_stopped_harms_nothing_and_cleans_up_when_it_goes_on() {
    play(2, |point, rng| {
        let mut s = Scene::at(point, rng);
        signal(s.core.guard.id(), Signal::STOP);
        s.as_if_nothing(point);
        let grandchild = s.core.spawn("fake:grandchild double ;; hang");
        s.core
            .wait_agent(&grandchild, "running", |a| a.status == Status::Running);
        let escaped = s.pi.wait_events("grandchild", 1)[0]["pid"].as_u64();
        let escaped = u32::try_from(escaped.unwrap()).unwrap();
        signal(s.core.pid, Signal::KILL);
        s.core.wait_lost();
        // The next core does not wait for that guard, and finds what carries a mark.
        let next = Core::start_with(&s.pi, FAST_LADDER);
        let row = next.agent(&grandchild);
        assert!(is_failed(&row), "{row:#?}");
        wait_alone(&s.pi, &[]);
        signal(s.core.guard.id(), Signal::CONT);
        wait::wait_until("what hid from the marks is gone", || {
            !processes::alive(escaped)
        });
        wait::wait_for("the guard ends", || s.core.guard.try_wait().unwrap());
        next.send(&s.name, "back");
        next.wait_agent(&s.name, "back", |a| a.status == Status::Idle);
    });
}
