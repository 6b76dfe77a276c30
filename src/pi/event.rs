//! Records of a child's stdout: every family Pi writes, typed, borrowed from the line.
//!
//! Owns the dispatch by `type` and the shapes of events. What a message looks like is `message`,
//! answers to commands are `response`, dialogs are `ui_request`. No line becomes a
//! `serde_json::Value`, and bodies that only repeat what was said (`agent_end`, `turn_end`, the
//! usage in updates) are skipped.
//!
//! Invariant: a record from the future is `Unknown`, a broken line an error; neither ends anything
//! (R-Q-01).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::framing::Frame;
use super::lenient;
use super::message::{Gist, Message, ToolCall, Usage, raw_text};
use super::repair;
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatUpdate<'a> {
    #[serde(borrow)]
    assistant_message_event: FlatChange<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatChange<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient::text")]
    kind: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::or_zero")]
    content_index: u32,
    #[serde(borrow, deserialize_with = "lenient::text")]
    delta: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    tool_call: Option<ToolCall<'a>>,
}

impl<'a> From<FlatUpdate<'a>> for MessageUpdate<'a> {
    fn from(flat: FlatUpdate<'a>) -> Self {
        let flat = flat.assistant_message_event;
        let change = match &*flat.kind {
            "text_delta" => Change::TextDelta(flat.delta),
            "thinking_delta" => Change::ThinkingDelta(flat.delta),
            "toolcall_delta" => Change::ToolCallDelta(flat.delta),
            "text_start" => Change::TextStart,
            "text_end" => Change::TextEnd(flat.content),
            "thinking_start" => Change::ThinkingStart,
            "thinking_end" => Change::ThinkingEnd(flat.content),
            "toolcall_start" => Change::ToolCallStart {
                id: flat.id,
                name: flat.tool_name,
            },
            "toolcall_end" => Change::ToolCallEnd(flat.tool_call.unwrap_or_default()),
            _ => Change::Other(flat.kind),
        };
        Self {
            index: flat.content_index,
            change,
        }
    }
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

/// The small fields of all other records in one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Flat<'a> {
    #[serde(deserialize_with = "lenient::or_zero")]
    will_retry: bool,
    #[serde(deserialize_with = "lenient::opt")]
    aborted: Option<bool>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    reason: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    error_message: Option<Cow<'a, str>>,
    result: Option<FlatCompaction>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    level: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    delta: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatCompaction {
    #[serde(deserialize_with = "lenient::or_zero")]
    tokens_before: u64,
    #[serde(deserialize_with = "lenient::or_zero")]
    estimated_tokens_after: u64,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct WithMessage<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct WithEntry<'a> {
    #[serde(borrow)]
    entry: FlatEntry<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatEntry<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient::text")]
    kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    custom_type: Cow<'a, str>,
    #[serde(borrow)]
    content: Gist<'a>,
    #[serde(deserialize_with = "lenient::opt")]
    display: Option<bool>,
}

/// Why a line is not a record. Texts are short and hold no control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing but white space.
    #[error("a blank line")]
    Blank,
    /// Not JSON at all.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON, but no object (`null`, `42`, a list).
    #[error("not a record: {0}")]
    NotObject(String),
    /// An object without a `type`.
    #[error("a record without a type: {0}")]
    NoType(String),
    /// A known type whose fields do not fit.
    #[error("{kind}: {error}")]
    Shape {
        /// The type.
        kind: String,
        /// What does not fit.
        error: String,
    },
    /// Longer than the limit, and nothing of use could be saved.
    #[error("{kind} of {bytes} bytes is too long")]
    TooLong {
        /// The type, if it could be told.
        kind: String,
        /// Length of the line.
        bytes: u64,
    },
}

/// Reads records. Keeps only a buffer for lines that had to be repaired.
#[derive(Debug, Default)]
pub struct Parser {
    spare: String,
}

impl Parser {
    /// A reader.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a frame. Of a line that was too long the few fields that decide over a run are saved.
    ///
    /// # Errors
    /// When the frame holds no record; the stream goes on all the same.
    pub fn read<'a>(&'a mut self, frame: Frame<'a>) -> Result<Record<'a>, ParseError> {
        match frame {
            Frame::Line(line) => self.parse(line),
            Frame::Oversize { bytes, head, tail } => {
                let head = String::from_utf8_lossy(head);
                let tail = String::from_utf8_lossy(tail);
                let kind = peek_type(&head).unwrap_or_default();
                repair::salvage(kind, &head, &tail).ok_or_else(|| ParseError::TooLong {
                    kind: excerpt(kind),
                    bytes,
                })
            }
        }
    }

    /// Reads one line. Invalid UTF-8 and lone surrogates are replaced by U+FFFD.
    ///
    /// # Errors
    /// When the line holds no record; the stream goes on all the same.
    pub fn parse<'a>(&'a mut self, line: &'a [u8]) -> Result<Record<'a>, ParseError> {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(_) => {
                self.spare = String::from_utf8_lossy(line).into_owned();
                if let Some(repaired) = repair::surrogates(&self.spare) {
                    self.spare = repaired;
                }
                return parse_text(&self.spare);
            }
        };
        if repair::may_hold_surrogates(text)
            && let Some(repaired) = repair::surrogates(text)
        {
            self.spare = repaired;
            return parse_text(&self.spare);
        }
        parse_text(text)
    }
}

