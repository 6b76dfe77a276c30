//! An outbox with names instead of ids, whose journal is written at once unless a test holds it.

use pi_agents::fleet::completion::{
    Completion, CompletionId, CompletionStatus, Delivery, DeliveryId, Question,
};
use pi_agents::fleet::ids::{CallId, InstanceId, MessageId};
use pi_agents::fleet::outbox::{
    Activity, JournalRecord, OfferMode, Outbox, OutboxEffect, OwedRun, Whereabouts,
};
use uuid::Uuid;

/// Run `n` of one process.
pub fn id(n: u64) -> CompletionId {
    CompletionId {
        instance: InstanceId(Uuid::from_u128(7)),
        run: n,
    }
}

/// Completion `n` as a delivery.
pub fn reply(n: u64) -> DeliveryId {
    id(n).into()
}

/// Question `n` as a delivery.
pub fn question(n: u64) -> DeliveryId {
    MessageId(Uuid::from_u128(u128::from(n))).into()
}

/// Call `n`.
pub fn call(n: u64) -> CallId {
    CallId(Uuid::from_u128(u128::from(n)))
}

pub fn owed(n: u64) -> OwedRun {
    OwedRun {
        id: id(n),
        agent: "max".to_owned(),
        session_path: Some("/s/max.jsonl".into()),
    }
}

pub fn completion(n: u64) -> Completion {
    Completion {
        id: id(n),
        agent: "max".to_owned(),
        status: CompletionStatus::Completed,
        result: format!("result {n}"),
        session_path: Some("/s/max.jsonl".into()),
        idle: true,
    }
}

/// An offer as it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub generation: u64,
    pub epoch: u64,
    pub mode: OfferMode,
    pub ids: Vec<DeliveryId>,
}

#[derive(Default)]
pub struct World {
    pub outbox: Outbox,
    /// Records are not reported as synced.
    pub hold_journal: bool,
    pub records: Vec<(u64, JournalRecord)>,
    pub offers: Vec<Offer>,
    pub deliveries: Vec<Delivery>,
    pub armed: bool,
    pub arms: usize,
    pub degraded: Option<bool>,
    pub generation: u64,
}

impl World {
    pub fn new() -> Self {
        Self::default()
    }

    /// A world whose bridge has joined a session that has nothing of ours, and does this.
    pub fn joined(activity: Activity) -> Self {
        let mut w = Self::new();
        w.join(&[]);
        w.state(activity);
        w
    }

    /// Carries out what the outbox wants, until it wants nothing.
    pub fn run(&mut self) {
        loop {
            let effects = self.outbox.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    OutboxEffect::Journal { seq, record } => {
                        self.records.push((seq, record));
                        if !self.hold_journal {
                            self.outbox.journaled(seq);
                        }
                    }
                    OutboxEffect::Offer {
                        generation,
                        epoch,
                        mode,
                        deliveries,
                    } => {
                        self.offers.push(Offer {
                            generation,
                            epoch,
                            mode,
                            ids: deliveries.iter().map(Delivery::id).collect(),
                        });
                        self.deliveries.extend(deliveries);
                    }
                    OutboxEffect::ArmWake => {
                        assert!(!self.armed, "armed twice");
                        self.armed = true;
                        self.arms += 1;
                    }
                    OutboxEffect::DisarmWake => {
                        assert!(self.armed, "disarmed twice");
                        self.armed = false;
                    }
                    OutboxEffect::Degraded(degraded) => self.degraded = Some(degraded),
                }
            }
        }
    }

    pub fn join(&mut self, known: &[DeliveryId]) {
        self.join_as(known, true);
    }

    pub fn join_as(&mut self, known: &[DeliveryId], durable: bool) {
        self.generation += 1;
        self.outbox.join(self.generation, known, durable);
        self.run();
    }

    pub fn state(&mut self, activity: Activity) {
        self.outbox.host_state(activity);
        self.run();
    }

    pub fn open(&mut self, n: u64) {
        assert!(self.outbox.open(owed(n), None));
        self.run();
    }

    pub fn settle(&mut self, n: u64) {
        assert!(self.outbox.settle(completion(n)));
        self.run();
    }

    pub fn ask(&mut self, n: u64) {
        assert!(self.outbox.ask(Question {
            id: MessageId(Uuid::from_u128(u128::from(n))),
            agent: "zoe".to_owned(),
            question: format!("question {n}"),
        }));
        self.run();
    }

    pub fn unclaim(&mut self, n: u64) {
        self.outbox.unclaim(call(n));
        self.run();
    }

    pub fn pull(&mut self, n: u64) -> Option<Completion> {
        let pulled = self.outbox.pull(call(n));
        self.run();
        pulled
    }

    pub fn due(&mut self) {
        assert!(self.armed, "no wake was armed");
        self.armed = false;
        self.outbox.wake_due();
        self.run();
    }

    pub fn taken(&mut self, epoch: u64) {
        self.outbox.taken(self.generation, epoch);
        self.run();
    }

    pub fn refused(&mut self, epoch: u64) {
        self.outbox.refused(self.generation, epoch);
        self.run();
    }

    pub fn checked(&mut self, epoch: u64, found: &[DeliveryId], durable: bool) {
        self.outbox.checked(self.generation, epoch, found, durable);
        self.run();
    }

    /// The bridge takes an offer and finds all of it, safe.
    pub fn arrives(&mut self, offer: &Offer) {
        self.taken(offer.epoch);
        self.checked(offer.epoch, &offer.ids, true);
    }

    /// The one offer since the last look.
    #[track_caller]
    pub fn offer(&mut self) -> Offer {
        assert_eq!(self.offers.len(), 1, "{:?}", self.offers);
        self.offers.remove(0)
    }

    #[track_caller]
    pub fn no_offer(&self) {
        assert_eq!(self.offers, []);
    }

    pub fn at(&self, id: impl Into<DeliveryId>) -> Whereabouts {
        self.outbox.whereabouts(id.into())
    }

    /// The core ends here; another one reads the first `synced` records, the bridge has joined nothing yet.
    pub fn crash(self, synced: usize) -> World {
        let mut w = World::new();
        let records = self.records.into_iter().take(synced).map(|(_, r)| r);
        w.outbox.restore(records);
        w.run();
        w
    }
}
