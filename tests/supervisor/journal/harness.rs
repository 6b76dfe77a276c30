//! A program for the tests of journals: a writer that can be killed, and writers on a disk that fails.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod history;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pi_agents::supervisor::journal::{Journal, JournalEvent, JournalOptions, Opened};

const HOST: &str = "harness";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["write", dir] => write(Path::new(dir)),
        ["full", dir] => full(Path::new(dir)),
        ["read-only", dir] => read_only(Path::new(dir)),
        ["limited", dir] => limited(Path::new(dir)),
        ["forbidden", dir] => forbidden(Path::new(dir)),
        ["broken", dir] => broken(Path::new(dir)),
        ["silent", dir] => silent(Path::new(dir)),
        other => panic!("what is {other:?}?"),
    }
}

fn options() -> JournalOptions {
    JournalOptions {
        first_pause: Duration::from_millis(2),
        longest_pause: Duration::from_millis(20),
        compact_above: 4 << 10,
        patience: Duration::from_millis(200),
    }
}

fn open(dir: &Path) -> Opened {
    let opened = try_open(dir);
    assert_eq!(opened.failed, None);
    opened
}

fn try_open(dir: &Path) -> Opened {
    Journal::open(dir, HOST, options()).unwrap()
}

/// Writes the history for ever; says the number of each record that is safe.
fn write(dir: &Path) {
    let mut opened = open(dir);
    let mut stdout = std::io::stdout();
    let mut seq = 0;
    let mut safe = 0;
    loop {
        while seq < safe + 20 {
            seq += 1;
            opened.journal.append(seq, history::record(seq));
        }
        match opened.events.blocking_recv().unwrap() {
            JournalEvent::Synced(upto) => {
                safe = upto;
                writeln!(stdout, "{safe}").unwrap();
                stdout.flush().unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Appends this record and says what came of it.
fn append(opened: &mut Opened, seq: u64) -> JournalEvent {
    opened.journal.append(seq, history::record(seq));
    opened.events.blocking_recv().unwrap()
}

/// The journal as the next core finds it has the first `upto` records.
fn check(opened: Opened, dir: &Path, upto: u64) {
    opened.journal.close(opened.events);
    let again = open(dir);
    assert_eq!(again.failed, None);
    let found = history::owed(again.records);
    assert_eq!(found, history::owed((1..=upto).map(history::record)));
    println!("good");
}

fn recovered(opened: &mut Opened) -> u64 {
    loop {
        match opened.events.blocking_recv().unwrap() {
            JournalEvent::Recovered { seq, .. } => return seq,
            JournalEvent::Failed(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// `dir` is a small disk of its own.
fn full(dir: &Path) {
    let journals = dir.join("journals");
    let mut opened = open(&journals);
    let mut seq = 0;
    for _ in 0..14 {
        seq += 1;
        assert_eq!(append(&mut opened, seq), JournalEvent::Synced(seq));
    }
    let filler = dir.join("filler");
    fill(&filler);
    let failed = loop {
        seq += 1;
        match append(&mut opened, seq) {
            JournalEvent::Synced(_) => assert!(seq < 10_000, "the disk is never full"),
            JournalEvent::Failed(why) => break why,
            other => panic!("{other:?}"),
        }
    };
    assert!(failed.contains("No space left"), "{failed}");
    // What was safe stays safe while the disk is full, for whoever reads it now.
    let copy = std::fs::read(opened.journal.path()).unwrap();
    assert!(copy.len() > 100);
    for _ in 0..30 {
        seq += 1;
        opened.journal.append(seq, history::record(seq));
    }
    std::fs::remove_file(filler).unwrap();
    while recovered(&mut opened) < seq {}
    seq += 1;
    assert_eq!(append(&mut opened, seq), JournalEvent::Synced(seq));
    check(opened, &journals, seq);
}

fn fill(filler: &PathBuf) {
    let mut file = std::fs::File::create(filler).unwrap();
    for size in [4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

/// `dir` is a mount of its own.
fn read_only(dir: &Path) {
    let remount = |how: &str| {
        let status = Command::new("mount")
            .args(["-o", how])
            .arg(dir)
            .status()
            .unwrap();
        assert!(status.success());
    };
    let mut opened = open(dir);
    assert_eq!(append(&mut opened, 1), JournalEvent::Synced(1));
    assert_eq!(append(&mut opened, 2), JournalEvent::Synced(2));
    opened.journal.close(opened.events);
    remount("remount,bind,ro");
    let mut opened = try_open(dir);
    let why = opened.failed.clone().unwrap();
    assert!(why.contains("Read-only"), "{why}");
    opened.journal.append(3, history::record(4));
    remount("remount,bind,rw");
    let JournalEvent::Recovered { seq, records } = opened.events.blocking_recv().unwrap() else {
        panic!("not recovered");
    };
    assert_eq!(records.len(), 2, "what could not be read before");
    if seq < 3 {
        let synced = opened.events.blocking_recv();
        assert_eq!(synced, Some(JournalEvent::Synced(3)));
    }
    opened.journal.close(opened.events);
    let again = open(dir);
    let wanted = [1, 2, 4].map(history::record);
    assert_eq!(history::owed(again.records), history::owed(wanted));
    println!("good");
}

/// The process may write files of a few kilobytes only; this lifts it.
fn limited(dir: &Path) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut opened = open(dir);
    let mut seq = 0;
    loop {
        seq += 1;
        match append(&mut opened, seq) {
            JournalEvent::Synced(upto) => assert_eq!(upto, seq),
            JournalEvent::Failed(why) => {
                assert!(why.contains("File too large"), "{why}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = maximum;
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    assert_eq!(recovered(&mut opened), seq);
    check(opened, dir, seq);
}

/// The folder belongs to somebody else, who lets us in only after a while; we are not the one who may
/// everything.
fn forbidden(dir: &Path) {
    let journals = dir.join("closed/journals");
    let mut opened = try_open(&journals);
    let why = opened.failed.clone().unwrap();
    assert!(why.contains("Permission denied"), "{why}");
    opened.journal.append(1, history::record(1));
    // Whoever may is asked through a file.
    std::fs::write(dir.join("ask/let-us-in"), "").unwrap();
    assert!(recovered(&mut opened) <= 1);
    check_from(opened, &journals, 1);
}

fn check_from(mut opened: Opened, dir: &Path, seq: u64) {
    let next = seq + 1;
    opened.journal.append(next, history::record(next));
    loop {
        match opened.events.blocking_recv().unwrap() {
            JournalEvent::Synced(upto) if upto == next => break,
            JournalEvent::Synced(_) | JournalEvent::Recovered { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    check(opened, dir, next);
}

/// What the disk of this process does from now on.
fn disk(does: &str) {
    let path = PathBuf::from(std::env::var_os("BAD_DISK").unwrap());
    let new = path.with_extension("new");
    std::fs::write(&new, does).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Broken hardware: writes are taken and never arrive.
fn broken(dir: &Path) {
    let mut opened = open(dir);
    assert_eq!(append(&mut opened, 1), JournalEvent::Synced(1));
    disk("error");
    let JournalEvent::Failed(why) = append(&mut opened, 2) else {
        panic!("what never arrived is called safe");
    };
    assert!(why.contains("Input/output error"), "{why}");
    let failed = std::fs::metadata(opened.journal.path()).unwrap();
    opened.journal.append(3, history::record(3));
    disk("good");
    while recovered(&mut opened) < 3 {}
    // A file whose sync failed is not trusted again, whatever its next sync says.
    use std::os::unix::fs::MetadataExt;
    let now = std::fs::metadata(opened.journal.path()).unwrap();
    assert_ne!(failed.ino(), now.ino(), "the same file");
    check(opened, dir, 3);
}

/// A disk that takes as long as it likes: it counts as failed meanwhile, and nothing is written twice.
fn silent(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let Opened {
        journal, events, ..
    } = open(dir);
    let mut news = journal.follow(events, false);
    let mut next = || runtime.block_on(news.next()).unwrap();
    journal.append(1, history::record(1));
    assert_eq!(next(), JournalEvent::Synced(1));
    disk("hang");
    journal.append(2, history::record(2));
    let JournalEvent::Failed(why) = next() else {
        panic!("waits for ever");
    };
    assert!(why.contains("has not answered"), "{why}");
    journal.append(3, history::record(3));
    disk("good");
    let JournalEvent::Recovered { seq, records } = next() else {
        panic!("its late answer is not heard");
    };
    assert!(records.is_empty());
    if seq < 3 {
        assert_eq!(next(), JournalEvent::Synced(3));
    }
    journal.append(4, history::record(4));
    assert_eq!(next(), JournalEvent::Synced(4));
    drop(news);
    journal.close(tokio::sync::mpsc::channel(1).1);
    let again = open(dir);
    let found = history::owed(again.records);
    assert_eq!(found, history::owed((1..=4).map(history::record)));
    println!("good");
}
