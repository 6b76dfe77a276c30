//! The journal of one host: what its outbox owes, in a file that survives the core (R-DELIV-05). The format, for
//! people: `docs/journal.md`.
//!
//! What always holds: a record whose [`JournalEvent::Synced`] came is found by the next core, whenever this one dies;
//! a file is only ever a prefix of what was written, or a whole new version; one core has the journal of a host at a
//! time; a file that is not ours is never written over; when the disk fails nothing waits for it, everything is kept,
//! and a whole new file is tried again and again.
//!
//! In the file are names, results and paths, as in the sessions themselves; no environment and no secrets of ours. Its
//! mode is 0600, its folder's 0700.

mod book;
mod file;
mod format;
mod news;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

pub use file::OpenError;
pub use format::VERSION;
pub use news::News;

use crate::fleet::outbox::JournalRecord;
use book::Book;
use file::{Place, Trouble};
use writer::{Disk, Queue, Writer};

/// Events that may wait for the core; the thread waits beyond that. They are few: one per sync.
const EVENTS: usize = 64;

/// Times and sizes.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Pause before the first attempt after a failure.
    pub first_pause: Duration,
    /// Pauses double up to this.
    pub longest_pause: Duration,
    /// A file of at most this many bytes is not compacted.
    pub compact_above: u64,
    /// A disk that takes longer than this counts as failed until it answers.
    pub patience: Duration,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(30),
            compact_above: 64 << 10,
            patience: Duration::from_secs(5),
        }
    }
}

/// What became of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEvent {
    /// Everything up to this record is safe.
    Synced(u64),
    /// The journal cannot be written; why, in one line.
    Failed(String),
    /// It can again, and has everything up to this record. `records`: what was in a file that could not be read before.
    Recovered {
        /// Last record in it.
        seq: u64,
        /// To be restored.
        records: Vec<JournalRecord>,
    },
    /// A file that could not be read before can be, but not written: this was in it.
    Read(Vec<JournalRecord>),
}

/// A journal that is open, and what was in it.
#[derive(Debug)]
pub struct Opened {
    /// The front door.
    pub journal: Journal,
    /// What became of records, in order.
    pub events: mpsc::Receiver<JournalEvent>,
    /// What another core left, to be restored.
    pub records: Vec<JournalRecord>,
    /// What a person should know about the file, one line.
    pub note: Option<String>,
    /// Why it cannot be used now: the outbox works without, and the file is tried again.
    pub failed: Option<String>,
}

/// The front door of a journal.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    patience: Duration,
}

impl Journal {
    /// Takes the journal of `host` (its session id, any text) in `folder`, which is made if it is missing, and reads
    /// it. Blocks for as long as the disk needs. Nothing is written before the first record.
    ///
    /// A disk that fails is no error: see [`Opened::failed`].
    ///
    /// # Errors
    /// [`OpenError`]: this journal is not ours to use, and is left as it is.
    pub fn open(folder: &Path, host: &str, options: JournalOptions) -> Result<Opened, OpenError> {
        let place = Place::new(folder, host)?;
        let path = place.journal();
        let patience = options.patience;
        let (events_in, events) = mpsc::channel(EVENTS);
        let queue = Arc::new(Queue::default());
        let mut writer = Writer {
            book: Book::new(host),
            disk: Disk::bad(None, false, &options),
            options,
            queue: Arc::clone(&queue),
            events: events_in,
            seq: 0,
            compact_above: 0,
            place,
        };
        let mut records = Vec::new();
        let mut note = None;
        let mut failed = match start(&mut writer) {
            Ok((found, said)) => {
                records = found;
                note = said;
                None
            }
            Err(Trouble::Open(error)) => return Err(error),
            Err(trouble) => Some(trouble.to_string()),
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run());
        let thread = thread
            .map_err(|error: io::Error| failed = Some(format!("cannot start a thread: {error}")))
            .ok();
        Ok(Opened {
            journal: Self {
                queue,
                thread,
                path,
                patience,
            },
            events,
            records,
            note,
            failed,
        })
    }

    /// Hands over a record. Never waits for the disk. What waits is bounded by what the outbox itself holds: while the
    /// disk is silent nothing is offered, so nothing ends.
    pub fn append(&self, seq: u64, record: JournalRecord) {
        if self.thread.is_some() {
            self.queue.push(seq, record);
        }
    }

    /// What becomes of records, with the limit of [`JournalOptions::patience`]. `failed`: it could not be used
    /// when it was opened.
    #[must_use]
    pub fn follow(&self, events: mpsc::Receiver<JournalEvent>, failed: bool) -> News {
        News::new(Arc::clone(&self.queue), events, self.patience, failed)
    }

    /// Where the file lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is queued, lets go of the file and waits for that. A journal of a host that is owed nothing is
    /// removed. The events go with it, so that the thread waits for nobody.
    pub fn close(mut self, events: mpsc::Receiver<JournalEvent>) {
        drop(events);
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    /// Like [`Journal::close`], without waiting.
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Locks and reads the file.
fn start(writer: &mut Writer) -> Result<(Vec<JournalRecord>, Option<String>), Trouble> {
    let lock = writer.place.lock()?;
    let contents = match writer.place.read() {
        Ok(contents) => contents,
        Err(trouble) => {
            writer.disk = Disk::bad(Some(lock), false, &writer.options);
            return Err(trouble);
        }
    };
    for record in &contents.records {
        writer.book.add(record);
    }
    // A file with a torn or damaged part is written anew with the first record.
    let file = match contents.clean {
        true => writer.place.appender(contents.size).ok(),
        false => None,
    };
    writer.disk = Disk::Good(lock, file);
    Ok((contents.records, contents.note))
}
