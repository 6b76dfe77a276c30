//! Agents of an earlier core, from their records.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::Machine;
use super::hosts::Host;
use super::input::Now;
use super::state::Agent;
use crate::fleet::agent::{AgentSpec, Status};
use crate::fleet::host::{HostKind, Owner};
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::transcript::Outcome;

/// What is known of an agent of an earlier core.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// Identity.
    pub id: AgentId,
    /// Its host.
    pub host: HostId,
    /// Of what kind that is.
    pub kind: HostKind,
    /// Name.
    pub name: String,
    /// What was asked for.
    pub spec: AgentSpec,
    /// Pi's session id.
    pub session_id: String,
    /// Saved session, if a process ever named it.
    pub session_path: Option<PathBuf>,
    /// State when the record was written.
    pub status: Status,
    /// Wall clock of that, Unix milliseconds.
    pub since_ms: i64,
    /// Length of the last run.
    pub run_took_ms: Option<u64>,
    /// Runs ended.
    pub runs_ended: u64,
    /// How the last one ended.
    pub last: Option<Outcome>,
}

/// What an idle agent is without its process: what its last run was stays true (case B025).
pub(super) fn rests(last: Option<&Outcome>) -> Status {
    match last {
        Some(Outcome::Stopped { by }) => Status::Stopped { by: *by },
        Some(Outcome::Completed { .. } | Outcome::Failed { .. }) | None => Status::Completed,
    }
}

impl Machine {
    /// Takes in an agent of an earlier core. Nothing is revived unasked (design §2): a run that
    /// was going on is failed as `supervisor lost`, an idle agent is what its last run was.
    pub fn restore(&mut self, agent: Restored) {
        let status = match agent.status {
            Status::Queued | Status::Starting | Status::Running => Self::lost_reason(),
            Status::Idle => rests(agent.last.as_ref()),
            ended @ (Status::Completed | Status::Failed { .. } | Status::Stopped { .. }) => ended,
        };
        if self.host(agent.host).is_none() {
            self.hosts.push(Host::new(agent.host, agent.kind));
        }
        if let Some(host) = self.host_mut(agent.host) {
            host.names.take(&agent.name);
        }
        self.index.insert(agent.id, self.agents.len());
        self.agents.push(Agent {
            named: true,
            id: agent.id,
            host: agent.host,
            foreground: None,
            wait_for_result: false,
            boundary: Owner::Parent,
            name: agent.name,
            spec: agent.spec,
            status,
            since: Now {
                mono: Duration::ZERO,
                wall_ms: agent.since_ms,
            },
            session_id: agent.session_id,
            session_path: agent.session_path,
            instance: None,
            ending: None,
            queue: VecDeque::new(),
            run_started_ms: None,
            run_took_ms: agent.run_took_ms,
            runs_ended: agent.runs_ended,
            last: agent.last,
            start_error: None,
        });
    }
}
