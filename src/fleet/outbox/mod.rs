//! The outbox of one host: everything its parent is owed, and who may be told when. Pure: what it is told is a
//! method, what it wants done comes out of [`Outbox::take_effects`].
//!
//! An entry goes `Unsettled → Ready → {claimed and pulled | offered → acked}`, or is suppressed. What always holds,
//! for every order of claims, cancellations, settlements, offers, reconnections and timers (R-ORCH-04):
//!
//! - pulled at least once → never pushed; never pulled → pushed exactly once;
//! - nothing is offered before its journal record is safe, unless the journal cannot be written (R-DELIV-05);
//! - nothing is offered while no bridge is joined, nor before that bridge said what its host is doing;
//! - an epoch is used once, and no entry is in two offers that are not resolved;
//! - what is neither acknowledged, pulled nor suppressed is never forgotten;
//! - what is quiet starts nothing: an idle host gets it silently, a busy one at a boundary of its run (R-DELIV-17).
//!
//! What the bridge has to do for its part: join, then report its state; answer every offer with taken or refused,
//! and refuse when its host is no longer in the state the offer is for (a Boundary or Silent offer that was not taken
//! when a run ends is refused too); report the state again whenever it refused; after taking, check. A tool result
//! that carries a pulled completion has the id in its details, so that a join finds it like any other.
//!
//! Not here: when a run settles and who owns it (the machine), the clock of the batching timer and the file (the
//! supervisor), how an entry gets into a session (the bridge).

mod entry;
mod offers;
mod record;

use std::collections::{BTreeMap, btree_map};

pub use offers::{Activity, OfferMode};
pub use record::{Ending, JournalRecord, OwedRun, Suppression};

use super::completion::{
    Completion, CompletionId, CompletionStatus, Delivery, DeliveryId, Question,
};
use super::ids::CallId;
use entry::{Body, Entry, Over, State};
use offers::Offers;

/// What the outbox wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxEffect {
    /// Append a record to the host's journal, sync it, then say [`Outbox::journaled`].
    Journal {
        /// Number of the record, counted from 1 without gaps.
        seq: u64,
        /// The record.
        record: JournalRecord,
    },
    /// Put deliveries into the memory of the bridge.
    Offer {
        /// The bridge they are for.
        generation: u64,
        /// Number of the offer; never used again in this core.
        epoch: u64,
        /// What the bridge may do with it.
        mode: OfferMode,
        /// One question, or completions in the order they settled.
        deliveries: Vec<Delivery>,
    },
    /// Call [`Outbox::wake_due`] when what is ready in this scheduling turn is collected.
    ArmWake,
    /// Forget the last [`OutboxEffect::ArmWake`].
    DisarmWake,
    /// The journal cannot be written (`true`), or can again: what is delivered meanwhile is not crash-safe.
    Degraded(bool),
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The run goes on: pull when it has settled.
    Waiting,
    /// Settled: a pull gives it now.
    Ready,
    /// It was offered to the parent's session first. It comes back to the claim if it does not arrive there.
    OnItsWay,
    /// Over, or never heard of: there is nothing to pull.
    Gone,
}

/// Where a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Never heard of, or over long ago.
    Unknown,
    /// The run goes on.
    Unsettled,
    /// With us; `claimed` = a call may still take it.
    Ready {
        /// By how many calls.
        claimed: usize,
    },
    /// In an offer, or offered to a bridge that is gone.
    Offered,
    /// Found in the session, which is not on the disk yet.
    Placed,
    /// Over.
    Over(Ending),
}

/// Entries of one host.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    entries: BTreeMap<DeliveryId, Entry>,
    claims: BTreeMap<CallId, Vec<DeliveryId>>,
    over: Over,
    offers: Offers,
    /// Number of the last journal record.
    seq: u64,
    /// Everything up to here is safe.
    synced: u64,
    degraded: bool,
    /// Place of the entry that became ready last.
    order: u64,
    effects: Vec<OutboxEffect>,
}

impl Outbox {
    /// An outbox without entries, with no bridge.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is to be done since the last time, in order.
    #[must_use = "effects that are dropped are never carried out"]
    pub fn take_effects(&mut self) -> Vec<OutboxEffect> {
        std::mem::take(&mut self.effects)
    }

