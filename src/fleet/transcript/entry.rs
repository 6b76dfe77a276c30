//! Entries of a transcript: data only. How one is drawn is a card (`tui::cards`).

use serde::{Deserialize, Serialize};

/// State of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// The model is still writing the arguments.
    Preparing,
    /// Being executed.
    Running,
    /// Ended without error.
    Done,
    /// Ended as an error.
    Failed,
    /// The run ended before the call did.
    Lost,
}

/// A tool call with its output so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEntry {
    /// The provider's id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as compact JSON, cut at `MAX_ARGS` bytes.
    pub args: String,
    /// Output text so far (Pi sends the whole tail again with each update).
    pub output: String,
    /// Lines that are not in `output` any more.
    pub hidden_lines: u64,
    /// State.
    pub state: ToolState,
    /// Wall clock of the start, Unix milliseconds.
    pub started_ms: Option<i64>,
    /// Duration once ended.
    pub took_ms: Option<u64>,
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Level {
    Info,
    Warning,
    Error,
}

/// How a run ended (R-DELIV-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// stopReason `stop` or `length`.
    Completed {
        /// The answer was cut at the model's output limit.
        cut: bool,
    },
    /// Provider error, crash, start failure.
    Failed {
        /// Why, one line.
        reason: String,
    },
    /// Aborted or stopped.
    Stopped {
        /// By whom or what.
        by: crate::fleet::agent::StopCause,
    },
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryKind {
    /// A prompt: what the model was told.
    User {
        /// Its text.
        text: String,
        /// Attached images.
        images: u32,
    },
    /// Reasoning of the model.
    Thinking {
        /// Text so far.
        text: String,
        /// No more will come.
        done: bool,
    },
    /// Answer text of the model (Markdown).
    Text {
        /// Text so far.
        text: String,
        /// No more will come.
        done: bool,
    },
    /// A tool call.
    Tool(ToolEntry),
    /// Retry, compaction, extension error, process news.
    Notice {
        /// How loud.
        level: Level,
        /// One or more lines.
        text: String,
    },
    /// A message that an extension put into the conversation.
    Custom {
        /// The extension's type name.
        custom_type: String,
        /// Its text.
        text: String,
    },
    /// End of a run.
    RunEnd {
        /// How it ended.
        #[serde(flatten)]
        outcome: Outcome,
        /// Length of the run in milliseconds.
        took_ms: u64,
        /// Tokens of the run, input and output together.
        tokens: u64,
        /// Tool calls of the run.
        tool_uses: u64,
    },
}

/// One entry. `seq` grows by one from entry to entry and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the whole transcript, from 0.
    pub seq: u64,
    /// Wall clock of the start of the entry, Unix milliseconds.
    pub at_ms: i64,
    /// What it is.
    pub kind: EntryKind,
}

/// Longest kept argument text of a tool call, in bytes.
pub const MAX_ARGS: usize = 16 * 1024;
/// Longest kept output of a tool call, in bytes: Pi's own limit for what a model sees (50 KB) fits.
pub const MAX_OUTPUT: usize = 64 * 1024;
