//! Plays worlds: picks the next step by chance (each world with its own leanings, so that rare things come together in some
//! of them), and at the end lets everything that is still to happen happen in order.

use super::host::Host;
use super::rng::Rng;
use super::step::{Kind, Step};
use super::world::{HOSTS, NESTED, Proc, World};

/// What tends to happen in a world.
struct Leanings {
    /// Most agents.
    agents: u32,
    /// Weights by kind of step.
    weight: [u32; Kind::ALL.len()],
    /// How often, of a hundred, a child does something other than it should.
    odd: u32,
    /// How often, of a hundred, a request is a strange one.
    strange: u32,
    /// Pi sessions are hosts too.
    sessions: bool,
}

impl Leanings {
    fn new(rng: &mut Rng) -> Self {
        let mut weight = [0; Kind::ALL.len()];
        for kind in Kind::ALL {
            weight[*kind as usize] = match kind {
                Kind::Spawn => 2 + rng.below(8),
                Kind::Send => 4 + rng.below(30),
                Kind::Stop | Kind::Abort | Kind::Cancel => rng.below(6),
                Kind::Join
                | Kind::State
                | Kind::Take
                | Kind::Check
                | Kind::Look
                | Kind::JournalReads
                | Kind::Synced => 2 + rng.below(20),
                Kind::Leave | Kind::Written => rng.below(3),
                Kind::LaunchOk | Kind::Deliver | Kind::Exit | Kind::Swept => 10 + rng.below(60),
                Kind::Read | Kind::Answer | Kind::Go => 5 + rng.below(60),
                Kind::Fire => 1 + rng.below(8),
                Kind::Wait => rng.below(4),
                Kind::WriteFail | Kind::OutputEnd => 1 + rng.below(20),
                // The rest is rare, and in half of the worlds it does not happen at all.
                _ if rng.chance(50) => 0,
                Kind::Compacted => 1 + rng.below(30),
                Kind::Shutdown | Kind::CoreDies => 1,
                Kind::Die => 1 + rng.below(6),
                _ => 1 + rng.below(4),
            };
        }
        let faults = rng.chance(70);
        Self {
            agents: 1 + rng.below(4),
            weight,
            odd: if faults { rng.below(30) } else { 0 },
            strange: rng.below(20),
            sessions: rng.chance(60),
        }
    }
}

/// Picks steps for one world.
pub struct Player {
    rng: Rng,
    leanings: Leanings,
    next: u32,
    choices: Vec<(u32, Step)>,
}

