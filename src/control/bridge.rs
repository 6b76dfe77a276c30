//! The part of the protocol between a core and the bridge, the extension in a Pi session.
//!
//! Owns the shapes only. Decisions are the core's: it says what is offered and how; the bridge hands
//! over, may refuse, and reports what it found in the session. Version 1; fields are only ever added.
//! `docs/bridge-protocol.md` is made from [`METHODS`] and the golden files.
//!
//! **What always holds for an offer.** Each offer of a connection is answered by exactly one
//! `host/taken` or `host/refused` with its epoch, unless the connection ends first. A taken offer is
//! followed by one `host/ack` that names each of its ids as found or missing, possibly over a later
//! connection of the same Pi session (`undecided` of the handshake). Ids that were found and were
//! not durable come in a second one when they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::protocol::{Direction, Method};
use crate::client::Env;

/// Names of the methods and notices.
pub mod method {
    /// Which tools there are.
    pub const TOOLS_LIST: &str = "tools/list";
    /// The model uses a tool.
    pub const TOOLS_CALL: &str = "tools/call";
    /// Notice: a call is not wanted any more.
    pub const TOOLS_CANCEL: &str = "tools/cancel";
    /// Notice: how a call gets on.
    pub const TOOLS_PROGRESS: &str = "tools/progress";
    /// Notice: what Pi is doing.
    pub const STATE: &str = "host/state";
    /// Notice: another branch of the session is open.
    pub const BRANCH: &str = "host/branch";
    /// Notice: agents that the open branch is to remember.
    pub const NAMED: &str = "host/named";
    /// Notice: deliveries for the model.
    pub const OFFER: &str = "host/offer";
    /// Notice: an offer is taken back.
    pub const WITHDRAW: &str = "host/withdraw";
    /// Notice: an offer was handed to Pi.
    pub const TAKEN: &str = "host/taken";
    /// Notice: an offer was not handed to Pi.
    pub const REFUSED: &str = "host/refused";
    /// Notice: what was found in the session.
    pub const ACK: &str = "host/ack";
    /// Ask the other extensions what a child gets.
    pub const LAUNCH_EVENT: &str = "host/launch_event";
    /// The Pi session ends.
    pub const LEAVING: &str = "host/leaving";
}

