//! `pi-agents`: the full screen over the core of this folder. Starts that core when there is none,
//! and paints before it is there.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};

use super::checks::{self, Care, Verdict};
use super::common::{self, Folder, Ground};
use super::exit::{CliError, Kind};
use super::serve::{self, Hello, HelloLine};
use super::{demo, say};
use crate::client::{BoxFuture, FleetClient};
use crate::control::client;
use crate::control::discovery;
use crate::control::protocol::Role;
use crate::sys::{logging, panic, spawn};
use crate::tui::{self, Attempt, ExitReason, RunOptions, StartCheck, StartProblem, TuiError};

/// Longest wait for a new core to say that it is there.
const CORE_START: Duration = Duration::from_secs(20);

/// Pause before a core that is being started or ended by somebody else is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Exit code after the terminal went away: 128 + SIGHUP.
const HUNG_UP: u8 = 129;

/// Options of the dashboard.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Command that starts Pi; split into words, never run by a shell
    #[arg(long, value_name = "CMD")]
    pi: Option<String>,
    /// Model of new agents
    #[arg(long)]
    model: Option<String>,
    /// Work for this folder instead of the present one
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,
    #[arg(skip)]
    demo: bool,
}

impl Args {
    /// The dashboard of the demo in its own folder.
    #[must_use]
    pub fn demo(folder: PathBuf) -> Self {
        Self {
            cwd: Some(folder),
            demo: true,
            ..Self::default()
        }
    }
}

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let mut line = Vec::new();
    line.extend(args.pi.as_deref().map(|pi| ("pi", pi)));
    line.extend(args.model.as_deref().map(|m| ("model", m)));
    let ground = Arc::new(Ground::find(&line)?);
    let folder = Folder {
        folder: args.cwd.clone(),
    }
    .path()?;
    let logging = logging::init(&ground.paths.logs_dir(), "screen", &ground.settings.log);
    panic::install(logging.file);

    let options = RunOptions {
        env: common::own_env(),
        folder: folder.clone(),
        home: ground.env.home().map(Path::to_owned),
        owner: true,
        model: ground.settings.model.clone(),
        reconnects: true,
        ..RunOptions::default()
    };
    let connector = connector(args, Arc::clone(&ground), folder.clone());
    // One thread: the screen waits for the core anyway, and news need not change threads.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let reason = runtime.block_on(Box::pin(tui::run(options, connector)));
    // A connection that is still being made must not hold the shell up.
    runtime.shutdown_timeout(Duration::from_millis(50));
    if matches!(reason, Ok(ExitReason::Quit { .. })) {
        common::wait_core_gone(&ground.paths, &folder);
    }
    end(reason)
}

fn end(reason: Result<ExitReason, TuiError>) -> Result<ExitCode, CliError> {
    match reason {
        Ok(ExitReason::Keep) => {
            say("agents keep running; `pi-agents` in this folder shows them again");
            Ok(ExitCode::SUCCESS)
        }
        Ok(ExitReason::Quit { .. } | ExitReason::NotStarted | ExitReason::Shared) => {
            Ok(ExitCode::SUCCESS)
        }
        // As if the hang-up had ended it (case B066).
        Ok(ExitReason::Detached) => Ok(ExitCode::from(HUNG_UP)),
        Ok(ExitReason::CoreLost) => Err(CliError::new(Kind::Failed, "the core was lost")),
        Ok(ExitReason::Signal(signal)) => Ok(ExitCode::from(
            u8::try_from(128 + signal).unwrap_or(u8::MAX),
        )),
        Err(TuiError::NoTerminal(error)) => Err(CliError::new(Kind::NoTerminal, error.to_string())
            .with_hint(
                "the shell verbs need no terminal: pi-agents ps, spawn, send, stop, doctor",
            )),
        Err(error @ (TuiError::Keys(_) | TuiError::Theme(_))) => {
            Err(CliError::new(Kind::Usage, error.to_string()))
        }
        Err(error) => Err(CliError::new(Kind::Failed, error.to_string())),
    }
}

