//! The file in its life: locks, modes, names, sizes, other people's hands.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pi_agents::fleet::outbox::{Ending, JournalRecord};
use pi_agents::supervisor::journal::{Journal, JournalEvent, JournalOptions};

use super::history::{id, owed, record, settled};
use super::{HOST, append, event, found, open, open_good, options, recovered, try_open, written};

fn path(dir: &Path) -> PathBuf {
    dir.join(format!("{HOST}.jsonl"))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn ended(run: u64) -> JournalRecord {
    JournalRecord::Ended {
        id: id(run).into(),
        how: Ending::Acked,
    }
}

#[test]
fn two_deliverers_of_one_session_are_one_too_many() {
    // R-DELIV-05
    let dir = super::temp();
    let first = open_good(dir.path());
    let error = try_open(dir.path()).unwrap_err().to_string();
    let me = format!("process {}", std::process::id());
    assert!(error.contains(HOST) && error.contains(&me), "{error}");
    assert!(Journal::open(dir.path(), "other", options()).is_ok());
    first.journal.close(first.events);
    open_good(dir.path());
}

#[test]
fn only_the_user_may_read_it() {
    // R-Q-03
    let dir = super::temp();
    let dir = dir.path().join("a/b");
    written(&dir, &[record(2)]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&path(&dir)), 0o600);
    assert_eq!(mode(&dir.join(format!("{HOST}.lock"))), 0o600);
}

