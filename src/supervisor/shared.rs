//! What the supervisor shows: the table of rows that viewers read. Viewers pull; nothing is queued
//! behind a slow one (R-Q-02, docs/decisions).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::live::AgentLive;
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::roster::{
    AgentView, Badge, CoreView, FleetDelta, FleetSnapshot, SessionView, Subtree, subtree,
};

struct Row {
    view: AgentView,
    live: Arc<AgentLive>,
}

struct Table {
    rev: u64,
    core: CoreView,
    core_rev: u64,
    rows: Vec<Row>,
    index: HashMap<AgentId, usize>,
    /// When a row was removed last: a delta from before cannot say so.
    removed_rev: u64,
}

impl Table {
    /// Brings the live parts of the rows up to date.
    fn refresh(&mut self) {
        for row in &mut self.rows {
            if row.live.take_dirty() {
                let before = row.view.clone();
                row.live.lock().overlay(&mut row.view);
                if row.view != before {
                    self.rev += 1;
                    row.view.rev = self.rev;
                }
            }
        }
    }
}

/// The table and its bells.
pub struct Shared {
    table: Mutex<Table>,
    bell: watch::Sender<u64>,
    urgent: watch::Sender<u64>,
}

impl Shared {
    /// A table without agents.
    #[must_use]
    pub fn new(core: CoreView) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table {
                rev: 1,
                core,
                core_rev: 1,
                rows: Vec::new(),
                index: HashMap::new(),
                removed_rev: 0,
            }),
            bell: watch::Sender::new(0),
            urgent: watch::Sender::new(0),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes viewers that wait, also those that are in no hurry.
    pub fn ring(&self) {
        self.bell.send_modify(|n| *n = n.wrapping_add(1));
        self.urgent.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Wakes viewers that wait. What is new is only more of the same, such as text: it need not be
    /// seen with the next frame.
    pub fn ring_later(&self) {
        self.bell.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// A receiver that changes whenever something may have changed.
    #[must_use]
    pub fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// A receiver that changes only when it was something that should be seen soon.
    #[must_use]
    pub fn listen_urgent(&self) -> watch::Receiver<u64> {
        self.urgent.subscribe()
    }

    /// Puts the machine's view of an agent into its row; the live part stays.
    pub fn put(&self, mut view: AgentView, live: &Arc<AgentLive>) {
        let mut guard = self.table();
        let table = &mut *guard;
        live.take_dirty();
        live.lock().overlay(&mut view);
        table.rev += 1;
        view.rev = table.rev;
        view.demo = table.core.demo;
        match table
            .index
            .get(&view.id)
            .and_then(|at| table.rows.get_mut(*at))
        {
            Some(row) => row.view = view,
            None => {
                table.index.insert(view.id, table.rows.len());
                table.rows.push(Row {
                    view,
                    live: Arc::clone(live),
                });
            }
        }
        drop(guard);
        self.ring();
    }

    /// Removes a row. Who has seen it gets a snapshot.
    pub fn remove(&self, agent: AgentId) {
        let mut table = self.table();
        let Some(at) = table.index.remove(&agent) else {
            return;
        };
        table.rows.remove(at);
        for later in table.index.values_mut().filter(|i| **i > at) {
            *later -= 1;
        }
        table.rev += 1;
        table.removed_rev = table.rev;
        drop(table);
        self.ring();
    }

    /// Whether what changed after `since` can be told as a delta.
    #[must_use]
    pub fn tells_from(&self, since: u64) -> bool {
        self.table().removed_rev <= since
    }

    /// Shows or clears a warning about the core.
    pub fn badge(&self, badge: Badge, shown: bool) {
        let mut table = self.table();
        let has = table.core.badges.contains(&badge);
        if has == shown {
            return;
        }
        if shown {
            table.core.badges.push(badge);
        } else {
            table.core.badges.retain(|b| *b != badge);
        }
        table.rev += 1;
        table.core_rev = table.rev;
        drop(table);
        self.ring();
    }

    /// Says how many clients are attached.
    pub fn attached(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut table = self.table();
        if table.core.attached == count {
            return;
        }
        table.core.attached = count;
        table.rev += 1;
        table.core_rev = table.rev;
        drop(table);
        self.ring();
    }

    /// A Pi session has joined.
    pub fn session_joined(&self, session: SessionView) {
        self.sessions(|all| {
            all.retain(|s| s.host != session.host);
            all.push(session);
        });
    }

    /// A Pi session has left.
    pub fn session_left(&self, host: HostId) {
        self.sessions(|all| all.retain(|s| s.host != host));
    }

    fn sessions(&self, change: impl FnOnce(&mut Vec<SessionView>)) {
        let mut table = self.table();
        change(&mut table.core.sessions);
        table.rev += 1;
        table.core_rev = table.rev;
        drop(table);
        self.ring();
    }

    /// The whole fleet.
    #[must_use]
    pub fn snapshot(&self) -> FleetSnapshot {
        let mut table = self.table();
        table.refresh();
        FleetSnapshot {
            rev: table.rev,
            core: table.core.clone(),
            agents: table.rows.iter().map(|r| r.view.clone()).collect(),
        }
    }

    /// The core's own view.
    #[must_use]
    pub fn core(&self) -> CoreView {
        self.table().core.clone()
    }

    /// What changed after `since`; `None` = nothing.
    #[must_use]
    pub fn delta(&self, since: u64) -> Option<FleetDelta> {
        let mut table = self.table();
        table.refresh();
        if table.rev == since {
            return None;
        }
        Some(FleetDelta {
            since,
            rev: table.rev,
            core: (table.core_rev > since).then(|| table.core.clone()),
            agents: table
                .rows
                .iter()
                .filter(|r| r.view.rev > since)
                .map(|r| r.view.clone())
                .collect(),
        })
    }

    /// Looks at one agent: its row, what goes on below it, and its reply so far. The table stays
    /// locked meanwhile.
    pub(super) fn with<T>(
        &self,
        agent: AgentId,
        look: impl FnOnce(&AgentView, Subtree, &str) -> T,
    ) -> Option<T> {
        let mut table = self.table();
        table.refresh();
        let at = *table.index.get(&agent)?;
        let row = table.rows.get(at)?;
        let below = subtree(table.rows.iter().map(|r| &r.view), agent);
        let live = row.live.lock();
        Some(look(&row.view, below, live.reply()))
    }

    /// Transcript and live part of an agent.
    #[must_use]
    pub fn live(&self, agent: AgentId) -> Option<Arc<AgentLive>> {
        let table = self.table();
        let at = *table.index.get(&agent)?;
        table.rows.get(at).map(|r| Arc::clone(&r.live))
    }
}
