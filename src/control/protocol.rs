//! The methods: what `client` and `fleet` types look like on the wire, in both directions.
//!
//! Version 1. Fields are only ever added; unknown ones are ignored; an unknown method is an error
//! of its own sort. `docs/control-protocol.md` is made from [`METHODS`] and the golden files.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bridge::{HostFacts, HostWelcome};
use super::rpc::{self, RpcError};
use crate::client::{AgentRef, Env, ErrorCode, Reply, Request, RequestError, SpawnRequest, Update};
use crate::fleet::ids::AgentId;
use crate::fleet::roster::{CoreView, DialogAnswer, FleetDelta, FleetSnapshot};
use crate::fleet::transcript::TranscriptPatch;

/// The oldest version this program speaks.
pub const OLDEST_VERSION: u32 = 1;
/// The newest version this program speaks.
pub const NEWEST_VERSION: u32 = 1;

/// Names of methods and notices.
pub mod method {
    /// First call of every connection.
    pub const INITIALIZE: &str = "initialize";
    /// Begin to send news.
    pub const SUBSCRIBE: &str = "fleet/subscribe";
    /// Begin again with a snapshot.
    pub const RESYNC: &str = "fleet/resync";
    /// The fleet: as a call once, as a notice whenever everything known is replaced.
    pub const SNAPSHOT: &str = "fleet/snapshot";
    /// Notice: what changed in the fleet.
    pub const DELTA: &str = "fleet/delta";
    /// Start an agent.
    pub const SPAWN: &str = "agent/spawn";
    /// Message an agent.
    pub const PROMPT: &str = "agent/prompt";
    /// Message an agent and hand the answer to its host.
    pub const CONTINUE: &str = "agent/continue";
    /// Stop an agent.
    pub const STOP: &str = "agent/stop";
    /// Abort a run.
    pub const ABORT: &str = "agent/abort";
    /// Answer a dialog.
    pub const ANSWER: &str = "agent/answer";
    /// What led to the state an agent shows.
    pub const EXPLAIN: &str = "agent/explain";
    /// Choose transcripts.
    pub const WATCH: &str = "agent/watch";
    /// Notice: what changed in a transcript.
    pub const TRANSCRIPT: &str = "agent/transcript";
    /// End the core.
    pub const SHUTDOWN: &str = "core/shutdown";
    /// Notice: the core closes the connection, and why.
    pub const CLOSING: &str = "core/closing";
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to core, answered.
    Call,
    /// Core to client, not answered.
    Notice,
    /// Client to core, not answered.
    ClientNotice,
    /// Core to client, answered.
    CoreCall,
}

/// One line of the protocol's reference. Its example is the golden file `NAME.json` (and
/// `NAME.reply.json`), where `NAME` is the method with `-` for `/`.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Name on the wire.
    pub name: &'static str,
    /// Which way.
    pub direction: Direction,
    /// What it does.
    pub doc: &'static str,
}

