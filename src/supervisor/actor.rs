//! The actor: one task that owns the machine, the timers and the processes. It executes effects and
//! turns what happens into inputs; it decides nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::child::ChildHandle;
use super::handle::Ask;
use super::hosts::{self, Hosts, Opening};
use super::live::AgentLive;
use super::record::AgentRecord;
use super::session_file::SessionMark;
use super::shared::Shared;
use super::start::{LastSeen, Started, Starter, two_writers};
use super::timers::Timers;
use super::{SupervisorConfig, answers};
use crate::client::host::HostNews;
use crate::client::{AgentRef, Env, EnvText, ErrorCode, Reply, Request, RequestError};
use crate::fleet::agent::Status;
use crate::fleet::history::{Asked, History, Recorded};
use crate::fleet::host::{Caller, LeaveReason, Sender, SpawnMode, Stopper};
use crate::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use crate::fleet::machine::{ChildCommand, ChildEnv, Effect, Input, LadderSignal, Machine, Now};
use crate::fleet::roster::Badge;
use crate::fleet::transcript::Level;
use crate::pi::command::Command;
use crate::sys::process::Signal;

/// Records that could not be written are tried again this often, and with every other that can be.
pub(super) const SAVE_AGAIN: Duration = Duration::from_secs(2);
/// How long the core stays for looks at session files when everything else is over.
const LAST_LOOKS: Duration = Duration::from_secs(1);

/// What reaches the actor from its own tasks. Bounded: children wait for the actor, the actor never
/// waits for a child.
pub enum Event {
    /// Something happened to the fleet.
    Input(Input),
    /// A process was started.
    Started {
        /// Which.
        instance: InstanceId,
        /// How to reach it.
        child: ChildHandle,
    },
    /// What a session file looked like when a process was gone, or was not started.
    Looked {
        /// Whose session.
        agent: AgentId,
        /// Which process.
        instance: InstanceId,
        /// The mark; `None` = nothing to compare with later.
        mark: Option<SessionMark>,
    },
    /// The journal of a Pi session is open: it may join.
    HostOpened(Box<Opening>),
    /// A request was checked and may enter the machine.
    Checked {
        /// The request as an input.
        input: Input,
        /// The same before defaults were filled in.
        asked: Box<Asked>,
        /// Who asked.
        call: CallId,
        /// The way back.
        reply: oneshot::Sender<Result<Reply, RequestError>>,
    },
}

/// Agent-side state that is not the machine's business.
pub(super) struct Side {
    live: Arc<AgentLive>,
    /// The session file after the last process. None while one lives: what it writes is no change of
    /// another program, also not after a crash of this core.
    pub(super) mark: Option<SessionMark>,
    /// The process whose look at the file may set the mark.
    look_of: Option<InstanceId>,
    /// That look, while it goes on.
    looking: Option<oneshot::Receiver<Option<SessionMark>>>,
}

impl Side {
    fn new(live: Arc<AgentLive>, mark: Option<SessionMark>) -> Self {
        Self {
            live,
            mark,
            look_of: None,
            looking: None,
        }
    }
}

/// See the module.
pub struct Actor {
    pub(super) config: Arc<SupervisorConfig>,
    pub(super) machine: Machine,
    pub(super) shared: Arc<Shared>,
    pub(super) sides: HashMap<AgentId, Side>,
    children: HashMap<InstanceId, (AgentId, ChildHandle)>,
    pub(super) calls: HashMap<CallId, oneshot::Sender<Result<Reply, RequestError>>>,
    pub(super) hosts: Hosts,
    pub(super) asks: mpsc::Sender<Ask>,
    pub(super) events: mpsc::Sender<Event>,
    timers: Timers,
    backlog: VecDeque<Input>,
    /// Agents whose records are older than what happened to them.
    pub(super) unsaved: BTreeSet<AgentId>,
    pub(super) save_again: Option<Instant>,
    pub(super) starter: Starter,
    history: History,
    started: Instant,
    started_ms: i64,
    done: bool,
}

