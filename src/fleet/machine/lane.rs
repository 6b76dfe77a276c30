//! The prompt lane of a process: one unanswered `prompt` at a time (R-PI-07; Pi loses prompts that
//! are sent in a burst), deadlines for held prompts, and what each disposition means (R-LIFE-03).

use std::time::Duration;

use super::Machine;
use super::effect::{ChildCommand, Effect};
use super::facts::ID_COMMANDS;
use super::input::{Now, Timer};
use super::state::{AbortStep, EndWhy, Message, Phase};
use crate::fleet::agent::Status;
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::ids::{AgentId, InstanceId, MessageId};
use crate::fleet::interpret::{Disposition, ResponseData};
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::Level;

/// Pause before a prompt that compaction refused is tried again, should no end of it be seen.
const COMPACTION_RETRY: Duration = Duration::from_millis(500);

/// The command a message begins with, as Pi reads it. A path is none.
fn command_of(text: &str) -> Option<&str> {
    let word = text.strip_prefix('/')?.split_whitespace().next()?;
    let apart = text.strip_prefix('/')?.starts_with(char::is_whitespace);
    (!apart && !word.contains('/')).then_some(word)
}

/// Most commands that a refusal names.
const NAMED: usize = 20;

fn commands_hint(known: &[String]) -> String {
    let text = "to send it as text, begin with a space";
    if known.is_empty() {
        return format!("it has no commands; {text}");
    }
    let names: Vec<String> = known.iter().take(NAMED).map(|k| format!("/{k}")).collect();
    let more = if known.len() > NAMED { ", …" } else { "" };
    format!("it has {}{more}; {text}", names.join(", "))
}

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
        let message_id = message.id;
        let check = message.typed && command_of(&message.text).is_some();
        if let Some(i) = &mut agent.instance {
            i.inflight = Some(message_id);
            i.checking = check.then_some(message_id);
        }
        if check {
            self.write(instance, ID_COMMANDS, ChildCommand::GetCommands);
        } else {
            self.write_prompt(id, message_id);
        }
        self.out.push(Effect::Arm {
            timer: Timer::Prompt(instance, message_id),
            after: prompt_deadline,
        });
        self.publish(id);
    }

    fn write_prompt(&mut self, id: AgentId, message: MessageId) {
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let Some(m) = agent.queue.iter_mut().find(|m| m.id == message) else {
            return;
        };
        m.state = MessageState::Sent;
        let text = m.text.clone();
        self.write(instance, message.to_string(), ChildCommand::Prompt { text });
    }

    /// The child said which commands it has: a person's message that begins with another one's slash
    /// would reach the model as text, and is refused (R-DELIV-14). A child that cannot say it is given
    /// the message as it is.
    pub(super) fn commands_known(
        &mut self,
        now: Now,
        id: AgentId,
        result: Result<ResponseData, String>,
    ) {
        let prompt_deadline = self.config.prompt_deadline;
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        let Some(message) = i.checking.take().filter(|m| i.inflight == Some(*m)) else {
            return;
        };
        let text = agent.queue.iter().find(|m| m.id == message);
        let wanted = text.and_then(|m| command_of(&m.text));
        let missing = match (wanted, result) {
            (Some(wanted), Ok(ResponseData::Commands(known))) => {
                (!known.iter().any(|k| k == wanted))
                    .then(|| (format!("it has no command /{wanted}"), known))
            }
            (Some(_), _) => None,
            // Taken back meanwhile.
            (None, _) => {
                i.inflight = None;
                self.out
                    .push(Effect::Disarm(Timer::Prompt(instance, message)));
                self.lane_free(id);
                return self.rest_unused(now, id);
            }
        };
        let Some((why, known)) = missing else {
            if i.compacting {
                // It would be refused; it is tried again when that is over.
                i.inflight = None;
                self.out
                    .push(Effect::Disarm(Timer::Prompt(instance, message)));
                return self.lane_free(id);
            }
            self.write_prompt(id, message);
            self.out.push(Effect::Arm {
                timer: Timer::Prompt(instance, message),
                after: prompt_deadline,
            });
            return self.publish(id);
        };
        i.inflight = None;
        self.out
            .push(Effect::Disarm(Timer::Prompt(instance, message)));
        let claims = self.take_message(id, message).map(|m| {
            if let Some(call) = m.call {
                let error =
                    RequestError::new(ErrorCode::Invalid, why).with_hint(commands_hint(&known));
                self.answer(call, Err(error));
            }
            m.claims
        });
        self.prompt_decided(id, claims == Some(true), None);
        self.settle_without_run(now, id);
        self.lane_free(id);
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
            Ok(Disposition::Missing) => self.doubtful(
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
        self.lane_free(id);
    }

    /// No prompt is unanswered: an abort that waited for that goes on, else the next message.
    fn lane_free(&mut self, id: AgentId) {
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
    pub(super) fn wait_for_result(&mut self, id: AgentId, message: MessageId) {
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
        let running = agent.instance.as_ref().is_some_and(|i| i.run.is_some());
        let mut answer = None;
        let mut seen = false;
        if let Some(m) = agent.queue.iter_mut().find(|m| m.id == message) {
            m.state = MessageState::Accepted;
            m.next = running && !steered && !m.seen;
            seen = m.seen;
            let m = m.clone();
            answer = m.call.map(|call| (call, agent.accepted(&m, steered)));
            if let Some(m) = agent.queue.iter_mut().find(|m| m.id == message) {
                m.call = None;
            }
        }
        agent.queue.retain(|m| !(m.id == message && m.seen));
        // Seen and no run: its run is over already. If a call still waits for that run, it has not
        // been: the child named a text before it had it, and the call must not wait for nothing.
        let over = seen && !running && agent.foreground.is_none();
        if !over {
            agent.set_status(now, Status::Running);
        }
        let mut expect = false;
        if let Some(i) = agent.instance.as_mut()
            && i.run.is_none()
            && !over
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
        if over {
            self.settle_without_run(now, id);
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
                let error = RequestError::new(ErrorCode::StartFailed, reason)
                    .with_hint("begin the task with words, not with a slash command");
                self.not_started(id, call, error);
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

    /// What it was started for was taken back before it was written: it waits for nothing.
    fn rest_unused(&mut self, now: Now, id: AgentId) {
        let unused = self.agent(id).is_some_and(|a| {
            let i = a.instance.as_ref();
            let lane = i.is_some_and(|i| i.phase == Phase::Live && i.inflight.is_none());
            a.status == Status::Starting && lane && a.queue.is_empty()
        });
        if unused {
            self.settle_without_run(now, id);
        }
    }

    /// A resident that has no run and is not about to have one is idle, or done if it does not stay
    /// (R-LIFE-16).
    pub(super) fn settle_without_run(&mut self, now: Now, id: AgentId) {
        let Some(agent) = self.agent(id) else {
            return;
        };
        let stays = agent.stays();
        let busy = agent.ending.is_some()
            || agent
                .instance
                .as_ref()
                .is_none_or(|i| i.run.is_some() || i.run_expected);
        if busy {
            self.publish(id);
            return;
        }
        self.status(now, id, Status::Idle);
        if !stays {
            self.status(now, id, Status::Completed);
            self.begin_ending(now, id, EndWhy::InOrder, None);
        }
    }

    /// Its sender gets it back, and the child may act on it all the same.
    fn doubtful(&mut self, now: Now, id: AgentId, message: MessageId, why: &str) {
        if let Some(agent) = self.agent_mut(id)
            && let Some(m) = agent.queue.iter().find(|m| m.id == message)
            && let Some(i) = agent.instance.as_mut()
        {
            i.late.push(m.text.clone());
        }
        self.not_accepted(now, id, message, why);
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
            let waits = m.initial && self.agent(id).is_some_and(|a| a.wait_for_result);
            let error = if m.seen && waits {
                self.unknown_end(id, ErrorCode::Gone, why)
            } else {
                RequestError::new(code, why.to_owned())
            };
            // One that may still act on it came to be, for all anybody knows.
            let doubtful = m.seen
                || self
                    .agent(id)
                    .and_then(|a| a.instance.as_ref())
                    .is_some_and(|i| i.late.contains(&m.text));
            if m.initial && !doubtful {
                self.not_started(id, call, error);
            } else {
                self.answer(call, Err(error));
            }
        } else if starting {
            // An earlier process had accepted it, and its call was told so (R-DELIV-11).
            self.notice(
                id,
                Level::Error,
                format!("not delivered ({why}): {}", m.text),
            );
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
        self.publish(id);
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
        let unwritten = i.checking.take().is_some();
        let claims = self
            .agent(id)
            .and_then(|a| a.queue.iter().find(|m| m.id == message))
            .is_some_and(|m| m.claims);
        let seen = self.agent(id).is_some_and(|a| {
            let running = a.instance.as_ref().is_some_and(|i| i.run.is_some());
            a.queue.iter().any(|m| m.id == message && m.seen) && (running || !a.wait_for_result)
        });
        if seen {
            // It did act on it: the answer alone is missing.
            let waits = self.agent(id).is_some_and(|a| a.wait_for_result);
            if waits {
                self.wait_for_result(id, message);
            }
            self.prompt_decided(id, claims, Some(Disposition::Queued));
            self.accepted(now, id, message, claims, true);
            self.lane_free(id);
            return;
        }
        self.prompt_decided(id, claims, None);
        let time = super::time_words(self.config.prompt_deadline);
        if unwritten {
            let why = format!("no answer within {time} when it was asked which commands it has");
            self.not_accepted(now, id, message, &why);
            self.lane_free(id);
            return self.rest_unused(now, id);
        }
        let acts = if self
            .agent(id)
            .is_some_and(|a| a.queue.iter().any(|m| m.id == message && m.seen))
        {
            ""
        } else {
            "; it may still act on it"
        };
        let why = format!("no answer to the prompt within {time}{acts}");
        self.doubtful(now, id, message, &why);
        self.lane_free(id);
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
        let exact = agent.queue.iter().position(|m| given(m) && m.text == text);
        // One whose answer came too late: its sender was told so already.
        if let Some(i) = agent.instance.as_mut()
            && let Some(at) = i.late.iter().position(|late| late == text).or_else(|| {
                let expanded = |late: &String| late.trim_start().starts_with('/');
                i.late.iter().position(expanded).filter(|_| exact.is_none())
            })
        {
            i.late.remove(at);
            return;
        }
        let at = exact
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
        } else if let Some(i) = agent.instance.as_mut() {
            i.rewritten += 1;
        }
    }

    /// At the end of a run, what became of messages that were accepted and not seen as text:
    /// the child still holds them, they start the next run, the child rewrote them, or they are lost
    /// and their sender has to know (R-DELIV-11). When another run is to come: whether the host owns it.
    pub(super) fn unseen(&mut self, id: AgentId) -> Option<bool> {
        let agent = self.agent_mut(id)?;
        let i = agent.instance.as_mut()?;
        let mut more = None;
        let mut lost = Vec::new();
        agent.queue.retain_mut(|m| {
            if m.state != MessageState::Accepted || i.held.contains(&m.text) {
                return true;
            }
            if std::mem::take(&mut m.next) {
                more = Some(m.claims || more == Some(true));
                return true;
            }
            match i.rewritten.checked_sub(1) {
                Some(rest) => i.rewritten = rest,
                None => lost.push(m.text.clone()),
            }
            false
        });
        i.rewritten = 0;
        for text in lost {
            self.notice(
                id,
                Level::Error,
                format!(
                    "accepted, but the model never saw it; send it again if it is still wanted:\n{text}"
                ),
            );
        }
        more
    }
}
