//! The prompt lane of a process: one unanswered `prompt` at a time (R-PI-07; Pi loses prompts that
//! are sent in a burst), deadlines for held prompts, and what each disposition means (R-LIFE-03).

use std::time::Duration;

use super::Machine;
use super::effect::{ChildCommand, Effect};
use super::input::{Now, Timer};
use super::state::{AbortStep, EndWhy, Message};
use crate::fleet::agent::Status;
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::ids::{AgentId, InstanceId, MessageId};
use crate::fleet::interpret::Disposition;
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::Level;

/// Pause before a prompt that compaction refused is tried again, should no end of it be seen.
const COMPACTION_RETRY: Duration = Duration::from_millis(500);

impl Machine {
    /// Writes the next message if the lane is free.
    pub(super) fn pump(&mut self, id: AgentId) {
        let prompt_deadline = self.config.prompt_deadline;
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        if agent.ending.is_some() || !agent.instance.as_ref().is_some_and(|i| i.takes_prompts()) {
            return;
        }
        let Some(message) = agent
            .queue
            .iter_mut()
            .find(|m| m.state == MessageState::Queued)
        else {
            return;
        };
        message.state = MessageState::Sent;
        let (message_id, text) = (message.id, message.text.clone());
        if let Some(i) = &mut agent.instance {
            i.inflight = Some(message_id);
        }
        self.write(
            instance,
            message_id.to_string(),
            ChildCommand::Prompt { text },
        );
        self.out.push(Effect::Arm {
            timer: Timer::Prompt(instance, message_id),
            after: prompt_deadline,
        });
        self.publish(id);
    }

    /// The child answered a prompt.
    pub(super) fn prompt_answered(
        &mut self,
        now: Now,
        id: AgentId,
        message: MessageId,
        result: Result<Disposition, String>,
    ) {
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        // An answer after the deadline: its sender was told already.
        if i.inflight != Some(message) {
            return;
        }
        i.inflight = None;
        let claims = agent
            .queue
            .iter()
            .find(|m| m.id == message)
            .is_some_and(|m| m.claims);
        let waits = agent.wait_for_result;
        self.out
            .push(Effect::Disarm(Timer::Prompt(instance, message)));
        let disposition = result.as_ref().ok().copied();
        if waits
            && matches!(
                disposition,
                Some(Disposition::Started | Disposition::Queued)
            )
        {
            self.wait_for_result(id, message);
        }
        self.prompt_decided(id, claims, disposition);
        match result {
            Ok(Disposition::Started) => self.accepted(now, id, message, claims, false),
            Ok(Disposition::Queued) => self.accepted(now, id, message, claims, true),
            Ok(Disposition::Handled) => self.handled(now, id, message),
            Ok(Disposition::Missing) => self.not_accepted(
                now,
                id,
                message,
                "this Pi does not say what it did with the prompt; it is too old",
            ),
            Err(error) if error.contains("compaction is in progress") => {
                self.held_by_compaction(id, message);
            }
            Err(error) => self.not_accepted(now, id, message, &error),
        }
        if self
            .instance_mut(id)
            .and_then(|i| i.aborting.as_ref())
            .is_some_and(|a| a.step == AbortStep::AwaitPrompt)
        {
            self.abort_next(id);
        }
        self.pump(id);
    }