    /// An owed run began. `foreground`: the call that waits for it, whose claim is in place from the start; its answer
    /// is the only one (R-DELIV-09). If the core is lost before the run settles, the parent is told `failed: supervisor
    /// lost` once (R-DELIV-17); a foreground call ends with its own error instead.
    ///
    /// `false` = the id is known already; nothing changes.
    pub fn open(&mut self, run: OwedRun, foreground: Option<CallId>) -> bool {
        let id = run.id.into();
        if self.is_known(id) {
            return false;
        }
        let record = JournalRecord::Opened {
            run: run.clone(),
            foreground: foreground.is_some(),
            quiet: false,
        };
        let seq = self.journal(record);
        self.insert(id, Body::Owed(run, foreground), State::Unsettled, seq);
        if let Some(call) = foreground {
            self.add_claim(id, call);
        }
        true
    }

    /// A run settled: its completion, frozen. It need not have been opened.
    ///
    /// `false` = it settled already or was suppressed; the first word stands (R-TOOL-13, R-DELIV-06).
    pub fn settle(&mut self, completion: Completion) -> bool {
        let id = completion.id.into();
        if self.over.get(id).is_some() {
            return false;
        }
        if self
            .entries
            .get(&id)
            .is_some_and(|e| e.state != State::Unsettled)
        {
            return false;
        }
        let (claims, quiet) = match self.entries.remove(&id) {
            Some(entry) => (entry.claims, entry.quiet),
            None => Default::default(),
        };
        let seq = self.journal(JournalRecord::Settled {
            completion: completion.clone(),
            quiet,
        });
        let entry = self.insert(id, Body::Frozen(completion.into()), State::Ready, seq);
        entry.claims = claims;
        entry.quiet = quiet;
        self.pump();
        true
    }

    /// The session ends, and with it every run that has not settled: their completions are quiet. They reach the
    /// same session when it is back, and are no reason for a run of its own (R-DELIV-17). Journalled, for a core that
    /// is lost before they settle. To be said with [`Outbox::leave`].
    pub fn hush(&mut self) {
        let mut records = Vec::new();
        for entry in self.entries.values_mut().filter(|e| !e.quiet) {
            if let Body::Owed(run, foreground) = &entry.body {
                entry.quiet = true;
                records.push(JournalRecord::Opened {
                    run: run.clone(),
                    foreground: foreground.is_some(),
                    quiet: true,
                });
            }
        }
        for record in records {
            self.journal(record);
        }
    }

    /// The run that goes on has no completion, whatever it ends with. Earlier completions of the agent, and one that
    /// settled already, are not touched (R-DELIV-06). Its claims end; there is nothing to pull.
    ///
    /// `false` = it settled or ended already; nothing changes.
    pub fn suppress(&mut self, id: CompletionId, reason: Suppression) -> bool {
        let id = id.into();
        let open = self.entries.get(&id).map(|e| e.state == State::Unsettled);
        if open == Some(false) || self.over.get(id).is_some() {
            return false;
        }
        self.end(id, Ending::Suppressed(reason));
        true
    }

    /// The parent will never hear of this agent: nothing it is owed of it and that was not handed out yet is
    /// told (R-TOOL-17).
    pub fn withdraw(&mut self, agent: &str, reason: Suppression) {
        let unsaid = self.entries.iter().filter(|(_, entry)| {
            matches!(entry.state, State::Unsettled | State::Ready) && entry.agent() == agent
        });
        let unsaid: Vec<_> = unsaid.map(|(id, _)| *id).collect();
        for id in unsaid {
            self.end(id, Ending::Suppressed(reason));
        }
    }

    /// An agent asks. `false` = the id is known already.
    pub fn ask(&mut self, question: Question) -> bool {
        let id = question.id.into();
        if self.is_known(id) {
            return false;
        }
        let seq = self.journal(JournalRecord::Asked {
            question: question.clone(),
        });
        self.insert(id, Body::Frozen(question.into()), State::Ready, seq);
        self.pump();
        true
    }

    /// A call wants this run's completion as its result, before or after it settled. As long as one call claims it, it
    /// is not offered. A call may claim several. A claim ends with its call ([`Outbox::unclaim`]) and with the
    /// generation it came in.
    pub fn claim(&mut self, id: CompletionId, call: CallId) -> Claim {
        let id = id.into();
        let Some(entry) = self.entries.get(&id) else {
            return Claim::Gone;
        };
        let claim = match entry.state {
            State::Unsettled => Claim::Waiting,
            State::Ready | State::Pulled => Claim::Ready,
            State::Offered(_) | State::Unsure | State::Placed => Claim::OnItsWay,
        };
        self.add_claim(id, call);
        self.pump();
        claim
    }

