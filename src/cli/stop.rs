//! `pi-agents stop`: stops agents; returns once their processes are proven gone.

use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Folder, Ground};
use super::exit::CliError;
use super::{JSON_VERSION, clean, say};
use crate::client::{AgentRef, FleetClient, Reply, Request};

/// Stops agents
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names of the agents, with or without @
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// Stop every agent of the folder
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    #[command(flatten)]
    folder: Folder,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    let folder = args.folder.path()?;
    common::block_on(async {
        let client = common::connect(&ground.paths, &folder).await?;
        let targets: Vec<(String, AgentRef)> = if args.all {
            match client.request(Request::Snapshot).await? {
                Reply::Snapshot { fleet } => fleet
                    .agents
                    .into_iter()
                    .filter(|a| a.status.is_live())
                    .map(|a| (a.name, AgentRef::Id(a.id)))
                    .collect(),
                other => return Err(common::odd_reply(&other)),
            }
        } else {
            args.agents
                .iter()
                .map(|name| {
                    (
                        name.trim_start_matches('@').to_owned(),
                        common::agent_ref(name),
                    )
                })
                .collect()
        };
        // All at once: each one's ladder takes its time, the sum must not.
        let waits = targets.into_iter().map(|(name, agent)| {
            let client = &client;
            async move { (name, client.request(Request::Stop { agent }).await) }
        });
        let mut first_error = None;
        let mut done = Vec::new();
        for (name, result) in futures_util::future::join_all(waits).await {
            match result {
                Ok(Reply::Stopped { was_live }) => {
                    if !args.json {
                        let word = if was_live {
                            "stopped"
                        } else {
                            "was not running"
                        };
                        say(&format!("@{} {word}", clean(&name)));
                    }
                    done.push(json!({ "name": name, "was_live": was_live }));
                }
                Ok(other) => first_error = first_error.or(Some(common::odd_reply(&other))),
                Err(error) => first_error = first_error.or(Some(error.into())),
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        if args.json {
            say(&json!({ "version": JSON_VERSION, "stopped": done }).to_string());
        }
        Ok(ExitCode::SUCCESS)
    })
}
