//! Agent records on their way to the disk: what cannot be written now is written later.

use tokio::time::Instant;

use super::actor::{Actor, SAVE_AGAIN};
use super::record::AgentRecord;
use crate::fleet::host::HostKind;
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::roster::Badge;
use crate::sys::atomic_file;

impl Actor {
    /// Writes the record of an agent; what cannot be written now is written later.
    pub(super) fn save(&mut self, agent: AgentId) {
        self.unsaved.insert(agent);
        if self.write(agent) {
            self.save_rest();
        } else {
            self.saved_or_not();
        }
    }

    /// Removes what there is of an agent that never came to be.
    pub(super) fn forget(&mut self, agent: AgentId, host: HostId) {
        let name = format!("{agent}.json");
        let folder = self.config.session_records.join(host.to_string());
        for path in [folder.join(&name), self.config.records.join(&name)] {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "agent record not removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
        self.unsaved.remove(&agent);
        self.sides.remove(&agent);
        self.history.forget(agent);
        self.shared.remove(agent);
    }

    /// Writes what could not be written before.
    pub(super) fn save_rest(&mut self) {
        for agent in self.unsaved.clone() {
            self.write(agent);
        }
        self.saved_or_not();
    }

    pub(super) fn saved_or_not(&mut self) {
        let lost = !self.unsaved.is_empty();
        self.save_again = lost.then(|| Instant::now() + SAVE_AGAIN);
        let badge = lost || self.config.unlogged;
        self.shared.badge(Badge::NotSaved, badge);
    }

    /// Writes the record of an agent as it is now. `false` = it is still to be written.
    pub(super) fn write(&mut self, agent: AgentId) -> bool {
        if let Some(mut view) = self.machine.view(agent) {
            let live = self.live(agent);
            live.lock().overlay(&mut view);
            let mark = self.sides.get(&agent).and_then(|s| s.mark.clone());
            let session = self.machine.session_id(agent).unwrap_or_default();
            let kind = self.machine.host_kind(agent);
            let last = self.machine.last_outcome(agent);
            let record = AgentRecord::of(&view, kind, session, mark, last);
            let folder = match kind {
                Some(HostKind::Pi) => self.config.session_records.join(view.host.to_string()),
                Some(HostKind::Person | HostKind::Nested { .. }) | None => {
                    self.config.records.clone()
                }
            };
            let path = folder.join(format!("{agent}.json"));
            // The folder of a session is made with its first agent.
            let made = if kind == Some(HostKind::Pi) {
                atomic_file::private_dir(&folder).map_err(|e| e.to_string())
            } else {
                Ok(())
            };
            if let Err(error) = made.and_then(|()| record.save(&path)) {
                tracing::error!(%error, "agent record not written");
                return false;
            }
        }
        self.unsaved.remove(&agent);
        true
    }
}
