//! Calls that are taken back (R-TOOL-10, R-TOOL-17): each is answered once as cancelled, whatever
//! it had reached, and what it had started and nobody else wants ends.

use super::Machine;
use super::input::Now;
use super::state::Agent;
use crate::fleet::agent::{Status, StopCause};
use crate::fleet::answer::{ErrorCode, RequestError};
use crate::fleet::ids::{AgentId, CallId};
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;

/// Cancellations kept of calls that have not come yet: the check of a spawn takes its time.
const REMEMBERED: usize = 256;

impl Machine {
    pub(super) fn cancel(&mut self, now: Now, call: CallId) {
        let waits = |a: &&Agent| a.queue.iter().any(|m| m.call == Some(call));
        if let Some(id) = self.agents.iter().find(waits).map(|a| a.id) {
            self.cancel_message(now, id, call);
        } else if let Some(id) = self
            .agents
            .iter()
            .find(|a| a.foreground == Some(call))
            .map(|a| a.id)
        {
            if let Some(agent) = self.agent_mut(id) {
                agent.foreground = None;
            }
            self.silence(id, Suppression::CallEnded);
            self.cancelled(call, "cancelled; its agent is being stopped");
            self.stop(now, id, StopCause::Cancelled, None);
        } else if self.cancel_held(now, call) {
            // Done and not said yet.
        } else if self.cancel_not_started(call) {
            self.cancelled(call, "cancelled; nothing was started");
        } else if self.stop_waiting(call) {
            self.cancelled(call, "cancelled; what it asked for goes on");
        } else {
            if self.cancelled_early.len() >= REMEMBERED {
                self.cancelled_early.pop_front();
            }
            self.cancelled_early.push_back(call);
        }
    }

    /// A call that was cancelled before it came. It starts nothing.
    pub(super) fn was_cancelled(&mut self, call: CallId) -> bool {
        let Some(at) = self.cancelled_early.iter().position(|c| *c == call) else {
            return false;
        };
        self.cancelled_early.remove(at);
        self.cancelled(call, "cancelled before it began");
        true
    }

    pub(super) fn cancelled(&mut self, call: CallId, words: &str) {
        self.answer(call, Err(RequestError::new(ErrorCode::Cancelled, words)));
    }

    /// A message whose sender waits to hear that it was accepted.
    fn cancel_message(&mut self, now: Now, id: AgentId, call: CallId) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Some(at) = agent.queue.iter().position(|m| m.call == Some(call)) else {
            return;
        };
        let Some(message) = agent.queue.get_mut(at) else {
            return;
        };
        if message.initial {
            agent.queue.remove(at);
            self.silence(id, Suppression::CallEnded);
            let words = if self.agent(id).is_some_and(Agent::has_process) {
                "cancelled; its agent is being stopped"
            } else {
                "cancelled; nothing was started"
            };
            self.cancelled(call, words);
            self.stop(now, id, StopCause::Cancelled, None);
            return;
        }
        if message.state != MessageState::Queued {
            // It is with the child already and cannot be taken back.
            message.call = None;
            self.cancelled(call, "cancelled; the message may still be delivered");
            return;
        }
        agent.queue.remove(at);
        self.cancelled(call, "cancelled; the message was not sent");
        // The agent was only being started again for it.
        let only = self.agent(id).is_some_and(|a| {
            a.queue.is_empty() && matches!(a.status, Status::Queued | Status::Starting)
        });
        if only {
            self.stop(now, id, StopCause::Cancelled, None);
        } else {
            self.publish(id);
        }
    }

    /// Ends the wait of a stop or an abort; what it began goes on.
    fn stop_waiting(&mut self, call: CallId) -> bool {
        for agent in &mut self.agents {
            if let Some(ending) = &mut agent.ending
                && let Some(at) = ending.calls.iter().position(|(c, _)| *c == call)
            {
                ending.calls.remove(at);
                return true;
            }
            if let Some(aborting) = agent.instance.as_mut().and_then(|i| i.aborting.as_mut())
                && let Some(at) = aborting.calls.iter().position(|c| *c == call)
            {
                aborting.calls.remove(at);
                return true;
            }
        }
        if let Some(calls) = &mut self.shutdown
            && let Some(at) = calls.iter().position(|c| *c == call)
        {
            calls.remove(at);
            return true;
        }
        false
    }
}
