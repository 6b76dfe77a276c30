//! Cores that hang, die, race each other, or share a session with a stranger. (design §1, §2)

use std::sync::Arc;
use std::time::Duration;

use pi_agents::client::{ErrorCode, FleetClient, Reply, Request};
use pi_agents::control::client::connect;
use pi_agents::control::protocol::Role;
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::FleetSnapshot;
use pi_agents::sys::lock::FileLock;
use rustix::process::Signal;

use super::super::fake_pi::{FAST_LADDER, find_file, is_failed, pids, reason, wait_idle};
use super::{Rng, record, wait_alone, with_options, with_seeds};
use crate::support::core::{Core, serve, verb};
use crate::support::fake::FakePi;
use crate::support::processes::{self, signal};
use crate::support::wait;

#[test]
fn a_core_that_hangs_is_named_and_works_again_when_it_goes_on_or_is_replaced() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    signal(core.pid, Signal::STOP);
    // A client is told after its time which process it is and what can be done.
    let out = verb(&pi, &["ps", "--json"]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let (message, hint) = (&line["error"]["message"], &line["error"]["hint"]);
    let process = format!("process {}", core.pid);
    let message = message.as_str().unwrap();
    assert!(message.contains("does not answer"), "{line}");
    assert!(message.contains(&process), "{line}");
    assert!(hint.as_str().unwrap().contains("kill -CONT"), "{line}");
    // It still has the folder: no second core beside it.
    let (mut guard, line) = serve(&pi, &[]);
    assert!(line.to_string().contains("already works"), "{line}");
    assert!(line.to_string().contains(&process), "{line}");
    assert_eq!(guard.wait().unwrap().code(), Some(5));
    signal(core.pid, Signal::CONT);
    assert!(verb(&pi, &["ps"]).status.success());
    core.send(&name, "still there?");
    wait_idle(&core, &name, 2);
    // Stopped again and killed: the next start works.
    signal(core.pid, Signal::STOP);
    signal(core.pid, Signal::KILL);
    core.wait_lost();
    let next = Core::start(&pi);
    assert_eq!(next.agent(&name).status, Status::Completed);
    next.send(&name, "back");
    next.wait_agent(&name, "back", |a| {
        a.status == Status::Idle && a.runs_ended == 3
    });
}

// R-LIFE-10: never two writers of ours on one session, also when core and guard are gone and the sweep of the next core could
// not end what they left.
#[test]
fn a_session_that_a_process_of_a_dead_core_still_has_is_given_to_no_other() {
    let pi = FakePi::new();
    let mut core = Core::start(&pi);
    let stubborn = with_options(core.spawn_request("task"), "--ignore-eof --ignore-term");
    let name = core.spawn_as(stubborn);
    wait_idle(&core, &name, 1);
    let old = core.agent(&name).pid.unwrap();
    let id = core.fleet().core.id;
    signal(core.guard.id(), Signal::KILL);
    signal(core.pid, Signal::KILL);
    core.guard.wait().unwrap();
    core.wait_lost();
    wait::wait_until("the core is gone", || !processes::alive(core.pid));
    // As a sweep does that goes on at the same time: whoever comes later leaves that core to it.
    let path = pi
        .sandbox
        .state()
        .join(format!("pi-agents/cores/{id}.lock"));
    let sweeping = FileLock::try_acquire_existing(&path).unwrap().unwrap();
    let next = Core::start(&pi);
    assert!(processes::alive(old), "the test needs it alive");
    let refused = next.ask(next.send_request(&name, "back")).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StartFailed);
    assert!(refused.message.contains("earlier core"), "{refused:?}");
    assert!(refused.hint.is_some_and(|h| h.contains("again")));
    assert_eq!(pi.events("start").len(), 1, "one process on one session");
    // Once it is gone the agent comes back.
    drop(sweeping);
    signal(old, Signal::KILL);
    wait::wait_until("it is gone", || !processes::alive(old));
    next.send(&name, "back");
    next.wait_agent(&name, "back", |a| a.status == Status::Idle);
}

#[test]
fn a_core_that_stood_still_past_its_deadlines_hears_its_children_first() {
    // R-LIFE-09, design §2: time that this process was held up counts for no deadline
    let pi = FakePi::new();
    let vars = [
        ("PI_AGENTS_LAUNCH_START_TIMEOUT_MS", "900"),
        ("PI_AGENTS_LAUNCH_PROMPT_TIMEOUT_MS", "900"),
    ];
    let core = Core::start_with(&pi, &vars);
    let idle = core.spawn("task");
    wait_idle(&core, &idle, 1);
    // Each answers in time, into a pipe that nobody reads at that moment.
    let slow = with_options(core.spawn_request("task"), "--start-delay 400");
    let starting = core.ask_later(Request::Spawn(slow));
    let limited = pi_agents::client::SpawnRequest {
        timeout_ms: Some(900),
        ..core.spawn_request("fake:sleep 400 ;; say done")
    };
    let limited = core.spawn_as(limited);
    let asked = core.ask_later(core.send_request(&idle, "fake:handled 400"));
    pi.wait_events("start", 3);
    wait::wait_until("the message is on its way", || {
        pi.commands("prompt").len() >= 3
    });
    signal(core.pid, Signal::STOP);
    std::thread::sleep(Duration::from_millis(1600));
    signal(core.pid, Signal::CONT);
    assert!(core.fetch(starting).is_ok());
    assert!(matches!(core.fetch(asked), Ok(Reply::Sent { .. })));
    let row = core.wait_agent(&limited, "its run is over", |a| a.runs_ended == 1);
    assert_eq!(row.status, Status::Idle, "{row:#?}");
}