impl Player {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let leanings = Leanings::new(&mut rng);
        Self {
            rng,
            leanings,
            next: 1,
            choices: Vec::new(),
        }
    }

    fn offer(&mut self, kind: Kind, a: u32) {
        let weight = self.leanings.weight[kind as usize];
        if weight > 0 {
            self.choices.push((weight, Step::new(kind, a, 0, 0)));
        }
    }

    /// The next step; it fits the world as it is.
    pub fn pick(&mut self, world: &World) -> Step {
        self.choices.clear();
        if world.exited {
            return Step::new(Kind::CoreDies, 0, 0, 0);
        }
        if world.down {
            self.choices.push((4, Step::new(Kind::CoreStarts, 0, 0, 0)));
            self.offer_left(world);
            return self.choose(world);
        }
        if u32::try_from(world.agents.len()).unwrap() < self.leanings.agents {
            self.offer(Kind::Spawn, 0);
        }
        for kind in [
            Kind::Send,
            Kind::Stop,
            Kind::Abort,
            Kind::Wait,
            Kind::CoreDies,
            Kind::Shutdown,
            Kind::GuardDies,
        ] {
            self.offer(kind, 0);
        }
        if world.timers.iter().any(|_| true) {
            self.offer(Kind::Fire, 0);
        }
        if !world.old_timers.is_empty() {
            self.offer(Kind::StaleTimer, 0);
        }
        if self.leanings.sessions {
            for h in world.hosts.iter().skip(1) {
                self.offer_host(h);
            }
        }
        for p in &world.procs {
            if p.gone {
                self.offer(Kind::StaleFact, p.n);
            } else {
                self.offer_proc(p);
            }
        }
        self.offer_left(world);
        self.choose(world)
    }

    /// What can happen to what dead cores left.
    fn offer_left(&mut self, world: &World) {
        for p in world.procs.iter().filter(|p| p.orphan && !p.dead) {
            for kind in [Kind::Read, Kind::Answer, Kind::Go, Kind::Die] {
                self.offer(kind, p.n);
            }
            if p.guarded {
                self.choices
                    .push((4, Step::new(Kind::GuardKills, p.n, 0, 0)));
            }
        }
        if !world.escaped.is_empty() {
            self.offer(Kind::GuardKills, 0);
        }
    }

    fn choose(&mut self, world: &World) -> Step {
        let total: u32 = self.choices.iter().map(|c| c.0).sum();
        let mut at = self.rng.below(total.max(1));
        let mut step = Step::new(Kind::Wait, 1, 0, 0);
        for (weight, choice) in &self.choices {
            if at < *weight {
                step = *choice;
                break;
            }
            at -= weight;
        }
        self.details(step, world)
    }

    fn offer_host(&mut self, h: &Host) {
        let mut offer = |kind: Kind| {
            let weight = self.leanings.weight[kind as usize];
            if weight > 0 {
                self.choices.push((weight, Step::new(kind, 0, h.n, 0)));
            }
        };
        if !h.durable && !h.session_is_empty() {
            offer(Kind::Written);
        }
        if h.failed {
            offer(Kind::JournalWorks);
            if !h.unread.is_empty() {
                offer(Kind::JournalReads);
            }
        } else if !h.writing.is_empty() {
            offer(Kind::Synced);
            offer(Kind::JournalFails);
        }
        if !h.open {
            offer(Kind::Join);
            return;
        }
        offer(Kind::State);
        offer(Kind::Leave);
        if !h.offers.is_empty() {
            offer(Kind::Take);
        }
        if !h.taken.is_empty() {
            offer(Kind::Check);
        }
        if h.can_look() {
            offer(Kind::Look);
        }
    }

    fn offer_proc(&mut self, p: &Proc) {
        let n = p.n;
        if !p.launched {
            if !p.refused {
                self.offer(Kind::LaunchOk, n);
            }
            if !p.moved {
                self.offer(Kind::LaunchFail, n);
            }
        }
        if !p.child.facts.is_empty() {
            self.offer(Kind::Deliver, n);
        }
        if p.write_fails && !p.writer_dead {
            self.offer(Kind::WriteFail, n);
        }
        if p.refused {
            return;
        }
        if p.dead {
            self.offer(if p.exit_told { Kind::Swept } else { Kind::Exit }, n);
            return;
        }
        let child = &p.child;
        if !child.inbox.is_empty() && !child.deaf {
            self.offer(Kind::Read, n);
        }
        if !child.held.is_empty() {
            self.offer(Kind::Answer, n);
        }
        if child.is_running() {
            self.offer(Kind::Go, n);
        }
        if child.mute {
            self.offer(Kind::OutputEnd, n);
        } else {
            self.offer(Kind::Mute, n);
        }
        if !child.deaf {
            self.offer(Kind::Deaf, n);
        }
        if child.may_compact() {
            self.offer(Kind::Compact, n);
        }
        if child.compacting {
            self.offer(Kind::Compacted, n);
        }
        if child.can_repeat() {
            self.offer(Kind::Repeat, n);
        }
        for kind in [
            Kind::Stray,
            Kind::SelfStart,
            Kind::Question,
            Kind::Babble,
            Kind::Escape,
            Kind::Die,
        ] {
            self.offer(kind, n);
        }
        if child.eof {
            self.offer(Kind::Die, n);
            self.offer(Kind::Exit, n);
        }
    }

    /// Fills in how it happens.
    fn details(&mut self, mut step: Step, world: &World) -> Step {
        let odd = self.rng.chance(self.leanings.odd);
        let strange = self.rng.chance(self.leanings.strange);
        match step.kind {
            Kind::Spawn => {
                step.a = self.fresh();
                step.b = self.rng.below(16) | (u32::from(self.rng.chance(30)) << 8);
                if strange {
                    step.b |= [16, 32, 64, 128, 512][self.rng.below(5) as usize];
                }
                if self.leanings.sessions && self.rng.chance(70) {
                    let open = world.hosts.iter().skip(1).find(|h| h.open || strange);
                    step.c = open.map_or(0, |h| h.n);
                }
                if world.hosts[NESTED as usize].open && self.rng.chance(50) {
                    step.c = NESTED;
                    step.b |= if strange { 0 } else { 256 };
                }
            }
            Kind::Send => {
                step.a = self.fresh();
                step.b = self.some_agent(world);
                step.c = if strange { 1 + self.rng.below(5) } else { 0 };
                if self.leanings.sessions && self.rng.chance(self.leanings.odd + 5) {
                    step.c += 10 * (1 + self.rng.below(3));
                }
            }
            Kind::Stop | Kind::Abort => {
                step.a = self.fresh();
                step.b = self.some_agent(world);
                step.c = self.rng.below(2) + u32::from(strange);
            }
            Kind::Cancel => {
                let open: Vec<u32> = world
                    .calls
                    .iter()
                    .filter(|c| c.open())
                    .map(|c| c.n)
                    .collect();
                step.a = match u32::try_from(open.len()).unwrap() {
                    0 => self.next,
                    n => open[self.rng.below(n) as usize],
                };
            }
            Kind::Join => {
                step.a = self.fresh();
                step.c = u32::from(self.rng.chance(20));
                if step.b == NESTED {
                    step.c += 2 * self.some_agent(world);
                }
            }
            Kind::Leave => step.c = self.rng.below(2),
            Kind::State => step.c = self.rng.below(3),
            Kind::Take if odd || strange => step.c = 1 + self.rng.below(2),
            Kind::Take if self.rng.chance(30) => step.c = 3,
            Kind::CoreDies => {
                step.a = self.rng.below(3);
                step.b = self.rng.below(2);
            }
            Kind::CoreStarts => step.a = u32::from(self.rng.chance(30)),
            Kind::GuardDies => step.a = self.rng.below(2),
            Kind::Escape => step.b = self.rng.below(2),
            Kind::Shutdown => step.a = if strange { 0 } else { self.fresh() },
            Kind::Wait => step.a = 1 << self.rng.below(12),
            Kind::StaleTimer => {
                step.a = self
                    .rng
                    .below(u32::try_from(world.old_timers.len()).unwrap());
            }
            Kind::StaleFact => step.b = self.rng.below(11),
            Kind::Exit => step.b = if odd && strange { self.rng.below(4) } else { 0 },
            Kind::Swept if odd => {
                step.b = self.rng.below(3);
                step.c = self.rng.below(2);
            }
            Kind::Read if odd => step.b = 1 + self.rng.below(5),
            Kind::Answer if odd => step.b = 1 + self.rng.below(8),
            Kind::Go => {
                step.b = if odd {
                    2 + self.rng.below(6)
                } else {
                    u32::from(self.rng.chance(20))
                };
            }
            Kind::Die => step.b = [0, 1, 9, 143][self.rng.below(4) as usize],
            Kind::Babble => step.b = self.rng.below(4),
            _ => {}
        }
        step
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn some_agent(&mut self, world: &World) -> u32 {
        let n = u32::try_from(world.agents.len()).unwrap();
        if n == 0 || self.rng.chance(2) {
            return 9000;
        }
        world.agents[self.rng.below(n) as usize].n
    }
}

