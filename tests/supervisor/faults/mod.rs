//! Faults injected into the real processes (guard, core, children, tools) at random moments, and
//! resources that run out. What must hold afterwards is the same every time: one end per run, one
//! answer per call, a reason in the row, nothing alive that should not be, records that are whole,
//! and a next message that works.
//!
//! Random moments come from a seed. `PI_AGENTS_TEST_SEED=S` plays that one only,
//! `PI_AGENTS_TEST_SEEDS=N` plays N of them instead of the few of an ordinary run.

mod cores;
mod disk;
mod exec;
mod files;
mod kills;
mod many;
mod pipes;
mod real_pi;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pi_agents::client::{Request, SpawnRequest};
use pi_agents::fleet::roster::AgentView;
use serde_json::Value;

use super::fake_pi::{find_file, var};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::processes::Process;
use crate::support::wait;

/// Seeds of an ordinary run.
const SEEDS: u64 = 1;

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Lets a random part of so many milliseconds pass. The moment of a fault is no condition that
    /// could be waited for: that it is any moment is what is tested.
    fn pass(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_micros(self.next() % (ms * 1000)));
    }
}

/// Plays a test with each seed and names the one that failed.
fn with_seeds(play: impl Fn(&mut Rng)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("PI_AGENTS_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("PI_AGENTS_TEST_SEEDS").unwrap_or(SEEDS) + 1,
    };
    for seed in seeds {
        if catch_unwind(AssertUnwindSafe(|| play(&mut Rng(seed)))).is_err() {
            panic!("failed with PI_AGENTS_TEST_SEED={seed}");
        }
    }
}

/// A request for an agent whose fake has those options.
fn with_options(mut request: SpawnRequest, options: &str) -> SpawnRequest {
    request.env.push(var("FAKE_PI_OPTS", options));
    request
}

/// A message; should a fake have to be started for it, it has those options.
fn message_with(core: &Core, name: &str, text: &str, options: &str) -> Request {
    let mut request = core.send_request(name, text);
    if let Request::Send { env, .. } = &mut request {
        env.push(var("FAKE_PI_OPTS", options));
    }
    request
}

/// The record of an agent as it lies on the disk. It is whole, whatever happened.
#[track_caller]
fn record(pi: &FakePi, row: &AgentView) -> Value {
    let path = find_file(&pi.sandbox.state(), &format!("{}.json", row.id)).expect("its record");
    let text = std::fs::read(&path).unwrap();
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{e}: {}", path.display()))
}

/// Waits until the record says what the row says: what survives the core is what is seen.
#[track_caller]
fn wait_recorded(core: &Core, pi: &FakePi, name: &str) {
    wait::wait_for_or(
        "the record says what the row says",
        || {
            let (row, record) = (core.agent(name), record(pi, &core.agent(name)));
            let same = record["status"] == serde_json::to_value(&row.status).unwrap()
                && record["runs_ended"] == row.runs_ended;
            same.then_some(())
        },
        || {
            format!(
                "{:#?}\n{:#}",
                core.agent(name),
                record(pi, &core.agent(name))
            )
        },
    );
}

/// Processes of a sandbox that are neither core nor guard nor one of these.
fn others_alive(pi: &FakePi, but: &[u32]) -> Vec<Process> {
    let mut all = pi.sandbox.processes();
    all.retain(|p| !p.args.iter().any(|a| a == "serve") && !but.contains(&p.pid));
    all
}

/// Waits until nothing else is alive; the promise is five seconds.
#[track_caller]
fn wait_alone(pi: &FakePi, but: &[u32]) {
    let began = std::time::Instant::now();
    wait::wait_for_or(
        "nothing is left alive",
        || others_alive(pi, but).is_empty().then_some(()),
        || format!("{:#?}", others_alive(pi, but)),
    );
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5) || wait::crowded(), "{took:?}");
}
