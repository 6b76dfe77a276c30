//! Records of a child's stdout: every family Pi writes, typed, borrowed from the line.
//!
//! Owns the shapes of events; `parse` reads them. What a message looks like is `message`,
//! answers to commands are `response`, dialogs are `ui_request`. No line becomes a
//! `serde_json::Value`, and bodies that only repeat what was said (`agent_end`, `turn_end`, the
//! usage in updates) are skipped.
//!
//! Invariant: a record from the future is `Unknown`, a broken line an error; neither ends anything
//! (R-Q-01).

use std::borrow::Cow;

use serde::Deserialize;

use super::lenient;
use super::message::{Gist, Message, ToolCall, Usage};
pub use super::parse::{ParseError, Parser};
use super::response::Response;
use super::ui_request::UiRequest;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// The answer to a command.
    Response(Response<'a>),
    /// The model loop begins (again).
    AgentStart,
    /// One request to the model begins.
    TurnStart,
    /// The request and its tools are over; the body is skipped.
    TurnEnd,
    /// The loop is over for now; the body is skipped. Not the end of a run (R-LIFE-04).
    AgentEnd {
        /// Pi will ask the provider again.
        will_retry: bool,
    },
    /// Pi is idle, or says so (R-LIFE-04).
    AgentSettled {
        /// The run was aborted.
        aborted: Option<bool>,
    },
    /// A message begins.
    MessageStart(Message<'a>),
    /// A piece of the assistant's message.
    MessageUpdate(MessageUpdate<'a>),
    /// A message is complete.
    MessageEnd(Message<'a>),
    /// A tool runs.
    ToolStart(ToolStart<'a>),
    /// Its output so far.
    ToolUpdate(ToolUpdate<'a>),
    /// It ended.
    ToolEnd(ToolEnd<'a>),
    /// Pi's own queue of user messages.
    QueueUpdate(QueueUpdate<'a>),
    /// A wait before another attempt begins.
    AutoRetryStart(AutoRetryStart<'a>),
    /// The attempts are over.
    AutoRetryEnd(AutoRetryEnd<'a>),
    /// An entry was written to the session.
    EntryAppended(EntryAppended<'a>),
    /// The context is being compacted.
    CompactionStart {
        /// `manual`, `threshold` or `overflow`.
        reason: Cow<'a, str>,
    },
    /// It was, or was not.
    CompactionEnd(CompactionEnd<'a>),
    /// The session has another name; `None` = none any more.
    SessionInfoChanged {
        /// The name.
        name: Option<Cow<'a, str>>,
    },
    /// Another thinking level.
    ThinkingLevelChanged {
        /// Pi's word for it.
        level: Cow<'a, str>,
    },
    /// Output of a shell command sent over RPC.
    BashExecutionUpdate {
        /// Id of the command.
        id: Cow<'a, str>,
        /// More output.
        delta: Cow<'a, str>,
    },
    /// An extension failed.
    ExtensionError(ExtensionError<'a>),
    /// An extension wants something of the screen.
    UiRequest(UiRequest<'a>),
    /// A record from the future.
    Unknown {
        /// Its type.
        kind: Cow<'a, str>,
    },
}

/// A piece of the assistant's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageUpdate<'a> {
    /// Which block of the message. Several can be open at once.
    pub index: u32,
    /// What happened to it.
    pub change: Change<'a>,
}

/// What happened to a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A text block begins.
    TextStart,
    /// More text.
    TextDelta(Cow<'a, str>),
    /// The text as a whole, if it was said.
    TextEnd(Option<Cow<'a, str>>),
    /// A reasoning block begins.
    ThinkingStart,
    /// More reasoning.
    ThinkingDelta(Cow<'a, str>),
    /// The reasoning as a whole, if it was said.
    ThinkingEnd(Option<Cow<'a, str>>),
    /// A tool call begins.
    ToolCallStart {
        /// The provider's id of the call, if known.
        id: Cow<'a, str>,
        /// Name of the tool, if known.
        name: Cow<'a, str>,
    },
    /// More argument text.
    ToolCallDelta(Cow<'a, str>),
    /// The call as a whole.
    ToolCallEnd(ToolCall<'a>),
    /// Anything else.
    Other(Cow<'a, str>),
}

/// A tool runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolStart<'a> {
    /// The call.
    pub call_id: Cow<'a, str>,
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// Arguments as JSON text.
    pub args: Cow<'a, str>,
}

/// Output of a running tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolUpdate<'a> {
    /// The call.
    #[serde(rename = "toolCallId", borrow, deserialize_with = "lenient::text")]
    pub call_id: Cow<'a, str>,
    /// Name of the tool.
    #[serde(rename = "toolName", borrow, deserialize_with = "lenient::text")]
    pub name: Cow<'a, str>,
    /// All of the output so far, or its tail: replaces what was there.
    #[serde(rename = "partialResult", borrow)]
    pub output: Gist<'a>,
}

/// A tool ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolEnd<'a> {
    /// The call.
    #[serde(rename = "toolCallId", borrow, deserialize_with = "lenient::text")]
    pub call_id: Cow<'a, str>,
    /// Name of the tool.
    #[serde(rename = "toolName", borrow, deserialize_with = "lenient::text")]
    pub name: Cow<'a, str>,
    /// What the model sees of it.
    #[serde(rename = "result", borrow)]
    pub output: Gist<'a>,
    /// It ended as an error.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub is_error: bool,
    /// How long it took.
    #[serde(deserialize_with = "lenient::opt")]
    pub duration_ms: Option<u64>,
}

/// Pi's own queue of user messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueUpdate<'a> {
    /// Texts that go out after the present tools.
    #[serde(borrow, deserialize_with = "lenient::texts")]
    pub steering: Vec<Cow<'a, str>>,
    /// Texts that go out after the present answer.
    #[serde(borrow, deserialize_with = "lenient::texts")]
    pub follow_up: Vec<Cow<'a, str>>,
}

/// A wait before another attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoRetryStart<'a> {
    /// Number of the attempt to come, from 1.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub attempt: u32,
    /// How many there will be at most.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub max_attempts: u32,
    /// Length of the wait.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub delay_ms: u64,
    /// What the provider said.
    #[serde(borrow, deserialize_with = "lenient::text")]
    pub error_message: Cow<'a, str>,
}

/// The attempts are over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoRetryEnd<'a> {
    /// The last one worked.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub success: bool,
    /// Its number.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub attempt: u32,
    /// What the provider said last.
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    pub final_error: Option<Cow<'a, str>>,
}

/// An entry was written to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryAppended<'a> {
    /// Sort of the entry (`custom_message`, `context_edit`, …).
    pub kind: Cow<'a, str>,
    /// Its id.
    pub id: Cow<'a, str>,
    /// The extension's type name, for `custom` and `custom_message`.
    pub custom_type: Cow<'a, str>,
    /// Text of a `custom_message`.
    pub content: Gist<'a>,
    /// Whether a `custom_message` wants to be shown.
    pub display: bool,
}

/// A compaction ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionEnd<'a> {
    /// `manual`, `threshold` or `overflow`.
    pub reason: Cow<'a, str>,
    /// It was aborted.
    pub aborted: bool,
    /// The request that overflowed will be made again.
    pub will_retry: bool,
    /// Why there is no result.
    pub error: Option<Cow<'a, str>>,
    /// Tokens before and estimated tokens after, when it worked.
    pub tokens: Option<(u64, u64)>,
    /// Tokens and money of the summary requests.
    pub usage: Usage,
}

/// An extension failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionError<'a> {
    /// File, `command:NAME`, `<runtime>` or `<boundary>`.
    #[serde(rename = "extensionPath", borrow, deserialize_with = "lenient::text")]
    pub path: Cow<'a, str>,
    /// In which handler.
    #[serde(borrow, deserialize_with = "lenient::text")]
    pub event: Cow<'a, str>,
    /// What was thrown.
    #[serde(borrow, deserialize_with = "lenient::text")]
    pub error: Cow<'a, str>,
}
