//! The machine: `step(now, Input) -> Vec<Effect>`. Every decision about agents is made here and
//! nowhere else. No clock, no I/O, no randomness: all races are orderings of inputs.
//!
//! Invariants: at most one process per agent, and no launch before the one before is gone
//! (R-LIFE-10); one unanswered prompt per process (R-PI-07); every call is answered exactly once;
//! inputs of processes that are not current are ignored (R-LIFE-12).

mod abort;
mod branch;
mod cancel;
mod commands;
mod deliver;
mod effect;
mod ending;
mod facts;
mod hosts;
mod input;
mod lane;
mod restore;
mod state;
pub mod table;
mod told;
mod unstarted;
mod view;

use std::collections::{HashMap, VecDeque};

pub use effect::{ChildCommand, Effect, LadderSignal, LaunchPlan};
pub use input::{ChildEnv, EnvPairs, Exit, Input, Now, OfferAnswer, Timer};
pub use restore::Restored;
pub use state::MachineConfig;

use super::agent::Status;
use super::answer::{ErrorCode, Reply, RequestError};
use super::host::{Caller, HostKind, Sender};
use super::ids::{AgentId, CallId, HostId, InstanceId};
use super::transcript::Level;
use commands::First;
use hosts::{Host, Joining, JournalEvent};
use state::{Agent, Instance, Phase};

/// The state of all agents of one core.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    agents: Vec<Agent>,
    index: HashMap<AgentId, usize>,
    instances: HashMap<InstanceId, AgentId>,
    launches: VecDeque<AgentId>,
    hosts: Vec<Host>,
    /// Calls that were cancelled before they came.
    cancelled_early: VecDeque<CallId>,
    /// Unanswered calls of hosts that keep a journal.
    callers: HashMap<CallId, HostId>,
    shutdown: Option<Vec<CallId>>,
    exited: bool,
    out: Vec<Effect>,
}

impl Machine {
    /// A machine without agents. Every core has a person, who is there from the beginning.
    #[must_use]
    pub fn new(config: MachineConfig, person: HostId) -> Self {
        Self {
            config,
            agents: Vec::new(),
            index: HashMap::new(),
            instances: HashMap::new(),
            launches: VecDeque::new(),
            hosts: vec![Host::new(person, HostKind::Person)],
            cancelled_early: VecDeque::new(),
            callers: HashMap::new(),
            shutdown: None,
            exited: false,
            out: Vec::new(),
        }
    }

