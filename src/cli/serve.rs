//! `pi-agents serve`: the guard, and below it the core of a folder.
//!
//! The guard is decided before any thread exists; it starts this program again with `--core`. The
//! core says on stdout, in one JSON line, that it is ready or why it cannot be, and is silent
//! afterwards.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::JSON_VERSION;
use super::common::{Folder, Ground};
use super::exit::{CliError, Kind};
use crate::bridge;
use crate::client::Request;
use crate::config::env;
use crate::config::paths::Paths;
use crate::config::settings::Settings;
use crate::control::discovery::{Advert, CoreEntry};
use crate::control::host::{self, HostError};
use crate::control::server::{Options, Server};
use crate::control::socket::{BindError, Listener};
use crate::fleet::ids::{CoreId, HostId};
use crate::fleet::machine::MachineConfig;
use crate::fleet::roster::Badge;
use crate::guard::{self, GuardHandle, GuardLink};
use crate::supervisor::{DEEPEST, Handle, Supervisor, SupervisorConfig, leftovers};
use crate::sys::lock::FileLock;
use crate::sys::{limits, logging, panic, process, spawn, sweep};

/// Longest wait for askers to take their answers.
const GOODBYE: Duration = Duration::from_secs(2);
/// Then the connections have this long to write what they were given.
const LAST_LINES: Duration = Duration::from_millis(50);
/// What blocks on a disk when all is over is waited for so long.
const LAST_WORK: Duration = Duration::from_secs(2);

/// Runs the core of a folder
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Whose agents: `person` = those of the person working in the folder
    #[arg(long, default_value = "person", value_parser = ["person"])]
    host: String,
    #[command(flatten)]
    folder: Folder,
    /// Command that starts Pi; split into words, never run by a shell
    #[arg(long, value_name = "CMD")]
    pi: Option<String>,
    /// Model of new agents that name none
    #[arg(long)]
    model: Option<String>,
    /// Play the built-in demo instead of Pi
    #[arg(long)]
    demo: bool,
    /// Serve one Pi session over stdin and stdout, and end with it (started by the bridge)
    #[arg(long, conflicts_with = "demo")]
    stdio: bool,
    /// Be the core itself (started by the guard)
    #[arg(long, hide = true)]
    core: bool,
}

/// The one line a core says, as it is written (docs/json.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloLine {
    /// Version of the shape.
    pub version: u32,
    /// What it says.
    #[serde(flatten)]
    pub hello: Hello,
}

/// What a core says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// It is there.
    Ready {
        /// Where.
        socket: PathBuf,
        /// Process id.
        pid: u32,
        /// Identity.
        core: CoreId,
    },
    /// It cannot be.
    Error {
        /// Why.
        message: String,
        /// The way out.
        hint: Option<String>,
        /// Exit code it ends with.
        exit: u8,
    },
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    if args.core {
        Ok(core(args))
    } else {
        guard(args)
    }
}

/// Command line of a core for a folder, without the program.
#[must_use]
pub fn arguments(
    folder: &Path,
    pi: Option<&str>,
    model: Option<&str>,
    demo: bool,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["serve".into(), "--in".into(), folder.into()];
    if let Some(pi) = pi {
        args.extend(["--pi".into(), pi.into()]);
    }
    if let Some(model) = model {
        args.extend(["--model".into(), model.into()]);
    }
    if demo {
        args.push("--demo".into());
    }
    args
}

fn guard(args: &Args) -> Result<ExitCode, CliError> {
    let folder = args.folder.path()?;
    let ground = Ground::find(&[])?;
    let mut command = std::process::Command::new(own_program()?);
    command
        .args(arguments(
            &folder,
            args.pi.as_deref(),
            args.model.as_deref(),
            args.demo,
        ))
        .arg("--core")
        .args(args.stdio.then_some("--stdio"));
    let logs = ground.paths.logs_dir();
    let options = guard::Options {
        log: ground
            .paths
            .ensure_state(&logs)
            .is_ok()
            .then(|| logs.join("guard.log")),
        // A Pi session starts its core itself.
        bound: args.stdio,
        ..guard::Options::default()
    };
    Ok(guard::run(command, &options))
}

/// This program, as it can be started again.
pub fn own_program() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|e| CliError::new(Kind::Failed, format!("cannot find this program: {e}")))
}

fn core(args: &Args) -> ExitCode {
    // Before any thread: it changes the environment.
    let link = GuardLink::from_env();
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(CliError::from)
        .and_then(|runtime| {
            let served = runtime.block_on(serve(args, link));
            // What still waits for a slow disk keeps no process alive.
            runtime.shutdown_timeout(LAST_WORK);
            served
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the core cannot work");
            if args.stdio {
                // stdout is the protocol's; the bridge keeps the last words.
                let _ = writeln!(std::io::stderr(), "{error}");
                return ExitCode::from(error.kind.code());
            }
            hello(Hello::Error {
                message: error.message.clone(),
                hint: error.hint.clone(),
                exit: error.kind.code(),
            });
            ExitCode::from(error.kind.code())
        }
    }
}

