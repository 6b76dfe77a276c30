//! What viewers see of the fleet: snapshots and numbered changes. Plain data, pure.

use std::path::PathBuf;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::agent::{AgentSpec, Status};
use super::ids::{AgentId, CoreId, HostId, MessageId};

/// Tokens and money, summed over an agent's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Generated tokens.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// US dollars as Pi computes them.
    pub cost: f64,
}

impl UsageTotals {
    /// Adds another total to this one.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.cost += other.cost;
    }
}

/// How full the model's context is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextUse {
    /// Tokens in the last request and its answer.
    pub tokens: u64,
    /// Size of the model's window; 0 = unknown.
    pub window: u64,
}

impl ContextUse {
    /// Percent of the window, if the window is known.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        (self.window > 0).then(|| self.tokens.saturating_mul(100) / self.window)
    }
}

/// Where a message to an agent is (R-DELIV-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Held by the core: the child has not been given it yet.
    Queued,
    /// Written to the child, no answer yet.
    Sent,
    /// The child accepted it; the model has not seen it yet.
    Accepted,
}

/// One message that the model has not seen yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingMessage {
    /// Identity of the message.
    pub id: MessageId,
    /// Its text, whole.
    pub text: String,
    /// Where it is.
    pub state: MessageState,
}

/// A wait before the child asks its provider again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryView {
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// How many there will be at most.
    pub max: u32,
    /// Length of the wait in milliseconds.
    pub delay_ms: u64,
    /// Wall clock when the wait began, Unix milliseconds.
    pub since_ms: i64,
    /// What the provider said.
    pub error: String,
}

/// What a dialog of a child's extension wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum DialogKind {
    /// Choose one.
    Select {
        /// The choices, in order.
        options: Vec<String>,
    },
    /// Yes or no.
    Confirm {
        /// The longer question.
        message: String,
    },
    /// One line of text.
    Input {
        /// Grey text of the empty field.
        placeholder: Option<String>,
    },
    /// Several lines of text.
    Editor {
        /// Text to begin with.
        prefill: Option<String>,
    },
}

/// An open dialog of a child's extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogView {
    /// Pi's id of the request.
    pub id: String,
    /// Title line.
    pub title: String,
    /// What it wants.
    #[serde(flatten)]
    pub kind: DialogKind,
    /// Wall clock when it opened, Unix milliseconds.
    pub since_ms: i64,
    /// It closes by itself after this long.
    pub timeout_ms: Option<u64>,
}

/// Answer to a dialog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
pub enum DialogAnswer {
    /// Chosen option or typed text.
    Value(String),
    /// Yes or no.
    Confirmed(bool),
    /// Closed without an answer.
    Cancelled,
}

/// Depth of agents in news of older cores, which know no other.
fn top() -> u32 {
    1
}

/// One agent as a viewer sees it. Texts are as the child sent them: a screen must pass them
/// through the sanitiser (R-TUI-10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// Identity.
    pub id: AgentId,
    /// Short human name, without `@` (R-ID-01).
    pub name: String,
    /// Its host.
    pub host: HostId,
    /// The agent it works for, if its host is one (R-ID-02).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// Levels below the top: 1 = an agent of a person or a Pi session.
    #[serde(default = "top")]
    pub depth: u32,
    /// Names from the top, `max/sam`: for display, never an address (R-ID-02).
    #[serde(default)]
    pub key: String,
    /// A tool call waits for the end of its first run.
    #[serde(default)]
    pub waited_for: bool,
    /// What was asked for.
    pub spec: AgentSpec,
    /// Model in use, `provider/id`, once the child said so.
    pub model: Option<String>,
    /// Thinking level in use, once the child said so.
    pub thinking: Option<String>,
    /// State.
    pub status: Status,
    /// A stop has begun and the process is not gone yet.
    pub closing: bool,
    /// Wall clock when `status` began, Unix milliseconds.
    pub since_ms: i64,
    /// Wall clock when the current or last run began.
    pub run_started_ms: Option<i64>,
    /// Length of the last ended run in milliseconds.
    pub run_took_ms: Option<u64>,
    /// Runs ended so far; a viewer calls a row unread when this grew unseen.
    pub runs_ended: u64,
    /// Sums over all runs.
    pub usage: UsageTotals,
    /// Context fill.
    pub context: Option<ContextUse>,
    /// Tool calls started so far.
    pub tool_uses: u64,
    /// What it is doing now, one line (`bash: npm test`).
    pub activity: Option<String>,
    /// Waiting for another attempt.
    pub retry: Option<RetryView>,
    /// The context is being compacted.
    pub compacting: bool,
    /// Messages the model has not seen yet, oldest first.
    pub pending: Vec<PendingMessage>,
    /// Open dialogs, oldest first.
    pub dialogs: Vec<DialogView>,
    /// The child's own status entries (extension `setStatus`), by key.
    pub statuses: Vec<(String, String)>,
    /// Saved session, once known.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub session_path: Option<PathBuf>,
    /// Process id while a process lives.
    pub pid: Option<u32>,
    /// This agent is played by the built-in demo, not by Pi.
    pub demo: bool,
    /// Number of the fleet change that last touched this row.
    pub rev: u64,
}

