//! Ends of processes: the ladder, death, what is left behind, and what comes after (R-LIFE-07, 09,
//! 10, 12).

use super::Machine;
use super::effect::{Effect, LadderSignal};
use super::input::{Exit, Now, Timer};
use super::restore::rests;
use super::state::{EndWhy, Phase, Rung};
use crate::fleet::agent::Status;
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::ids::InstanceId;
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::{Level, Outcome};

impl Machine {
    /// The present rung is over and the process still lives: the next one.
    pub(super) fn ladder(&mut self, instance: InstanceId) {
        let (term, kill) = (self.config.term_grace, self.config.kill_grace);
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        let Phase::Ending(rung) = i.phase else {
            return;
        };
        let (next, signal, after) = match rung {
            Rung::Eof => (Rung::Term, LadderSignal::Term, term),
            Rung::Term | Rung::Kill => (Rung::Kill, LadderSignal::Kill, kill),
        };
        i.phase = Phase::Ending(next);
        self.out.push(Effect::Signal { instance, signal });
        self.out.push(Effect::Arm {
            timer: Timer::Ladder(instance),
            after,
        });
        if rung == Rung::Kill {
            self.notice(id, Level::Warning, "the process does not die; trying again");
        }
    }

    pub(super) fn launch_failed(
        &mut self,
        now: Now,
        instance: InstanceId,
        reason: &str,
        hint: Option<String>,
    ) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        self.out.push(Effect::Disarm(Timer::Start(instance)));
        self.instances.remove(&instance);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.instance = None;
        let ending = agent.ending.take();
        let stopped = ending.as_ref().and_then(|e| match e.why {
            EndWhy::Stop(by) => Some(by),
            EndWhy::InOrder | EndWhy::Failed(_) | EndWhy::Deaf(_) => None,
        });
        agent.set_status(
            now,
            match stopped {
                Some(by) => Status::Stopped { by },
                None => Status::Failed {
                    reason: reason.to_owned(),
                },
            },
        );
        let waiting: Vec<_> = agent.queue.drain(..).collect();
        let new = waiting.iter().any(|m| m.initial && m.call.is_some());
        for message in waiting {
            match message.call {
                Some(call) => {
                    let mut error = RequestError::new(ErrorCode::StartFailed, reason);
                    error.hint.clone_from(&hint);
                    self.answer(call, Err(error));
                }
                None => self.notice(
                    id,
                    Level::Warning,
                    format!("not delivered ({reason}): {}", message.text),
                ),
            }
        }
        for (call, was_live) in ending.into_iter().flat_map(|e| e.calls) {
            self.answer(call, Ok(Reply::Stopped { was_live }));
        }
        let told = self.end_not_started(id);
        if told || (new && stopped.is_none() && self.forget(id)) {
            return;
        }
        self.notice(id, Level::Error, format!("start failed: {reason}"));
        self.out.push(Effect::Save(id));
        self.publish(id);
    }

    /// A command could not be written: the child does not read any more.
    pub(super) fn write_failed(&mut self, now: Now, instance: InstanceId) {
        self.deaf(now, instance, "the process takes no more input");
    }

    /// Its output ended and it lives on: nothing it does can be seen any more.
    pub(super) fn output_ended(&mut self, now: Now, instance: InstanceId) {
        if let Some(id) = self.of_instance(instance)
            && let Some(i) = self.instance_mut(id)
        {
            i.unheard |= i.exit.is_none();
        }
        self.deaf(now, instance, "the process closed its output and went on");
    }

    fn deaf(&mut self, now: Now, instance: InstanceId, words: &'static str) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let ending = self.agent(id).is_none_or(|a| a.ending.is_some());
        if ending {
            return;
        }
        // Whoever waits is answered when it is dead: a child that failed at its start is often seen
        // here first, and its exit code and its stderr say more than "it does not read" (B033).
        self.begin_ending(now, id, EndWhy::Deaf(words), None);
    }

    /// The process is dead, proven by its wait status.
    pub(super) fn exited(&mut self, now: Now, instance: InstanceId, exit: Exit) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        self.disarm_all(instance);
        self.out.push(Effect::Disarm(Timer::Ladder(instance)));
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let why = agent.ending.as_ref().map(|e| e.why.clone());
        let was = agent.status.clone();
        // Its spawn fails: what it did by itself before is not told either (R-DELIV-09).
        let unstarted = agent
            .queue
            .iter()
            .any(|m| m.initial && m.call.is_some() && !m.seen);
        if unstarted {
            self.silence(id, Suppression::StartFailed);
        }
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        let signalled = matches!(i.phase, Phase::Ending(Rung::Term | Rung::Kill));
        i.phase = Phase::Sweeping;
        i.pid = None;
        i.exit = Some(exit.clone());
        i.unheard |= exit.unheard;
        let run = i.run.take();
        let expected = std::mem::take(&mut i.run_expected);
        let words = match why {
            Some(EndWhy::Deaf(words)) if signalled || exit.code == Some(0) => words.to_owned(),
            _ => exit.words(),
        };

        // The run that was going on ends here, once.
        let outcome = match &why {
            Some(EndWhy::Stop(by)) => Outcome::Stopped { by: *by },
            Some(EndWhy::InOrder | EndWhy::Failed(_) | EndWhy::Deaf(_)) | None => Outcome::Failed {
                reason: words.clone(),
            },
        };
        if let Some(mut run) = run {
            let end = run.partial.take().map(|end| *end).unwrap_or_default();
            self.freeze_run(now, id, run, &outcome, &end);
        } else if expected && self.owed_without_a_run(id) {
            self.run_never_began(now, id, &outcome);
        }
        match &why {
            Some(EndWhy::Stop(by)) => self.status(now, id, Status::Stopped { by: *by }),
            Some(EndWhy::Failed(reason)) => self.status(
                now,
                id,
                Status::Failed {
                    reason: reason.clone(),
                },
            ),
            Some(EndWhy::InOrder) => {}
            Some(EndWhy::Deaf(_)) | None => {
                // It ended by itself. Nothing is sent again: whether a message that is on its way
                // was consumed is not known (R-LIFE-11).
                let code = if was == Status::Starting || unstarted {
                    ErrorCode::StartFailed
                } else {
                    ErrorCode::Gone
                };
                self.give_back(id, code, &words);
                match was {
                    Status::Idle if !matches!(why, Some(EndWhy::Deaf(_))) => {
                        if exit.code != Some(0) {
                            self.notice(
                                id,
                                Level::Warning,
                                format!("the idle process ended: {words}"),
                            );
                        }
                        let to = rests(self.agent(id).and_then(|a| a.last.as_ref()));
                        self.status(now, id, to);
                    }
                    Status::Starting => {
                        self.notice(id, Level::Error, format!("start failed: {words}"));
                        self.status(now, id, Status::Failed { reason: words });
                    }
                    Status::Queued
                    | Status::Idle
                    | Status::Running
                    | Status::Completed
                    | Status::Failed { .. }
                    | Status::Stopped { .. } => {
                        self.status(now, id, Status::Failed { reason: words });
                    }
                }
            }
        }
        self.abort_over(id);
        self.close_nested(now, id);
        self.out.push(Effect::Save(id));
        self.publish(id);
    }

    /// Nothing of the process is left: the agent may be started again (R-LIFE-10).
    pub(super) fn swept(&mut self, now: Now, instance: InstanceId, killed: u32, left: u32) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        self.instances.remove(&instance);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let unheard = agent.instance.take().is_some_and(|i| i.unheard);
        let calls = agent.ending.take().map(|e| e.calls).unwrap_or_default();
        // A message is worth one launch: what this process was started for is not a reason to start
        // another one (R-LIFE-11: no restart loop; the id of a process is used once).
        let (over, mut kept): (Vec<_>, Vec<_>) =
            agent.queue.drain(..).partition(|m| m.instance == instance);
        // What the dead process had accepted and not consumed goes to the next one: it is proven
        // that it was not consumed, since the process is gone (R-DELIV-11). One whose output ended
        // before may have consumed it: its sender decides.
        let doubtful = if unheard {
            let parts = kept
                .into_iter()
                .partition(|m| m.state == MessageState::Queued);
            kept = parts.0;
            parts.1
        } else {
            Vec::new()
        };
        for message in &mut kept {
            message.state = MessageState::Queued;
        }
        agent.queue = kept.into();
        self.tell_undelivered(
            id,
            doubtful,
            ErrorCode::Gone,
            "the process was not heard to its end; the model may have it",
        );
        self.tell_undelivered(
            id,
            over,
            ErrorCode::Gone,
            "the process that was started for it ended first",
        );
        if killed > 0 {
            self.notice(
                id,
                Level::Info,
                format!("{killed} left-over process(es) of its tools were ended"),
            );
        }
        if left > 0 {
            self.notice(
                id,
                Level::Error,
                format!("{left} process(es) of its tools could not be ended"),
            );
        }
        for (call, was_live) in calls {
            self.answer(call, Ok(Reply::Stopped { was_live }));
        }
        if self.end_not_started(id) {
            return;
        }
        self.publish(id);
        self.route(now, id);
    }
}

impl Machine {
    /// True while a run is going on or a process is starting: the core must not end by itself.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.agents
            .iter()
            .any(|a| a.status.is_working() || a.ending.is_some())
    }

    /// The words for a run that was going on when its supervisor was lost.
    #[must_use]
    pub fn lost_reason() -> Status {
        Status::Failed {
            reason: "supervisor lost".to_owned(),
        }
    }
}
