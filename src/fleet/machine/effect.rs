//! What the machine wants done. The supervisor does it and decides nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::input::{ChildEnv, Timer};
use crate::fleet::agent::AgentSpec;
use crate::fleet::answer::{Reply, RequestError};
use crate::fleet::completion::Delivery;
use crate::fleet::host::Caller;
use crate::fleet::ids::{AgentId, CallId, HostId, InstanceId};
use crate::fleet::outbox::{JournalRecord, OfferMode};
use crate::fleet::transcript::{Level, Outcome};

/// A command to a child. `id` correlates the response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChildCommand {
    GetState,
    GetModels,
    GetCommands,
    /// Always sent with `streamingBehavior: "steer"` (R-PI-07).
    Prompt {
        text: String,
    },
    ClearQueue,
    Abort,
}

/// Everything needed to start a process.
///
/// `host` and `generation` are those of the agent's host: it adds its own to the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    /// What was asked for.
    pub spec: AgentSpec,
    /// Host and generation the launch is for.
    pub host: Caller,
    /// Levels below the top: 1 = an agent of a person or a Pi session.
    pub depth: u32,
    /// A tool call waits for its first result.
    pub waited_for: bool,
    /// Pi's session id, given by us.
    pub session_id: String,
    /// Saved session to go on with, once a process named it.
    pub resume: Option<PathBuf>,
    /// Environment of the asker.
    pub env: ChildEnv,
}

/// A signal of the stop ladder, for the whole process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LadderSignal {
    Term,
    Kill,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a process.
    Launch {
        /// For whom.
        agent: AgentId,
        /// Which.
        instance: InstanceId,
        /// How.
        plan: Box<LaunchPlan>,
    },
    /// Write a command.
    Write {
        /// To which process.
        instance: InstanceId,
        /// Correlation id.
        id: String,
        /// What.
        command: ChildCommand,
    },
    /// Record the process tree, then close stdin: the first rung of the ladder.
    CloseStdin {
        /// Of which process.
        instance: InstanceId,
    },
    /// Send a signal to the process group.
    Signal {
        /// Of which process.
        instance: InstanceId,
        /// Which signal.
        signal: LadderSignal,
    },
    /// Start a timer, or move it.
    Arm {
        /// Which.
        timer: Timer,
        /// From now.
        after: Duration,
    },
    /// Forget a timer.
    Disarm(Timer),
    /// Answer a call, once.
    Answer {
        /// Which.
        call: CallId,
        /// With what.
        answer: Result<Reply, RequestError>,
    },
    /// Write the agent's record.
    Save(AgentId),
    /// The agent's view changed.
    Publish(AgentId),
    /// The agent never came to be: its record and its row are removed.
    Forget {
        /// Which.
        agent: AgentId,
        /// Its host.
        host: HostId,
    },
    /// A run ended: freeze it in the transcript (R-LIFE-05).
    RunEnded {
        /// Whose.
        agent: AgentId,
        /// How.
        outcome: Outcome,
        /// Length in milliseconds.
        took_ms: u64,
        /// Tokens, input and output together.
        tokens: u64,
        /// Tool calls.
        tool_uses: u64,
    },
    /// Something to note in the transcript.
    Notice {
        /// Whose.
        agent: AgentId,
        /// How loud.
        level: Level,
        /// What.
        text: String,
    },
    /// Write a record into a host's journal, sync it, and say so.
    Journal {
        /// Whose.
        host: HostId,
        /// Its number.
        seq: u64,
        /// What.
        record: JournalRecord,
    },
    /// Offer results to a host.
    Offer {
        /// To which.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// Number of the offer.
        epoch: u64,
        /// How they are to be handed over.
        mode: OfferMode,
        /// Which.
        deliveries: Vec<Delivery>,
    },
    /// Agents joined the open branch of a session: it is to remember them there (R-PI-03).
    Named {
        /// Of which host.
        host: HostId,
        /// Of which generation.
        generation: u64,
        /// Which, with their names.
        agents: Vec<(AgentId, String)>,
    },
    /// A host's results are, or are no longer, safe from a crash of the core.
    Degraded {
        /// Whose.
        host: HostId,
        /// They are not.
        degraded: bool,
    },
    /// Nothing of a host's last generation is left: its agents are gone.
    HostClosed {
        /// Which.
        host: HostId,
        /// Of which generation.
        generation: u64,
    },
    /// Everything is stopped: end the core.
    Exit,
}
