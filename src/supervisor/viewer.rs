//! One viewer of the supervisor: the in-process `FleetClient`. It keeps what the viewer has seen and
//! hands out the difference, at most every 16 ms; while agents only stream, every 32 ms.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::handle::Handle;
use super::shared::Shared;
use crate::client::{BoxFuture, FleetClient, Reply, Request, RequestError, Update};
use crate::fleet::ids::AgentId;

/// Shortest time between two batches: one frame.
const FRAME: Duration = Duration::from_millis(16);
/// The same while nothing happens but streaming: every frame would cost twice as much (design §9)
/// and look the same.
const STREAMING: Duration = Duration::from_millis(32);

#[derive(Default)]
struct Seen {
    fleet: Option<u64>,
    /// Watched transcripts with the revision that was handed out last.
    transcripts: HashMap<AgentId, Option<u64>>,
    last_batch: Option<Instant>,
}

struct Bells {
    any: watch::Receiver<u64>,
    urgent: watch::Receiver<u64>,
}

/// See the module.
pub struct Viewer {
    handle: Handle,
    shared: Arc<Shared>,
    seen: Mutex<Seen>,
    bells: tokio::sync::Mutex<Bells>,
}

impl Viewer {
    pub(super) fn new(handle: Handle, shared: Arc<Shared>) -> Self {
        let mut any = shared.listen();
        any.mark_changed();
        let mut urgent = shared.listen_urgent();
        urgent.mark_changed();
        Self {
            handle,
            shared,
            seen: Mutex::new(Seen::default()),
            bells: tokio::sync::Mutex::new(Bells { any, urgent }),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The difference to what was seen.
    fn collect(&self) -> Vec<Update> {
        let mut seen = self.seen();
        let mut batch = Vec::new();
        match seen.fleet.filter(|since| self.shared.tells_from(*since)) {
            None => {
                let snapshot = self.shared.snapshot();
                seen.fleet = Some(snapshot.rev);
                batch.push(Update::Snapshot(Box::new(snapshot)));
            }
            Some(since) => {
                if let Some(delta) = self.shared.delta(since) {
                    seen.fleet = Some(delta.rev);
                    batch.push(Update::Delta(delta));
                }
            }
        }
        for (agent, rev) in &mut seen.transcripts {
            let Some(live) = self.shared.live(*agent) else {
                continue;
            };
            let mut inner = live.lock();
            if let Some(patch) = inner.log.patch_since(*rev) {
                *rev = Some(patch.rev);
                batch.push(Update::Transcript {
                    agent: *agent,
                    patch,
                });
            }
        }
        seen.last_batch = Some(Instant::now());
        batch
    }

    fn watch(&self, agents: Vec<AgentId>) {
        let mut seen = self.seen();
        let mut next = HashMap::new();
        for agent in agents {
            let rev = seen.transcripts.get(&agent).copied().flatten();
            next.insert(agent, rev);
        }
        seen.transcripts = next;
        drop(seen);
        self.shared.ring();
    }

    fn resync(&self) {
        let mut seen = self.seen();
        seen.fleet = None;
        for rev in seen.transcripts.values_mut() {
            *rev = None;
        }
        drop(seen);
        self.shared.ring();
    }
}

impl FleetClient for Viewer {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            match request {
                Request::Watch { agents } => {
                    self.watch(agents);
                    Ok(Reply::Done)
                }
                Request::Resync => {
                    self.resync();
                    Ok(Reply::Done)
                }
                Request::Snapshot => Ok(Reply::Snapshot {
                    fleet: Box::new(self.shared.snapshot()),
                }),
                Request::Spawn(_)
                | Request::Send { .. }
                | Request::Continue { .. }
                | Request::Stop { .. }
                | Request::Abort { .. }
                | Request::Answer { .. }
                | Request::Explain { .. }
                | Request::Shutdown => self.handle.ask(request).await,
            }
        })
    }

    fn updates(&self) -> BoxFuture<'_, Option<Vec<Update>>> {
        Box::pin(async move {
            let mut bells = self.bells.lock().await;
            let Bells { any, urgent } = &mut *bells;
            loop {
                if any.has_changed().is_ok_and(|c| !c) {
                    tokio::select! {
                        changed = any.changed() => if changed.is_err() { return None },
                        () = self.handle.ended() => return None,
                    }
                    // Seen only once the batch is taken: a dropped future loses nothing.
                    any.mark_changed();
                }
                let last = self.seen().last_batch;
                if let Some(last) = last {
                    tokio::select! {
                        () = tokio::time::sleep_until(last + STREAMING) => {}
                        _ = urgent.changed() => {
                            urgent.mark_changed();
                            tokio::time::sleep_until(last + FRAME).await;
                        }
                    }
                }
                any.mark_unchanged();
                urgent.mark_unchanged();
                let batch = self.collect();
                if !batch.is_empty() {
                    return Some(batch);
                }
                if self.handle.has_ended() {
                    return None;
                }
            }
        })
    }
}