    /// The task of a foreground spawn was accepted: its call waits for the result now.
    fn wait_for_result(&mut self, id: AgentId, message: MessageId) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.wait_for_result = false;
        let first = agent.queue.iter_mut().find(|m| m.id == message);
        agent.foreground = first.filter(|m| m.initial).and_then(|m| m.call.take());
    }

    fn accepted(&mut self, now: Now, id: AgentId, message: MessageId, claims: bool, steered: bool) {
        let run_begins = self.config.run_begins;
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let path = agent.session_path.clone();
        let name = agent.name.clone();
        let mut answer = None;
        if let Some(m) = agent.queue.iter_mut().find(|m| m.id == message) {
            m.state = MessageState::Accepted;
            answer = m.call.take().map(|call| {
                let reply = if m.initial {
                    Reply::Spawned {
                        agent: id,
                        name,
                        session_path: path,
                    }
                } else {
                    Reply::Sent {
                        message,
                        revived: m.revived,
                        steered,
                    }
                };
                (call, reply)
            });
        }
        agent.queue.retain(|m| !(m.id == message && m.seen));
        agent.set_status(now, Status::Running);
        let mut expect = false;
        if let Some(i) = agent.instance.as_mut()
            && i.run.is_none()
        {
            i.run_expected = true;
            i.run_asked = 0;
            expect = true;
        }
        if expect {
            if claims {
                self.own_expected_run(id);
            }
            self.out.push(Effect::Arm {
                timer: Timer::RunBegins(instance),
                after: run_begins,
            });
        }
        if let Some((call, reply)) = answer {
            self.answer(call, Ok(reply));
        }
        self.out.push(Effect::Save(id));
        self.publish(id);
    }

    /// `handled` is not a run (R-LIFE-03).
    fn handled(&mut self, now: Now, id: AgentId, message: MessageId) {
        let Some(m) = self.take_message(id, message) else {
            return;
        };
        if m.initial {
            let reason = "the task was handled as a command and started no run";
            self.silence(id, Suppression::StartFailed);
            if let Some(call) = m.call {
                self.answer(
                    call,
                    Err(RequestError::new(ErrorCode::StartFailed, reason)
                        .with_hint("begin the task with words, not with a slash command")),
                );
            }
            self.begin_ending(now, id, EndWhy::Failed(reason.to_owned()), None);
            return;
        }
        if let Some(call) = m.call {
            self.answer(
                call,
                Ok(Reply::Sent {
                    message,
                    revived: m.revived,
                    steered: false,
                }),
            );
        }
        self.settle_without_run(now, id);
    }

    /// A resident that has no run and is not about to have one is idle.
    fn settle_without_run(&mut self, now: Now, id: AgentId) {
        let busy = self
            .instance_mut(id)
            .is_none_or(|i| i.run.is_some() || i.run_expected);
        if busy {
            self.publish(id);
        } else {
            self.status(now, id, Status::Idle);
        }
    }

    fn not_accepted(&mut self, now: Now, id: AgentId, message: MessageId, why: &str) {
        let Some(m) = self.take_message(id, message) else {
            return;
        };
        // Also when the agent began a run by itself before its task was answered.
        let starting = m.initial || self.agent(id).is_some_and(|a| a.status == Status::Starting);
        if m.initial {
            self.silence(id, Suppression::StartFailed);
        }
        if let Some(call) = m.call {
            let code = if starting {
                ErrorCode::StartFailed
            } else {
                ErrorCode::Conflict
            };
            self.answer(call, Err(RequestError::new(code, why.to_owned())));
        }
        if starting {
            self.give_back(id, ErrorCode::StartFailed, why);
            self.begin_ending(now, id, EndWhy::Failed(why.to_owned()), None);
        } else {
            self.notice(
                id,
                Level::Error,
                format!("message not accepted: {why}\n{}", m.text),
            );
            self.settle_without_run(now, id);
        }
    }

    fn held_by_compaction(&mut self, id: AgentId, message: MessageId) {
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        if let Some(m) = agent.queue.iter_mut().find(|m| m.id == message) {
            m.state = MessageState::Queued;
        }
        if let Some(i) = agent.instance.as_mut() {
            i.compacting = true;
        }
        self.out.push(Effect::Arm {
            timer: Timer::Compaction(instance),
            after: COMPACTION_RETRY,
        });
        self.publish(id);
    }

    pub(super) fn compaction_over(&mut self, instance: InstanceId) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        if let Some(i) = self.instance_mut(id) {
            i.compacting = false;
        }
        self.pump(id);
    }

    /// The child did not answer a prompt in time: the sender is told, the lane goes on.
    pub(super) fn prompt_late(&mut self, now: Now, instance: InstanceId, message: MessageId) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        if i.inflight != Some(message) {
            return;
        }
        i.inflight = None;
        let claims = self
            .agent(id)
            .and_then(|a| a.queue.iter().find(|m| m.id == message))
            .is_some_and(|m| m.claims);
        self.prompt_decided(id, claims, None);
        let time = super::time_words(self.config.prompt_deadline);
        let why = format!("no answer to the prompt within {time}; it may still act on it");
        self.not_accepted(now, id, message, &why);
        if self
            .instance_mut(id)
            .and_then(|i| i.aborting.as_ref())
            .is_some_and(|a| a.step == AbortStep::AwaitPrompt)
        {
            self.abort_next(id);
        }
        self.pump(id);
    }

    pub(super) fn take_message(&mut self, id: AgentId, message: MessageId) -> Option<Message> {
        let agent = self.agent_mut(id)?;
        let at = agent.queue.iter().position(|m| m.id == message)?;
        agent.queue.remove(at)
    }

    /// The model has seen a user message (R-DELIV-11).
    pub(super) fn consumed(&mut self, id: AgentId, text: &str) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let given = |m: &Message| m.state != MessageState::Queued;
        let at = agent
            .queue
            .iter()
            .position(|m| given(m) && m.text == text)
            // Templates and skills are expanded by the child: the oldest one that can have been.
            .or_else(|| {
                agent
                    .queue
                    .iter()
                    .position(|m| given(m) && m.text.trim_start().starts_with('/'))
            });
        if let Some(at) = at {
            if let Some(m) = agent.queue.get_mut(at)
                && m.state == MessageState::Sent
            {
                // Its response is still on the way and will answer the call: only note it.
                m.seen = true;
                return;
            }
            agent.queue.remove(at);
            self.publish(id);
        }
    }
}
