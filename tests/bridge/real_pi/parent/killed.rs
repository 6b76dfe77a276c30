//! The core killed, Pi killed, both killed: what is owed reaches the same session once.

use std::path::Path;

use serde_json::{Value, json};

use super::told::{HANDS, TASK, delivered, names, told};
use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::processes;
use crate::support::versions::Version;
use crate::support::wait;

/// What is said of a run that the core did not live to see settle.
const LOST: &str = "supervisor lost\n(no output)";
/// What is said of a run that ended with its session.
const ENDED: &str = "stopped because its session ended\n\n(no output)";

fn loud(version: Version) -> Parent {
    Parent::with(version, &[("PI_AGENTS_LOG", "debug")])
}

#[test]
fn a_killed_core_is_told_of_once() {
    // R-DELIV-17: what was delivered before is not again; the agents of the dead core are gone
    for version in Version::ALL {
        let mut parent = loud(version);
        let gate = Gate::new();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true))
                    .tool("agent_spawn", spawn("part two", true)),
                Turn::say("started"),
                Turn::say("one is there"),
                Turn::say("what a pity"),
                Turn::say("thank you"),
            ],
        );
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent.model.on("part two", [Turn::hang()]);
        parent.rpc.run(TASK);
        parent.model.wait_first("part two");
        let before = parent.rpc.records().len();
        gate.open();
        parent.rpc.wait_settled(before);
        let session = parent.session();
        let names = names(&parent.asked("the whole")[1]);
        let agents = [parent.agents(&names[0]), parent.agents(&names[1])].concat();
        assert_eq!(agents.len(), 2);
        let before = parent.rpc.records().len();
        processes::kill(&[parent.core()]);
        parent.rpc.wait_settled(before);
        wait::wait_until("the agents to be gone", || {
            !agents.iter().any(processes::Process::alive)
        });
        assert_eq!(parent.asked("the whole").len(), 4, "{version:?}: one wake");
        parent.rpc.run("go on");
        let last = parent.told_once(&session, "the whole", &["result of one", LOST]);
        assert_eq!(last[1]["status"], "failed");
        assert_eq!(last[1]["agent_id"], names[1]);
    }
}

#[test]
fn a_killed_guard_ends_no_agent_and_loses_no_result() {
    // design §2: a lost guard stops nothing
    for version in Version::ALL {
        let mut parent = loud(version);
        let gate = Gate::new();
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::say("thank you"),
            ],
        );
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent.rpc.run(TASK);
        gate.wait_arrival("the agent at work");
        let session = parent.session();
        let core = parent.core();
        processes::signal(core.parent, rustix::process::Signal::KILL);
        wait::wait_until("the guard to be gone", || {
            parent.core().parent != core.parent
        });
        let before = parent.rpc.records().len();
        gate.open();
        parent.rpc.wait_settled(before);
        assert!(core.alive(), "{version:?}: the same core");
        assert_eq!(parent.asked("the whole").len(), 3, "{version:?}: one wake");
        let last = parent.told_once(&session, "the whole", &["result of one"]);
        assert_eq!(last[0]["status"], "completed");
        // It still ends with its session.
        let pid = parent.rpc.pid();
        processes::signal(pid, rustix::process::Signal::KILL);
        wait::wait_until("nothing to be left", || {
            parent.pi.sandbox.processes().iter().all(|p| p.pid == pid)
        });
    }
}

#[test]
fn a_core_that_stands_still_does_not_outlive_its_session() {
    // R-LIFE-08: however Pi ends
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut parent = loud(Version::Newest);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on(
            "part one",
            [Turn::call("bash", json!({"command": "sleep 300"}))],
        );
        parent.rpc.run(TASK);
        wait::wait_until("the tool at work", || {
            let mut all = parent.pi.sandbox.processes().into_iter();
            all.any(|p| p.args.iter().any(|arg| arg == "300"))
        });
        processes::signal(parent.core().pid, rustix::process::Signal::STOP);
        let pid = parent.rpc.pid();
        processes::signal(pid, signal);
        wait::wait_until("nothing to be left", || {
            parent.pi.sandbox.processes().iter().all(|p| p.pid == pid)
        });
    }
}

