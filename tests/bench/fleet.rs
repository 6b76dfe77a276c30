//! What a whole fleet costs (design §9): the real `pi-agents` (guard, core, dashboard in a terminal
//! of 120×40) with fake agents, looked at from outside. Prints one line per measurement: CPU in
//! percent of one core, voluntary context switches and bytes per second, memory, latencies.
//!
//! `--smoke` takes small numbers and only proves that it works. `--only WORD` runs the parts whose
//! name has that word in it. `--seconds N` is the length of a window.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unused_imports,
    dead_code,
    missing_docs
)]

#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, FleetClient, Reply, Request, SpawnRequest};
use pi_agents::control::client::{ControlClient, connect};
use pi_agents::control::protocol::Role;
use pi_agents::fleet::agent::{Status, ToolChoice};
use pi_agents::fleet::roster::FleetSnapshot;
use support::core::{PROGRAM, World, serve};
use support::fake::FakePi;
use support::pty::{Setup, Terminal};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Requests on their way at a time.
const AT_ONCE: usize = 16;

/// What the threads of a process have used so far: CPU time in ns, voluntary switches. By thread,
/// since a thread that ends takes its numbers with it.
type Used = HashMap<std::ffi::OsString, [u64; 2]>;

fn used(pid: u32) -> Used {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let of = |task: std::fs::DirEntry| {
        let text = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let first = |text: &str| text.split_whitespace().next().and_then(|n| n.parse().ok());
        let cpu = first(&text("schedstat")).unwrap_or(0);
        let switches = field(&text("status"), "voluntary_ctxt_switches:");
        (task.file_name(), [cpu, switches])
    };
    tasks.flatten().flatten().map(of).collect()
}

fn difference(before: &Used, after: &Used, which: usize) -> f64 {
    let of = |(thread, now): (&std::ffi::OsString, &[u64; 2])| {
        let then = before.get(thread).map_or(0, |then| then[which]);
        now[which].saturating_sub(then) as f64
    };
    after.iter().map(of).sum()
}

/// A number of a `/proc` file made of lines `name: number`.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Resident memory in MiB: all, and the part that is not mapped from a file.
fn memory(pid: u32) -> (f64, f64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mib = |name: &str| field(&text, name) as f64 / 1024.0;
    (mib("VmRSS:"), mib("RssAnon:"))
}

/// A core with agents, and a dashboard of it.
struct Fleet {
    // Fields drop in this order: first who looks, then the core, then the world.
    terminal: Option<Terminal>,
    client: Arc<ControlClient>,
    runtime: Runtime,
    guard: Child,
    core: u32,
    world: FakePi,
}

impl Fleet {
    fn new() -> Self {
        let world = FakePi::new();
        let (guard, ready) = serve(&world, &[]);
        let core = u32::try_from(ready["ready"]["pid"].as_u64().unwrap()).unwrap();
        let socket = ready["ready"]["socket"].as_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // It never asks for news, so it costs the core nothing.
        let client = runtime
            .block_on(connect(socket.as_ref(), Role::Viewer))
            .expect("the core answers");
        Self {
            terminal: None,
            client: Arc::new(client),
            runtime,
            guard,
            core,
            world,
        }
    }

    /// Asks all of these, some at a time, and expects them to be done.
    fn ask_all(&self, requests: Vec<Request>) -> Vec<Reply> {
        self.runtime.block_on(async {
            let mut requests = requests.into_iter();
            let mut running = JoinSet::new();
            let mut replies = Vec::new();
            loop {
                while running.len() < AT_ONCE
                    && let Some(request) = requests.next()
                {
                    let client = Arc::clone(&self.client);
                    running.spawn(async move { client.request(request).await });
                }
                match running.join_next().await {
                    Some(reply) => replies.push(reply.unwrap().expect("done")),
                    None => return replies,
                }
            }
        })
    }

    fn snapshot(&self) -> FleetSnapshot {
        match self.ask_all(vec![Request::Snapshot]).pop() {
            Some(Reply::Snapshot { fleet }) => *fleet,
            other => panic!("{other:?}"),
        }
    }

    /// Starts agents that answer at once and are idle then.
    fn spawn(&self, count: usize) {
        let request = SpawnRequest {
            prompt: "look at the tests and say what is slow".to_owned(),
            label: None,
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: None,
            persistent: None,
            timeout_ms: None,
            env: Vec::new(),
        };
        self.ask_all(vec![Request::Spawn(request); count]);
        self.wait("all idle", |status| *status == Status::Idle);
    }

