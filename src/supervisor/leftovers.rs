//! What a dead child left behind: descendants that left its group, its session, its tree or its
//! environment (R-LIFE-07). Blocking; called from blocking threads.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::env;
use crate::fleet::ids::{CoreId, InstanceId};
use crate::sys::process::{self, Proc};
use crate::sys::tree::{self, KillReport, TreeSnapshot};

/// How long the left-overs of one child may take to die.
const SWEEP_TIME: Duration = Duration::from_secs(3);

/// Remembers what a child started, from when it was still reachable.
#[derive(Debug, Default)]
pub struct Tracks {
    tree: Mutex<Option<TreeSnapshot>>,
}

impl Tracks {
    /// Records the process tree as it is now; what was recorded stays recorded.
    pub fn record(&self, pid: u32) {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        match tree.as_mut() {
            Some(tree) => tree.refresh(),
            None => *tree = Some(TreeSnapshot::take(pid)),
        }
    }

    /// Kills everything that is proven to be the child's, in rounds.
    ///
    /// `guard` is given when this was the only child: then whatever the guard adopted is its too,
    /// also what forked twice and cleared its environment.
    pub fn sweep(&self, core: CoreId, instance: InstanceId, guard: Option<u32>) -> KillReport {
        let marker = format!("{core}:{instance}");
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        kill(|| {
            let mut found = tree
                .as_mut()
                .map(TreeSnapshot::survivors)
                .unwrap_or_default();
            found.extend(marked(|value| value == marker.as_bytes()));
            found.extend(guard.map(orphans_of).unwrap_or_default());
            found
        })
    }
}

/// What lost its parent below our guard. Nothing, unless that guard is our own parent still.
fn orphans_of(guard: u32) -> Vec<Proc> {
    let me = std::process::id();
    if process::read(me).is_none_or(|own| own.ppid != guard) {
        return Vec::new();
    }
    let mut found = process::list();
    found.retain(|p| p.ppid == guard && p.pid != me);
    found
}

/// Kills whatever carries the marker of this core, whichever instance: the last act of a core.
#[must_use]
pub fn sweep_core(core: CoreId) -> KillReport {
    let prefix = format!("{core}:");
    kill(|| marked(|value| value.starts_with(prefix.as_bytes())))
}

fn kill(mut find: impl FnMut() -> Vec<Proc>) -> KillReport {
    let never = tree::own_line();
    tree::kill_in_rounds(Instant::now() + SWEEP_TIME, || {
        let mut seen = HashSet::new();
        let mut found = find();
        found.retain(|p| !never.contains(&p.pid) && !p.is_zombie() && seen.insert(p.id()));
        found
    })
}

/// Processes that carry a marker, and their descendants (which may have cleared it).
fn marked(is_ours: impl Fn(&[u8]) -> bool) -> Vec<Proc> {
    let mut found: Vec<Proc> = process::find_marked(env::INSTANCE)
        .into_iter()
        .filter(|(_, value)| is_ours(value))
        .map(|(p, _)| p)
        .collect();
    let roots: Vec<u32> = found.iter().map(|p| p.pid).collect();
    if !roots.is_empty() {
        found.extend(process::descendants_of(&roots));
    }
    found
}
