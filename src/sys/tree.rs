//! What a process started, also after it left the tree.
//!
//! A descendant can leave its ancestor by outliving its parent, by `setsid` and by clearing its environment.
//! A [`TreeSnapshot`] taken while it was still reachable remembers it, and remembers the sessions and groups
//! that members of the tree lead, so that what is started in them later is found too. What double-forked
//! into a session of its own *between* two snapshots is not found here: the guard finds it. (R-LIFE-07)

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::process::{self, Proc, ProcessId, Signal};

/// The remembered descendants of one process.
#[derive(Clone, Debug)]
pub struct TreeSnapshot {
    root: Option<ProcessId>,
    /// Everything that was ever seen below the root, without it.
    seen: HashMap<u32, u64>,
    /// Leaders of sessions and groups that belong to the tree (the root included), by pid.
    leaders: HashMap<u32, u64>,
}

/// What a round of killing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillReport {
    /// Processes that were sent SIGKILL.
    pub killed: Vec<Proc>,
    /// Those still there when time was up, e.g. stuck in the kernel or not ours to signal.
    pub left: Vec<Proc>,
}

impl TreeSnapshot {
    /// Records all descendants of `root` as they are now. The root itself is never a survivor: whoever
    /// started it ends and reaps it.
    pub fn take(root: u32) -> TreeSnapshot {
        let mut snapshot = TreeSnapshot {
            root: ProcessId::of(root),
            seen: HashMap::new(),
            leaders: HashMap::new(),
        };
        snapshot.refresh();
        snapshot
    }

    /// Looks again and adds what is new. What was recorded stays recorded.
    pub fn refresh(&mut self) {
        self.absorb(&process::list());
    }

    /// Everything recorded so far, dead or alive.
    pub fn recorded(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.seen
            .iter()
            .map(|(&pid, &start_time)| ProcessId { pid, start_time })
    }

    /// The members of the tree that are alive now, wherever they hang; new ones are recorded on the way.
    pub fn survivors(&mut self) -> Vec<Proc> {
        let table = process::list();
        self.absorb(&table);
        table
            .into_iter()
            .filter(|row| !row.is_zombie() && self.has(row))
            .collect()
    }

    /// Kills the survivors, looks again, and so on until nothing is left or `deadline` passed. Blocks; a
    /// round takes a few milliseconds. SIGKILL also ends stopped processes.
    pub fn kill_survivors_in_rounds(&mut self, deadline: Instant) -> KillReport {
        kill_in_rounds(deadline, || self.survivors())
    }

    fn has(&self, row: &Proc) -> bool {
        self.seen.get(&row.pid) == Some(&row.start_time)
    }

    fn is_root(&self, row: &Proc) -> bool {
        self.root == Some(row.id())
    }

    /// Adds what is reachable in `table`: children of members, and members of the sessions and groups that
    /// members lead. Repeats until a pass adds nothing.
    fn absorb(&mut self, table: &[Proc]) {
        let by_pid: HashMap<u32, &Proc> = table.iter().map(|row| (row.pid, row)).collect();
        // A pid that somebody else has now leads nothing of ours any more.
        self.leaders
            .retain(|pid, start| by_pid.get(pid).is_none_or(|row| row.start_time == *start));
        let spared = own_line_in(&by_pid);
        let mut inside: HashSet<u32> = table
            .iter()
            .filter(|row| self.has(row) || self.is_root(row))
            .map(|row| row.pid)
            .collect();
        loop {
            for pid in &inside {
                if let Some(row) = by_pid.get(pid)
                    && (row.pgid == row.pid || row.sid == row.pid)
                {
                    self.leaders.insert(row.pid, row.start_time);
                }
            }
            let before = inside.len();
            for row in table {
                if !inside.contains(&row.pid)
                    && !spared.contains(&row.pid)
                    && (inside.contains(&row.ppid)
                        || self.leaders.contains_key(&row.sid)
                        || self.leaders.contains_key(&row.pgid))
                {
                    inside.insert(row.pid);
                    self.seen.insert(row.pid, row.start_time);
                }
            }
            if inside.len() == before {
                return;
            }
        }
    }
}

/// The pids of this process and its ancestors: never to be killed by this process, whatever else says so.
pub fn own_line() -> HashSet<u32> {
    let table = process::list();
    own_line_in(&table.iter().map(|row| (row.pid, row)).collect())
}

fn own_line_in(by_pid: &HashMap<u32, &Proc>) -> HashSet<u32> {
    let mut line = HashSet::from([0, 1]);
    let mut at = std::process::id();
    while line.insert(at) {
        match by_pid.get(&at) {
            Some(row) => at = row.ppid,
            None => break,
        }
    }
    line
}

/// Sends SIGKILL to what `find` finds, again and again until it finds nothing or `deadline` passed. Several
/// rounds, because a process may have started another between the look and the kill.
pub fn kill_in_rounds(deadline: Instant, mut find: impl FnMut() -> Vec<Proc>) -> KillReport {
    let mut report = KillReport::default();
    let mut hit = HashSet::new();
    let mut pause = Duration::from_millis(1);
    loop {
        let found = find();
        if found.is_empty() {
            return report;
        }
        for row in &found {
            if process::signal(row.id(), Signal::KILL).unwrap_or(false) && hit.insert(row.id()) {
                report.killed.push(row.clone());
            }
        }
        let now = Instant::now();
        if now >= deadline {
            report.left = find();
            return report;
        }
        std::thread::sleep(pause.min(deadline - now));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
