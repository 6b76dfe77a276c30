//! Hosts other than the person: a Pi session with its bridge, its session file and the journal the core keeps for it; and
//! what must hold between them (R-DELIV): nothing reaches a generation that is over, nothing is offered before its record
//! is safe, nothing arrives twice, nothing that is owed stays away.

use std::collections::VecDeque;

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::completion::{CompletionId, Delivery, DeliveryId};
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason};
use pi_agents::fleet::ids::HostId;
use pi_agents::fleet::machine::{Effect, Input, OfferAnswer};
use pi_agents::fleet::outbox::{Activity, Ending, JournalRecord, OfferMode};
use pi_agents::fleet::transcript::Outcome;

use super::step::{Kind, Step};
use super::world::{Asked, NESTED, Proc, World, agent_id, host_id, instance_id, number};

#[derive(Clone, Debug)]
pub struct Offer {
    epoch: u64,
    mode: OfferMode,
    ids: Vec<DeliveryId>,
    /// It comes into the session when its run begins.
    late: bool,
}

#[derive(Debug, Default)]
pub struct Host {
    pub n: u32,
    pub generation: u64,
    /// The agent whose session it is.
    of: Option<u32>,
    pub open: bool,
    pub activity: Option<Activity>,
    /// In the memory of its bridge.
    pub offers: VecDeque<Offer>,
    /// Put into the session, not looked for yet.
    pub taken: VecDeque<Offer>,
    /// Taken in an earlier connection and not looked for yet, and whether they arrive.
    pub held: Vec<(DeliveryId, bool)>,
    /// Found and told, when the session was not on the disk yet.
    pub unsafe_: Vec<DeliveryId>,
    /// Deliveries among the entries of the session, and results of calls.
    pub session: Vec<DeliveryId>,
    pub durable: bool,
    /// Records of the journal that are safe, and those that are on their way.
    pub disk: Vec<JournalRecord>,
    pub writing: VecDeque<(u64, JournalRecord)>,
    pub last_seq: u64,
    /// Runs that were said to be owed, with the number of the record.
    pub opened: Vec<(u64, DeliveryId)>,
    /// Runs that a call was told of, and the journal had.
    pub promised: Vec<DeliveryId>,
    /// Runs that a core was lost in, owed by those after it.
    pub lost: Vec<DeliveryId>,
    pub failed: bool,
    /// It joined this core, which has its journal.
    met: bool,
    /// What is in a journal that could not be read when it joined.
    pub unread: Vec<JournalRecord>,
    /// It was read after the join: what of it arrived, the next join tells.
    pub read_late: bool,
    /// What was said to be owed: settled or asked.
    pub owed: Vec<DeliveryId>,
    /// Agents that its open branch names.
    pub named: Vec<u32>,
    /// What this core said to be over.
    ended: Vec<DeliveryId>,
    pulled: Vec<DeliveryId>,
}

impl Host {
    pub fn new(n: u32) -> Self {
        Self {
            n,
            generation: u64::from(n == 0),
            open: n == 0,
            ..Self::default()
        }
    }

    /// Its core died with `kept` records beyond those it knew to be safe. What its session was promised is on the disk, and
    /// what is owed there is owed by the next core (R-DELIV-17).
    pub fn core_died(&mut self, kept: usize) -> Option<String> {
        self.open = self.n == 0;
        self.activity = None;
        self.connection_lost();
        self.met = false;
        self.unread.clear();
        self.read_late = false;
        self.ended.clear();
        for (_, record) in self.writing.drain(..).take(kept) {
            self.disk.push(record);
        }
        self.writing.clear();
        self.last_seq = 0;
        self.opened.clear();
        self.failed = false;
        // What was never safe is known to nobody but the session.
        let disk = &self.disk;
        self.owed.retain(|id| {
            disk.iter().any(|r| {
                r.id() == *id
                    && matches!(
                        r,
                        JournalRecord::Settled { .. } | JournalRecord::Asked { .. }
                    )
            })
        });
        self.promises_after_death()
    }

    /// The bridge lives on and has what it took.
    fn connection_lost(&mut self) {
        self.offers.clear();
        self.unsafe_.clear();
        for offer in self.taken.drain(..) {
            let arrives = |id: &DeliveryId| offer.late || self.session.contains(id);
            self.held
                .extend(offer.ids.iter().map(|id| (*id, arrives(id))));
        }
    }

    /// Something it has to look for, and can.
    pub fn can_look(&self) -> bool {
        !self.held.is_empty() || (self.durable && !self.unsafe_.is_empty())
    }

