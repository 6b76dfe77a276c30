//! What must hold after every step of a [`super::play`], seen from the effects alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pi_agents::fleet::answer::{ErrorCode, Reply, RequestError};
use pi_agents::fleet::completion::{CompletionId, DeliveryId};
use pi_agents::fleet::host::{Caller, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, HostId, InstanceId};
use pi_agents::fleet::machine::table::{State, TRANSITIONS, allowed};
use pi_agents::fleet::machine::{ChildCommand, Effect, Input, LadderSignal, Machine, Timer};
use pi_agents::fleet::outbox::{Activity, Ending, JournalRecord, OfferMode};

use super::play::Writes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Asked,
    Up,
    Dead,
    Gone,
}

/// A process as it sees itself.
#[derive(Debug)]
pub struct Proc {
    pub agent: AgentId,
    pub instance: InstanceId,
    pub life: Life,
    pub writes: Writes,
    pub eof: bool,
    pub killed: bool,
    /// The run that is on, and how many there were.
    pub run: Option<u64>,
    pub runs: u64,
    /// A prompt was answered with `started` and its run has not begun.
    pub announced: bool,
    /// A run that was announced did not begin: from now on its numbers are not those of the machine.
    pub miscounted: bool,
    /// It took a prompt once.
    pub accepted: bool,
    /// The prompt that the machine waits for.
    pub unanswered: Option<String>,
}

