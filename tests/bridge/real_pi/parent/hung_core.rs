//! The real core silent, late, or killed under a real Pi: Pi goes on, calls say so, nothing is left.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use pi_agents::client::{Reply, Request};
use pi_agents::fleet::agent::Status;
use rustix::process::Signal;
use serde_json::json;

use super::{Parent, spawn};
use crate::support::core::PROGRAM;
use crate::support::model::{Gate, Turn};
use crate::support::processes::signal;
use crate::support::rpc::message_text;
use crate::support::versions::Version;
use crate::support::wait;

/// The bridge waits longer than this for anything it waits for at all.
const AT_ONCE: Duration = Duration::from_millis(2400);

impl Parent {
    /// Aborts what runs, and proves that nothing held it up.
    fn aborts_at_once(&mut self, before: usize) {
        let began = Instant::now();
        self.rpc.request("abort", json!({}));
        let took = began.elapsed();
        assert!(took < AT_ONCE, "{took:?}");
        let records = self.rpc.wait_settled(before);
        let settled = records.iter().find(|r| r["type"] == "agent_settled");
        assert_eq!(settled.unwrap()["aborted"], true);
        let end = self.ends().pop().unwrap();
        assert_eq!(end["isError"], true, "{end}");
    }

    /// Ends Pi as its owner would, and proves that nothing held it up.
    fn ends_at_once(&mut self) {
        let began = Instant::now();
        self.rpc.close_stdin();
        let status = self.rpc.wait_exit();
        let took = began.elapsed();
        assert!(took < AT_ONCE, "{took:?}\n{}", self.rpc.stderr());
        assert_eq!(status.code(), Some(0), "{}", self.rpc.stderr());
    }
}

// R-PI-12, R-TOOL-10, R-LIFE-08
#[test]
fn a_core_that_stands_still_holds_up_neither_an_abort_nor_the_exit() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("the part", false)),
                Turn::call("agent_spawn", spawn("another", false)),
                Turn::say("done"),
            ],
        );
        parent.model.on("the part", [Turn::hang()]);
        parent.model.on("another", [Turn::say("here again")]);
        parent.begin("the whole");
        parent.model.wait_first("the part");
        let core = parent.core();
        signal(core.pid, Signal::STOP);
        parent.aborts_at_once(0);
        // It is the same core afterwards, and it has done what it was told meanwhile.
        signal(core.pid, Signal::CONT);
        parent.wait_ended("max");
        let before = parent.rpc.records().len();
        parent.rpc.prompt("go on");
        parent.rpc.wait_settled(before);
        let result = parent.asked("the whole").pop().unwrap().tool_results();
        assert!(
            result.last().unwrap().starts_with("here again"),
            "{result:?}"
        );
        assert_eq!(parent.cores().len(), 1);
        assert_eq!(parent.cores()[0].pid, core.pid);
        signal(core.pid, Signal::STOP);
        parent.ends_at_once();
        signal(core.pid, Signal::CONT);
        parent.wait_gone();
    }
}

/// A program that stops itself before it is the core.
fn late(pi: &crate::support::hermetic_pi::HermeticPi) -> String {
    let path = pi.sandbox.root().join("late");
    let script = format!("#!/bin/sh\nkill -STOP $$\nexec '{PROGRAM}' \"$@\"\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Parent {
    fn with_late_core(version: Version) -> Self {
        Self::open(version, |pi, command| {
            command.env("PI_AGENTS_BIN", late(pi));
        })
    }

    /// The program that is to be the core, standing still.
    fn wait_stopped(&self) -> u32 {
        wait::wait_for("the core to stand still", || {
            let all = self.pi.sandbox.processes();
            all.iter().find(|p| p.state == 'T').map(|p| p.pid)
        })
    }
}

// R-PI-12
#[test]
fn a_core_that_never_answers_holds_up_nothing() {
    for version in Version::ALL {
        let mut parent = Parent::with_late_core(version);
        let core = parent.wait_stopped();
        parent.model.on(
            "the whole",
            [Turn::call("agent_spawn", spawn("the part", false))],
        );
        parent.begin("the whole");
        parent
            .rpc
            .wait_record("the call", |r| r["type"] == "tool_execution_start");
        parent.aborts_at_once(0);
        parent.ends_at_once();
        signal(core, Signal::CONT);
        parent.wait_gone();
        assert_eq!(parent.model.requests().len(), 1, "nothing was started");
    }
}

// R-PI-12: it is there when it is there.
#[test]
fn a_core_that_answers_after_four_seconds_is_used_when_it_does() {
    for version in Version::ALL {
        let mut parent = Parent::with_late_core(version);
        let core = parent.wait_stopped();
        let stopped = Instant::now();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("the part", false)),
                Turn::say("done"),
            ],
        );
        parent.model.on("the part", [Turn::say("late and well")]);
        parent.begin("the whole");
        wait::wait_until("four seconds to pass", || {
            stopped.elapsed() > Duration::from_secs(4)
        });
        assert!(parent.ends().is_empty(), "the call waits");
        signal(core, Signal::CONT);
        parent.rpc.wait_settled(0);
        let results = parent.asked("the whole").pop().unwrap().tool_results();
        assert!(results[0].starts_with("late and well"), "{results:?}");
        parent.ends_at_once();
        parent.wait_gone();
    }
}