    /// Takes in one input and says what is to be done about it, in order.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        match input {
            Input::Spawn {
                call,
                by,
                mode,
                agent,
                instance,
                message,
                spec,
                prompt,
                env,
            } => {
                self.called_by(call, by.host);
                let first = First {
                    message,
                    instance,
                    prompt,
                    env,
                };
                self.spawn(now, call, by, &mode, agent, spec, first);
            }
            Input::Send {
                call,
                agent,
                by,
                message,
                instance,
                text,
                env,
            } => {
                if let Sender::Parent(caller) = by {
                    self.called_by(call, caller.host);
                }
                let first = First {
                    message,
                    instance,
                    prompt: text,
                    env,
                };
                self.send(now, call, agent, by, first);
            }
            Input::Stop { call, agent, by } => self.stop_asked(now, call, agent, by),
            Input::Cancel { call } => self.cancel(now, call),
            Input::Abort { call, agent } => self.abort_asked(call, agent),
            Input::Shutdown { call } => self.shutdown_asked(now, call),
            Input::Launched { instance, pid } => self.launched(now, instance, pid),
            Input::LaunchFailed {
                instance,
                reason,
                hint,
            } => self.launch_failed(now, instance, &reason, hint),
            Input::Fact { instance, fact } => self.fact(now, instance, fact),
            Input::WriteFailed { instance } => self.write_failed(now, instance),
            Input::OutputEnded { instance } => self.output_ended(now, instance),
            Input::Exited { instance, exit } => self.exited(now, instance, exit),
            Input::Swept {
                instance,
                killed,
                left,
            } => self.swept(now, instance, killed, left),
            Input::HostJoined {
                call,
                host,
                kind,
                generation,
                known,
                undecided,
                durable,
                journal,
            } => {
                let joining = Joining {
                    host,
                    kind,
                    generation,
                    known,
                    undecided,
                    durable,
                    journal,
                };
                self.host_joined(call, joining);
            }
            Input::HostState {
                host,
                generation,
                activity,
            } => self.host_state(Caller { host, generation }, activity),
            Input::HostBranch {
                host,
                generation,
                agents,
                names,
            } => self.host_branch(Caller { host, generation }, agents.as_deref(), &names),
            Input::HostLeft {
                host,
                generation,
                reason,
            } => self.host_left(now, Caller { host, generation }, reason),
            Input::Offered {
                host,
                generation,
                epoch,
                answer,
            } => self.offered(Caller { host, generation }, epoch, &answer),
            Input::Journaled { host, seq } => self.journal(host, JournalEvent::Synced(seq)),
            Input::JournalFailed { host } => self.journal(host, JournalEvent::Failed),
            Input::JournalRecovered { host, seq, records } => {
                self.journal(host, JournalEvent::Recovered(seq, records));
            }
            Input::JournalRead { host, records } => {
                self.journal(host, JournalEvent::Read(records));
            }
            Input::Timer(timer) => self.timer(now, timer),
        }
        self.start_queued(now);
        self.drain_outboxes();
        self.drain_branches();
        self.release_answers(false);
        self.finish_hosts();
        self.finish_shutdown();
        std::mem::take(&mut self.out)
    }

    /// Starts queued agents while there are free slots (R-PI-11).
    fn start_queued(&mut self, now: Now) {
        loop {
            let starting = self
                .agents
                .iter()
                .filter(|a| a.instance.as_ref().is_some_and(Instance::is_starting))
                .count();
            if starting >= self.config.launch_slots.max(1) {
                return;
            }
            let Some(id) = self.launches.pop_front() else {
                return;
            };
            self.launch(now, id);
        }
    }

    fn launch(&mut self, now: Now, id: AgentId) {
        let start_deadline = self.config.start_deadline;
        let Some(host) = self.host_of(id).filter(|h| h.open).map(Host::caller) else {
            return;
        };
        let depth = self.depth_below(host.host);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if agent.has_process() || agent.status != Status::Queued {
            return;
        }
        let Some(first) = agent.queue.front() else {
            return;
        };
        let instance = first.instance;
        let env = first.env.clone();
        // Whoever waited for the first process heard that it failed.
        agent.wait_for_result &= agent.queue.iter().any(|m| m.initial);
        let plan = LaunchPlan {
            spec: agent.spec.clone(),
            host,
            depth,
            waited_for: agent.wait_for_result,
            session_id: agent.session_id.clone(),
            resume: agent.session_path.clone(),
            env,
        };
        agent.instance = Some(Instance::new(instance));
        agent.ending = None;
        agent.set_status(now, Status::Starting);
        self.instances.insert(instance, id);
        // The record is written before the launch: a crash in between loses no agent.
        self.out.push(Effect::Save(id));
        self.out.push(Effect::Launch {
            agent: id,
            instance,
            plan: Box::new(plan),
        });
        self.out.push(Effect::Arm {
            timer: Timer::Start(instance),
            after: start_deadline,
        });
        self.out.push(Effect::Publish(id));
    }

    fn finish_shutdown(&mut self) {
        if self.agents.iter().any(Agent::has_process) {
            return;
        }
        if self.shutdown.is_some() {
            self.release_answers(true);
        }
        if let Some(calls) = self.shutdown.as_mut() {
            for call in std::mem::take(calls) {
                self.out.push(Effect::Answer {
                    call,
                    answer: Ok(Reply::Done),
                });
            }
            if !std::mem::replace(&mut self.exited, true) {
                self.out.push(Effect::Exit);
            }
        }
    }

    fn timer(&mut self, now: Now, timer: Timer) {
        match timer {
            Timer::Start(instance) => self.start_late(now, instance),
            Timer::Prompt(instance, message) => self.prompt_late(now, instance, message),
            Timer::RunBegins(instance) => self.run_overdue(instance),
            Timer::AskState(instance) => self.ask_state(instance),
            Timer::Compaction(instance) => self.compaction_over(instance),
            Timer::Run(instance, seq) => self.run_late(now, instance, seq),
            Timer::Ladder(instance) => self.ladder(instance),
            Timer::Abort(instance) => self.abort_late(instance),
            Timer::Wake(host) => self.wake_due(host),
        }
    }

    // --- small helpers -------------------------------------------------------------------------

    fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.index.get(&id).and_then(|i| self.agents.get(*i))
    }

    fn agent_mut(&mut self, id: AgentId) -> Option<&mut Agent> {
        let at = *self.index.get(&id)?;
        self.agents.get_mut(at)
    }

    /// The agent whose current process this is.
    fn of_instance(&self, instance: InstanceId) -> Option<AgentId> {
        let id = *self.instances.get(&instance)?;
        let current = self.agent(id)?.instance.as_ref()?.id == instance;
        current.then_some(id)
    }

    fn both(&mut self, id: AgentId) -> Option<(&mut Agent, InstanceId)> {
        let agent = self.agent_mut(id)?;
        let instance = agent.instance.as_ref()?.id;
        Some((agent, instance))
    }

    fn instance_mut(&mut self, id: AgentId) -> Option<&mut Instance> {
        self.agent_mut(id)?.instance.as_mut()
    }

    fn refuse(&mut self, call: CallId, code: ErrorCode, message: impl Into<String>) {
        self.answer(call, Err(RequestError::new(code, message)));
    }

    fn publish(&mut self, id: AgentId) {
        self.out.push(Effect::Publish(id));
    }

    fn notice(&mut self, agent: AgentId, level: Level, text: impl Into<String>) {
        self.out.push(Effect::Notice {
            agent,
            level,
            text: text.into(),
        });
    }

    /// Nothing is written to a process whose input was closed: what it still answers is listened to,
    /// and asks for nothing more.
    fn write(&mut self, instance: InstanceId, id: impl Into<String>, command: ChildCommand) {
        let closed = self
            .of_instance(instance)
            .and_then(|id| self.phase_of(id))
            .is_none_or(|phase| matches!(phase, Phase::Ending(_) | Phase::Sweeping));
        if closed {
            return;
        }
        self.out.push(Effect::Write {
            instance,
            id: id.into(),
            command,
        });
    }

    /// Changes the status if it may be changed, shows and records it: what a record says is what a
    /// crash leaves.
    fn status(&mut self, now: Now, id: AgentId, to: Status) {
        if let Some(agent) = self.agent_mut(id)
            && agent.status != to
            && agent.set_status(now, to)
        {
            self.out.push(Effect::Save(id));
        }
        self.publish(id);
    }

    fn phase_of(&self, id: AgentId) -> Option<Phase> {
        self.agent(id)?.instance.as_ref().map(|i| i.phase)
    }
}

/// A time limit as it is said: `60 s`, `250 ms`.
fn time_words(time: std::time::Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
