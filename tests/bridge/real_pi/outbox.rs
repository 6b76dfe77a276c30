//! The real outbox decides, the real bridge and a real Pi carry it out: results at random moments,
//! between prompts and aborts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pi_agents::control::bridge::{Ack, Activity as Said, Epoch, HostState, Refused};
use pi_agents::fleet::completion::{Completion, CompletionId, CompletionStatus, Delivery};
use pi_agents::fleet::ids::InstanceId;
use pi_agents::fleet::outbox::{Activity, OfferMode, Outbox, OutboxEffect};
use serde_json::{Value, json};
use uuid::Uuid;

use super::world::World;
use crate::bridge::scripted_core::Connection;
use crate::support::model::Turn;
use crate::support::versions::Version;
use crate::support::wait;

/// How many results.
const RESULTS: u64 = 40;

/// A small generator: the same orderings for the same seed, as far as two processes allow.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn completion(run: u64) -> Completion {
    Completion {
        id: CompletionId {
            instance: InstanceId(Uuid::from_u128(7)),
            run,
        },
        agent: "max".into(),
        status: CompletionStatus::Completed,
        result: format!("reply {run}"),
        session_path: None,
        idle: true,
    }
}

/// What a core does between its outbox and its bridge.
struct Courier {
    outbox: Outbox,
    connection: Arc<Connection>,
    read: usize,
    wake_due: bool,
    acked: usize,
}

impl Courier {
    fn new(connection: Arc<Connection>) -> Self {
        let mut outbox = Outbox::new();
        outbox.join(connection.generation(), &[], false);
        Self {
            outbox,
            connection,
            read: 0,
            wake_due: false,
            acked: 0,
        }
    }

    fn step(&mut self) {
        let all = self.connection.received();
        for message in &all[self.read..] {
            self.hear(message);
        }
        self.read = all.len();
        if std::mem::take(&mut self.wake_due) {
            self.outbox.wake_due();
        }
        loop {
            let effects = self.outbox.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    OutboxEffect::Journal { seq, .. } => self.outbox.journaled(seq),
                    OutboxEffect::ArmWake => self.wake_due = true,
                    OutboxEffect::DisarmWake => self.wake_due = false,
                    OutboxEffect::Offer {
                        generation,
                        epoch,
                        mode,
                        deliveries,
                    } => self.offer(generation, epoch, mode, &deliveries),
                    OutboxEffect::Degraded(_) => panic!("the journal is fine"),
                }
            }
        }
    }

    fn hear(&mut self, message: &Value) {
        let params = message["params"].clone();
        match message["method"].as_str() {
            Some("host/state") => {
                let state: HostState = serde_json::from_value(params).unwrap();
                self.outbox.host_state(match state.state {
                    Said::Busy => Activity::Busy,
                    Said::Idle => Activity::Idle,
                    Said::Aborted => Activity::Silent,
                });
            }
            Some("host/taken") => {
                let taken: Epoch = serde_json::from_value(params).unwrap();
                self.outbox.taken(taken.generation, taken.epoch);
            }
            Some("host/refused") => {
                let refused: Refused = serde_json::from_value(params).unwrap();
                self.outbox.refused(refused.generation, refused.epoch);
            }
            Some("host/ack") => {
                let ack: Ack = serde_json::from_value(params).unwrap();
                assert!(ack.missing.is_empty(), "nobody drops anything: {ack:?}");
                let found: Vec<_> = ack.found.iter().map(|id| id.parse().unwrap()).collect();
                self.acked += if ack.durable { found.len() } else { 0 };
                let epoch = ack.epoch.unwrap_or(0);
                self.outbox
                    .checked(ack.generation, epoch, &found, ack.durable);
            }
            _ => {}
        }
    }

    fn offer(&self, generation: u64, epoch: u64, mode: OfferMode, deliveries: &[Delivery]) {
        let deliveries: Vec<Value> = deliveries
            .iter()
            .map(|delivery| {
                json!({
                    "id": delivery.id(),
                    "kind": "final_reply",
                    "content": delivery.content(),
                    "details": {},
                })
            })
            .collect();
        self.connection.notify(
            "host/offer",
            json!({"generation": generation, "epoch": epoch, "mode": mode, "deliveries": deliveries}),
        );
    }
}

// R-DELIV-01 to R-DELIV-05: exactly once, whatever the order; and no prompt is lost to a wake.
#[test]
fn results_at_random_moments_arrive_exactly_once() {
    for version in Version::ALL {
        let (mut world, connection) = World::joined(version);
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id()));
        let seed = dice.0;
        world.model.answer(|request| {
            let pause = Duration::from_millis(5 + request.number as u64 % 7 * 10);
            Some(match request.number % 3 {
                0 => Turn::new()
                    .pause(pause)
                    .tool("bash", json!({"command": "sleep 0.02"})),
                _ => Turn::new().pause(pause).text("so be it"),
            })
        });
        world.rpc.run("first");
        let mut prompts = 1;
        let mut settled = 0;
        let mut courier = Courier::new(connection);
        let mut next = Instant::now();
        wait::wait_until("everything to be acknowledged", || {
            courier.step();
            if settled < RESULTS && Instant::now() >= next {
                next = Instant::now() + Duration::from_millis(dice.below(60));
                match dice.below(20) {
                    0..=12 => {
                        for _ in 0..=dice.below(3) {
                            if settled < RESULTS {
                                settled += 1;
                                assert!(courier.outbox.settle(completion(settled)));
                            }
                        }
                    }
                    13..=16 => {
                        let response = world.rpc.prompt(&format!("prompt {prompts}"));
                        assert_eq!(response["success"], true, "{response}");
                        prompts += 1;
                    }
                    _ => {
                        world.rpc.request("abort", json!({}));
                    }
                }
            }
            courier.acked >= usize::try_from(RESULTS).unwrap()
        });
        // What an abort left in Pi's queue goes out with the next prompt.
        world.rpc.prompt("last");
        prompts += 1;
        wait::wait_until("Pi to be idle with nothing queued", || {
            courier.step();
            let state = world.rpc.request("get_state", json!({}))["data"].clone();
            state["isStreaming"] == false && state["pendingMessageCount"] == 0
        });
        assert_eq!(courier.acked, usize::try_from(RESULTS).unwrap());
        let saved = world.saved();
        let mut texts: Vec<&str> = saved
            .iter()
            .filter(|entry| entry["type"] == "custom_message")
            .map(|entry| entry["content"].as_str().unwrap())
            .collect();
        texts.sort_unstable();
        let mut expected: Vec<String> = (1..=RESULTS)
            .map(|run| Delivery::FinalReply(completion(run)).content())
            .collect();
        expected.sort_unstable();
        assert_eq!(texts, expected, "seed {seed}");
        let users = saved
            .iter()
            .filter(|entry| entry["message"]["role"] == "user");
        assert_eq!(users.count(), prompts, "seed {seed}");
    }
}
