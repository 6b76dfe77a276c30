//! From a line to a record: the dispatch by `type` and the flat shapes behind it.
//!
//! An internally tagged enum would buffer every line, so the type is read first, from where Pi
//! writes it, and the rest as what the type says. Skipped parts are never descended into: deep
//! nesting in them costs nothing (R-Q-01).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::event::{Change, CompactionEnd, EntryAppended, MessageUpdate, Record, ToolStart};
use super::framing::Frame;
use super::lenient;
use super::message::{Gist, Message, ToolCall, Usage, raw_text};
use super::repair;

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
