//! State the machine keeps of an agent, its process and its run.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use super::input::{ChildEnv, Exit, Now};
use super::table::{self, State};
use crate::fleet::agent::{AgentSpec, Status, StopCause};
use crate::fleet::answer::{Reply, RequestError};
use crate::fleet::host::Owner;
use crate::fleet::ids::{AgentId, CallId, HostId, InstanceId, MessageId};
use crate::fleet::interpret::RunEnd;
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::Outcome;

/// A message the model has not seen yet.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) text: String,
    pub(super) state: MessageState,
    /// Who waits to hear that it was accepted.
    pub(super) call: Option<CallId>,
    /// The agent had to be started again for it.
    pub(super) revived: bool,
    /// It is the task of a new agent.
    pub(super) initial: bool,
    /// The answer to it goes to the host (R-DELIV-07).
    pub(super) claims: bool,
    /// A person wrote it: the slash of a command that the child does not have is refused
    /// (R-DELIV-14).
    pub(super) typed: bool,
    /// The model has seen it already although its response is still on the way.
    pub(super) seen: bool,
    /// Accepted as the start of a run while the run before was still going on, as far as was heard.
    pub(super) next: bool,
    /// For a process that has to be started for it.
    pub(super) instance: InstanceId,
    pub(super) env: ChildEnv,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Asked for, not there yet.
    Launching,
    /// Started, `get_state` not answered yet.
    Handshake,
    /// The list of models is awaited, to find out whether the wanted one is real.
    CheckingModel,
    /// Takes prompts.
    Live,
    /// On the stop ladder.
    Ending(Rung),
    /// Dead; what it left behind is being removed.
    Sweeping,
}

/// Rungs of the stop ladder (R-LIFE-07).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// stdin closed.
    Eof,
    /// SIGTERM sent.
    Term,
    /// SIGKILL sent.
    Kill,
}

/// An abort on its way.
#[derive(Clone, Debug)]
pub(super) struct Aborting {
    pub(super) calls: Vec<CallId>,
    pub(super) step: AbortStep,
    pub(super) returned: Vec<String>,
}

/// Steps of an abort (R-PI-07): never before the prompt's response; `clear_queue`, then `abort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbortStep {
    /// A prompt is unanswered.
    AwaitPrompt,
    /// `clear_queue` is written.
    Clearing,
    /// `abort` is written.
    Aborting,
}

/// A run that is going on.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) seq: u64,
    pub(super) started: Now,
    /// The person asked for its abort.
    pub(super) abort_asked: bool,
    /// Where its answer goes.
    pub(super) owner: Owner,
    /// A prompt was unanswered when it began: the answer decides who owns it.
    pub(super) undecided: bool,
    /// Its completion is in the host's outbox.
    pub(super) owed: bool,
    /// What there was of it when the output ended.
    pub(super) partial: Option<Box<RunEnd>>,
}

impl Run {
    pub(super) fn new(seq: u64, started: Now, owner: Owner) -> Self {
        Self {
            seq,
            started,
            abort_asked: false,
            owner,
            undecided: false,
            owed: false,
            partial: None,
        }
    }
}

/// One process of an agent.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) pid: Option<u32>,
    pub(super) phase: Phase,
    /// The one unanswered prompt.
    pub(super) inflight: Option<MessageId>,
    /// That prompt is not written yet: the child was asked whether it has the command in it.
    pub(super) checking: Option<MessageId>,
    /// A prompt was accepted as `started` and its run was not seen yet.
    pub(super) run_expected: bool,
    /// The answer of that run is owed: its completion is in the host's outbox.
    pub(super) expected_owed: bool,
    /// Whoever would be told of its runs took the call back, stopped it, or was told that it did not
    /// start: none that has not settled is told any more (R-TOOL-03, R-TOOL-10, R-DELIV-09).
    pub(super) silenced: Option<Suppression>,
    /// How often that run was asked for in vain.
    pub(super) run_asked: u8,
    pub(super) compacting: bool,
    pub(super) run: Option<Run>,
    pub(super) runs: u64,
    /// Messages to the host that came from it.
    pub(super) questions: u64,
    pub(super) aborting: Option<Aborting>,
    /// How often `clear_queue` was written, and which of them are not answered.
    pub(super) clears: u32,
    pub(super) unanswered_clears: Vec<u32>,
    /// It said that it is settled while a run goes on as far as was heard: it is asked until that is
    /// certain (rule F1).
    pub(super) doubted: bool,
    /// Model the child said it uses.
    pub(super) model: Option<String>,
    /// Texts the child said it holds in its queue.
    pub(super) held: Vec<String>,
    /// User messages the model was given that are none of ours as we wrote them: the child rewrote
    /// one (a template, a skill, an extension), or they are not from us.
    pub(super) rewritten: usize,
    /// Texts of prompts that were not answered in time: whoever sent them has them back, and the
    /// child may still act on them.
    pub(super) late: Vec<String>,
    /// Its output ended while it lived, or was not read to its end: what its model was given since then
    /// is not known.
    pub(super) unheard: bool,
    pub(super) exit: Option<Exit>,
}

impl Instance {
    pub(super) fn new(id: InstanceId) -> Self {
        Self {
            id,
            pid: None,
            phase: Phase::Launching,
            inflight: None,
            checking: None,
            run_expected: false,
            expected_owed: false,
            silenced: None,
            run_asked: 0,
            compacting: false,
            run: None,
            runs: 0,
            questions: 0,
            aborting: None,
            clears: 0,
            unanswered_clears: Vec::new(),
            doubted: false,
            model: None,
            held: Vec::new(),
            rewritten: 0,
            late: Vec::new(),
            unheard: false,
            exit: None,
        }
    }

