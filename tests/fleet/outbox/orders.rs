//! Every order of what can happen to a few deliveries, and very many orders of what can happen to more.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::sim::{Sim, Step};

/// Plays every order in which the budgeted steps can happen: each at most as often as it is in the list.
fn every_order(start: &[Step], steps: &[Step]) -> usize {
    let mut sim = Sim::new();
    for step in start {
        sim.step(*step);
    }
    let mut left: Vec<Step> = steps.to_vec();
    left.sort_unstable();
    let mut seen = HashSet::new();
    explore(&sim, &left, &mut seen);
    seen.len()
}

fn explore(sim: &Sim, left: &[Step], seen: &mut HashSet<u64>) {
    let mut hasher = DefaultHasher::new();
    format!("{sim:?}{left:?}").hash(&mut hasher);
    if !seen.insert(hasher.finish()) {
        return;
    }
    sim.clone().comes_to_rest();
    for (at, step) in left.iter().enumerate() {
        let repeated = at > 0 && left.get(at - 1) == Some(step);
        if repeated || !sim.may(*step) {
            continue;
        }
        let mut next = sim.clone();
        next.step(*step);
        let mut rest = left.to_vec();
        rest.remove(at);
        explore(&next, &rest, seen);
    }
}

const READY: [Step; 3] = [Step::SessionIsWritten, Step::Join, Step::CoreReads];

#[test]
fn every_order_of_two_waits_a_settlement_and_the_timer() {
    // R-ORCH-04, scenario 24
    let steps = [
        Step::Open(1),
        Step::Settle(1),
        Step::Sync,
        Step::Sync,
        Step::Claim(1, 1),
        Step::Unclaim(1),
        Step::Pull(1),
        Step::Claim(1, 2),
        Step::Unclaim(2),
        Step::Pull(2),
        Step::TimerDue,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::Prompt,
        Step::Boundary(true),
        Step::Check,
        Step::CoreReads,
    ];
    assert!(every_order(&READY, &steps) > 1000);
}

#[test]
fn every_order_of_an_offer_and_what_the_host_does() {
    // R-DELIV-02, R-DELIV-03, R-DELIV-04
    let steps = [
        Step::TimerDue,
        Step::BridgeReads,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::Prompt,
        Step::Boundary(false),
        Step::RunIsAborted,
        Step::Check,
        Step::Settle(2),
        Step::Sync,
    ];
    let start = [READY.as_slice(), &[Step::Settle(1), Step::Sync]].concat();
    assert!(every_order(&start, &steps) > 1000);
}

#[test]
fn every_order_of_a_delivery_and_a_crash_of_each_side() {
    // R-DELIV-05, R-DELIV-17
    let steps = [
        Step::Open(1),
        Step::Settle(1),
        Step::Sync,
        Step::Sync,
        Step::TimerDue,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::Check,
        Step::CoreDies(0),
        Step::CoreDies(1),
        Step::PiDies,
        Step::Join,
        Step::Join,
        Step::CoreReads,
        Step::TimerDue,
        Step::BridgeReads,
    ];
    assert!(every_order(&READY, &steps) > 1000);
}

#[test]
fn every_order_of_a_foreground_call_and_a_lost_core() {
    // R-DELIV-09, R-TOOL-10, R-DELIV-17
    let steps = [
        Step::OpenForeground(1),
        Step::Settle(1),
        Step::Suppress(1),
        Step::Pull(101),
        Step::Unclaim(101),
        Step::Sync,
        Step::Sync,
        Step::TimerDue,
        Step::BridgeReads,
        Step::CoreDies(1),
        Step::Leave,
        Step::Join,
        Step::Join,
        Step::CoreReads,
        Step::CoreReads,
        Step::Claim(1, 1),
        Step::Pull(1),
    ];
    assert!(every_order(&READY, &steps) > 1000);
}

#[test]
fn every_order_of_a_question_beside_a_result() {
    // R-DELIV-10, R-DELIV-18
    let steps = [
        Step::Ask(1),
        Step::Settle(1),
        Step::Sync,
        Step::Sync,
        Step::TimerDue,
        Step::BridgeReads,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::RunIsAborted,
        Step::Boundary(true),
        Step::Boundary(false),
        Step::Check,
        Step::Check,
        Step::CoreReads,
        Step::Prompt,
    ];
    assert!(every_order(&READY, &steps) > 1000);
}

#[test]
fn every_order_around_a_session_that_is_not_written_yet() {
    // R-DELIV-05
    let steps = [
        Step::TimerDue,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreReads,
        Step::Check,
        Step::Check,
        Step::CoreReads,
        Step::SessionIsWritten,
        Step::Leave,
        Step::PiDies,
        Step::Join,
        Step::Join,
        Step::CoreReads,
        Step::TimerDue,
        Step::BridgeReads,
        Step::CoreReads,
        Step::CoreDies(0),
    ];
    let start = [Step::Join, Step::CoreReads, Step::Settle(1), Step::Sync];
    assert!(every_order(&start, &steps) > 1000);
}

/// A small generator of our own (SplitMix64), so that a seed is a world.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn step(&mut self) -> Step {
        let run = self.below(5);
        let call = self.below(3);
        match self.below(36) {
            0 | 1 => Step::Open(run),
            2 => Step::OpenForeground(run),
            3..=5 => Step::Settle(run),
            6 => Step::Suppress(run),
            7 => Step::Ask(run),
            8 | 9 => Step::Claim(run, call),
            10 => Step::Unclaim(call),
            11 => Step::Pull(call),
            12 => Step::Pull(100 + run),
            13 => Step::Unclaim(100 + run),
            14..=16 => Step::Sync,
            17 => Step::JournalFails,
            18 => Step::JournalRecovers,
            19 => Step::TimerDue,
            20..=22 => Step::BridgeReads,
            23..=25 => Step::CoreReads,
            26 => Step::Boundary(self.below(4) == 0),
            27 => Step::Prompt,
            28 => Step::RunEnds,
            29 => Step::RunIsAborted,
            30 | 31 => Step::Check,
            32 => Step::SessionIsWritten,
            33 => Step::Join,
            34 if self.below(3) == 0 => Step::Leave,
            34 if self.below(3) == 0 => Step::PiDies,
            35 if self.below(3) == 0 => Step::CoreDies(self.below(4) as usize),
            _ => Step::BridgeReads,
        }
    }
}

fn worlds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let mut played = Vec::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut sim = Sim::new();
            for _ in 0..120 {
                let step = random.step();
                if sim.may(step) {
                    played.push(step);
                    sim.step(step);
                }
            }
            sim.comes_to_rest();
        }));
        assert!(outcome.is_ok(), "world {seed}: {played:?}");
    }
}

#[test]
fn exactly_once_in_thousands_of_worlds() {
    // R-ORCH-04, R-DELIV-01, R-DELIV-05
    worlds(0..6_000);
}

#[test]
#[ignore = "minutes; for a change of the outbox: cargo test --release --test it -- --ignored millions_of_worlds"]
fn exactly_once_in_millions_of_worlds() {
    // R-ORCH-04, R-DELIV-01, R-DELIV-05
    worlds(1_000_000..2_000_000);
}
