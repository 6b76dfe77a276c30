//! What a parent is told: the final reply of a run it is owed, and a question that does not block.
//! Data and its exact text; who is told when is decided by [`super::outbox`].

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

use super::ids::{InstanceId, MessageId};

/// Identity of the completion of one run: the process it ran in and the number of the run in that process
/// (R-DELIV-01). As text `UUID:run`. Duplicates are recognised by it alone, never by what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompletionId {
    /// The process.
    pub instance: InstanceId,
    /// Number of the run in that process.
    pub run: u64,
}

impl fmt::Display for CompletionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.run)
    }
}

/// A text that is no id of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a delivery: UUID:number of a completion, UUID of a question")]
pub struct IdError;

/// One spelling per id, the one we write: ids come back from session files, where anything may stand.
fn uuid(text: &str) -> Result<Uuid, IdError> {
    let id = Uuid::try_parse(text).map_err(|_| IdError)?;
    let canonical = id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text;
    if canonical { Ok(id) } else { Err(IdError) }
}

impl FromStr for CompletionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (instance, run) = text.split_once(':').ok_or(IdError)?;
        let number: u64 = run.parse().map_err(|_| IdError)?;
        if number.to_string() != run {
            return Err(IdError);
        }
        Ok(Self {
            instance: InstanceId(uuid(instance)?),
            run: number,
        })
    }
}

/// What can be delivered, by identity. As text the completion's id, or the bare UUID of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryId {
    /// A final reply.
    Completion(CompletionId),
    /// A question.
    Question(MessageId),
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completion(id) => id.fmt(f),
            Self::Question(id) => id.fmt(f),
        }
    }
}

impl FromStr for DeliveryId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.contains(':') {
            text.parse().map(Self::Completion)
        } else {
            uuid(text).map(MessageId).map(Self::Question)
        }
    }
}

impl From<CompletionId> for DeliveryId {
    fn from(id: CompletionId) -> Self {
        Self::Completion(id)
    }
}

impl From<MessageId> for DeliveryId {
    fn from(id: MessageId) -> Self {
        Self::Question(id)
    }
}

macro_rules! serde_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?
                    .parse()
                    .map_err(de::Error::custom)
            }
        }
    };
}

serde_as_text!(CompletionId);
serde_as_text!(DeliveryId);

/// How a run ended, in the words the parent's model reads (R-DELIV-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// The model ended its answer, or reached its length.
    Completed,
    /// An error of the provider, a crash, a lost supervisor.
    Failed,
    /// A limit, an abort, or a stop the parent did not ask for.
    Stopped,
}

impl CompletionStatus {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// The final reply of one run, frozen when the run settled. Nothing changes it afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Identity.
    pub id: CompletionId,
    /// Bare name of the agent (`max`).
    pub agent: String,
    /// How the run ended.
    pub status: CompletionStatus,
    /// Text of the run's last answer, capped by whoever froze it (R-TOOL-09). A run that did not complete: the
    /// cause in one line, then what text there was, or `(no output)`.
    pub result: String,
    /// Saved session.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub session_path: Option<PathBuf>,
    /// The agent stays and can be messaged.
    #[serde(default)]
    pub idle: bool,
}

/// A question of an agent that goes on working meanwhile (R-DELIV-10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Identity of the message.
    pub id: MessageId,
    /// Bare name of the agent.
    pub agent: String,
    /// What it asks.
    pub question: String,
}

/// Something for the parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delivery {
    /// A run the parent is owed is over.
    FinalReply(Completion),
    /// An agent asks.
    Question(Question),
}

/// What the parent's model reads. The order of fields is part of the contract.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Content<'a> {
    FinalReply {
        completion_id: CompletionId,
        status: CompletionStatus,
        agent_id: &'a str,
        result: &'a str,
        session_path: Option<std::borrow::Cow<'a, str>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        idle: bool,
    },
    NonBlockingQuestion {
        agent_id: &'a str,
        question: &'a str,
    },
}

impl Delivery {
    /// Identity.
    #[must_use]
    pub fn id(&self) -> DeliveryId {
        match self {
            Self::FinalReply(completion) => completion.id.into(),
            Self::Question(question) => question.id.into(),
        }
    }

    /// Bare name of the agent it is from.
    #[must_use]
    pub fn agent(&self) -> &str {
        match self {
            Self::FinalReply(completion) => &completion.agent,
            Self::Question(question) => &question.agent,
        }
    }

    /// The text the parent's model reads, one JSON object in one line (R-DELIV-01, R-DELIV-10):
    /// `{kind:"final_reply", completion_id, status, agent_id, result, session_path, idle?}` or
    /// `{kind:"non_blocking_question", agent_id, question}`. `idle` is there only when true; a path that is not
    /// UTF-8 is shown with replacement characters; no saved session is `null`.
    #[must_use]
    pub fn content(&self) -> String {
        let content = match self {
            Self::FinalReply(completion) => Content::FinalReply {
                completion_id: completion.id,
                status: completion.status,
                agent_id: &completion.agent,
                result: &completion.result,
                session_path: completion
                    .session_path
                    .as_deref()
                    .map(std::path::Path::to_string_lossy),
                idle: completion.idle,
            },
            Self::Question(question) => Content::NonBlockingQuestion {
                agent_id: &question.agent,
                question: &question.question,
            },
        };
        // Strings and numbers alone: nothing here can fail.
        serde_json::to_string(&content).unwrap_or_default()
    }
}

impl From<Completion> for Delivery {
    fn from(completion: Completion) -> Self {
        Self::FinalReply(completion)
    }
}

impl From<Question> for Delivery {
    fn from(question: Question) -> Self {
        Self::Question(question)
    }
}
