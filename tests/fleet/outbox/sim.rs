//! A parent, its bridge, its session and a core's journal around an outbox, small enough to play every order of
//! what can happen. It counts from outside: what stands in the session, and what calls were given. Messages between
//! core and bridge wait in two queues, as on a wire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pi_agents::fleet::completion::{Delivery, DeliveryId, Question};
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::outbox::{
    Activity, Claim, Ending, JournalRecord, OfferMode, Outbox, OutboxEffect, Suppression,
    Whereabouts,
};
use uuid::Uuid;

use super::kit::{self, call, completion, id, owed, reply};

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Open(u64),
    /// Opened by call 100 + n.
    OpenForeground(u64),
    Settle(u64),
    Suppress(u64),
    Ask(u64),
    Claim(u64, u64),
    Unclaim(u64),
    Pull(u64),
    /// One more record is safe.
    Sync,
    JournalFails,
    JournalRecovers,
    TimerDue,
    /// The next message reaches the bridge, or the core.
    BridgeReads,
    CoreReads,
    /// The host comes to a boundary; `true` = another extension drops what the bridge adds.
    Boundary(bool),
    /// A user's prompt starts a run.
    Prompt,
    RunEnds,
    RunIsAborted,
    /// The bridge looks for what it took.
    Check,
    SessionIsWritten,
    /// The connection breaks; the core notices.
    Leave,
    Join,
    /// Pi is gone, and with it a session that was not written.
    PiDies,
    /// The core is gone; this many records beyond the synced ones are on the disk all the same.
    CoreDies(usize),
}

#[derive(Clone, Debug)]
struct Offer {
    generation: u64,
    epoch: u64,
    mode: OfferMode,
    ids: Vec<DeliveryId>,
}

#[derive(Clone, Debug)]
enum Word {
    State(Activity),
    Taken(u64),
    Refused(u64),
    Checked(u64, Vec<DeliveryId>, bool),
}

#[derive(Clone, Debug, Default)]
struct Bridge {
    generation: u64,
    memory: Vec<Offer>,
    /// Taken, to be looked for (again).
    unchecked: Vec<(u64, Vec<DeliveryId>)>,
}

/// What is true of a delivery, whatever the outbox thinks.
#[derive(Clone, Debug, Default)]
struct Truth {
    settled: bool,
    suppressed: bool,
    /// A crash took it before its record was safe, or a session that was never written took the answer: it may be
    /// missing.
    excused: bool,
    /// Its session ended during the run: no reason for a run of its own.
    quiet: bool,
    pulls: usize,
}

#[derive(Clone, Debug)]
pub struct Sim {
    outbox: Outbox,
    journal: Vec<JournalRecord>,
    synced: usize,
    /// Records before this core.
    base: usize,
    degraded: bool,
    to_bridge: VecDeque<Offer>,
    to_core: VecDeque<Word>,
    bridge: Option<Bridge>,
    activity: Activity,
    written: bool,
    session: Vec<DeliveryId>,
    results: BTreeSet<DeliveryId>,
    armed: bool,
    generation: u64,
    reported: bool,
    last_epoch: u64,
    /// Offers without an answer.
    open_offers: BTreeMap<u64, (OfferMode, Vec<DeliveryId>)>,
    truth: BTreeMap<DeliveryId, Truth>,
    /// Claims of calls that are not over.
    calls: BTreeMap<u64, BTreeSet<u64>>,
}

impl Sim {
    pub fn new() -> Self {
        Self {
            outbox: Outbox::new(),
            journal: Vec::new(),
            synced: 0,
            base: 0,
            degraded: false,
            to_bridge: VecDeque::new(),
            to_core: VecDeque::new(),
            bridge: None,
            activity: Activity::Idle,
            written: false,
            session: Vec::new(),
            results: BTreeSet::new(),
            armed: false,
            generation: 0,
            reported: false,
            last_epoch: 0,
            open_offers: BTreeMap::new(),
            truth: BTreeMap::new(),
            calls: BTreeMap::new(),
        }
    }

