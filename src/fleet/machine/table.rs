//! The one table of status changes (R-LIFE-02). A change that is not in it is refused: late events
//! can never overwrite a terminal state.

use serde::{Deserialize, Serialize};

use crate::fleet::agent::Status;

/// Status without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum State {
    Queued,
    Starting,
    Running,
    Idle,
    Completed,
    Failed,
    Stopped,
}

impl State {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Starting,
        Self::Running,
        Self::Idle,
        Self::Completed,
        Self::Failed,
        Self::Stopped,
    ];

    /// The state of a status.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        match status {
            Status::Queued => Self::Queued,
            Status::Starting => Self::Starting,
            Status::Running => Self::Running,
            Status::Idle => Self::Idle,
            Status::Completed => Self::Completed,
            Status::Failed { .. } => Self::Failed,
            Status::Stopped { .. } => Self::Stopped,
        }
    }
}

/// Every allowed change: (from, to, when).
pub const TRANSITIONS: &[(State, State, &str)] = &[
    (State::Queued, State::Starting, "a launch slot is free"),
    (State::Queued, State::Stopped, "stopped before start"),
    (State::Queued, State::Failed, "the launch was refused"),
    (
        State::Starting,
        State::Running,
        "the first prompt was accepted",
    ),
    (
        State::Starting,
        State::Idle,
        "revived, and its message was handled without a run",
    ),
    (State::Starting, State::Failed, "start failed"),
    (State::Starting, State::Stopped, "stopped while starting"),
    (
        State::Running,
        State::Idle,
        "the run settled, the agent stays",
    ),
    (
        State::Running,
        State::Completed,
        "the run settled, the agent does not stay",
    ),
    (
        State::Running,
        State::Failed,
        "provider error, or the process died",
    ),
    (State::Running, State::Stopped, "stopped"),
    (
        State::Idle,
        State::Running,
        "a message was accepted, or it resumed by itself",
    ),
    (State::Idle, State::Completed, "the idle process ended"),
    (
        State::Idle,
        State::Failed,
        "its process takes no more input",
    ),
    (State::Idle, State::Stopped, "stopped"),
    (State::Completed, State::Queued, "revived by a message"),
    (State::Completed, State::Starting, "revived by a message"),
    (State::Failed, State::Queued, "revived by a message"),
    (State::Failed, State::Starting, "revived by a message"),
    (State::Stopped, State::Queued, "revived by a message"),
    (State::Stopped, State::Starting, "revived by a message"),
];

/// True when the table has this change.
#[must_use]
pub fn allowed(from: State, to: State) -> bool {
    TRANSITIONS.iter().any(|(f, t, _)| *f == from && *t == to)
}
