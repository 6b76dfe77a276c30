//! A running core of the product: the real `pi-agents serve` (guard and core) in a sandbox, and a
//! viewer of it that keeps the fleet and the transcripts it watches.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pi_agents::client::{
    AgentRef, Env, EnvText, EnvVar, FleetClient, Reply, Request, RequestError, SpawnRequest, Update,
};
use pi_agents::control::client::{ControlClient, connect};
use pi_agents::control::protocol::Role;
use pi_agents::fleet::agent::ToolChoice;
use pi_agents::fleet::ids::AgentId;
use pi_agents::fleet::roster::{AgentView, FleetSnapshot};
use pi_agents::fleet::transcript::{Entry, EntryKind, TranscriptLog};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::fake::FakePi;
use super::hermetic_pi::HermeticPi;
use super::processes;
use super::wait;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_pi-agents");

/// A world a core can run in.
pub trait World {
    /// A command in it, in the work folder, with its environment.
    fn command(&self, program: &str) -> Command;
    /// Its environment.
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)>;
    /// For `--pi`.
    fn pi(&self) -> String;
}

impl World for HermeticPi {
    fn command(&self, program: &str) -> Command {
        HermeticPi::command(self, program)
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        HermeticPi::env(self)
    }
    fn pi(&self) -> String {
        self.pi_command()
    }
}

impl World for FakePi {
    fn command(&self, program: &str) -> Command {
        FakePi::command(self, program)
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        FakePi::env(self)
    }
    fn pi(&self) -> String {
        self.pi_command()
    }
}

#[derive(Default)]
struct Seen {
    fleet: Option<FleetSnapshot>,
    logs: HashMap<AgentId, TranscriptLog>,
    ended: bool,
    /// Agents whose transcripts were asked for.
    watched: Vec<AgentId>,
    /// Every status and activity a row ever showed, in order of arrival.
    history: Vec<AgentView>,
}

/// See the module.
pub struct Core {
    runtime: Runtime,
    /// The guard.
    pub guard: Child,
    /// The core's pid.
    pub pid: u32,
    /// Where it listens.
    pub socket: std::path::PathBuf,
    client: Arc<ControlClient>,
    seen: Arc<Mutex<Seen>>,
    env: Env,
}

impl Core {
    /// Starts one in that world and waits until it is ready.
    pub fn start(world: &impl World) -> Self {
        Self::start_with(world, &[])
    }

    /// The same with more arguments and variables for the core.
    pub fn start_with(world: &impl World, vars: &[(&str, &str)]) -> Self {
        let (guard, ready) = serve(world, vars);
        let ready = &ready["ready"];
        let socket = ready["socket"].as_str().expect("a ready line").to_owned();
        let pid = u32::try_from(ready["pid"].as_u64().unwrap()).unwrap();
        Self::attach(world, guard, pid, &socket)
    }

