//! `pi-agents ps`: the agents of a folder, for eyes or as JSON.

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Folder};
use super::exit::CliError;
use super::{JSON_VERSION, clean, say};
use crate::client::{Reply, Request};
use crate::fleet::agent::Status;
use crate::fleet::roster::AgentView;

/// Lists the agents of this folder
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    folder: Folder,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let fleet = match common::ask(&args.folder, Request::Snapshot)? {
        Reply::Snapshot { fleet } => fleet,
        other => return Err(common::odd_reply(&other)),
    };
    if args.json {
        let value = json!({ "version": JSON_VERSION, "core": fleet.core, "agents": fleet.agents });
        say(&value.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    if fleet.agents.is_empty() {
        say("no agents here yet · start one with `pi-agents spawn TASK`");
    }
    for agent in &fleet.agents {
        say(&line(agent));
    }
    // Beside the list: an agent that is not in it would else be missed by nobody.
    for badge in &fleet.core.badges {
        let _ = writeln!(std::io::stderr(), "pi-agents: {}", badge.words());
    }
    Ok(ExitCode::SUCCESS)
}

/// One agent in one line: status icon first, then name, state and label.
fn line(agent: &AgentView) -> String {
    let (mut icon, mut words) = match &agent.status {
        Status::Queued => ('○', "queued".to_owned()),
        Status::Starting => ('◌', "starting".to_owned()),
        Status::Running => ('▸', "running".to_owned()),
        Status::Idle => ('‖', "idle".to_owned()),
        Status::Completed => ('✓', "completed".to_owned()),
        Status::Failed { reason } => ('✗', format!("failed: {}", clean(reason))),
        Status::Stopped { by } => ('■', format!("stopped {}", by.words())),
    };
    if agent.closing {
        words = "stopping".to_owned();
    } else if !agent.dialogs.is_empty() {
        icon = '?';
        words = "asks".to_owned();
    } else if let Some(retry) = &agent.retry {
        words = format!("retrying {}/{}", retry.attempt, retry.max);
    }
    format!(
        "{icon} @{:<6} {words:<10} · {}",
        clean(&agent.name),
        clean(&agent.spec.label)
    )
}