    pub fn session_is_empty(&self) -> bool {
        self.session.is_empty()
    }

    fn caller(&self) -> Caller {
        Caller {
            host: host_id(self.n),
            generation: self.generation,
        }
    }

    fn fits(&self, mode: OfferMode) -> bool {
        match mode {
            OfferMode::Boundary => self.activity == Some(Activity::Busy),
            OfferMode::Wake => self.activity == Some(Activity::Idle),
            OfferMode::Silent => self.activity.is_some(),
        }
    }
}

fn activity(n: u32) -> Activity {
    match n % 3 {
        0 => Activity::Busy,
        1 => Activity::Idle,
        _ => Activity::Silent,
    }
}

impl World {
    pub fn host_mut(&mut self, id: HostId) -> Option<&mut Host> {
        let n = number(id.0).checked_sub(1)?;
        self.hosts.get_mut(n as usize)
    }

    /// This host is there, and at this generation.
    pub fn is_present(&self, caller: Caller) -> bool {
        self.hosts.iter().any(|h| h.open && h.caller() == caller)
    }

    pub fn host_step(&mut self, step: Step) {
        let at = step.b as usize;
        if step.b == 0 || at >= self.hosts.len() {
            return;
        }
        let h = &mut self.hosts[at];
        let (host, generation, open) = (host_id(step.b), h.generation, h.open);
        match step.kind {
            Kind::Join if !open => self.join(step.a, at, step.c),
            Kind::Leave if open => {
                let reason = [LeaveReason::Reload, LeaveReason::Lost][(step.c % 2) as usize];
                self.input(Input::HostLeft {
                    host,
                    generation,
                    reason,
                });
            }
            Kind::State if open => self.report(at, activity(step.c)),
            Kind::Take if open => self.take(at, step.c),
            Kind::Check if open => {
                let Some(mut offer) = h.taken.pop_front() else {
                    return;
                };
                let there = |id: &DeliveryId| offer.late || h.session.contains(id);
                let (found, missing): (Vec<_>, Vec<_>) = offer.ids.iter().partition(|id| there(id));
                let (epoch, durable) = (offer.epoch, h.durable);
                let late = std::mem::take(&mut offer.late);
                if !durable && !found.is_empty() {
                    h.taken.push_front(offer);
                }
                if late {
                    self.arrive(at, &found);
                }
                self.looked(at, epoch, found, missing, durable);
            }
            Kind::Look if open && h.can_look() => {
                let held = std::mem::take(&mut h.held);
                let (found, missing): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.1);
                let ids = |held: Vec<(DeliveryId, bool)>| held.into_iter().map(|held| held.0);
                let (mut found, missing): (Vec<_>, Vec<_>) =
                    (ids(found).collect(), ids(missing).collect());
                let fresh: Vec<_> = found
                    .iter()
                    .filter(|id| !h.session.contains(id))
                    .copied()
                    .collect();
                let durable = h.durable;
                if durable {
                    found.append(&mut h.unsafe_);
                } else {
                    h.unsafe_.extend(&found);
                }
                self.arrive(at, &fresh);
                self.looked(at, 0, found, missing, durable);
            }
            Kind::Written => h.durable = true,
            Kind::Synced if !h.failed => {
                if let Some((seq, record)) = h.writing.pop_front() {
                    h.disk.push(record);
                    self.input(Input::Journaled { host, seq });
                }
            }
            Kind::JournalFails if !h.failed => {
                h.failed = true;
                self.input(Input::JournalFailed { host });
            }
            Kind::JournalWorks if h.failed => {
                h.failed = false;
                h.disk.extend(h.writing.drain(..).map(|(_, record)| record));
                let seq = h.last_seq;
                let records = std::mem::take(&mut h.unread);
                h.read_late |= !records.is_empty();
                self.input(Input::JournalRecovered { host, seq, records });
            }
            Kind::JournalReads if !h.unread.is_empty() => {
                h.read_late = true;
                let records = std::mem::take(&mut h.unread);
                self.input(Input::JournalRead { host, records });
            }
            _ => {}
        }
    }

    /// These come into the session.
    fn arrive(&mut self, at: usize, ids: &[DeliveryId]) {
        let h = &mut self.hosts[at];
        let twice = ids.iter().find(|id| h.session.contains(id)).copied();
        h.session.extend(ids);
        if let Some(id) = twice {
            self.fail(format!("{id} is in the session twice (R-DELIV-05)"));
        }
    }

    fn looked(
        &mut self,
        at: usize,
        epoch: u64,
        found: Vec<DeliveryId>,
        missing: Vec<DeliveryId>,
        durable: bool,
    ) {
        let h = &self.hosts[at];
        let (host, generation) = (host_id(h.n), h.generation);
        self.input(Input::Offered {
            host,
            generation,
            epoch,
            answer: OfferAnswer::Checked {
                found,
                missing,
                durable,
            },
        });
    }

    fn join(&mut self, n: u32, at: usize, sort: u32) {
        if self.taken(n) {
            return;
        }
        let mut kind = HostKind::Pi;
        if self.hosts[at].n == NESTED {
            let of = self.hosts[at].of.unwrap_or(sort / 2);
            let top = self.agent(of).is_some_and(|a| a.host != NESTED);
            let lives = |p: &Proc| p.launched && !p.exit_told && p.closed.is_none();
            if !top || !self.live_proc(of).is_some_and(lives) {
                return;
            }
            self.hosts[at].of = Some(of);
            kind = HostKind::Nested {
                agent: agent_id(of),
            };
        }
        let unreadable = !sort.is_multiple_of(2);
        let h = &mut self.hosts[at];
        h.generation += 1;
        let (host, generation) = (host_id(h.n), h.generation);
        let known = h.session.clone();
        let undecided = h.held.iter().map(|held| held.0).collect();
        let (durable, mut journal) = (h.durable, h.disk.clone());
        let number = h.n;
        let unreadable = unreadable && !h.met && !journal.is_empty();
        let unread = if unreadable {
            std::mem::take(&mut journal)
        } else {
            Vec::new()
        };
        self.call(Asked::Join, n, number);
        self.input(Input::HostJoined {
            call: super::world::call_id(n),
            host,
            kind,
            generation,
            known,
            undecided,
            durable,
            journal,
        });
        self.open_branch(at, kind, sort);
        let h = &mut self.hosts[at];
        if h.open && unreadable {
            h.failed = true;
            h.unread = unread;
            self.input(Input::JournalFailed { host });
        }
    }

    /// The answer to a join.
    pub fn joined(&mut self, call: u32) {
        let host = self.calls.iter().find(|c| c.n == call).map(|c| c.agent);
        if let Some(h) = host.and_then(|n| self.hosts.get_mut(n as usize)) {
            h.open = true;
            h.met = true;
            if !h.durable {
                h.unsafe_.clone_from(&h.session);
            }
        }
    }

    fn report(&mut self, at: usize, activity: Activity) {
        let h = &mut self.hosts[at];
        h.activity = Some(activity);
        let (host, generation) = (host_id(h.n), h.generation);
        self.input(Input::HostState {
            host,
            generation,
            activity,
        });
    }

    /// Sorts: 0 takes it, 1 refuses it, 2 takes it and another extension drops it, 3 takes it and it comes into the
    /// session later.
    fn take(&mut self, at: usize, sort: u32) {
        let h = &mut self.hosts[at];
        let Some(mut offer) = h.offers.pop_front() else {
            return;
        };
        let (host, generation, epoch) = (host_id(h.n), h.generation, offer.epoch);
        let takes = sort != 1 && h.fits(offer.mode);
        let (wakes, now) = (takes && offer.mode == OfferMode::Wake, h.activity);
        if takes {
            offer.late = sort == 3;
            let ids = offer.ids.clone();
            h.taken.push_back(offer);
            if sort != 2 && sort != 3 {
                self.arrive(at, &ids);
            }
        }
        self.input(Input::Offered {
            host,
            generation,
            epoch,
            answer: if takes {
                OfferAnswer::Taken
            } else {
                OfferAnswer::Refused
            },
        });
        if wakes {
            self.report(at, Activity::Busy);
        } else if !takes && let Some(now) = now {
            self.report(at, now);
        }
    }

    // --- what must hold -------------------------------------------------------------------------

    pub fn told_host(&mut self, input: &Input) {
        if let Input::HostLeft { host, reason, .. } = input
            && let Some(n) = self.host_mut(*host).map(|h| h.n)
        {
            self.host_gone(n, *reason);
        }
    }

    /// The session of an agent ends with its process.
    pub fn hosts_nobody(&mut self, proc: u32) {
        let agent = self.proc(proc).map(|p| p.agent);
        let h = &self.hosts[NESTED as usize];
        if h.open && h.of == agent {
            self.host_gone(NESTED, LeaveReason::Quit);
        }
    }

    fn host_gone(&mut self, n: u32, reason: LeaveReason) {
        let h = &mut self.hosts[n as usize];
        h.open = false;
        h.activity = None;
        h.read_late = false;
        h.connection_lost();
        if reason != LeaveReason::Lost {
            // Its memory is gone, and what it held for later.
            h.held.clear();
        }
        let agents: Vec<u32> = self
            .agents
            .iter()
            .filter(|a| a.host == n)
            .map(|a| a.n)
            .collect();
        for call in &mut self.calls {
            call.orphan |= call.open() && agents.contains(&call.agent);
        }
        for agent in agents {
            self.may_close(Some(agent), StopCause::HostGone);
        }
    }

    pub fn check_host(&mut self, effect: &Effect) {
        match effect {
            Effect::Journal { host, seq, record } => {
                self.check_secret(record.id());
                let Some(h) = self.host_mut(*host) else {
                    self.fail("the journal of an unknown host");
                    return;
                };
                let mut wrong = None;
                if *seq != h.last_seq + 1 {
                    wrong = Some("the records of a journal are not numbered one by one".to_owned());
                }
                h.last_seq = *seq;
                let id = record.id();
                if h.ended.contains(&id) {
                    wrong = Some(format!("a record of {id}, which is over: {record:?}"));
                }
                if let JournalRecord::Ended { how, .. } = record {
                    if matches!(how, Ending::Suppressed(_)) && h.lost.contains(&id) {
                        wrong = Some(format!(
                            "{id} was lost with its core and is not told (R-DELIV-17)"
                        ));
                    }
                    h.ended.push(id);
                    if *how == Ending::Acked && !h.session.contains(&id) {
                        wrong = Some(format!(
                            "{id} is acknowledged and not in the session (R-DELIV-05)"
                        ));
                    }
                }
                match record {
                    JournalRecord::Settled { .. } | JournalRecord::Asked { .. } => {
                        if !h.owed.contains(&id) {
                            h.owed.push(id);
                        }
                    }
                    JournalRecord::Ended { .. } => {
                        h.owed.retain(|o| *o != id || h.session.contains(o))
                    }
                    JournalRecord::Opened { .. } => h.opened.push((*seq, id)),
                }
                if let Some(wrong) = wrong {
                    self.fail(wrong);
                }
            }
            Effect::Offer {
                host,
                generation,
                mode,
                deliveries,
                ..
            } => {
                let Some(h) = self.host_mut(*host) else {
                    self.fail("an offer to an unknown host");
                    return;
                };
                let (there, fits, failed) = (
                    h.open && h.generation == *generation,
                    h.fits(*mode),
                    h.failed,
                );
                let mut wrong = None;
                for id in deliveries.iter().map(id_of) {
                    if h.session.contains(&id) || h.pulled.contains(&id) {
                        wrong = Some(format!(
                            "{id} is offered and the parent has it (R-DELIV-05)"
                        ));
                    }
                    let on_its_way = h.offers.iter().chain(&h.taken).any(|o| o.ids.contains(&id));
                    if on_its_way {
                        wrong = Some(format!("{id} is in two offers"));
                    }
                    if h.held.iter().any(|held| held.0 == id) && !h.read_late {
                        wrong = Some(format!("{id} is offered and the bridge looks for it"));
                    }
                    if matches!(id, DeliveryId::Question(_)) && deliveries.len() > 1 {
                        wrong = Some(format!(
                            "question {id} is offered with something else (R-DELIV-10)"
                        ));
                    }
                    if !failed && h.writing.iter().any(|(_, r)| r.id() == id) {
                        wrong = Some(format!(
                            "{id} is offered before its record is safe (R-DELIV-05)"
                        ));
                    }
                }
                let wakes = |o: &Offer| o.mode == OfferMode::Wake;
                if *mode == OfferMode::Wake && h.offers.iter().any(wakes) {
                    wrong = Some("two wakes at once (R-DELIV-03)".to_owned());
                }
                if !there {
                    wrong = Some("an offer to a generation that is over (R-DELIV-05)".to_owned());
                } else if !fits {
                    wrong = Some(format!(
                        "a {mode:?} offer to a host in another state (R-DELIV-02)"
                    ));
                }
                if let Some(wrong) = wrong {
                    self.fail(wrong);
                }
            }
            Effect::Named {
                host,
                generation,
                agents,
            } => self.check_named(*host, *generation, agents),
            Effect::HostClosed { host, generation } => {
                let Some(n) = self.host_mut(*host).map(|h| h.n) else {
                    self.fail("an unknown host is closed");
                    return;
                };
                let its = |agent: u32| self.agent(agent).is_some_and(|a| a.host == n);
                let lives = self
                    .procs
                    .iter()
                    .any(|p| !p.gone && p.generation <= *generation && its(p.agent));
                let h = &self.hosts[n as usize];
                if lives || (h.open && h.generation == *generation) {
                    self.fail("a host is called closed before its agents are gone (R-PI-03)");
                }
            }
            _ => {}
        }
    }

    /// A run that a person began for himself is never owed to the host (R-DELIV-07, R-DELIV-08).
    fn check_secret(&mut self, id: DeliveryId) {
        let DeliveryId::Completion(run) = id else {
            return;
        };
        let n = number(run.instance.0);
        if self.proc(n).is_some_and(|p| p.secret == Some(run.run)) {
            self.fail(format!(
                "{id} is a person's own, and its host is told (R-DELIV-07)"
            ));
        }
    }

    pub fn host_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Journal { host, seq, record } => {
                if let Some(h) = self.host_mut(*host) {
                    h.writing.push_back((*seq, record.clone()));
                }
            }
            Effect::Offer {
                host,
                epoch,
                mode,
                deliveries,
                ..
            } => {
                let offer = Offer {
                    epoch: *epoch,
                    mode: *mode,
                    ids: deliveries.iter().map(id_of).collect(),
                    late: false,
                };
                if let Some(h) = self.host_mut(*host) {
                    h.offers.push_back(offer);
                }
            }
            _ => {}
        }
    }

    /// A run of an agent ended and its call, if one waited, was answered: is its host told, once (R-DELIV-01, 09)?
    pub fn check_told(
        &mut self,
        agent: u32,
        run: (u32, u64),
        outcome: &Outcome,
        effects: &[Effect],
    ) {
        let Some(a) = self.agent(agent) else { return };
        let (at, private) = (a.host as usize, a.private);
        if at == 0 {
            return;
        }
        let id = DeliveryId::Completion(CompletionId {
            instance: instance_id(run.0),
            run: run.1,
        });
        let asked_for = matches!(
            outcome,
            Outcome::Stopped {
                by: StopCause::Parent | StopCause::Cancelled
            }
        );
        let settled = effects.iter().any(|e| {
            matches!(e, Effect::Journal { record: JournalRecord::Settled { completion, .. }, .. }
                if DeliveryId::Completion(completion.id) == id)
        });
        let answered = effects.iter().any(|e| {
            matches!(e, Effect::Answer { answer: Ok(pi_agents::fleet::answer::Reply::Finished { agent: a, .. }), .. }
                if number(a.0) == agent)
        }) && !self.calls.iter().any(|c| c.n == agent && c.orphan);
        if answered {
            let h = &mut self.hosts[at];
            h.pulled.push(id);
            h.session.push(id);
        }
        if asked_for && settled {
            self.fail(format!(
                "{id} was stopped by its parent, which is told of it (R-DELIV-06)"
            ));
        }
        // Until its task was accepted a spawn can fail, and says so itself (R-DELIV-09).
        // And what a process does that is being stopped is no answer any more.
        let begun = self.msgs.iter().any(|m| m.agent == agent && m.counts)
            && self.proc(run.0).is_some_and(|p| !p.after_stop && !p.hushed);
        if begun && !private && !asked_for && !settled && !answered {
            self.fail(format!(
                "{id} is owed to host {at}, which is not told (R-DELIV-01)"
            ));
        }
    }

    /// What a parent is owed and has not got, when nothing is left to happen.
    pub fn unpaid(&self) -> Option<String> {
        let there = |h: &&Host| h.n != NESTED || h.open;
        self.hosts.iter().filter(there).find_map(|h| {
            let id = h.owed.iter().find(|id| !h.session.contains(id))?;
            Some(format!(
                "{id} is owed to host {} and did not arrive (R-DELIV-05)",
                h.n
            ))
        })
    }

    /// What arrived and is not over in the journal of its host, when nothing is left to happen.
    pub fn not_over(&self) -> Option<String> {
        self.hosts.iter().skip(1).filter(|h| h.open).find_map(|h| {
            let over = |id: &DeliveryId| {
                h.disk
                    .iter()
                    .any(|r| r.id() == *id && matches!(r, JournalRecord::Ended { .. }))
            };
            let last = h
                .disk
                .iter()
                .find(|r| !over(&r.id()) && h.session.contains(&r.id()))?;
            Some(format!(
                "{} is in the session of host {} and its journal still owes it",
                last.id(),
                h.n
            ))
        })
    }
}

fn id_of(delivery: &Delivery) -> DeliveryId {
    match delivery {
        Delivery::FinalReply(completion) => completion.id.into(),
        Delivery::Question(question) => question.id.into(),
    }
}
