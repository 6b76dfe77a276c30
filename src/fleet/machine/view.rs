//! Views of the machine's state for viewers and records, and the names agents are called by.

use super::Machine;
use super::state::Agent;
use crate::fleet::agent::Status;
use crate::fleet::answer::{ErrorCode, RequestError};
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::roster::{AgentView, PendingMessage, UsageTotals};
use crate::fleet::transcript::Outcome;

impl Machine {
    /// Agents in spawn order.
    pub fn ids(&self) -> impl Iterator<Item = AgentId> + '_ {
        self.agents.iter().map(|a| a.id)
    }

    /// The agent with this name, one leading `@` allowed (R-TOOL-02).
    ///
    /// # Errors
    /// `NotFound` with the names that are known.
    pub fn resolve_name(&self, name: &str) -> Result<AgentId, RequestError> {
        let bare = name.strip_prefix('@').unwrap_or(name);
        if let Some(agent) = self.agents.iter().find(|a| a.name == bare) {
            return Ok(agent.id);
        }
        let error = RequestError::new(ErrorCode::NotFound, format!("no such agent: @{bare}"));
        let known: Vec<String> = self.agents.iter().map(|a| format!("@{}", a.name)).collect();
        Err(error.with_hint(if known.is_empty() {
            "there are no agents here yet".to_owned()
        } else {
            format!("known here: {}", known.join(", "))
        }))
    }

    /// True when there is such an agent.
    #[must_use]
    pub fn knows(&self, id: AgentId) -> bool {
        self.agent(id).is_some()
    }

    /// The machine's part of an agent's view; the live part is filled in by the supervisor.
    #[must_use]
    pub fn view(&self, id: AgentId, host: HostId) -> Option<AgentView> {
        self.agent(id).map(|a| view(a, host))
    }

    /// How the last run of an agent ended.
    #[must_use]
    pub fn last_outcome(&self, id: AgentId) -> Option<Outcome> {
        self.agent(id).and_then(|a| a.last.clone())
    }

    /// Pi's session id of an agent.
    #[must_use]
    pub fn session_id(&self, id: AgentId) -> Option<&str> {
        self.agent(id).map(|a| a.session_id.as_str())
    }
}

fn view(agent: &Agent, host: HostId) -> AgentView {
    let closing = agent
        .ending
        .as_ref()
        .is_some_and(|_| agent.status.is_live());
    AgentView {
        id: agent.id,
        name: agent.name.clone(),
        host,
        spec: agent.spec.clone(),
        model: agent.instance.as_ref().and_then(|i| i.model.clone()),
        thinking: None,
        status: agent.status.clone(),
        closing,
        since_ms: agent.since.wall_ms,
        run_started_ms: agent.run_started_ms,
        run_took_ms: match agent.status {
            Status::Running => None,
            Status::Queued
            | Status::Starting
            | Status::Idle
            | Status::Completed
            | Status::Failed { .. }
            | Status::Stopped { .. } => agent.run_took_ms,
        },
        runs_ended: agent.runs_ended,
        usage: UsageTotals::default(),
        context: None,
        tool_uses: 0,
        activity: None,
        retry: None,
        compacting: agent.instance.as_ref().is_some_and(|i| i.compacting),
        pending: agent
            .queue
            .iter()
            .filter(|m| !m.initial)
            .map(|m| PendingMessage {
                id: m.id,
                text: m.text.clone(),
                state: m.state,
            })
            .collect(),
        dialogs: Vec::new(),
        statuses: Vec::new(),
        session_path: agent.session_path.clone(),
        pid: agent.instance.as_ref().and_then(|i| i.pid),
        demo: false,
        rev: 0,
    }
}