impl Proc {
    pub fn has_something_to_do(&self) -> bool {
        match self.life {
            Life::Asked | Life::Dead => true,
            Life::Up => {
                self.eof
                    || self.killed
                    || self.announced
                    || self.run.is_some()
                    || !self.writes.is_empty()
            }
            Life::Gone => false,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Asked {
    Spawn {
        instance: InstanceId,
        foreground: bool,
        by: Caller,
    },
    Stop,
    Join(Caller),
    Other,
}

#[derive(Debug)]
pub struct Offer {
    pub epoch: u64,
    pub ids: Vec<DeliveryId>,
    pub taken: bool,
}

#[derive(Debug)]
pub struct Watch {
    pi: HostId,
    /// Of the parent session while it is there.
    pub generation: Option<u64>,
    pub activity: Option<Activity>,
    pub procs: Vec<Proc>,
    /// Calls, what they asked for, and whether they are answered.
    pub calls: Vec<(CallId, Asked, bool)>,
    pub armed: Vec<Timer>,
    pub offers: Vec<Offer>,
    /// What the parent session holds, for good.
    pub session: BTreeSet<DeliveryId>,
    /// Last record written for each host, and the last that is safe.
    pub written: BTreeMap<HostId, u64>,
    synced: BTreeMap<HostId, u64>,
    journal: BTreeMap<DeliveryId, (HostId, JournalRecord)>,
    /// Nothing of these may be offered: their call has said it all.
    never: BTreeSet<InstanceId>,
    never_ids: BTreeSet<DeliveryId>,
    status: HashMap<AgentId, State>,
    stopping: Option<(CallId, DeliveryId)>,
    /// Hosts that left, and those whose leaving was said to be done.
    pub leaves: Vec<Caller>,
    closed: Vec<Caller>,
    exits: usize,
    pub inputs: u64,
    last: Vec<String>,
}

fn of(timer: &Timer) -> Option<InstanceId> {
    match timer {
        Timer::Start(i)
        | Timer::Prompt(i, _)
        | Timer::RunBegins(i)
        | Timer::AskState(i)
        | Timer::Compaction(i)
        | Timer::Run(i, _)
        | Timer::Ladder(i)
        | Timer::Abort(i) => Some(*i),
        Timer::Wake(_) => None,
    }
}

impl Watch {
    pub fn new(pi: HostId) -> Self {
        Self {
            pi,
            generation: None,
            activity: None,
            procs: Vec::new(),
            calls: Vec::new(),
            armed: Vec::new(),
            offers: Vec::new(),
            session: BTreeSet::new(),
            written: BTreeMap::new(),
            synced: BTreeMap::new(),
            journal: BTreeMap::new(),
            never: BTreeSet::new(),
            never_ids: BTreeSet::new(),
            status: HashMap::new(),
            stopping: None,
            leaves: Vec::new(),
            closed: Vec::new(),
            exits: 0,
            inputs: 0,
            last: Vec::new(),
        }
    }

    pub fn is_answered(&self, call: CallId) -> bool {
        self.calls.iter().any(|(c, _, done)| *c == call && *done)
    }

    pub fn unsynced(&self) -> bool {
        self.written
            .iter()
            .any(|(host, seq)| self.synced.get(host) != Some(seq))
    }

    /// The run of this process that is on or announced.
    fn unsettled(&self, agent: AgentId) -> Option<DeliveryId> {
        let p = self
            .procs
            .iter()
            .find(|p| p.agent == agent && p.life == Life::Up && !p.miscounted)?;
        let run = p.run.or(p.announced.then_some(p.runs + 1))?;
        let instance = p.instance;
        Some(CompletionId { instance, run }.into())
    }

    pub fn before(&mut self, input: &Input) {
        self.inputs += 1;
        self.last.push(format!("{input:?}"));
        if self.last.len() > 30 {
            self.last.remove(0);
        }
        match input {
            Input::Cancel { call } => {
                if let Some((_, Asked::Spawn { instance, .. }, false)) =
                    self.calls.iter().find(|(c, ..)| c == call)
                {
                    self.never.insert(*instance);
                }
            }
            Input::Stop {
                call,
                agent,
                by: Stopper::Parent(_),
            } => self.stopping = self.unsettled(*agent).map(|id| (*call, id)),
            Input::Journaled { host, seq } => {
                self.synced.insert(*host, *seq);
            }
            _ => {}
        }
    }

    fn fails(&self, what: &str) -> ! {
        panic!("{what}\nafter:\n{}", self.last.join("\n"));
    }

    fn holds(&self, yes: bool, what: &str) {
        if !yes {
            self.fails(what);
        }
    }

    fn living(&mut self, instance: InstanceId) -> &mut Proc {
        let at = self
            .procs
            .iter()
            .position(|p| p.instance == instance && p.life == Life::Up);
        match at {
            Some(at) => &mut self.procs[at],
            None => self.fails("something for a process that is not there"),
        }
    }

    pub fn after(&mut self, machine: &Machine, effects: Vec<Effect>) {
        for effect in effects {
            self.effect(effect);
        }
        if let Some((_, id)) = self.stopping.take() {
            self.never_ids.insert(id);
        }
        for id in machine.ids().collect::<Vec<_>>() {
            let now = State::of(&machine.view(id).expect("known").status);
            let was = self.status.insert(id, now).unwrap_or(State::Queued);
            let in_two = TRANSITIONS
                .iter()
                .any(|(f, t, _)| *f == was && allowed(*t, now));
            self.holds(
                was == now || allowed(was, now) || in_two,
                &format!("{was:?} became {now:?}"),
            );
        }
        for p in &self.procs {
            if matches!(p.life, Life::Dead | Life::Gone) {
                let leak = self.armed.iter().find(|t| of(t) == Some(p.instance));
                self.holds(
                    leak.is_none(),
                    &format!("a timer of a dead process: {leak:?}"),
                );
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Launch {
                agent,
                instance,
                plan,
            } => {
                let other = self
                    .procs
                    .iter()
                    .any(|p| p.agent == agent && p.life != Life::Gone);
                self.holds(!other, "two processes of one agent");
                let current =
                    plan.host.host != self.pi || self.generation == Some(plan.host.generation);
                self.holds(current, "a launch for a session that is gone");
                self.procs.push(Proc {
                    agent,
                    instance,
                    life: Life::Asked,
                    writes: Writes::new(),
                    eof: false,
                    killed: false,
                    run: None,
                    runs: 0,
                    announced: false,
                    miscounted: false,
                    accepted: false,
                    unanswered: None,
                });
            }
            Effect::Write {
                instance,
                id,
                command,
            } => {
                let p = self.living(instance);
                let (eof, waits) = (p.eof, p.unanswered.is_some());
                if matches!(command, ChildCommand::Prompt { .. }) {
                    p.unanswered = Some(id.clone());
                }
                let lane = matches!(command, ChildCommand::Prompt { .. } | ChildCommand::Abort);
                p.writes.push_back((id, command));
                self.holds(!eof, "written after its input was closed");
                self.holds(!(lane && waits), "a prompt or an abort before an answer");
            }
            Effect::CloseStdin { instance } => {
                let was = std::mem::replace(&mut self.living(instance).eof, true);
                self.holds(!was, "closed twice");
            }
            Effect::Signal { instance, signal } => {
                let p = self.living(instance);
                let eof = p.eof;
                p.killed |= signal == LadderSignal::Kill;
                self.holds(eof, "a signal before its input was closed");
            }
            Effect::Arm { timer, .. } => {
                self.armed.retain(|t| *t != timer);
                self.armed.push(timer);
            }
            Effect::Disarm(timer) => self.armed.retain(|t| *t != timer),
            Effect::Answer { call, answer } => self.answer(call, answer),
            Effect::Journal { host, seq, record } => {
                let before = self.written.insert(host, seq).unwrap_or(0);
                self.holds(seq == before + 1, "a gap in the journal");
                let id = record.id();
                let over = self.journal.insert(id, (host, record));
                let over = over.is_some_and(|(_, r)| r.is_ending());
                self.holds(!over, "a record of what was over");
            }
            Effect::Offer {
                host,
                generation,
                epoch,
                mode,
                deliveries,
            } => {
                let ids: Vec<_> = deliveries.iter().map(|d| d.id()).collect();
                self.offer(host, generation, mode, &ids);
                self.offers.push(Offer {
                    epoch,
                    ids,
                    taken: false,
                });
            }
            Effect::HostClosed { host, generation } => {
                self.closed.push(Caller { host, generation });
            }
            Effect::Exit => self.exits += 1,
            Effect::Save(_)
            | Effect::Publish(_)
            | Effect::RunEnded { .. }
            | Effect::Notice { .. }
            | Effect::Named { .. }
            | Effect::Forget { .. }
            | Effect::Degraded { .. } => {}
        }
    }

    fn answer(&mut self, call: CallId, answer: Result<Reply, RequestError>) {
        let Some(at) = self.calls.iter().position(|(c, ..)| *c == call) else {
            self.fails("an answer to nobody");
        };
        self.holds(!self.calls[at].2, "answered twice");
        self.calls[at].2 = true;
        if answer.is_err() && self.stopping.is_some_and(|(c, _)| c == call) {
            self.stopping = None;
        }
        match (self.calls[at].1.clone(), answer) {
            (Asked::Spawn { instance, .. }, Err(_)) => {
                self.never.insert(instance);
            }
            (
                Asked::Spawn {
                    instance,
                    foreground,
                    by,
                    ..
                },
                Ok(reply),
            ) => {
                let finished = matches!(reply, Reply::Finished { .. });
                self.holds(finished == foreground, "the wrong sort of answer");
                if finished && by.host == self.pi && self.generation == Some(by.generation) {
                    let id = CompletionId { instance, run: 1 };
                    self.never_ids.insert(id.into());
                }
            }
            (Asked::Join(caller), Ok(_)) => self.leaves.push(caller),
            (Asked::Stop, Err(error)) => {
                let fine = matches!(
                    error.code,
                    ErrorCode::NotFound | ErrorCode::Gone | ErrorCode::Cancelled
                );
                self.holds(fine, "a stop is refused for no reason");
            }
            (Asked::Join(_) | Asked::Stop | Asked::Other, _) => {}
        }
    }

    fn offer(&mut self, host: HostId, generation: u64, mode: OfferMode, ids: &[DeliveryId]) {
        if host != self.pi {
            return;
        }
        self.holds(
            self.generation == Some(generation),
            "an offer to a session that is gone",
        );
        let fits = match self.activity {
            None => false,
            Some(Activity::Busy) => mode != OfferMode::Wake,
            Some(Activity::Idle) => mode != OfferMode::Boundary,
            Some(Activity::Silent) => mode == OfferMode::Silent,
        };
        self.holds(fits, "an offer that does not fit what the host does");
        for id in ids {
            let instance = match id {
                DeliveryId::Completion(c) => Some(c.instance),
                DeliveryId::Question(_) => None,
            };
            let silenced =
                self.never_ids.contains(id) || instance.is_some_and(|i| self.never.contains(&i));
            self.holds(!silenced, &format!("told although its call said it: {id}"));
            let twice = self.offers.iter().any(|o| o.ids.contains(id)) || self.session.contains(id);
            self.holds(!twice, &format!("offered twice: {id}"));
            let quiet = matches!(
                self.journal.get(id),
                Some((_, JournalRecord::Settled { quiet: true, .. }))
            );
            self.holds(
                !(quiet && mode == OfferMode::Wake),
                "what ended with its session woke it",
            );
        }
    }

    /// At rest: whatever was owed is in the session, once; what ended is over in the journal.
    pub fn all_is_told(&self) {
        for (id, (host, record)) in &self.journal {
            if *host == self.pi {
                let over = matches!(
                    record,
                    JournalRecord::Ended {
                        how: Ending::Acked | Ending::Pulled | Ending::Suppressed(_),
                        ..
                    }
                );
                self.holds(over, &format!("not over at rest: {id}: {record:?}"));
                let acked = matches!(
                    record,
                    JournalRecord::Ended {
                        how: Ending::Acked,
                        ..
                    }
                );
                self.holds(
                    acked == self.session.contains(id),
                    &format!("told, or not: {id}: {record:?}"),
                );
            }
        }
        for (call, asked, answered) in &self.calls {
            self.holds(*answered, &format!("not answered: {call} {asked:?}"));
        }
    }

    /// The end: no process, no timer, no host that was not said to be closed, one exit.
    pub fn nothing_is_left(&self) {
        self.holds(self.armed.is_empty(), &format!("armed: {:?}", self.armed));
        self.holds(
            self.procs.iter().all(|p| p.life == Life::Gone),
            "a process is left",
        );
        self.holds(self.exits == 1, &format!("{} exits", self.exits));
        let sorted = |hosts: &[Caller]| {
            let mut sorted: Vec<_> = hosts.iter().map(|c| (c.host, c.generation)).collect();
            sorted.sort();
            sorted
        };
        let (left, closed) = (sorted(&self.leaves), sorted(&self.closed));
        self.holds(left == closed, &format!("left {left:?}, closed {closed:?}"));
    }
}