    fn wait(&self, what: &str, wanted: impl Fn(&Status) -> bool) {
        support::wait::wait_until(what, || {
            self.snapshot().agents.iter().all(|a| wanted(&a.status))
        });
    }

    /// Gives every agent something to do.
    fn tell(&self, text: &str) {
        let to = |name: String| Request::Send {
            agent: AgentRef::Name(name),
            text: text.to_owned(),
            env: Vec::new(),
        };
        let names = self.snapshot().agents.into_iter().map(|a| to(a.name));
        self.ask_all(names.collect());
        self.wait("all running", |status| *status == Status::Running);
    }

    fn abort(&self) {
        let of = |name: String| Request::Abort {
            agent: AgentRef::Name(name),
        };
        let all = self.snapshot().agents.into_iter().map(|a| of(a.name));
        self.ask_all(all.collect());
        self.wait("all idle", |status| *status == Status::Idle);
    }

    /// Opens the dashboard; gives the time to the first full frame and to the one with the fleet.
    fn open(&mut self) -> (f64, f64) {
        let mut command = self.world.command(PROGRAM);
        command
            .args(["--pi", &self.world.pi()])
            .env("ANTHROPIC_API_KEY", "dummy");
        let setup = Setup::new().size(120, 40);
        let began = Instant::now();
        let terminal = setup.start(&command);
        let ms = || began.elapsed().as_secs_f64() * 1000.0;
        let until = |text: &str| {
            while !terminal.screen(|s| s.contains(text)) {
                assert!(began.elapsed() < Duration::from_secs(20), "no {text:?}");
                std::thread::sleep(Duration::from_micros(200));
            }
            ms()
        };
        let first = until("Agents");
        let fleet = until("idle");
        self.terminal = Some(terminal);
        (first, fleet)
    }

    /// Uses of core and screen during a window.
    fn window(&self, name: &str, length: Duration) {
        let terminal = self.terminal.as_ref().expect("open");
        let screen = terminal.pid();
        let (core_0, screen_0) = (used(self.core), used(screen));
        let bytes_0 = terminal.output_len();
        let began = Instant::now();
        std::thread::sleep(length);
        let seconds = began.elapsed().as_secs_f64();
        let (core_1, screen_1) = (used(self.core), used(screen));
        let bytes = terminal.output_len() - bytes_0;
        let cpu = |a: &Used, b: &Used| difference(a, b, 0) / seconds / 1e7;
        let switches = |a: &Used, b: &Used| difference(a, b, 1) / seconds;
        let (core_mib, core_anon) = memory(self.core);
        let (screen_mib, screen_anon) = memory(screen);
        println!(
            "{name:<34} cpu% core {:6.2} screen {:6.2} sum {:6.2} | switches/s {:7.1} {:7.1} | \
             MiB {core_mib:5.1} ({core_anon:5.1}) {screen_mib:5.1} ({screen_anon:5.1}) | \
             {:8.0} B/s",
            cpu(&core_0, &core_1),
            cpu(&screen_0, &screen_1),
            cpu(&core_0, &core_1) + cpu(&screen_0, &screen_1),
            switches(&core_0, &core_1),
            switches(&screen_0, &screen_1),
            bytes as f64 / seconds,
        );
    }

