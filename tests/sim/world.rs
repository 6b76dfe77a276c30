//! A world: the machine, its children, the system that runs them, a clock and a core that can die. A step changes it; what
//! the machine is told and what it wants passes the checks of `oracle`. There is no chance in here: the steps decide.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::host::HostKind;
use pi_agents::fleet::ids::{AgentId, CallId, HostId, InstanceId, MessageId};
use pi_agents::fleet::machine::{
    Effect, Exit, Input, LadderSignal, Machine, MachineConfig, Now, Restored, Timer,
};
use pi_agents::fleet::outbox::JournalRecord;
use pi_agents::fleet::roster::AgentView;
use pi_agents::fleet::transcript::Outcome;
use uuid::Uuid;

use super::child::Child;
use super::guard::Escaped;
use super::host::Host;
use super::step::{Kind, Step};

pub fn agent_id(n: u32) -> AgentId {
    AgentId(Uuid::from_u128(n.into()))
}
/// Has its number twice: ids that the machine derives from those of two processes differ.
pub fn instance_id(n: u32) -> InstanceId {
    InstanceId(Uuid::from_u128(u128::from(n) | u128::from(n) << 24))
}
pub fn message_id(n: u32) -> MessageId {
    MessageId(Uuid::from_u128(n.into()))
}
pub fn call_id(n: u32) -> CallId {
    CallId(Uuid::from_u128(n.into()))
}
pub fn host_id(n: u32) -> HostId {
    HostId(Uuid::from_u128(u128::from(n) + 1))
}
/// The process a timer is about.
pub fn proc_of(timer: Timer) -> Option<u32> {
    let id = match timer {
        Timer::Start(i)
        | Timer::Prompt(i, _)
        | Timer::RunBegins(i)
        | Timer::AskState(i)
        | Timer::Compaction(i)
        | Timer::Run(i, _)
        | Timer::Ladder(i)
        | Timer::Abort(i) => i,
        Timer::Wake(_) => return None,
    };
    Some(number(id.0))
}
/// The part of an id that says which.
const NUMBER: u128 = 0xff_ffff;

pub fn number(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() & NUMBER).unwrap_or(u32::MAX)
}

/// Pi sessions that can be hosts.
pub const HOSTS: u32 = 3;
/// The one that is the session of an agent (R-ID-04).
pub const NESTED: u32 = 3;

/// What the world knows of an agent, without asking the machine.
#[derive(Debug)]
pub struct Agent {
    pub n: u32,
    pub host: u32,
    pub persistent: bool,
    /// Its spawn waits for the result of its first run.
    pub foreground: bool,
    /// A person wrote to it: some of its runs may be nobody else's business (R-DELIV-07).
    pub private: bool,
    /// A person wrote to it when it was idle, and its host not since: its runs are nobody else's business (R-DELIV-08).
    pub secret: bool,
    pub timeout: Option<Duration>,
    pub name: Option<String>,
    /// As it was last published.
    pub shown: Option<AgentView>,
    pub status: Status,
    pub runs_ended: u64,
    /// Its record was written during this input.
    pub saved: u64,
}

