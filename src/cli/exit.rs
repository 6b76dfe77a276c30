//! How a command ends: what went wrong, the way out, and the exit code (documented in
//! `docs/exit-codes.md`).

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use crate::client::{ErrorCode, RequestError};

/// Sorts of failure, by what the person can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something failed that is none of the others.
    Failed,
    /// The command line or a setting is wrong.
    Usage,
    /// No core works for this folder.
    NoCore,
    /// No such agent.
    NotFound,
    /// The agent is in a state that does not allow it.
    Conflict,
    /// The child could not be started, or Pi is missing.
    StartFailed,
    /// Needs a terminal and has none.
    NoTerminal,
}

impl Kind {
    /// Every sort with its meaning, for the documentation.
    pub const ALL: [(Self, &'static str); 7] = [
        (
            Self::Failed,
            "it failed for a reason that the message names",
        ),
        (Self::Usage, "the command line or a setting is wrong"),
        (Self::NoCore, "no core works for this folder"),
        (Self::NotFound, "no such agent"),
        (
            Self::Conflict,
            "the agent is in a state that does not allow it",
        ),
        (
            Self::StartFailed,
            "Pi is missing or an agent could not be started",
        ),
        (Self::NoTerminal, "a terminal is needed and there is none"),
    ];

    /// The exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NoCore => 3,
            Self::NotFound => 4,
            Self::Conflict => 5,
            Self::StartFailed => 6,
            Self::NoTerminal => 7,
        }
    }
}

/// A failure of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliError {
    /// Sort.
    pub kind: Kind,
    /// What is wrong, one line.
    pub message: String,
    /// What to do about it, line by line.
    pub hint: Option<String>,
}

impl CliError {
    /// A failure without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with the way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it on stderr (or as JSON on stdout) and gives the exit code.
    #[must_use]
    pub fn report(&self, json: bool) -> ExitCode {
        if json {
            let value = serde_json::json!({
                "version": super::JSON_VERSION,
                "error": { "message": self.message, "hint": self.hint, "exit": self.kind.code() },
            });
            super::say(&value.to_string());
        }
        // A failure that cannot be told where it should be is told where it can.
        if !json || super::LOST.get().is_some() {
            let mut err = std::io::stderr();
            let _ = writeln!(err, "pi-agents: {}", super::clean(&self.message));
            for line in self.hint.iter().flat_map(|h| h.lines()) {
                let _ = writeln!(err, "  {}", super::clean(line));
            }
        }
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<RequestError> for CliError {
    fn from(error: RequestError) -> Self {
        let kind = match error.code {
            ErrorCode::Invalid => Kind::Usage,
            ErrorCode::NotFound => Kind::NotFound,
            ErrorCode::Conflict | ErrorCode::Gone | ErrorCode::Cancelled => Kind::Conflict,
            ErrorCode::StartFailed => Kind::StartFailed,
            ErrorCode::Unsupported | ErrorCode::Disconnected | ErrorCode::Internal => Kind::Failed,
        };
        Self {
            kind,
            message: error.message,
            hint: error.hint,
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::Failed, error.to_string())
    }
}
