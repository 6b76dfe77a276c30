//! `HostGate` and `HostLink`: how a Pi session, through its bridge, belongs to a core. The
//! supervisor implements them, `control` carries them over a connection; nothing else differs.
//!
//! The link only carries: who gets which result is decided in the core (R-PI-01).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::{BoxFuture, Env, RequestError};
use crate::fleet::completion::DeliveryId;
use crate::fleet::host::LeaveReason;
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::outbox::{Activity, OfferMode};

/// What a Pi session says of itself when it joins.
#[derive(Clone, Debug)]
pub struct HostHello {
    /// Pi's id of the session: results are kept for it and for no other (R-DELIV-05).
    pub session: String,
    /// Pi's folder: relative folders of its agents mean it.
    pub cwd: PathBuf,
    /// `provider/id` of its model.
    pub model: Option<String>,
    /// Its thinking level, Pi's word.
    pub thinking: Option<String>,
    /// It ends after its task (print and JSON modes): its agents end with it (R-PI-17).
    pub one_task: bool,
    /// Its user trusts its folder (R-PI-13).
    pub trusted: bool,
    /// What it does now.
    pub activity: Activity,
    /// Deliveries found among its entries.
    pub known: Vec<DeliveryId>,
    /// These are safe: the session is in a file that exists, or is kept nowhere by wish.
    pub durable: bool,
    /// Deliveries that were handed over earlier and not looked for yet.
    pub undecided: Vec<DeliveryId>,
    /// Who is named in it.
    pub branch: HostBranch,
    /// Pi's environment, for agents that somebody else brings back (R-LIFE-18). Memory only.
    pub env: Env,
    /// Process at the other end, where the system tells it.
    pub pid: Option<u32>,
}

/// Which agents a Pi session speaks of (R-PI-03).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBranch {
    /// Those that the open branch names; `None` = no branch of the session names any.
    pub agents: Option<Vec<AgentId>>,
    /// Names that are used up (R-ID-01).
    pub names: Vec<String>,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolView {
    /// Name.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// One line for the list of tools in the system prompt.
    pub prompt_snippet: String,
    /// JSON schema of the arguments.
    pub input_schema: Value,
}

/// One thing for the parent's model.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Found again by this.
    pub id: DeliveryId,
    /// The exact text the model reads.
    pub content: String,
    /// What is drawn.
    pub details: Value,
}

/// A Pi session's place in the core.
pub struct HostSeat {
    /// Its identity here.
    pub host: HostId,
    /// Generation of the session: whatever an older one says is ignored.
    pub generation: u64,
    /// Its tools.
    pub tools: Vec<ToolView>,
    /// The line.
    pub link: Arc<dyn HostLink>,
    /// How its calls get on.
    pub progress: Arc<dyn ProgressSource>,
}

/// The use of a tool.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// Pi's id of the call; unique within a generation.
    pub call: String,
    /// The tool.
    pub name: String,
    /// Its arguments, unchecked.
    pub arguments: Value,
    /// Pi's environment at this moment.
    pub env: Env,
    /// What Pi says of the names in the arguments.
    pub known: Known,
}

/// Names that a Pi session knows. None of a sort = it did not say: nothing is refused for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Models it can use, `provider/id`.
    pub models: Vec<String>,
    /// Tools it has, active or not.
    pub tools: Vec<String>,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct HostAnswer {
    /// What the model reads.
    pub content: String,
    /// The tool failed.
    pub is_error: bool,
    /// What is drawn, never shown to the model.
    pub details: Value,
    /// Usage of the agent's run in Pi's shape (R-TOOL-15).
    pub usage: Option<Value>,
}

/// What the other extensions of a Pi session want a child to have. Never stored, never printed
/// (R-PI-04).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contributions {
    /// Variables, below the child's identity.
    pub env: BTreeMap<String, String>,
    /// Extensions, each once.
    pub extensions: Vec<String>,
}