/// The reference of this part.
pub const METHODS: &[Method] = &[
    Method {
        name: method::TOOLS_LIST,
        direction: Direction::Call,
        doc: "The tools of this host, in the shape of MCP. The answer to `initialize` carries the same list.",
    },
    Method {
        name: method::TOOLS_CALL,
        direction: Direction::Call,
        doc: "The model uses a tool. `call` is Pi's id of the call and the name of it in `tools/progress` and `tools/cancel`; `env` is Pi's environment at this moment. `models` and `tools` are what Pi knows, where the arguments of a spawn name a model or tools: what is in neither is refused before anything starts. A tool that failed is a result with `isError`, its `details` are kept; an error answer is shown to the model in the same way. The answer to a call that was cancelled is ignored.",
    },
    Method {
        name: method::TOOLS_CANCEL,
        direction: Direction::ClientNotice,
        doc: "The call is not wanted any more: the person pressed Esc, or the run ended. A call the core has not heard of, or has answered, is ignored.",
    },
    Method {
        name: method::STATE,
        direction: Direction::ClientNotice,
        doc: "Sent right after the handshake, whenever something of it changed, and after each refusal; `seq` counts up within a connection. `busy` from the moment an input or a message is on its way to Pi until the run has settled, and during a compaction; `aborted` when the last run was aborted or failed; else `idle`.",
    },
    Method {
        name: method::BRANCH,
        direction: Direction::ClientNotice,
        doc: "Another branch of the session is open. The model can address the agents that it names, and those that join it (R-PI-03).",
    },
    Method {
        name: method::TAKEN,
        direction: Direction::ClientNotice,
        doc: "The offer was handed to Pi. This is no proof: another extension can drop it. Wait for `host/ack`.",
    },
    Method {
        name: method::REFUSED,
        direction: Direction::ClientNotice,
        doc: "The offer was not handed to Pi and is forgotten; `why` says what stood against it. A `host/state` follows at once, then the core decides anew.",
    },
    Method {
        name: method::ACK,
        direction: Direction::ClientNotice,
        doc: "Once for each taken offer: which of its ids are among the entries of the session, in any branch, and which are not. `durable`: the session is in a file that exists, or is kept nowhere by the user's wish. Ids that were found but not durable come once more when they are. `epoch` is null for ids that were handed over in an earlier connection.",
    },
    Method {
        name: method::LEAVING,
        direction: Direction::Call,
        doc: "The Pi session ends, for this reason. The core stops the host's agents and answers when their processes are gone; the bridge waits at most 2.5 s for it, and not at all for `quit`. Then the connection is closed.",
    },
    Method {
        name: method::TOOLS_PROGRESS,
        direction: Direction::Notice,
        doc: "How a foreground call gets on: replaces what was shown for it before. At most ten a second for each call, and only when something changed; a bridge that does not read gets the newest later, never the ones between. None comes behind the answer of its call, and one that did would be ignored. The result depends on none of it. `elapsed_ms` counts from the call; `status` is the agent's, or `stopping`, `asks`, `retrying`; `below` counts the agents of the agent and is absent when there are none; `tail` is the end of its reply so far, `tail_cut` says that there is more before it.",
    },
    Method {
        name: method::NAMED,
        direction: Direction::Notice,
        doc: "Agents joined the open branch: they were spawned there, or something of them is delivered there. The bridge appends an entry with their names that no model reads; `branch` of the handshake and `host/branch` say what all these entries name.",
    },
    Method {
        name: method::OFFER,
        direction: Direction::Notice,
        doc: "Deliveries for the model, all or none. `boundary`: handed over between two requests to the model, with one continuation; refused with `idle` when the run is over before. `wake`: only when Pi is idle; all but the last are appended silently, the last starts one run. `silent`: appended, nothing starts: at once, or at the next boundary of a run that is going on. `content` is the exact text the model reads.",
    },
    Method {
        name: method::WITHDRAW,
        direction: Direction::Notice,
        doc: "An offer is taken back. Answered by `host/refused` with `withdrawn` if it is still held; otherwise it was taken or refused already.",
    },
    Method {
        name: method::LAUNCH_EVENT,
        direction: Direction::CoreCall,
        doc: "Emits `pi-subagents:child-launch:v1` for one launch and answers what the other extensions want the child to have. Ask before every launch, also a revival. An error answer rejects the launch; its text is generic, nothing of the contributions may be kept.",
    },
];

/// How Pi runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PiMode {
    /// Its own screen.
    Tui,
    /// `--mode rpc`.
    Rpc,
    /// `--mode json`.
    Json,
    /// `--print`.
    Print,
}

/// Why this Pi session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartReason {
    /// Pi was started.
    Startup,
    /// `/reload`: the same session, new extensions.
    Reload,
    /// `/new`.
    New,
    /// `/resume`, or another session file.
    Resume,
    /// `/fork`.
    Fork,
}

/// What Pi is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A run, a compaction, or an input on its way.
    Busy,
    /// Nothing; the last run ended well, or there was none.
    Idle,
    /// Nothing; the last run was aborted or failed.
    Aborted,
}

/// Who claims to be at the other end, in a process that a core started.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// `PI_SUBAGENT_AGENT_ID`, if it is set.
    #[serde(default)]
    pub agent: Option<String>,
    /// `PI_AGENTS_TOKEN`.
    pub token: String,
}

