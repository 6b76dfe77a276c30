//! Which of the ready entries may be offered now, and what became of those that were: the second half of
//! [`Outbox`], about bridges, the state of the host, and wakes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::{Entry, State};
use super::{Ending, Outbox, OutboxEffect};
use crate::fleet::completion::{Delivery, DeliveryId};

/// What the host is doing, as its bridge reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A run is going on.
    Busy,
    /// No run; one may be started.
    Idle,
    /// The last run was aborted or failed, and no other was accepted since (R-DELIV-04).
    Silent,
}

/// What the bridge may do with an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferMode {
    /// Add it at the next boundary of the run and request one continuation (R-DELIV-02).
    Boundary,
    /// Add all of it and start one run (R-DELIV-03).
    Wake,
    /// Add it and start nothing (R-DELIV-04, R-DELIV-18).
    Silent,
}

/// Text of one offer, in bytes; what is beyond goes into another one. Escaped at its worst it still fits a frame of
/// the control protocol.
pub(super) const MAX_OFFER_BYTES: usize = 2 << 20;

/// An entry that was taken and not found this often no longer costs the host a run: another extension drops it each
/// time. It is offered as silent, once for each report of the host's state.
const MAX_MISSES: u8 = 3;

/// The epoch of a check that belongs to no offer, such as the second look at what a join found not yet safe.
const NO_OFFER: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In the bridge's memory.
    Offered,
    /// The bridge is putting it into the session.
    Taken,
    /// What was not found is ready again; the rest waits for the file.
    Placed,
}

#[derive(Clone, Debug)]
struct Epoch {
    mode: OfferMode,
    phase: Phase,
    /// Count of the host's reports when it was offered, or taken.
    report: u64,
    ids: Vec<DeliveryId>,
}

/// What the outbox knows of the bridge.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    /// The bridge that is joined.
    generation: Option<u64>,
    /// The last that was.
    last_generation: u64,
    activity: Option<Activity>,
    /// Count of reports of the host's state.
    report: u64,
    /// An offer was refused, and the state that explains it has not been reported: nothing is offered at this count.
    stalled: Option<u64>,
    last_epoch: u64,
    epochs: BTreeMap<u64, Epoch>,
    /// The batching timer runs.
    armed: bool,
    /// It ran out: everything ready goes.
    due: bool,
}

impl Offers {
    fn is_current(&self, generation: u64) -> bool {
        self.generation == Some(generation)
    }

    /// A wake is on its way, or the run it started has not been reported: a second one would be one too many.
    fn is_waking(&self) -> bool {
        self.epochs.values().any(|epoch| {
            epoch.mode == OfferMode::Wake
                && match epoch.phase {
                    Phase::Offered => true,
                    Phase::Taken => epoch.report == self.report,
                    Phase::Placed => false,
                }
        })
    }
}

impl Outbox {
    /// A bridge (re)connected to the host's session and reports which deliveries are among all entries of the session,
    /// and whether the session is `durable` (the file exists, or the session is ephemeral). What was offered before and
    /// is not there is ready again. Nothing is offered before its first [`Outbox::host_state`].
    ///
    /// A generation that is not newer than the last one is ignored.
    pub fn join(&mut self, generation: u64, known: &[DeliveryId], durable: bool) {
        if generation <= self.offers.last_generation {
            return;
        }
        if self.offers.generation.is_some() {
            self.leave();
        }
        self.offers.generation = Some(generation);
        self.offers.last_generation = generation;
        self.found(known, durable);
        for entry in self.entries.values_mut() {
            if entry.state == State::Unsure {
                entry.state = State::Ready;
            }
        }
        self.pump();
    }