/// Something the person should know about the core itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Badge {
    /// The guard process is gone: a crash of the core could leave processes behind.
    Unguarded,
    /// Records or logs cannot be written.
    NotSaved,
    /// The record of an agent cannot be read: the agent is not in the list.
    Unreadable,
    /// Results that were not delivered yet would be lost with the core: a journal cannot be written.
    NotCrashSafe,
}

impl Badge {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Unguarded,
        Self::NotSaved,
        Self::Unreadable,
        Self::NotCrashSafe,
    ];

    /// What the person reads.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unguarded => "unguarded",
            Self::NotSaved => "not saved",
            Self::Unreadable => "damaged record, see doctor",
            Self::NotCrashSafe => "not crash-safe",
        }
    }
}

fn known<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Badge>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        Known(Badge),
        Newer(IgnoredAny),
    }
    let all = Vec::<Any>::deserialize(input)?.into_iter();
    Ok(all
        .filter_map(|badge| match badge {
            Any::Known(badge) => Some(badge),
            Any::Newer(_) => None,
        })
        .collect())
}

/// A Pi session that belongs to a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// The host it is: that of its agents.
    pub host: HostId,
    /// Pi's id of the session.
    pub session: String,
    /// Pi's folder.
    #[serde(with = "crate::fleet::path_text")]
    pub folder: PathBuf,
}

/// The core as a viewer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreView {
    /// Identity of the core process.
    pub id: CoreId,
    /// Its process id.
    pub pid: u32,
    /// Version of the program it runs.
    pub version: String,
    /// The person's host of this core.
    pub host: HostId,
    /// Folder it works for.
    #[serde(with = "crate::fleet::path_text")]
    pub folder: PathBuf,
    /// Command line of the Pi it starts, for display.
    pub pi: String,
    /// It plays the built-in demo.
    pub demo: bool,
    /// Warnings about the core itself; one of a newer core that is not known here is left out.
    #[serde(deserialize_with = "known")]
    pub badges: Vec<Badge>,
    /// Viewers and shells attached now.
    #[serde(default)]
    pub attached: u32,
    /// Pi sessions that joined it and have not left, by their time of joining.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionView>,
}

/// All of the fleet at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetSnapshot {
    /// Number of the last change in it.
    pub rev: u64,
    /// The core.
    pub core: CoreView,
    /// Agents in spawn order.
    pub agents: Vec<AgentView>,
}

/// What changed since an earlier number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetDelta {
    /// The number this starts from; not the receiver's last one = resubscribe.
    pub since: u64,
    /// The number this leads to.
    pub rev: u64,
    /// Present when the core's own view changed.
    pub core: Option<CoreView>,
    /// New and changed agents, whole.
    pub agents: Vec<AgentView>,
}

impl FleetSnapshot {
    /// Applies a change. `false` = it does not fit, ask for a new snapshot.
    #[must_use]
    pub fn apply(&mut self, delta: FleetDelta) -> bool {
        if delta.since != self.rev {
            return false;
        }
        self.rev = delta.rev;
        if let Some(core) = delta.core {
            self.core = core;
        }
        for agent in delta.agents {
            match self.agents.iter_mut().find(|a| a.id == agent.id) {
                Some(slot) => *slot = agent,
                None => self.agents.push(agent),
            }
        }
        true
    }
}

/// What goes on below an agent (R-ID-06): itself not counted, its agents' agents included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subtree {
    /// Agents.
    pub agents: u32,
    /// Of these waiting, starting or running.
    pub working: u32,
    /// Resident without a run.
    pub idle: u32,
    /// Completed.
    pub done: u32,
    /// Failed.
    pub failed: u32,
    /// Stopped.
    pub stopped: u32,
    /// Tokens and money of all of them.
    pub usage: UsageTotals,
}

/// Sums up everything below an agent. Rows of parents come before those of their agents, as in a
/// snapshot; a row whose parent is not among them belongs to nobody.
#[must_use]
pub fn subtree<'a>(agents: impl IntoIterator<Item = &'a AgentView>, top: AgentId) -> Subtree {
    let mut inside = vec![top];
    let mut sum = Subtree::default();
    for agent in agents {
        if !agent.parent.is_some_and(|parent| inside.contains(&parent)) {
            continue;
        }
        inside.push(agent.id);
        sum.agents += 1;
        sum.usage.add(&agent.usage);
        match agent.status {
            Status::Queued | Status::Starting | Status::Running => sum.working += 1,
            Status::Idle => sum.idle += 1,
            Status::Completed => sum.done += 1,
            Status::Failed { .. } => sum.failed += 1,
            Status::Stopped { .. } => sum.stopped += 1,
        }
    }
    sum
}
