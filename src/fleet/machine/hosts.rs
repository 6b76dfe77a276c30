//! Hosts: who parents agents, at which generation of its session, and what is owed to it.
//!
//! A generation is a fence (R-LIFE-12): what is asked in the name of one that is over is refused,
//! nothing is launched for it, nothing is delivered to it (R-DELIV-05).

use super::Machine;
use super::branch::Branch;
use super::effect::Effect;
use super::input::{Now, OfferAnswer, Timer};
use super::told::Held;
use crate::fleet::agent::StopCause;
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::completion::DeliveryId;
use crate::fleet::host::{Caller, HostKind, LeaveReason};
use crate::fleet::ids::{AgentId, CallId, HostId, InstanceId};
use crate::fleet::name::NamePool;
use crate::fleet::outbox::{Activity, JournalRecord, Outbox, OutboxEffect};

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) kind: HostKind,
    pub(super) generation: u64,
    /// Between its joining and its leaving.
    pub(super) open: bool,
    /// Generations that were left, and the processes of theirs that are still being ended.
    closing: Vec<(u64, Vec<InstanceId>)>,
    /// It joined in this core: its journal was read.
    met: bool,
    /// Names given to its agents, for its whole life (R-ID-01).
    pub(super) names: NamePool,
    /// The branch of its session that is open.
    pub(super) branch: Branch,
    /// What is owed to it; the person reads cards instead.
    pub(super) outbox: Option<Outbox>,
    /// Answers to its calls that wait for its journal.
    pub(super) held: Vec<Held>,
}

impl Host {
    pub(super) fn new(id: HostId, kind: HostKind) -> Self {
        let person = kind == HostKind::Person;
        Self {
            id,
            kind,
            generation: u64::from(person),
            open: person,
            closing: Vec::new(),
            met: person,
            names: NamePool::default(),
            branch: Branch::default(),
            outbox: (!person).then(Outbox::default),
            held: Vec::new(),
        }
    }

    /// It at its present generation.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            host: self.id,
            generation: self.generation,
        }
    }
}

/// What a host brings along when it joins.
pub(super) struct Joining {
    pub(super) host: HostId,
    pub(super) kind: HostKind,
    pub(super) generation: u64,
    pub(super) known: Vec<DeliveryId>,
    pub(super) undecided: Vec<DeliveryId>,
    pub(super) durable: bool,
    pub(super) journal: Vec<JournalRecord>,
}

