//! Commands to a child: one JSON object per line, with an id by which the answer is found.
//!
//! What must never be sent has no variant: bare `steer` and `follow_up` (R-PI-07), and the four
//! commands that write the user's global settings (R-PI-08).

use serde::Serialize;

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Command {
    /// A message to the agent: starts a run, or steers the one going on (R-PI-07).
    /// At most one may be unanswered per child.
    Prompt {
        /// The text.
        message: String,
        /// Always [`Steer`].
        streaming_behavior: Steer,
    },
    /// Ends the run. Only after the answer to the prompt (pi-facts §0).
    Abort,
    /// Ends the wait before another attempt.
    AbortRetry,
    /// Takes back what the model has not seen; the answer holds the texts.
    ClearQueue,
    /// Model, session, flags.
    GetState,
    /// Tokens, money, context.
    GetSessionStats,
    /// Models with credentials.
    GetAvailableModels,
    /// Session entries behind `since`.
    GetEntries {
        /// Id of the last known entry; `None` = all.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
    /// Slash commands and skills.
    GetCommands,
    /// Another model.
    SetModel {
        /// Provider.
        provider: String,
        /// Id within the provider.
        model_id: String,
    },
    /// Another thinking level. Pi takes any word: check it before (R-PI-10).
    SetThinkingLevel {
        /// Pi's word.
        level: String,
    },
    /// Another session name.
    SetSessionName {
        /// The name.
        name: String,
    },
    /// Compacts the context.
    Compact {
        /// What the summary should keep.
        #[serde(skip_serializing_if = "Option::is_none")]
        custom_instructions: Option<String>,
    },
    /// The answer to a dialog. Pi answers nothing to it.
    #[serde(rename = "extension_ui_response")]
    UiResponse(UiResponse),
}

/// The one way in which a prompt meets a run that is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Steer {
    /// After the present tools, before the next request.
    #[default]
    Steer,
}

/// The answer to a dialog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UiResponse {
    /// Id of the dialog.
    pub id: String,
    /// The answer.
    #[serde(flatten)]
    pub answer: UiAnswer,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UiAnswer {
    /// Chosen option or typed text.
    Value(String),
    /// Yes or no.
    Confirmed(bool),
    /// Closed without an answer (always `true`).
    Cancelled(bool),
}

impl Command {
    /// A message to the agent.
    #[must_use]
    pub fn prompt(message: impl Into<String>) -> Self {
        Self::Prompt {
            message: message.into(),
            streaming_behavior: Steer::Steer,
        }
    }

    /// True when Pi answers this command with a `response`.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::UiResponse(_))
    }

    /// The command as one line with its LF. `id` comes back in the answer; a dialog's answer
    /// carries the dialog's own id instead.
    #[must_use]
    pub fn to_line(&self, id: &str) -> String {
        #[derive(Serialize)]
        struct WithId<'a> {
            id: &'a str,
            #[serde(flatten)]
            command: &'a Command,
        }
        let json = match self {
            Self::UiResponse(_) => serde_json::to_string(self),
            command => serde_json::to_string(&WithId { id, command }),
        };
        // Strings, booleans and fixed keys always serialise; a lone `null` line would kill Pi.
        let mut line = json.unwrap_or_else(|_| String::from("{}"));
        line.push('\n');
        line
    }
}