#[test]
fn a_core_that_is_killed_at_its_start_is_started_again() {
    // R-DELIV-17: before it has answered, or a moment after
    for version in Version::ALL {
        let mut parent = loud(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("part one", [Turn::hang()]);
        let first = parent.core();
        processes::kill(std::slice::from_ref(&first));
        // No call asks for it: what the session is owed would wait for ever.
        wait::wait_until("another core", || {
            let all = parent.pi.sandbox.processes();
            let is_core = |p: &&processes::Process| p.args.iter().any(|arg| arg == "--core");
            all.iter().filter(is_core).any(|p| p.pid != first.pid)
        });
        parent.wait_joined(1);
        parent.rpc.run(TASK);
        assert_eq!(names(&parent.asked("the whole")[1]), ["max"], "{version:?}");
    }
}

#[test]
fn what_the_second_core_owed_comes_after_a_reload() {
    // R-DELIV-17: a core is started again once; the reload that the tools ask for brings the next
    for version in Version::ALL {
        let mut parent = Parent::open(version, |pi, command| {
            let path = pi.sandbox.root().join("hands.ts");
            std::fs::write(&path, HANDS).unwrap();
            command.arg("--extension").arg(path);
            command.env("PI_AGENTS_LOG", "debug");
        });
        parent.model.on(
            "the whole",
            [
                Turn::new().text("wait"),
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::call("agent_spawn", spawn("part two", true)),
                Turn::say("a pity"),
                Turn::say("what a pity"),
                Turn::say("thank you"),
            ],
        );
        parent.model.on("part one", [Turn::hang()]);
        parent.rpc.run(TASK);
        parent.wait_joined(1);
        processes::kill(&[parent.core()]);
        parent.wait_joined(2);
        parent.rpc.run("begin");
        parent.model.wait_first("part one");
        let second = parent.core();
        let agent = parent.agents("max");
        assert_eq!(agent.len(), 1);
        processes::kill(&[second]);
        wait::wait_until("the agent to be gone", || !agent[0].alive());
        let session = parent.session();
        parent.stays_quiet("the whole");
        parent.rpc.run("and the next");
        let results = parent.asked("the whole").pop().unwrap().tool_results();
        assert!(results[1].contains("/reload"), "{version:?}: {results:?}");
        assert!(delivered(&session).is_empty(), "{version:?}");
        let before = parent.rpc.records().len();
        parent.rpc.prompt("/again");
        parent.rpc.wait_settled(before);
        parent.rpc.run("go on");
        assert_eq!(parent.asked("the whole").len(), 7, "{version:?}");
        parent.told_once(&session, "the whole", &[LOST]);
    }
}

#[test]
fn a_killed_core_loses_nothing_that_waited_for_a_boundary() {
    // R-DELIV-05, R-DELIV-17: results in the bridge's memory are the dead core's; the next one has
    // them on its disk
    for version in Version::ALL {
        let mut parent = loud(version);
        let (held, gate) = (Gate::new(), Gate::new());
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true))
                    .tool("agent_spawn", spawn("part two", true)),
                Turn::new().gate(&held).text("meanwhile"),
                Turn::say("I see"),
                Turn::say("thank you"),
            ],
        );
        parent
            .model
            .on("part one", [Turn::new().gate(&gate).text("result of one")]);
        parent.model.on("part two", [Turn::hang()]);
        let before = parent.rpc.records().len();
        parent.rpc.prompt(TASK);
        held.wait_arrival("the second request");
        parent.model.wait_first("part two");
        gate.open();
        parent.wait_held(1);
        let core = parent.core();
        processes::kill(std::slice::from_ref(&core));
        // The next core offers both, and the bridge holds them.
        parent.wait_held(3);
        held.open();
        parent.rpc.wait_settled(before);
        let session = parent.session();
        let last = parent.told_once(&session, "the whole", &["result of one", LOST]);
        assert_eq!(parent.asked("the whole").len(), 3, "{version:?}");
        let status = |value: &Value| value["status"].clone();
        assert_eq!(status(&last[0]), "completed", "{last:?}");
        assert_eq!(status(&last[1]), "failed", "{last:?}");
    }
}

#[test]
fn a_killed_pi_is_told_the_rest_when_its_session_is_resumed() {
    // R-DELIV-05, R-LIFE-08: one result is in the file, one waited for a boundary, one run ended
    // with Pi
    for version in Version::ALL {
        let mut parent = loud(version);
        let (held, gates) = (Gate::new(), [Gate::new(), Gate::new()]);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true))
                    .tool("agent_spawn", spawn("part two", true))
                    .tool("agent_spawn", spawn("part three", true)),
                Turn::say("started"),
                Turn::new().gate(&held).text("one is there"),
                Turn::say("two as well"),
                Turn::say("thank you"),
            ],
        );
        for (part, gate) in [("one", &gates[0]), ("two", &gates[1])] {
            let result = format!("result of {part}");
            parent.model.on(
                &format!("part {part}"),
                [Turn::new().gate(gate).text(&result)],
            );
        }
        parent.model.on("part three", [Turn::hang()]);
        parent.rpc.run(TASK);
        parent.model.wait_first("part three");
        let session = parent.session();
        gates[0].open();
        held.wait_arrival("the wake");
        gates[1].open();
        parent.wait_held(1);
        parent.kill();
        assert_eq!(delivered(&session).len(), 1, "{version:?}");
        resume(&mut parent, version, &session);
        parent.wait_delivered(&session, &["result of two", "because its session ended"]);
        wait::wait_until("the wake", || parent.asked("the whole").len() == 4);
        parent.wait_idle();
        parent.rpc.run("go on");
        assert_eq!(parent.asked("the whole").len(), 5, "{version:?}");
        parent.told_once(
            &session,
            "the whole",
            &["result of one", "result of two", ENDED],
        );
        // And never again.
        parent.kill();
        resume(&mut parent, version, &session);
        parent.wait_joined(1);
        parent.model.on_last("are you there", Turn::say("yes"));
        parent.rpc.run("are you there");
        parent.told_once(
            &session,
            "the whole",
            &["result of one", "result of two", ENDED],
        );
    }
}

