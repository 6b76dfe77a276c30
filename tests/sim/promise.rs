//! What a session was told of, and what its journal has (R-DELIV-05, R-DELIV-17).

use pi_agents::fleet::completion::DeliveryId;
use pi_agents::fleet::outbox::JournalRecord;

use super::host::Host;
use super::world::{World, number};

impl Host {
    /// What the session was promised is on the disk, and what is owed there is owed by the next core.
    pub fn promises_after_death(&mut self) -> Option<String> {
        for (id, last) in self.last_records() {
            let owed = matches!(
                last,
                JournalRecord::Opened {
                    foreground: false,
                    ..
                }
            );
            if owed && !self.owed.contains(&id) && !self.session.contains(&id) {
                self.owed.push(id);
                self.lost.push(id);
            }
        }
        let promised = std::mem::take(&mut self.promised);
        let known = |id: &DeliveryId| self.disk.iter().any(|r| r.id() == *id);
        let broken = promised.into_iter().find(|id| !known(id))?;
        Some(format!(
            "the session of host {} was told of {broken}, which its journal does not have (R-DELIV-17)",
            self.n
        ))
    }

    /// The last record of each delivery on the disk.
    fn last_records(&self) -> Vec<(DeliveryId, JournalRecord)> {
        let mut last: Vec<(DeliveryId, JournalRecord)> = Vec::new();
        for record in &self.disk {
            match last.iter_mut().find(|(id, _)| *id == record.id()) {
                Some(slot) => slot.1 = record.clone(),
                None => last.push((record.id(), record.clone())),
            }
        }
        last
    }
}

impl World {
    /// A session hears that an agent has its message when the run that comes of it is on the disk as owed, or when there is
    /// no disk to wait for (R-DELIV-17).
    pub fn check_promises(&mut self) {
        for at in 0..self.msgs.len() {
            let m = &self.msgs[at];
            if m.taken_at.is_none() && (m.accepted || m.consumed) {
                let host = self.agent(m.agent).map_or(0, |a| a.host);
                self.msgs[at].taken_at = Some(self.hosts[host as usize].last_seq);
            }
        }
        for call in std::mem::take(&mut self.told_taken) {
            let Some(m) = self.msgs.iter().find(|m| m.n == call) else {
                continue;
            };
            let host = self.agent(m.agent).map_or(0, |a| a.host);
            let (proc, agent) = (m.written, m.agent);
            let h = &self.hosts[host as usize];
            let before = m.taken_at.unwrap_or(h.last_seq);
            let its = |id: &DeliveryId| match id {
                DeliveryId::Completion(run) => Some(number(run.instance.0)) == proc,
                DeliveryId::Question(_) => false,
            };
            let run = h
                .opened
                .iter()
                .rev()
                .find(|(seq, id)| *seq <= before && its(id));
            let Some((seq, id)) = run.copied() else {
                continue;
            };
            let free = h.failed || !h.open || self.shutdown;
            let waits = h.writing.iter().any(|(s, r)| *s <= seq && r.id() == id);
            if waits && !free {
                self.fail(format!(
                    "call {call} is told that agent {agent} has its message, and {id} is not on the disk (R-DELIV-17)"
                ));
            } else if !waits {
                self.hosts[host as usize].promised.push(id);
            }
        }
    }
}
