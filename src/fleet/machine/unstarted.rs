//! Agents of a session that never came to be (R-TOOL-07, R-DELIV-09): the call that asked for one is
//! told so when nothing of its process is left, and the agent is forgotten. Its name is free again.
//! A person keeps the row: it says what is wrong, and a message tries again.

use super::Machine;
use super::effect::Effect;
use crate::fleet::answer::RequestError;
use crate::fleet::host::HostKind;
use crate::fleet::ids::{AgentId, CallId};

impl Machine {
    /// Nothing is left of it but the call that asked for it.
    fn is_forgettable(&self, id: AgentId) -> bool {
        let session = self
            .host_of(id)
            .is_some_and(|host| host.kind != HostKind::Person);
        // What hosts agents, or did, came to be.
        let hosts = self
            .hosts
            .iter()
            .any(|host| host.kind == HostKind::Nested { agent: id });
        session
            && !hosts
            && self.agent(id).is_some_and(|agent| {
                let running = agent.instance.as_ref().is_some_and(|i| i.run.is_some());
                agent.runs_ended == 0 && !running
            })
    }

    /// A new agent does not start: its call is answered, or will be when its process is gone, and it
    /// is forgotten then.
    pub(super) fn not_started(&mut self, id: AgentId, call: CallId, error: RequestError) {
        if self.is_forgettable(id)
            && let Some(agent) = self.agent_mut(id)
            && let Some(instance) = agent.instance.as_ref()
        {
            // What a dead process had done before is still being heard: nothing is waited for.
            let waits = instance.exit.is_none().then_some(call);
            agent.start_error = Some((waits, error.clone()));
            if waits.is_some() {
                return;
            }
        }
        self.answer(call, Err(error));
    }

    /// The call of a start that failed already is not wanted any more. `true` = it was one.
    pub(super) fn cancel_not_started(&mut self, call: CallId) -> bool {
        for agent in &mut self.agents {
            if let Some((waiting, _)) = &mut agent.start_error
                && *waiting == Some(call)
            {
                *waiting = None;
                return true;
            }
        }
        false
    }

    /// Nothing of its process is left: who waits is told, and it is forgotten unless somebody has
    /// sent it something since. `true` = it is.
    pub(super) fn end_not_started(&mut self, id: AgentId) -> bool {
        let Some((call, error)) = self.agent_mut(id).and_then(|a| a.start_error.take()) else {
            return false;
        };
        if let Some(call) = call {
            self.answer(call, Err(error));
        }
        self.forget(id)
    }

    /// Forgets an agent that never came to be. `true` = it did.
    pub(super) fn forget(&mut self, id: AgentId) -> bool {
        if !self.is_forgettable(id) || self.agent(id).is_none_or(|a| !a.queue.is_empty()) {
            return false;
        }
        let Some(at) = self.index.remove(&id) else {
            return false;
        };
        let agent = self.agents.remove(at);
        for later in self.index.values_mut().filter(|i| **i > at) {
            *later -= 1;
        }
        self.launches.retain(|waiting| *waiting != id);
        if let Some(host) = self.host_mut(agent.host) {
            host.names.give_back(&agent.name);
        }
        self.out.push(Effect::Forget {
            agent: id,
            host: agent.host,
        });
        true
    }
}
