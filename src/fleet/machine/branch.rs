//! Which agents a Pi session speaks of: those that its open branch names (R-PI-03).
//!
//! The bridge keeps the names in the session, as entries that no model reads. An agent joins the open
//! branch when it is spawned there, and when something of it is delivered there; nothing leaves a
//! branch. On another branch it has no name: its process and its record stay, and its results come
//! all the same.

use std::collections::BTreeSet;

use super::Machine;
use super::effect::Effect;
use crate::fleet::completion::Delivery;
use crate::fleet::host::{Caller, HostKind};
use crate::fleet::ids::{AgentId, HostId};

/// What is known of the open branch of a session.
#[derive(Debug, Default)]
pub(super) struct Branch {
    /// Agents that it names; `None` = nobody said.
    named: Option<BTreeSet<AgentId>>,
    /// There may be more to be named.
    stale: bool,
}

impl Branch {
    /// Another agent belongs to it.
    pub(super) fn joined(&mut self) {
        self.stale = true;
    }

    /// The session is gone.
    pub(super) fn closed(&mut self) {
        *self = Self::default();
    }
}

impl Machine {
    /// A session was opened, or went to another branch. `agents`: those that the branch names; `None`
    /// = no branch of the session names any, so that all of them are meant. `names`: all that were
    /// ever used in the session or in the one it was forked from (R-ID-01).
    pub(super) fn host_branch(
        &mut self,
        caller: Caller,
        agents: Option<&[AgentId]>,
        names: &[String],
    ) {
        if self.present(caller).is_none_or(|h| h.kind != HostKind::Pi) {
            return;
        }
        for agent in self.agents.iter_mut().filter(|a| a.host == caller.host) {
            agent.named = agents.is_none_or(|named| named.contains(&agent.id));
        }
        if let Some(host) = self.host_mut(caller.host) {
            for name in names {
                host.names.take(name);
            }
            let named = agents.unwrap_or_default().iter().copied().collect();
            host.branch = Branch {
                named: Some(named),
                stale: true,
            };
        }
    }

    /// Something of an agent is handed to its session: whoever reads it can answer.
    pub(super) fn name_senders(&mut self, host: HostId, deliveries: &[Delivery]) {
        for delivery in deliveries {
            let sender = match delivery {
                Delivery::FinalReply(completion) => &completion.agent,
                Delivery::Question(question) => &question.agent,
            };
            let mut agents = self.agents.iter_mut();
            let Some(agent) = agents.find(|a| a.host == host && a.name == *sender) else {
                continue;
            };
            if !std::mem::replace(&mut agent.named, true)
                && let Some(host) = self.host_mut(host)
            {
                host.branch.joined();
            }
        }
    }

    /// Has the sessions write down who joined their open branches.
    pub(super) fn drain_branches(&mut self) {
        for host in self.hosts.iter_mut().filter(|h| h.open) {
            let Some(there) = host.branch.named.as_mut() else {
                continue;
            };
            if !std::mem::take(&mut host.branch.stale) {
                continue;
            }
            let joined: Vec<(AgentId, String)> = self
                .agents
                .iter()
                .filter(|a| a.host == host.id && a.named && there.insert(a.id))
                .map(|a| (a.id, a.name.clone()))
                .collect();
            if !joined.is_empty() {
                self.out.push(Effect::Named {
                    host: host.id,
                    generation: host.generation,
                    agents: joined,
                });
            }
        }
    }
}
