//! What led to the state an agent shows (R-OPS-01 `explain`): a short, bounded account of the inputs
//! the machine was given, what it did about them, and what that changed.
//!
//! Owns the account, its bounds and its words. Decides nothing and is asked by nothing that decides.
//! Always holds: at most [`MAX_ENTRIES`] entries and [`MAX_BYTES`] bytes an agent; no environment,
//! and of a task or a message only its first words; what is left out is counted. Lost with the core.

mod answer;
mod reading;
mod ring;
mod words;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::agent::{AgentSpec, Status, Thinking, ToolChoice};
use super::answer::ErrorCode;
use super::host::LeaveReason;
use super::ids::{AgentId, CallId, InstanceId};
use super::machine::table::State;
use super::machine::{Effect, Input, Now};
use super::roster::AgentView;
use super::transcript::{Level, Outcome};
use reading::{Owner, Subject};
use ring::AgentHistory;
pub use ring::{MAX_BYTES, MAX_ENTRIES};
pub use words::{ago, state_word};

/// Most things the machine did that one entry names.
const MAX_DID: usize = 6;
/// Most processes of an agent whose late inputs are still told apart.
const MAX_PROCESSES: usize = 16;

/// The beginning of a text, and how long it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// Its first words, on one line.
    pub text: String,
    /// Characters of the whole.
    pub chars: u64,
}

/// What was asked for before defaults were filled in (R-TOOL-16). `None` = not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The task.
    pub task: Beginning,
    /// Title.
    pub label: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Thinking level.
    pub thinking: Option<Thinking>,
    /// Tools.
    pub tools: ToolChoice,
    /// Folder, as it was written.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub cwd: Option<PathBuf>,
    /// Stay idle when done.
    pub persistent: Option<bool>,
    /// Bound on every run in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum CallKind {
    Spawn,
    Send,
    Stop,
    Abort,
    /// One that this program does not know.
    #[serde(other)]
    Other,
}

/// A deadline, without whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TimerKind {
    Start,
    Prompt,
    RunBegins,
    AskState,
    Compaction,
    Run,
    Ladder,
    Abort,
    Wake,
    /// One that this program does not know.
    #[serde(other)]
    Other,
}

/// In whose name something was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A person, on a screen or in a shell.
    You,
    /// A person, who hands the answer to the host (R-DELIV-14).
    Continue,
    /// The host that started the agent.
    Parent,
    /// Somebody this program does not know.
    #[serde(other)]
    Other,
}

/// What happened. Texts are as the child sent them, cut: a terminal needs them cleaned (R-TUI-10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum What {
    /// The agent was asked for.
    SpawnAsked { task: Beginning },
    /// A message to it.
    MessageAsked { message: Beginning, by: By },
    /// Somebody wanted it stopped.
    StopAsked { by: By },
    /// Whoever waited for an answer took the call back.
    CallTakenBack,
    /// Somebody wanted its run aborted.
    AbortAsked,
    /// The core was asked to end.
    ShutdownAsked,
    /// Its host is there, for the first time or again.
    HostJoined,
    /// Its host's session ended.
    HostLeft { reason: LeaveReason },
    /// Something else about its host.
    HostNews,
    /// Its turn to be started came.
    SlotFree,
    /// It follows from what happened to another agent.
    Elsewhere,
    /// The process was started.
    Started { pid: u32 },
    /// It could not be.
    StartFailed {
        reason: String,
        hint: Option<String>,
    },
    /// The child answered a command.
    ChildAnswered {
        command: String,
        ok: bool,
        words: String,
    },
    /// A run began.
    RunBegan,
    /// It ended as the child says it.
    RunEnded { stop: String, error: Option<String> },
    /// The output ended in the middle of a run.
    RunCutOff,
    /// It has a message for whoever started it.
    ToParent { message: Beginning },
    /// The child said that it settled, and nothing was open.
    StraySettled,
    /// The conversation is being shortened.
    CompactionBegan,
    /// It is not any more.
    CompactionEnded,
    /// The model was given a message.
    ModelRead { chars: u64 },
    /// Pi's own queue changed.
    QueueChanged { steering: u64, follow_up: u64 },
    /// An extension asks.
    DialogOpened { title: String },
    /// The provider will be asked again.
    Retrying {
        attempt: u32,
        max: u32,
        delay_ms: u64,
        error: String,
    },
    /// It will not be asked again.
    RetryOver,
    /// An extension failed.
    ExtensionFailed { error: String },
    /// A command could not be written.
    WriteFailed,
    /// The output ended, the process did not.
    OutputEnded,
    /// The process ended.
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
        words: String,
    },
    /// What it left behind was looked after.
    Swept { killed: u32, left: u32 },
    /// A deadline passed.
    TimeUp { timer: TimerKind },
    /// Something that this program does not know.
    #[serde(other)]
    Unknown,
}

