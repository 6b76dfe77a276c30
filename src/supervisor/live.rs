//! The live part of an agent: its transcript and what its row shows of the moment. The child's
//! reader writes it record by record; viewers read it. A flood of records never reaches the
//! machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fleet::live::Live;
use crate::fleet::roster::AgentView;
use crate::fleet::transcript::{EntryKind, Level, Outcome, Reducer, TranscriptLog};
use crate::pi::event::Record;

/// Entries that always stay in memory, whatever their size.
const KEEP_ENTRIES: usize = 8;

/// So far behind the last entry a reply is looked for.
const REPLY_ENTRIES: usize = 256;

/// Transcript and live row of one agent.
#[derive(Debug, Default)]
pub struct AgentLive {
    inner: Mutex<Inner>,
    dirty: AtomicBool,
}

/// What is behind the lock.
#[derive(Debug, Default)]
pub struct Inner {
    /// The conversation.
    pub log: TranscriptLog,
    /// Row parts.
    pub live: Live,
    reducer: Reducer,
}

impl Inner {
    /// Takes in one record of the child.
    pub fn feed(&mut self, record: &Record<'_>, at_ms: i64) {
        self.live.feed(record, at_ms);
        self.reducer.feed(&mut self.log, record, at_ms);
    }

    /// Notes something in the transcript.
    pub fn notice(&mut self, level: Level, text: String, at_ms: i64) {
        self.log.push(at_ms, EntryKind::Notice { level, text });
    }

    /// Freezes the end of a run.
    pub fn run_ended(
        &mut self,
        outcome: Outcome,
        took_ms: u64,
        tokens: u64,
        tool_uses: u64,
        at_ms: i64,
    ) {
        self.reducer
            .run_ended(&mut self.log, outcome, took_ms, tokens, tool_uses, at_ms);
        self.live.run_ended();
    }

    /// Forgets old entries beyond the bound; they stay in the session file.
    pub fn bound(&mut self, max_bytes: usize) {
        self.log.evict(max_bytes, KEEP_ENTRIES);
    }

    /// The text of the model's last answer in the run that goes on or went on last, as far as it has
    /// come. Empty when there is none near the end.
    pub fn reply(&self) -> &str {
        let mut latest = self.log.iter().rev().take(REPLY_ENTRIES);
        latest
            .find_map(|entry| match &entry.kind {
                EntryKind::Text { text, .. } => Some(text.as_str()),
                EntryKind::User { .. } => Some(""),
                EntryKind::Thinking { .. }
                | EntryKind::Tool(_)
                | EntryKind::Notice { .. }
                | EntryKind::Custom { .. }
                | EntryKind::RunEnd { .. } => None,
            })
            .unwrap_or_default()
    }

    /// Fills the live part of a row in.
    pub fn overlay(&self, view: &mut AgentView) {
        self.live.show(view);
    }
}

impl AgentLive {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Locks it. A reader that panicked while writing leaves at worst a half drawn entry.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the row may have changed.
    pub fn touch(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    /// True once after every [`AgentLive::touch`].
    pub fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }
}