/// A core works as well when nobody hears it: a line that is lost does not show in its exit code.
fn hello(hello: Hello) {
    let line = HelloLine {
        version: JSON_VERSION,
        hello,
    };
    if let Ok(line) = serde_json::to_string(&line) {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

async fn serve(args: &Args, link: Option<GuardLink>) -> Result<(), CliError> {
    let core = CoreId::fresh();
    let folder = args.folder.path()?;
    let mut line = Vec::new();
    line.extend(args.pi.as_deref().map(|pi| ("pi", pi)));
    line.extend(args.model.as_deref().map(|m| ("model", m)));
    let ground = Ground::find(&line)?;
    let paths = &ground.paths;
    let failed = |e: String| CliError::new(Kind::Failed, e);

    limits::raise_open_files();
    process::keep_room();
    let logging = logging::init(
        &paths.logs_dir(),
        &format!("core-{}", core.0),
        &ground.settings.log,
    );
    panic::install(logging.file.clone());
    if let Some(log) = logging.file.as_ref().filter(|_| !args.stdio) {
        let _ = logging::redirect_stderr_to(log);
    }

    // One person's core per folder (design §1); a Pi session has its own.
    let _claim = (!args.stdio)
        .then(|| {
            host::claim(paths, &folder).map_err(|e| match e {
                HostError::Claimed { .. } => CliError::new(Kind::Conflict, e.to_string())
                    .with_hint("`pi-agents` in that folder shows it"),
                other => failed(other.to_string()),
            })
        })
        .transpose()?;
    paths
        .ensure_state(&paths.cores_dir())
        .map_err(|e| failed(e.to_string()))?;
    let core_lock = FileLock::try_acquire(&paths.core_lock(core.0)).map_err(|e| {
        let path = paths.core_lock(core.0);
        let error = failed(format!("cannot lock {}: {e}", path.display()));
        match limits::way_out(&e) {
            Some(way_out) => error.with_hint(way_out),
            None => error,
        }
    })?;

    // What a core left behind that died together with its guard.
    let cores = paths.cores_dir();
    let swept =
        tokio::task::spawn_blocking(move || sweep::sweep_dead_cores(&cores, env::INSTANCE)).await;
    if let Ok(Ok(swept)) = swept {
        for core in swept.iter().filter(|s| !s.killed.is_empty()) {
            tracing::warn!(core = %core.core, killed = core.killed.len(), "left-overs of a dead core ended");
        }
    }

    let host = if args.stdio {
        HostId::fresh()
    } else {
        host::host_of(paths, &folder).map_err(|e| failed(e.to_string()))?
    };
    let sessions = paths
        .ensure_sessions(&folder)
        .map_err(|e| failed(e.to_string()))?;
    let supervisor = Supervisor::start(SupervisorConfig {
        core,
        host,
        folder: folder.clone(),
        pi: if args.demo {
            Some(demo_command()?)
        } else {
            ground.settings.pi.clone()
        },
        model: ground.settings.model.clone(),
        demo: args.demo,
        unlogged: logging.warning.is_some(),
        guard: link.as_ref().map(GuardLink::pid),
        sessions,
        records: paths.agents_dir(&folder),
        session_records: paths.session_agents_dir(),
        person: !args.stdio,
        session_locks: paths.session_locks_dir(),
        journals: paths.journals(),
        bridge: bridge_package(args, paths),
        record_limit: ground.settings.record_limit,
        transcript_limit: ground.settings.transcript_limit,
        machine: machine_config(&ground.settings),
    });
    let handle = supervisor.handle.clone();
    if logging.warning.is_some() {
        handle.shared().badge(Badge::NotSaved, true);
    }

    paths.ensure_runtime().map_err(|e| failed(e.to_string()))?;
    let socket = if args.stdio {
        paths.session_socket(core.0)
    } else {
        paths.socket(&folder)
    };
    let listener = Listener::bind(&socket).map_err(|e| match e {
        BindError::Running { .. } => CliError::new(Kind::Conflict, e.to_string()),
        other => failed(other.to_string()),
    })?;
    let _entry = Advert::publish(CoreEntry::of_this_process(core, host, &folder, &socket))
        .map_err(|e| failed(e.to_string()))?;

    let stop_serving = CancellationToken::new();
    let viewers = handle.clone();
    let server = Server::new(
        Arc::new(move |_info| viewers.viewer()),
        Options::default(),
        stop_serving.clone(),
    )
    .with_gate(Arc::new(handle.clone()));
    let attached = server.attached();
    let session = args
        .stdio
        .then(|| tokio::spawn(serve_session(server.clone(), handle.clone())));
    let serving = tokio::spawn(async move { server.serve(listener).await });

    if args.stdio {
        if let Some(log) = &logging.file {
            let _ = logging::redirect_stderr_to(log);
        }
    } else {
        hello(Hello::Ready {
            socket,
            pid: std::process::id(),
            core,
        });
        // Nothing more is said; a terminal that closes later must not matter.
        let _ = spawn::detach_stdio();
    }
    tracing::info!(%core, folder = %folder.display(), "core ready");

    let guard = link.and_then(|l| l.into_tokio().ok());
    let watch_guard = tokio::spawn(watch_guard(handle.clone(), guard));
    let count = tokio::spawn(count_attached(handle.clone(), attached.clone()));
    let idle = tokio::spawn(end_when_unused(
        handle.clone(),
        attached,
        ground.settings.core_idle_exit,
    ));

    until_ended(supervisor, &handle).await?;
    if let Some(session) = session {
        session.abort();
    }

    idle.abort();
    count.abort();
    watch_guard.abort();
    // Whoever waits for an answer gets it before the line is cut.
    let deadline = tokio::time::Instant::now() + GOODBYE;
    while handle.waiting() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(LAST_LINES).await;
    handle.end();
    stop_serving.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(2), serving).await;
    let report = tokio::task::spawn_blocking(move || leftovers::sweep_core(core)).await;
    if let (Ok(report), Some(lock)) = (report, core_lock)
        && report.left.is_empty()
    {
        let _ = lock.remove();
    }
    tracing::info!("core ended");
    Ok(())
}

/// The bridge that every child is given. Without one a child works as well and cannot ask its parent.
fn bridge_package(args: &Args, paths: &Paths) -> Option<PathBuf> {
    if args.demo {
        return None;
    }
    match bridge::install(&paths.cache) {
        Ok(package) => Some(package),
        Err(error) => {
            tracing::error!(%error, "children get no bridge");
            None
        }
    }
}

/// Serves the Pi session at stdin and stdout. The core ends with it (R-PI-02): Pi gone, stdin at its
/// end, agents closed, core and guard gone.
async fn serve_session(server: Server, handle: Handle) {
    let (reader, writer) = (tokio::io::stdin(), tokio::io::stdout());
    let pid = std::os::unix::process::parent_id();
    let ended = server.serve_stream(reader, writer, Some(pid)).await;
    tracing::info!(?ended, "the Pi session left");
    let _ = handle.ask(Request::Shutdown).await;
}

fn machine_config(settings: &Settings) -> MachineConfig {
    MachineConfig {
        eof_grace: settings.stop_eof,
        term_grace: settings.stop_term,
        start_deadline: settings.start_timeout,
        prompt_deadline: settings.prompt_timeout,
        launch_slots: settings.launch_slots,
        max_depth: settings.max_depth.min(DEEPEST),
        ..MachineConfig::default()
    }
}

/// The demo's agents are this program itself.
fn demo_command() -> Result<String, CliError> {
    let program = own_program()?;
    let program = program.to_str().ok_or_else(|| {
        CliError::new(Kind::Failed, "the demo needs a program path that is UTF-8")
    })?;
    Ok(format!("'{}' demo-agent", program.replace('\'', r"'\''")))
}

/// Until everything was stopped: on request, or on SIGTERM and SIGINT.
async fn until_ended(mut supervisor: Supervisor, handle: &Handle) -> Result<(), CliError> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            ended = &mut supervisor.task => {
                return ended.map_err(|e| CliError::new(Kind::Failed, format!("the supervisor failed: {e}")));
            }
            _ = term.recv() => {}
            _ = int.recv() => {}
            // A lost terminal stops nothing (R-LIFE-19).
            _ = hup.recv() => continue,
        }
        let handle = handle.clone();
        tokio::spawn(async move {
            let _ = handle.ask(Request::Shutdown).await;
        });
    }
}

