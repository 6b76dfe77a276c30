//! `pi-agents shutdown`: stops every agent of a folder and ends its core.

use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Folder, Ground};
use super::exit::CliError;
use super::{JSON_VERSION, say};
use crate::client::{Reply, Request};

/// Stops every agent and ends the core
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    folder: Folder,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    match common::ask(&args.folder, Request::Shutdown)? {
        Reply::Done => {
            let ground = Ground::find(&[])?;
            common::wait_core_gone(&ground.paths, &args.folder.path()?);
            if args.json {
                say(&json!({ "version": JSON_VERSION, "ended": true }).to_string());
            } else {
                say("all agents stopped, the core has ended");
            }
            Ok(ExitCode::SUCCESS)
        }
        other => Err(common::odd_reply(&other)),
    }
}