/// A process: what it is, and what the machine was told of it.
#[derive(Debug)]
pub struct Proc {
    pub n: u32,
    pub agent: u32,
    pub child: Child,
    /// It certainly runs or ran: its launch cannot fail any more.
    pub moved: bool,
    pub dead: bool,
    pub exit: Exit,
    pub launched: bool,
    pub exit_told: bool,
    pub gone: bool,
    pub closed: Option<Duration>,
    pub term: Option<Duration>,
    pub kill: Option<Duration>,
    /// The answer to its first question was heard.
    pub ready: bool,
    /// The prompt that was written and not answered.
    pub prompt: Option<u32>,
    /// It was asked for its commands, and no prompt was written since.
    pub checking: bool,
    pub compacting: bool,
    pub run: Option<Duration>,
    pub run_over: bool,
    pub abort_asked: bool,
    pub cleared: bool,
    /// A call was taken back that may have been all that wanted it.
    pub cancelled: bool,
    /// Generation of its host that it was started for.
    pub generation: u64,
    /// Its host asked for its end: it is not told of it.
    pub hushed: bool,
    /// Its present run began when it was being ended already.
    pub after_stop: bool,
    /// It was not ready in time, and is ended for that as soon as it is there.
    pub start_late: bool,
    /// Runs it began.
    pub runs: u64,
    /// The one that is a person's own.
    pub secret: Option<u64>,
    /// It said that it is idle, or it died: a run that was announced never began.
    pub never: bool,
    /// Who or what stopped it first.
    pub cause: Option<StopCause>,
    /// There is a reason to end it.
    pub may_close: bool,
    pub accepted: bool,
    /// A command was written that it will never read.
    pub write_fails: bool,
    pub writer_dead: bool,
    pub output_ended: bool,
    /// Its core is dead and it was not.
    pub orphan: bool,
    /// The guard of its core goes on without it.
    pub guarded: bool,
    /// The system does not start it: an older process has its session (the lock that it inherited).
    pub refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Spawn,
    Send,
    Stop,
    Abort,
    Shutdown,
    Join,
}

#[derive(Debug)]
pub struct Call {
    pub n: u32,
    pub asked: Asked,
    pub agent: u32,
    pub answers: u32,
    pub at: u64,
    /// A process or a launch was there to be ended.
    pub live: bool,
    /// Its core died.
    pub lost: bool,
    /// Whoever waited for it is gone.
    pub orphan: bool,
    /// A session that keeps a journal made it.
    pub parent: bool,
}

#[derive(Debug)]
pub struct Msg {
    pub n: u32,
    pub agent: u32,
    pub text: String,
    /// The process it was written to and that has not refused it.
    pub written: Option<u32>,
    /// The core heard that the model has it, or that a command took it.
    pub consumed: bool,
    /// The core heard that it was accepted.
    pub accepted: bool,
    /// It was accepted or seen before anything else became of it: the runs of its agent are somebody's.
    pub counts: bool,
    /// Given back, refused, reported or lost with the core: in which input.
    pub fate: Option<u64>,
    /// Last record of its host's journal when it was heard that the child has it.
    pub taken_at: Option<u64>,
}

pub struct World {
    pub machine: Machine,
    pub config: MachineConfig,
    pub now: Duration,
    pub agents: Vec<Agent>,
    pub procs: Vec<Proc>,
    pub calls: Vec<Call>,
    pub msgs: Vec<Msg>,
    pub timers: Vec<(Duration, u64, Timer)>,
    pub old_timers: Vec<Timer>,
    pub records: Vec<Restored>,
    /// Host 0 is the person.
    pub hosts: Vec<Host>,
    pub shutdown: bool,
    pub exited: bool,
    /// There is no core.
    pub down: bool,
    /// The guard of the core lives.
    pub guard: bool,
    pub escaped: Vec<Escaped>,
    /// Calls that were told in this input that an agent has their message.
    pub told_taken: Vec<u32>,
    /// Inputs so far.
    pub inputs: u64,
    /// Runs whose end was told during this input.
    pub ends: Vec<(u32, (u32, u64), Outcome)>,
    /// The input must have no effect.
    pub quiet: bool,
    pub fault: Option<String>,
    /// What happened, in words, when somebody wants to read it.
    pub story: Option<String>,
    backlog: VecDeque<Input>,
    armed: u64,
}

