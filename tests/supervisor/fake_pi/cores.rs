//! The core itself: one per folder, ends when it is not used, sums up at its end.

use std::time::Duration;

use pi_agents::client::{AgentRef, ErrorCode, Request};
use pi_agents::fleet::agent::{Status, StopCause};
use serde_json::Value;

use super::{agents_alive, wait_idle};
use crate::support::core::{Core, serve, verb};
use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::wait;

/// Starts a core that nobody is attached to; gives its guard and its pid.
fn unattended(pi: &FakePi, idle_ms: &str) -> (std::process::Child, u32) {
    let (guard, line) = serve(pi, &[("PI_AGENTS_CORE_IDLE_EXIT_MS", idle_ms)]);
    let pid = line["ready"]["pid"].as_u64().unwrap();
    (guard, u32::try_from(pid).unwrap())
}

#[test]
fn a_core_that_nobody_uses_ends_by_itself() {
    // R-LIFE-19
    let pi = FakePi::new();
    let (mut guard, pid) = unattended(&pi, "300");
    wait::wait_until("the core ends", || !processes::alive(pid));
    assert!(guard.wait().unwrap().success());
}

#[test]
fn idle_agents_do_not_keep_a_core_and_end_with_it() {
    // R-LIFE-19
    let pi = FakePi::new();
    let (mut guard, pid) = unattended(&pi, "700");
    let out = verb(&pi, &["spawn", "--json", "task"]);
    assert!(out.status.success(), "{out:?}");
    wait::wait_until("the core ends", || !processes::alive(pid));
    guard.wait().unwrap();
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
    let next = Core::start(&pi);
    let row = next.fleet().agents[0].clone();
    assert_eq!(
        row.status,
        Status::Stopped {
            by: StopCause::Shutdown
        }
    );
    assert_eq!(row.runs_ended, 1);
}

#[test]
fn a_core_never_ends_while_something_runs() {
    // R-LIFE-19
    let pi = FakePi::new();
    let (mut guard, pid) = unattended(&pi, "150");
    let go = pi.work().join("go");
    let out = verb(
        &pi,
        &["spawn", "--json", &format!("fake:wait {}", go.display())],
    );
    assert!(out.status.success(), "{out:?}");
    // Nothing to wait for shows that something does not happen: ten times its patience.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(processes::alive(pid));
    std::fs::write(go, "").unwrap();
    wait::wait_until("then it ends", || !processes::alive(pid));
    guard.wait().unwrap();
}

#[test]
fn a_core_never_ends_while_somebody_looks() {
    // R-LIFE-19
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_CORE_IDLE_EXIT_MS", "150")]);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    std::thread::sleep(Duration::from_millis(1200));
    core.send(&name, "still there?");
    wait_idle(&core, &name, 2);
}

#[test]
fn two_cores_at_once_for_one_folder_are_one() {
    // design §1: whoever loses says so and ends
    let pi = FakePi::new();
    let results: Vec<(std::process::Child, Value)> = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..3).map(|_| scope.spawn(|| serve(&pi, &[]))).collect();
        tasks.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut ready = 0;
    for (mut guard, line) in results {
        if line.get("ready").is_some() {
            ready += 1;
        } else {
            assert!(
                line["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("already works"),
                "{line}"
            );
            assert_eq!(guard.wait().unwrap().code(), Some(5));
        }
    }
    assert_eq!(ready, 1);
    let out = verb(&pi, &["shutdown"]);
    assert!(out.status.success(), "{out:?}");
    wait::wait_until("all gone", || {
        agents_alive(&pi).is_empty() && pi.sandbox.processes().is_empty()
    });
}

#[test]
fn the_folder_is_free_again_after_the_end() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    core.shutdown();
    let next = Core::start(&pi);
    // Names of a rebuilt roster stay taken (R-ID-01).
    let other = next.spawn("another");
    assert_ne!(other, name);
    assert_eq!(next.fleet().agents.len(), 2);
}

#[test]
fn a_message_for_one_agent_never_reaches_another_of_its_name() {
    // B097, R-ID-01: by identity it is another agent; by name it is never reused in a folder
    let here = FakePi::new();
    let there = FakePi::new();
    let old = Core::start(&here);
    let name = old.spawn("hello");
    let id = old.agent(&name).id;
    let other = Core::start(&there);
    assert_eq!(
        other.spawn("hello"),
        name,
        "the same name in another folder"
    );
    let error = other
        .ask(Request::Send {
            agent: AgentRef::Id(id),
            text: "for the one in the other folder".into(),
            env: Vec::new(),
        })
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
    old.shutdown();
    let next = Core::start(&here);
    assert_ne!(next.spawn("hello"), name, "its name stays taken");
    assert_eq!(next.agent(&name).id, id);
    assert!(
        there
            .commands("prompt")
            .iter()
            .all(|p| p["message"] == "hello")
    );
}
