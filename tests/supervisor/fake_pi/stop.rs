//! Stopping children that do not want to end, and stopping at awkward moments.

use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::EntryKind;

use super::{FAST_LADDER, agents_alive, pids, stopped_by_you, wait_run_ends};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::wait;

/// Far more than the ladder needs, far less than a hang.
const BOUND: Duration = Duration::from_secs(8);

fn stop_request(name: &str) -> Request {
    Request::Stop {
        agent: AgentRef::Name(name.to_owned()),
    }
}

#[test]
fn a_child_that_ignores_everything_is_killed_with_its_descendants() {
    // B021, R-LIFE-07
    let pi = FakePi::new().options("--ignore-eof --ignore-term --grandchild stubborn");
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("fake:hang");
    let grandchild = pi.wait_events("grandchild", 1)[0]["pid"].as_u64().unwrap();
    let began = Instant::now();
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    // Gone when the answer comes.
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
    assert!(!processes::alive(u32::try_from(grandchild).unwrap()));
    core.wait_agent(&name, "stopped", stopped_by_you);
    // Every rung was tried, in order.
    let log = pi.log();
    let at = |event: &str| log.iter().position(|e| e["event"] == event);
    let (eof, signal) = (at("stdin ended").unwrap(), at("signal").unwrap());
    assert!(eof < signal, "{log:#?}");
    assert!(wait_run_ends(&core, &name, 1).len() == 1);
}

#[test]
fn a_child_that_reads_nothing_can_be_stopped() {
    // B031
    let pi = FakePi::new().options("--no-read --ignore-eof --ignore-term");
    let core = Core::start_with(&pi, FAST_LADDER);
    let spawning = core.ask_later(Request::Spawn(core.spawn_request("task")));
    let fleet = core.wait_fleet("it is starting", |f| {
        f.agents.first().is_some_and(|a| a.pid.is_some())
    });
    let name = fleet.agents[0].name.clone();
    let began = Instant::now();
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    let error = core.fetch(spawning).expect_err("stopped before start");
    assert_eq!(error.code, ErrorCode::Gone);
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
    // Stopping again is harmless, an unknown name is an error at once.
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: false });
    let unknown = core.ask(stop_request("nobody")).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::NotFound);
    assert!(unknown.hint.unwrap().contains(&format!("@{name}")));
}

#[test]
fn an_agent_whose_process_is_gone_already_is_stopped_at_once() {
    // B031
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:exit 0");
    core.wait_agent(&name, "failed and gone", |a| {
        super::is_failed(a) && a.pid.is_none()
    });
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: false });
    assert!(super::is_failed(&core.agent(&name)), "what happened stays");
}

#[test]
fn two_stops_at_once_are_both_answered() {
    // R-TOOL-03
    let pi = FakePi::new().options("--ignore-eof");
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("fake:hang");
    let both = [0, 1].map(|_| core.ask_later(stop_request(&name)));
    for call in both {
        assert_eq!(core.fetch(call), Ok(Reply::Stopped { was_live: true }));
    }
    assert_eq!(wait_run_ends(&core, &name, 1).len(), 1);
}

#[test]
fn a_stop_while_it_starts_ends_the_spawn_once() {
    // B027, R-LIFE-12
    let pi = FakePi::new().options("--start-delay 60000");
    let core = Core::start_with(&pi, FAST_LADDER);
    let spawning = core.ask_later(Request::Spawn(core.spawn_request("task")));
    pi.wait_events("start", 1);
    let name = core
        .wait_fleet("it is known", |f| f.agents.len() == 1)
        .agents[0]
        .name
        .clone();
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
    let error = core.fetch(spawning).unwrap_err();
    assert!(error.message.contains("stopped"), "{error}");
    core.wait_agent(&name, "stopped and gone", |a| {
        stopped_by_you(a) && a.pid.is_none()
    });
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
    assert_eq!(core.agent(&name).runs_ended, 0);
}