    /// It may be given prompts.
    pub(super) fn takes_prompts(&self) -> bool {
        self.phase == Phase::Live
            && self.inflight.is_none()
            && !self.compacting
            && self.aborting.is_none()
    }

    /// It uses processor time to start.
    pub(super) fn is_starting(&self) -> bool {
        matches!(
            self.phase,
            Phase::Launching | Phase::Handshake | Phase::CheckingModel
        )
    }
}

/// Why the process is being ended, and who waits for it.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) why: EndWhy,
    /// Answered with `Stopped` when the process is proven gone, and whether it still had to be ended
    /// when they asked.
    pub(super) calls: Vec<(CallId, bool)>,
}

/// Reason to end a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndWhy {
    /// Somebody stopped the agent.
    Stop(StopCause),
    /// The run is over and the process is not needed any more (R-LIFE-16, failed runs).
    InOrder,
    /// The start failed, or the process is of no use any more, for this reason.
    Failed(String),
    /// It takes no more input. Most often it has just died, and its exit status says why.
    Deaf(&'static str),
}

/// One agent.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    /// The open branch of its host's session names it: it can be addressed there.
    pub(super) named: bool,
    pub(super) id: AgentId,
    pub(super) host: HostId,
    /// The call that waits for the end of its first run (a foreground spawn).
    pub(super) foreground: Option<CallId>,
    /// The spawn asked to wait for the result.
    pub(super) wait_for_result: bool,
    /// Who owns a run that it begins by itself (R-DELIV-08, R-LIFE-14).
    pub(super) boundary: Owner,
    pub(super) name: String,
    pub(super) spec: AgentSpec,
    pub(super) status: Status,
    pub(super) since: Now,
    pub(super) session_id: String,
    pub(super) session_path: Option<PathBuf>,
    pub(super) instance: Option<Instance>,
    pub(super) ending: Option<Ending>,
    pub(super) queue: VecDeque<Message>,
    pub(super) run_started_ms: Option<i64>,
    pub(super) run_took_ms: Option<u64>,
    pub(super) runs_ended: u64,
    /// How the last run ended.
    pub(super) last: Option<Outcome>,
    /// It did not start, and its process is still being removed: who waits to hear that, and why.
    pub(super) start_error: Option<(Option<CallId>, RequestError)>,
}

impl Agent {
    /// Changes the status if the table allows it. `false` = refused.
    pub(super) fn set_status(&mut self, now: Now, to: Status) -> bool {
        if self.status == to {
            return true;
        }
        let from = State::of(&self.status);
        let ok = from == State::of(&to) || table::allowed(from, State::of(&to));
        // A terminal state is never rewritten by another of its own sort either.
        let terminal = matches!(from, State::Completed | State::Failed | State::Stopped);
        if !ok || (terminal && from == State::of(&to)) {
            return false;
        }
        self.status = to;
        self.since = now;
        true
    }

    /// The call that waits for the result of the first run, accepted or not.
    pub(super) fn waiting_call(&self) -> Option<CallId> {
        let first = || self.queue.iter().find(|m| m.initial)?.call;
        self.foreground
            .or_else(|| self.wait_for_result.then(first).flatten())
    }

    /// It keeps its process when nothing runs: it is meant to, or a message waits for it.
    pub(super) fn stays(&self) -> bool {
        self.spec.persistent || self.queue.iter().any(|m| m.state == MessageState::Queued)
    }

    /// What whoever sent this message hears when the child has taken it.
    pub(super) fn accepted(&self, message: &Message, steered: bool) -> Reply {
        if message.initial {
            Reply::Spawned {
                agent: self.id,
                name: self.name.clone(),
                session_path: self.session_path.clone(),
            }
        } else {
            Reply::Sent {
                message: message.id,
                revived: message.revived,
                steered,
            }
        }
    }

    /// A process exists or is being removed.
    pub(super) fn has_process(&self) -> bool {
        self.instance.is_some()
    }
}

/// Times and limits of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineConfig {
    /// Wait after closing stdin (R-LIFE-07).
    pub eof_grace: Duration,
    /// Wait after SIGTERM.
    pub term_grace: Duration,
    /// Wait after SIGKILL before it is sent again.
    pub kill_grace: Duration,
    /// A started process must answer within this.
    pub start_deadline: Duration,
    /// A prompt must be answered within this.
    pub prompt_deadline: Duration,
    /// A run must begin within this after its prompt was accepted.
    pub run_begins: Duration,
    /// An abort must be answered within this.
    pub abort_deadline: Duration,
    /// Processes that may start at the same time (R-PI-11).
    pub launch_slots: usize,
    /// Results that become ready within this are one wake of an idle host (R-DELIV-03).
    pub batch_window: Duration,
    /// Levels of agents below a person or a Pi session (R-ID-03).
    pub max_depth: u32,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            eof_grace: Duration::from_millis(1500),
            term_grace: Duration::from_millis(750),
            kill_grace: Duration::from_secs(1),
            start_deadline: Duration::from_secs(60),
            prompt_deadline: Duration::from_secs(60),
            run_begins: Duration::from_secs(10),
            abort_deadline: Duration::from_secs(30),
            launch_slots: 2,
            batch_window: Duration::from_millis(20),
            max_depth: 1,
        }
    }
}
