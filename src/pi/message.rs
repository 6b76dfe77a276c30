//! Messages of a conversation as Pi writes them into `message_start` and `message_end`.
//!
//! Owns roles, content blocks, usage and stop reasons. A prompt or a tool result is reduced to its
//! text on the way in; only an assistant message keeps its blocks.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lenient;
use super::session::{MessageKey, Role};

/// Tokens and money of one model request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were not cached.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub input: u64,
    /// Generated tokens.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub cache_write: u64,
    /// Everything together, as the provider or Pi says.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub total_tokens: u64,
    /// Money.
    pub cost: Cost,
}

impl Usage {
    /// Tokens in the context after this request.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        let sum = self
            .input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write);
        self.total_tokens.max(sum)
    }

    /// True when the provider said nothing (errors, aborts, updates before the usage chunk).
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.context_tokens() == 0 && self.cost.total == 0.0
    }
}

/// US dollars as Pi computes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Sum of all parts.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub total: f64,
}

/// Why an assistant message ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// It called tools.
    ToolUse,
    /// The provider failed.
    Error,
    /// The request was aborted.
    Aborted,
    /// It has not ended yet.
    Pending,
    /// Nothing was said about it.
    #[default]
    Unknown,
    /// A word from the future.
    Other(String),
}

impl StopReason {
    /// Reads Pi's word.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        match word {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "toolUse" => Self::ToolUse,
            "error" => Self::Error,
            "aborted" => Self::Aborted,
            "pending" => Self::Pending,
            "" => Self::Unknown,
            other => Self::Other(other.chars().take(80).collect()),
        }
    }
}

/// True for the texts with which an abort inside a tool is reported as an `error`
/// (R-DELIV-15, `pi-compat` F2).
#[must_use]
pub fn says_aborted(error: &str) -> bool {
    error.contains("operation was aborted")
        || error.contains("Request was aborted")
        || error.trim_end_matches('.') == "Request aborted"
}

/// Any content reduced to its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gist<'a> {
    /// All text blocks, one behind the other.
    pub text: Cow<'a, str>,
    /// How many images there were.
    pub images: u32,
}

impl<'a> Gist<'a> {
    fn add(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else if !text.is_empty() {
            self.text.to_mut().push_str(&text);
        }
    }
}

/// Reads a string, a list of blocks, or an object with `content` (a tool's result).
impl<'de: 'a, 'a> Deserialize<'de> for Gist<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        /// `inner`: what lies in an object's `content`, where another object means nothing.
        struct Reader {
            inner: bool,
        }
        impl<'de> Visitor<'de> for Reader {
            type Value = Gist<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("content")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Gist {
                    text: Cow::Borrowed(v),
                    images: 0,
                })
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Gist {
                    text: Cow::Owned(v.to_owned()),
                    images: 0,
                })
            }
            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Gist::default())
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Gist::default())
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Gist::default())
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Gist::default())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Gist::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut gist = Gist::default();
                while let Some(block) = seq.next_element::<FlatBlock<'de>>()? {
                    match &*block.kind {
                        "text" => gist.add(block.text.unwrap_or_default()),
                        "image" => gist.images = gist.images.saturating_add(1),
                        _ => {}
                    }
                }
                Ok(gist)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut gist = Gist::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Content if !self.inner => gist = map.next_value::<Content>()?.0,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(gist)
            }
        }

        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Key {
            Content,
            #[serde(other)]
            Other,
        }

        struct Content<'a>(Gist<'a>);
        impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                input.deserialize_any(Reader { inner: true }).map(Self)
            }
        }

        input.deserialize_any(Reader { inner: false })
    }
}

/// One block of content, every sort in one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatBlock<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient::text")]
    kind: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall<'a> {
    /// The provider's id of the call.
    pub id: Cow<'a, str>,
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// Arguments as JSON text; empty = not said.
    pub args: Cow<'a, str>,
}

/// One block of an assistant message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// Answer text.
    Text(Cow<'a, str>),
    /// Reasoning.
    Thinking(Cow<'a, str>),
    /// A tool call.
    ToolCall(ToolCall<'a>),
    /// A sort from the future.
    Other(Cow<'a, str>),
}

impl<'a> From<FlatBlock<'a>> for Block<'a> {
    fn from(flat: FlatBlock<'a>) -> Self {
        match &*flat.kind {
            "text" => Self::Text(flat.text.unwrap_or_default()),
            "thinking" => Self::Thinking(flat.thinking.unwrap_or_default()),
            "toolCall" => Self::ToolCall(flat.into()),
            _ => Self::Other(flat.kind),
        }
    }
}

impl<'a> From<FlatBlock<'a>> for ToolCall<'a> {
    fn from(flat: FlatBlock<'a>) -> Self {
        Self {
            id: flat.id,
            name: flat.name,
            args: raw_text(flat.arguments),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ToolCall<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        FlatBlock::deserialize(input).map(Self::from)
    }
}

/// The text of a raw value, empty when there is none.
pub(super) fn raw_text<'a>(raw: Option<&'a RawValue>) -> Cow<'a, str> {
    Cow::Borrowed(raw.map_or("", RawValue::get))
}