impl std::fmt::Debug for Proof {
    /// The token is never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// `host` in the params of `initialize`: the Pi session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Pi's id of the session.
    pub session: String,
    /// Its file, which need not exist yet; `None` = kept nowhere.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub session_file: Option<PathBuf>,
    /// Whether that file exists.
    #[serde(default)]
    pub session_file_exists: bool,
    /// Why the session began.
    pub reason: StartReason,
    /// Pi's folder.
    #[serde(with = "crate::fleet::path_text")]
    pub cwd: PathBuf,
    /// How Pi runs.
    pub mode: PiMode,
    /// Whether Pi can ask its user.
    pub has_ui: bool,
    /// `provider/id` of Pi's model.
    #[serde(default)]
    pub model: Option<String>,
    /// Pi's thinking level.
    #[serde(default)]
    pub thinking: Option<String>,
    /// Pi's version.
    #[serde(default)]
    pub pi_version: Option<String>,
    /// Pi's process.
    pub pid: u32,
    /// Whether the user trusts this folder (R-PI-13).
    #[serde(default)]
    pub trusted: bool,
    /// What Pi is doing at this moment.
    pub state: Activity,
    /// Ids of deliveries that are among the entries of the session, in any branch (R-DELIV-05): those
    /// that were offered, and those in `details.deliveries` of a tool's result.
    #[serde(default)]
    pub known: Vec<String>,
    /// Whether these are safe, as in `host/ack`.
    #[serde(default)]
    pub durable: bool,
    /// Ids that were handed to Pi and not looked for yet: not to be offered until a `host/ack` without
    /// epoch. Seldom: a new handshake is put off while there are any.
    #[serde(default)]
    pub undecided: Vec<String>,
    /// Who is named in the session.
    #[serde(default)]
    pub branch: Roster,
    /// Pi's environment (R-LIFE-18). Never written down.
    #[serde(default)]
    pub env: Env,
    /// Of a process that a core started, or that has to join a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// Agents that a session names, in entries that the bridge wrote when it was told `host/named`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Ids of those that the open branch names; null = no branch of this session names any, and all
    /// agents of the session are meant.
    #[serde(default)]
    pub agents: Option<Vec<String>>,
    /// Names in all branches, also those that a fork took over from another session: none of them is
    /// given again (R-ID-01).
    #[serde(default)]
    pub names: Vec<String>,
}

/// Params of `host/branch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Of the connection.
    pub generation: u64,
    /// Who is named in it.
    pub branch: Roster,
}

/// An agent, as a session remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedAgent {
    /// Identity.
    pub id: String,
    /// Name.
    pub name: String,
}

/// Params of `host/named`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Of the connection.
    pub generation: u64,
    /// Which. Not empty.
    pub agents: Vec<NamedAgent>,
}

/// `host` in the answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostWelcome {
    /// The host's identity.
    pub id: String,
    /// Of this connection; later messages about the host carry it, and others are not meant.
    pub generation: u64,
    /// The tools of this host.
    pub tools: Vec<Tool>,
    /// Activate the tools at once (`tools.active = "always"`, R-TOOL-12).
    #[serde(default)]
    pub activate: bool,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds a bridge keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Longest line the core takes, in bytes.
    pub line_bytes: usize,
}

/// A tool as the model sees it (`tools/list` of MCP, with two fields of Pi).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// What it does (R-TOOL-14).
    pub description: String,
    /// One line for the list of tools in the system prompt.
    #[serde(rename = "promptSnippet")]
    pub prompt_snippet: String,
    /// JSON schema of the arguments.
    #[serde(rename = "inputSchema")]
    pub input_schema: Value,
}

/// Answer to `tools/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolList {
    /// The tools.
    pub tools: Vec<Tool>,
}

/// Params of `tools/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Of the connection.
    pub generation: u64,
    /// Pi's id of the call (`toolCallId`).
    pub call: String,
    /// Tool.
    pub name: String,
    /// Arguments as Pi hands them to the tool: coerced, and perhaps edited by hooks (R-TOOL-16).
    pub arguments: Value,
    /// Pi's environment now.
    #[serde(default)]
    pub env: Env,
    /// Models Pi can use, `provider/id`; only where the arguments name one (R-TOOL-04).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Tools Pi has, active or not; only where the arguments name some (R-PI-10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// A piece of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