impl World {
    /// A world whose core has the limits that belong to this number.
    pub fn new(config: u64) -> Self {
        let config = MachineConfig {
            launch_slots: 1 + usize::try_from(config % 3).unwrap(),
            max_depth: 2,
            ..MachineConfig::default()
        };
        Self {
            machine: Machine::new(config, host_id(0)),
            config,
            now: Duration::ZERO,
            agents: Vec::new(),
            procs: Vec::new(),
            calls: Vec::new(),
            msgs: Vec::new(),
            timers: Vec::new(),
            old_timers: Vec::new(),
            records: Vec::new(),
            hosts: (0..=HOSTS).map(Host::new).collect(),
            shutdown: false,
            exited: false,
            down: false,
            guard: true,
            escaped: Vec::new(),
            told_taken: Vec::new(),
            inputs: 0,
            ends: Vec::new(),
            quiet: false,
            fault: None,
            story: None,
            backlog: VecDeque::new(),
            armed: 0,
        }
    }

    pub fn fail(&mut self, what: impl Into<String>) {
        self.fault.get_or_insert(what.into());
    }

    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let _ = writeln!(story, "    | {}", plain(&what()));
        }
    }

    pub fn agent(&self, n: u32) -> Option<&Agent> {
        self.agents.iter().find(|a| a.n == n)
    }

    pub fn proc(&self, n: u32) -> Option<&Proc> {
        self.procs.iter().rfind(|p| p.n == n)
    }

    pub fn proc_mut(&mut self, n: u32) -> Option<&mut Proc> {
        self.procs.iter_mut().rfind(|p| p.n == n)
    }

    pub fn msg_mut(&mut self, n: u32) -> Option<&mut Msg> {
        self.msgs.iter_mut().find(|m| m.n == n)
    }

    /// A process of this agent that is not swept away.
    pub fn live_proc(&self, agent: u32) -> Option<&Proc> {
        self.procs.iter().find(|p| p.agent == agent && !p.gone)
    }

    pub fn next_timer(&self) -> Option<(Duration, u64, Timer)> {
        self.timers.iter().min_by_key(|t| (t.0, t.1)).copied()
    }

    /// Everything that follows from one step.
    pub fn step(&mut self, step: Step) {
        if self.fault.is_some() {
            return;
        }
        self.now += Duration::from_millis(1);
        if self.exited && step.kind != Kind::CoreDies {
            return;
        }
        if self.down && !step.kind.happens_without_a_core() {
            return;
        }
        match step.kind {
            Kind::Spawn => self.spawn(step.a, step.b, step.c),
            Kind::Send => self.send(step.a, step.b, step.c),
            Kind::Stop => self.ask(Asked::Stop, step.a, step.b, step.c),
            Kind::Abort => self.ask(Asked::Abort, step.a, step.b, 0),
            Kind::Shutdown => self.ask(Asked::Shutdown, step.a, 0, 0),
            Kind::Cancel => self.input(Input::Cancel {
                call: call_id(step.a),
            }),
            Kind::Join
            | Kind::Leave
            | Kind::State
            | Kind::Take
            | Kind::Check
            | Kind::Look
            | Kind::Written
            | Kind::Synced
            | Kind::JournalFails
            | Kind::JournalWorks
            | Kind::JournalReads => self.host_step(step),
            Kind::CoreDies => self.core_dies(step.a, step.b),
            Kind::CoreStarts => self.core_starts(step.a),
            Kind::GuardDies | Kind::GuardKills | Kind::Escape => self.guard_step(step),
            Kind::Fire => {
                if let Some((at, _, timer)) = self.next_timer() {
                    self.now = self.now.max(at);
                    self.input(Input::Timer(timer));
                }
            }
            Kind::Wait => self.now += Duration::from_millis(step.a.into()),
            Kind::StaleTimer => self.stale_timer(step.a),
            Kind::StaleFact => self.stale_fact(step.a, step.b),
            Kind::LaunchOk
            | Kind::LaunchFail
            | Kind::Exit
            | Kind::OutputEnd
            | Kind::WriteFail
            | Kind::Swept
            | Kind::Deliver => self.system(step),
            _ => self.child(step),
        }
        while let Some(input) = self.backlog.pop_front() {
            self.input(input);
        }
    }

    // --- what the machine wants -----------------------------------------------------------------

    pub fn input(&mut self, input: Input) {
        self.inputs += 1;
        self.tell(|| format!("core hears {input:?}"));
        self.told(&input);
        let now = Now {
            mono: self.now,
            wall_ms: i64::try_from(self.now.as_millis()).unwrap(),
        };
        let of = self.agent_of(&input);
        let spawn = match &input {
            Input::Spawn { agent, .. } => Some(*agent),
            _ => None,
        };
        let asks = self.asks_its_host(&input);
        let swept = self.swept_of(&input);
        let cancel = match &input {
            Input::Cancel { call } => Some(number(call.0)),
            _ => None,
        };
        let effects = self.machine.step(now, input);
        if std::mem::take(&mut self.quiet) && !effects.is_empty() {
            self.fail(format!("something old had an effect: {effects:?}"));
        }
        for effect in &effects {
            // A process that is being ended hosts nobody any more.
            if let Effect::CloseStdin { instance } = effect {
                self.hosts_nobody(number(instance.0));
            }
        }
        for effect in &effects {
            self.tell(|| format!("  core wants {effect:?}"));
            self.check(effect);
            self.execute(effect);
        }
        if let Some(agent) = spawn.filter(|a| !self.machine.knows(*a)) {
            // Refused: it has had no effect but its answer (R-TOOL-07).
            self.agents.retain(|a| agent_id(a.n) != agent);
            if effects.len() != 1 {
                self.fail(format!("a refused spawn had effects: {effects:?}"));
            }
        }
        let asked = |e: &&Effect| {
            matches!(
                e,
                Effect::Journal {
                    record: JournalRecord::Asked { .. },
                    ..
                }
            )
        };
        if effects.iter().filter(asked).count() != usize::from(asks) {
            self.fail(
                "a question is not owed to its parent, or one that nobody asked (R-DELIV-10)",
            );
        }
        if let Some(swept) = swept {
            self.check_swept(swept, &effects);
        }
        self.check_promises();
        if let Some(n) = cancel
            && self.calls.iter().any(|c| c.n == n && c.open())
        {
            self.fail(format!(
                "call {n} was taken back and is not answered (R-TOOL-10)"
            ));
        }
        for (agent, run, outcome) in std::mem::take(&mut self.ends) {
            self.check_told(agent, run, &outcome, &effects);
        }
        self.after(of, &effects);
    }

    fn agent_of(&self, input: &Input) -> Option<u32> {
        let instance = match input {
            Input::Spawn { agent, .. }
            | Input::Send { agent, .. }
            | Input::Stop { agent, .. }
            | Input::Abort { agent, .. } => return Some(number(agent.0)),
            Input::Launched { instance, .. }
            | Input::LaunchFailed { instance, .. }
            | Input::Fact { instance, .. }
            | Input::WriteFailed { instance }
            | Input::OutputEnded { instance }
            | Input::Exited { instance, .. }
            | Input::Swept { instance, .. } => *instance,
            Input::Timer(timer) => return proc_of(*timer).and_then(|n| Some(self.proc(n)?.agent)),
            _ => return None,
        };
        self.proc(number(instance.0)).map(|p| p.agent)
    }

    fn execute(&mut self, effect: &Effect) {
        match effect {
            Effect::Launch {
                agent,
                instance,
                plan,
            } => {
                let agent = number(agent.0);
                let in_use = |p: &Proc| p.agent == agent && p.orphan && p.exists();
                self.procs.push(Proc {
                    generation: plan.host.generation,
                    refused: self.procs.iter().any(in_use),
                    ..Proc::new(number(instance.0), agent)
                });
            }
            Effect::Write {
                instance,
                id,
                command,
            } => {
                let instance = *instance;
                let Some(p) = self.proc_mut(number(instance.0)) else {
                    return;
                };
                if p.gone || p.writer_dead || !p.launched {
                    self.backlog.push_back(Input::WriteFailed { instance });
                } else if p.dead || p.child.deaf {
                    p.write_fails = true;
                } else {
                    p.child.inbox.push_back((id.clone(), command.clone()));
                }
            }
            Effect::CloseStdin { instance } => {
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.child.eof = true;
                }
            }
            Effect::Signal { instance, signal } => {
                if let Some(p) = self.proc_mut(number(instance.0))
                    && *signal == LadderSignal::Kill
                    && !p.dead
                {
                    p.dead = true;
                    p.exit = exit(9);
                }
            }
            Effect::Arm { timer, after } => {
                self.timers.retain(|(_, _, t)| t != timer);
                self.armed += 1;
                self.timers.push((self.now + *after, self.armed, *timer));
            }
            Effect::Disarm(timer) => self.forget(*timer),
            Effect::Save(agent) => self.save(*agent),
            Effect::Journal { .. } | Effect::Offer { .. } => self.host_effect(effect),
            _ => {}
        }
    }

    /// Takes a timer off; it may still come late.
    pub fn forget(&mut self, timer: Timer) {
        let before = self.timers.len();
        self.timers.retain(|(_, _, t)| *t != timer);
        if self.timers.len() < before && self.old_timers.len() < 200 {
            self.old_timers.push(timer);
        }
    }

    pub fn view(&self, agent: u32) -> Option<AgentView> {
        self.machine.view(agent_id(agent))
    }

    fn save(&mut self, agent: AgentId) {
        let Some(view) = self.view(number(agent.0)) else {
            return;
        };
        let session = self.machine.session_id(agent).unwrap_or_default();
        let record = Restored {
            id: agent,
            host: view.host,
            kind: self.machine.host_kind(agent).unwrap_or(HostKind::Person),
            name: view.name,
            spec: view.spec,
            session_id: session.to_owned(),
            session_path: view.session_path,
            status: view.status,
            since_ms: view.since_ms,
            run_took_ms: view.run_took_ms,
            runs_ended: view.runs_ended,
            last: self.machine.last_outcome(agent),
        };
        match self.records.iter_mut().find(|r| r.id == agent) {
            Some(slot) => *slot = record,
            None => self.records.push(record),
        }
    }
}