/// The record type at the very beginning of a line, where Pi writes it.
fn peek_type(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(r#"{"type":""#)?;
    let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
    (rest.as_bytes().get(end) == Some(&b'"')).then(|| rest.get(..end))?
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient::opt_text")]
    kind: Option<Cow<'a, str>>,
}

fn parse_text(text: &str) -> Result<Record<'_>, ParseError> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(ParseError::Blank);
    }
    if let Some(kind) = peek_type(text) {
        return record(kind, text);
    }
    if !text.starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => ParseError::NotObject(excerpt(text)),
            Err(_) => ParseError::NotJson(excerpt(text)),
        });
    }
    match serde_json::from_str::<Head>(text) {
        Ok(Head { kind: Some(kind) }) => record(&kind, text),
        Ok(Head { kind: None }) => Err(ParseError::NoType(excerpt(text))),
        Err(_) => Err(ParseError::NotJson(excerpt(text))),
    }
}

/// Reads the record as the type it says it is.
fn record<'a>(kind: &str, text: &'a str) -> Result<Record<'a>, ParseError> {
    fn read<'a, T: Deserialize<'a>>(kind: &str, text: &'a str) -> Result<T, ParseError> {
        serde_json::from_str(text).map_err(|error| ParseError::Shape {
            kind: excerpt(kind),
            error: excerpt(&error.to_string()),
        })
    }
    let flat = |text: &'a str| read::<Flat<'a>>(kind, text);
    Ok(match kind {
        "message_update" => Record::MessageUpdate(read::<FlatUpdate>(kind, text)?.into()),
        "tool_execution_update" => Record::ToolUpdate(read(kind, text)?),
        "tool_execution_start" => {
            let flat = flat(text)?;
            Record::ToolStart(ToolStart {
                call_id: flat.tool_call_id,
                name: flat.tool_name,
                args: raw_text(flat.args),
            })
        }
        "tool_execution_end" => Record::ToolEnd(read(kind, text)?),
        "message_start" => Record::MessageStart(read::<WithMessage>(kind, text)?.message),
        "message_end" => Record::MessageEnd(read::<WithMessage>(kind, text)?.message),
        "agent_start" => read::<IgnoredAny>(kind, text).map(|_| Record::AgentStart)?,
        "turn_start" => read::<IgnoredAny>(kind, text).map(|_| Record::TurnStart)?,
        "turn_end" => read::<IgnoredAny>(kind, text).map(|_| Record::TurnEnd)?,
        "agent_end" => Record::AgentEnd {
            will_retry: flat(text)?.will_retry,
        },
        "agent_settled" => Record::AgentSettled {
            aborted: flat(text)?.aborted,
        },
        "response" => Record::Response(read(kind, text)?),
        "queue_update" => Record::QueueUpdate(read(kind, text)?),
        "auto_retry_start" => Record::AutoRetryStart(read(kind, text)?),
        "auto_retry_end" => Record::AutoRetryEnd(read(kind, text)?),
        "entry_appended" => {
            let entry = read::<WithEntry>(kind, text)?.entry;
            Record::EntryAppended(EntryAppended {
                kind: entry.kind,
                id: entry.id,
                custom_type: entry.custom_type,
                content: entry.content,
                display: entry.display.unwrap_or(true),
            })
        }
        "compaction_start" => Record::CompactionStart {
            reason: flat(text)?.reason,
        },
        "compaction_end" => {
            let flat = flat(text)?;
            Record::CompactionEnd(CompactionEnd {
                reason: flat.reason,
                aborted: flat.aborted.unwrap_or_default(),
                will_retry: flat.will_retry,
                error: flat.error_message,
                tokens: flat
                    .result
                    .as_ref()
                    .map(|r| (r.tokens_before, r.estimated_tokens_after)),
                usage: flat.result.and_then(|r| r.usage).unwrap_or_default(),
            })
        }
        "session_info_changed" => Record::SessionInfoChanged {
            name: flat(text)?.name,
        },
        "thinking_level_changed" => Record::ThinkingLevelChanged {
            level: flat(text)?.level,
        },
        "bash_execution_update" => {
            let flat = flat(text)?;
            Record::BashExecutionUpdate {
                id: flat.id,
                delta: flat.delta,
            }
        }
        "extension_error" => Record::ExtensionError(read(kind, text)?),
        "extension_ui_request" => Record::UiRequest(read(kind, text)?),
        other => {
            read::<IgnoredAny>(kind, text)?;
            Record::Unknown {
                kind: Cow::Owned(excerpt(other)),
            }
        }
    })
}

/// The beginning of outside text for a log line: short, on one line.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 120;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut out: String = text.chars().take(LONGEST).map(clean).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}