/// Every method and notice of version 1.
pub const METHODS: &[Method] = &[
    Method {
        name: method::INITIALIZE,
        direction: Direction::Call,
        doc: "Must be the first message. `role` is `viewer`, `cli` or `bridge`; `versions` is the oldest and the newest version the client speaks. The answer names the version that holds from here on and describes the core.",
    },
    Method {
        name: method::SUBSCRIBE,
        direction: Direction::Call,
        doc: "Begins to send news: one `fleet/snapshot`, then `fleet/delta` and, for watched agents, `agent/transcript`. A slow client gets fewer and larger changes, never a queue of old ones.",
    },
    Method {
        name: method::RESYNC,
        direction: Direction::Call,
        doc: "After a change that did not fit: the next news are a `fleet/snapshot` and whole transcripts.",
    },
    Method {
        name: method::SNAPSHOT,
        direction: Direction::Call,
        doc: "The whole fleet, once, as the answer.",
    },
    Method {
        name: method::SPAWN,
        direction: Direction::Call,
        doc: "Starts an agent. Answered when the child accepted the task, or with why it did not. Only `prompt` is required. `env` is the child's environment; names and values that are not UTF-8 are written `{\"bytes\": […]}`, and so are paths.",
    },
    Method {
        name: method::PROMPT,
        direction: Direction::Call,
        doc: "Messages an agent: steers its run, starts one, or revives the agent. `agent` is an id or a name; prefer the id, names belong to one host only. Messages of one connection arrive in the order they were sent. To an agent of a Pi session it is a side chat: the answer stays in the agent's session; during a run that the Pi session is owed, the message joins that run, and the result is the Pi session's. A message that begins with the slash of a command the agent does not have is refused.",
    },
    Method {
        name: method::CONTINUE,
        direction: Direction::Call,
        doc: "Messages an agent like `agent/prompt`, and the answer of the run goes to the Pi session or the agent it works for, once. Without `text` the agent is told to go on with its task. To an agent of the person it is a plain message.",
    },
    Method {
        name: method::STOP,
        direction: Direction::Call,
        doc: "Stops an agent. Answered when its processes are proven gone.",
    },
    Method {
        name: method::ABORT,
        direction: Direction::Call,
        doc: "Aborts the present run and keeps the agent. The answer gives back messages the model had not seen.",
    },
    Method {
        name: method::ANSWER,
        direction: Direction::Call,
        doc: "Answers an open dialog: `value` for a choice or a text, `confirmed` for yes or no, or `cancelled`.",
    },
    Method {
        name: method::EXPLAIN,
        direction: Direction::Call,
        doc: "What led to the state an agent shows: its inputs, newest first, with what was done about each and what that changed. Bounded; what was dropped is counted in `left_out`. Nothing before `known_since_ms` is known but `recorded`. `docs/json.md` explains the fields. A kind that is not known is to be read as `unknown`.",
    },
    Method {
        name: method::WATCH,
        direction: Direction::Call,
        doc: "Which transcripts this connection gets changes of. Replaces the earlier set.",
    },
    Method {
        name: method::SHUTDOWN,
        direction: Direction::Call,
        doc: "Stops every agent and ends the core. Answered when all processes are proven gone.",
    },
    Method {
        name: method::SNAPSHOT,
        direction: Direction::Notice,
        doc: "Replaces everything the client knows of the fleet.",
    },
    Method {
        name: method::DELTA,
        direction: Direction::Notice,
        doc: "Leads from change number `since` to `rev`. When `since` is not the last number seen, something is missing: call `fleet/resync`. `since` and `rev` may be equal; then it completes what came before.",
    },
    Method {
        name: method::TRANSCRIPT,
        direction: Direction::Notice,
        doc: "Leads one transcript from revision `since` to `rev`; `reset` means: drop all entries first. Entries before `first_seq` are only in the session file. `append` adds text at byte `from` of an entry's text.",
    },
    Method {
        name: method::CLOSING,
        direction: Direction::Notice,
        doc: "The last message of a connection that the core ends by itself, with the reason.",
    },
];

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A screen.
    Viewer,
    /// A shell command.
    Cli,
    /// Pi's extension.
    Bridge,
}

/// Name and version of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Params of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Initialize {
    /// Role of the client.
    pub role: Role,
    /// Oldest and newest version it speaks.
    pub versions: [u32; 2],
    /// What it is.
    pub client: Program,
    /// Of a bridge: its Pi session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<HostFacts>>,
}

/// Result of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Initialized {
    /// The version that holds.
    pub version: u32,
    /// The core.
    pub core: CoreView,
    /// For a bridge: the host it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<HostWelcome>>,
}

/// Params of `core/closing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// One line.
    pub reason: String,
}

/// An empty object: of params nobody needs, and of the answer to `fleet/subscribe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

