//! Hosts: whoever parents agents, and in whose name something is asked.

use serde::{Deserialize, Serialize};

use super::ids::{AgentId, HostId};

/// The three kinds of host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HostKind {
    /// The person of a folder. Every run is owned and nothing is private; results are cards.
    Person,
    /// A Pi session through its bridge.
    Pi,
    /// An agent that has agents of its own, through its own bridge.
    Nested {
        /// The agent whose process it is.
        agent: AgentId,
    },
}

/// A host at one generation of its session. Reload, `/new`, `/resume` and `/fork` begin a new one;
/// whatever an older one still asks is refused (R-LIFE-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The host.
    pub host: HostId,
    /// Its generation when it asked.
    pub generation: u64,
}

/// In whose name a message is sent: decides who owns the answer (R-DELIV-07).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The host of the agent, with `agent_send`: it owns the run.
    Parent(Caller),
    /// A person in a viewer or a shell: a side chat, private unless the person is the host.
    User,
    /// A person who hands the run's answer to the host (`/continue`, R-DELIV-14).
    Continue,
}

/// What `/continue` sends without a text (R-DELIV-14).
pub const CONTINUE: &str = "Continue the assigned task and return the result.";

/// In whose name an agent is stopped: decides whether the host hears of it (R-DELIV-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopper {
    /// The host, with `agent_stop`: the stopped run sends no completion.
    Parent(Caller),
    /// A person: a host that is owed an answer is told.
    User,
}

/// Who owns a run: where its answer goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The host of the agent.
    #[default]
    Parent,
    /// Nobody but the child's own session.
    Private,
}

/// Why a host's session ended (Pi's `session_shutdown` reasons, and none at all).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum LeaveReason {
    Quit,
    Reload,
    New,
    Resume,
    Fork,
    /// The connection or the process ended without a word.
    Lost,
}

/// How a spawn reports (R-TOOL-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnMode {
    /// Answered when the task was accepted; the result is delivered later.
    Background,
    /// Answered with the result of the first run.
    Foreground,
}