    /// Whether this can happen now.
    pub fn may(&self, step: Step) -> bool {
        let fresh = |n: u64| !self.truth.contains_key(&reply(n));
        let goes_on = |n: u64| {
            let truth = self.truth.get(&reply(n));
            truth.is_some_and(|t| !t.settled && !t.suppressed && !t.excused)
        };
        match step {
            Step::Open(n) => fresh(n),
            Step::OpenForeground(n) => fresh(n) && self.bridge.is_some(),
            Step::Settle(n) => fresh(n) || goes_on(n),
            Step::Suppress(n) => goes_on(n),
            Step::Ask(n) => !self.truth.contains_key(&kit::question(n)),
            Step::Claim(n, c) => {
                let claimed = self.calls.get(&c).is_some_and(|ids| ids.contains(&n));
                self.bridge.is_some() && !claimed
            }
            Step::Unclaim(c) | Step::Pull(c) => self.calls.contains_key(&c),
            Step::Sync => !self.degraded && self.synced < self.journal.len(),
            Step::JournalFails => !self.degraded,
            Step::JournalRecovers => self.degraded,
            Step::TimerDue => self.armed,
            Step::BridgeReads => !self.to_bridge.is_empty(),
            Step::CoreReads => !self.to_core.is_empty(),
            Step::Boundary(_) | Step::RunEnds | Step::RunIsAborted => {
                self.activity == Activity::Busy
            }
            Step::Prompt => self.activity != Activity::Busy,
            Step::Check => self
                .bridge
                .as_ref()
                .is_some_and(|bridge| !bridge.unchecked.is_empty()),
            Step::SessionIsWritten => !self.written,
            Step::Leave | Step::PiDies => self.bridge.is_some(),
            Step::Join => self.bridge.is_none(),
            Step::CoreDies(_) => true,
        }
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Open(n) => {
                assert!(self.outbox.open(owed(n), None));
                self.truth.insert(reply(n), Truth::default());
            }
            Step::OpenForeground(n) => {
                let foreground = 100 + n;
                assert!(self.outbox.open(owed(n), Some(call(foreground))));
                self.truth.insert(reply(n), Truth::default());
                self.calls.entry(foreground).or_default().insert(n);
            }
            Step::Settle(n) => {
                assert!(self.outbox.settle(completion(n)));
                self.truth.entry(reply(n)).or_default().settled = true;
            }
            Step::Suppress(n) => {
                assert!(self.outbox.suppress(id(n), Suppression::Stopped));
                self.truth.entry(reply(n)).or_default().suppressed = true;
            }
            Step::Ask(n) => {
                assert!(self.outbox.ask(Question {
                    id: MessageId(Uuid::from_u128(u128::from(n))),
                    agent: "zoe".to_owned(),
                    question: "?".to_owned(),
                }));
                let truth = self.truth.entry(kit::question(n)).or_default();
                truth.settled = true;
            }
            Step::Claim(n, c) => {
                if self.outbox.claim(id(n), call(c)) == Claim::Gone {
                    return;
                }
                self.calls.entry(c).or_default().insert(n);
            }
            Step::Unclaim(c) => {
                self.outbox.unclaim(call(c));
                self.calls.remove(&c);
            }
            Step::Pull(c) => self.pull(c),
            Step::Sync => {
                self.synced += 1;
                self.outbox.journaled((self.synced - self.base) as u64);
            }
            Step::JournalFails => {
                self.degraded = true;
                self.outbox.journal_failed();
            }
            Step::JournalRecovers => {
                self.degraded = false;
                self.synced = self.journal.len();
                self.outbox
                    .journal_recovered((self.synced - self.base) as u64);
            }
            Step::TimerDue => {
                self.armed = false;
                self.outbox.wake_due();
            }
            Step::BridgeReads => self.bridge_reads(),
            Step::CoreReads => self.core_reads(),
            Step::Boundary(dropped) => self.boundary(dropped),
            Step::Prompt => self.becomes(Activity::Busy),
            Step::RunEnds => self.becomes(Activity::Idle),
            Step::RunIsAborted => self.becomes(Activity::Silent),
            Step::Check => self.check_one(),
            Step::SessionIsWritten => self.written = true,
            Step::Leave => {
                self.disconnect();
                self.session_ends();
            }
            Step::Join => self.join(),
            Step::PiDies => {
                self.disconnect();
                self.session_ends();
                self.lose_session();
                self.activity = Activity::Idle;
            }
            Step::CoreDies(extra) => self.core_dies(extra),
        }
        self.carry_out();
        self.check();
    }

    fn pull(&mut self, c: u64) {
        let Some(pulled) = self.outbox.pull(call(c)) else {
            return;
        };
        assert_eq!(pulled, completion_of(&pulled));
        let id = pulled.id.into();
        let truth = self.truth.get_mut(&id).unwrap();
        assert!(truth.settled && !truth.suppressed);
        truth.pulls += 1;
        let claimed = self.calls.get_mut(&c).unwrap();
        assert!(claimed.remove(&pulled.id.run), "not claimed by this call");
        if claimed.is_empty() {
            self.calls.remove(&c);
        }
        self.results.insert(id);
    }

    fn bridge_reads(&mut self) {
        let offer = self.to_bridge.pop_front().unwrap();
        let Some(bridge) = &mut self.bridge else {
            return;
        };
        assert_eq!(bridge.generation, offer.generation);
        match (offer.mode, self.activity) {
            (OfferMode::Boundary, Activity::Busy) => bridge.memory.push(offer),
            (OfferMode::Wake, Activity::Idle) => {
                self.put(offer, false);
                self.becomes(Activity::Busy);
            }
            (OfferMode::Silent, _) => self.put(offer, false),
            _ => {
                self.to_core.push_back(Word::Refused(offer.epoch));
                self.to_core.push_back(Word::State(self.activity));
            }
        }
    }

    fn put(&mut self, offer: Offer, dropped: bool) {
        let Some(bridge) = &mut self.bridge else {
            return;
        };
        self.to_core.push_back(Word::Taken(offer.epoch));
        if !dropped {
            self.session.extend(&offer.ids);
        }
        bridge.unchecked.push((offer.epoch, offer.ids));
    }

    fn boundary(&mut self, dropped: bool) {
        let memory = self.bridge.as_mut().map(|b| std::mem::take(&mut b.memory));
        for offer in memory.unwrap_or_default() {
            self.put(offer, dropped);
        }
    }

    fn becomes(&mut self, activity: Activity) {
        self.activity = activity;
        let Some(bridge) = &mut self.bridge else {
            return;
        };
        for offer in std::mem::take(&mut bridge.memory) {
            self.to_core.push_back(Word::Refused(offer.epoch));
        }
        self.to_core.push_back(Word::State(activity));
    }

    fn check_one(&mut self) {
        let bridge = self.bridge.as_mut().unwrap();
        let (epoch, ids) = bridge.unchecked.remove(0);
        let mut found = ids.clone();
        found.retain(|id| self.session.contains(id) || self.results.contains(id));
        if !self.written && !found.is_empty() {
            bridge.unchecked.push((epoch, found.clone()));
        }
        self.to_core
            .push_back(Word::Checked(epoch, found, self.written));
    }

    fn core_reads(&mut self) {
        let generation = self.generation;
        match self.to_core.pop_front().unwrap() {
            Word::State(activity) => {
                self.reported = true;
                self.outbox.host_state(activity);
            }
            Word::Taken(epoch) => {
                self.open_offers.remove(&epoch);
                self.outbox.taken(generation, epoch);
            }
            Word::Refused(epoch) => {
                self.open_offers.remove(&epoch);
                self.outbox.refused(generation, epoch);
            }
            Word::Checked(epoch, found, durable) => {
                self.outbox.checked(generation, epoch, &found, durable);
            }
        }
    }

    fn session_ends(&mut self) {
        self.outbox.hush();
        self.outbox.leave();
        for truth in self.truth.values_mut() {
            truth.quiet |= !truth.settled && !truth.suppressed && !truth.excused;
        }
    }

    fn disconnect(&mut self) {
        self.bridge = None;
        self.reported = false;
        self.to_bridge.clear();
        self.to_core.clear();
        self.open_offers.clear();
        self.calls.clear();
    }

    fn join(&mut self) {
        self.generation += 1;
        let known: Vec<_> = self.session.iter().chain(&self.results).copied().collect();
        self.outbox.join(self.generation, &known, self.written);
        let mut bridge = Bridge {
            generation: self.generation,
            ..Bridge::default()
        };
        if !self.written && !known.is_empty() {
            bridge.unchecked.push((0, known));
        }
        self.bridge = Some(bridge);
        self.to_core.push_back(Word::State(self.activity));
    }

    fn lose_session(&mut self) {
        if self.written {
            return;
        }
        self.session.clear();
        for id in std::mem::take(&mut self.results) {
            let truth = self.truth.get_mut(&id).unwrap();
            truth.pulls = 0;
            truth.excused = true;
        }
    }

    fn core_dies(&mut self, extra: usize) {
        self.disconnect();
        let kept = self.journal.len().min(self.synced + extra);
        self.journal.truncate(kept);
        let mut last: BTreeMap<DeliveryId, &JournalRecord> = BTreeMap::new();
        for record in &self.journal {
            last.insert(record.id(), record);
        }
        for (id, truth) in &mut self.truth {
            match last.get(id) {
                None => truth.excused = true,
                Some(JournalRecord::Opened {
                    foreground, quiet, ..
                }) => {
                    truth.quiet = *quiet;
                    // A result that was given before its record was safe is in the session.
                    truth.suppressed = *foreground;
                    truth.settled = !foreground;
                    truth.excused |= truth.pulls > 0 || self.session.contains(id);
                }
                Some(_) => {}
            }
        }
        self.outbox = Outbox::new();
        self.outbox.restore(self.journal.clone());
        self.base = kept;
        self.synced = kept;
        self.degraded = false;
        self.armed = false;
        self.last_epoch = 0;
    }

    fn carry_out(&mut self) {
        for effect in self.outbox.take_effects() {
            match effect {
                OutboxEffect::Journal { seq, record } => {
                    self.journal.push(record);
                    assert_eq!(seq as usize, self.journal.len() - self.base, "no gap");
                }
                OutboxEffect::Offer {
                    generation,
                    epoch,
                    mode,
                    deliveries,
                } => self.offered(generation, epoch, mode, &deliveries),
                OutboxEffect::ArmWake => assert!(!std::mem::replace(&mut self.armed, true)),
                OutboxEffect::DisarmWake => assert!(std::mem::replace(&mut self.armed, false)),
                OutboxEffect::Degraded(degraded) => assert_eq!(degraded, self.degraded),
            }
        }
    }

    fn offered(&mut self, generation: u64, epoch: u64, mode: OfferMode, deliveries: &[Delivery]) {
        let bridge = self.bridge.as_ref().expect("offered to nobody");
        assert_eq!(generation, bridge.generation, "a closed generation");
        assert!(self.reported, "offered before the host said what it does");
        assert!(epoch > self.last_epoch, "an epoch was used again");
        self.last_epoch = epoch;
        let ids: Vec<_> = deliveries.iter().map(Delivery::id).collect();
        let questions = ids
            .iter()
            .filter(|id| matches!(id, DeliveryId::Question(_)));
        assert!(
            !ids.is_empty() && (questions.count() == 0 || ids.len() == 1),
            "{ids:?}"
        );
        for (other_mode, other) in self.open_offers.values() {
            assert!(
                (*other_mode, mode) != (OfferMode::Wake, OfferMode::Wake),
                "two wakes"
            );
            assert!(other.iter().all(|id| !ids.contains(id)), "in two offers");
        }
        for id in &ids {
            let truth = &self.truth[id];
            assert!(truth.settled && !truth.suppressed, "{id} offered");
            let alone = ids.iter().all(|id| self.truth[id].quiet);
            assert!(
                !(alone && mode == OfferMode::Wake),
                "a wake for what is quiet"
            );
            assert_eq!(truth.pulls, 0, "{id} pulled and offered");
            assert!(!self.session.contains(id), "{id} is there already");
            let claimed = self.calls.values().flatten().any(|n| reply(*n) == *id);
            assert!(!claimed, "{id} is claimed");
            let safe = self.journal[..self.synced].iter().any(|record| {
                record.id() == *id && !matches!(record, JournalRecord::Opened { .. })
            });
            assert!(safe || self.degraded, "{id} is not safe");
        }
        self.open_offers.insert(epoch, (mode, ids.clone()));
        self.to_bridge.push_back(Offer {
            generation,
            epoch,
            mode,
            ids,
        });
    }

    /// What holds at every moment.
    fn check(&self) {
        for (id, truth) in &self.truth {
            let pushes = self.session.iter().filter(|other| *other == id).count();
            assert!(pushes <= 1, "{id} pushed {pushes} times");
            assert!(pushes == 0 || truth.pulls == 0, "{id} pushed and pulled");
            let at = self.outbox.whereabouts(*id);
            if at == Whereabouts::Over(Ending::Acked) && !truth.excused {
                assert!(pushes == 1 || self.results.contains(id), "{id} lost");
            }
        }
        if self.armed {
            assert!(self.bridge.is_some() && self.reported, "armed for nobody");
        }
    }

    /// Nothing new happens; everybody does what is left to do. Then each delivery has to be where it belongs.
    pub fn comes_to_rest(mut self) {
        let open: Vec<_> = (0..16).filter(|n| self.may(Step::Settle(*n))).collect();
        for n in open {
            if self.truth.contains_key(&reply(n)) {
                self.step(Step::Settle(n));
            }
        }
        for c in self.calls.keys().copied().collect::<Vec<_>>() {
            self.step(Step::Unclaim(c));
        }
        self.drain(Step::JournalRecovers);
        self.drain(Step::SessionIsWritten);
        self.drain(Step::Join);
        for _ in 0..4 {
            self.settle_down();
            self.drain(Step::Prompt);
            self.settle_down();
            self.step(Step::Boundary(false));
            self.settle_down();
            self.drain(Step::RunEnds);
        }
        self.settle_down();
        assert!(!self.armed && self.open_offers.is_empty());
        for (id, truth) in &self.truth {
            let pushes = self.session.iter().filter(|other| *other == id).count();
            let told = pushes + usize::from(truth.pulls > 0);
            if truth.suppressed {
                assert!(told == 0 || truth.excused, "{id} was suppressed");
            } else if !truth.excused {
                assert_eq!(told, 1, "{id}: pushed {pushes}, pulled {}", truth.pulls);
            }
        }
        let (live, _) = self.outbox.size();
        assert_eq!(live, 0, "something is left in the outbox: {self:?}");
    }

    fn settle_down(&mut self) {
        for step in [
            Step::Sync,
            Step::BridgeReads,
            Step::CoreReads,
            Step::Check,
            Step::TimerDue,
            Step::BridgeReads,
            Step::CoreReads,
            Step::Check,
            Step::CoreReads,
            Step::Sync,
        ] {
            self.drain(step);
        }
    }

    fn drain(&mut self, step: Step) {
        for _ in 0..1000 {
            if !self.may(step) {
                return;
            }
            self.step(step);
        }
        panic!("{step:?} never ends");
    }
}

/// A completion says what was settled, or that the core was lost.
fn completion_of(
    pulled: &pi_agents::fleet::completion::Completion,
) -> pi_agents::fleet::completion::Completion {
    let settled = completion(pulled.id.run);
    if pulled.result.starts_with("supervisor lost") {
        pulled.clone()
    } else {
        settled
    }
}