impl Proc {
    fn new(n: u32, agent: u32) -> Self {
        Self {
            n,
            agent,
            child: Child::default(),
            moved: false,
            dead: false,
            exit: Exit::default(),
            launched: false,
            exit_told: false,
            gone: false,
            closed: None,
            term: None,
            kill: None,
            ready: false,
            prompt: None,
            checking: false,
            compacting: false,
            run: None,
            run_over: false,
            abort_asked: false,
            cleared: false,
            cancelled: false,
            generation: 0,
            hushed: false,
            after_stop: false,
            start_late: false,
            runs: 0,
            secret: None,
            never: false,
            cause: None,
            may_close: false,
            accepted: false,
            write_fails: false,
            writer_dead: false,
            output_ended: false,
            orphan: false,
            guarded: false,
            refused: false,
        }
    }

    /// It runs, or may run at any moment, whatever the core knows of it.
    pub fn exists(&self) -> bool {
        !self.dead && !self.refused && (!self.gone || self.orphan)
    }
}

/// Ids as the numbers they stand for.
pub fn plain(text: &str) -> String {
    const HEAD: &str = "00000000-0000-0000-0000-";
    let mut parts = text.split(HEAD);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (id, rest) = part.split_at(part.len().min(12));
        let _ = write!(
            out,
            "{}{rest}",
            u128::from_str_radix(id, 16).unwrap_or_default() & NUMBER
        );
    }
    out
}

/// Ways to die: 0 in order, 9 killed, anything else an exit code.
pub fn exit(sort: u32) -> Exit {
    Exit {
        code: (sort != 9).then(|| i32::try_from(sort).unwrap_or(1)),
        signal: (sort == 9).then_some(9),
        ..Exit::default()
    }
}
