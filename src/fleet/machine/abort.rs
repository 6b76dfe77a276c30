//! Aborting the present run without stopping the agent (R-LIFE-15, R-PI-07): after the prompt's
//! response, `clear_queue`, then `abort`; what the queue held is given back.

use super::Machine;
use super::effect::{ChildCommand, Effect};
use super::facts::{ID_ABORT, ID_CLEAR};
use super::input::Timer;
use super::state::{AbortStep, Aborting, Message, Phase};
use crate::fleet::answer::{ErrorCode, Reply};
use crate::fleet::ids::{AgentId, CallId, InstanceId};
use crate::fleet::interpret::ResponseData;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::Level;

impl Machine {
    pub(super) fn abort_asked(&mut self, call: CallId, id: AgentId) {
        let abort_deadline = self.config.abort_deadline;
        if self.was_cancelled(call) {
            return;
        }
        let Some(agent) = self.agent_mut(id) else {
            self.refuse(call, ErrorCode::NotFound, "no such agent");
            return;
        };
        let ending = agent.ending.is_some();
        let Some(i) = agent.instance.as_mut() else {
            self.refuse(call, ErrorCode::Conflict, "nothing is running");
            return;
        };
        let busy = i.run.is_some() || i.inflight.is_some() || i.run_expected;
        if !busy || ending || i.phase != Phase::Live {
            self.refuse(call, ErrorCode::Conflict, "nothing is running");
            return;
        }
        if let Some(run) = i.run.as_mut() {
            run.abort_asked = true;
        }
        if let Some(aborting) = i.aborting.as_mut() {
            aborting.calls.push(call);
            return;
        }
        let wait = i.inflight.is_some();
        let instance = i.id;
        i.aborting = Some(Aborting {
            calls: vec![call],
            step: AbortStep::AwaitPrompt,
            returned: Vec::new(),
        });
        self.out.push(Effect::Arm {
            timer: Timer::Abort(instance),
            after: abort_deadline,
        });
        self.return_unwritten(id);
        if !wait {
            self.abort_next(id);
        }
        self.publish(id);
    }

    /// Messages that were never written go back to whoever sent them. The task of a new agent stays:
    /// without it there would be an agent that nobody asked for.
    fn return_unwritten(&mut self, id: AgentId) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let (back, kept): (Vec<_>, Vec<_>) = agent
            .queue
            .drain(..)
            .partition(|m| m.state == MessageState::Queued && !m.initial);
        agent.queue = kept.into();
        for message in back {
            match message.call {
                Some(call) => {
                    self.refuse(call, ErrorCode::Gone, "not delivered: the run was aborted");
                }
                None => {
                    if let Some(a) = self.instance_mut(id).and_then(|i| i.aborting.as_mut()) {
                        a.returned.push(message.text);
                    }
                }
            }
        }
    }

    /// The prompt was answered: now the queue, then the run.
    pub(super) fn abort_next(&mut self, id: AgentId) {
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        let instance = i.id;
        if let Some(run) = i.run.as_mut() {
            run.abort_asked = true;
        }
        if let Some(a) = i.aborting.as_mut() {
            a.step = AbortStep::Clearing;
            self.write(instance, ID_CLEAR, ChildCommand::ClearQueue);
        }
    }

    pub(super) fn cleared(&mut self, id: AgentId, result: Result<ResponseData, String>) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        let instance = i.id;
        let Some(a) = i.aborting.as_mut() else {
            return;
        };
        if a.step != AbortStep::Clearing {
            return;
        }
        a.step = AbortStep::Aborting;
        if let Ok(ResponseData::Dropped(texts)) = result {
            for text in texts {
                let ours = |m: &Message| m.state == MessageState::Accepted && m.text == text;
                match agent.queue.iter().position(ours) {
                    Some(at) => {
                        agent.queue.remove(at);
                    }
                    None if i.late.contains(&text) => {
                        // Its sender has it back.
                        i.late.retain(|late| *late != text);
                        continue;
                    }
                    // A stop came between and has named it as not delivered.
                    None if agent.ending.is_some() => continue,
                    // Another's: an extension put it there.
                    None => {}
                }
                a.returned.push(text);
            }
        }
        self.write(instance, ID_ABORT, ChildCommand::Abort);
        self.publish(id);
    }

    pub(super) fn abort_answered(&mut self, id: AgentId) {
        self.abort_over(id);
        self.pump(id);
    }

    /// Ends an abort, whatever became of it, and answers whoever waits.
    pub(super) fn abort_over(&mut self, id: AgentId) {
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        let instance = i.id;
        if let Some(a) = i.aborting.take() {
            self.out.push(Effect::Disarm(Timer::Abort(instance)));
            let mut returned = a.returned;
            if a.calls.is_empty() && !returned.is_empty() {
                // Whoever asked went away: the texts are not lost with them.
                let text = format!(
                    "not delivered (the run was aborted): {}",
                    returned.join("\n")
                );
                self.notice(id, Level::Warning, text);
                returned.clear();
            }
            for call in a.calls {
                // The texts go to one asker only: given back twice they could be sent twice.
                let returned = std::mem::take(&mut returned);
                self.answer(call, Ok(Reply::Aborted { returned }));
            }
            self.publish(id);
        }
    }

    pub(super) fn abort_late(&mut self, instance: InstanceId) {
        if let Some(id) = self.of_instance(instance) {
            self.abort_over(id);
            self.pump(id);
        }
    }
}
