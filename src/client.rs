//! `FleetClient`: the one way in which a screen or a shell talks to a core. The supervisor
//! implements it in process, `control::client` over the socket; nothing else differs.

pub mod host;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::fleet::agent::{Thinking, ToolChoice};
pub use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::ids::AgentId;
use crate::fleet::roster::{DialogAnswer, FleetDelta, FleetSnapshot};
use crate::fleet::transcript::TranscriptPatch;

/// One environment variable. Values are bytes: not every variable is UTF-8 (design §2).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Name.
    pub name: EnvText,
    /// Value.
    pub value: EnvText,
}

/// Text that may not be UTF-8: a JSON string, or an object with the bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnvText {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
    },
}

impl fmt::Debug for EnvVar {
    /// Values are never printed: environments hold secrets (R-OPS-05).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            EnvText::Text(name) => write!(f, "{name}=…"),
            EnvText::Bytes { .. } => write!(f, "(not UTF-8)=…"),
        }
    }
}

/// The environment of whoever asked (R-LIFE-18). Lives in memory only.
pub type Env = Vec<EnvVar>;

/// How a request names an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AgentRef {
    /// By identity.
    Id(AgentId),
    /// By short name, one leading `@` allowed.
    Name(String),
}

/// Starts an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// The task.
    pub prompt: String,
    /// One-line title; `None` = made from the task.
    #[serde(default)]
    pub label: Option<String>,
    /// Model; `None` = Pi's default.
    #[serde(default)]
    pub model: Option<String>,
    /// Thinking level; `None` = Pi's default.
    #[serde(default)]
    pub thinking: Option<Thinking>,
    /// Tools.
    #[serde(default)]
    pub tools: ToolChoice,
    /// Folder; relative to the core's folder; `None` = the core's folder.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub cwd: Option<PathBuf>,
    /// Stay idle when done; `None` = yes (R-LIFE-06).
    #[serde(default)]
    pub persistent: Option<bool>,
    /// Bound on every run in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Environment of the child.
    #[serde(default)]
    pub env: Env,
}

/// What a client can ask of a core.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Start an agent. Answered when the child accepted the task, or with why not (R-TOOL-01).
    Spawn(SpawnRequest),
    /// Message an agent: steers a run, starts one, or revives the agent (R-LIFE-10). To an agent of
    /// a Pi session it is a side chat: its answer stays in the child's session (R-DELIV-07).
    /// Answered when the child accepted it.
    Send {
        /// To whom.
        agent: AgentRef,
        /// The text.
        text: String,
        /// Environment, should the agent have to be revived.
        env: Env,
    },
    /// Message an agent and hand the answer of its run to its host, a Pi session or an agent
    /// (R-DELIV-14). To an agent of the person it is a plain message. Answered like [`Request::Send`].
    Continue {
        /// Whom.
        agent: AgentRef,
        /// The text; `None` = [`CONTINUE`](crate::fleet::host::CONTINUE).
        text: Option<String>,
        /// Environment, should the agent have to be revived.
        env: Env,
    },
    /// Stop an agent and its process. Answered when the process is proven gone.
    Stop {
        /// Whom.
        agent: AgentRef,
    },
    /// Abort the present run, keep the agent (R-LIFE-15).
    Abort {
        /// Whose run.
        agent: AgentRef,
    },
    /// Answer an open dialog.
    Answer {
        /// Whose dialog.
        agent: AgentRef,
        /// Pi's id of the dialog.
        dialog: String,
        /// The answer.
        answer: DialogAnswer,
    },
    /// What led to the state an agent shows.
    Explain {
        /// Whose.
        agent: AgentRef,
    },
    /// Which transcripts this client wants patches of (replaces the earlier set).
    Watch {
        /// The agents.
        agents: Vec<AgentId>,
    },
    /// Ask for a fresh snapshot and whole transcripts (after a gap). Wakes whoever waits in
    /// `updates`, also when nothing changed since.
    Resync,
    /// The whole fleet, once.
    Snapshot,
    /// Stop every agent and end the core. Answered when all processes are proven gone.
    Shutdown,
}

/// News from a core, coalesced: at most one batch per 16 ms, never a queue behind a slow client.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The fleet as it is: replaces everything known.
    Snapshot(Box<FleetSnapshot>),
    /// What changed in it.
    Delta(FleetDelta),
    /// What changed in a watched transcript.
    Transcript {
        /// Whose.
        agent: AgentId,
        /// The change.
        patch: TranscriptPatch,
    },
}

/// A boxed future, so that the trait can be used as an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One client's session with a core.
pub trait FleetClient: Send + Sync {
    /// Asks something. Requests run concurrently; dropping the future withdraws nothing.
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Reply, RequestError>>;

    /// Waits for news. The first batch begins with a snapshot. `None` = the core is gone.
    /// Only one caller at a time; dropping the future loses nothing.
    fn updates(&self) -> BoxFuture<'_, Option<Vec<Update>>>;
}
