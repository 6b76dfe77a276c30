//! The one sentence that answers the question, from what is known and no more.

use super::words::{ago, length, signal_name};
use super::{Did, Explanation, HistoryEntry, TimerKind, What};
use crate::fleet::agent::{Status, StopCause};
use crate::fleet::machine::table::State;

impl Explanation {
    /// Why the row shows what it shows, in one sentence without a full stop. Texts of others in it
    /// are as they came: a terminal needs them cleaned (R-TUI-10).
    #[must_use]
    pub fn answer(&self) -> String {
        let name = &self.name;
        let since = self.now_ms.saturating_sub(self.since_ms);
        let since = u64::try_from(since).unwrap_or(0);
        let ago = ago(since);
        if self.closing {
            let by = self
                .stop_asked()
                .map_or(String::new(), |t| format!(", {t}"));
            return format!("{name} is ending: its process is not gone yet{by}");
        }
        match &self.status {
            Status::Queued => format!("{name} waits to be started: others are starting first"),
            Status::Starting => {
                let last = self.entries.first().map(|e| e.what.words());
                let last = last.map_or(String::new(), |w| format!(" (last: {w})"));
                format!("{name} is starting: its first prompt is not accepted yet{last}")
            }
            Status::Running => format!("{name} is running: {}", self.running()),
            Status::Idle => format!("{name} is idle: {}, ended {ago}", self.last_run()),
            Status::Completed => format!("{name} completed {ago}: {}", self.completed()),
            Status::Failed { reason } => {
                format!("{name} failed {ago}: {}", self.failed(reason))
            }
            Status::Stopped { by } => format!("{name} was stopped {ago} {}", self.stopped(*by)),
        }
    }

    /// What can be done about it, if anything has to be.
    #[must_use]
    pub fn way_out(&self) -> Option<String> {
        if let Some(HistoryEntry {
            what: What::StartFailed {
                hint: Some(hint), ..
            },
            ..
        }) = self.turn()
            && matches!(self.status, Status::Failed { .. })
        {
            return Some(hint.clone());
        }
        // Whoever sends to an agent of somebody else says who gets the answer.
        let again = match self.hosted {
            true => format!("pi-agents send {} --continue", self.name),
            false => format!("pi-agents send {} MESSAGE", self.name),
        };
        match &self.status {
            _ if self.closing => None,
            Status::Failed { .. } | Status::Stopped { .. } | Status::Completed => {
                Some(format!("a message starts it again: `{again}`"))
            }
            Status::Running if self.dialogs > 0 => {
                Some("its question can be answered in the dashboard: `pi-agents`".to_owned())
            }
            Status::Queued | Status::Starting | Status::Running | Status::Idle => None,
        }
    }

    /// The entry that made the status what it is.
    fn turn(&self) -> Option<&HistoryEntry> {
        let state = State::of(&self.status);
        let mut changes = self.entries.iter().filter(|e| e.change.is_some());
        changes
            .next()
            .filter(|e| e.change.as_ref().is_some_and(|c| State::of(&c.to) == state))
    }

    fn running(&self) -> String {
        let began = self
            .entries
            .iter()
            .find(|e| matches!(e.what, What::RunBegan) && !e.ignored);
        let run = match began {
            Some(entry) => format!("a run began {}", ago(self.since(entry))),
            None => "its prompt was accepted and a run is about to begin".to_owned(),
        };
        if self.dialogs > 0 {
            return format!("{run}, and an extension waits for an answer");
        }
        let retry = self.entries.iter().find_map(|e| match &e.what {
            What::Retrying {
                attempt,
                max,
                error,
                ..
            } => Some(Some(format!("attempt {attempt} of {max} after: {error}"))),
            What::RetryOver | What::RunBegan | What::RunEnded { .. } => Some(None),
            _ => None,
        });
        match retry.flatten() {
            Some(retry) => format!("{run}, and the provider is asked again, {retry}"),
            None => run,
        }
    }

    fn last_run(&self) -> String {
        match self.turn().map(|e| (&e.what, e)) {
            Some((What::RunEnded { stop, .. }, entry)) => {
                let stopped = entry.did.iter().find_map(|d| match d {
                    Did::RunOver {
                        outcome: crate::fleet::transcript::Outcome::Stopped { by },
                        ..
                    } => Some(by.words()),
                    _ => None,
                });
                match stopped {
                    Some(by) => format!("its run was stopped {by} and it stays"),
                    None if stop == "length" => {
                        "its run completed with a cut answer and it stays".to_owned()
                    }
                    None => "its run completed and it stays".to_owned(),
                }
            }
            Some((What::ChildAnswered { .. }, _)) => {
                "its last message started no run and it stays".to_owned()
            }
            _ => "it has no run".to_owned(),
        }
    }

    fn completed(&self) -> String {
        match self.turn().map(|e| &e.what) {
            Some(What::RunEnded { .. }) => "its run completed and it was not to stay".to_owned(),
            Some(What::Exited { words, .. }) => {
                format!("its idle process ended by itself ({words})")
            }
            _ => match self.recorded.as_ref().map(|r| &r.status) {
                Some(Status::Idle) => {
                    "it was idle when an earlier core ended without ending it".to_owned()
                }
                Some(_) => "under an earlier core, of which only its record is left".to_owned(),
                None => "what led to it is not kept any more".to_owned(),
            },
        }
    }