    fn attach(world: &impl World, guard: Child, pid: u32, socket: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let client = runtime
            .block_on(connect(socket.as_ref(), Role::Viewer))
            .expect("the core answers");
        let client = Arc::new(client);
        let seen = Arc::new(Mutex::new(Seen::default()));
        runtime.spawn(follow(Arc::clone(&client), Arc::clone(&seen)));
        Self {
            runtime,
            guard,
            pid,
            socket: socket.into(),
            client,
            seen,
            env: env_of(world),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks and waits for the answer.
    pub fn ask(&self, request: Request) -> Result<Reply, RequestError> {
        self.runtime.block_on(self.client.request(request))
    }

    /// Asks and goes on; the answer is fetched later.
    pub fn ask_later(
        &self,
        request: Request,
    ) -> tokio::task::JoinHandle<Result<Reply, RequestError>> {
        let client = Arc::clone(&self.client);
        self.runtime
            .spawn(async move { client.request(request).await })
    }

    /// Waits for an answer asked for earlier.
    pub fn fetch(
        &self,
        later: tokio::task::JoinHandle<Result<Reply, RequestError>>,
    ) -> Result<Reply, RequestError> {
        self.runtime.block_on(async {
            tokio::time::timeout(wait::limit(), later)
                .await
                .expect("an answer in time")
                .unwrap()
        })
    }

    /// A request to start an agent on that task.
    pub fn spawn_request(&self, prompt: &str) -> SpawnRequest {
        SpawnRequest {
            prompt: prompt.to_owned(),
            label: None,
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: None,
            persistent: None,
            timeout_ms: None,
            env: self.env.clone(),
        }
    }

    /// Starts an agent and gives its name. Its transcript is watched from then on.
    #[track_caller]
    pub fn spawn(&self, prompt: &str) -> String {
        self.spawn_as(self.spawn_request(prompt))
    }

    /// The same with a request of one's own.
    #[track_caller]
    pub fn spawn_as(&self, request: SpawnRequest) -> String {
        match self.ask(Request::Spawn(request)) {
            Ok(Reply::Spawned { name, .. }) => {
                self.watch_all();
                name
            }
            other => panic!("not started: {other:?}"),
        }
    }

    /// Watches the transcripts of all agents that are known now.
    pub fn watch_all(&self) {
        let Ok(Reply::Snapshot { fleet }) = self.ask(Request::Snapshot) else {
            panic!("no snapshot");
        };
        let agents: Vec<AgentId> = fleet.agents.iter().map(|a| a.id).collect();
        self.seen().watched.clone_from(&agents);
        self.ask(Request::Watch { agents }).unwrap();
    }

    /// A message to an agent.
    pub fn send_request(&self, name: &str, text: &str) -> Request {
        Request::Send {
            agent: AgentRef::Name(name.to_owned()),
            text: text.to_owned(),
            env: self.env.clone(),
        }
    }

    /// Messages an agent.
    #[track_caller]
    pub fn send(&self, name: &str, text: &str) -> Reply {
        self.ask(self.send_request(name, text)).expect("accepted")
    }

    /// Stops an agent.
    #[track_caller]
    pub fn stop(&self, name: &str) -> Reply {
        self.ask(Request::Stop {
            agent: AgentRef::Name(name.to_owned()),
        })
        .expect("stopped")
    }

    /// The row of an agent.
    #[track_caller]
    pub fn agent(&self, name: &str) -> AgentView {
        self.wait_agent(name, "it is known", |_| true)
    }

    /// Waits until a row is as wanted.
    #[track_caller]
    pub fn wait_agent(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&AgentView) -> bool,
    ) -> AgentView {
        wait::wait_for_or(
            &format!("@{name}: {what}"),
            || {
                let seen = self.seen();
                let row = seen
                    .fleet
                    .as_ref()?
                    .agents
                    .iter()
                    .find(|a| a.name == name)?;
                wanted(row).then(|| row.clone())
            },
            || {
                // One after the other: both look behind the same lock.
                let fleet = self.seen().fleet.clone();
                format!("{fleet:#?}\n{:#?}", self.all_entries())
            },
        )
    }

    /// The fleet as the viewer has it.
    pub fn fleet(&self) -> FleetSnapshot {
        wait::wait_for("a snapshot", || self.seen().fleet.clone())
    }

    /// Waits until the fleet is as wanted.
    #[track_caller]
    pub fn wait_fleet(&self, what: &str, wanted: impl Fn(&FleetSnapshot) -> bool) -> FleetSnapshot {
        wait::wait_for(what, || self.seen().fleet.clone().filter(&wanted))
    }

    /// Every version of a row the viewer was shown, oldest first.
    pub fn history(&self, name: &str) -> Vec<AgentView> {
        let seen = self.seen();
        seen.history
            .iter()
            .filter(|a| a.name == name)
            .cloned()
            .collect()
    }

    /// Waits until the viewer noticed that the core is gone.
    #[track_caller]
    pub fn wait_lost(&self) {
        wait::wait_until("the viewer notices the core's end", || self.seen().ended);
    }

    fn all_entries(&self) -> Vec<Vec<Entry>> {
        let seen = self.seen();
        seen.logs
            .values()
            .map(|l| l.iter().cloned().collect())
            .collect()
    }

    /// The transcript of an agent.
    pub fn entries(&self, name: &str) -> Vec<Entry> {
        let id = self.agent(name).id;
        let seen = self.seen();
        let log = seen.logs.get(&id);
        log.map(|l| l.iter().cloned().collect()).unwrap_or_default()
    }

    /// Waits until something in the transcript is as wanted.
    #[track_caller]
    pub fn wait_entries<T>(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&[Entry]) -> Option<T>,
    ) -> T {
        wait::wait_for_or(
            &format!("@{name}'s transcript: {what}"),
            || wanted(&self.entries(name)),
            || format!("{:#?}", self.entries(name)),
        )
    }

