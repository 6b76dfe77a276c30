//! Generated orders: a machine whose children, parent sessions, callers, clock and disk each do
//! something at any moment, in an order that follows from a seed. What must hold after every step is
//! checked by [`super::watch`]; [`Play::comes_to_rest`] checks what must hold in the end.

use std::collections::VecDeque;

use pi_agents::fleet::agent::{AgentSpec, ToolChoice};
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, HostId, InstanceId, MessageId};
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::{
    ChildCommand, ChildEnv, Exit, Input, Machine, MachineConfig, Now, OfferAnswer, Timer,
};
use pi_agents::fleet::outbox::Activity;
use pi_agents::pi::message::StopReason;
use uuid::Uuid;

use super::watch::{Asked, Life, Watch};

/// Numbers that look random and are the same for the same seed (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}

/// Plays this many seeds and names those that failed.
pub fn seeds(n: u64, play: impl Fn(u64)) {
    let failed: Vec<u64> = (1..=n)
        .filter(|seed| {
            let played = std::panic::AssertUnwindSafe(|| play(*seed));
            std::panic::catch_unwind(played).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "failed with seeds {failed:?}");
}

pub struct Play {
    pub rng: Rng,
    pub machine: Machine,
    pub watch: Watch,
    /// A person writes to the agents too: some runs are private.
    pub side_chats: bool,
    pub pi: Caller,
    pub agents: Vec<AgentId>,
    nested: Vec<Caller>,
    ids: u128,
    now: u64,
}

impl Play {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let config = MachineConfig {
            launch_slots: 1 + rng.below(3),
            max_depth: 3,
            ..MachineConfig::default()
        };
        let id = |n| HostId(Uuid::from_u128(n));
        let pi = Caller {
            host: id(2),
            generation: 0,
        };
        let mut play = Self {
            machine: Machine::new(config, id(1)),
            watch: Watch::new(pi.host),
            side_chats: rng.chance(50),
            rng,
            pi,
            agents: Vec::new(),
            nested: Vec::new(),
            ids: 10,
            now: 0,
        };
        play.join();
        play
    }

    fn id(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    pub fn input(&mut self, input: Input) {
        self.now += 1;
        let now = Now {
            mono: std::time::Duration::from_millis(self.now),
            wall_ms: i64::try_from(self.now).unwrap(),
        };
        self.watch.before(&input);
        let effects = self.machine.step(now, input);
        self.watch.after(&self.machine, effects);
    }

    fn call(&mut self, asked: Asked) -> CallId {
        let call = CallId(self.id());
        self.watch.calls.push((call, asked, false));
        call
    }

    // --- the parent session -----------------------------------------------------------------

    pub fn join(&mut self) {
        self.pi.generation += 1;
        let call = self.call(Asked::Other);
        let known = self.watch.session.iter().copied().collect();
        self.watch.generation = Some(self.pi.generation);
        self.watch.activity = None;
        self.input(Input::HostJoined {
            call,
            host: self.pi.host,
            kind: HostKind::Pi,
            generation: self.pi.generation,
            known,
            undecided: Vec::new(),
            durable: true,
            journal: Vec::new(),
        });
    }

    pub fn leave(&mut self) {
        let reason = self.rng.pick(&[
            LeaveReason::Reload,
            LeaveReason::New,
            LeaveReason::Quit,
            LeaveReason::Lost,
        ]);
        self.watch.leaves.push(self.pi);
        // What was handed over and not yet looked for may have arrived.
        for offer in std::mem::take(&mut self.watch.offers) {
            if offer.taken && self.rng.chance(50) {
                self.watch.session.extend(offer.ids);
            }
        }
        self.watch.generation = None;
        self.input(Input::HostLeft {
            host: self.pi.host,
            generation: self.pi.generation,
            reason: reason.unwrap_or(LeaveReason::Lost),
        });
    }

    pub fn report(&mut self, activity: Activity) {
        self.watch.activity = Some(activity);
        let Caller { host, generation } = self.pi;
        self.input(Input::HostState {
            host,
            generation,
            activity,
        });
    }

    pub fn answer_offer(&mut self, kind: bool) {
        let Some(at) = (0..self.watch.offers.len()).next() else {
            return;
        };
        let at = if kind {
            at
        } else {
            self.rng.below(self.watch.offers.len())
        };
        let Caller { host, generation } = self.pi;
        let epoch = self.watch.offers[at].epoch;
        let answer = if !self.watch.offers[at].taken {
            if kind || self.rng.chance(70) {
                self.watch.offers[at].taken = true;
                OfferAnswer::Taken
            } else {
                self.watch.offers.remove(at);
                OfferAnswer::Refused
            }
        } else {
            let offer = self.watch.offers.remove(at);
            let arrived = kind || self.rng.chance(80);
            if arrived {
                self.watch.session.extend(offer.ids.iter().copied());
            }
            OfferAnswer::Checked {
                missing: Vec::new(),
                found: if arrived { offer.ids } else { Vec::new() },
                durable: true,
            }
        };
        let refused = answer == OfferAnswer::Refused;
        self.input(Input::Offered {
            host,
            generation,
            epoch,
            answer,
        });
        if refused {
            let activity = self
                .rng
                .pick(&[Activity::Busy, Activity::Idle, Activity::Silent]);
            self.report(activity.unwrap_or(Activity::Busy));
        }
    }

    // --- callers ----------------------------------------------------------------------------

    pub fn spawn(&mut self, by: Caller, mode: SpawnMode) -> (CallId, InstanceId) {
        let call = CallId(self.id());
        let (agent, instance) = (AgentId(self.id()), InstanceId(self.id()));
        let message = MessageId(self.id());
        let asked = Asked::Spawn {
            instance,
            foreground: mode == SpawnMode::Foreground,
            by,
        };
        self.watch.calls.push((call, asked, false));
        let spec = AgentSpec {
            label: "a task".to_owned(),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: "/".into(),
            persistent: self.rng.chance(60),
            timeout_ms: self.rng.chance(30).then_some(5000),
            call: None,
        };
        self.agents.push(agent);
        self.input(Input::Spawn {
            call,
            by,
            mode,
            agent,
            instance,
            message,
            spec,
            prompt: "task".to_owned(),
            env: ChildEnv::default(),
        });
        (call, instance)
    }

    fn send(&mut self) {
        let Some(agent) = self.rng.pick(&self.agents) else {
            return;
        };
        let by = match self.rng.below(3) {
            0 if self.side_chats => Sender::User,
            1 => Sender::Continue,
            _ => Sender::Parent(self.pi),
        };
        let call = self.call(Asked::Other);
        let (message, instance) = (MessageId(self.id()), InstanceId(self.id()));
        let text = format!("message {}", self.ids);
        self.input(Input::Send {
            call,
            agent,
            by,
            message,
            instance,
            text,
            env: ChildEnv::default(),
        });
    }

    fn stop(&mut self) {
        let Some(agent) = self.rng.pick(&self.agents) else {
            return;
        };
        let by = if self.rng.chance(50) {
            Stopper::User
        } else {
            Stopper::Parent(self.pi)
        };
        let call = self.call(Asked::Stop);
        self.input(Input::Stop { call, agent, by });
    }

    fn cancel(&mut self) {
        let call = if self.rng.chance(20) {
            // One that is on its way: it is the next thing that is asked.
            CallId(Uuid::from_u128(self.ids + 1))
        } else {
            match self.rng.pick(&self.watch.calls) {
                Some((call, ..)) => call,
                None => return,
            }
        };
        self.input(Input::Cancel { call });
    }

    fn abort(&mut self) {
        if let Some(agent) = self.rng.pick(&self.agents) {
            let call = self.call(Asked::Other);
            self.input(Input::Abort { call, agent });
        }
    }

    fn nest(&mut self) {
        let up: Vec<AgentId> = self
            .watch
            .procs
            .iter()
            .filter(|p| p.life == Life::Up)
            .map(|p| p.agent)
            .collect();
        if let Some(agent) = self.rng.pick(&up) {
            let caller = Caller {
                host: HostId(self.id()),
                generation: 1,
            };
            let call = self.call(Asked::Join(caller));
            self.nested.push(caller);
            self.input(Input::HostJoined {
                call,
                host: caller.host,
                kind: HostKind::Nested { agent },
                generation: 1,
                known: Vec::new(),
                undecided: Vec::new(),
                durable: true,
                journal: Vec::new(),
            });
        }
    }

    // --- children ---------------------------------------------------------------------------

    fn fact(&mut self, at: usize, fact: Fact) {
        let instance = self.watch.procs[at].instance;
        self.input(Input::Fact { instance, fact });
    }

    /// A child does something. `kind`: nothing but what a healthy one does.
    pub fn child(&mut self, at: usize, kind: bool) {
        let p = &self.watch.procs[at];
        let instance = p.instance;
        match p.life {
            Life::Gone => {}
            Life::Asked if kind || self.rng.chance(85) => {
                self.watch.procs[at].life = Life::Up;
                self.input(Input::Launched { instance, pid: 7 });
            }
            Life::Asked => {
                self.watch.procs[at].life = Life::Gone;
                self.input(Input::LaunchFailed {
                    instance,
                    reason: "no such program".to_owned(),
                    hint: None,
                });
            }
            Life::Dead => {
                self.watch.procs[at].life = Life::Gone;
                self.input(Input::Swept {
                    instance,
                    killed: 0,
                    left: 0,
                });
            }
            Life::Up => self.living(at, kind),
        }
    }

    fn living(&mut self, at: usize, kind: bool) {
        let p = &self.watch.procs[at];
        let instance = p.instance;
        if p.killed || (p.eof && (kind || self.rng.chance(50))) || (!kind && self.rng.chance(3)) {
            return self.dies(at);
        }
        if !kind && self.rng.chance(1) {
            return self.input(Input::OutputEnded { instance });
        }
        if !kind && self.rng.chance(1) {
            return self.input(Input::WriteFailed { instance });
        }
        if !p.writes.is_empty() && (kind || self.rng.chance(60)) {
            return self.responds(at, kind);
        }
        if p.announced {
            self.watch.procs[at].announced = false;
            if kind || self.rng.chance(95) {
                self.begins(at);
            } else {
                self.watch.procs[at].miscounted = true;
            }
            return;
        }
        if p.run.is_some() {
            if !kind && self.rng.chance(10) {
                let text = "which branch?".to_owned();
                return self.fact(at, Fact::ToParent { text });
            }
            if !kind && self.rng.chance(10) {
                return self.fact(at, Fact::RunStarted);
            }
            if kind || self.rng.chance(50) {
                let stops = [
                    StopReason::Stop,
                    StopReason::Length,
                    StopReason::Error,
                    StopReason::Aborted,
                ];
                let stop = if kind { 0 } else { self.rng.below(4) };
                self.settles(at, stops[stop].clone());
            }
        } else if p.accepted && !kind && self.rng.chance(15) {
            self.begins(at);
        } else if !kind && self.rng.chance(10) {
            // Late, stray or repeated news of a run that is over.
            let stray = self.rng.pick(&[
                Fact::StraySettled,
                Fact::RunEnded(RunEnd::default()),
                Fact::CompactionEnded,
                Fact::UserMessage {
                    text: "task".into(),
                },
            ]);
            if let Some(stray) = stray {
                self.fact(at, stray);
            }
        }
    }

    fn begins(&mut self, at: usize) {
        let p = &mut self.watch.procs[at];
        p.runs += 1;
        p.run = Some(p.runs);
        self.fact(at, Fact::RunStarted);
    }

    fn settles(&mut self, at: usize, stop: StopReason) {
        self.watch.procs[at].run = None;
        let aborted = stop == StopReason::Aborted;
        self.fact(
            at,
            Fact::RunEnded(RunEnd {
                stop,
                aborted,
                text: "the answer".into(),
                ..RunEnd::default()
            }),
        );
    }

    fn dies(&mut self, at: usize) {
        let instance = self.watch.procs[at].instance;
        if self.watch.procs[at].run.is_some() {
            self.fact(at, Fact::Unfinished(RunEnd::default()));
        }
        self.watch.procs[at].life = Life::Dead;
        self.watch.procs[at].run = None;
        let code = Some(i32::from(self.rng.chance(30)));
        self.input(Input::Exited {
            instance,
            exit: Exit {
                code,
                signal: None,
                ..Exit::default()
            },
        });
    }

    fn responds(&mut self, at: usize, kind: bool) {
        let p = &mut self.watch.procs[at];
        let Some((id, command)) = p.writes.pop_front() else {
            return;
        };
        let busy = p.run.is_some() || p.announced;
        let mut aborts = false;
        let result = match command {
            ChildCommand::GetState => Ok(ResponseData::State(ChildState {
                session_path: Some("/s/one.jsonl".into()),
                streaming: busy,
                ..ChildState::default()
            })),
            ChildCommand::GetModels => Ok(ResponseData::Models(Vec::new())),
            ChildCommand::GetCommands => Ok(ResponseData::Commands(Vec::new())),
            ChildCommand::ClearQueue => Ok(ResponseData::Dropped(Vec::new())),
            ChildCommand::Abort => {
                aborts = p.run.is_some();
                Ok(ResponseData::Other)
            }
            ChildCommand::Prompt { .. } => {
                p.unanswered = None;
                match self.rng.below(if kind { 1 } else { 20 }) {
                    17 => Ok(ResponseData::Disposition(Disposition::Handled)),
                    18 => Err("refused".to_owned()),
                    19 => Err("compaction is in progress".to_owned()),
                    _ => {
                        p.accepted = true;
                        Ok(ResponseData::Disposition(if busy {
                            Disposition::Queued
                        } else {
                            p.announced = true;
                            Disposition::Started
                        }))
                    }
                }
            }
        };
        if aborts {
            self.settles(at, StopReason::Aborted);
        }
        self.fact(
            at,
            Fact::Response {
                id,
                command: String::new(),
                result,
            },
        );
    }

    // --- the whole --------------------------------------------------------------------------

    pub fn fire(&mut self, at: usize) {
        let timer = self.watch.armed.remove(at);
        if let Timer::Prompt(instance, _) = timer
            && let Some(p) = self.watch.procs.iter_mut().find(|p| p.instance == instance)
        {
            p.unanswered = None;
        }
        self.input(Input::Timer(timer));
    }

    pub fn sync(&mut self) {
        for (host, seq) in self.watch.written.clone() {
            self.input(Input::Journaled { host, seq });
        }
    }

    /// Something happens.
    pub fn step(&mut self) {
        let present = self.watch.generation.is_some();
        match self.rng.below(100) {
            0..8 if self.agents.len() < 8 => {
                let mode = if self.rng.chance(50) {
                    SpawnMode::Foreground
                } else {
                    SpawnMode::Background
                };
                self.spawn(self.pi, mode);
            }
            8..14 => self.send(),
            14..17 => self.stop(),
            17..21 => self.cancel(),
            21..23 => self.abort(),
            23..24 => self.nest(),
            24..27 => {
                if let Some(by) = self.rng.pick(&self.nested) {
                    self.spawn(by, SpawnMode::Foreground);
                }
            }
            27..29 if present => self.leave(),
            29..33 if !present => self.join(),
            33..38 if present => {
                let activity = self
                    .rng
                    .pick(&[Activity::Busy, Activity::Idle, Activity::Silent]);
                self.report(activity.unwrap_or(Activity::Busy));
            }
            38..44 => self.answer_offer(false),
            44..48 => self.sync(),
            48..54 if !self.watch.armed.is_empty() => {
                let at = self.rng.below(self.watch.armed.len());
                self.fire(at);
            }
            _ if !self.watch.procs.is_empty() => {
                let at = self.rng.below(self.watch.procs.len());
                self.child(at, false);
            }
            _ => {}
        }
    }

    /// Everybody does what is to be done until nothing is left to do. Then: every call is answered,
    /// every result is in the session once, nothing is armed.
    pub fn comes_to_rest(mut self) {
        // The calls of the end are none that was cancelled before it came.
        self.ids += 1;
        if self.watch.generation.is_none() {
            self.join();
        }
        self.rests();
        self.report(Activity::Idle);
        self.rests();
        self.watch.all_is_told();
        let calls = [
            self.call(Asked::Other),
            self.call(Asked::Other),
            self.call(Asked::Other),
        ];
        for call in &calls[..2] {
            self.input(Input::Shutdown { call: Some(*call) });
            let late = self.spawn(self.pi, SpawnMode::Background);
            assert!(self.watch.is_answered(late.0), "refused at once");
        }
        self.rests();
        self.input(Input::Shutdown {
            call: Some(calls[2]),
        });
        self.sync();
        self.rests();
        self.watch.all_is_told();
        self.watch.nothing_is_left();
    }

    fn rests(&mut self) {
        let mut idle = 0;
        // Longer than any healthy play needs: who does not come to rest by then never does.
        for round in 0..2000 {
            assert!(round < 1999, "does not come to rest: {:?}", self.watch);
            let before = self.watch.inputs;
            for at in 0..self.watch.procs.len() {
                if self.watch.procs[at].has_something_to_do() {
                    self.child(at, true);
                }
            }
            if self.watch.generation.is_some() && !self.watch.offers.is_empty() {
                self.answer_offer(true);
            }
            if self.watch.unsynced() {
                self.sync();
            }
            // A clock that runs only when nobody has anything else to do.
            if self.watch.inputs == before {
                match self
                    .watch
                    .armed
                    .iter()
                    .position(|t| !matches!(t, Timer::Start(_) | Timer::Run(..)))
                {
                    Some(at) => self.fire(at),
                    None => idle += 1,
                }
            }
            if idle > 1 {
                return;
            }
        }
    }
}

/// What a process was written and has not answered.
pub type Writes = VecDeque<(String, ChildCommand)>;