#[test]
fn a_stop_while_it_is_queued_starts_nothing() {
    // B027, R-LIFE-12
    let pi = FakePi::new().options("--start-delay 60000");
    let core = Core::start_with(
        &pi,
        &[FAST_LADDER, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]].concat(),
    );
    let first = core.ask_later(Request::Spawn(core.spawn_request("first")));
    pi.wait_events("start", 1);
    let second = core.ask_later(Request::Spawn(core.spawn_request("second")));
    let fleet = core.wait_fleet("one waits", |f| {
        f.agents.iter().any(|a| a.status == Status::Queued)
    });
    let waiting = fleet
        .agents
        .iter()
        .find(|a| a.status == Status::Queued)
        .unwrap();
    core.stop(&waiting.name);
    assert_eq!(core.fetch(second).unwrap_err().code, ErrorCode::Gone);
    core.wait_agent(&waiting.name, "stopped", stopped_by_you);
    let starting = fleet.agents.iter().find(|a| a.id != waiting.id).unwrap();
    core.stop(&starting.name);
    assert!(core.fetch(first).is_err());
    assert_eq!(pids(&pi).len(), 1, "the second was never started");
}

#[test]
fn a_stop_is_acknowledged_at_once_while_a_child_floods() {
    // R-Q-02, design §9: within 100 ms on an idle machine; a busy one is given more.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let loud = core.spawn("fake:flood 200");
    let quiet = core.spawn("task");
    core.wait_entries(&loud, "it floods", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Text { text, .. } if text.len() > 1_000_000))
            .then_some(())
    });
    // Another agent answers meanwhile.
    super::wait_idle(&core, &quiet, 1);
    core.send(&quiet, "still there?");
    super::wait_idle(&core, &quiet, 2);
    let began = Instant::now();
    let stopping = core.ask_later(stop_request(&loud));
    core.wait_agent(&loud, "it is closing", |a| a.closing || stopped_by_you(a));
    let acknowledged = began.elapsed();
    assert_eq!(core.fetch(stopping), Ok(Reply::Stopped { was_live: true }));
    let allowed = if busy() {
        BOUND
    } else {
        Duration::from_millis(100)
    };
    assert!(acknowledged <= allowed, "{acknowledged:?}");
}

/// More runs here than there are processors: times say nothing about the program.
fn busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = load
        .split(' ')
        .nth(3)
        .and_then(|f| f.split('/').next()?.parse::<usize>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // The fake, the core and this test are at work too.
    running.is_none_or(|n| n > processors + 3)
}

#[test]
fn a_flood_does_not_fill_the_core() {
    // R-Q-02, R-Q-01: what is kept of one agent is bounded, whatever it says.
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LIMITS_TRANSCRIPT_BYTES", "1000000")]);
    let name = core.spawn("fake:flood 20000");
    core.wait_agent(&name, "it floods", |a| a.status == Status::Running);
    let taken_in = || bytes_read(core.pid);
    let before = resident(core.pid);
    wait::wait_until("150 MB were read", || taken_in() > 150_000_000);
    let after = resident(core.pid);
    assert!(after < before + 64_000_000, "{before} → {after}");
    core.stop(&name);
}

/// Resident memory in bytes.
fn resident(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmRSS:") * 1024
}

/// Bytes a process has read so far, from pipes too.
fn bytes_read(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/io"), "rchar:")
}

fn field(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn an_abort_gives_back_what_was_not_read_and_keeps_the_agent() {
    // R-LIFE-15, R-DELIV-16
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:hang");
    core.wait_entries(&name, "it hangs", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Text { text, .. } if text == "hanging"))
            .then_some(())
    });
    assert!(matches!(
        core.send(&name, "and also"),
        Reply::Sent { steered: true, .. }
    ));
    let reply = core.ask(Request::Abort {
        agent: AgentRef::Name(name.clone()),
    });
    assert_eq!(
        reply,
        Ok(Reply::Aborted {
            returned: vec!["and also".into()]
        })
    );
    let row = super::wait_idle(&core, &name, 1);
    assert!(row.pending.is_empty(), "{row:?}");
    assert_eq!(pi.commands("clear_queue").len(), 1);
    core.send(&name, "go on");
    super::wait_idle(&core, &name, 2);
    assert_eq!(pids(&pi).len(), 1);
}
