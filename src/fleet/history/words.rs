//! The account in words. Texts of others in it are as they came: a terminal needs them cleaned
//! (R-TUI-10).

use super::{By, CallKind, Change, Did, HistoryEntry, TimerKind, What};
use crate::fleet::agent::Status;
use crate::fleet::host::LeaveReason;
use crate::fleet::machine::table::State;
use crate::fleet::transcript::{Level, Outcome};

/// How long ago: `just now`, `12 s ago`, `3 min ago`, `2 h ago`, `4 days ago`.
#[must_use]
pub fn ago(ms: u64) -> String {
    match span(ms) {
        Some(span) => format!("{span} ago"),
        None => "just now".to_owned(),
    }
}

/// A length in one unit; `None` = less than a second.
pub(super) fn span(ms: u64) -> Option<String> {
    let s = ms / 1000;
    Some(match s {
        0 => return None,
        1..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    })
}

/// An exact length: `30 s`, `1.2 s`, `250 ms`.
pub(super) fn length(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 if ms % 1000 >= 100 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        1000..60_000 => format!("{} s", ms / 1000),
        _ => span(ms).unwrap_or_default(),
    }
}

pub(super) fn plural(n: u64, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {one}{s}")
}

/// The name of a signal as a shell knows it.
pub(super) fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

impl HistoryEntry {
    /// What it changed, without the reason when [`HistoryEntry::what_words`] has it already.
    #[must_use]
    pub fn change_words(&self) -> Option<String> {
        let change = self.change.as_ref()?;
        if let Status::Failed { reason } = &change.to
            && self.what_words().contains(reason.as_str())
        {
            let to = Status::Failed {
                reason: String::new(),
            };
            let when = change.when.clone();
            let from = change.from;
            return Some(Change { from, to, when }.words());
        }
        Some(change.words())
    }

    /// What happened.
    #[must_use]
    pub fn what_words(&self) -> String {
        let mut words = self.what.words();
        if self.ignored {
            words.push_str(" (of an earlier process: ignored)");
        }
        words
    }

    /// What was done about it, one thing after the other; empty = nothing of note.
    #[must_use]
    pub fn did_words(&self) -> Vec<String> {
        self.did.iter().map(Did::words).collect()
    }
}

impl What {
    /// In words, without a full stop.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::SpawnAsked { task } => format!("asked for: {}", task.words()),
            Self::MessageAsked { message, by } => {
                format!("message{}: {}", by.words(), message.words())
            }
            Self::StopAsked { by } => format!("asked to stop{}", by.words()),
            Self::CallTakenBack => "a call to it was taken back".to_owned(),
            Self::HostJoined => "its session is there".to_owned(),
            Self::HostLeft { reason } => format!("its session ended{}", leave_words(*reason)),
            Self::HostNews => "news of its session".to_owned(),
            Self::RunCutOff => "its output ended in the middle of a run".to_owned(),
            Self::ToParent { message } => format!("message to its parent: {}", message.words()),
            Self::AbortAsked => "asked to abort its run".to_owned(),
            Self::ShutdownAsked => "the core was asked to end".to_owned(),
            Self::SlotFree => "its turn to be started came".to_owned(),
            Self::Elsewhere => "followed from another agent".to_owned(),
            Self::Started { pid } => format!("process started, pid {pid}"),
            Self::StartFailed { reason, .. } => format!("process not started: {reason}"),
            Self::ChildAnswered { command, ok, words } => {
                let command = if command.is_empty() {
                    "a command that it could not read"
                } else {
                    command
                };
                if *ok {
                    format!("the child answered {command}: {words}")
                } else {
                    format!("the child refused {command}: {words}")
                }
            }
            Self::RunBegan => "a run began".to_owned(),
            Self::RunEnded { stop, error } => match error {
                Some(error) => format!("the child's run ended ({stop}): {error}"),
                None => format!("the child's run ended ({stop})"),
            },
            Self::StraySettled => "the child settled although nothing was open".to_owned(),
            Self::CompactionBegan => "the conversation is being shortened".to_owned(),
            Self::CompactionEnded => "the conversation was shortened".to_owned(),
            Self::ModelRead { chars } => {
                format!(
                    "the model read a message of {}",
                    plural(*chars, "character")
                )
            }
            Self::QueueChanged {
                steering,
                follow_up,
            } => format!(
                "the child holds {}",
                plural(steering + follow_up, "message")
            ),
            Self::DialogOpened { title } => format!("an extension asks: {title}"),
            Self::Retrying {
                attempt,
                max,
                delay_ms,
                error,
            } => format!(
                "the provider failed, attempt {attempt} of {max} in {}: {error}",
                length(*delay_ms)
            ),
            Self::RetryOver => "no further attempt".to_owned(),
            Self::ExtensionFailed { error } => format!("an extension failed: {error}"),
            Self::WriteFailed => "the child takes no more input".to_owned(),
            Self::OutputEnded => "the child closed its output and lives".to_owned(),
            Self::Exited { words, .. } => format!("process ended: {words}"),
            Self::Swept { killed: 0, left: 0 } => "nothing of the process is left".to_owned(),
            Self::Swept { killed, left } => {
                let mut words = format!(
                    "{} of its tools ended",
                    plural(u64::from(*killed), "left-over")
                );
                if *left > 0 {
                    words.push_str(&format!(", {left} could not be"));
                }
                words
            }
            Self::TimeUp { timer } => timer.words().to_owned(),
            Self::Unknown => "something this pi-agents does not know".to_owned(),
        }
    }
}