/// A message of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assistant<'a> {
    /// Its blocks; empty in a `message_start`.
    pub blocks: Vec<Block<'a>>,
    /// Provider of the model.
    pub provider: Cow<'a, str>,
    /// Id of the model.
    pub model: Cow<'a, str>,
    /// Tokens and money of the request.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
    /// What the provider or the abort said.
    pub error: Option<Cow<'a, str>>,
    /// Pi's time of the message, Unix milliseconds.
    pub timestamp: i64,
    /// False when the message was too long to keep and `blocks` is therefore empty (R-Q-01).
    pub whole: bool,
}

impl Assistant<'_> {
    /// Its text only, no thinking (R-TOOL-13).
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            if let Block::Text(part) = block {
                text.push_str(part);
            }
        }
        text
    }

    /// True when it ended by an abort, however Pi reports it (`pi-compat` F2).
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.stop == StopReason::Aborted
            || (self.stop == StopReason::Error && self.error.as_deref().is_some_and(says_aborted))
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message<'a> {
    /// A prompt.
    User {
        /// What the model is told.
        content: Gist<'a>,
        /// Pi's time of the message, Unix milliseconds.
        timestamp: i64,
    },
    /// An answer of the model.
    Assistant(Assistant<'a>),
    /// What a tool gave; its content came with `tool_execution_end` already and is skipped.
    ToolResult {
        /// The call.
        call_id: Cow<'a, str>,
        /// Name of the tool.
        name: Cow<'a, str>,
        /// It is an error.
        is_error: bool,
        /// Pi's time of the message, Unix milliseconds.
        timestamp: i64,
    },
    /// The system prompt or a change of tools; its text is skipped.
    System {
        /// Names of the tools the model can use from here on.
        tools_added: Vec<Cow<'a, str>>,
    },
    /// A message that an extension put into the conversation.
    Custom {
        /// The extension's type name.
        custom_type: Cow<'a, str>,
        /// Its text.
        content: Gist<'a>,
        /// Whether it wants to be shown.
        display: bool,
    },
    /// A shell command a person ran in the conversation.
    BashExecution {
        /// The command.
        command: Cow<'a, str>,
        /// Its output.
        output: Cow<'a, str>,
    },
    /// A role from the future.
    Other {
        /// The role.
        role: Cow<'a, str>,
    },
}

impl Message<'_> {
    /// What the session file knows it by, for the roles that are looked for there. The time is 0 when
    /// it is not known (the message was too long to keep).
    #[must_use]
    pub fn key(&self) -> Option<MessageKey> {
        let (role, at_ms) = match self {
            Self::User { timestamp, .. } => (Role::User, *timestamp),
            Self::Assistant(assistant) => (Role::Assistant, assistant.timestamp),
            Self::ToolResult { timestamp, .. } => (Role::ToolResult, *timestamp),
            _ => return None,
        };
        Some(MessageKey { role, at_ms })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatMessage<'a> {
    #[serde(borrow, deserialize_with = "lenient::text")]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    provider: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    model: Cow<'a, str>,
    usage: Option<Usage>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    stop_reason: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    error_message: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "lenient::or_zero")]
    timestamp: i64,
    #[serde(borrow, deserialize_with = "lenient::text")]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    tool_name: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::or_zero")]
    is_error: bool,
    #[serde(borrow, deserialize_with = "lenient::text")]
    custom_type: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::opt")]
    display: Option<bool>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    command: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    output: Cow<'a, str>,
    #[serde(borrow)]
    tools_added: Vec<FlatTool<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlatTool<'a> {
    #[serde(borrow, deserialize_with = "lenient::text")]
    name: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let flat = FlatMessage::deserialize(input)?;
        let gist = |raw: Option<&'a RawValue>| match raw {
            Some(raw) => serde_json::from_str(raw.get()).map_err(serde::de::Error::custom),
            None => Ok(Gist::default()),
        };
        Ok(match &*flat.role {
            "user" => Self::User {
                content: gist(flat.content)?,
                timestamp: flat.timestamp,
            },
            "assistant" => Self::Assistant(Assistant {
                blocks: blocks(flat.content).map_err(serde::de::Error::custom)?,
                provider: flat.provider,
                model: flat.model,
                usage: flat.usage.unwrap_or_default(),
                stop: StopReason::parse(&flat.stop_reason),
                error: flat.error_message,
                timestamp: flat.timestamp,
                whole: true,
            }),
            "toolResult" => Self::ToolResult {
                call_id: flat.tool_call_id,
                name: flat.tool_name,
                is_error: flat.is_error,
                timestamp: flat.timestamp,
            },
            "system" => Self::System {
                tools_added: flat.tools_added.into_iter().map(|t| t.name).collect(),
            },
            "custom" => Self::Custom {
                custom_type: flat.custom_type,
                content: gist(flat.content)?,
                display: flat.display.unwrap_or(true),
            },
            "bashExecution" => Self::BashExecution {
                command: flat.command,
                output: flat.output,
            },
            _ => Self::Other { role: flat.role },
        })
    }
}

fn blocks<'a>(raw: Option<&'a RawValue>) -> serde_json::Result<Vec<Block<'a>>> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    if raw.get().starts_with('[') {
        let flat: Vec<FlatBlock<'a>> = serde_json::from_str(raw.get())?;
        return Ok(flat.into_iter().map(Block::from).collect());
    }
    let gist: Gist<'a> = serde_json::from_str(raw.get())?;
    Ok(if gist.text.is_empty() {
        Vec::new()
    } else {
        vec![Block::Text(gist.text)]
    })
}