#[derive(Serialize, Deserialize)]
struct Prompt {
    agent: AgentRef,
    text: String,
    #[serde(default)]
    env: Env,
}

#[derive(Serialize, Deserialize)]
struct Continue {
    agent: AgentRef,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    env: Env,
}

#[derive(Serialize, Deserialize)]
struct OneAgent {
    agent: AgentRef,
}

#[derive(Serialize, Deserialize)]
struct AnswerDialog {
    agent: AgentRef,
    dialog: String,
    #[serde(flatten)]
    answer: DialogAnswer,
}

#[derive(Serialize, Deserialize)]
struct WatchAgents {
    agents: Vec<AgentId>,
}

#[derive(Serialize)]
struct TranscriptOut<'a> {
    agent: AgentId,
    patch: &'a TranscriptPatch,
}

#[derive(Deserialize)]
struct TranscriptIn {
    agent: AgentId,
    patch: TranscriptPatch,
}

/// The newest version both ends speak.
///
/// # Errors
/// A refusal that names both ranges and what to do.
pub fn negotiate(client: [u32; 2]) -> Result<u32, RpcError> {
    let [oldest, newest] = client;
    let version = newest.min(NEWEST_VERSION);
    if version >= oldest.max(OLDEST_VERSION) {
        return Ok(version);
    }
    let what = format!(
        "this core speaks versions {OLDEST_VERSION} to {NEWEST_VERSION} of the protocol, the client {oldest} to {newest}"
    );
    let hint = if oldest > NEWEST_VERSION {
        "the core runs an older pi-agents: stop it (`pi-agents shutdown`) and start it again"
    } else {
        "the client is an older pi-agents: use the version the core runs"
    };
    Err(RpcError::new(
        rpc::VERSION,
        RequestError::new(ErrorCode::Unsupported, what).with_hint(hint),
    ))
}

/// A request as method and params.
///
/// # Errors
/// It cannot be written as JSON.
pub fn call_of(request: Request) -> serde_json::Result<(&'static str, Box<RawValue>)> {
    let raw = serde_json::value::to_raw_value::<Nothing>;
    Ok(match request {
        Request::Spawn(spawn) => (method::SPAWN, serde_json::value::to_raw_value(&spawn)?),
        Request::Send { agent, text, env } => (
            method::PROMPT,
            serde_json::value::to_raw_value(&Prompt { agent, text, env })?,
        ),
        Request::Continue { agent, text, env } => (
            method::CONTINUE,
            serde_json::value::to_raw_value(&Continue { agent, text, env })?,
        ),
        Request::Stop { agent } => (
            method::STOP,
            serde_json::value::to_raw_value(&OneAgent { agent })?,
        ),
        Request::Abort { agent } => (
            method::ABORT,
            serde_json::value::to_raw_value(&OneAgent { agent })?,
        ),
        Request::Answer {
            agent,
            dialog,
            answer,
        } => (
            method::ANSWER,
            serde_json::value::to_raw_value(&AnswerDialog {
                agent,
                dialog,
                answer,
            })?,
        ),
        Request::Explain { agent } => (
            method::EXPLAIN,
            serde_json::value::to_raw_value(&OneAgent { agent })?,
        ),
        Request::Watch { agents } => (
            method::WATCH,
            serde_json::value::to_raw_value(&WatchAgents { agents })?,
        ),
        Request::Resync => (method::RESYNC, raw(&Nothing {})?),
        Request::Snapshot => (method::SNAPSHOT, raw(&Nothing {})?),
        Request::Shutdown => (method::SHUTDOWN, raw(&Nothing {})?),
    })
}