#[test]
fn other_viewers_see_the_end_of_a_core_and_the_same_fleet_in_the_next() {
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let socket = find_file(&pi.sandbox.runtime(), ".sock").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let attach = || Arc::new(runtime.block_on(connect(&socket, Role::Viewer)).unwrap());
    let fleet = |client: &dyn FleetClient| -> FleetSnapshot {
        match runtime.block_on(client.request(Request::Snapshot)).unwrap() {
            Reply::Snapshot { fleet } => *fleet,
            other => panic!("{other:?}"),
        }
    };
    let other = attach();
    let before = fleet(&*other);
    let hanging = core.ask_later(Request::Spawn(with_options(
        core.spawn_request("new"),
        "--start-delay 60000",
    )));
    pi.wait_events("start", 2);
    signal(core.pid, Signal::KILL);
    let ended = runtime.block_on(async {
        tokio::time::timeout(wait::limit(), async {
            while other.updates().await.is_some() {}
        })
        .await
    });
    assert!(ended.is_ok(), "its news end");
    let refused = runtime
        .block_on(other.request(Request::Snapshot))
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::Disconnected);
    assert_eq!(
        core.fetch(hanging).unwrap_err().code,
        ErrorCode::Disconnected
    );

    let next = Core::start_with(&pi, FAST_LADDER);
    let again = attach();
    let after = fleet(&*again);
    assert_ne!(after.core.id, before.core.id);
    let old = after.agents.iter().find(|a| a.name == name).unwrap();
    assert_eq!((old.id, old.runs_ended), (before.agents[0].id, 1));
    let lost = after.agents.iter().find(|a| a.name != name).unwrap();
    assert!(
        is_failed(lost) && reason(lost) == "supervisor lost",
        "{lost:#?}"
    );
    next.shutdown();
    wait_alone(&pi, &[]);
}

#[test]
fn of_cores_that_race_for_the_folder_of_a_killed_one_one_wins_and_nothing_is_lost() {
    with_seeds(|rng: &mut Rng| {
        let pi = FakePi::new();
        let core = Core::start_with(&pi, FAST_LADDER);
        let names: Vec<String> = (0..3).map(|_| core.spawn("fake:stream 200 3")).collect();
        rng.pass(200);
        let rows: Vec<_> = names.iter().map(|name| core.agent(name)).collect();
        signal(core.pid, Signal::KILL);
        let lines: Vec<_> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..3).map(|_| scope.spawn(|| serve(&pi, &[]))).collect();
            tasks.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let mut ready = 0;
        for (mut guard, line) in lines {
            if line.get("ready").is_some() {
                ready += 1;
            } else {
                assert_eq!(guard.wait().unwrap().code(), Some(5), "{line}");
            }
        }
        assert_eq!(ready, 1);
        let starts = pids(&pi).len();
        let out = verb(&pi, &["ps", "--json"]);
        assert!(out.status.success(), "{out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        for name in &names {
            assert!(text.contains(&format!("\"{name}\"")), "{text}");
        }
        assert_eq!(pids(&pi).len(), starts, "nothing revived");
        for row in &rows {
            assert_eq!(record(&pi, row)["name"], row.name.as_str());
        }
        // Children of the dead one are gone, whoever won.
        wait_alone(&pi, &[]);
        assert!(verb(&pi, &["shutdown"]).status.success());
        wait::wait_until("nothing is left", || pi.sandbox.processes().is_empty());
    });
}

#[test]
fn a_stranger_that_writes_the_same_session_loses_nothing_and_meets_one_of_ours() {
    // R-LIFE-10, R-LIFE-17: a foreign Pi takes no lock; we add no second writer of our own
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("task");
    let session = wait_idle(&core, &name, 1).session_path.unwrap();
    let mut stranger = pi.rpc(&["--session", session.to_str().unwrap()]);
    let ours = core.ask_later(core.send_request(&name, "fake:stream 30 3 ;; say of ours"));
    stranger.run("fake:stream 30 3 ;; say of the stranger");
    assert!(core.fetch(ours).is_ok());
    wait_idle(&core, &name, 2);
    core.stop(&name);
    stranger.run("and once more");
    core.send(&name, "back");
    wait_idle(&core, &name, 3);
    let text = std::fs::read_to_string(&session).unwrap();
    for line in text.lines() {
        let entry: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(entry.is_ok(), "half a line: {line:?}");
    }
    for said in [
        "task",
        "of ours",
        "of the stranger",
        "and once more",
        "back",
    ] {
        assert!(text.contains(said), "{said:?} is lost:\n{text}");
    }
    // Ours, one after the other; the stranger is not ours to end.
    let of_core = processes::descendants_of(core.pid);
    assert_eq!(of_core.len(), 1, "{of_core:#?}");
    assert_eq!(pids(&pi).len(), 3);
    assert!(stranger.exited().is_none());
}
