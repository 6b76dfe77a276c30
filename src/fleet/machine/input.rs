//! What can happen to the fleet. Every input that can be stale carries an instance id.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::agent::AgentSpec;
use crate::fleet::completion::DeliveryId;
use crate::fleet::host::{Caller, HostKind, LeaveReason, Sender, SpawnMode, Stopper};
use crate::fleet::ids::{AgentId, CallId, HostId, InstanceId, MessageId};
use crate::fleet::interpret::Fact;
use crate::fleet::outbox::{Activity, JournalRecord};

/// The moment of a step. The machine has no clock of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since the core started: for deadlines and durations.
    pub mono: Duration,
    /// Wall clock in Unix milliseconds: for display only.
    pub wall_ms: i64,
}

/// Names and values of environment variables, as bytes.
pub type EnvPairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A child's environment on its way from a request to the launch (R-LIFE-18). Never stored, never
/// printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChildEnv(pub Arc<EnvPairs>);

impl fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChildEnv({} variables)", self.0.len())
    }
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Last lines of its stderr, oldest first.
    pub stderr_tail: Vec<String>,
    /// Why it ended and what to do about it, where its stderr says so in words that are known.
    pub known: Option<String>,
    /// Its output could not be read to the end: what its model was given last is not known.
    pub unheard: bool,
}

/// What Pi says at every first start of a session, and no reason to die (pi-facts §1).
const HARMLESS: &[&str] = &["No project session found with id"];

impl Exit {
    /// In words: the known reason, else `killed by signal 9`, `exit code 1`, with the last stderr
    /// line.
    #[must_use]
    pub fn words(&self) -> String {
        if let Some(known) = &self.known {
            return known.clone();
        }
        let mut words = match (self.signal, self.code) {
            (Some(signal), _) => format!("killed by signal {signal}"),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        if let Some(line) = self.best_line() {
            words.push_str(": ");
            words.push_str(line);
        }
        words
    }

    /// The stderr line that says most: the last `Error:` line, else the last line.
    fn best_line(&self) -> Option<&str> {
        let says_something = |line: &&String| !HARMLESS.iter().any(|h| line.contains(h));
        self.stderr_tail
            .iter()
            .filter(says_something)
            .rev()
            .find(|l| l.trim_start().starts_with("Error:"))
            .or_else(|| self.stderr_tail.iter().rfind(says_something))
            .map(String::as_str)
    }
}

/// A deadline the machine asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The process must have answered `get_state`.
    Start(InstanceId),
    /// The child must have answered the prompt (R-PI-07: a held prompt has a deadline).
    Prompt(InstanceId, MessageId),
    /// A run must have begun after `started`.
    RunBegins(InstanceId),
    /// Ask for the state again after a refused `agent_settled`.
    AskState(InstanceId),
    /// Try a prompt again that compaction refused.
    Compaction(InstanceId),
    /// The run's time limit (R-LIFE-13).
    Run(InstanceId, u64),
    /// The present rung of the stop ladder is over (R-LIFE-07).
    Ladder(InstanceId),
    /// An abort must have been answered.
    Abort(InstanceId),
    /// Results for an idle host are collected into one wake until this (R-DELIV-03).
    Wake(HostId),
}

