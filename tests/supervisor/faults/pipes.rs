//! Pipes that do not flow: children that read slowly or not at all, floods on both outputs, viewers
//! that take nothing. (R-Q-02, R-PI-09, B031)

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request};
use pi_agents::fleet::agent::Status;
use rustix::process::Signal;
use serde_json::json;

use super::super::fake_pi::{FAST_LADDER, find_file, is_failed, reason, stopped_by_you, wait_idle};
use super::{Rng, message_with, wait_alone, with_options, with_seeds};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::processes::signal;
use crate::support::wait;

fn stop_request(name: &str) -> Request {
    Request::Stop {
        agent: AgentRef::Name(name.to_owned()),
    }
}

/// Stops an agent within what the ladder of these tests takes.
#[track_caller]
fn stops_in_time(core: &Core, name: &str) {
    let began = Instant::now();
    assert_eq!(core.stop(name), Reply::Stopped { was_live: true });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2) || wait::crowded(), "{took:?}");
}

#[test]
fn a_child_that_reads_a_byte_a_second_holds_up_nobody() {
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let slow = with_options(core.spawn_request("task"), "--byte-delay 1000 --ignore-eof");
    let spawning = core.ask_later(Request::Spawn(slow));
    let row = core.wait_fleet("it is starting", |f| {
        f.agents.first().is_some_and(|a| a.pid.is_some())
    });
    let name = row.agents[0].name.clone();
    // Messages wait for a child that is not ready yet; the text is far beyond any pipe.
    let large = "m".repeat(1 << 20);
    let waiting: Vec<_> = (0..4)
        .map(|_| core.ask_later(core.send_request(&name, &large)))
        .collect();
    core.wait_agent(&name, "all wait", |a| a.pending.len() == 4);
    let quick = core.spawn("quick");
    wait_idle(&core, &quick, 1);
    stops_in_time(&core, &name);
    assert_eq!(core.fetch(spawning).unwrap_err().code, ErrorCode::Gone);
    for call in waiting {
        assert_eq!(core.fetch(call).unwrap_err().code, ErrorCode::Gone);
    }
    let row = core.wait_agent(&name, "stopped", stopped_by_you);
    assert!(row.pending.is_empty());
    core.send(&name, "back");
    core.wait_agent(&name, "back", |a| a.status == Status::Idle);
    assert_eq!(pi.commands("prompt").len(), 2, "nothing old is replayed");
}

#[test]
fn a_child_that_stops_reading_in_a_large_message_is_ended_with_every_sender_told() {
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("task");
    let pid = wait_idle(&core, &name, 1).pid.unwrap();
    signal(pid, Signal::STOP);
    let large = "m".repeat(1 << 20);
    let waiting: Vec<_> = (0..5)
        .map(|_| core.ask_later(core.send_request(&name, &large)))
        .collect();
    core.wait_agent(&name, "all wait", |a| a.pending.len() == 5);
    // Half of the first is in the pipe; then it goes on reading, and loses nothing.
    signal(pid, Signal::CONT);
    for call in waiting {
        assert!(matches!(core.fetch(call), Ok(Reply::Sent { .. })));
    }
    wait::wait_until("each arrived once, whole", || {
        pi.commands("prompt").len() == 6
    });
    for prompt in pi.commands("prompt").iter().skip(1) {
        assert_eq!(prompt["message"].as_str().unwrap().len(), 1 << 20);
    }
    // Between two runs it is idle as well: the last message may have one of its own.
    core.wait_agent(&name, "idle with everything read", |a| {
        a.status == Status::Idle && a.pending.is_empty()
    });
    // Once more, and this time it never reads again.
    signal(pid, Signal::STOP);
    let waiting: Vec<_> = (0..5)
        .map(|_| core.ask_later(core.send_request(&name, &large)))
        .collect();
    core.wait_agent(&name, "all wait", |a| a.pending.len() == 5);
    stops_in_time(&core, &name);
    for call in waiting {
        assert_eq!(core.fetch(call).unwrap_err().code, ErrorCode::Gone);
    }
    core.send(&name, "back");
    core.wait_agent(&name, "back", |a| a.status == Status::Idle);
    assert!(
        pi.events("bad command").is_empty(),
        "no half line was taken"
    );
}

#[test]
fn floods_on_both_outputs_do_not_hold_up_a_stop() {
    // R-PI-09: drained also while stopping
    with_seeds(|rng: &mut Rng| {
        for script in [
            "fake:stderr 0 ;; hang",
            "fake:big-line 60000000 ;; hang",
            "fake:stderr 0 ;; flood 5000",
        ] {
            let pi = FakePi::new();
            let core = Core::start_with(&pi, FAST_LADDER);
            let quick = core.spawn("quick");
            let request = with_options(core.spawn_request(script), "--ignore-eof --ignore-term");
            let name = core.spawn_as(request);
            rng.pass(150);
            wait_idle(&core, &quick, 1);
            core.send(&quick, "still there?");
            wait_idle(&core, &quick, 2);
            stops_in_time(&core, &name);
            let but: Vec<u32> = core.agent(&quick).pid.into_iter().collect();
            wait_alone(&pi, &but);
        }
    });
}

#[test]
fn the_last_words_after_a_flood_are_the_reason() {
    // R-LIFE-09: the tail of stderr is bounded and its end is what counts
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    core.send(&name, "fake:stderr 5000000 ;; exit 3");
    let row = core.wait_agent(&name, "failed", |a| is_failed(a) && a.pid.is_none());
    let reason = reason(&row);
    assert!(reason.starts_with("exit code 3: eee"), "{reason}");
    assert!(reason.len() < 3000, "{}", reason.len());
}

#[test]
fn a_viewer_that_takes_nothing_does_not_hold_up_a_stop() {
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("fake:flood 5000");
    let id = core.agent(&name).id;
    let socket = find_file(&pi.sandbox.runtime(), ".sock").unwrap();
    let mut deaf = UnixStream::connect(socket).unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"role": "viewer", "versions": [1, 1], "client": {"name": "deaf", "version": "0"}}});
    writeln!(deaf, "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(deaf.try_clone().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("result"), "{line}");
    for (number, method, params) in [
        (2, "agent/watch", json!({"agents": [id]})),
        (3, "fleet/subscribe", json!({})),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        writeln!(deaf, "{call}").unwrap();
    }
    core.wait_fleet("it is attached", |f| f.core.attached == 2);
    core.wait_agent(&name, "running", |a| a.status == Status::Running);
    let stopping = core.ask_later(stop_request(&name));
    assert_eq!(core.fetch(stopping), Ok(Reply::Stopped { was_live: true }));
    core.ask(message_with(&core, &name, "back", "")).unwrap();
    core.wait_agent(&name, "back", |a| a.status == Status::Idle);
    core.shutdown();
    wait::wait_until("nothing is left", || pi.sandbox.processes().is_empty());
}