impl Machine {
    pub(super) fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.iter().find(|h| h.id == id)
    }

    pub(super) fn host_mut(&mut self, id: HostId) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|h| h.id == id)
    }

    /// The host of an agent.
    pub(super) fn host_of(&self, id: AgentId) -> Option<&Host> {
        self.host(self.agent(id)?.host)
    }

    /// The outbox that an agent's results go to.
    pub(super) fn outbox_of(&mut self, id: AgentId) -> Option<&mut Outbox> {
        let host = self.agent(id)?.host;
        self.host_mut(host)?.outbox.as_mut()
    }

    /// The host at its present generation, which is open.
    pub(super) fn present(&self, caller: Caller) -> Option<&Host> {
        self.host(caller.host)
            .filter(|h| h.open && h.generation == caller.generation)
    }

    /// Refuses what is asked in the name of a host that is not there any more.
    pub(super) fn check_caller(&self, caller: Caller) -> Result<&Host, RequestError> {
        self.present(caller).ok_or_else(|| {
            RequestError::new(ErrorCode::Gone, "the session that asked for this has ended")
        })
    }

    /// The agent is one of this host's (R-TOOL-02: direct children only).
    pub(super) fn check_parent(&self, caller: Caller, id: AgentId) -> Result<(), RequestError> {
        self.check_caller(caller)?;
        match self.agent(id) {
            Some(agent) if agent.host == caller.host => Ok(()),
            Some(_) | None => Err(RequestError::new(ErrorCode::NotFound, "no such agent")),
        }
    }

    /// Levels below the top at which the agents of this host live: 1 for a person or a Pi session.
    pub(super) fn depth_below(&self, host: HostId) -> u32 {
        let mut depth = 1;
        let mut at = self.host(host).map(|h| h.kind);
        // Bounded by the number of hosts: a parent is always older than its agents.
        for _ in 0..self.hosts.len() {
            let Some(HostKind::Nested { agent }) = at else {
                break;
            };
            depth += 1;
            at = self.host_of(agent).map(|h| h.kind);
        }
        depth
    }

    pub(super) fn host_joined(&mut self, call: CallId, joining: Joining) {
        if self.shutdown.is_some() {
            self.refuse(call, ErrorCode::Conflict, "the core is ending");
            return;
        }
        if let HostKind::Nested { agent } = joining.kind {
            // Only a process that lives can be a host (R-ID-08 is checked where the token is).
            let live = self
                .agent(agent)
                .filter(|a| a.ending.is_none())
                .and_then(|a| a.instance.as_ref())
                .is_some_and(|i| i.exit.is_none());
            if !live {
                self.refuse(call, ErrorCode::Gone, "the agent has ended");
                return;
            }
        }
        let at = match self.hosts.iter().position(|h| h.id == joining.host) {
            Some(at) => at,
            None => {
                self.hosts.push(Host::new(joining.host, joining.kind));
                self.hosts.len() - 1
            }
        };
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        if host.kind != joining.kind {
            self.refuse(
                call,
                ErrorCode::Conflict,
                "this session is known as another kind of host",
            );
            return;
        }
        if host.open {
            self.refuse(
                call,
                ErrorCode::Conflict,
                "another process serves this session already",
            );
            return;
        }
        if joining.generation <= host.generation {
            self.refuse(
                call,
                ErrorCode::Gone,
                "a newer generation of this session joined",
            );
            return;
        }
        host.generation = joining.generation;
        host.open = true;
        let first = !std::mem::replace(&mut host.met, true);
        if let Some(outbox) = &mut host.outbox {
            if first {
                // It may be known already by its agents: those of an earlier core were restored.
                outbox.restore(joining.journal);
            }
            outbox.join(joining.generation, &joining.known, joining.durable);
            outbox.hold(joining.generation, &joining.undecided);
        }
        self.answer(call, Ok(Reply::Done));
    }

    pub(super) fn host_state(&mut self, caller: Caller, activity: Activity) {
        if self.present(caller).is_none() {
            return;
        }
        if let Some(outbox) = self.host_mut(caller.host).and_then(|h| h.outbox.as_mut()) {
            outbox.host_state(activity);
        }
    }

    /// The session of a host ended: its agents end, what they were doing reaches that same session
    /// when it comes back, never another (R-DELIV-17).
    pub(super) fn host_left(&mut self, now: Now, caller: Caller, _reason: LeaveReason) {
        let Some(host) = self.host_mut(caller.host) else {
            return;
        };
        if !host.open || host.generation != caller.generation || host.kind == HostKind::Person {
            return;
        }
        host.open = false;
        host.branch.closed();
        if let Some(outbox) = &mut host.outbox {
            // Its runs end because it ends (R-DELIV-17).
            outbox.hush();
            outbox.leave();
        }
        self.stop_agents_of(now, caller.host);
        let left: Vec<InstanceId> = self
            .agents
            .iter()
            .filter(|a| a.host == caller.host)
            .filter_map(|a| Some(a.instance.as_ref()?.id))
            .collect();
        if let Some(host) = self.host_mut(caller.host) {
            host.closing.push((caller.generation, left));
        }
    }

    fn stop_agents_of(&mut self, now: Now, host: HostId) {
        let ids: Vec<AgentId> = self
            .agents
            .iter()
            .filter(|a| a.host == host && (a.has_process() || a.status.is_live()))
            .map(|a| a.id)
            .collect();
        for id in ids {
            self.stop(now, id, StopCause::HostGone, None);
        }
    }

    /// The agent's process is ending or gone: it hosts nobody any more (R-ID-04).
    pub(super) fn close_nested(&mut self, now: Now, agent: AgentId) {
        let open: Vec<Caller> = self
            .hosts
            .iter()
            .filter(|h| h.open && h.kind == HostKind::Nested { agent })
            .map(|h| Caller {
                host: h.id,
                generation: h.generation,
            })
            .collect();
        for caller in open {
            self.host_left(now, caller, LeaveReason::Lost);
        }
    }

    /// Says which generations of hosts are done with: left, and no process of theirs is there any
    /// more. A newer one may have joined meanwhile.
    pub(super) fn finish_hosts(&mut self) {
        let there = &self.instances;
        for host in &mut self.hosts {
            let id = host.id;
            host.closing.retain_mut(|(generation, left)| {
                left.retain(|instance| there.contains_key(instance));
                if left.is_empty() {
                    self.out.push(Effect::HostClosed {
                        host: id,
                        generation: *generation,
                    });
                }
                !left.is_empty()
            });
        }
    }

    pub(super) fn offered(&mut self, caller: Caller, epoch: u64, answer: &OfferAnswer) {
        let generation = caller.generation;
        if let Some(outbox) = self.host_mut(caller.host).and_then(|h| h.outbox.as_mut()) {
            match answer {
                OfferAnswer::Taken => outbox.taken(generation, epoch),
                OfferAnswer::Refused => outbox.refused(generation, epoch),
                OfferAnswer::Checked {
                    found,
                    missing,
                    durable,
                } => {
                    outbox.checked(generation, epoch, found, *durable);
                    outbox.missing(generation, missing);
                }
            }
        }
    }

    pub(super) fn journal(&mut self, host: HostId, event: JournalEvent) {
        if let Some(outbox) = self.host_mut(host).and_then(|h| h.outbox.as_mut()) {
            match event {
                JournalEvent::Synced(seq) => outbox.journaled(seq),
                JournalEvent::Failed => outbox.journal_failed(),
                JournalEvent::Read(records) => outbox.restore(records),
                JournalEvent::Recovered(seq, records) => {
                    outbox.restore(records);
                    outbox.journal_recovered(seq);
                }
            }
        }
    }

    pub(super) fn wake_due(&mut self, host: HostId) {
        if let Some(outbox) = self.host_mut(host).and_then(|h| h.outbox.as_mut()) {
            outbox.wake_due();
        }
    }

    /// Turns what the outboxes want into effects.
    pub(super) fn drain_outboxes(&mut self) {
        let after = self.config.batch_window;
        let mut handed = Vec::new();
        for host in &mut self.hosts {
            let id = host.id;
            let Some(outbox) = host.outbox.as_mut() else {
                continue;
            };
            for effect in outbox.take_effects() {
                self.out.push(match effect {
                    OutboxEffect::Journal { seq, record } => Effect::Journal {
                        host: id,
                        seq,
                        record,
                    },
                    OutboxEffect::Offer {
                        generation,
                        epoch,
                        mode,
                        deliveries,
                    } => {
                        handed.push((id, deliveries.clone()));
                        Effect::Offer {
                            host: id,
                            generation,
                            epoch,
                            mode,
                            deliveries,
                        }
                    }
                    OutboxEffect::ArmWake => Effect::Arm {
                        timer: Timer::Wake(id),
                        after,
                    },
                    OutboxEffect::DisarmWake => Effect::Disarm(Timer::Wake(id)),
                    OutboxEffect::Degraded(degraded) => Effect::Degraded { host: id, degraded },
                });
            }
        }
        for (host, deliveries) in handed {
            self.name_senders(host, &deliveries);
        }
    }

    /// The process of a nested host, to bind its connection to (R-ID-08).
    #[must_use]
    pub fn process_of(&self, agent: AgentId) -> Option<(InstanceId, Option<u32>)> {
        let instance = self.agent(agent)?.instance.as_ref()?;
        Some((instance.id, instance.pid))
    }
}

/// News of a journal.
pub(super) enum JournalEvent {
    Synced(u64),
    Failed,
    Recovered(u64, Vec<JournalRecord>),
    Read(Vec<JournalRecord>),
}
