//! Aborting the present run without stopping the agent (R-LIFE-15, R-PI-07): after the prompt's
//! response, `clear_queue`, then `abort`; what the queue held is given back.

use super::Machine;
use super::effect::{ChildCommand, Effect};
use super::facts::{ID_ABORT, clear_id};
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
            i.clears = i.clears.saturating_add(1);
            i.unanswered_clears.push(i.clears);
            let id = clear_id(i.clears);
            self.write(instance, id, ChildCommand::ClearQueue);
        }
    }

    /// `clear_queue` was answered. What it dropped is gone from the child also when nobody waits for
    /// the abort any more.
    pub(super) fn cleared(
        &mut self,
        id: AgentId,
        number: u32,
        result: Result<ResponseData, String>,
    ) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        // Nobody asked, or it is answered a second time.
        let Some(at) = i.unanswered_clears.iter().position(|n| *n == number) else {
            return;
        };
        i.unanswered_clears.remove(at);
        let latest = number == i.clears;
        let instance = i.id;
        let texts = match result {
            Ok(ResponseData::Dropped(texts)) => texts,
            Ok(_) | Err(_) => Vec::new(),
        };
        let mut returned = Vec::new();
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
                // A stop or its death came between and has named it as not delivered.
                None if agent.ending.is_some() || i.exit.is_some() => continue,
                // Another's: an extension put it there.
                None => {}
            }
            returned.push(text);
        }
        match i.aborting.as_mut() {
            Some(a) => {
                a.returned.append(&mut returned);
                if latest && a.step == AbortStep::Clearing {
                    a.step = AbortStep::Aborting;
                    self.write(instance, ID_ABORT, ChildCommand::Abort);
                }
            }
            None => self.name_returned(id, &returned),
        }
        self.publish(id);
    }

    /// Whoever asked for the abort went away: the texts are not lost with them.
    fn name_returned(&mut self, id: AgentId, returned: &[String]) {
        for text in returned {
            let text = format!("not delivered (the run was aborted): {text}");
            self.notice(id, Level::Warning, text);
        }
    }

    /// The child says that the run is aborted. That counts for an abort that was written: an answer to
    /// one that was given up can come while the next one still clears the queue.
    pub(super) fn abort_answered(&mut self, id: AgentId) {
        if self
            .instance_mut(id)
            .and_then(|i| i.aborting.as_ref())
            .is_some_and(|a| a.step == AbortStep::Aborting)
        {
            self.abort_over(id);
            self.pump(id);
        }
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
            if a.calls.is_empty() {
                self.name_returned(id, &returned);
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
