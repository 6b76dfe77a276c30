//! The seeded simulation of `fleet::machine`: thousands of worlds in which everything that can come out of order does, with
//! every promise checked after every step (R-LIFE, R-DELIV, R-ID, R-PI-07).
//!
//! `step` is what can happen; `world` carries it out: the machine with its clock and its effects, with `ask` (people and
//! hosts), `system` (processes), `guard` (the death of the core and what it leaves), `child` (a Pi that misbehaves) and
//! `host` (a Pi session with its bridge and its journal). What must hold: `told` notes what the machine knows, `oracle`
//! judges what it wants, `promise` what a session was told of, `judge` what it shows after each input and in the end.
//! `play` chooses the steps, `shrink` makes a failing world small, `failed` keeps such worlds, `traces` plays them again.

mod ask;
mod branch;
mod child;
mod failed;
mod guard;
mod host;
mod judge;
mod oracle;
mod play;
mod promise;
mod rng;
mod shrink;
mod step;
mod system;
mod told;
mod traces;
mod world;

use std::env;
use std::time::{Duration, Instant};

use shrink::{Trace, report};

/// Worlds that every `cargo test` plays, and steps of each before all comes to its end.
const WORLDS: u64 = 20_000;
const STEPS: usize = 200;

/// Plays worlds on two threads until `more` says no; the number of worlds, or the report of the first that failed.
fn play(first: u64, more: impl Fn(u64) -> bool + Sync) -> Result<u64, String> {
    const THREADS: u64 = 2;
    let failed = std::sync::atomic::AtomicBool::new(false);
    let one = |thread: u64| {
        let mut played = 0;
        while more(played * THREADS) && !failed.load(std::sync::atomic::Ordering::Relaxed) {
            let seed = first + thread + played * THREADS;
            let trace = Trace::of(seed, STEPS);
            if let Some(fault) = trace.fault() {
                failed.store(true, std::sync::atomic::Ordering::Relaxed);
                return Err(report(seed, played * THREADS, &trace, &fault));
            }
            played += 1;
        }
        Ok(played)
    };
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .collect::<Vec<_>>()
    });
    results.into_iter().sum()
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
    )
}

/// The default worlds, or as many as fit into `PI_AGENTS_SIM_SECONDS`, from `PI_AGENTS_SIM_SEED` on.
#[test]
fn nothing_breaks_a_promise_in_any_world() {
    let begun = Instant::now();
    let first = number_from_env("PI_AGENTS_SIM_SEED").unwrap_or(1);
    let result = match number_from_env("PI_AGENTS_SIM_SECONDS") {
        Some(seconds) => play(first, |_| begun.elapsed() < Duration::from_secs(seconds)),
        None => play(first, |played| played < WORLDS),
    };
    match result {
        Ok(worlds) => assert!(worlds > 0, "not one in {:?}", begun.elapsed()),
        Err(report) => panic!("{report}"),
    }
}
