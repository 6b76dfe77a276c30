//! A writer that is killed in the middle of everything.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use super::history::{Owed, add, record};
use super::options;
use crate::support::example::ensure_example;
use pi_agents::supervisor::journal::Journal;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_writer_loses_no_record_it_called_safe() {
    // R-DELIV-05; its file is compacted all the time, so that kills meet rewrites, too
    let harness = ensure_example("journal-harness");
    for round in 0..16 {
        let dir = super::temp();
        let child = Command::new(&harness)
            .arg("write")
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..=round * round {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        // What it had said before it died, and we had not read yet.
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let said = line + &rest;
        let safe: u64 = said
            .lines()
            .filter_map(|line| line.parse().ok())
            .next_back()
            .expect("it wrote something");
        let opened = Journal::open(dir.path(), "harness", options()).unwrap();
        assert_eq!((opened.failed, opened.note), (None, None), "round {round}");
        let found = super::history::owed(opened.records);
        assert!(
            is_prefix(&found, safe),
            "round {round}: {safe} records were safe"
        );
    }
}

/// Whether this is what is owed after the first n records, for an n of at least `safe`.
fn is_prefix(found: &Owed, safe: u64) -> bool {
    let mut owed = Owed::new();
    for seq in 1..safe + 100 {
        if seq > safe && *found == owed {
            return true;
        }
        add(&mut owed, record(seq));
    }
    false
}
