//! Files that were cut, flipped or mixed up: good records survive, nothing is made up.

use std::path::{Path, PathBuf};

use pi_agents::fleet::outbox::JournalRecord;

use super::history::{self, owed, record, settled};
use super::{HOST, append, found, open, open_good, written};

fn path(dir: &Path) -> PathBuf {
    dir.join(format!("{HOST}.jsonl"))
}

/// A journal of some records, its bytes, and where each of its lines ends.
fn sample(dir: &Path) -> (Vec<JournalRecord>, Vec<u8>, Vec<usize>) {
    let records: Vec<_> = [1, 2, 3, 4, 13]
        .map(record)
        .into_iter()
        .chain([settled(4, "a \"b\"\n")])
        .chain([record(15)])
        .collect();
    written(dir, &records);
    let bytes = std::fs::read(path(dir)).unwrap();
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    (records, bytes, ends)
}

#[test]
fn every_cut_leaves_a_prefix_that_can_be_continued() {
    // R-DELIV-05: whatever a crash wrote of the last record
    let dir = super::temp();
    let (records, bytes, ends) = sample(&dir.path().join("whole"));
    let dir = dir.path().join("cut");
    written(&dir, &[]);
    for cut in 0..=bytes.len() {
        std::fs::write(path(&dir), &bytes[..cut]).unwrap();
        // A record that lacks only the end of its line is whole.
        let whole = ends[1..].iter().filter(|end| **end <= cut + 1).count();
        let opened = open_good(&dir);
        assert_eq!(opened.records, records[..whole], "cut at {cut}");
        assert_eq!(
            opened.note, None,
            "cut at {cut}: a crash is nothing to tell"
        );
        opened.journal.close(opened.events);
        if cut % 23 != 0 {
            continue;
        }
        std::fs::write(path(&dir), &bytes[..cut]).unwrap();
        let mut opened = open_good(&dir);
        append(&mut opened, 1, settled(99, "new"));
        opened.journal.close(opened.events);
        let wanted = records[..whole].iter().cloned().chain([settled(99, "new")]);
        assert_eq!(owed(found(&dir)), owed(wanted), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_costs_at_most_its_own_record() {
    // R-DELIV-05
    let dir = super::temp();
    let (records, bytes, ends) = sample(&dir.path().join("whole"));
    for at in 0..bytes.len() {
        let dir = dir.path().join(at.to_string());
        written(&dir, &[]);
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at * 5 % 8);
        std::fs::write(path(&dir), &flipped).unwrap();
        let hit = ends.iter().position(|end| at <= *end).unwrap();
        let opened = open_good(&dir);
        let lost: Vec<_> = records
            .iter()
            .enumerate()
            .filter(|(_, record)| !opened.records.contains(record))
            .map(|(n, _)| n + 1)
            .collect();
        assert!(
            lost.is_empty() || lost == [hit],
            "byte {at}: {lost:?} of line {hit}"
        );
        assert!(
            hit > 0 || lost.is_empty(),
            "byte {at}: the header is no record"
        );
        assert_eq!(
            opened.records.len() + lost.len(),
            records.len(),
            "byte {at}"
        );
        if hit < records.len() && !ends.contains(&at) {
            // Not the last line: no crash does that, so a person is told and the bytes are kept.
            assert!(opened.note.is_some(), "byte {at}");
            let aside = dir.join(format!("{HOST}.damaged"));
            assert_eq!(std::fs::read(aside).unwrap(), flipped);
        }
        drop(opened.journal);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn what_is_mixed_into_a_file_makes_nothing_up() {
    // R-DELIV-05
    let dir = super::temp();
    let (records, bytes, _) = sample(&dir.path().join("whole"));
    let dir = dir.path().join("mixed");
    written(&dir, &[]);
    let mut seed = 1_u64;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % n.max(1)
    };
    for round in 0..400 {
        let mut mixed = bytes.clone();
        for _ in 0..=below(3) {
            let from = below(mixed.len());
            let to = from + below(mixed.len() - from);
            let piece: Vec<u8> = mixed[from..to].to_vec();
            match below(4) {
                0 => drop(mixed.drain(from..to)),
                1 => {
                    let at = below(mixed.len());
                    mixed.splice(at..at, piece);
                }
                2 => mixed[from..to].fill(0),
                _ => mixed[from..to].reverse(),
            }
        }
        std::fs::write(path(&dir), &mixed).unwrap();
        let opened = open(&dir);
        assert_eq!(opened.failed, None);
        for record in &opened.records {
            assert!(records.contains(record), "round {round}: {record:?}");
        }
        opened.journal.close(opened.events);
    }
}

#[test]
fn a_crash_at_any_byte_of_a_rewrite_loses_nothing() {
    // R-DELIV-05
    let dir = super::temp();
    let (records, bytes, _) = sample(&dir.path().join("whole"));
    let dir = dir.path().join("again");
    written(&dir, &[]);
    let draft = dir.join(format!(".tmp-{HOST}.jsonl"));
    for cut in (0..bytes.len()).step_by(7) {
        std::fs::write(path(&dir), &bytes).unwrap();
        std::fs::write(&draft, &bytes[..cut]).unwrap();
        let opened = open_good(&dir);
        assert_eq!(opened.records, records);
        assert!(!draft.exists(), "a draft of the dead is removed");
        // Until the next core removes it, the draft may also come later.
        std::fs::write(&draft, &bytes[..cut]).unwrap();
        let mut opened = opened;
        std::fs::remove_file(path(&dir)).unwrap();
        append(&mut opened, 1, settled(99, "new"));
        opened.journal.close(opened.events);
        let wanted = records.iter().cloned().chain([settled(99, "new")]);
        assert_eq!(owed(found(&dir)), owed(wanted));
    }
}

#[test]
fn a_result_that_looks_like_a_record_is_not_one() {
    // R-DELIV-05: text of others
    let dir = super::temp();
    let inner = dir.path().join("inner");
    written(&inner, &[history::settled(666, "from nowhere")]);
    let line = std::fs::read_to_string(path(&inner)).unwrap();
    let dir = dir.path().join("outer");
    written(&dir, &[settled(1, &line), record(2)]);
    let mut bytes = std::fs::read(path(&dir)).unwrap();
    let header = bytes.iter().position(|b| *b == b'\n').unwrap();
    bytes[header + 20] ^= 1; // in the checksum of the first record
    std::fs::write(path(&dir), bytes).unwrap();
    assert_eq!(found(&dir), [record(2)]);
}