impl By {
    fn words(self) -> &'static str {
        match self {
            Self::You => " by you",
            Self::Continue => " by you, to go on for its parent",
            Self::Parent => " by its parent",
            Self::Other => "",
        }
    }
}

fn leave_words(reason: LeaveReason) -> &'static str {
    match reason {
        LeaveReason::Quit => ": it was left",
        LeaveReason::Reload => ": it was reloaded",
        LeaveReason::New => ": a new one was begun",
        LeaveReason::Resume => ": another one was resumed",
        LeaveReason::Fork => ": it was forked",
        LeaveReason::Lost => " without a word",
    }
}

impl TimerKind {
    fn words(self) -> &'static str {
        match self {
            Self::Start => "time is up: the process should have answered",
            Self::Prompt => "time is up: the prompt should have been answered",
            Self::RunBegins => "time is up: a run should have begun",
            Self::AskState => "time to ask the child what it does",
            Self::Compaction => "time to try the prompt again",
            Self::Run => "the run's time limit passed",
            Self::Ladder => "time is up: the process should have ended",
            Self::Abort => "time is up: the abort should have been answered",
            Self::Wake => "time to give its session what waits for it",
            Self::Other => "a deadline this pi-agents does not know",
        }
    }
}

impl super::Beginning {
    fn words(&self) -> String {
        format!("“{}” ({})", self.text, plural(self.chars, "character"))
    }
}

impl Did {
    /// In words, without a full stop.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Launched {
                process,
                resumes: false,
            } => format!("started process {process}"),
            Self::Launched {
                process,
                resumes: true,
            } => format!("started process {process} on the saved session"),
            Self::Wrote { command } => format!("wrote {command}"),
            Self::ClosedInput => "closed its input".to_owned(),
            Self::Signalled { signal } => format!("sent {signal}"),
            Self::Answered { call, error, .. } => {
                let call = match call {
                    CallKind::Spawn => "spawn",
                    CallKind::Send => "send",
                    CallKind::Stop => "stop",
                    CallKind::Abort => "abort",
                    CallKind::Other => "call",
                };
                match error {
                    None => format!("told the {call}: done"),
                    Some(error) => format!("refused the {call}: {error}"),
                }
            }
            Self::RunOver {
                outcome, took_ms, ..
            } => {
                let how = match outcome {
                    Outcome::Completed { cut: false } => "completed".to_owned(),
                    Outcome::Completed { cut: true } => "completed, its answer cut".to_owned(),
                    Outcome::Failed { .. } => "failed".to_owned(),
                    Outcome::Stopped { by } => format!("stopped {}", by.words()),
                };
                format!("closed the run as {how} after {}", length(*took_ms))
            }
            Self::Noted { level, text } => match level {
                Level::Info => format!("noted: {text}"),
                Level::Warning => format!("warned: {text}"),
                Level::Error => format!("reported: {text}"),
            },
            Self::More { count } => format!("and {}", plural(u64::from(*count), "more thing")),
            Self::Unknown => "something this pi-agents does not know".to_owned(),
        }
    }
}

impl Change {
    /// `running → failed · provider error, or the process died`.
    #[must_use]
    pub fn words(&self) -> String {
        let from = self.from.map_or("new", state_word);
        let mut words = format!("{from} → {}", state_word(State::of(&self.to)));
        match &self.to {
            Status::Failed { reason } if !reason.is_empty() => {
                words.push_str(" (");
                words.push_str(reason);
                words.push(')');
            }
            Status::Stopped { by } => {
                words.push(' ');
                words.push_str(by.words());
            }
            Status::Failed { .. }
            | Status::Queued
            | Status::Starting
            | Status::Running
            | Status::Idle
            | Status::Completed => {}
        }
        if let Some(when) = &self.when {
            words.push_str(" · ");
            words.push_str(when);
        }
        words
    }
}

/// The word of a state as `ps` prints it.
#[must_use]
pub fn state_word(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::Starting => "starting",
        State::Running => "running",
        State::Idle => "idle",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Stopped => "stopped",
    }
}
