//! What a child says that matters: readiness, runs, the queue, compaction.

use std::time::Duration;

use super::Machine;
use super::effect::{ChildCommand, Effect};
use super::input::{Now, Timer};
use super::state::{EndWhy, Phase, Run};
use crate::fleet::agent::{Status, StopCause};
use crate::fleet::answer::ErrorCode;
use crate::fleet::host::Owner;
use crate::fleet::ids::{AgentId, InstanceId, MessageId};
use crate::fleet::interpret::{ChildState, Disposition, Fact, ResponseData, RunEnd};
use crate::fleet::model;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::{Level, Outcome};

/// How long after a refused `agent_settled` the child is asked for its state (rule F1).
const ASK_STATE: Duration = Duration::from_millis(200);

/// Correlation ids of commands of which only one is on the way at a time.
pub(super) const ID_STATE: &str = "state";
pub(super) const ID_MODELS: &str = "models";
pub(super) const ID_COMMANDS: &str = "commands";
const ID_CLEAR: &str = "clear";
pub(super) const ID_ABORT: &str = "abort";

/// The id of the `n`th `clear_queue` of a process. Each has its own: an answer that comes late, when
/// its abort was given up, must not be taken for that of the next one.
pub(super) fn clear_id(n: u32) -> String {
    match n {
        0 | 1 => ID_CLEAR.to_owned(),
        n => format!("{ID_CLEAR}-{n}"),
    }
}

/// Which `clear_queue` an id means.
fn clear_number(id: &str) -> Option<u32> {
    match id.strip_prefix(ID_CLEAR)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse().ok(),
    }
}

