//! The log of entries and its patches. The core keeps one per agent and sends patches; a viewer
//! keeps the same type and applies them. Both ends therefore hold equal transcripts.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::entry::{Entry, EntryKind};

/// A change to one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum EntryChange {
    /// A new entry, or a new state of a known one.
    Put {
        /// The whole entry.
        entry: Entry,
    },
    /// More text at the end of a streaming entry.
    Append {
        /// Which entry.
        seq: u64,
        /// Bytes of text the receiver must already have.
        from: usize,
        /// The new text.
        text: String,
    },
}

/// Changes between two revisions of one transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptPatch {
    /// Revision the receiver must have; with `reset` it is of no account.
    pub since: u64,
    /// Revision it has afterwards.
    pub rev: u64,
    /// Drop everything first.
    pub reset: bool,
    /// Entries before this one are not in memory any more (they are in the session file).
    pub first_seq: u64,
    /// The changes, in order of `seq`.
    pub changes: Vec<EntryChange>,
}

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    entry: Entry,
    /// Revision of the last change of any sort.
    rev: u64,
    /// How long the text was at revisions somebody may be at, newest last, bounded: a receiver at
    /// such a revision gets only the text behind that length.
    marks: VecDeque<Mark>,
}

/// The text had this length from one revision up to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    from: u64,
    to: u64,
    len: usize,
}

/// How many marks a streaming entry keeps; a viewer further behind gets the entry whole.
const MAX_MARKS: usize = 16;
/// How many changes are remembered by entry; a viewer further behind makes a full scan.
const MAX_RECENT: usize = 4096;

/// An append-mostly list of entries with a revision for every change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranscriptLog {
    slots: VecDeque<Slot>,
    first_seq: u64,
    rev: u64,
    bytes: usize,
    /// (revision, entry) of the latest changes; runs on one entry are folded into their last.
    recent: VecDeque<(u64, u64)>,
    /// Revision of the latest patch: only lengths at revisions of patches have to be known.
    patched: u64,
}