impl Actor {
    pub(super) fn new(
        config: Arc<SupervisorConfig>,
        shared: Arc<Shared>,
        asks: mpsc::Sender<Ask>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let starter = Starter::new(Arc::clone(&config), Arc::clone(&shared), events.clone());
        Self {
            machine: Machine::new(config.machine, config.host),
            config,
            shared,
            sides: HashMap::new(),
            children: HashMap::new(),
            calls: HashMap::new(),
            timers: Timers::default(),
            hosts: Hosts::default(),
            asks,
            events,
            backlog: VecDeque::new(),
            unsaved: BTreeSet::new(),
            save_again: None,
            starter,
            history: History::default(),
            started: Instant::now(),
            started_ms: wall_ms(),
            done: false,
        }
    }

    /// Takes in the records of an earlier core.
    pub(super) fn restore(&mut self, records: Vec<AgentRecord>) {
        for record in records {
            let id = record.id;
            let recorded = Recorded {
                status: record.status.clone(),
                since_ms: record.since_ms,
            };
            self.machine.restore(record.restored(self.config.host));
            if let Some(shown) = self.machine.status_of(id) {
                self.history.restored(id, recorded, shown.clone());
            }
            let live = AgentLive::new();
            {
                let mut inner = live.lock();
                inner.live.usage = record.usage;
                inner.live.tool_uses = record.tool_uses;
                // What was found after the last process may have been seen by nobody.
                if let (Some(path), Some(true)) = (
                    &record.session_path,
                    record.session_mark.as_ref().map(|mark| mark.foreign),
                ) {
                    let at_ms = jiff::Timestamp::now().as_millisecond();
                    inner.notice(Level::Warning, two_writers(path), at_ms);
                }
            }
            self.sides.insert(id, Side::new(live, record.session_mark));
            self.publish(id);
        }
    }

    /// Runs until everything was stopped on request.
    pub(super) async fn run(
        mut self,
        mut asks: mpsc::Receiver<Ask>,
        mut events: mpsc::Receiver<Event>,
    ) {
        while !self.done {
            let next = self.timers.next();
            tokio::select! {
                biased;
                // Requests first: a stop is never stuck behind a flood (design §9).
                ask = asks.recv() => match ask {
                    Some(ask) => self.ask(ask),
                    None => self.input(Input::Shutdown { call: None }),
                },
                () = sleep_until(next), if next.is_some() => self.due(),
                () = sleep_until(self.save_again), if self.save_again.is_some() => self.save_rest(),
                event = events.recv() => if let Some(event) = event { self.event(event) },
            }
            while let Some(input) = self.backlog.pop_front() {
                self.input(input);
            }
        }
        self.finish_looks().await;
        self.save_rest();
    }