impl Machine {
    pub(super) fn launched(&mut self, now: Now, instance: InstanceId, pid: u32) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let Some(i) = self
            .instance_mut(id)
            .filter(|i| i.phase == Phase::Launching)
        else {
            return;
        };
        i.pid = Some(pid);
        i.phase = Phase::Handshake;
        self.write(instance, ID_STATE, ChildCommand::GetState);
        self.publish(id);
        // Stopped while it was being started: the ladder begins now.
        let ending = self.agent(id).and_then(|a| a.ending.clone());
        if let Some(ending) = ending {
            self.begin_ending(now, id, ending.why, None);
        }
    }

    pub(super) fn fact(&mut self, now: Now, instance: InstanceId, fact: Fact) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        match fact {
            Fact::Response {
                id: response,
                result,
                ..
            } => self.response(now, id, instance, &response, result),
            Fact::RunStarted => self.run_started(now, id, instance),
            Fact::RunEnded(end) => self.run_ended(now, id, end),
            Fact::StraySettled => self.ask_soon(id, instance),
            Fact::CompactionStarted => {
                if let Some(i) = self.instance_mut(id) {
                    i.compacting = true;
                }
                self.publish(id);
            }
            Fact::CompactionEnded => {
                self.out.push(Effect::Disarm(Timer::Compaction(instance)));
                self.compaction_over(instance);
                if self.instance_mut(id).is_some_and(|i| i.doubted) {
                    self.ask_soon(id, instance);
                }
            }
            Fact::UserMessage { text } => self.consumed(id, &text),
            Fact::QueueChanged {
                steering,
                follow_up,
            } => {
                if let Some(i) = self.instance_mut(id) {
                    i.held = steering.into_iter().chain(follow_up).collect();
                }
            }
            Fact::Unfinished(end) => {
                if let Some(run) = self.instance_mut(id).and_then(|i| i.run.as_mut()) {
                    run.partial = Some(Box::new(end));
                }
            }
            Fact::ToParent { text } => self.asked_parent(id, text),
            // Shown by the live part of the row; nothing to decide.
            Fact::DialogOpened(_)
            | Fact::Retrying(_)
            | Fact::RetryOver
            | Fact::ExtensionFailed { .. } => {}
        }
    }

    fn response(
        &mut self,
        now: Now,
        id: AgentId,
        instance: InstanceId,
        response: &str,
        result: Result<ResponseData, String>,
    ) {
        match response {
            ID_STATE => match result {
                Ok(ResponseData::State(state)) => self.state(now, id, instance, &state),
                Ok(_) => self.start_refused(now, id, "unreadable answer to get_state"),
                Err(error) => self.start_refused(now, id, &error),
            },
            ID_MODELS => self.models(now, id, instance, result),
            ID_COMMANDS => self.commands_known(now, id, result),
            ID_ABORT => self.abort_answered(id),
            other => {
                if let Some(number) = clear_number(other) {
                    self.cleared(id, number, result);
                } else if let Ok(message) = other.parse::<MessageId>() {
                    let result = result.map(|data| match data {
                        ResponseData::Disposition(d) => d,
                        ResponseData::Dropped(_)
                        | ResponseData::State(_)
                        | ResponseData::Models(_)
                        | ResponseData::Commands(_)
                        | ResponseData::Other => Disposition::Missing,
                    });
                    self.prompt_answered(now, id, message, result);
                }
            }
        }
    }

    fn start_refused(&mut self, now: Now, id: AgentId, why: &str) {
        if self.phase_of(id) == Some(Phase::Handshake) {
            self.give_back(id, ErrorCode::StartFailed, why);
            self.begin_ending(now, id, EndWhy::Failed(why.to_owned()), None);
        }
    }

    fn state(&mut self, now: Now, id: AgentId, instance: InstanceId, state: &ChildState) {
        match self.phase_of(id) {
            Some(Phase::Handshake) => self.ready(now, id, instance, state),
            Some(Phase::Live) => self.state_in_between(now, id, instance, state),
            Some(Phase::Launching | Phase::CheckingModel | Phase::Ending(_) | Phase::Sweeping)
            | None => {}
        }
    }

    /// The first `get_state` answer: the process is there (pi-facts §1).
    fn ready(&mut self, now: Now, id: AgentId, instance: InstanceId, state: &ChildState) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if state.session_path.is_some() {
            agent.session_path.clone_from(&state.session_path);
        }
        let check = agent.spec.model.is_some();
        let level = agent.spec.thinking;
        if let Some(i) = agent.instance.as_mut() {
            i.model.clone_from(&state.model);
            i.phase = if check {
                Phase::CheckingModel
            } else {
                Phase::Live
            };
        }
        if let (Some(wanted), Some(got)) = (level, &state.thinking)
            && wanted.as_str() != got
        {
            let text = format!(
                "thinking level {} is not offered by this model; it uses {got}",
                wanted.as_str()
            );
            self.notice(id, Level::Warning, text);
        }
        self.out.push(Effect::Save(id));
        if check {
            self.write(instance, ID_MODELS, ChildCommand::GetModels);
        } else {
            self.live(now, id, instance);
        }
        self.publish(id);
    }

    fn live(&mut self, _now: Now, id: AgentId, instance: InstanceId) {
        self.out.push(Effect::Disarm(Timer::Start(instance)));
        if self.instance_mut(id).is_some_and(|i| i.doubted) {
            self.ask_soon(id, instance);
        }
        self.pump(id);
    }

    /// Pi takes any model id of a known provider (pi-facts §0.10): here a typo is refused before
    /// the first prompt (R-PI-10).
    fn models(
        &mut self,
        now: Now,
        id: AgentId,
        instance: InstanceId,
        result: Result<ResponseData, String>,
    ) {
        if self.phase_of(id) != Some(Phase::CheckingModel) {
            return;
        }
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let wanted = agent.spec.model.clone().unwrap_or_default();
        let in_use = agent.instance.as_ref().and_then(|i| i.model.clone());
        let problem = match result {
            Ok(ResponseData::Models(models)) => {
                let known: Vec<String> = models.into_iter().map(|m| m.full_id()).collect();
                model::check(&wanted, in_use.as_deref(), &known).err()
            }
            // A child that cannot list its models cannot be checked.
            Ok(_) | Err(_) => None,
        };
        if let Some(problem) = problem {
            self.give_back(id, ErrorCode::StartFailed, &problem);
            self.begin_ending(now, id, EndWhy::Failed(problem), None);
            return;
        }
        if let Some(i) = self.instance_mut(id) {
            i.phase = Phase::Live;
        }
        self.live(now, id, instance);
    }

    pub(super) fn start_late(&mut self, now: Now, instance: InstanceId) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let starting = self
            .agent(id)
            .and_then(|a| a.instance.as_ref())
            .is_some_and(super::state::Instance::is_starting);
        if starting {
            let why = format!(
                "no answer within {} after the start",
                super::time_words(self.config.start_deadline)
            );
            self.give_back(id, ErrorCode::StartFailed, &why);
            self.begin_ending(now, id, EndWhy::Failed(why), None);
        }
    }

    /// A run that was announced has not begun (case B010). The child is asked; if it is busy, or
    /// does not answer, that is said once, and it is asked again.
    pub(super) fn run_overdue(&mut self, instance: InstanceId) {
        let run_begins = self.config.run_begins;
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        if i.phase != Phase::Live || i.run.is_some() || !i.run_expected {
            return;
        }
        let second = i.run_asked == 1;
        let compacting = i.compacting;
        i.run_asked = i.run_asked.saturating_add(1);
        if second && !compacting {
            let text = format!(
                "a message was accepted, but no run has begun for {}",
                super::time_words(2 * run_begins)
            );
            self.notice(id, Level::Warning, text);
        }
        self.out.push(Effect::Arm {
            timer: Timer::RunBegins(instance),
            after: run_begins,
        });
        self.ask_state(instance);
    }

    fn ask_soon(&mut self, id: AgentId, instance: InstanceId) {
        match self.phase_of(id) {
            Some(Phase::Live) => self.out.push(Effect::Arm {
                timer: Timer::AskState(instance),
                after: ASK_STATE,
            }),
            // When its start is over.
            Some(Phase::Launching | Phase::Handshake | Phase::CheckingModel) => {
                if let Some(i) = self.instance_mut(id) {
                    i.doubted = i.run.is_some();
                }
            }
            Some(Phase::Ending(_) | Phase::Sweeping) | None => {}
        }
    }

    /// Asks for the state. What it says of a run that may be over can be late, be nothing or, while the
    /// child compacts or looks at a prompt, prove nothing: it is asked again then (rule F1).
    pub(super) fn ask_state(&mut self, instance: InstanceId) {
        let again = self.config.run_begins;
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let Some(i) = self.instance_mut(id).filter(|i| i.phase == Phase::Live) else {
            return;
        };
        i.doubted = i.run.is_some();
        if i.doubted {
            self.out.push(Effect::Arm {
                timer: Timer::AskState(instance),
                after: again,
            });
        }
        self.write(instance, ID_STATE, ChildCommand::GetState);
    }

    /// The run that was asked for goes on, or is over.
    fn doubt_over(&mut self, id: AgentId) {
        if let Some(i) = self.instance_mut(id)
            && std::mem::take(&mut i.doubted)
        {
            let timer = Timer::AskState(i.id);
            self.out.push(Effect::Disarm(timer));
        }
    }

    /// A state asked for because something did not add up: a run that never began, or an end that
    /// was refused as stray.
    fn state_in_between(
        &mut self,
        now: Now,
        id: AgentId,
        instance: InstanceId,
        state: &ChildState,
    ) {
        if state.streaming {
            self.doubt_over(id);
        }
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        // What this does not decide is asked for again by its timer.
        if state.streaming || state.compacting || i.inflight.is_some() {
            return;
        }
        if i.run.is_some() {
            // Rule F1: idle although no end was seen.
            self.run_ended(now, id, RunEnd::vanished());
        } else if i.run_expected {
            i.run_expected = false;
            self.out.push(Effect::Disarm(Timer::RunBegins(instance)));
            let lost: Vec<String> = match self.agent_mut(id) {
                Some(agent) => {
                    let (lost, kept): (Vec<_>, Vec<_>) = agent
                        .queue
                        .drain(..)
                        .partition(|m| m.state == MessageState::Accepted);
                    agent.queue = kept.into();
                    lost.into_iter().map(|m| m.text).collect()
                }
                None => Vec::new(),
            };
            if self.owed_without_a_run(id) {
                let reason = "accepted, but no run began".to_owned();
                self.run_never_began(now, id, &Outcome::Failed { reason });
            }
            for text in lost {
                self.notice(
                    id,
                    Level::Error,
                    format!(
                        "accepted, but no run began; send it again if it is still wanted:\n{text}"
                    ),
                );
            }
            self.settle_without_run(now, id);
            self.pump(id);
        }
    }

    /// `agent_start`, also by itself (R-LIFE-14); inside a run it does not split it.
    fn run_started(&mut self, now: Now, id: AgentId, instance: InstanceId) {
        let (owner, undecided) = self.owner_of_new_run(id);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let limit = agent.spec.timeout_ms;
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        if i.phase == Phase::Sweeping || i.run.is_some() {
            return;
        }
        i.runs += 1;
        i.run_expected = false;
        let seq = i.runs;
        let mut run = Run::new(seq, now, owner);
        run.abort_asked = i.aborting.is_some();
        run.undecided = undecided;
        run.owed = std::mem::take(&mut i.expected_owed);
        i.run = Some(run);
        agent.run_started_ms = Some(now.wall_ms);
        agent.run_took_ms = None;
        self.status(now, id, Status::Running);
        self.out.push(Effect::Disarm(Timer::RunBegins(instance)));
        if let Some(ms) = limit {
            self.out.push(Effect::Arm {
                timer: Timer::Run(instance, seq),
                after: Duration::from_millis(ms),
            });
        }
        if owner == Owner::Parent {
            self.own_run(id);
        }
        self.publish(id);
    }

    /// The run's time limit passed (R-LIFE-13): it is stopped and the agent closes.
    pub(super) fn run_late(&mut self, now: Now, instance: InstanceId, seq: u64) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let current = self
            .agent(id)
            .and_then(|a| a.instance.as_ref())
            .and_then(|i| i.run.as_ref())
            .is_some_and(|r| r.seq == seq);
        if current {
            self.give_back(id, ErrorCode::Gone, "the time limit passed first");
            self.begin_ending(now, id, EndWhy::Stop(StopCause::Timeout), None);
        }
    }

    /// Settlement: the facts of the run are frozen here, before anything is reported (R-LIFE-05).
    pub(super) fn run_ended(&mut self, now: Now, id: AgentId, end: RunEnd) {
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        let Some(run) = i.run.take() else {
            return;
        };
        let unanswered = i.inflight.is_some();
        let outcome = match (&agent.ending, end.outcome()) {
            (Some(ending), _) if matches!(ending.why, EndWhy::Stop(_)) => match ending.why {
                EndWhy::Stop(by) => Outcome::Stopped { by },
                EndWhy::InOrder | EndWhy::Failed(_) | EndWhy::Deaf(_) => Outcome::Stopped {
                    by: StopCause::Child,
                },
            },
            (_, Outcome::Stopped { .. }) if run.abort_asked => {
                Outcome::Stopped { by: StopCause::You }
            }
            (_, outcome) => outcome,
        };
        self.out.push(Effect::Disarm(Timer::Run(instance, run.seq)));
        self.doubt_over(id);
        self.freeze_run(now, id, run, &outcome, &end);
        let more = self.unseen(id);
        let run_begins = self.config.run_begins;
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let ending = agent.ending.is_some();
        if let Some(claims) = more
            && !ending
            && let Some(i) = agent.instance.as_mut()
        {
            i.run_expected = true;
            i.run_asked = 0;
            if claims {
                self.own_expected_run(id);
            }
            self.out.push(Effect::Arm {
                timer: Timer::RunBegins(instance),
                after: run_begins,
            });
        }
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let stays = agent.stays();
        if !ending {
            match &outcome {
                // A prompt is on its way, or accepted for the next run: that decides what comes next.
                _ if unanswered || more.is_some() => {}
                Outcome::Completed { .. } | Outcome::Stopped { .. } if stays => {
                    agent.set_status(now, Status::Idle);
                }
                Outcome::Completed { .. } => {
                    agent.set_status(now, Status::Completed);
                    self.begin_ending(now, id, EndWhy::InOrder, None);
                }
                Outcome::Stopped { by } => {
                    agent.set_status(now, Status::Stopped { by: *by });
                    self.begin_ending(now, id, EndWhy::InOrder, None);
                }
                Outcome::Failed { reason } => {
                    // A resident whose run failed is replaced at the next message (R-LIFE-10):
                    // its process ends now, in order, and the session stays.
                    let reason = reason.clone();
                    agent.set_status(now, Status::Failed { reason });
                    self.begin_ending(now, id, EndWhy::InOrder, None);
                }
            }
        }
        self.out.push(Effect::Save(id));
        self.publish(id);
        self.pump(id);
    }
}