#[test]
fn a_host_that_is_owed_nothing_leaves_nothing_behind() {
    // no file per session for ever
    let dir = super::temp();
    let mut opened = open_good(dir.path());
    assert_eq!(
        names(dir.path()),
        [format!("{HOST}.lock")],
        "nothing to write yet"
    );
    append(&mut opened, 1, record(1));
    append(&mut opened, 2, ended(0));
    opened.journal.close(opened.events);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn many_records_share_one_sync() {
    // R-DELIV-05
    let dir = super::temp();
    let mut opened = open_good(dir.path());
    let last = 20_000;
    for seq in 1..=last {
        opened.journal.append(seq, record(seq));
    }
    let mut syncs = 0;
    let mut safe = 0;
    while safe < last {
        let JournalEvent::Synced(upto) = event(&mut opened) else {
            panic!("it failed");
        };
        assert!(upto > safe);
        safe = upto;
        syncs += 1;
    }
    assert!(syncs < last, "one sync each");
    opened.journal.close(opened.events);
    assert_eq!(owed(found(dir.path())), owed((1..=last).map(record)));
}

#[test]
fn a_file_of_the_dead_is_written_anew() {
    // R-DELIV-05: bounded by what is owed
    let dir = super::temp();
    let options = JournalOptions {
        compact_above: 8 << 10,
        ..options()
    };
    let mut opened = Journal::open(dir.path(), HOST, options).unwrap();
    append(&mut opened, 1, settled(1_000_000, "stays"));
    let mut seq = 1;
    let mut largest = 0;
    for run in 0..300 {
        for record in [settled(run, &"x".repeat(900)), ended(run)] {
            seq += 1;
            append(&mut opened, seq, record);
        }
        largest = largest.max(std::fs::metadata(path(dir.path())).unwrap().len());
    }
    assert!(
        largest < 12 << 10,
        "{largest} bytes of 300 kilobytes written"
    );
    opened.journal.close(opened.events);
    let found = found(dir.path());
    assert_eq!(owed(found.clone()), owed([settled(1_000_000, "stays")]));
    assert!(found.len() < 30);
}

#[test]
fn a_file_that_somebody_took_away_is_made_again() {
    // R-DELIV-05: everything that is owed, not only what is new
    type Hand = fn(&Path);
    let hands: [(&str, Hand); 5] = [
        ("removed", |dir| std::fs::remove_file(path(dir)).unwrap()),
        ("emptied", |dir| std::fs::write(path(dir), "").unwrap()),
        ("longer", |dir| {
            let mut text = std::fs::read(path(dir)).unwrap();
            text.extend(b"x");
            std::fs::write(path(dir), text).unwrap();
        }),
        ("replaced", |dir| {
            std::fs::remove_file(path(dir)).unwrap();
            std::fs::write(path(dir), "y").unwrap();
        }),
        ("a link", |dir| {
            std::fs::rename(path(dir), dir.join("elsewhere")).unwrap();
            std::os::unix::fs::symlink("elsewhere", path(dir)).unwrap();
        }),
    ];
    for (what, hand) in hands {
        let dir = super::temp();
        let mut opened = open_good(dir.path());
        append(&mut opened, 1, settled(1, "one"));
        hand(dir.path());
        append(&mut opened, 2, settled(2, "two"));
        opened.journal.close(opened.events);
        let wanted = [settled(1, "one"), settled(2, "two")];
        assert_eq!(found(dir.path()), wanted, "{what}");
    }
}

#[test]
fn a_folder_that_was_removed_is_made_again_with_its_lock() {
    // R-DELIV-05
    let dir = super::temp();
    let dir = dir.path().join("journals");
    let mut opened = open_good(&dir);
    append(&mut opened, 1, settled(1, "one"));
    std::fs::remove_dir_all(&dir).unwrap();
    opened.journal.append(2, settled(2, "two"));
    assert_eq!(recovered(&mut opened), (2, vec![]));
    assert!(try_open(&dir).is_err(), "it is held again");
    opened.journal.close(opened.events);
    assert_eq!(found(&dir), [settled(1, "one"), settled(2, "two")]);
}

#[test]
fn a_lock_that_was_removed_lets_nobody_write_over_the_next_holder() {
    // R-DELIV-05: one deliverer
    let dir = super::temp();
    let mut first = open_good(dir.path());
    append(&mut first, 1, settled(1, "one"));
    std::fs::remove_file(dir.path().join(format!("{HOST}.lock"))).unwrap();
    let mut second = open_good(dir.path());
    append(&mut second, 1, settled(2, "two"));
    first.journal.append(2, settled(3, "three"));
    assert!(matches!(event(&mut first), JournalEvent::Failed(_)));
    append(&mut second, 2, settled(4, "four"));
    // Waited for: it tries for the lock again and again as long as it lives.
    first.journal.close(first.events);
    second.journal.close(second.events);
    let wanted = [(1, "one"), (2, "two"), (4, "four")].map(|(n, text)| settled(n, text));
    assert_eq!(found(dir.path()), wanted);
}

#[test]
fn any_session_id_has_a_file_of_its_own_in_the_folder() {
    // R-DELIV-05, R-Q-03: an id is text of others
    let long = "x".repeat(5000);
    let longer = "x".repeat(5001);
    let ids = [
        "a",
        "A",
        "ä",
        "a/b",
        "../a",
        "..",
        ".",
        "/",
        "a\0b",
        "a\nb",
        "%41",
        "a.jsonl",
        " ",
        "~",
        "a%2fb",
        &long,
        &longer,
        "\u{202e}a",
    ];
    let dir = super::temp();
    let folder = dir.path().join("journals");
    let mut open = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        let mut opened = Journal::open(&folder, id, options()).unwrap();
        assert_eq!((&opened.failed, opened.records.len()), (&None, 0), "{id:?}");
        append(&mut opened, 1, settled(n as u64, id));
        open.push(opened);
    }
    let mut paths: Vec<_> = open.iter().map(|o| o.journal.path().to_owned()).collect();
    for path in &paths {
        assert_eq!(path.parent(), Some(folder.as_path()), "{}", path.display());
        assert!(path.is_file());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.len() < 140 && name.is_ascii() && !name.starts_with('.'),
            "{name}"
        );
    }
    paths.sort_by_key(|path| path.to_string_lossy().to_lowercase());
    paths.dedup_by_key(|path| path.to_string_lossy().to_lowercase());
    assert_eq!(paths.len(), ids.len());
    assert_eq!(names(dir.path()), ["journals"]);
    for opened in open {
        opened.journal.close(opened.events);
    }
    for (n, id) in ids.iter().enumerate() {
        let opened = Journal::open(&folder, id, options()).unwrap();
        assert_eq!(opened.records, [settled(n as u64, id)]);
    }
    assert!(Journal::open(&folder, "", options()).is_err());
}

