//! The thread that writes: takes what is queued, appends it, syncs once, says so. When the disk fails it keeps
//! everything and tries again with growing pauses, each time with a whole new file.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::book::Book;
use super::file::{Appender, Place, Trouble};
use super::{JournalEvent, JournalOptions};
use crate::fleet::outbox::JournalRecord;
use crate::sys::lock::FileLock;

/// What the core hands to the thread.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<Queued>,
    changed: Condvar,
    /// Rung when something begins to wait for the disk.
    pub(super) waits: Notify,
}

#[derive(Debug, Default)]
struct Queued {
    records: Vec<(u64, JournalRecord)>,
    closing: bool,
    /// Since when the oldest record waits for the disk.
    since: Option<Instant>,
}

impl Queue {
    fn locked(&self) -> MutexGuard<'_, Queued> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, seq: u64, record: JournalRecord) {
        let mut state = self.locked();
        state.records.push((seq, record));
        let first = state.since.is_none();
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_one();
        if first {
            self.waits.notify_one();
        }
    }

    /// Since when something waits for the disk.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.locked().since
    }

    /// The disk is done with what was taken from here.
    fn done(&self) {
        let mut state = self.locked();
        state.since = (!state.records.is_empty()).then(Instant::now);
        if state.since.is_some() {
            self.waits.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.locked().closing = true;
        self.changed.notify_one();
    }

    /// Waits for records, for the end, or until `until`.
    fn next(&self, until: Option<Instant>) -> (Vec<(u64, JournalRecord)>, bool) {
        let mut state = self.locked();
        while state.records.is_empty() && !state.closing {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        (std::mem::take(&mut state.records), state.closing)
    }
}

/// The state of the file.
#[derive(Debug)]
pub(super) enum Disk {
    /// Ours to write; `None` = there is no file yet.
    Good(FileLock, Option<Appender>),
    /// It failed.
    Bad {
        /// Held already.
        lock: Option<FileLock>,
        /// What was in the file is in the book.
        was_read: bool,
        again: Instant,
        pause: Duration,
    },
}

impl Disk {
    pub(super) fn bad(lock: Option<FileLock>, was_read: bool, options: &JournalOptions) -> Self {
        Self::Bad {
            lock,
            was_read,
            again: Instant::now() + options.first_pause,
            pause: options.first_pause,
        }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) place: Place,
    pub(super) book: Book,
    pub(super) disk: Disk,
    pub(super) options: JournalOptions,
    pub(super) queue: Arc<Queue>,
    pub(super) events: mpsc::Sender<JournalEvent>,
    /// Last record taken in.
    pub(super) seq: u64,
    /// No new compaction below this size, because the last one failed.
    pub(super) compact_above: u64,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        loop {
            let until = match &self.disk {
                Disk::Good(..) => None,
                Disk::Bad { again, .. } => Some(*again),
            };
            let (records, closing) = self.queue.next(until);
            let mut lines = Vec::new();
            for (seq, record) in &records {
                self.seq = *seq;
                lines.extend(self.book.add(record).into_iter().flatten());
            }
            let due = until.is_some_and(|again| closing || again <= Instant::now());
            if until.is_none() && !records.is_empty() {
                self.write(&lines);
            } else if due {
                self.recover();
            }
            if closing && records.is_empty() {
                return self.end();
            }
        }
    }

    /// The book has these lines already.
    fn write(&mut self, lines: &[u8]) {
        let Disk::Good(lock, file) = &mut self.disk else {
            return;
        };
        let written = match file {
            _ if lines.is_empty() => Ok(()),
            Some(open) if open.is_intact() => open.append(lines),
            _ if !lock.is_in_place() => Err(Trouble::LockLost),
            missing_or_replaced => self
                .place
                .rewrite(&self.book)
                .map(|new| *missing_or_replaced = Some(new)),
        };
        match written {
            Ok(()) => {
                self.tell(JournalEvent::Synced(self.seq));
                self.compact();
            }
            Err(trouble) => {
                let good = std::mem::replace(&mut self.disk, Disk::bad(None, true, &self.options));
                if let (Disk::Good(held, _), Disk::Bad { lock, .. }) = (good, &mut self.disk) {
                    *lock = Some(held);
                }
                self.tell(JournalEvent::Failed(trouble.to_string()));
            }
        }
    }

    /// Writes the file anew when more than half of it is dead. If that fails the old file is as good as before.
    fn compact(&mut self) {
        let Disk::Good(_, Some(file)) = &mut self.disk else {
            return;
        };
        let floor = self.compact_above.max(self.options.compact_above);
        if file.size <= floor || file.size / 2 <= self.book.bytes() {
            return;
        }
        match self.place.rewrite(&self.book) {
            Ok(new) => {
                *file = new;
                self.compact_above = 0;
            }
            Err(error) => {
                tracing::warn!(%error, "journal not compacted");
                self.compact_above = file.size.saturating_mul(2);
            }
        }
    }

    fn recover(&mut self) {
        let Disk::Bad {
            lock,
            was_read,
            pause,
            ..
        } = &mut self.disk
        else {
            return;
        };
        let mut records = Vec::new();
        let outcome = (|| {
            // A lock that nobody can see excludes nobody.
            *lock = lock.take().filter(FileLock::is_in_place);
            if lock.is_none() {
                *lock = Some(self.place.lock()?);
            }
            if !*was_read {
                let contents = self.place.read()?;
                let book = std::mem::replace(&mut self.book, Book::new(&self.place.host));
                self.book = book.after(&contents.records);
                records = contents.records;
                *was_read = true;
            }
            self.place.rewrite(&self.book)
        })();
        let (pause, seq) = (*pause, self.seq);
        match outcome {
            Ok(file) => {
                if let Some(lock) = lock.take() {
                    self.disk = Disk::Good(lock, Some(file));
                }
                self.tell(JournalEvent::Recovered { seq, records });
            }
            Err(error) => {
                let pause = pause.saturating_mul(2).min(self.options.longest_pause);
                tracing::debug!(%error, ?pause, "journal still cannot be written");
                if let Disk::Bad {
                    again, pause: next, ..
                } = &mut self.disk
                {
                    *again = Instant::now() + pause;
                    *next = pause;
                }
                if !records.is_empty() {
                    self.tell(JournalEvent::Read(records));
                }
            }
        }
    }

    /// Nobody owed anything any more: no file is left behind.
    fn end(self) {
        if let Disk::Good(lock, _) = self.disk
            && self.book.is_empty()
        {
            self.place.remove();
            let _ = lock.remove();
        }
    }

    fn tell(&self, event: JournalEvent) {
        self.queue.done();
        // Nobody listens any more when the core ends; what is queued is written all the same.
        let _ = self.events.blocking_send(event);
    }
}