    /// From a typed character to the screen that shows it, in the task line.
    fn keys(&mut self, name: &str, count: usize) {
        const EMPTY: &str = "type a task for a new agent";
        let terminal = self.terminal.as_mut().expect("open");
        if !terminal.screen(|s| s.contains(EMPTY)) {
            terminal.keys("n");
            terminal.wait_text(EMPTY);
        }
        let mut times: Vec<f64> = Vec::with_capacity(count);
        for n in 0..count {
            // Not in step with anything.
            std::thread::sleep(Duration::from_millis(41 + (n as u64 * 7) % 23));
            let typed = n % 2 == 0;
            let began = Instant::now();
            terminal.send(if typed { b"x" } else { b"\x7f" });
            while terminal.screen(|s| s.contains(EMPTY)) == typed {
                assert!(began.elapsed() < Duration::from_secs(10), "key {n} lost");
                std::thread::sleep(Duration::from_micros(100));
            }
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        print_times(name, times);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.terminal = None;
        let _ = self
            .runtime
            .block_on(self.client.request(Request::Shutdown));
        support::processes::signal(self.core, rustix::process::Signal::KILL);
        let _ = self.guard.wait();
    }
}

fn print_times(name: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
    println!(
        "{name:<34} ms p50 {:6.1} p99 {:6.1} worst {:6.1} of {}",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

struct Plan {
    smoke: bool,
    only: Option<String>,
    window: Duration,
}

impl Plan {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            let at = args.iter().position(|a| a == name)?;
            args.get(at + 1).cloned()
        };
        let smoke = args.iter().any(|a| a == "--smoke");
        let seconds = value("--seconds").and_then(|s| s.parse().ok());
        Self {
            smoke,
            only: value("--only"),
            window: Duration::from_secs_f64(seconds.unwrap_or(if smoke { 0.3 } else { 5.0 })),
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    }
}

fn start(plan: &Plan) {
    let mut fleet = Fleet::new();
    fleet.spawn(3);
    let count = if plan.smoke { 2 } else { 15 };
    let (first, full): (Vec<f64>, Vec<f64>) = (0..count).map(|_| fleet.open()).unzip();
    print_times("start, to the first full frame", first);
    print_times("start, to the frame with agents", full);
}

fn load(plan: &Plan, agents: usize) {
    let mut fleet = Fleet::new();
    fleet.spawn(agents);
    fleet.open();
    std::thread::sleep(if plan.smoke {
        Duration::ZERO
    } else {
        Duration::from_secs(3)
    });
    fleet.window(&format!("{agents} agents, idle"), plan.window);
    fleet.keys("  key to screen, idle", if plan.smoke { 4 } else { 40 });
    fleet.tell("fake:stream 1000000 20");
    std::thread::sleep(if plan.smoke {
        Duration::ZERO
    } else {
        Duration::from_secs(1)
    });
    fleet.window(&format!("{agents} agents x 50 records/s"), plan.window);
    fleet.keys(
        "  key to screen, under load",
        if plan.smoke { 4 } else { 200 },
    );
    fleet.abort();
}

/// A transcript that is far longer than what is kept.
fn long(plan: &Plan) {
    let agents = if plan.smoke { 1 } else { 10 };
    let fleet = Fleet::new();
    fleet.spawn(agents);
    let before = memory(fleet.core);
    let runs = if plan.smoke { 5 } else { 1000 };
    let text = format!("fake:{}", vec!["big 10000"; runs.min(50)].join(" ;; "));
    for _ in 0..runs.div_ceil(50) {
        fleet.tell_and_wait(&text);
    }
    let after = memory(fleet.core);
    println!(
        "{agents} transcripts of {} MB           MiB per agent {:.2} (core {:.1} -> {:.1})",
        runs / 100,
        (after.0 - before.0) / agents as f64,
        before.0,
        after.0
    );
}

impl Fleet {
    fn tell_and_wait(&self, text: &str) {
        let agents = self.snapshot().agents;
        let runs: Vec<u64> = agents.iter().map(|a| a.runs_ended).collect();
        let to = |name: String| Request::Send {
            agent: AgentRef::Name(name),
            text: text.to_owned(),
            env: Vec::new(),
        };
        self.ask_all(agents.into_iter().map(|a| to(a.name)).collect());
        support::wait::wait_until("the run to end", || {
            let now = self.snapshot().agents;
            now.iter().zip(&runs).all(|(a, was)| a.runs_ended > *was)
        });
    }
}

/// Stopping an agent that floods: to the answer, which says that the process is gone.
fn stop(plan: &Plan) {
    let count = if plan.smoke { 2 } else { 10 };
    let mut fleet = Fleet::new();
    fleet.spawn(count);
    fleet.open();
    let mut times = Vec::new();
    for agent in fleet.snapshot().agents {
        fleet.ask_all(vec![Request::Send {
            agent: AgentRef::Id(agent.id),
            text: "fake:flood 200".to_owned(),
            env: Vec::new(),
        }]);
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        fleet.ask_all(vec![Request::Stop {
            agent: AgentRef::Id(agent.id),
        }]);
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    print_times("stop of a flooding agent", times);
}

fn main() {
    let plan = Plan::from_args();
    if plan.wants("start") {
        start(&plan);
    }
    for agents in if plan.smoke { vec![2] } else { vec![10, 100] } {
        if plan.wants(&format!("load-{agents}")) {
            load(&plan, agents);
        }
    }
    if plan.wants("long") {
        long(&plan);
    }
    if plan.wants("stop") {
        stop(&plan);
    }
}
