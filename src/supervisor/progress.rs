//! How the foreground calls of a Pi session get on (R-TOOL-11, R-TOOL-19). Owns which calls are open
//! and when one may be looked at; what is told is `tools::progress`'s decision.
//!
//! Always holds: a call is looked at at most ten times a second, and only after something in the core
//! changed; nothing is told twice; a call that is closed is told of no more, and it is closed before
//! it is answered. Nothing is kept for who does not ask: no queue, no task, no timer.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::actor::wall_ms;
use super::shared::Shared;
use crate::client::BoxFuture;
use crate::client::host::{CallProgress, ProgressSource};
use crate::fleet::ids::{AgentId, CallId};
use crate::tools::call::SoFar;
use crate::tools::progress::{Moment, Progress};

/// Between two looks at one call: ten a second (R-TOOL-19).
const PACE: Duration = Duration::from_millis(100);
/// A longer id of a call is a mistake of whoever made it: it is not kept, and nothing is told of it.
const LONGEST_ID: usize = 1024;

/// Where a call came from, and when.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// Pi's id of it.
    pub(super) call: String,
    at: Instant,
    at_ms: i64,
    /// What there was of the agent's work at the end.
    so_far: Arc<OnceLock<SoFar>>,
}

impl Origin {
    /// A call that came just now; `None` = its id is of no use.
    pub(super) fn now(call: &str) -> Option<Self> {
        (!call.is_empty() && call.len() <= LONGEST_ID).then(|| Self {
            call: call.to_owned(),
            at: Instant::now(),
            at_ms: wall_ms(),
            so_far: Arc::default(),
        })
    }

    /// What there was of the agent's work when the call was answered; `None` = it never waited for
    /// one.
    pub(super) fn so_far(&self) -> Option<SoFar> {
        self.so_far.get().cloned()
    }

    fn waited_ms(&self, now: Instant) -> u64 {
        let waited = now.saturating_duration_since(self.at).as_millis();
        u64::try_from(waited).unwrap_or(u64::MAX)
    }
}

/// An open call.
struct Open {
    id: CallId,
    agent: AgentId,
    origin: Origin,
    /// What was told last.
    told: Option<Progress>,
    /// Nothing is told of it. Providers choose the ids, and some use one twice: nobody could tell the
    /// two apart.
    mute: bool,
    /// Something changed since the last look, perhaps here.
    stale: bool,
    not_before: Instant,
}

/// The open foreground calls of one session.
pub(super) struct CallFeed {
    shared: Arc<Shared>,
    open: Mutex<Vec<Open>>,
    opened: Notify,
    bell: tokio::sync::Mutex<watch::Receiver<u64>>,
}

/// What has to come before there is anything to look at.
enum Next {
    Opened,
    Change,
    Until(Instant),
}

impl CallFeed {
    pub(super) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            open: Mutex::default(),
            opened: Notify::new(),
            bell: tokio::sync::Mutex::new(shared.listen()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this call waits for that agent.
    pub(super) fn open(&self, id: CallId, agent: AgentId, origin: Origin) {
        let mut open = self.lock();
        let twice = open.iter().any(|o| o.origin.call == origin.call);
        open.push(Open {
            id,
            agent,
            origin,
            told: None,
            mute: twice,
            stale: !twice,
            not_before: Instant::now(),
        });
        drop(open);
        self.opened.notify_one();
    }

    /// The call is about to be answered.
    pub(super) fn close(&self, id: CallId) {
        let mut open = self.lock();
        let Some(at) = open.iter().position(|o| o.id == id) else {
            return;
        };
        let Open { agent, origin, .. } = open.swap_remove(at);
        drop(open);
        let took_ms = origin.waited_ms(Instant::now());
        let so_far = self.shared.with(agent, |agent, _, _| SoFar {
            name: agent.name.clone(),
            took_ms,
            usage: agent.usage,
            tool_uses: agent.tool_uses,
            session_path: agent.session_path.clone(),
        });
        if let Some(so_far) = so_far {
            let _ = origin.so_far.set(so_far);
        }
    }

    /// Looks at the calls that are due. What is told of one is told, or what to wait for.
    fn look(&self, bell: &mut watch::Receiver<u64>) -> Result<CallProgress, Next> {
        let mut open = self.lock();
        if bell.has_changed().unwrap_or(false) {
            bell.mark_unchanged();
            open.iter_mut().for_each(|o| o.stale = !o.mute);
        }
        let now = Instant::now();
        // The one that waited longest first, so that none is forgotten beside the others.
        open.sort_by_key(|o| o.not_before);
        for call in open.iter_mut().filter(|o| o.stale && o.not_before <= now) {
            call.stale = false;
            call.not_before = now + PACE;
            if let Some(progress) = self.look_at(call, now) {
                return Ok(progress);
            }
        }
        let due = open.iter().filter(|o| o.stale).map(|o| o.not_before).min();
        Err(match due {
            Some(at) => Next::Until(at),
            None if open.iter().all(|o| o.mute) => Next::Opened,
            None => Next::Change,
        })
    }

    fn look_at(&self, call: &mut Open, now: Instant) -> Option<CallProgress> {
        let origin = &call.origin;
        let progress = self.shared.with(call.agent, |agent, below, reply| {
            Progress::of(&Moment {
                call: &origin.call,
                agent,
                below,
                reply,
            })
        })?;
        if call.told.as_ref() == Some(&progress) {
            return None;
        }
        let details = progress.details(origin.waited_ms(now), origin.at_ms);
        let told = CallProgress {
            call: origin.call.clone(),
            content: progress.content.clone(),
            details,
        };
        call.told = Some(progress);
        Some(told)
    }
}

impl ProgressSource for CallFeed {
    fn next(&self) -> BoxFuture<'_, CallProgress> {
        Box::pin(async move {
            let mut bell = self.bell.lock().await;
            loop {
                let next = match self.look(&mut bell) {
                    Ok(progress) => return progress,
                    Err(next) => next,
                };
                match next {
                    Next::Opened => self.opened.notified().await,
                    Next::Change => tokio::select! {
                        () = self.opened.notified() => {}
                        // The bell is there for as long as the table is, and that is held here.
                        _ = bell.changed() => bell.mark_changed(),
                    },
                    Next::Until(at) => tokio::select! {
                        () = self.opened.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    },
                }
            }
        })
    }
}