impl TranscriptLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of the last change.
    #[must_use]
    pub fn rev(&self) -> u64 {
        self.rev
    }

    /// Sequence number of the first entry in memory.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Sequence number the next entry will get.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.first_seq + self.slots.len() as u64
    }

    /// Entries in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when nothing is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Entries in memory, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.slots.iter().map(|s| &s.entry)
    }

    /// The entry with this sequence number, if it is in memory.
    #[must_use]
    pub fn get(&self, seq: u64) -> Option<&Entry> {
        self.slot(seq).map(|s| &s.entry)
    }

    /// Revision of an entry's last change: a cache of its drawing is good while this stays.
    #[must_use]
    pub fn entry_rev(&self, seq: u64) -> Option<u64> {
        self.slot(seq).map(|s| s.rev)
    }

    fn slot(&self, seq: u64) -> Option<&Slot> {
        let at = usize::try_from(seq.checked_sub(self.first_seq)?).ok()?;
        self.slots.get(at)
    }

    fn slot_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        let at = usize::try_from(seq.checked_sub(self.first_seq)?).ok()?;
        self.slots.get_mut(at)
    }

    /// Adds an entry at the end and returns its sequence number.
    pub fn push(&mut self, at_ms: i64, kind: EntryKind) -> u64 {
        let seq = self.next_seq();
        self.rev += 1;
        self.bytes += weight(&kind);
        self.slots.push_back(Slot {
            entry: Entry { seq, at_ms, kind },
            rev: self.rev,
            marks: VecDeque::new(),
        });
        self.note(seq);
        seq
    }

    fn note(&mut self, seq: u64) {
        match self.recent.back_mut() {
            Some(last) if last.1 == seq => last.0 = self.rev,
            _ => {
                if self.recent.len() == MAX_RECENT {
                    self.recent.pop_front();
                }
                self.recent.push_back((self.rev, seq));
            }
        }
    }

    /// Changes an entry in place. Nothing happens when it is not in memory.
    pub fn update(&mut self, seq: u64, change: impl FnOnce(&mut EntryKind)) {
        let rev = self.rev + 1;
        let Some(slot) = self.slot_mut(seq) else {
            return;
        };
        let before = weight(&slot.entry.kind);
        change(&mut slot.entry.kind);
        let after = weight(&slot.entry.kind);
        slot.rev = rev;
        slot.marks.clear();
        self.rev = rev;
        self.bytes = self.bytes + after - before;
        self.note(seq);
    }

    /// Appends text to a `Text` or `Thinking` entry. Nothing happens for any other.
    pub fn append(&mut self, seq: u64, more: &str) {
        let (rev, patched) = (self.rev + 1, self.patched);
        let Some(slot) = self.slot_mut(seq) else {
            return;
        };
        let (EntryKind::Text { text, .. } | EntryKind::Thinking { text, .. }) =
            &mut slot.entry.kind
        else {
            return;
        };
        if patched >= slot.rev {
            if slot.marks.len() == MAX_MARKS {
                slot.marks.pop_front();
            }
            slot.marks.push_back(Mark {
                from: slot.rev,
                to: rev - 1,
                len: text.len(),
            });
        }
        text.push_str(more);
        slot.rev = rev;
        self.rev = rev;
        self.bytes += more.len();
        self.note(seq);
    }

    /// Forgets the oldest entries until at most `max_bytes` of text are held. The last
    /// `keep` entries always stay. Returns how many went.
    pub fn evict(&mut self, max_bytes: usize, keep: usize) -> usize {
        let mut gone = 0;
        while self.bytes > max_bytes && self.slots.len() > keep {
            if let Some(slot) = self.slots.pop_front() {
                self.bytes -= weight(&slot.entry.kind);
                self.first_seq += 1;
                gone += 1;
            }
        }
        if gone > 0 {
            self.rev += 1;
        }
        gone
    }

    /// What a receiver at revision `since` needs to be equal to this log; `None` = nothing.
    /// `since` must be the `rev` of an earlier patch, or `None` for a receiver with nothing.
    #[must_use]
    pub fn patch_since(&mut self, since: Option<u64>) -> Option<TranscriptPatch> {
        let since = since.filter(|s| *s <= self.rev);
        if since == Some(self.rev) {
            return None;
        }
        let seqs: Vec<u64> = match since {
            Some(since) if self.recent.front().is_some_and(|(rev, _)| *rev <= since) => {
                let mut seqs: Vec<u64> = self
                    .recent
                    .iter()
                    .rev()
                    .take_while(|(rev, _)| *rev > since)
                    .map(|(_, seq)| *seq)
                    .filter(|seq| *seq >= self.first_seq)
                    .collect();
                seqs.sort_unstable();
                seqs.dedup();
                seqs
            }
            _ => (self.first_seq..self.next_seq()).collect(),
        };
        let rev = self.rev;
        self.patched = rev;
        let mut changes = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let Some(slot) = self.slot(seq) else {
                continue;
            };
            if since.is_some_and(|s| slot.rev <= s) {
                continue;
            }
            let (EntryKind::Text { text, .. } | EntryKind::Thinking { text, .. }) =
                &slot.entry.kind
            else {
                changes.push(EntryChange::Put {
                    entry: slot.entry.clone(),
                });
                continue;
            };
            let known = since.and_then(|s| {
                let mut marks = slot.marks.iter().rev();
                marks.find(|m| m.from <= s && s <= m.to).map(|m| m.len)
            });
            match known.and_then(|from| text.get(from..).map(|more| (from, more))) {
                Some((from, more)) => {
                    changes.push(EntryChange::Append {
                        seq,
                        from,
                        text: more.to_owned(),
                    });
                }
                None => changes.push(EntryChange::Put {
                    entry: slot.entry.clone(),
                }),
            }
        }
        Some(TranscriptPatch {
            since: since.unwrap_or(0),
            rev,
            reset: since.is_none(),
            first_seq: self.first_seq,
            changes,
        })
    }

    /// Applies a patch of another log. `false` = it does not fit; ask for a reset.
    #[must_use]
    pub fn apply(&mut self, patch: TranscriptPatch) -> bool {
        if patch.reset {
            *self = Self::default();
            self.first_seq = patch.first_seq;
        } else if patch.since != self.rev {
            return false;
        }
        while self.first_seq < patch.first_seq && !self.slots.is_empty() {
            if let Some(slot) = self.slots.pop_front() {
                self.bytes -= weight(&slot.entry.kind);
            }
            self.first_seq += 1;
        }
        if self.slots.is_empty() {
            self.first_seq = self.first_seq.max(patch.first_seq);
        }
        for change in patch.changes {
            match change {
                EntryChange::Put { entry } => {
                    let seq = entry.seq;
                    if seq == self.next_seq() {
                        self.bytes += weight(&entry.kind);
                        self.slots.push_back(Slot {
                            entry,
                            rev: patch.rev,
                            marks: VecDeque::new(),
                        });
                    } else if let Some(slot) = self.slot_mut(seq) {
                        let before = weight(&slot.entry.kind);
                        let after = weight(&entry.kind);
                        slot.entry = entry;
                        slot.rev = patch.rev;
                        slot.marks.clear();
                        self.bytes = self.bytes + after - before;
                    } else {
                        return false;
                    }
                }
                EntryChange::Append { seq, from, text } => {
                    let Some(slot) = self.slot_mut(seq) else {
                        return false;
                    };
                    let (EntryKind::Text { text: have, .. }
                    | EntryKind::Thinking { text: have, .. }) = &mut slot.entry.kind
                    else {
                        return false;
                    };
                    if have.len() != from {
                        return false;
                    }
                    have.push_str(&text);
                    slot.rev = patch.rev;
                    self.bytes += text.len();
                }
            }
        }
        self.rev = patch.rev;
        true
    }
}

/// Bytes of text an entry holds, plus a flat amount for the entry itself.
fn weight(kind: &EntryKind) -> usize {
    const FLAT: usize = 64;
    FLAT + match kind {
        EntryKind::User { text, .. }
        | EntryKind::Thinking { text, .. }
        | EntryKind::Text { text, .. }
        | EntryKind::Notice { text, .. } => text.len(),
        EntryKind::Tool(tool) => tool.args.len() + tool.output.len() + tool.name.len(),
        EntryKind::Custom { custom_type, text } => custom_type.len() + text.len(),
        EntryKind::RunEnd { .. } => 0,
    }
}