/// Method and params as a request.
///
/// # Errors
/// The method is not known, or the params do not fit it.
pub fn request_of(name: &str, params: Option<&RawValue>) -> Result<Request, RpcError> {
    Ok(match name {
        method::SPAWN => Request::Spawn(params_of::<SpawnRequest>(name, params)?),
        method::PROMPT => {
            let Prompt { agent, text, env } = params_of(name, params)?;
            Request::Send { agent, text, env }
        }
        method::CONTINUE => {
            let Continue { agent, text, env } = params_of(name, params)?;
            Request::Continue { agent, text, env }
        }
        method::STOP => Request::Stop {
            agent: params_of::<OneAgent>(name, params)?.agent,
        },
        method::ABORT => Request::Abort {
            agent: params_of::<OneAgent>(name, params)?.agent,
        },
        method::ANSWER => {
            let AnswerDialog {
                agent,
                dialog,
                answer,
            } = params_of(name, params)?;
            Request::Answer {
                agent,
                dialog,
                answer,
            }
        }
        method::EXPLAIN => Request::Explain {
            agent: params_of::<OneAgent>(name, params)?.agent,
        },
        method::WATCH => Request::Watch {
            agents: params_of::<WatchAgents>(name, params)?.agents,
        },
        method::RESYNC => Request::Resync,
        method::SNAPSHOT => Request::Snapshot,
        method::SHUTDOWN => Request::Shutdown,
        _ => {
            return Err(RpcError::new(
                rpc::METHOD_NOT_FOUND,
                RequestError::new(
                    ErrorCode::Unsupported,
                    format!("this core does not know `{}`", shorten(name)),
                )
                .with_hint("it may run an older pi-agents than the client"),
            ));
        }
    })
}

/// Reads the params of a method; missing ones count as an empty object.
///
/// # Errors
/// They do not fit.
pub fn params_of<'a, T: Deserialize<'a>>(
    name: &str,
    params: Option<&'a RawValue>,
) -> Result<T, RpcError> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|e| {
        RpcError::new(
            rpc::INVALID_PARAMS,
            RequestError::new(
                ErrorCode::Invalid,
                format!("the params of `{}` do not fit: {e}", shorten(name)),
            ),
        )
    })
}

/// Reads the answer to a request.
///
/// # Errors
/// A refusal: the core answered in a way this program does not understand.
pub fn reply_of(result: Option<&RawValue>) -> Result<Reply, RequestError> {
    serde_json::from_str(result.map_or("null", RawValue::get)).map_err(|e| {
        RequestError::new(
            ErrorCode::Unsupported,
            format!("the core's answer is not understood: {e}"),
        )
        .with_hint("it may run a newer pi-agents than this one")
    })
}

/// News as a line, LF included.
///
/// # Errors
/// It cannot be written as JSON.
pub fn line_of(update: &Update) -> serde_json::Result<Vec<u8>> {
    match update {
        Update::Snapshot(fleet) => rpc::notice(method::SNAPSHOT, fleet),
        Update::Delta(delta) => rpc::notice(method::DELTA, delta),
        Update::Transcript { agent, patch } => rpc::notice(
            method::TRANSCRIPT,
            &TranscriptOut {
                agent: *agent,
                patch,
            },
        ),
    }
}

/// A notice as news; `None` = a notice this version does not know, to be ignored.
///
/// # Errors
/// A known notice that does not fit.
pub fn update_of(name: &str, params: Option<&RawValue>) -> Result<Option<Update>, RpcError> {
    Ok(Some(match name {
        method::SNAPSHOT => Update::Snapshot(Box::new(params_of::<FleetSnapshot>(name, params)?)),
        method::DELTA => Update::Delta(params_of::<FleetDelta>(name, params)?),
        method::TRANSCRIPT => {
            let TranscriptIn { agent, patch } = params_of(name, params)?;
            Update::Transcript { agent, patch }
        }
        _ => return Ok(None),
    }))
}

/// A name from outside, short enough to be repeated.
fn shorten(name: &str) -> String {
    const MOST: usize = 60;
    if name.chars().count() <= MOST {
        name.to_owned()
    } else {
        name.chars().take(MOST).chain(['…']).collect()
    }
}