    /// The bridge handed these over in an earlier connection and has not looked for them yet: they are not offered
    /// until it has ([`Outbox::checked`], [`Outbox::missing`]). To be said after the join, before the first state.
    pub fn hold(&mut self, generation: u64, ids: &[DeliveryId]) {
        if !self.offers.is_current(generation) {
            return;
        }
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id)
                && entry.state == State::Ready
            {
                entry.state = State::Unsure;
            }
        }
        self.pump();
    }

    /// The bridge looked for what it held over from an earlier connection, and these are not in the session.
    pub fn missing(&mut self, generation: u64, ids: &[DeliveryId]) {
        if !self.offers.is_current(generation) {
            return;
        }
        for id in ids {
            if let Some(entry) = self.entries.get_mut(id)
                && entry.state == State::Unsure
            {
                entry.state = State::Ready;
            }
        }
        self.pump();
    }

    /// The bridge is gone: its connection, its Pi, or the session it had. Its calls are gone with it, and so are their
    /// claims. Nothing is offered until the next join of the same session.
    pub fn leave(&mut self) {
        self.disarm();
        self.offers.generation = None;
        self.offers.activity = None;
        self.offers.stalled = None;
        self.offers.epochs.clear();
        for entry in self.entries.values_mut() {
            if matches!(entry.state, State::Offered(_) | State::Placed) {
                entry.state = State::Unsure;
            }
            entry.misses = 0;
            entry.not_before = 0;
        }
        let calls: Vec<_> = self.claims.keys().copied().collect();
        for call in calls {
            self.unclaim(call);
        }
    }

    /// What the host is doing, reported after a join, at every change, and after every refusal.
    pub fn host_state(&mut self, activity: Activity) {
        if self.offers.generation.is_none() {
            return;
        }
        self.offers.activity = Some(activity);
        self.offers.report += 1;
        self.pump();
    }

    /// The bridge puts an offer into the session.
    pub fn taken(&mut self, generation: u64, epoch: u64) {
        if !self.offers.is_current(generation) {
            return;
        }
        let report = self.offers.report;
        if let Some(epoch) = self.offers.epochs.get_mut(&epoch)
            && epoch.phase == Phase::Offered
        {
            epoch.phase = Phase::Taken;
            epoch.report = report;
        }
        self.pump();
    }

    /// The bridge gives an offer back untouched: the host is not in the state it was made for. It comes back with the
    /// next report of the state, or at once if that came in between.
    pub fn refused(&mut self, generation: u64, epoch: u64) {
        if !self.offers.is_current(generation) {
            return;
        }
        if self.offers.epochs.get(&epoch).map(|e| e.phase) != Some(Phase::Offered) {
            return;
        }
        let Some(refused) = self.offers.epochs.remove(&epoch) else {
            return;
        };
        if refused.report == self.offers.report {
            self.offers.stalled = Some(refused.report);
        }
        for id in refused.ids {
            self.give_back(id, epoch);
        }
        self.pump();
    }

    /// The bridge looked for an offer in the session. Found and `durable`: acknowledged. Found but not durable: stays
    /// there, to be checked again with the same epoch, and is not offered again in this generation. Not found although
    /// it was taken: ready again. What is found of other epochs counts too; epoch 0 is a check of no offer.
    pub fn checked(&mut self, generation: u64, epoch: u64, found: &[DeliveryId], durable: bool) {
        if !self.offers.is_current(generation) {
            return;
        }
        if epoch != NO_OFFER && !self.offers.epochs.contains_key(&epoch) {
            return;
        }
        self.found(found, durable);
        if let Some(checked) = self.offers.epochs.get_mut(&epoch)
            && checked.phase == Phase::Taken
        {
            checked.phase = Phase::Placed;
            let next_report = self.offers.report + 1;
            for id in checked.ids.clone() {
                if let Some(entry) = self.give_back(id, epoch) {
                    entry.misses = entry.misses.saturating_add(1);
                    if entry.misses >= MAX_MISSES {
                        entry.not_before = next_report;
                    }
                }
            }
        }
        let entries = &self.entries;
        self.offers.epochs.retain(|number, epoch| {
            epoch.ids.retain(|id| {
                entries.get(id).is_some_and(|entry| match entry.state {
                    State::Offered(at) => at == *number,
                    State::Placed => true,
                    _ => false,
                })
            });
            !epoch.ids.is_empty()
        });
        self.pump();
    }

    /// The batching timer ran out.
    pub fn wake_due(&mut self) {
        if std::mem::take(&mut self.offers.armed) {
            self.offers.due = true;
            self.pump();
            self.offers.due = false;
        }
    }

    /// These are in the session: proof, whatever we believed of them.
    fn found(&mut self, ids: &[DeliveryId], durable: bool) {
        for id in ids {
            let Some(entry) = self.entries.get_mut(id) else {
                continue;
            };
            if matches!(entry.state, State::Unsettled | State::Pulled) {
                continue;
            }
            if durable {
                self.end(*id, Ending::Acked);
            } else {
                entry.state = State::Placed;
            }
        }
    }

    /// Takes an entry back that is still in this epoch.
    fn give_back(&mut self, id: DeliveryId, epoch: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&id)?;
        if entry.state != State::Offered(epoch) {
            return None;
        }
        entry.state = State::Ready;
        Some(entry)
    }

    /// Offers what may be offered now. Called after everything that may have changed that.
    pub(super) fn pump(&mut self) {
        let offers = &self.offers;
        let (Some(_), Some(activity)) = (offers.generation, offers.activity) else {
            self.disarm();
            return;
        };
        if offers.stalled == Some(offers.report) {
            self.disarm();
            return;
        }
        let mut ready: Vec<(u64, DeliveryId)> = self
            .entries
            .iter()
            .filter(|(_, entry)| self.may_be_offered(entry))
            .map(|(id, entry)| (entry.order, *id))
            .collect();
        ready.sort_unstable();
        let (given_up, ready): (Vec<_>, Vec<_>) = ready
            .into_iter()
            .map(|(_, id)| id)
            .partition(|id| self.is_given_up(*id));
        self.offer_all(OfferMode::Silent, &given_up);
        match activity {
            Activity::Busy => {
                self.disarm();
                self.offer_all(OfferMode::Boundary, &ready);
            }
            Activity::Silent => {
                self.disarm();
                self.offer_all(OfferMode::Silent, &ready);
            }
            Activity::Idle => {
                let (quiet, ready): (Vec<_>, Vec<_>) =
                    ready.into_iter().partition(|id| self.is_quiet(*id));
                self.offer_all(OfferMode::Silent, &quiet);
                self.wake(&ready);
            }
        }
    }

    fn is_quiet(&self, id: DeliveryId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.quiet)
    }

    fn may_be_offered(&self, entry: &Entry) -> bool {
        entry.state == State::Ready
            && entry.claims.is_empty()
            && entry.not_before <= self.offers.report
            && (self.degraded || entry.seq <= self.synced)
    }

    fn is_given_up(&self, id: DeliveryId) -> bool {
        self.entries
            .get(&id)
            .is_some_and(|entry| entry.misses >= MAX_MISSES)
    }

    /// One wake at a time: a question by itself and at once (R-DELIV-10), completions together when the batching timer
    /// ran out.
    fn wake(&mut self, ready: &[DeliveryId]) {
        let is_question = |id: &&DeliveryId| matches!(id, DeliveryId::Question(_));
        if self.offers.is_waking() || ready.is_empty() {
            self.disarm();
        } else if let Some(question) = ready.iter().find(is_question) {
            self.disarm();
            self.offer(OfferMode::Wake, &[*question]);
        } else if self.offers.due {
            self.disarm();
            let first = self.split(ready).next().unwrap_or_default();
            self.offer(OfferMode::Wake, &first);
        } else if !std::mem::replace(&mut self.offers.armed, true) {
            self.effects.push(OutboxEffect::ArmWake);
        }
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.offers.armed) {
            self.effects.push(OutboxEffect::DisarmWake);
        }
    }

    fn offer_all(&mut self, mode: OfferMode, ids: &[DeliveryId]) {
        let parts: Vec<_> = self.split(ids).collect();
        for part in parts {
            self.offer(mode, &part);
        }
    }

    /// Cuts into what makes one offer each: a question by itself, completions together up to a size.
    fn split(&self, ids: &[DeliveryId]) -> impl Iterator<Item = Vec<DeliveryId>> + use<> {
        let mut parts: Vec<Vec<DeliveryId>> = Vec::new();
        let mut completions = Vec::new();
        let mut bytes = 0;
        for id in ids {
            if matches!(id, DeliveryId::Question(_)) {
                parts.push(vec![*id]);
                continue;
            }
            let entry = self.entries.get(id).and_then(Entry::completion);
            let size = entry.map_or(0, |completion| completion.result.len());
            if !completions.is_empty() && bytes + size > MAX_OFFER_BYTES {
                parts.push(std::mem::take(&mut completions));
                bytes = 0;
            }
            bytes += size;
            completions.push(*id);
        }
        if !completions.is_empty() {
            parts.push(completions);
        }
        parts.into_iter()
    }

    fn offer(&mut self, mode: OfferMode, ids: &[DeliveryId]) {
        let Some(generation) = self.offers.generation else {
            return;
        };
        self.offers.last_epoch += 1;
        let epoch = self.offers.last_epoch;
        let mut deliveries: Vec<Delivery> = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(entry) = self.entries.get_mut(id) else {
                continue;
            };
            deliveries.extend(entry.delivery().cloned());
            entry.state = State::Offered(epoch);
        }
        if deliveries.is_empty() {
            return;
        }
        self.offers.epochs.insert(
            epoch,
            Epoch {
                mode,
                phase: Phase::Offered,
                report: self.offers.report,
                ids: ids.to_vec(),
            },
        );
        self.effects.push(OutboxEffect::Offer {
            generation,
            epoch,
            mode,
            deliveries,
        });
    }
}
