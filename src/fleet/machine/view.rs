//! Views of the machine's state for viewers and records, and the names agents are called by.

use super::Machine;
use super::state::Agent;
use crate::fleet::agent::Status;
use crate::fleet::answer::{ErrorCode, RequestError};
use crate::fleet::host::HostKind;
use crate::fleet::ids::{AgentId, CallId, HostId, InstanceId};
use crate::fleet::roster::{AgentView, PendingMessage, UsageTotals};
use crate::fleet::transcript::Outcome;

impl Machine {
    /// Agents in spawn order.
    pub fn ids(&self) -> impl Iterator<Item = AgentId> + '_ {
        self.agents.iter().map(|a| a.id)
    }

    /// The agent with this name, one leading `@` allowed (R-TOOL-02): one of this host's, or with
    /// none a person's own, else the only one of that name. `max/sam` names an agent below one.
    ///
    /// # Errors
    /// `NotFound` with the names that are known; `Invalid` when several agents have it.
    pub fn resolve_name(&self, host: Option<HostId>, name: &str) -> Result<AgentId, RequestError> {
        let bare = name.strip_prefix('@').unwrap_or(name);
        let in_reach = |a: &&Agent| host.is_none_or(|h| h == a.host && a.named);
        if host.is_none() {
            let own = |a: &&Agent| {
                self.host(a.host)
                    .is_some_and(|h| h.kind == HostKind::Person)
                    && a.name == bare
            };
            if let Some(agent) = self.agents.iter().find(own) {
                return Ok(agent.id);
            }
            let mut by_key = self.agents.iter().filter(|a| self.display_key(a) == bare);
            if let (Some(agent), None) = (by_key.next(), by_key.next()) {
                return Ok(agent.id);
            }
        }
        let found: Vec<&Agent> = self
            .agents
            .iter()
            .filter(in_reach)
            .filter(|a| a.name == bare)
            .collect();
        if let [agent] = found.as_slice() {
            return Ok(agent.id);
        }
        let named = |agents: Vec<&Agent>| {
            let keys = agents.iter().map(|a| match host {
                Some(_) => format!("@{}", a.name),
                None => format!("@{}", self.display_key(a)),
            });
            keys.collect::<Vec<_>>().join(", ")
        };
        if !found.is_empty() {
            let error = RequestError::new(
                ErrorCode::Invalid,
                format!("several agents are called @{bare}"),
            );
            return Err(error.with_hint(format!("say which: {}", named(found))));
        }
        let error = RequestError::new(ErrorCode::NotFound, format!("no such agent: @{bare}"));
        let known: Vec<&Agent> = self.agents.iter().filter(in_reach).collect();
        Err(error.with_hint(if known.is_empty() {
            "there are no agents here yet".to_owned()
        } else {
            format!("known here: {}", named(known))
        }))
    }

    /// The agent above the host of this one.
    fn parent(&self, agent: &Agent) -> Option<&Agent> {
        match self.host(agent.host)?.kind {
            HostKind::Nested { agent } => self.agent(agent),
            HostKind::Person | HostKind::Pi => None,
        }
    }

    /// Names from the top, `max/sam` (R-ID-02): for display, not an address for a model.
    fn display_key(&self, agent: &Agent) -> String {
        let mut key = agent.name.clone();
        let mut at = agent;
        for _ in 0..self.hosts.len() {
            let Some(parent) = self.parent(at) else {
                break;
            };
            key = format!("{}/{key}", parent.name);
            at = parent;
        }
        key
    }

    /// True when there is such an agent.
    #[must_use]
    pub fn knows(&self, id: AgentId) -> bool {
        self.agent(id).is_some()
    }

    /// The machine's part of an agent's view; the live part is filled in by the supervisor.
    #[must_use]
    pub fn view(&self, id: AgentId) -> Option<AgentView> {
        self.agent(id).map(|agent| AgentView {
            parent: self.parent(agent).map(|p| p.id),
            depth: self.depth_below(agent.host),
            key: self.display_key(agent),
            waited_for: agent.waiting_call().is_some(),
            ..view(agent)
        })
    }

    /// Of what kind the host of an agent is.
    #[must_use]
    pub fn host_kind(&self, id: AgentId) -> Option<HostKind> {
        self.host_of(id).map(|h| h.kind)
    }

    /// How the last run of an agent ended.
    #[must_use]
    pub fn last_outcome(&self, id: AgentId) -> Option<Outcome> {
        self.agent(id).and_then(|a| a.last.clone())
    }

    /// The call that waits for the end of the agent's first run.
    #[must_use]
    pub fn waiting_call(&self, id: AgentId) -> Option<CallId> {
        self.agent(id)?.waiting_call()
    }

    /// Its status; `None` when there is no such agent.
    #[must_use]
    pub fn status_of(&self, id: AgentId) -> Option<&Status> {
        self.agent(id).map(|a| &a.status)
    }

    /// True when this process is its agent's present one: inputs of others are ignored (R-LIFE-12).
    #[must_use]
    pub fn is_current(&self, instance: InstanceId) -> bool {
        self.of_instance(instance).is_some()
    }

    /// Pi's session id of an agent.
    #[must_use]
    pub fn session_id(&self, id: AgentId) -> Option<&str> {
        self.agent(id).map(|a| a.session_id.as_str())
    }
}

fn view(agent: &Agent) -> AgentView {
    let closing = agent
        .ending
        .as_ref()
        .is_some_and(|_| agent.status.is_live());
    AgentView {
        id: agent.id,
        name: agent.name.clone(),
        host: agent.host,
        parent: None,
        depth: 1,
        key: String::new(),
        waited_for: false,
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
