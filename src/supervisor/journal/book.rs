//! What of a journal still matters: the last record about each delivery that is not over, as its line.

use std::collections::{BTreeMap, HashMap};

use super::format;
use crate::fleet::completion::DeliveryId;
use crate::fleet::outbox::JournalRecord;

#[derive(Debug)]
pub(super) struct Book {
    host: String,
    /// In the order they were written.
    lines: BTreeMap<u64, (DeliveryId, Vec<u8>)>,
    at: HashMap<DeliveryId, u64>,
    next: u64,
    bytes: u64,
}

impl Book {
    pub(super) fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            lines: BTreeMap::new(),
            at: HashMap::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// Takes a record in. The line to append; `None` when no file needs to know.
    pub(super) fn add(&mut self, record: &JournalRecord) -> Option<Vec<u8>> {
        let id = record.id();
        let old = self.remove(id);
        if record.is_ending() {
            return old.then(|| format::encode(&self.host, record));
        }
        let line = format::encode(&self.host, record);
        self.at.insert(id, self.next);
        self.bytes += line.len() as u64;
        self.lines.insert(self.next, (id, line.clone()));
        self.next += 1;
        Some(line)
    }

    fn remove(&mut self, id: DeliveryId) -> bool {
        let Some(at) = self.at.remove(&id) else {
            return false;
        };
        if let Some((_, line)) = self.lines.remove(&at) {
            self.bytes -= line.len() as u64;
        }
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Size of all lines.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A whole new file.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut file = format::header(&self.host);
        for (_, line) in self.lines.values() {
            file.extend_from_slice(line);
        }
        file
    }

    /// This book with what another core left before it. Deliveries of the two are different ones.
    pub(super) fn after(self, before: &[JournalRecord]) -> Self {
        let mut merged = Self::new(&self.host);
        for record in before {
            merged.add(record);
        }
        for (id, line) in self.lines.into_values() {
            merged.remove(id);
            merged.at.insert(id, merged.next);
            merged.bytes += line.len() as u64;
            merged.lines.insert(merged.next, (id, line));
            merged.next += 1;
        }
        merged
    }
}
