//! A machine with a hand that plays its child.

use std::collections::HashMap;
use std::time::Duration;

use pi_agents::fleet::agent::{AgentSpec, Status, ToolChoice};
use pi_agents::fleet::answer::{Reply, RequestError};
use pi_agents::fleet::history::{Explanation, History};
use pi_agents::fleet::host::{Caller, Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, HostId, InstanceId, MessageId};
use pi_agents::fleet::interpret::{ChildState, Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::{
    ChildCommand, ChildEnv, Effect, Exit, Input, Machine, MachineConfig, Now, Timer,
};
use pi_agents::fleet::roster::AgentView;
use pi_agents::pi::message::StopReason;

pub struct World {
    pub machine: Machine,
    pub effects: Vec<Effect>,
    /// Status in the record of each agent.
    recorded: HashMap<AgentId, Status>,
    /// Model of the agents that are spawned.
    pub model: Option<String>,
    /// Kept as the supervisor keeps it.
    pub history: History,
    now: Duration,
    /// In whose name things are asked for.
    pub caller: Caller,
    /// What is to be written is on the disk at once.
    pub quick_disk: bool,
}

impl World {
    pub fn new() -> Self {
        Self::with(MachineConfig::default())
    }

    pub fn with(config: MachineConfig) -> Self {
        let person = HostId::fresh();
        Self {
            machine: Machine::new(config, person),
            effects: Vec::new(),
            recorded: HashMap::new(),
            model: None,
            history: History::default(),
            now: Duration::ZERO,
            caller: Caller {
                host: person,
                generation: 1,
            },
            quick_disk: false,
        }
    }

    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = self.step(input);
        let journalled = |e: &Effect| match e {
            Effect::Journal { host, seq, .. } => Some((*host, *seq)),
            _ => None,
        };
        while self.quick_disk
            && let Some((host, seq)) = effects.iter().rev().find_map(journalled)
        {
            let more = self.step(Input::Journaled { host, seq });
            let again = more.iter().any(|e| journalled(e).is_some());
            effects.extend(more);
            if !again {
                break;
            }
        }
        effects
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.now += Duration::from_millis(1);
        let now = Now {
            mono: self.now,
            wall_ms: i64::try_from(self.now.as_millis()).unwrap(),
        };
        let note = self.history.note(&input, |i| self.machine.is_current(i));
        let effects = self.machine.step(now, input);
        self.history.add(now, note, &effects, |id| {
            self.machine.status_of(id).cloned()
        });
        self.effects.extend(effects.clone());
        self.check_records(&effects);
        effects
    }

    /// At every moment a crash leaves a record that tells the truth (design §2): the next core makes
    /// of it what it would make of the agent as it is now. Only a revival that waits for its turn
    /// is not on record: whoever asked for it learns that the core is gone.
    fn check_records(&mut self, effects: &[Effect]) {
        let ids: Vec<AgentId> = self.machine.ids().collect();
        for id in ids {
            let now = self.view(id).status;
            if effects.contains(&Effect::Save(id)) {
                self.recorded.insert(id, now.clone());
            }
            let Some(recorded) = self.recorded.get(&id) else {
                continue;
            };
            if now != Status::Queued {
                assert_eq!(
                    (recorded.is_working(), recorded.is_live()),
                    (now.is_working(), now.is_live()),
                    "on record {recorded:?}, is {now:?}"
                );
            }
        }
    }

    pub fn spawn_with(
        &mut self,
        prompt: &str,
        persistent: bool,
        timeout_ms: Option<u64>,
    ) -> Played {
        self.spawn_mode(prompt, persistent, timeout_ms, SpawnMode::Background)
    }

    pub fn spawn_mode(
        &mut self,
        prompt: &str,
        persistent: bool,
        timeout_ms: Option<u64>,
        mode: SpawnMode,
    ) -> Played {
        let spec = AgentSpec {
            label: "a task".to_owned(),
            model: self.model.clone(),
            thinking: None,
            tools: ToolChoice::All,
            cwd: "/".into(),
            persistent,
            timeout_ms,
            call: None,
        };
        self.spawn_prompt(spec, prompt, mode)
    }

    pub fn spawn_spec(&mut self, spec: AgentSpec, mode: SpawnMode) -> Played {
        self.spawn_prompt(spec, "task", mode)
    }

    fn spawn_prompt(&mut self, spec: AgentSpec, prompt: &str, mode: SpawnMode) -> Played {
        let (call, agent, instance, message) = (
            CallId::fresh(),
            AgentId::fresh(),
            InstanceId::fresh(),
            MessageId::fresh(),
        );
        self.input(Input::Spawn {
            call,
            by: self.caller,
            mode,
            agent,
            instance,
            message,
            spec,
            prompt: prompt.to_owned(),
            env: ChildEnv::default(),
        });
        Played {
            call,
            agent,
            instance,
        }
    }

    pub fn spawn(&mut self, prompt: &str) -> Played {
        self.spawn_with(prompt, true, None)
    }

    /// An agent whose first run is going on.
    pub fn running(&mut self) -> Played {
        let played = self.spawn("task");
        self.begin(&played);
        played
    }

    /// Its process starts and its first run begins.
    pub fn begin(&mut self, played: &Played) {
        self.ready(played);
        self.accept_next(played, Disposition::Started);
        self.fact(played, Fact::RunStarted);
        self.fact(
            played,
            Fact::UserMessage {
                text: "task".into(),
            },
        );
    }

    /// An agent whose first run is over.
    pub fn idle(&mut self) -> Played {
        let played = self.running();
        self.settle(&played, StopReason::Stop);
        played
    }

    pub fn send(&mut self, agent: AgentId, text: &str) -> (CallId, InstanceId) {
        self.send_by(Sender::User, agent, text)
    }

    pub fn send_by(&mut self, by: Sender, agent: AgentId, text: &str) -> (CallId, InstanceId) {
        let (call, instance) = (CallId::fresh(), InstanceId::fresh());
        self.input(Input::Send {
            call,
            agent,
            by,
            message: MessageId::fresh(),
            instance,
            text: text.to_owned(),
            env: ChildEnv::default(),
        });
        (call, instance)
    }

    pub fn stop(&mut self, agent: AgentId) -> CallId {
        self.stop_by(Stopper::User, agent)
    }

    pub fn stop_by(&mut self, by: Stopper, agent: AgentId) -> CallId {
        let call = CallId::fresh();
        self.input(Input::Stop { call, agent, by });
        call
    }

    pub fn fact(&mut self, played: &Played, fact: Fact) -> Vec<Effect> {
        self.input(Input::Fact {
            instance: played.instance,
            fact,
        })
    }

    pub fn respond(&mut self, played: &Played, id: &str, result: Result<ResponseData, String>) {
        let command = match id {
            "state" => "get_state",
            "models" => "get_available_models",
            "clear" => "clear_queue",
            "abort" => "abort",
            "commands" => "get_commands",
            _ => "prompt",
        };
        self.fact(
            played,
            Fact::Response {
                id: id.to_owned(),
                command: command.to_owned(),
                result,
            },
        );
    }

    /// The process started and answered its first question.
    pub fn ready(&mut self, played: &Played) {
        self.input(Input::Launched {
            instance: played.instance,
            pid: 4711,
        });
        self.respond(
            played,
            "state",
            Ok(ResponseData::State(ChildState {
                session_path: Some("/sessions/one.jsonl".into()),
                ..ChildState::default()
            })),
        );
    }

    /// Ids and texts of prompts written to this process so far.
    pub fn prompts(&self, played: &Played) -> Vec<(String, String)> {
        self.effects
            .iter()
            .filter_map(|e| match e {
                Effect::Write {
                    instance,
                    id,
                    command: ChildCommand::Prompt { text },
                } if *instance == played.instance => Some((id.clone(), text.clone())),
                _ => None,
            })
            .collect()
    }

    pub fn commands(&self, played: &Played) -> Vec<ChildCommand> {
        self.effects
            .iter()
            .filter_map(|e| match e {
                Effect::Write {
                    instance, command, ..
                } if *instance == played.instance => Some(command.clone()),
                _ => None,
            })
            .collect()
    }

    /// The child has these commands.
    pub fn has_commands(&mut self, played: &Played, commands: &[&str]) {
        let commands = commands.iter().map(|c| (*c).to_owned()).collect();
        self.respond(played, "commands", Ok(ResponseData::Commands(commands)));
    }

    /// The deadline of the message that this process is to be written next.
    pub fn deadline(&self, played: &Played) -> Timer {
        let armed = |e: &Effect| match e {
            Effect::Arm { timer, .. } => Some(*timer),
            _ => None,
        };
        let mut timers = self.effects.iter().rev().filter_map(armed);
        timers
            .find(|t| matches!(t, Timer::Prompt(i, _) if *i == played.instance))
            .expect("a deadline")
    }

    /// Answers the newest prompt.
    pub fn accept_next(&mut self, played: &Played, disposition: Disposition) {
        let (id, _) = self
            .prompts(played)
            .last()
            .cloned()
            .expect("a prompt was written");
        self.respond(played, &id, Ok(ResponseData::Disposition(disposition)));
    }

    pub fn settle(&mut self, played: &Played, stop: StopReason) {
        let aborted = stop == StopReason::Aborted;
        self.fact(
            played,
            Fact::RunEnded(RunEnd {
                stop,
                aborted,
                error: None,
                text: "the answer".into(),
                ..RunEnd::default()
            }),
        );
    }

    pub fn exit(&mut self, played: &Played, code: Option<i32>, signal: Option<i32>) {
        self.input(Input::Exited {
            instance: played.instance,
            exit: Exit {
                code,
                signal,
                stderr_tail: vec!["Error: it broke".into()],
                known: None,
                unheard: false,
            },
        });
    }

    pub fn swept(&mut self, played: &Played) {
        self.input(Input::Swept {
            instance: played.instance,
            killed: 0,
            left: 0,
        });
    }

    pub fn timer(&mut self, timer: Timer) -> Vec<Effect> {
        self.input(Input::Timer(timer))
    }

    pub fn view(&self, agent: AgentId) -> AgentView {
        self.machine.view(agent).expect("the agent is known")
    }

    /// What led to the state an agent shows.
    pub fn explain(&self, agent: AgentId) -> Explanation {
        let now = i64::try_from(self.now.as_millis()).unwrap();
        self.history.explain(self.view(agent), now, 0)
    }

    /// Lets time go by.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn status(&self, agent: AgentId) -> Status {
        self.view(agent).status
    }

    /// The answers a call got: exactly one in the end.
    pub fn answers(&self, call: CallId) -> Vec<Result<Reply, RequestError>> {
        self.effects
            .iter()
            .filter_map(|e| match e {
                Effect::Answer { call: c, answer } if *c == call => Some(answer.clone()),
                _ => None,
            })
            .collect()
    }

    pub fn answer(&self, call: CallId) -> Result<Reply, RequestError> {
        let answers = self.answers(call);
        assert_eq!(
            answers.len(),
            1,
            "a call is answered exactly once: {answers:?}"
        );
        answers.into_iter().next().unwrap()
    }

    pub fn count(&self, is: impl Fn(&Effect) -> bool) -> usize {
        self.effects.iter().filter(|e| is(e)).count()
    }

    pub fn run_ends(&self, agent: AgentId) -> usize {
        self.count(|e| matches!(e, Effect::RunEnded { agent: a, .. } if *a == agent))
    }

    pub fn launches(&self, agent: AgentId) -> Vec<InstanceId> {
        self.effects
            .iter()
            .filter_map(|e| match e {
                Effect::Launch {
                    agent: a, instance, ..
                } if *a == agent => Some(*instance),
                _ => None,
            })
            .collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Played {
    pub call: CallId,
    pub agent: AgentId,
    pub instance: InstanceId,
}

impl Played {
    /// The same agent in another process.
    pub fn in_process(self, instance: InstanceId) -> Self {
        Self { instance, ..self }
    }
}
