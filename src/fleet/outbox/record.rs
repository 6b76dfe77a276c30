//! What the journal remembers of an outbox: enough to tell a parent once after a crash, no more.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fleet::completion::{Completion, CompletionId, DeliveryId, Question};

/// A run whose answer the parent is owed, from the moment it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedRun {
    /// Identity of the completion it will have.
    pub id: CompletionId,
    /// Bare name of the agent.
    pub agent: String,
    /// Saved session, if it is known already.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub session_path: Option<PathBuf>,
}

/// Why a run has no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suppression {
    /// It was stopped on purpose by whoever would be told (R-DELIV-06).
    Stopped,
    /// It never began: the call that wanted it failed and says so itself (R-DELIV-09).
    StartFailed,
    /// The call that waited for it in the foreground ended with another answer: cancelled, or lost with the core.
    CallEnded,
}

/// How a delivery is over for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It is in the parent's session, and the session is safe.
    Acked,
    /// A call took it as its result.
    Pulled,
    /// There is nothing to tell.
    Suppressed(Suppression),
}

/// One record of a host's journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum JournalRecord {
    /// A run is owed. If nothing follows, the core was lost during the run.
    Opened {
        /// The run.
        run: OwedRun,
        /// A call waits for it in the foreground, and says itself if the core is lost.
        #[serde(default)]
        foreground: bool,
        /// Its completion will be quiet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quiet: bool,
    },
    /// A run settled.
    Settled {
        /// Its frozen completion.
        completion: Completion,
        /// It is added to the session without a wake of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quiet: bool,
    },
    /// An agent asks.
    Asked {
        /// The question.
        question: Question,
    },
    /// A delivery is over; everything before it about this id may be forgotten.
    Ended {
        /// Which.
        id: DeliveryId,
        /// How.
        how: Ending,
    },
}

impl JournalRecord {
    /// What it is about. A later record about the same id replaces an earlier one.
    #[must_use]
    pub fn id(&self) -> DeliveryId {
        match self {
            Self::Opened { run, .. } => run.id.into(),
            Self::Settled { completion, .. } => completion.id.into(),
            Self::Asked { question } => question.id.into(),
            Self::Ended { id, .. } => *id,
        }
    }

    /// Nothing needs to be remembered about this id any more.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}