    /// Everybody has their answers: a moment more for looks at session files that still go on.
    async fn finish_looks(&mut self) {
        let end = Instant::now() + LAST_LOOKS;
        let looks: Vec<_> = self
            .sides
            .iter_mut()
            .filter_map(|(agent, side)| Some((*agent, side.looking.take()?)))
            .collect();
        for (agent, looking) in looks {
            if let Ok(Ok(mark)) = tokio::time::timeout_at(end, looking).await {
                self.looked(agent, mark);
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Input(input) => {
                match &input {
                    Input::Swept { instance, .. } => self.gone(*instance),
                    Input::LaunchFailed { instance, .. } => {
                        self.starter.launching(*instance);
                    }
                    _ => {}
                }
                self.input(input);
            }
            Event::Started { instance, child } => {
                let pid = child.process.pid;
                if let Some(agent) = self.starter.launching(instance) {
                    self.children.insert(instance, (agent, child));
                    if let Some(side) = self.sides.get_mut(&agent) {
                        side.look_of = None;
                    }
                }
                self.input(Input::Launched { instance, pid });
            }
            Event::Looked {
                agent,
                instance,
                mark,
            } => {
                let side = self.sides.get(&agent);
                if side.is_some_and(|side| side.look_of == Some(instance)) {
                    self.looked(agent, mark);
                }
            }
            Event::HostOpened(opening) => self.host_opened(*opening),
            Event::Checked {
                input,
                asked,
                call,
                reply,
            } => {
                self.calls.insert(call, reply);
                let agent = match &input {
                    Input::Spawn { agent, .. } => Some(*agent),
                    _ => None,
                };
                self.input(input);
                // What the machine refused is no agent.
                if let Some(agent) = agent.filter(|id| self.machine.knows(*id)) {
                    self.history.asked(agent, *asked);
                }
            }
        }
    }

    /// A process is gone with all it started: its session file will not change any more.
    fn gone(&mut self, instance: InstanceId) {
        let Some((agent, child)) = self.children.remove(&instance) else {
            return;
        };
        let Some(path) = self.path_of(agent) else {
            return;
        };
        let live = self.live(agent);
        // Beside this task: the disk may be slow, and the answer to a stop must not wait for it.
        let looking = self
            .starter
            .look_after(agent, instance, path, child.witness, live);
        if let Some(side) = self.sides.get_mut(&agent) {
            side.look_of = Some(instance);
            side.looking = Some(looking);
        }
    }

    fn looked(&mut self, agent: AgentId, mark: Option<SessionMark>) {
        if let Some(side) = self.sides.get_mut(&agent) {
            side.mark = mark;
            side.look_of = None;
            side.looking = None;
        }
        self.save(agent);
    }

    /// What is known of the session file of an agent that gets a new process. From here on nothing is
    /// on record, until that process is gone.
    fn last_seen(&mut self, agent: AgentId, instance: InstanceId) -> LastSeen {
        let Some(side) = self.sides.get_mut(&agent) else {
            return LastSeen {
                mark: None,
                looking: None,
            };
        };
        side.look_of = Some(instance);
        let seen = LastSeen {
            mark: side.mark.take(),
            looking: side.looking.take(),
        };
        if seen.mark.is_some() {
            self.save(agent);
        }
        seen
    }

    fn path_of(&self, agent: AgentId) -> Option<PathBuf> {
        self.machine.view(agent).and_then(|v| v.session_path)
    }

    fn ask(&mut self, ask: Ask) {
        let (request, reply) = match ask {
            Ask::Request { request, reply } => (request, reply),
            Ask::Host(ask) => return self.host_ask(ask),
        };
        let call = CallId::fresh();
        match request {
            Request::Spawn(spawn) => {
                // Everything that needs the disk is checked before the machine hears of it
                // (R-TOOL-07), away from this task.
                let by = Caller {
                    host: self.config.host,
                    generation: 1,
                };
                let folder = self.config.folder.clone();
                let mode = SpawnMode::Background;
                self.starter
                    .check_spawn(spawn, by, mode, folder, call, reply);
            }
            Request::Send { agent, text, env } => {
                // An agent of a Pi session gets that session's environment, whoever brings it
                // back (R-LIFE-18).
                let env = self
                    .resolve(&agent)
                    .ok()
                    .and_then(|id| self.machine.view(id))
                    .and_then(|view| self.hosts.env_of(view.host))
                    .unwrap_or_else(|| child_env(&env));
                self.named(agent, call, reply, |agent| Input::Send {
                    call,
                    agent,
                    by: Sender::User,
                    message: MessageId::fresh(),
                    instance: InstanceId::fresh(),
                    text,
                    env,
                });
            }
            Request::Stop { agent } => {
                self.named(agent, call, reply, |agent| Input::Stop {
                    call,
                    agent,
                    by: Stopper::User,
                });
            }
            Request::Abort { agent } => {
                self.named(agent, call, reply, |agent| Input::Abort { call, agent });
            }
            Request::Answer {
                agent,
                dialog,
                answer,
            } => {
                let result = self
                    .resolve(&agent)
                    .and_then(|id| self.answer_dialog(id, &dialog, answer));
                let _ = reply.send(result);
            }
            Request::Explain { agent } => {
                let result = self.explain(&agent);
                let _ = reply.send(result);
            }
            Request::Shutdown => {
                self.calls.insert(call, reply);
                self.input(Input::Shutdown { call: Some(call) });
            }
            Request::Watch { .. } | Request::Resync | Request::Snapshot => {
                let _ = reply.send(Err(RequestError::new(
                    ErrorCode::Internal,
                    "a viewer's own request reached the supervisor",
                )));
            }
        }
    }

    fn resolve(&self, agent: &AgentRef) -> Result<AgentId, RequestError> {
        match agent {
            AgentRef::Name(name) => self.machine.resolve_name(None, name),
            AgentRef::Id(id) if self.machine.knows(*id) => Ok(*id),
            AgentRef::Id(_) => Err(RequestError::new(ErrorCode::NotFound, "no such agent")),
        }
    }

    fn named(
        &mut self,
        agent: AgentRef,
        call: CallId,
        reply: oneshot::Sender<Result<Reply, RequestError>>,
        input: impl FnOnce(AgentId) -> Input,
    ) {
        match self.resolve(&agent) {
            Ok(id) => {
                self.calls.insert(call, reply);
                let input = input(id);
                self.input(input);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    fn answer_dialog(
        &mut self,
        agent: AgentId,
        dialog: &str,
        answer: crate::fleet::roster::DialogAnswer,
    ) -> Result<Reply, RequestError> {
        let not_open =
            || RequestError::new(ErrorCode::NotFound, "that dialog is not open any more");
        let side = self.sides.get(&agent).ok_or_else(not_open)?;
        let child = self
            .children
            .values()
            .find(|(id, _)| *id == agent)
            .map(|(_, child)| child)
            .ok_or_else(not_open)?;
        let line = {
            let mut inner = side.live.lock();
            let kind = inner
                .live
                .dialogs
                .iter()
                .find(|d| d.id == dialog)
                .map(|d| d.kind.clone())
                .ok_or_else(not_open)?;
            let line = answers::line(dialog, &kind, answer)?;
            inner.live.answered(dialog);
            line
        };
        side.live.touch();
        self.shared.ring();
        if child.write(line) {
            Ok(Reply::Done)
        } else {
            Err(RequestError::new(
                ErrorCode::Gone,
                "the agent reads no more",
            ))
        }
    }

    fn now(&self) -> Now {
        Now {
            mono: self.started.elapsed(),
            wall_ms: wall_ms(),
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        tracing::debug!(?input, "input");
        let now = self.now();
        let note = self
            .history
            .note(&input, |instance| self.machine.is_current(instance));
        let effects = self.machine.step(now, input);
        self.history.add(now, note, &effects, |id| {
            self.machine.status_of(id).cloned()
        });
        let mut publish: Vec<AgentId> = Vec::new();
        for effect in effects {
            if let Effect::Publish(agent) = effect {
                if !publish.contains(&agent) {
                    publish.push(agent);
                }
            } else {
                self.effect(effect, now);
            }
        }
        for agent in publish {
            self.publish(agent);
        }
    }

    fn effect(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Launch {
                agent,
                instance,
                plan,
            } => {
                let live = self.live(agent);
                let seen = self.last_seen(agent, instance);
                let name = self.machine.view(agent).map(|v| v.name).unwrap_or_default();
                // Fresh for every launch (R-PI-04).
                let asked = self.hosts.ask_launch(plan.host);
                self.starter
                    .launch(agent, instance, *plan, name, live, seen, asked);
            }
            Effect::Write {
                instance,
                id,
                command,
            } => {
                let prompt = matches!(command, ChildCommand::Prompt { .. });
                let line = encode(&id, command);
                let ok = self.children.get(&instance).is_some_and(|(_, child)| {
                    if prompt {
                        child.witness.prompted();
                    }
                    child.write(line)
                });
                if !ok {
                    self.backlog.push_back(Input::WriteFailed { instance });
                }
            }
            Effect::CloseStdin { instance } => {
                if let Some((_, child)) = self.children.get(&instance) {
                    child.close_stdin();
                }
            }
            Effect::Signal { instance, signal } => {
                if let Some((_, child)) = self.children.get(&instance) {
                    child.signal_group(match signal {
                        LadderSignal::Term => Signal::TERM,
                        LadderSignal::Kill => Signal::KILL,
                    });
                }
            }
            Effect::Arm { timer, after } => self.timers.arm(timer, after),
            Effect::Disarm(timer) => self.timers.disarm(timer),
            Effect::Answer { call, answer } => {
                if let Some(reply) = self.calls.remove(&call) {
                    // A caller that went away withdraws nothing.
                    let _ = reply.send(answer);
                }
            }
            Effect::Save(agent) => self.save(agent),
            Effect::Publish(agent) => self.publish(agent),
            Effect::RunEnded {
                agent,
                outcome,
                took_ms,
                tokens,
                tool_uses,
            } => {
                let live = self.live(agent);
                live.lock()
                    .run_ended(outcome, took_ms, tokens, tool_uses, now.wall_ms);
                live.touch();
                self.shared.ring();
            }
            Effect::Notice { agent, level, text } => self.notice(agent, level, text, now.wall_ms),
            Effect::Journal { host, seq, record } => {
                if !self.hosts.write(host, seq, record) {
                    self.backlog.push_back(Input::JournalFailed { host });
                }
            }
            Effect::Offer {
                host,
                generation,
                epoch,
                mode,
                deliveries,
            } => {
                let news = HostNews::Offer {
                    epoch,
                    mode,
                    deliveries: hosts::offered(&deliveries),
                };
                if !self.hosts.tell(Caller { host, generation }, news) {
                    self.backlog.push_back(Input::HostLeft {
                        host,
                        generation,
                        reason: LeaveReason::Lost,
                    });
                }
            }
            Effect::Degraded { degraded, .. } => {
                self.shared.badge(Badge::NotCrashSafe, degraded);
            }
            Effect::HostClosed { host, generation } => self.hosts.closed(host, generation),
            Effect::Exit => self.done = true,
        }
    }

    /// What led to the state an agent shows.
    fn explain(&mut self, agent: &AgentRef) -> Result<Reply, RequestError> {
        let gone = || RequestError::new(ErrorCode::NotFound, "no such agent");
        let agent = self.resolve(agent)?;
        let view = self.machine.view(agent);
        let mut view = view.ok_or_else(gone)?;
        self.live(agent).lock().overlay(&mut view);
        let explanation = self.history.explain(view, wall_ms(), self.started_ms);
        Ok(Reply::Explained {
            explanation: Box::new(explanation),
        })
    }

    fn notice(&mut self, agent: AgentId, level: Level, text: String, at_ms: i64) {
        let live = self.live(agent);
        live.lock().notice(level, text, at_ms);
        live.touch();
        self.shared.ring();
    }

    pub(super) fn live(&mut self, agent: AgentId) -> Arc<AgentLive> {
        let side = self
            .sides
            .entry(agent)
            .or_insert_with(|| Side::new(AgentLive::new(), None));
        Arc::clone(&side.live)
    }

    fn publish(&mut self, agent: AgentId) {
        if let Some(view) = self.machine.view(agent) {
            let live = self.live(agent);
            if !view.status.is_live() {
                live.lock().live.process_gone();
            } else if view.status == Status::Idle {
                live.lock().live.run_ended();
            }
            self.shared.put(view, &live);
        }
    }

    fn due(&mut self) {
        let now = Instant::now();
        if self.timers.put_off(now) {
            tracing::info!("held up: deadlines put off");
            return;
        }
        while let Some(timer) = self.timers.due(now) {
            self.input(Input::Timer(timer));
        }
    }
}

/// The wall clock, for display.
fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

/// A command as the line Pi reads.
fn encode(id: &str, command: ChildCommand) -> Vec<u8> {
    let command = match command {
        ChildCommand::GetState => Command::GetState,
        ChildCommand::GetModels => Command::GetAvailableModels,
        ChildCommand::Prompt { text } => Command::prompt(text),
        ChildCommand::ClearQueue => Command::ClearQueue,
        ChildCommand::Abort => Command::Abort,
    };
    command.to_line(id).into_bytes()
}

/// The asker's environment as bytes.
pub(super) fn child_env(env: &Env) -> ChildEnv {
    let bytes = |text: &EnvText| match text {
        EnvText::Text(text) => text.clone().into_bytes(),
        EnvText::Bytes { bytes } => bytes.clone(),
    };
    ChildEnv(Arc::new(
        env.iter()
            .map(|v| (bytes(&v.name), bytes(&v.value)))
            .collect(),
    ))
}

/// Reports a start that went well, for the actor.
pub(super) fn started(started: Started) -> Event {
    Event::Started {
        instance: started.instance,
        child: started.child,
    }
}