#[test]
fn both_killed_is_told_of_once_as_well() {
    // R-DELIV-05, R-DELIV-17
    for version in Version::ALL {
        let mut parent = loud(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
                Turn::say("what a pity"),
                Turn::say("thank you"),
            ],
        );
        parent.model.on("part one", [Turn::hang()]);
        parent.rpc.run(TASK);
        parent.model.wait_first("part one");
        let session = parent.session();
        processes::kill(&[parent.core()]);
        parent.kill();
        resume(&mut parent, version, &session);
        wait::wait_until("the wake", || parent.asked("the whole").len() == 3);
        parent.wait_idle();
        parent.rpc.run("go on");
        let last = parent.told_once(&session, "the whole", &[LOST]);
        assert_eq!(last[0]["status"], "failed");
    }
}

#[test]
fn an_aborted_parent_that_is_killed_is_not_woken_when_it_is_back() {
    // R-DELIV-04: silent until the parent accepts another run, whatever happened in between
    for version in Version::ALL {
        let mut parent = loud(version);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::hang(),
                Turn::say("what a pity"),
            ],
        );
        parent.model.on("part one", [Turn::hang()]);
        let before = parent.rpc.records().len();
        parent.rpc.prompt(TASK);
        wait::wait_until("the request", || parent.asked("the whole").len() == 2);
        parent.rpc.request("abort", json!({}));
        parent.rpc.wait_settled(before);
        let session = parent.session();
        processes::kill(&[parent.core()]);
        parent.kill();
        resume(&mut parent, version, &session);
        parent.wait_delivered(&session, &["supervisor lost"]);
        parent.stays_quiet("the whole");
        parent.rpc.run("go on");
        parent.told_once(&session, "the whole", &[LOST]);
        assert_eq!(parent.asked("the whole").len(), 3, "{version:?}");
    }
}

#[test]
fn what_comes_before_the_session_has_a_file_is_not_lost_with_pi() {
    // R-DELIV-05: in memory is not delivered. The file was removed, Pi has the session by its id alone.
    for version in Version::ALL {
        let mut parent = loud(version);
        parent.rpc.close_stdin();
        parent.rpc.wait_exit();
        let id = ["--session-id", "a-session-of-mine"];
        parent.start_again(&id);
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true)),
                Turn::say("started"),
            ],
        );
        parent.model.on("part one", [Turn::hang()]);
        parent.rpc.run(TASK);
        parent.model.wait_first("part one");
        let session = parent.session();
        parent.kill();
        parent.wait_journal(&["because its session ended"]);
        std::fs::remove_file(&session).unwrap();
        // Twice: it is in the session, and the session is nowhere.
        for _ in 0..2 {
            parent.start_again(&id);
            let said = parent.rpc.wait_record("the result", |r| {
                r["message"]["customType"] == "pi-agents-final-reply"
            });
            assert!(said.to_string().contains("because its session ended"));
            let session = parent.session();
            assert!(!session.exists(), "{version:?}");
            parent.wait_journal(&["because its session ended"]);
            parent.kill();
            parent.wait_journal(&["because its session ended"]);
        }
        parent.start_again(&id);
        parent.model.on_last("are you there", Turn::say("yes"));
        parent.rpc.wait_record("the result", |r| {
            r["message"]["customType"] == "pi-agents-final-reply"
        });
        parent.rpc.run("are you there");
        let session = parent.session();
        assert_eq!(delivered(&session).len(), 1, "{version:?}");
        wait::wait_until("nothing to be owed", || {
            !parent.journals().contains("a-session-of-mine") || parent.journals().contains("acked")
        });
        parent.kill();
        parent.start_again(&id);
        parent.wait_joined(1);
        parent.rpc.run("are you there now: are you there");
        assert_eq!(delivered(&session).len(), 1, "{version:?}");
        let last = parent.model.requests().pop().unwrap();
        assert_eq!(told(&last).len(), 1, "{version:?}");
    }
}

/// Both ways in which a person gets back to a session.
fn resume(parent: &mut Parent, version: Version, session: &Path) {
    match version {
        Version::Newest => parent.start_again(&["--session", session.to_str().unwrap()]),
        Version::Oldest => parent.start_again(&["--continue"]),
    }
}
