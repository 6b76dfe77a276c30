//! The death of a core, what it leaves, and who ends that (R-LIFE-07, R-LIFE-08): the guard, which adopted all of it and kills
//! it when the core is gone; if the guard is lost too, the marker sweep of the next core. Until then a process of the old
//! core may go on, and no other may have its session (R-LIFE-10): the lock that a process inherits refuses a launch.

use pi_agents::fleet::machine::{Effect, Input, Machine};
use pi_agents::fleet::transcript::Level;

use super::step::{Kind, Step};
use super::world::{Proc, World, host_id, instance_id, number};

/// Something that a tool started and that left the process it belongs to.
#[derive(Debug)]
pub struct Escaped {
    /// The process it comes from.
    proc: u32,
    /// It has its marker still.
    marked: bool,
    /// Its core is dead.
    old: bool,
    /// The guard of its core lives.
    guarded: bool,
}

/// What a sweep was told to have done.
pub struct SweptOf {
    agent: u32,
    killed: u32,
    left: u32,
}

impl World {
    /// The core is killed, with `kept` records of each journal beyond those it knew to be safe. What it had dies with it and
    /// a new core is there at once, or it lives on until somebody ends it.
    pub fn core_dies(&mut self, kept: u32, leaves: u32) {
        let lost = self.inputs + 1;
        self.inputs = lost;
        for p in &mut self.procs {
            if p.gone {
                continue;
            }
            p.orphan = leaves != 0 && !p.dead && !p.refused && (p.moved || p.launched);
            p.guarded = self.guard;
            p.dead |= !p.orphan;
            p.gone = true;
            p.exit_told = true;
            // It reads the end of its input, and nobody reads what it says.
            p.child.eof = true;
            p.child.mute = true;
            p.child.facts.clear();
        }
        for e in self.escaped.iter_mut().filter(|e| !e.old) {
            e.old = true;
            e.guarded = self.guard;
        }
        for call in &mut self.calls {
            call.lost |= call.answers == 0;
        }
        for msg in &mut self.msgs {
            if !msg.consumed {
                msg.fate.get_or_insert(lost);
            }
        }
        self.old_timers
            .extend(self.timers.drain(..).map(|(_, _, timer)| timer));
        self.shutdown = false;
        self.exited = false;
        let mut wrong = None;
        for host in &mut self.hosts {
            wrong = wrong.or(host.core_died(kept as usize));
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
        self.down = true;
        if leaves == 0 {
            self.core_starts(0);
        }
    }

    /// A new core: it ends what carries the marker of a dead one before it takes anything in. It can fail at that, when
    /// another one is at it or a process is stuck in the kernel.
    pub fn core_starts(&mut self, sort: u32) {
        if !self.down {
            return;
        }
        self.down = false;
        self.guard = true;
        if sort.is_multiple_of(2) {
            for p in self.procs.iter_mut().filter(|p| p.orphan) {
                p.dead = true;
            }
            self.escaped.retain(|e| !(e.old && e.marked));
        }
        self.machine = Machine::new(self.config, host_id(0));
        let records = self.records.clone();
        self.agents
            .retain(|a| records.iter().any(|r| number(r.id.0) == a.n));
        for a in &mut self.agents {
            a.secret = false;
        }
        // The records of a folder come oldest first.
        for record in records {
            self.machine.restore(record);
        }
        self.restored();
    }

    pub fn guard_step(&mut self, step: Step) {
        match (step.kind, step.a) {
            (Kind::GuardDies, 0) => self.guard &= self.down,
            (Kind::GuardDies, _) => {
                for p in &mut self.procs {
                    p.guarded = false;
                }
                for e in self.escaped.iter_mut().filter(|e| e.old) {
                    e.guarded = false;
                }
            }
            (Kind::GuardKills, 0) => self.escaped.retain(|e| !(e.old && e.guarded)),
            (Kind::GuardKills, n) => {
                for p in &mut self.procs {
                    p.dead |= p.n == n && p.orphan && p.guarded;
                }
            }
            (Kind::Escape, n) => {
                let lives = self.procs.iter().any(|p| p.n == n && p.exists() && !p.gone);
                if lives && self.escaped.len() < 8 {
                    self.escaped.push(Escaped {
                        proc: n,
                        marked: step.b.is_multiple_of(2),
                        old: false,
                        guarded: false,
                    });
                }
            }
            _ => {}
        }
    }

    /// What a core finds and kills when a process of its own is dead: whatever carries the marker of that process; and
    /// what the guard adopted, if no other process can have left it. How many.
    pub fn sweep(&mut self, n: u32) -> u32 {
        let only = self.procs.iter().filter(|p| !p.gone).count() == 1;
        let all = only && self.guard;
        let before = self.escaped.len();
        self.escaped
            .retain(|e| e.old || !(all || (e.proc == n && e.marked)));
        u32::try_from(before - self.escaped.len()).unwrap()
    }

    /// A sweep of a process that the core has.
    pub fn swept_of(&self, input: &Input) -> Option<SweptOf> {
        let Input::Swept {
            instance,
            killed,
            left,
        } = *input
        else {
            return None;
        };
        let p = self.proc(number(instance.0));
        let p = p.filter(|p| instance_id(p.n) == instance && !p.orphan && !self.quiet)?;
        Some(SweptOf {
            agent: p.agent,
            killed,
            left,
        })
    }

    /// Whoever looks at the agent reads what was killed, and what could not be (R-LIFE-07).
    pub fn check_swept(&mut self, swept: SweptOf, effects: &[Effect]) {
        let said = |loud: Level, n: u32| {
            effects.iter().any(|e| {
                matches!(e, Effect::Notice { agent, level, text }
                    if number(agent.0) == swept.agent && *level == loud && text.starts_with(&format!("{n} ")))
            })
        };
        let SweptOf { killed, left, .. } = swept;
        if (killed > 0) != said(Level::Info, killed) || (left > 0) != said(Level::Error, left) {
            self.fail(format!(
                "{killed} were killed and {left} not, and the agent's notices say something else (R-LIFE-07)"
            ));
        }
    }

    /// Never two that can write one session, across cores (R-LIFE-10).
    pub fn two_on_one_session(&self) -> Option<String> {
        let old = self.procs.iter().filter(|p| p.orphan && p.exists());
        old.into_iter().find_map(|p| {
            let twin = |q: &&Proc| q.agent == p.agent && q.n != p.n && q.exists();
            let q = self.procs.iter().find(twin)?;
            Some(format!(
                "processes {} and {} have one session (R-LIFE-10)",
                p.n, q.n
            ))
        })
    }

    /// What is left of dead cores that nobody will ever end, when nothing is left to happen.
    pub fn abandoned(&self) -> Option<String> {
        let escaped = self.escaped.iter().find(|e| e.old && e.guarded);
        let proc = self.procs.iter().find(|p| p.orphan && p.guarded && !p.dead);
        escaped
            .map(|e| e.proc)
            .or(proc.map(|p| p.n))
            .map(|n| format!("something of process {n} lives on under a guard (R-LIFE-08)"))
    }
}
