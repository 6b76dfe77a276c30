//! A hundred agents at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pi_agents::client::{AgentRef, FleetClient, Reply, Request};
use pi_agents::control::client::connect;
use pi_agents::control::protocol::Role;
use pi_agents::fleet::agent::Status;

use super::super::fake_pi::{find_file, stopped_by_you};
use super::wait_alone;
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::wait;

const AGENTS: usize = 100;
/// More than one, because a connection has a bound on what it may ask at once.
const CLIENTS: usize = 4;
const SLOTS: usize = 2;

fn count(pid: u32, what: &str) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/{what}"))
        .unwrap()
        .count()
}

/// How many fakes were starting at the same time: started, and not asked anything yet.
fn most_at_once(pi: &FakePi) -> usize {
    let mut starting = HashSet::new();
    let mut most = 0;
    for event in pi.log() {
        let pid = event["pid"].as_u64();
        if event["event"] == "start" {
            starting.insert(pid);
        } else if event["event"] == "command" {
            starting.remove(&pid);
        }
        most = most.max(starting.len());
    }
    most
}

#[test]
fn a_hundred_at_once_are_paced_named_answered_and_gone_without_a_trace() {
    // R-PI-11, R-ID-01, R-LIFE-07
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_SLOTS", "2")]);
    let socket = find_file(&pi.sandbox.runtime(), ".sock").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let clients: Vec<Arc<_>> = (0..CLIENTS)
        .map(|_| Arc::new(runtime.block_on(connect(&socket, Role::Cli)).unwrap()))
        .collect();
    core.wait_fleet("all are attached", |f| {
        f.core.attached as usize == CLIENTS + 1
    });
    let descriptors = count(core.pid, "fd");

    let ask_all = |requests: Vec<Request>| -> Vec<Reply> {
        let calls: Vec<_> = requests
            .into_iter()
            .enumerate()
            .map(|(at, request)| {
                let client = Arc::clone(&clients[at % CLIENTS]);
                runtime.spawn(async move { client.request(request).await })
            })
            .collect();
        let answers = calls.into_iter().map(|call| {
            runtime.block_on(async {
                tokio::time::timeout(wait::limit() * 2, call)
                    .await
                    .expect("an answer in time")
                    .unwrap()
            })
        });
        answers.map(|answer| answer.expect("done")).collect()
    };
    let spawns = (0..AGENTS).map(|n| Request::Spawn(core.spawn_request(&format!("task {n}"))));
    let mut names = HashMap::new();
    for reply in ask_all(spawns.collect()) {
        let Reply::Spawned { name, agent, .. } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(names.insert(name, agent), None, "names are unique");
    }
    assert_eq!(names.len(), AGENTS);
    let fleet = core.wait_fleet("all are idle", |f| {
        f.agents.len() == AGENTS && f.agents.iter().all(|a| a.status == Status::Idle)
    });
    assert!(fleet.agents.iter().all(|a| a.runs_ended == 1));
    assert_eq!(pi.events("start").len(), AGENTS);
    assert!(most_at_once(&pi) <= SLOTS, "{}", most_at_once(&pi));

    let stops = names.keys().map(|name| Request::Stop {
        agent: AgentRef::Name(name.clone()),
    });
    for reply in ask_all(stops.collect()) {
        assert_eq!(reply, Reply::Stopped { was_live: true });
    }
    core.wait_fleet("all are stopped", |f| {
        f.agents
            .iter()
            .all(|a| stopped_by_you(a) && a.pid.is_none())
    });
    wait_alone(&pi, &[]);
    wait::wait_for_or(
        "as many descriptors as before",
        || (count(core.pid, "fd") == descriptors).then_some(()),
        || format!("{descriptors} before, {} now", count(core.pid, "fd")),
    );
    core.shutdown();
    wait::wait_until("nothing is left", || pi.sandbox.processes().is_empty());
}
