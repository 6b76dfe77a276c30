//! The account of one agent and its bounds. What is dropped first is what tells least: chatter of the
//! child before its runs, its runs before requests, failures and ends.

use std::collections::VecDeque;

use super::{Asked, Did, HistoryEntry, Recorded, What};
use crate::fleet::agent::Status;
use crate::fleet::ids::InstanceId;
use crate::fleet::transcript::Outcome;

/// Most entries of an agent.
pub const MAX_ENTRIES: usize = 200;
/// Most bytes of an agent's entries, as they are sent.
pub const MAX_BYTES: usize = 64 * 1024;
/// The newest entries stay, whatever they tell, within half of the bytes.
const RECENT: usize = 24;

/// How much an entry tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Nothing changed by it; repeated ones are one entry with a count.
    Chatter,
    /// The ordinary course of things.
    Course,
    /// Requests, failures, ends.
    Telling,
}

#[derive(Debug)]
struct Kept {
    entry: HistoryEntry,
    weight: Weight,
    bytes: usize,
}

impl Kept {
    fn new(entry: HistoryEntry) -> Self {
        Self {
            weight: weight(&entry),
            bytes: bytes(&entry),
            entry,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AgentHistory {
    pub(super) asked: Option<Asked>,
    pub(super) recorded: Option<Recorded>,
    /// Status after the last entry.
    pub(super) status: Option<Status>,
    /// Processes so far.
    pub(super) launched: u32,
    /// The last of them, oldest first.
    pub(super) processes: VecDeque<InstanceId>,
    pub(super) left_out: u64,
    entries: VecDeque<Kept>,
    bytes: usize,
}

impl AgentHistory {
    pub(super) fn push(&mut self, mut entry: HistoryEntry) {
        if weight(&entry) == Weight::Chatter
            && let Some(at) = self.repeated(&entry)
            && let Some(before) = self.entries.remove(at)
        {
            self.bytes -= before.bytes;
            entry.count = before.entry.count.saturating_add(1);
            entry.first_ms = before.entry.first_ms;
        }
        let kept = Kept::new(entry);
        self.bytes += kept.bytes;
        self.entries.push_back(kept);
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some(dropped) = self.entries.remove(self.least()) else {
                return;
            };
            self.bytes -= dropped.bytes;
            self.left_out = self.left_out.saturating_add(dropped.entry.count);
        }
    }

    pub(super) fn newest_first(&self) -> Vec<HistoryEntry> {
        let newest = self.entries.iter().rev();
        newest.map(|kept| kept.entry.clone()).collect()
    }

    /// One of the same kind since the last entry that tells something.
    fn repeated(&self, entry: &HistoryEntry) -> Option<usize> {
        for (at, kept) in self.entries.iter().enumerate().rev() {
            if kept.weight != Weight::Chatter {
                return None;
            }
            if alike(&kept.entry, entry) {
                return Some(at);
            }
        }
        None
    }

    /// The oldest of those that tell least, the newest ones left aside.
    fn least(&self) -> usize {
        let mut bytes = 0;
        let recent = self
            .entries
            .iter()
            .rev()
            .take(RECENT)
            .take_while(|kept| {
                bytes += kept.bytes;
                bytes <= MAX_BYTES / 2
            })
            .count();
        let old = self.entries.len().saturating_sub(recent.max(1));
        let candidates = self.entries.iter().take(old).enumerate();
        candidates
            .min_by_key(|(at, kept)| (kept.weight, *at))
            .map_or(0, |(at, _)| at)
    }
}

/// The size of an entry on its way to whoever asks.
fn bytes(entry: &HistoryEntry) -> usize {
    serde_json::to_string(entry).map_or(0, |text| text.len())
}

/// Of the same kind, about the same process.
fn alike(a: &HistoryEntry, b: &HistoryEntry) -> bool {
    let same = match (&a.what, &b.what) {
        (
            What::ChildAnswered {
                command: a, ok: x, ..
            },
            What::ChildAnswered {
                command: b, ok: y, ..
            },
        ) => (a, x) == (b, y),
        (What::TimeUp { timer: a }, What::TimeUp { timer: b }) => a == b,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    same && (a.process, a.ignored) == (b.process, b.ignored)
}

fn weight(entry: &HistoryEntry) -> Weight {
    if entry.ignored {
        return Weight::Chatter;
    }
    let ended = |status: &Status| {
        matches!(
            status,
            Status::Completed | Status::Failed { .. } | Status::Stopped { .. }
        )
    };
    let telling = match &entry.what {
        What::SpawnAsked { .. }
        | What::StopAsked { .. }
        | What::CallTakenBack
        | What::HostLeft { .. }
        | What::AbortAsked
        | What::ShutdownAsked
        | What::StartFailed { .. }
        | What::WriteFailed
        | What::OutputEnded
        | What::Exited { .. } => true,
        What::MessageAsked { .. }
        | What::HostJoined
        | What::HostNews
        | What::RunCutOff
        | What::ToParent { .. }
        | What::SlotFree
        | What::Elsewhere
        | What::Started { .. }
        | What::ChildAnswered { .. }
        | What::RunBegan
        | What::RunEnded { .. }
        | What::StraySettled
        | What::CompactionBegan
        | What::CompactionEnded
        | What::ModelRead { .. }
        | What::QueueChanged { .. }
        | What::DialogOpened { .. }
        | What::Retrying { .. }
        | What::RetryOver
        | What::ExtensionFailed { .. }
        | What::Swept { .. }
        | What::TimeUp { .. }
        | What::Unknown => entry.change.as_ref().is_some_and(|c| ended(&c.to)),
    };
    let done = entry.did.iter().map(did_weight).max();
    if telling || done == Some(Weight::Telling) {
        Weight::Telling
    } else if entry.change.is_some()
        || done == Some(Weight::Course)
        || matches!(
            entry.what,
            What::MessageAsked { .. } | What::Started { .. } | What::Swept { .. }
        )
    {
        Weight::Course
    } else {
        Weight::Chatter
    }
}

fn did_weight(did: &Did) -> Weight {
    match did {
        Did::Answered { error: Some(_), .. } | Did::ClosedInput | Did::Signalled { .. } => {
            Weight::Telling
        }
        Did::RunOver { outcome, .. } => match outcome {
            Outcome::Completed { .. } => Weight::Course,
            // How a run ended that nobody here ended is up to the child, and it can do so at will.
            Outcome::Stopped { .. } => Weight::Course,
            Outcome::Failed { .. } => Weight::Telling,
        },
        Did::Launched { .. } | Did::Answered { .. } | Did::Noted { .. } => Weight::Course,
        // The child can bring these about as often as it likes.
        Did::Wrote { .. } | Did::More { .. } | Did::Unknown => Weight::Chatter,
    }
}
