//! Answers to what a client asks: plain data shared by the machine and the client trait.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::history::Explanation;
use super::ids::{AgentId, MessageId};
use super::roster::{FleetSnapshot, UsageTotals};
use super::transcript::Outcome;

/// Answers to requests, in the same order of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The agent works on its task.
    Spawned {
        /// Identity.
        agent: AgentId,
        /// Short name.
        name: String,
        /// Saved session.
        #[serde(default, with = "crate::fleet::path_text::option")]
        session_path: Option<PathBuf>,
    },
    /// The first run of an agent that was waited for (a foreground spawn) is over, whatever its
    /// outcome (R-TOOL-18).
    Finished {
        /// Identity.
        agent: AgentId,
        /// Short name.
        name: String,
        /// How it ended.
        outcome: Outcome,
        /// Text of the run's last assistant message, unchanged (R-TOOL-13); of a run that did not
        /// complete the cause, then the partial text (R-DELIV-15).
        result: String,
        /// Saved session.
        #[serde(default, with = "crate::fleet::path_text::option")]
        session_path: Option<PathBuf>,
        /// Length of the run in milliseconds.
        took_ms: u64,
        /// Tokens and money of the run (R-TOOL-15).
        usage: UsageTotals,
    },
    /// The child accepted the message.
    Sent {
        /// Identity of the message.
        message: MessageId,
        /// It had to be revived for it.
        revived: bool,
        /// It joined a run that was already going on.
        steered: bool,
    },
    /// The agent is stopped; `was_live` false = it already was.
    Stopped {
        /// A process had to be ended.
        was_live: bool,
    },
    /// The run is aborted.
    Aborted {
        /// Messages the model had not seen yet, given back (R-LIFE-15).
        returned: Vec<String>,
    },
    /// What led to the state an agent shows.
    Explained {
        /// The account.
        explanation: Box<Explanation>,
    },
    /// Done, nothing to say.
    Done,
    /// The fleet.
    Snapshot {
        /// All of it.
        fleet: Box<FleetSnapshot>,
    },
}

/// Why a request was refused, by what the asker can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// An argument is wrong.
    Invalid,
    /// No such agent or dialog.
    NotFound,
    /// The agent is in a state that does not allow it.
    Conflict,
    /// The child could not be started or did not accept.
    StartFailed,
    /// The agent ended before it could be done.
    Gone,
    /// The asker took the call back (R-TOOL-10, R-TOOL-17).
    Cancelled,
    /// The core does not know the request (a newer client).
    Unsupported,
    /// The connection to the core was lost: whether it was done is unknown.
    Disconnected,
    /// A fault in the core.
    Internal,
}

/// A refusal with the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// Sort.
    pub code: ErrorCode,
    /// One line: what is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl RequestError {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with a way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
