//! `pi-agents demo`: the dashboard over built-in agents, and those agents themselves.
//!
//! The demo has a folder of its own, so that it never mixes with anybody's work. Its agents are
//! child processes through the real supervisor; only the command they are started with differs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::common::Ground;
use super::dashboard;
use super::exit::{CliError, Kind};
use crate::config::paths;

/// Shows everything with built-in agents
#[derive(Debug, Default, clap::Args)]
pub struct Args {}

/// The arguments Pi would get.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub fn run(_args: Args) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    let folder = folder(&ground)?;
    dashboard::run(dashboard::Args::demo(folder))
}

/// The demo's own folder, made when it is first wanted.
pub fn folder(ground: &Ground) -> Result<PathBuf, CliError> {
    let folder = ground.paths.data.join("demo");
    let failed = |e: String| {
        CliError::new(
            Kind::Failed,
            format!("the demo needs the folder {}: {e}", folder.display()),
        )
    };
    std::fs::create_dir_all(&folder).map_err(|e| failed(e.to_string()))?;
    paths::canonical_folder(&folder).map_err(|e| failed(e.to_string()))
}

pub fn agent(args: &AgentArgs) -> ExitCode {
    crate::demo::run(args.args.clone())
}