/// How the screen gets a core: the one that works for the folder, else a new one.
fn connector(args: Args, ground: Arc<Ground>, folder: PathBuf) -> tui::Connector {
    Arc::new(move |attempt| {
        let (args, ground, folder) = (args.clone(), Arc::clone(&ground), folder.clone());
        let connecting: BoxFuture<'static, _> =
            Box::pin(async move { connect(&args, &ground, folder, attempt).await });
        connecting
    })
}

async fn connect(
    args: &Args,
    ground: &Arc<Ground>,
    folder: PathBuf,
    attempt: Attempt,
) -> Result<Arc<dyn FleetClient>, StartProblem> {
    let play = args.demo || attempt == Attempt::Demo;
    let folder = if play && !args.demo {
        demo::folder(ground).map_err(|e| problem(&e, false))?
    } else {
        folder
    };
    let deadline = tokio::time::Instant::now() + CORE_START;
    loop {
        if let Some(entry) = discovery::find_core(&ground.paths, &folder)
            && let Ok(client) = client::connect(&entry.socket, Role::Viewer).await
        {
            return Ok(Arc::new(client));
        }
        if !play {
            check(ground, &folder).await?;
        }
        match start_core(args, &folder, play).await {
            Ok(socket) => {
                let client = client::connect(&socket, Role::Viewer)
                    .await
                    .map_err(|e| problem(&CliError::new(Kind::Failed, e.to_string()), !play))?;
                return Ok(Arc::new(client));
            }
            // Somebody else starts one at this moment, or the one before is just ending.
            Err(error)
                if error.kind == Kind::Conflict && tokio::time::Instant::now() < deadline =>
            {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => return Err(problem(&error, !play)),
        }
    }
}

/// What keeps agents from starting here, as the first-run screen shows it.
async fn check(ground: &Arc<Ground>, folder: &Path) -> Result<(), StartProblem> {
    let (ground, folder) = (Arc::clone(ground), folder.to_owned());
    let found = tokio::task::spawn_blocking(move || checks::all(&ground, &folder, Care::Quick))
        .await
        .unwrap_or_default();
    if found.iter().all(|c| c.verdict != Verdict::Bad) {
        return Ok(());
    }
    Err(StartProblem {
        title: "Agents cannot be started here yet".to_owned(),
        checks: found
            .into_iter()
            .map(|c| StartCheck {
                ok: c.verdict != Verdict::Bad,
                text: c.title,
                commands: c.fix,
            })
            .collect(),
        demo: true,
        again: true,
    })
}

fn problem(error: &CliError, demo: bool) -> StartProblem {
    StartProblem {
        title: "The core of this folder cannot be started".to_owned(),
        checks: vec![StartCheck {
            ok: false,
            text: error.message.clone(),
            commands: error
                .hint
                .iter()
                .flat_map(|h| h.lines())
                .map(str::to_owned)
                .collect(),
        }],
        demo,
        again: true,
    }
}

/// Starts the core of a folder in a session of its own and waits until it says that it is there.
async fn start_core(args: &Args, folder: &Path, play: bool) -> Result<PathBuf, CliError> {
    let mut command = std::process::Command::new(serve::own_program()?);
    command
        .args(serve::arguments(
            folder,
            args.pi.as_deref().filter(|_| !play),
            args.model.as_deref(),
            play,
        ))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    spawn::new_session(&mut command);
    let mut child = tokio::process::Command::from(command).spawn()?;
    let silent = || CliError::new(Kind::Failed, "the core ended before it was ready");
    let stdout = child.stdout.take().ok_or_else(silent)?;
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(CORE_START, lines.next_line())
        .await
        .map_err(|_| CliError::new(Kind::Failed, "the core does not say that it is ready"))??
        .ok_or_else(silent)?;
    // The guard is nobody's business from here on; whoever reaps it is the runtime.
    drop(child);
    match serde_json::from_str(&line).map(|line: HelloLine| line.hello) {
        Ok(Hello::Ready { socket, .. }) => Ok(socket),
        Ok(Hello::Error {
            message,
            hint,
            exit,
        }) => {
            let conflict = exit == Kind::Conflict.code();
            let kind = if conflict {
                Kind::Conflict
            } else {
                Kind::Failed
            };
            let mut error = CliError::new(kind, message);
            error.hint = hint;
            Err(error)
        }
        Err(_) => Err(silent()),
    }
}
