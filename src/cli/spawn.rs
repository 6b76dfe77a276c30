//! `pi-agents spawn`: starts an agent and returns once it accepted the task.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Folder};
use super::exit::{CliError, Kind};
use super::{JSON_VERSION, clean, say};
use crate::client::{Reply, Request, SpawnRequest};
use crate::fleet::agent::{Thinking, ToolChoice};

/// Starts an agent
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The task; `-` reads it from standard input
    #[arg(required = true)]
    task: Vec<String>,
    /// Title, one line; made from the task if left out
    #[arg(long)]
    label: Option<String>,
    /// Model: provider/id, an id, or model:thinking
    #[arg(long)]
    model: Option<String>,
    /// off, minimal, low, medium, high, xhigh or max
    #[arg(long)]
    thinking: Option<String>,
    /// Tools it may use, separated by commas; an empty text means none
    #[arg(long)]
    tools: Option<String>,
    /// Folder it works in
    #[arg(long)]
    cwd: Option<PathBuf>,
    /// End the process when the task is done instead of staying idle
    #[arg(long)]
    no_stay: bool,
    /// Bound on every run, in seconds
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    #[command(flatten)]
    folder: Folder,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let thinking = match &args.thinking {
        None => None,
        Some(word) => Some(Thinking::parse(word).ok_or_else(|| {
            let all: Vec<&str> = Thinking::ALL.iter().map(|l| l.as_str()).collect();
            CliError::new(Kind::Usage, format!("no such thinking level: {word}"))
                .with_hint(format!("one of {}", all.join(", ")))
        })?),
    };
    let tools = match &args.tools {
        None => ToolChoice::All,
        Some(list) => ToolChoice::Only(
            list.split(',')
                .map(str::trim)
                .filter(|n| !n.is_empty())
                .map(str::to_owned)
                .collect(),
        ),
    };
    let timeout_ms = match args.limit {
        None => None,
        Some(seconds) => Some(
            seconds
                .checked_mul(1000)
                .ok_or_else(|| CliError::new(Kind::Usage, "the limit is too long"))?,
        ),
    };
    // A relative folder means relative to where the command is typed.
    let cwd = match args.cwd {
        Some(cwd) => Some(std::env::current_dir()?.join(cwd)),
        None => None,
    };
    let request = SpawnRequest {
        prompt: common::text_of(&args.task)?,
        label: args.label,
        model: args.model,
        thinking,
        tools,
        cwd,
        persistent: args.no_stay.then_some(false),
        timeout_ms,
        env: common::own_env(),
    };
    match common::ask(&args.folder, Request::Spawn(request))? {
        Reply::Spawned {
            agent,
            name,
            session_path,
        } => {
            if args.json {
                say(&json!({
                    "version": JSON_VERSION,
                    "agent": agent,
                    "name": name,
                    "session_path": session_path,
                })
                .to_string());
            } else {
                say(&format!("@{} started", clean(&name)));
                if let Some(path) = session_path {
                    say(&format!("session: {}", clean(&path.to_string_lossy())));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        other => Err(common::odd_reply(&other)),
    }
}
