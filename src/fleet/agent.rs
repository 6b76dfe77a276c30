//! What an agent is asked to be, and the states it can be in (R-LIFE-02).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Which tools a child gets (R-TOOL-05). The three choices are recorded and shown differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "choice", content = "names", rename_all = "snake_case")]
pub enum ToolChoice {
    /// Pi's defaults.
    #[default]
    All,
    /// Exactly these (an empty list means none at all).
    Only(Vec<String>),
}

/// Pi's thinking levels (R-TOOL-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Thinking {
    /// Every level, weakest first.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::Xhigh,
        Self::Max,
    ];

    /// The word Pi uses for this level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Reads Pi's word; `None` for anything else (Pi itself accepts typos silently, R-PI-10).
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// What a person or a parent asked for. Kept in the agent's record, reused on every revival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// One-line title of the task.
    pub label: String,
    /// `provider/id`, a bare id or `model:thinking`; `None` = Pi's own default.
    pub model: Option<String>,
    /// `None` = Pi's own default.
    pub thinking: Option<Thinking>,
    /// Tool restriction.
    pub tools: ToolChoice,
    /// Working folder of the child, absolute.
    #[serde(with = "crate::fleet::path_text")]
    pub cwd: PathBuf,
    /// Stay idle after a run (`true`) or end the process in order (`false`, R-LIFE-16).
    pub persistent: bool,
    /// Bound on every run, in milliseconds (R-LIFE-13); `None` = no bound.
    pub timeout_ms: Option<u64>,
    /// Pi's id of the tool call that asked for it (R-TOOL-19); `None` = no call of a tool did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// Who or what ended a run or an agent that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The person, in a viewer or a shell.
    You,
    /// The run's time limit passed.
    Timeout,
    /// The core was asked to end.
    Shutdown,
    /// Its parent, with `agent_stop`.
    Parent,
    /// The tool call that waited for it was cancelled (R-TOOL-10).
    Cancelled,
    /// Its host ended: the Pi session was left, replaced or reloaded, or the agent above ended.
    HostGone,
    /// The child ended the run as aborted and nobody here asked for it.
    Child,
}

impl StopCause {
    /// The words shown after `stopped`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::You => "by you",
            Self::Timeout => "by the time limit",
            Self::Shutdown => "on quit",
            Self::Parent => "by its parent",
            Self::Cancelled => "because the call was cancelled",
            Self::HostGone => "because its session ended",
            Self::Child => "by the agent",
        }
    }
}

/// State of an agent (R-LIFE-02). Only `fleet::machine` changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// Waiting for a launch slot (R-PI-11).
    Queued,
    /// Process started, first prompt not yet accepted.
    Starting,
    /// A run is going on.
    Running,
    /// Process resident, no run, addressable.
    Idle,
    /// Last run completed, process closed in order.
    Completed,
    /// Last run or the process failed.
    Failed {
        /// Why, in one line of the child's or the provider's words.
        reason: String,
    },
    /// Ended on purpose.
    Stopped {
        /// By whom or what.
        by: StopCause,
    },
}

impl Status {
    /// True while a process is alive or about to be.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::Queued | Self::Starting | Self::Running | Self::Idle
        )
    }

    /// True while a run is going on or about to start.
    #[must_use]
    pub fn is_working(&self) -> bool {
        matches!(self, Self::Queued | Self::Starting | Self::Running)
    }
}