/// What the machine did about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Did {
    /// Started a process.
    Launched { process: u32, resumes: bool },
    /// Wrote a command to the child.
    Wrote { command: String },
    /// Closed its input: the first rung of the ladder.
    ClosedInput,
    /// Sent a signal to its process group.
    Signalled { signal: String },
    /// Answered whoever waited.
    Answered {
        call: CallKind,
        error: Option<String>,
        code: Option<ErrorCode>,
    },
    /// Closed a run.
    RunOver {
        #[serde(flatten)]
        outcome: Outcome,
        took_ms: u64,
        tokens: u64,
        tool_uses: u64,
    },
    /// Noted something in the transcript.
    Noted { level: Level, text: String },
    /// And so many more things.
    More { count: u32 },
    /// Something that this program does not know.
    #[serde(other)]
    Unknown,
}

/// A change of the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// State before; `None` = the agent is new.
    pub from: Option<State>,
    /// Status after.
    pub to: Status,
    /// What the table of changes says about it (`docs/lifecycle.md`).
    pub when: Option<String>,
}

/// One entry of the account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Wall clock, Unix milliseconds; of the last one when there were several.
    pub at_ms: i64,
    /// The same on the clock that does not jump: milliseconds since the core started.
    pub mono_ms: u64,
    /// Wall clock of the first one.
    pub first_ms: i64,
    /// How many of this kind came without anything of note between them.
    pub count: u64,
    /// Which process of this agent it is about, counted from 1 since the core started.
    pub process: Option<u32>,
    /// Of a process that was not the agent's any more: the machine ignored it (R-LIFE-12).
    pub ignored: bool,
    /// What happened.
    pub what: What,
    /// What was done about it, in order.
    pub did: Vec<Did>,
    /// What that changed.
    pub change: Option<Change>,
}

/// What the record of an earlier core says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Status when it was written.
    pub status: Status,
    /// Since when, Unix milliseconds.
    pub since_ms: i64,
}

/// The answer to "why does this row say what it says?".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Identity.
    pub agent: AgentId,
    /// Short name, without `@`.
    pub name: String,
    /// It works for a Pi session or another agent, not for the person.
    #[serde(default)]
    pub hosted: bool,
    /// Status.
    pub status: Status,
    /// A stop has begun and the process is not gone yet.
    pub closing: bool,
    /// Wall clock when `status` began, Unix milliseconds.
    pub since_ms: i64,
    /// Open questions of its extensions.
    pub dialogs: u64,
    /// What was asked for; `None` = an earlier core was asked.
    pub asked: Option<Asked>,
    /// What it became with defaults filled in.
    pub effective: AgentSpec,
    /// Model in use, once the child said so.
    pub model: Option<String>,
    /// Thinking level in use, once the child said so.
    pub thinking: Option<String>,
    /// Process id while a process lives.
    pub pid: Option<u32>,
    /// Saved session, once known.
    #[serde(default, with = "crate::fleet::path_text::option")]
    pub session_path: Option<PathBuf>,
    /// Runs ended so far, those of earlier cores too.
    pub runs_ended: u64,
    /// Wall clock of the core when it answered.
    pub now_ms: i64,
    /// Wall clock when the core started: nothing before it is known but the record.
    pub known_since_ms: i64,
    /// What the record said when the core started; `None` = this core made the agent.
    pub recorded: Option<Recorded>,
    /// Entries that were dropped to keep the account short: the oldest and the least telling.
    pub left_out: u64,
    /// The account, newest first.
    pub entries: Vec<HistoryEntry>,
}

/// An input before the machine took it in.
#[derive(Debug)]
pub struct Note {
    subject: Subject,
    process: Option<u32>,
    ignored: bool,
    what: What,
}

/// The accounts of all agents of one core.
#[derive(Debug, Default)]
pub struct History {
    agents: HashMap<AgentId, AgentHistory>,
    processes: HashMap<InstanceId, (AgentId, u32)>,
    calls: HashMap<CallId, (AgentId, CallKind)>,
}

impl History {
    /// Reads an input before the machine consumes it. `current` says whether a process is its
    /// agent's present one.
    pub fn note(&mut self, input: &Input, current: impl Fn(InstanceId) -> bool) -> Note {
        let read = reading::input(input);
        if let (Some((call, kind)), Subject::Agent(agent)) = (read.call, &read.subject) {
            self.calls.insert(call, (*agent, kind));
        }
        let mut process = None;
        let ignored = match &read.subject {
            Subject::Process(instance) => !current(*instance),
            Subject::Agent(_) | Subject::Call(_) | Subject::Everyone | Subject::Nobody => false,
        };
        let subject = match read.subject {
            Subject::Process(instance) => match self.processes.get(&instance) {
                Some((agent, number)) => {
                    process = Some(*number);
                    Subject::Agent(*agent)
                }
                None => Subject::Nobody,
            },
            Subject::Call(call) => match self.calls.get(&call) {
                Some((agent, _)) => Subject::Agent(*agent),
                None => Subject::Nobody,
            },
            other => other,
        };
        Note {
            subject,
            process,
            ignored,
            what: read.what,
        }
    }