#[test]
fn something_else_at_the_place_of_the_file_is_left_alone_until_it_goes() {
    // R-DELIV-05: obstacles that hold for root, too
    type Obstacle = fn(&Path);
    let obstacles: [(&str, Obstacle); 3] = [
        ("folder", |path| std::fs::create_dir(path).unwrap()),
        ("link", |path| {
            std::os::unix::fs::symlink("/nowhere", path).unwrap()
        }),
        ("fifo", |path| {
            let status = std::process::Command::new("mkfifo").arg(path).status();
            assert!(status.unwrap().success());
        }),
    ];
    for (what, obstacle) in obstacles {
        let dir = super::temp();
        obstacle(&path(dir.path()));
        let mut opened = open(dir.path());
        let why = opened.failed.clone().unwrap();
        assert!(why.contains(HOST), "{what}: {why}");
        opened.journal.append(1, record(2));
        match what {
            "folder" => std::fs::remove_dir(path(dir.path())).unwrap(),
            _ => std::fs::remove_file(path(dir.path())).unwrap(),
        }
        while recovered(&mut opened).0 < 1 {}
        opened.journal.close(opened.events);
        assert_eq!(found(dir.path()), [record(2)]);
    }
}

#[test]
fn a_file_where_the_folder_should_be_delays_and_loses_nothing() {
    // R-DELIV-05, and what lay in the real folder comes late
    let dir = super::temp();
    let folder = dir.path().join("journals");
    written(&folder, &[settled(1, "from before")]);
    std::fs::rename(&folder, dir.path().join("away")).unwrap();
    std::fs::write(&folder, "in the way").unwrap();
    let mut opened = open(&folder);
    let why = opened.failed.clone().unwrap();
    assert!(
        why.contains("not a directory") && why.contains("move it away"),
        "{why}"
    );
    assert_eq!(opened.records, []);
    for seq in 1..=5 {
        opened.journal.append(seq, settled(10 + seq, "new"));
    }
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(dir.path().join("away"), &folder).unwrap();
    let (seq, records) = recovered(&mut opened);
    assert_eq!(records, [settled(1, "from before")]);
    if seq < 5 {
        assert_eq!(event(&mut opened), JournalEvent::Synced(5));
    }
    opened.journal.close(opened.events);
    let wanted =
        [1, 11, 12, 13, 14, 15].map(|n| settled(n, if n == 1 { "from before" } else { "new" }));
    assert_eq!(found(&folder), wanted);
}

#[test]
fn a_core_that_ends_during_a_failure_tries_once_more() {
    // R-DELIV-05
    let dir = super::temp();
    let folder = dir.path().join("journals");
    std::fs::write(&folder, "in the way").unwrap();
    let options = JournalOptions {
        first_pause: std::time::Duration::from_secs(3600),
        ..options()
    };
    let opened = Journal::open(&folder, HOST, options).unwrap();
    opened.journal.append(1, record(2));
    std::fs::remove_file(&folder).unwrap();
    opened.journal.close(opened.events);
    assert_eq!(found(&folder), [record(2)]);
}

#[test]
fn a_journal_that_is_dropped_still_writes_what_it_was_given() {
    // R-DELIV-05: no `close`, nobody who reads events
    let dir = super::temp();
    let opened = open_good(dir.path());
    for seq in 1..=500 {
        opened.journal.append(seq, record(seq));
    }
    drop(opened);
    let again = crate::support::wait::wait_for("the lock", || try_open(dir.path()).ok());
    assert_eq!(owed(again.records), owed((1..=500).map(record)));
}