async fn watch_guard(handle: Handle, guard: Option<GuardHandle>) {
    if let Some(guard) = guard {
        guard.died().await;
    }
    handle.shared().badge(Badge::Unguarded, true);
    std::future::pending::<()>().await;
}

/// Shows how many are attached, so that a screen that is not alone does not end the core under the
/// others.
async fn count_attached(handle: Handle, mut attached: tokio::sync::watch::Receiver<usize>) {
    loop {
        let count = *attached.borrow_and_update();
        handle.shared().attached(count);
        if attached.changed().await.is_err() {
            return;
        }
    }
}

/// A core with nobody attached and nothing running ends by itself (R-LIFE-19). Sleeps until
/// something changes: an idle core has no wake-ups but this one deadline.
async fn end_when_unused(
    handle: Handle,
    mut attached: tokio::sync::watch::Receiver<usize>,
    after: Duration,
) {
    let mut bell = handle.shared().listen();
    loop {
        let unused = *attached.borrow_and_update() == 0;
        bell.mark_unchanged();
        let working = handle
            .shared()
            .snapshot()
            .agents
            .iter()
            .any(|a| a.status.is_working() || a.closing);
        if unused && !working {
            tokio::select! {
                () = tokio::time::sleep(after) => {
                    tracing::info!("nobody attached and nothing running: ending");
                    let _ = handle.ask(Request::Shutdown).await;
                    return;
                }
                _ = attached.changed() => {}
                _ = bell.changed() => {}
            }
        } else {
            tokio::select! {
                changed = attached.changed() => if changed.is_err() { return },
                changed = bell.changed(), if unused => {
                    if changed.is_err() {
                        return;
                    }
                    // A fleet that works rings often; once a second is enough to look.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}