impl std::fmt::Debug for Contributions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contributions")
            .field("variables", &self.env.len())
            .field("extensions", &self.extensions.len())
            .finish()
    }
}

/// What a Pi session says without waiting for an answer.
#[derive(Clone, Debug)]
pub enum HostSays {
    /// It does something else now.
    State {
        /// What.
        activity: Activity,
        /// Its model.
        model: Option<String>,
        /// Its thinking level.
        thinking: Option<String>,
    },
    /// Another branch of its session is open.
    Branch(HostBranch),
    /// An offer was handed to Pi.
    Taken {
        /// Which.
        epoch: u64,
    },
    /// An offer was not handed to Pi.
    Refused {
        /// Which.
        epoch: u64,
    },
    /// The session's entries were searched.
    Ack {
        /// For the ids of which offer; `None` = of one of an earlier connection.
        epoch: Option<u64>,
        /// Found.
        found: Vec<DeliveryId>,
        /// Not found.
        missing: Vec<DeliveryId>,
        /// What was found is safe.
        durable: bool,
    },
    /// A call is not wanted any more.
    Cancel {
        /// Which.
        call: String,
    },
    /// The connection ended. After [`HostLink::leave`] it is no news.
    Lost,
    /// Answer to [`HostNews::Launch`].
    Launch {
        /// Which question.
        id: u64,
        /// What the child gets; `Err` = the launch is rejected.
        answer: Result<Contributions, String>,
    },
}

/// What a Pi session is told.
#[derive(Clone, Debug)]
pub enum HostNews {
    /// Results to hand over.
    Offer {
        /// Number.
        epoch: u64,
        /// How.
        mode: OfferMode,
        /// What, in this order.
        deliveries: Vec<Offered>,
    },
    /// Agents joined the open branch: to be remembered there.
    Named {
        /// Which, with their names.
        agents: Vec<(AgentId, String)>,
    },
    /// A child is about to be started: ask the other extensions.
    Launch {
        /// To answer with.
        id: u64,
    },
}

/// How a call gets on, as it was when it was asked for; replaces what was said of it before.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// Which call, Pi's id of it.
    pub call: String,
    /// One or a few lines.
    pub content: String,
    /// What is drawn.
    pub details: Value,
}

/// How the calls of a session that wait get on (R-TOOL-11, R-TOOL-19). It is pulled, as viewers pull
/// their news (docs/decisions/002-viewers-pull.md): whoever writes asks for the next when the last is
/// on its way, so that there is no queue of old ones, and none before an offer or an answer.
pub trait ProgressSource: Send + Sync {
    /// Waits until there is something new to say of a call that is not answered; for ever when there
    /// is none. Dropping the future loses nothing. Only one caller at a time.
    fn next(&self) -> BoxFuture<'_, CallProgress>;
}

/// One Pi session's line to a core. Dropping it without [`HostLink::leave`] or [`HostSays::Lost`] is
/// a loss of the session as well: its agents end.
pub trait HostLink: Send + Sync {
    /// Uses a tool. Calls run side by side; dropping the future withdraws nothing.
    fn call(&self, call: HostCall) -> BoxFuture<'_, HostAnswer>;

    /// Says something; waits only for room. What is stale is ignored by the core.
    fn says(&self, what: HostSays) -> BoxFuture<'_, ()>;

    /// The session ends: resolves when its agents are gone.
    fn leave(&self, reason: LeaveReason) -> BoxFuture<'_, ()>;

    /// Waits for news. `None` = the core is gone. Only one caller at a time.
    fn news(&self) -> BoxFuture<'_, Option<HostNews>>;
}

/// Where Pi sessions join.
pub trait HostGate: Send + Sync {
    /// Takes a place.
    ///
    /// The error says why not: another process serves the session, the core is ending.
    fn join(&self, hello: HostHello) -> BoxFuture<'_, Result<HostSeat, RequestError>>;
}
