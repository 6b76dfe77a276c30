//! What the machine wants done. The supervisor does it and decides nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::input::{ChildEnv, Timer};
use crate::fleet::agent::AgentSpec;
use crate::fleet::answer::{Reply, RequestError};
use crate::fleet::ids::{AgentId, CallId, InstanceId};
use crate::fleet::transcript::{Level, Outcome};

/// A command to a child. `id` correlates the response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChildCommand {
    GetState,
    GetModels,
    /// Always sent with `streamingBehavior: "steer"` (R-PI-07).
    Prompt {
        text: String,
    },
    ClearQueue,
    Abort,
}

/// Everything needed to start a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchPlan {
    /// What was asked for.
    pub spec: AgentSpec,
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
    /// Everything is stopped: end the core.
    Exit,
}