/// Answer to `tools/call`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the model reads.
    pub content: Vec<Content>,
    /// Whether the tool failed.
    #[serde(default, rename = "isError")]
    pub is_error: bool,
    /// What is drawn, never shown to the model.
    #[serde(default)]
    pub details: Value,
    /// Usage of the child's run in Pi's shape; foreground runs only (R-TOOL-15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// Params of `tools/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolProgress {
    /// Of which call.
    pub call: String,
    /// The text so far, bounded.
    pub content: Vec<Content>,
    /// What is drawn.
    #[serde(default)]
    pub details: Value,
}

/// Params of `tools/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCancel {
    /// Of the connection.
    pub generation: u64,
    /// Which call.
    pub call: String,
}

/// Params of `host/state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// Of the connection.
    pub generation: u64,
    /// Counts up from 1.
    pub seq: u64,
    /// What Pi is doing.
    pub state: Activity,
    /// `provider/id`.
    #[serde(default)]
    pub model: Option<String>,
    /// Level.
    #[serde(default)]
    pub thinking: Option<String>,
    /// Dialogs Pi waits for its user with.
    #[serde(default)]
    pub dialogs: u32,
}

/// How an offer is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferMode {
    /// Into a run that is going on (R-DELIV-02).
    Boundary,
    /// Starts one run (R-DELIV-03).
    Wake,
    /// Starts nothing (R-DELIV-04).
    Silent,
}

/// What a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// The result of a run (R-DELIV-01).
    FinalReply,
    /// A child's question on its way (R-DELIV-10).
    NonBlockingQuestion,
}

/// One thing for the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Found again by this, never by its text: the completion's or the question's id.
    pub id: String,
    /// What it is.
    pub kind: DeliveryKind,
    /// The exact text the model reads: a JSON object.
    pub content: String,
    /// What is drawn.
    #[serde(default)]
    pub details: Value,
}

/// Params of `host/offer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Of the connection.
    pub generation: u64,
    /// Number of the offer; never used twice in a connection.
    pub epoch: u64,
    /// How.
    pub mode: OfferMode,
    /// What, in this order. Not empty.
    pub deliveries: Vec<Delivery>,
}

/// Params of `host/withdraw` and `host/taken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Of the connection.
    pub generation: u64,
    /// Which offer.
    pub epoch: u64,
}

/// What stood against an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// `wake`: a run or a compaction is going on.
    Busy,
    /// `wake`: an input is on its way to Pi and would be lost.
    Prompt,
    /// No run is going on, or it ended before a boundary came.
    Idle,
    /// `wake`: the last run was aborted or failed.
    Aborted,
    /// The offer is of another connection or Pi session.
    Generation,
    /// The core took it back.
    Withdrawn,
    /// The offer makes no sense (an epoch used twice, nothing in it), or Pi threw it back.
    Invalid,
}

/// Params of `host/refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Of the connection.
    pub generation: u64,
    /// Which offer.
    pub epoch: u64,
    /// Why.
    pub why: Refusal,
}

/// Params of `host/ack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Of the connection.
    pub generation: u64,
    /// Which offer; `None` = taken in an earlier connection.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// Ids among the session's entries.
    pub found: Vec<String>,
    /// Ids that are not.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Whether what was found is safe.
    pub durable: bool,
}

/// Params of `host/launch_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchEvent {
    /// Of the connection.
    pub generation: u64,
}

/// Answer to `host/launch_event`. Never written down, never shown (R-PI-04).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contributions {
    /// Variables of the child, below its identity.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Extensions of the child, each once; relative ones mean the child's folder.
    #[serde(default)]
    pub extensions: Vec<String>,
}

impl std::fmt::Debug for Contributions {
    /// Neither names nor values are printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Contributions({} variables, {} extensions)",
            self.env.len(),
            self.extensions.len()
        )
    }
}

/// Why a Pi session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaveReason {
    /// Pi ends.
    Quit,
    /// `/reload`: the same session goes on with new extensions.
    Reload,
    /// `/new`.
    New,
    /// `/resume`.
    Resume,
    /// `/fork`.
    Fork,
}

/// Params of `host/leaving`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Of the connection.
    pub generation: u64,
    /// Why.
    pub reason: LeaveReason,
}
