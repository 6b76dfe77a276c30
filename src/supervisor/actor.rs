//! The actor: one task that owns the machine, the timers and the processes. It executes effects and
//! turns what happens into inputs; it decides nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::SupervisorConfig;
use super::child::ChildHandle;
use super::extras::{Checked, Extras};
use super::handle::Ask;
use super::hosts::{Hosts, Opening};
use super::live::AgentLive;
use super::looks::Side;
use super::record::AgentRecord;
use super::session_file::SessionMark;
use super::shared::Shared;
use super::start::{Started, Starter, two_writers};
use super::timers::Timers;
use crate::client::host::Contributions;
use crate::client::{Reply, RequestError};
use crate::fleet::agent::Status;
use crate::fleet::history::{History, Recorded};
use crate::fleet::ids::{AgentId, CallId, InstanceId};
use crate::fleet::machine::{Effect, Input, Machine, Now};
use crate::fleet::transcript::Level;

/// Records that could not be written are tried again this often, and with every other that can be.
pub(super) const SAVE_AGAIN: Duration = Duration::from_secs(2);
/// How long the core stays for looks at session files when everything else is over.
pub(super) const LAST_LOOKS: Duration = Duration::from_secs(1);

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
    /// A request was checked on disk.
    Checked(Box<Checked>),
    /// A session said what its other extensions add to the launch that a request asks for.
    Contributed {
        /// The request.
        checked: Box<Checked>,
        /// What; `Err` = the launch is rejected.
        answer: Result<Contributions, String>,
    },
}

/// See the module.
pub struct Actor {
    pub(super) config: Arc<SupervisorConfig>,
    pub(super) machine: Machine,
    pub(super) shared: Arc<Shared>,
    pub(super) sides: HashMap<AgentId, Side>,
    pub(super) children: HashMap<InstanceId, (AgentId, ChildHandle)>,
    pub(super) calls: HashMap<CallId, oneshot::Sender<Result<Reply, RequestError>>>,
    pub(super) hosts: Hosts,
    pub(super) extras: Extras,
    pub(super) asks: mpsc::Sender<Ask>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) timers: Timers,
    pub(super) backlog: VecDeque<Input>,
    /// Agents whose records are older than what happened to them.
    pub(super) unsaved: BTreeSet<AgentId>,
    pub(super) save_again: Option<Instant>,
    pub(super) starter: Starter,
    pub(super) history: History,
    started: Instant,
    pub(super) started_ms: i64,
    pub(super) done: bool,
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
            extras: Extras::default(),
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
            Event::Checked(checked) => self.checked(*checked),
            Event::Contributed { checked, answer } => self.contributed(*checked, answer),
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

    pub(super) fn live(&mut self, agent: AgentId) -> Arc<AgentLive> {
        let side = self
            .sides
            .entry(agent)
            .or_insert_with(|| Side::new(AgentLive::new(), None));
        Arc::clone(&side.live)
    }

    pub(super) fn publish(&mut self, agent: AgentId) {
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
pub(super) fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

/// Reports a start that went well, for the actor.
pub(super) fn started(started: Started) -> Event {
    Event::Started {
        instance: started.instance,
        child: started.child,
    }
}