    /// A call is over: cancelled, or answered with something else. The last claim of a completion that nobody pulled
    /// makes it deliverable again.
    pub fn unclaim(&mut self, call: CallId) {
        for id in self.claims.remove(&call).unwrap_or_default() {
            self.drop_claim(id, call);
        }
        self.pump();
    }

    /// Takes the first completion that is ready for this call, as its result. `None`: nothing it claims has settled,
    /// or that is on its way to the session (see [`Claim::OnItsWay`]). Several calls may pull the same completion; each
    /// gets the same.
    pub fn pull(&mut self, call: CallId) -> Option<Completion> {
        let claimed = self.claims.get(&call)?;
        let (at, id, completion) = claimed.iter().enumerate().find_map(|(at, id)| {
            let entry = self.entries.get(id)?;
            let free = matches!(entry.state, State::Ready | State::Pulled);
            let completion = entry.completion().filter(|_| free)?;
            Some((at, *id, completion.clone()))
        })?;
        if let Some(claimed) = self.claims.get_mut(&call) {
            claimed.remove(at);
            if claimed.is_empty() {
                self.claims.remove(&call);
            }
        }
        let first = match self.entries.get_mut(&id) {
            Some(entry) => std::mem::replace(&mut entry.state, State::Pulled) != State::Pulled,
            None => false,
        };
        if first {
            self.journal(JournalRecord::Ended {
                id,
                how: Ending::Pulled,
            });
        }
        self.drop_claim(id, call);
        self.pump();
        Some(completion)
    }

    /// Calls that [`Outbox::pull`] would answer now.
    #[must_use]
    pub fn pullable(&self) -> Vec<CallId> {
        let ready = |id| {
            self.entries.get(id).is_some_and(|entry| {
                matches!(entry.state, State::Ready | State::Pulled) && entry.completion().is_some()
            })
        };
        self.claims
            .iter()
            .filter(|(_, ids)| ids.iter().any(ready))
            .map(|(call, _)| *call)
            .collect()
    }

