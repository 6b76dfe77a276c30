//! `pi-agents stop`: stops agents; returns once their processes are proven gone.

use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Ground};
use super::exit::CliError;
use super::target::{Target, Whose};
use super::{JSON_VERSION, clean, say};
use crate::client::{AgentRef, Reply, Request};

/// Stops agents
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names of the agents, with or without @
    #[arg(required_unless_present = "all")]
    agents: Vec<String>,
    /// Stop all of your own agents of the folder, or all of the Pi session
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    #[command(flatten)]
    whose: Whose,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    common::block_on(async {
        let reach = args.whose.reach(&ground).await?;
        let mut first_error = None;
        let targets: Vec<(String, Target)> = if args.all {
            let live = reach.all()?.into_iter();
            live.filter(|t| t.agent.status.is_live())
                .map(|t| (t.agent.name.clone(), t))
                .collect()
        } else {
            let mut targets = Vec::new();
            for name in &args.agents {
                match reach.find(name) {
                    Ok(target) => targets.push((name.trim_start_matches('@').to_owned(), target)),
                    // The others are stopped all the same.
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
            targets
        };
        // All at once: each one's ladder takes its time, the sum must not.
        let waits = targets.into_iter().map(|(name, target)| async move {
            let agent = AgentRef::Id(target.agent.id);
            (name, target.ask(Request::Stop { agent }).await)
        });
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
                Err(error) => first_error = first_error.or(Some(error)),
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