    /// Enters what was noted with what the machine did about it. `status` gives an agent's status
    /// after the step.
    pub fn add(
        &mut self,
        now: Now,
        note: Note,
        effects: &[Effect],
        status: impl Fn(AgentId) -> Option<Status>,
    ) {
        let mut touched: Vec<(AgentId, Vec<Did>)> = Vec::new();
        if let Subject::Agent(agent) = &note.subject {
            touched.push((*agent, Vec::new()));
        }
        for effect in effects {
            if let Effect::Launch {
                agent, instance, ..
            } = effect
            {
                self.launched(*agent, *instance);
            }
            let (owner, mut did) = reading::effect(effect);
            let agent = match owner {
                Owner::Agent(agent) => Some(agent),
                Owner::Process(instance) => self.processes.get(&instance).map(|(a, _)| *a),
                Owner::Call(call) => self.calls.remove(&call).map(|(agent, kind)| {
                    if let Some(Did::Answered { call, .. }) = &mut did {
                        *call = kind;
                    }
                    agent
                }),
                Owner::Nobody => None,
            };
            let Some(agent) = agent else { continue };
            if let Some(Did::Launched { process, .. }) = &mut did {
                *process = self.agents.get(&agent).map_or(0, |a| a.launched);
            }
            match touched.iter_mut().find(|(id, _)| *id == agent) {
                Some((_, all)) => all.extend(did),
                None => touched.push((agent, did.into_iter().collect())),
            }
        }
        for (agent, did) in touched {
            // An agent that was refused is none.
            let Some(after) = status(agent) else { continue };
            self.enter(now, &note, agent, did, after);
        }
    }

    fn launched(&mut self, agent: AgentId, instance: InstanceId) {
        let history = self.agents.entry(agent).or_default();
        history.launched += 1;
        history.processes.push_back(instance);
        self.processes.insert(instance, (agent, history.launched));
        while history.processes.len() > MAX_PROCESSES {
            if let Some(old) = history.processes.pop_front() {
                self.processes.remove(&old);
            }
        }
    }

    fn enter(&mut self, now: Now, note: &Note, agent: AgentId, did: Vec<Did>, after: Status) {
        let history = self.agents.entry(agent).or_default();
        let change = (history.status.as_ref() != Some(&after)).then(|| {
            let from = history.status.as_ref().map(State::of);
            reading::change(from, &after)
        });
        let (process, ignored, what) = match &note.subject {
            Subject::Agent(subject) if *subject == agent => {
                (note.process, note.ignored, note.what.clone())
            }
            _ if did.is_empty() && change.is_none() => return,
            Subject::Everyone => (None, false, note.what.clone()),
            _ if did.iter().any(|d| matches!(d, Did::Launched { .. })) => {
                (None, false, What::SlotFree)
            }
            _ => (None, false, What::Elsewhere),
        };
        history.status = Some(after);
        history.push(HistoryEntry {
            at_ms: now.wall_ms,
            mono_ms: u64::try_from(now.mono.as_millis()).unwrap_or(u64::MAX),
            first_ms: now.wall_ms,
            count: 1,
            process,
            ignored,
            what,
            did: reading::few(did),
            change,
        });
    }

    /// Keeps what was asked for when the agent was made (R-TOOL-16).
    pub fn asked(&mut self, agent: AgentId, asked: Asked) {
        self.agents.entry(agent).or_default().asked = Some(reading::bounded(asked));
    }

    /// Drops the account of an agent that never came to be.
    pub fn forget(&mut self, agent: AgentId) {
        self.agents.remove(&agent);
        self.processes.retain(|_, (of, _)| *of != agent);
        self.calls.retain(|_, (of, _)| *of != agent);
    }

    /// Takes in an agent of an earlier core: what its record said, and what it shows now.
    pub fn restored(&mut self, agent: AgentId, recorded: Recorded, shown: Status) {
        let history = self.agents.entry(agent).or_default();
        history.recorded = Some(recorded);
        history.status = Some(shown);
    }

    /// The account of an agent beside what its row shows. `started_ms` is when the core started.
    #[must_use]
    pub fn explain(&self, view: AgentView, now_ms: i64, started_ms: i64) -> Explanation {
        let history = self.agents.get(&view.id);
        Explanation {
            agent: view.id,
            name: view.name,
            hosted: false,
            status: view.status,
            closing: view.closing,
            since_ms: view.since_ms,
            dialogs: u64::try_from(view.dialogs.len()).unwrap_or(u64::MAX),
            asked: history.and_then(|h| h.asked.clone()),
            effective: view.spec,
            model: view.model,
            thinking: view.thinking,
            pid: view.pid,
            session_path: view.session_path,
            runs_ended: view.runs_ended,
            now_ms,
            known_since_ms: started_ms,
            recorded: history.and_then(|h| h.recorded.clone()),
            left_out: history.map_or(0, |h| h.left_out),
            entries: history.map(AgentHistory::newest_first).unwrap_or_default(),
        }
    }
}