// R-PI-12, R-DELIV-17, R-DELIV-09, R-LIFE-08
#[test]
fn a_core_that_is_killed_ends_the_call_and_is_started_again_once() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        let gate = Gate::new();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("the part", false)),
                Turn::call("agent_spawn", spawn("another", false)).gate(&gate),
                Turn::say("done"),
            ],
        );
        parent.model.on(
            "the part",
            [Turn::call("bash", json!({"command": "sleep 300"}))],
        );
        parent.model.on("another", [Turn::say("here again")]);
        parent.begin("the whole");
        wait::wait_until("the agent's tool", || parent.agents("max").len() >= 2);
        let old = parent.agents("max");
        let core = parent.core();
        signal(core.pid, Signal::KILL);
        gate.wait_arrival("the parent's next request");
        // Pi asks its model on another way than it tells us: this may come a moment later.
        let end = wait::wait_for("the end of the call", || parent.ends().pop());
        assert_eq!(end["isError"], true, "{end}");
        let said = message_text(&end["result"]);
        assert!(said.contains("the core is gone"), "{said}");
        wait::wait_until("nothing of the old agents to live", || {
            old.iter().all(|p| !p.alive())
        });
        gate.open();
        parent.rpc.wait_settled(0);
        let requests = parent.asked("the whole");
        assert_eq!(requests.len(), 3);
        let results = requests[2].tool_results();
        assert!(results[1].starts_with("here again"), "{results:?}");
        assert!(
            results[1].contains("@zoe"),
            "its name stays taken: {results:?}"
        );
        // The call has told of the lost run already.
        assert!(Parent::replies(&requests[2]).is_empty());
        wait::stays("no second report", Duration::from_millis(300), || {
            parent.asked("the whole").len() == 3
        });
        let cores = parent.cores();
        assert_eq!(cores.len(), 1, "{cores:?}");
        assert_ne!(cores[0].pid, core.pid);
        let Ok(Reply::Snapshot { fleet }) = parent.ask(Request::Snapshot) else {
            panic!("no snapshot");
        };
        let row = fleet.agents.iter().find(|a| a.name == "max").unwrap();
        let lost = Status::Failed {
            reason: "supervisor lost".to_owned(),
        };
        assert_eq!(row.status, lost);
        parent.ends_at_once();
        parent.wait_gone();
    }
}

// R-PI-12, R-PI-03: a handler that waits for a core does so for a bounded time, and not for a dead one.
#[test]
fn a_core_that_dies_while_a_session_ends_holds_up_nothing() {
    for version in Version::ALL {
        let mut parent = Parent::start(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("the part", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("the part", [Turn::hang()]);
        parent.model.on(
            "afresh",
            [
                Turn::call("agent_spawn", spawn("another", false)),
                Turn::say("done"),
            ],
        );
        parent.model.on("another", [Turn::say("here again")]);
        parent.begin("the whole");
        parent.rpc.wait_settled(0);
        parent.model.wait_first("the part");
        let core = parent.core();
        signal(core.pid, Signal::STOP);
        let asked = parent.rpc.send("new_session", json!({}));
        signal(core.pid, Signal::KILL);
        let began = Instant::now();
        let response = parent.rpc.response(&asked);
        assert_eq!(response["success"], true, "{response}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        parent.wait_ended("max");
        let before = parent.rpc.records().len();
        parent.begin("afresh");
        parent.rpc.wait_settled(before);
        let results = parent.asked("afresh").pop().unwrap().tool_results();
        assert!(results[0].starts_with("here again"), "{results:?}");
        assert_eq!(parent.cores().len(), 1);
        parent.ends_at_once();
        parent.wait_gone();
    }
}