/// Most that may happen until all is over.
const ENDLESS: u32 = 4000;

/// Lets everything come to its end, in order, and judges what is left; then shuts the core down and judges again.
pub fn finish(world: &mut World) {
    settle(world);
    // What another extension dropped three times is offered again when the host next reports.
    for n in 1..=HOSTS {
        if world.hosts[n as usize].read_late && world.not_over().or(world.unpaid()).is_some() {
            world.step(Step::new(Kind::Leave, 0, n, 1));
            settle(world);
        }
        if world.unpaid().is_some() {
            world.step(Step::new(Kind::State, 0, n, 1));
            settle(world);
        }
    }
    if !world.exited && world.fault.is_none() {
        world.finish();
        world.tell(|| "in the end the core is shut down".to_owned());
        world.step(Step::new(Kind::Shutdown, 9999, 0, 0));
        settle(world);
    }
    if world.fault.is_none() {
        world.finish();
        if !world.exited {
            world.fail("the core does not end");
        }
    }
}

fn settle(world: &mut World) {
    for _ in 0..ENDLESS {
        if world.fault.is_some() || world.exited {
            return;
        }
        let next = world.procs.iter().filter(|p| !p.gone).find_map(next_of);
        let Some(step) = next
            .filter(|_| !world.down)
            .or_else(|| next_of_left(world))
            .or_else(|| next_of_host(world))
            .or_else(|| world.next_timer().map(|_| Step::new(Kind::Fire, 0, 0, 0)))
        else {
            return;
        };
        world.tell(|| format!("then {}", step.says()));
        world.step(step);
    }
    world.fail("it goes on for ever");
}