    fn failed(&self, reason: &str) -> String {
        let Some(turn) = self.turn() else {
            return match self.recorded.as_ref().map(|r| State::of(&r.status)) {
                Some(State::Queued | State::Starting | State::Running) => format!(
                    "an earlier core ended without ending it ({reason}), and nothing is started unasked"
                ),
                Some(_) => format!(
                    "{reason}; that was under an earlier core, of which only its record is left"
                ),
                None => format!("{reason}; what led to it is not kept any more"),
            };
        };
        let from = turn.change.as_ref().and_then(|c| c.from);
        match &turn.what {
            What::RunEnded { stop, .. } if stop == "error" => match provider(reason) {
                Some(words) => format!("{words}: {reason}"),
                None => format!("its provider failed: {reason}"),
            },
            What::RunEnded { stop, .. } => format!("its run ended ({stop}): {reason}"),
            What::StartFailed { .. } => format!("its process could not be started: {reason}"),
            What::Exited { signal, code, .. } => {
                let when = match from {
                    Some(State::Starting) => "while it was starting",
                    Some(State::Running) => "in the middle of a run",
                    _ => "although it was needed",
                };
                match signal {
                    // The reason is not the process's end: it was of no use any more before.
                    _ if reason.starts_with("the process ") => format!("{reason}, {when}"),
                    Some(signal) => {
                        let signal_words = match signal_name(*signal) {
                            Some(name) => format!("signal {signal} ({name})"),
                            None => format!("signal {signal}"),
                        };
                        let last = reason.split_once(": ").map(|(_, last)| last);
                        let last = last.map_or(String::new(), |l| format!(": {l}"));
                        format!(
                            "its process was killed by {signal_words} {when}, not by pi-agents{last}"
                        )
                    }
                    None if code.is_some() => {
                        format!("its process ended by itself {when}: {reason}")
                    }
                    None => format!("its process ended {when}: {reason}"),
                }
            }
            What::ChildAnswered { command, .. } if command == "prompt" => {
                format!("it did not take its first prompt: {reason}")
            }
            What::ChildAnswered { .. }
            | What::TimeUp {
                timer: TimerKind::Start,
            } => {
                format!("its start did not succeed: {reason}")
            }
            _ => reason.to_owned(),
        }
    }

    fn stopped(&self, by: StopCause) -> String {
        let turn = self.turn();
        match by {
            StopCause::You | StopCause::Parent => {
                let by = by.words();
                match (self.stop_asked(), self.took(turn)) {
                    (Some(asked), Some(took)) => format!("{by}: {asked}, {took}"),
                    (Some(asked), None) => format!("{by}: {asked}"),
                    (None, _) if turn.is_some() => {
                        format!("{by}: its run was aborted and it was not to stay")
                    }
                    (None, _) => format!("{by}{}", self.before()),
                }
            }
            StopCause::Cancelled | StopCause::HostGone => {
                format!("{}{}", by.words(), self.before())
            }
            StopCause::Timeout => {
                let limit = self.effective.timeout_ms.map(length);
                let limit = limit.map_or(String::new(), |l| format!(" of {l}"));
                if turn.is_none() {
                    return format!("by its time limit{limit}{}", self.before());
                }
                format!("by its time limit{limit}: the run was not over by then")
            }
            StopCause::Shutdown => format!("on quit: the core was asked to end{}", self.before()),
            StopCause::Child => {
                "by the agent: the child ended its run as aborted, and nobody here asked for that"
                    .to_owned()
            }
        }
    }

    fn before(&self) -> &'static str {
        if self.recorded.is_some() && self.turn().is_none() {
            "; that was under an earlier core, of which only its record is left"
        } else {
            ""
        }
    }

    /// When the stop that holds was asked for.
    fn stop_asked(&self) -> Option<String> {
        let entry = self.stop_entry()?;
        Some(format!("asked for {}", ago(self.since(entry))))
    }

    fn stop_entry(&self) -> Option<&HistoryEntry> {
        self.entries
            .iter()
            // A stop from before the last start is about another process.
            .take_while(|e| !e.did.iter().any(|d| matches!(d, Did::Launched { .. })))
            .filter(|e| matches!(e.what, What::StopAsked { .. }))
            .last()
    }

    /// How its process went after the stop was asked for.
    fn took(&self, turn: Option<&HistoryEntry>) -> Option<String> {
        let (asked, gone) = (self.stop_entry()?, turn?);
        if !matches!(gone.what, What::Exited { .. }) {
            return Some("before it had a process".to_owned());
        }
        let took = length(gone.mono_ms.saturating_sub(asked.mono_ms));
        let forced = self
            .entries
            .iter()
            .filter(|e| e.mono_ms >= asked.mono_ms)
            .flat_map(|e| &e.did)
            .find_map(|did| match did {
                Did::Signalled { signal } => Some(signal),
                _ => None,
            });
        Some(match forced {
            Some(signal) => format!("its process needed {signal} and was gone {took} later"),
            None => format!("its process was gone {took} later"),
        })
    }

    fn since(&self, entry: &HistoryEntry) -> u64 {
        u64::try_from(self.now_ms.saturating_sub(entry.at_ms)).unwrap_or(0)
    }
}

/// What the number in a provider's words means, where it means one thing.
fn provider(reason: &str) -> Option<&'static str> {
    let mut numbers = reason.split(|c: char| !c.is_ascii_digit());
    numbers.find_map(|number| {
        Some(match number {
            "401" => "the provider refused the key (401)",
            "403" => "the provider refused the access (403)",
            "404" => "the provider does not know what was asked for (404)",
            "429" => "the provider took no more requests (429)",
            "500" | "502" | "503" | "504" | "529" => "the provider was out of order",
            _ => return None,
        })
    })
}
