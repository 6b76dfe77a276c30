//! What a Pi session is told, and when. An answer that promises something waits until the host's
//! journal has it: a core that is lost right after the answer still owes what it promised
//! (R-DELIV-05, R-DELIV-17).

use super::Machine;
use super::effect::Effect;
use super::input::Now;
use crate::fleet::agent::StopCause;
use crate::fleet::answer::{Reply, RequestError};
use crate::fleet::host::HostKind;
use crate::fleet::ids::{CallId, HostId};
use crate::fleet::outbox::Suppression;

/// An answer that waits for the disk.
#[derive(Debug)]
pub(super) struct Held {
    call: CallId,
    answer: Result<Reply, RequestError>,
    /// The record it waits for; set at the end of the step that gave the answer.
    seq: Option<u64>,
}

/// Only what says that a run will be told. A result does not wait: it is found by its id in the session,
/// so waiting could only lose it. Nor does a stop, nor an error: what is not told of its run is on record
/// already.
fn waits(answer: &Result<Reply, RequestError>) -> bool {
    matches!(answer, Ok(Reply::Spawned { .. } | Reply::Sent { .. }))
}

impl Machine {
    /// A call that came from a host: its answer may have to wait for that host's journal.
    pub(super) fn called_by(&mut self, call: CallId, host: HostId) {
        if self.host(host).is_some_and(|h| h.kind != HostKind::Person) {
            self.callers.insert(call, host);
        }
    }

    /// Answers a call, now or when what it says is safe.
    pub(super) fn answer(&mut self, call: CallId, answer: Result<Reply, RequestError>) {
        let host = self.callers.remove(&call);
        let host = host
            .filter(|_| waits(&answer))
            .and_then(|host| self.host_mut(host));
        match host.filter(|h| h.open && h.outbox.is_some()) {
            Some(host) => host.held.push(Held {
                call,
                answer,
                seq: None,
            }),
            None => self.out.push(Effect::Answer { call, answer }),
        }
    }

    /// Lets go of the answers whose records are safe, in the order they were given. Nobody waits for a
    /// disk when the session is gone, the core ends, or the journal cannot be written.
    pub(super) fn release_answers(&mut self, all: bool) {
        for host in &mut self.hosts {
            let Some(outbox) = &host.outbox else {
                continue;
            };
            let free = all || !host.open;
            for held in &mut host.held {
                held.seq.get_or_insert(outbox.last_record());
            }
            let safe = |held: &Held| free || held.seq.is_none_or(|seq| outbox.is_safe(seq));
            let ready: Vec<Held> = host.held.extract_if(.., |held| safe(held)).collect();
            for held in ready {
                self.out.push(Effect::Answer {
                    call: held.call,
                    answer: held.answer,
                });
            }
        }
    }

    /// A call is taken back while its answer waits. Its session has not heard of the agent it started:
    /// that one ends, and nothing of it is told. What else was done stays done, and is said at once
    /// (R-TOOL-17).
    pub(super) fn cancel_held(&mut self, now: Now, call: CallId) -> bool {
        let held = self.hosts.iter_mut().find_map(|host| {
            let at = host.held.iter().position(|held| held.call == call)?;
            Some(host.held.remove(at))
        });
        let Some(held) = held else {
            return false;
        };
        if let Ok(Reply::Spawned { agent, name, .. }) = held.answer {
            self.silence(agent, Suppression::CallEnded);
            if let Some(outbox) = self.outbox_of(agent) {
                outbox.withdraw(&name, Suppression::CallEnded);
            }
            self.cancelled(call, "cancelled; its agent is being stopped");
            self.stop(now, agent, StopCause::Cancelled, None);
        } else {
            self.out.push(Effect::Answer {
                call,
                answer: held.answer,
            });
        }
        true
    }
}