/// What becomes of what dead cores left when all goes well, and of a core that is missing.
fn next_of_left(world: &World) -> Option<Step> {
    let p = world.procs.iter().find(|p| p.orphan && !p.dead);
    let step = |kind, n| Some(Step::new(kind, n, 0, 0));
    match p {
        _ if world.down => step(Kind::CoreStarts, 0),
        Some(p) if p.guarded => step(Kind::GuardKills, p.n),
        Some(p) if p.n.is_multiple_of(2) => step(Kind::Die, p.n),
        _ if world.abandoned().is_some() => step(Kind::GuardKills, 0),
        _ => None,
    }
}

/// What a host does next when all goes well: it comes back, takes what it is offered, and everything is written.
fn next_of_host(world: &World) -> Option<Step> {
    let shutdown = world.shutdown;
    if world.exited {
        return None;
    }
    (1..=HOSTS).find_map(|n| {
        let h = &world.hosts[n as usize];
        let step = |kind, c| Some(Step::new(kind, 0, n, c));
        if h.failed {
            return step(Kind::JournalWorks, 0);
        }
        if !h.writing.is_empty() {
            return step(Kind::Synced, 0);
        }
        if !h.open {
            let call = 9100 + u32::try_from(world.calls.len()).unwrap();
            let known = h.generation > 0 && !shutdown && n != NESTED;
            return known.then(|| Step::new(Kind::Join, call, n, 0));
        }
        if h.activity.is_none() {
            return step(Kind::State, 1);
        }
        if !h.offers.is_empty() {
            return step(Kind::Take, 0);
        }
        if !h.taken.is_empty() {
            return step(
                if h.durable {
                    Kind::Check
                } else {
                    Kind::Written
                },
                0,
            );
        }
        if h.can_look() {
            return step(Kind::Look, 0);
        }
        if !h.unsafe_.is_empty() {
            return step(Kind::Written, 0);
        }
        None
    })
}

/// What a process does next when all goes well. One in two ends when its input is closed, one in two of the others when
/// it is told to, the last only when it is killed.
fn next_of(p: &Proc) -> Option<Step> {
    let step = |kind, b| Some(Step::new(kind, p.n, b, 0));
    let child = &p.child;
    if !p.launched && !p.exit_told {
        let kind = if p.refused {
            Kind::LaunchFail
        } else {
            Kind::LaunchOk
        };
        return step(kind, 0);
    }
    if !child.facts.is_empty() {
        return step(Kind::Deliver, 0);
    }
    if p.exit_told {
        return step(Kind::Swept, 0);
    }
    if p.dead {
        return step(Kind::Exit, 0);
    }
    if p.write_fails && !p.writer_dead {
        return step(Kind::WriteFail, 0);
    }
    if child.mute && !p.output_ended {
        return step(Kind::OutputEnd, 0);
    }
    if child.eof && p.n.is_multiple_of(2) {
        return step(Kind::Die, 0);
    }
    if p.term.is_some() && p.n % 4 == 1 {
        return step(Kind::Die, 143);
    }
    if child.mute {
        return None;
    }
    if !child.inbox.is_empty() && !child.deaf {
        return step(Kind::Read, 0);
    }
    if !child.held.is_empty() {
        return step(Kind::Answer, 0);
    }
    if child.compacting {
        return step(Kind::Compacted, 0);
    }
    if child.is_running() {
        return step(Kind::Go, 0);
    }
    None
}