    /// Calls that claim this completion.
    pub fn claimants(&self, id: CompletionId) -> impl Iterator<Item = CallId> + '_ {
        let entry = self.entries.get(&id.into());
        entry
            .into_iter()
            .flat_map(|entry| entry.claims.iter().copied())
    }

    /// Every record up to `seq` is safe.
    pub fn journaled(&mut self, seq: u64) {
        self.synced = self.synced.max(seq.min(self.seq));
        self.pump();
    }

    /// Number of the last record that was handed out; 0 = none yet.
    #[must_use]
    pub fn last_record(&self) -> u64 {
        self.seq
    }

    /// This record is safe, or there is no disk to wait for.
    #[must_use]
    pub fn is_safe(&self, seq: u64) -> bool {
        self.degraded || seq <= self.synced
    }

    /// The journal cannot be written. Everything is delivered all the same (R-DELIV-05), and records are still handed
    /// out: whoever writes keeps them for the recovery.
    pub fn journal_failed(&mut self) {
        self.set_degraded(true);
    }

    /// The journal can be written again, and has everything up to `seq`.
    pub fn journal_recovered(&mut self, seq: u64) {
        self.synced = self.synced.max(seq.min(self.seq));
        self.set_degraded(false);
    }

    fn set_degraded(&mut self, degraded: bool) {
        if std::mem::replace(&mut self.degraded, degraded) != degraded {
            self.effects.push(OutboxEffect::Degraded(degraded));
        }
        self.pump();
    }

    /// Takes in what a journal of this host remembers, in the order it was written: at the start, or later when a
    /// journal could not be read at first. What is known already stays as it is. A run that never settled becomes
    /// `failed: supervisor lost`. Whether anything of it arrived before, the next join tells.
    pub fn restore(&mut self, records: impl IntoIterator<Item = JournalRecord>) {
        let mut found: BTreeMap<DeliveryId, (usize, JournalRecord)> = BTreeMap::new();
        for (at, record) in records.into_iter().enumerate() {
            let id = record.id();
            if !self.is_known(id) {
                found.insert(id, (at, record));
            }
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|(at, _)| *at);
        for (_, record) in found {
            let id = record.id();
            let (delivery, seq, quiet) = match record {
                JournalRecord::Ended { how, .. } => {
                    self.over.add(id, how);
                    continue;
                }
                JournalRecord::Opened {
                    foreground: true, ..
                } => {
                    self.end(id, Ending::Suppressed(Suppression::CallEnded));
                    continue;
                }
                JournalRecord::Opened { run, quiet, .. } => {
                    let completion = supervisor_lost(run);
                    let seq = self.journal(JournalRecord::Settled {
                        completion: completion.clone(),
                        quiet,
                    });
                    (completion.into(), seq, quiet)
                }
                JournalRecord::Settled { completion, quiet } => (completion.into(), 0, quiet),
                JournalRecord::Asked { question } => (question.into(), 0, false),
            };
            self.insert(id, Body::Frozen(delivery), State::Unsure, seq)
                .quiet = quiet;
        }
        self.pump();
    }

    /// Where a delivery is.
    #[must_use]
    pub fn whereabouts(&self, id: DeliveryId) -> Whereabouts {
        let Some(entry) = self.entries.get(&id) else {
            return self
                .over
                .get(id)
                .map_or(Whereabouts::Unknown, Whereabouts::Over);
        };
        match entry.state {
            State::Unsettled => Whereabouts::Unsettled,
            State::Ready => Whereabouts::Ready {
                claimed: entry.claims.len(),
            },
            State::Offered(_) | State::Unsure => Whereabouts::Offered,
            State::Placed => Whereabouts::Placed,
            State::Pulled => Whereabouts::Over(Ending::Pulled),
        }
    }

    /// Entries that are not over, and ids of those that are: what its memory grows with.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.over.len())
    }

    fn is_known(&self, id: DeliveryId) -> bool {
        self.entries.contains_key(&id) || self.over.get(id).is_some()
    }

    fn insert(&mut self, id: DeliveryId, body: Body, state: State, seq: u64) -> &mut Entry {
        self.order += 1;
        let entry = Entry::new(body, state, seq, self.order);
        match self.entries.entry(id) {
            btree_map::Entry::Occupied(mut slot) => {
                slot.insert(entry);
                slot.into_mut()
            }
            btree_map::Entry::Vacant(slot) => slot.insert(entry),
        }
    }

    fn journal(&mut self, record: JournalRecord) -> u64 {
        self.seq += 1;
        let seq = self.seq;
        self.effects.push(OutboxEffect::Journal { seq, record });
        seq
    }

    /// An entry, or an id that had none yet, is over.
    fn end(&mut self, id: DeliveryId, how: Ending) {
        if let Some(entry) = self.entries.remove(&id) {
            for call in entry.claims {
                if let Some(claimed) = self.claims.get_mut(&call) {
                    claimed.retain(|other| *other != id);
                    if claimed.is_empty() {
                        self.claims.remove(&call);
                    }
                }
            }
            if entry.state == State::Pulled {
                self.over.add(id, Ending::Pulled);
                return; // journalled at the first pull
            }
        }
        self.journal(JournalRecord::Ended { id, how });
        self.over.add(id, how);
    }

    fn add_claim(&mut self, id: DeliveryId, call: CallId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.claims.insert(call) {
            self.claims.entry(call).or_default().push(id);
        }
    }

    /// Takes a claim off an entry; the list of the call is the caller's.
    fn drop_claim(&mut self, id: DeliveryId, call: CallId) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.claims.remove(&call);
        if entry.state == State::Pulled && entry.claims.is_empty() {
            self.end(id, Ending::Pulled);
            return;
        }
        if let Body::Owed(run, foreground) = &mut entry.body
            && *foreground == Some(call)
        {
            // From now on nobody but the parent's session would hear of it.
            *foreground = None;
            let (run, quiet) = (run.clone(), entry.quiet);
            self.journal(JournalRecord::Opened {
                run,
                foreground: false,
                quiet,
            });
        }
    }
}

/// What the parent is told of a run that the core did not live to see settle (R-DELIV-15, R-DELIV-17).
fn supervisor_lost(run: OwedRun) -> Completion {
    Completion {
        id: run.id,
        agent: run.agent,
        status: CompletionStatus::Failed,
        result: "supervisor lost\n(no output)".to_owned(),
        session_path: run.session_path,
        idle: false,
    }
}
