//! What one child said of its own writing, held against its session file once it is gone: did another
//! program write the file as well (R-LIFE-10)?
//!
//! Only what is proven counts. Facts about Pi it stands on (all supported versions):
//! - A message of the person, the model or a tool is announced (`message_end`) before it is written, in
//!   the same order and with the same time; entries of other sorts are announced in part only.
//! - An entry follows the one its Pi wrote last, always by `parentId`. An extension's command may move
//!   that place, but not during a run.
//! - While it starts and while it ends, Pi writes without announcing.
//! - Nothing but `custom` entries and the like is written while no run is going on.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::session_file::{Look, SessionMark};
use crate::pi::event::Record;
use crate::pi::response::Disposition;
use crate::pi::session::{Entry, MessageKey, Parent};

/// Announced messages kept: more than one look at a file can show.
const KEPT: usize = 2048;
/// Messages younger than this when the end began may be the child's own, under way since before: an
/// extension's prompt, for example.
const MARGIN_MS: i64 = 2000;

/// See the module. Shared by the child's reader, which fills it in, and by who ends the child.
#[derive(Debug, Default)]
pub struct Witness {
    /// The file it was started with, as it was then, if there was one.
    before: Option<(PathBuf, SessionMark)>,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    /// Announced messages, oldest first, each with how many settlements came before it.
    messages: VecDeque<(MessageKey, u64)>,
    settlements: u64,
    /// A run is going on.
    running: bool,
    /// Prompts that were sent and not answered yet.
    prompts: u32,
    /// When the first answer came, Unix milliseconds: from here on everything is announced.
    since_ms: Option<i64>,
    /// Something that was said could not be read.
    lossy: bool,
    /// A command of an extension ran; it may have moved the place where Pi goes on.
    commanded: bool,
    /// Its output was read to the end.
    to_the_end: bool,
    /// When the end began, Unix milliseconds.
    ending_ms: Option<i64>,
}

impl Witness {
    /// For a child whose session file was so when it was started.
    #[must_use]
    pub fn new(before: Option<(PathBuf, SessionMark)>) -> Self {
        Self {
            before,
            ..Self::default()
        }
    }

    /// Takes in a record of the child.
    pub fn hear(&self, record: &Record<'_>, at_ms: i64) {
        match record {
            Record::MessageEnd(message) => {
                let Some(key) = message.key() else { return };
                let mut heard = self.lock();
                // Without a time it cannot be found again.
                heard.lossy |= key.at_ms == 0;
                if heard.messages.len() == KEPT {
                    heard.messages.pop_front();
                }
                let settlements = heard.settlements;
                heard.messages.push_back((key, settlements));
            }
            Record::AgentStart => self.lock().running = true,
            Record::AgentSettled { .. } => {
                let mut heard = self.lock();
                heard.running = false;
                heard.settlements += 1;
            }
            Record::Response(response) => {
                let mut heard = self.lock();
                heard.since_ms.get_or_insert(at_ms);
                if response.command == "prompt" {
                    heard.prompts = heard.prompts.saturating_sub(1);
                    if response.success {
                        match response.disposition() {
                            Disposition::Handled => heard.commanded = true,
                            _ => heard.running = true,
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Something of it could not be read.
    pub fn missed(&self) {
        self.lock().lossy = true;
    }

    /// Its output was read to the end.
    pub fn heard_all(&self) {
        self.lock().to_the_end = true;
    }

    /// A prompt is on its way to it.
    pub fn prompted(&self) {
        self.lock().prompts += 1;
    }

    /// It is told to end.
    pub fn ending(&self, at_ms: i64) {
        self.lock().ending_ms.get_or_insert(at_ms);
    }

    /// Whether its session file, as it is now that the child is gone, proves another writer.
    #[must_use]
    pub fn proves_other_writer(&self, path: &Path, look: &Look) -> bool {
        let heard = self.lock();
        let all = heard.compare(&look.entries);
        let Some(first) = self.first_new(path, look, &all) else {
            return false;
        };
        let new = all.get(first..).unwrap_or_default();
        new.iter().any(|c| c.entry.parent == Parent::Unsaid)
            || heard.unsaid_between(new)
            || heard.unsaid_at_rest(new)
            || heard.branches_in_a_run(&all, first)
    }

    /// The first entry that was certainly written while the child lived: behind the end of what was
    /// there before, if that stands unchanged (a newer Pi writes an old file anew), or behind the first
    /// message it announced.
    fn first_new(&self, path: &Path, look: &Look, all: &[Compared<'_>]) -> Option<usize> {
        let before = self.before.as_ref().and_then(|(then, before)| {
            if then != path {
                return None;
            }
            let size = usize::try_from(before.size.checked_sub(look.from)?).ok()?;
            let last = all.iter().rposition(|c| c.entry.start < size)?;
            let id = all.get(last).map(|c| &c.entry.id);
            (id == before.last_entry.as_ref()).then_some(last + 1)
        });
        before.or_else(|| all.iter().position(|c| c.said.is_some()).map(|at| at + 1))
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry and what was said of it.
struct Compared<'a> {
    entry: &'a Entry,
    /// It was announced, after so many settlements.
    said: Option<u64>,
}

impl Heard {
    fn compare<'a>(&self, entries: &'a [Entry]) -> Vec<Compared<'a>> {
        let said: HashMap<MessageKey, u64> = self.messages.iter().copied().collect();
        let compare = |entry: &'a Entry| Compared {
            entry,
            said: entry.message.and_then(|key| said.get(&key).copied()),
        };
        entries.iter().map(compare).collect()
    }

    /// A message it did not announce although it would have.
    fn unsaid(&self, compared: &Compared<'_>) -> Option<MessageKey> {
        let since = self.since_ms?;
        if self.lossy || self.commanded || compared.said.is_some() {
            return None;
        }
        compared.entry.message.filter(|m| m.at_ms > since)
    }

    /// One before others that were announced: what it writes unannounced comes at its very end.
    fn unsaid_between(&self, new: &[Compared<'_>]) -> bool {
        let last = new.iter().rposition(|c| c.said.is_some()).unwrap_or(0);
        let before = new.get(..last).unwrap_or_default();
        before.iter().any(|c| self.unsaid(c).is_some())
    }

    /// One from when it was at rest, before it was told to end.
    fn unsaid_at_rest(&self, new: &[Compared<'_>]) -> bool {
        let at_rest = self.to_the_end && !self.running && self.prompts == 0;
        let Some(ending) = self.ending_ms.filter(|_| at_rest) else {
            return false;
        };
        let mut unsaid = new.iter().filter_map(|c| self.unsaid(c));
        unsaid.any(|m| m.at_ms.saturating_add(MARGIN_MS) < ending)
    }

    /// An entry that does not follow the one before it, between two messages of one run.
    fn branches_in_a_run(&self, all: &[Compared<'_>], first: usize) -> bool {
        if self.lossy {
            return false;
        }
        (first.max(1)..all.len()).any(|at| {
            let (before, from) = all.split_at(at);
            let (Some(previous), Some(this)) = (before.last(), from.first()) else {
                return false;
            };
            let follows =
                matches!(&this.entry.parent, Parent::Entry(id) if *id == previous.entry.id);
            if follows || this.entry.after_gap {
                return false;
            }
            let run = before.iter().rev().find_map(|c| c.said);
            run.is_some() && run == from.iter().find_map(|c| c.said)
        })
    }
}
