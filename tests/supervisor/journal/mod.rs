//! Tests of the journal: real files, real kills, disks that fail.

mod damage;
mod disks;
mod files;
mod format;
mod history;
mod kills;
mod outbox;

use std::path::Path;
use std::time::Duration;

use pi_agents::fleet::outbox::JournalRecord;
use pi_agents::supervisor::journal::{Journal, JournalEvent, JournalOptions, OpenError, Opened};

use crate::support::wait::wait_for;

pub const HOST: &str = "0192f0c1-2b3c-7d4e-8f50-000000000001";

/// A folder of our own that only we may enter, as a journal wants it.
pub fn temp() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o700);
    let mut builder = tempfile::Builder::new();
    builder.permissions(mode).tempdir().unwrap()
}

/// Quick to try again; never compacts.
pub fn options() -> JournalOptions {
    JournalOptions {
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        compact_above: u64::MAX,
        patience: Duration::from_secs(60),
    }
}

pub fn try_open(dir: &Path) -> Result<Opened, OpenError> {
    Journal::open(dir, HOST, options())
}

#[track_caller]
pub fn open(dir: &Path) -> Opened {
    try_open(dir).unwrap()
}

/// A journal that works.
#[track_caller]
pub fn open_good(dir: &Path) -> Opened {
    let opened = open(dir);
    assert_eq!(opened.failed, None);
    opened
}

#[track_caller]
pub fn event(opened: &mut Opened) -> JournalEvent {
    wait_for("an event of the journal", || opened.events.try_recv().ok())
}

#[track_caller]
pub fn append(opened: &mut Opened, seq: u64, record: JournalRecord) {
    opened.journal.append(seq, record);
    assert_eq!(event(opened), JournalEvent::Synced(seq));
}

/// Writes these records and closes.
#[track_caller]
pub fn written(dir: &Path, records: &[JournalRecord]) {
    let mut opened = open_good(dir);
    for (seq, record) in (1..).zip(records) {
        append(&mut opened, seq, record.clone());
    }
    opened.journal.close(opened.events);
}

/// Opens, takes what is there, closes.
#[track_caller]
pub fn found(dir: &Path) -> Vec<JournalRecord> {
    let opened = open_good(dir);
    opened.journal.close(opened.events);
    opened.records
}

/// Until it works again; everything that was in a file that could not be read.
#[track_caller]
pub fn recovered(opened: &mut Opened) -> (u64, Vec<JournalRecord>) {
    loop {
        match event(opened) {
            JournalEvent::Recovered { seq, records } => return (seq, records),
            JournalEvent::Failed(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