/// What a host did with a batch it was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferAnswer {
    /// Handed to Pi: not yet proof that it is in the session.
    Taken,
    /// Not handed over: the host was not in the state the offer was made for.
    Refused,
    /// The session's entries were searched for the ids of the batch.
    Checked {
        /// Ids that are among the entries.
        found: Vec<DeliveryId>,
        /// Ids of an earlier connection that are not.
        missing: Vec<DeliveryId>,
        /// The session file exists, or the session is ephemeral.
        durable: bool,
    },
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A new agent is wanted. The ids are fresh.
    Spawn {
        /// Who waits for the answer.
        call: CallId,
        /// Whose agent it becomes.
        by: Caller,
        /// What it is answered with.
        mode: SpawnMode,
        /// Identity of the new agent.
        agent: AgentId,
        /// Identity of its first process.
        instance: InstanceId,
        /// Identity of its first message.
        message: MessageId,
        /// What is wanted, already checked against the file system.
        spec: AgentSpec,
        /// The task.
        prompt: String,
        /// The asker's environment.
        env: ChildEnv,
    },
    /// A message to an agent.
    Send {
        /// Who waits for the answer.
        call: CallId,
        /// To whom.
        agent: AgentId,
        /// In whose name.
        by: Sender,
        /// Identity of the message.
        message: MessageId,
        /// Identity of a process, should one have to be started.
        instance: InstanceId,
        /// The text.
        text: String,
        /// The asker's environment, should a process have to be started.
        env: ChildEnv,
    },
    /// Stop an agent.
    Stop {
        /// Who waits for the answer.
        call: CallId,
        /// Whom.
        agent: AgentId,
        /// In whose name.
        by: Stopper,
    },
    /// The asker takes a call back (R-TOOL-10, R-TOOL-17). It may come before the call itself.
    Cancel {
        /// Which.
        call: CallId,
    },
    /// Abort the present run.
    Abort {
        /// Who waits for the answer.
        call: CallId,
        /// Whose.
        agent: AgentId,
    },
    /// Stop everything and end.
    Shutdown {
        /// Who waits for the answer, if anybody.
        call: Option<CallId>,
    },
    /// The process was started.
    Launched {
        /// Which.
        instance: InstanceId,
        /// Its process id.
        pid: u32,
    },
    /// The process could not be started.
    LaunchFailed {
        /// Which.
        instance: InstanceId,
        /// Why.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The child said something that matters.
    Fact {
        /// Which process said it.
        instance: InstanceId,
        /// What.
        fact: Fact,
    },
    /// A command could not be written to the child.
    WriteFailed {
        /// To which process.
        instance: InstanceId,
    },
    /// The child's output ended although the process lives.
    OutputEnded {
        /// Of which process.
        instance: InstanceId,
    },
    /// The process has ended and was reaped; its output was read to the end.
    Exited {
        /// Which.
        instance: InstanceId,
        /// How.
        exit: Exit,
    },
    /// What the process left behind is gone.
    Swept {
        /// Of which process.
        instance: InstanceId,
        /// Processes that had to be killed.
        killed: u32,
        /// Processes that could not be killed.
        left: u32,
    },
    /// A host is there, for the first time or again.
    HostJoined {
        /// Who waits for the answer.
        call: CallId,
        /// Which.
        host: HostId,
        /// Of what kind.
        kind: HostKind,
        /// Generation of its session; must be higher than any before.
        generation: u64,
        /// Deliveries found anywhere in its session (R-DELIV-05).
        known: Vec<DeliveryId>,
        /// Deliveries it handed over in an earlier connection and has not looked for yet.
        undecided: Vec<DeliveryId>,
        /// The session file exists, or the session is ephemeral.
        durable: bool,
        /// What its journal held. Only looked at when this core meets the host for the first time.
        journal: Vec<JournalRecord>,
    },
    /// A host does something else now.
    HostState {
        /// Which.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// What.
        activity: Activity,
    },
    /// A session was opened or went to another branch: who is named there (R-PI-03). After a join,
    /// before anything is asked.
    HostBranch {
        /// Which.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// Agents that the open branch names; `None` = no branch of the session names any.
        agents: Option<Vec<AgentId>>,
        /// Names of agents that are used up: those of any branch, and of the session this one was
        /// forked from (R-ID-01).
        names: Vec<String>,
    },
    /// A host's session ended: its agents end too (R-LIFE-08, R-PI-03).
    HostLeft {
        /// Which.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// Why.
        reason: LeaveReason,
    },
    /// What became of an offer.
    Offered {
        /// To which host.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// Which offer; 0 = none of this generation.
        epoch: u64,
        /// What.
        answer: OfferAnswer,
    },
    /// Records up to this one are on the disk.
    Journaled {
        /// Of which host.
        host: HostId,
        /// Number of the last one.
        seq: u64,
    },
    /// The journal cannot be written: deliver all the same (R-DELIV-05).
    JournalFailed {
        /// Of which host.
        host: HostId,
    },
    /// The journal can be written again and holds everything up to this record.
    JournalRecovered {
        /// Of which host.
        host: HostId,
        /// Number of the last one.
        seq: u64,
        /// What was in a file that could not be read before.
        records: Vec<JournalRecord>,
    },
    /// A journal that could not be read before was; it still cannot be written.
    JournalRead {
        /// Of which host.
        host: HostId,
        /// What was in it.
        records: Vec<JournalRecord>,
    },
    /// A timer is over.
    Timer(Timer),
}
