//! What the subcommands share: settings, folder, connection, environment.

use std::future::Future;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::exit::{CliError, Kind};
use crate::client::{Env, EnvText, EnvVar, FleetClient, Reply, Request};
use crate::config::env::Environment;
use crate::config::paths::{self, Paths};
use crate::config::settings::{Loaded, Settings};
use crate::control::client::{self, ConnectError, ControlClient};
use crate::control::discovery;
use crate::control::protocol::Role;

/// Which folder a command is about.
#[derive(Clone, Debug, Default, Args)]
pub struct Folder {
    /// Work for this folder instead of the present one
    #[arg(long = "in", value_name = "FOLDER", global = false)]
    pub folder: Option<PathBuf>,
}

impl Folder {
    /// The folder, canonical.
    pub fn path(&self) -> Result<PathBuf, CliError> {
        let path = match &self.folder {
            Some(folder) => folder.clone(),
            None => std::env::current_dir().map_err(|e| {
                CliError::new(
                    Kind::Usage,
                    format!("the present folder cannot be used: {e}"),
                )
            })?,
        };
        paths::canonical_folder(&path).map_err(|e| CliError::new(Kind::Usage, e.to_string()))
    }
}

/// Paths and settings of this process.
pub struct Ground {
    pub env: Environment,
    pub paths: Paths,
    pub settings: Settings,
}

impl Ground {
    /// Works them out. `line` = settings given on the command line.
    pub fn find(line: &[(&str, &str)]) -> Result<Self, CliError> {
        let usage = |e: String| CliError::new(Kind::Usage, e);
        let env = Environment::of_process();
        let paths = Paths::resolve(&env).map_err(|e| usage(e.to_string()))?;
        let loaded =
            Loaded::load(&paths.config_file(), &env, line).map_err(|e| usage(e.to_string()))?;
        Ok(Self {
            env,
            paths,
            settings: loaded.settings,
        })
    }
}

/// Runs a future on a small runtime.
pub fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::from)?
        .block_on(future)
}

/// Connects to the person's core of a folder.
pub async fn connect(paths: &Paths, folder: &Path) -> Result<ControlClient, CliError> {
    let none = || no_core(folder);
    let entry = discovery::find_core(paths, folder).ok_or_else(none)?;
    match client::connect(&entry.socket, Role::Cli).await {
        Ok(client) => Ok(client),
        Err(error) if error.is_absent() => Err(none()),
        Err(error) => Err(not_connected(&error, entry.pid, true)),
    }
}

/// No core works for the folder.
pub fn no_core(folder: &Path) -> CliError {
    CliError::new(
        Kind::NoCore,
        format!("no core works for {}", folder.display()),
    )
    .with_hint("start one with `pi-agents` or `pi-agents serve` in that folder")
}

/// A core that is there and cannot be talked to. `person` = a person's core, not that of a Pi session.
pub fn not_connected(error: &ConnectError, pid: u32, person: bool) -> CliError {
    let whose = if person {
        "the core of this folder"
    } else {
        "the core of a Pi session"
    };
    match error {
        // It holds the folder as long as it lives: a new one cannot be started beside it.
        ConnectError::Silent => CliError::new(
            Kind::Failed,
            format!("{whose} (process {pid}) does not answer"),
        )
        .with_hint(format!(
            "if it was suspended, `kill -CONT {pid}` lets it go on; `kill -KILL {pid}` ends it and its agents, their sessions stay{}",
            if person { "" } else { "\n--own leaves the agents of Pi sessions out" }
        )),
        error => CliError::new(Kind::Failed, error.to_string()),
    }
}

/// Longest wait for a core that said it ends.
const CORE_END: Duration = Duration::from_secs(5);

/// Waits until the core of a folder that was asked to end is gone: whoever starts the next one must
/// not meet it.
pub fn wait_core_gone(paths: &Paths, folder: &Path) {
    let deadline = Instant::now() + CORE_END;
    while Instant::now() < deadline && discovery::find_core(paths, folder).is_some() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks the core of a folder one thing.
pub fn ask(folder: &Folder, request: Request) -> Result<Reply, CliError> {
    let ground = Ground::find(&[])?;
    let folder = folder.path()?;
    block_on(async move {
        let client = connect(&ground.paths, &folder).await?;
        Ok(client.request(request).await?)
    })
}

/// The environment of this process as a request carries it.
#[must_use]
pub fn own_env() -> Env {
    let text = |os: std::ffi::OsString| match os.into_string() {
        Ok(text) => EnvText::Text(text),
        Err(os) => EnvText::Bytes {
            bytes: os.into_vec(),
        },
    };
    std::env::vars_os()
        .map(|(name, value)| EnvVar {
            name: text(name),
            value: text(value),
        })
        .collect()
}

/// Words of the command line as one text; a single `-` reads standard input.
pub fn text_of(words: &[String]) -> Result<String, CliError> {
    if words.len() == 1 && words.first().is_some_and(|w| w == "-") {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::stdin(), &mut text)?;
        return Ok(text);
    }
    Ok(words.join(" "))
}

/// An answer that does not belong to the question: a core of another version.
#[must_use]
pub fn odd_reply(reply: &Reply) -> CliError {
    CliError::new(
        Kind::Failed,
        format!("unexpected answer of the core: {reply:?}"),
    )
}