    /// The transcript with the ends of all runs that the row counts as ended: a row may be seen a
    /// moment before the transcript that belongs to it.
    #[track_caller]
    fn settled_entries(&self, name: &str) -> Vec<Entry> {
        self.wait_entries(name, "the ends of its runs", |entries| {
            let seen = self.seen();
            let mut rows = seen.history.iter().filter(|a| a.name == name);
            // Runs of an earlier core are not in this one's transcript.
            let before = rows.next()?.runs_ended;
            let row = rows.next_back();
            let wanted = row.map_or(0, |a| a.runs_ended - before);
            let unseen = row.is_none_or(|a| !seen.watched.contains(&a.id));
            let ends = entries
                .iter()
                .filter(|e| matches!(e.kind, EntryKind::RunEnd { .. }));
            (unseen || ends.count() as u64 >= wanted).then(|| entries.to_vec())
        })
    }

    /// Texts of the model's answers in the transcript.
    #[track_caller]
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.settled_entries(name)
            .into_iter()
            .filter_map(|e| match e.kind {
                EntryKind::Text { text, .. } => Some(text),
                _ => None,
            })
            .collect()
    }

    /// Number of run ends in the transcript.
    #[track_caller]
    pub fn run_ends(&self, name: &str) -> usize {
        self.settled_entries(name)
            .iter()
            .filter(|e| matches!(e.kind, EntryKind::RunEnd { .. }))
            .count()
    }

    /// Ends the core in order and waits for its guard.
    #[track_caller]
    pub fn shutdown(mut self) {
        assert_eq!(self.ask(Request::Shutdown), Ok(Reply::Done));
        wait::wait_for("the guard ends", || self.guard.try_wait().unwrap());
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        processes::signal(self.pid, rustix::process::Signal::KILL);
        // A guard that a test has stopped would be waited for in vain.
        processes::signal(self.guard.id(), rustix::process::Signal::CONT);
        let _ = self.guard.wait();
    }
}

/// Starts `pi-agents serve` and reads the line it says.
pub fn serve(world: &impl World, vars: &[(&str, &str)]) -> (Child, Value) {
    let mut command = world.command(PROGRAM);
    command
        .args(["serve", "--pi", &world.pi()])
        .envs(vars.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut guard = command.spawn().expect("pi-agents starts");
    let mut line = String::new();
    BufReader::new(guard.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    (guard, value)
}

/// Runs a shell verb to its end.
pub fn verb(world: &impl World, args: &[&str]) -> Output {
    world
        .command(PROGRAM)
        .args(args)
        .output()
        .expect("pi-agents runs")
}

async fn follow(client: Arc<ControlClient>, seen: Arc<Mutex<Seen>>) {
    while let Some(batch) = client.updates().await {
        let mut resync = false;
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            for update in batch {
                match update {
                    Update::Snapshot(fleet) => {
                        seen.history.extend(fleet.agents.iter().cloned());
                        seen.fleet = Some(*fleet);
                    }
                    Update::Delta(delta) => {
                        seen.history.extend(delta.agents.iter().cloned());
                        let fits = seen.fleet.as_mut().is_some_and(|f| f.apply(delta));
                        resync |= !fits;
                    }
                    Update::Transcript { agent, patch } => {
                        let fits = seen.logs.entry(agent).or_default().apply(patch);
                        resync |= !fits;
                    }
                }
            }
        }
        if resync {
            let _ = client.request(Request::Resync).await;
        }
    }
    seen.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
}

fn env_of(world: &impl World) -> Env {
    let text = |os: &std::ffi::OsStr| match os.to_str() {
        Some(text) => EnvText::Text(text.to_owned()),
        None => EnvText::Bytes {
            bytes: os.as_bytes().to_vec(),
        },
    };
    world
        .env()
        .iter()
        .map(|(name, value)| EnvVar {
            name: text(name),
            value: text(value),
        })
        .collect()
}
