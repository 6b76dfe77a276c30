//! `pi-agents send`: messages an agent; returns once the agent accepted the message.

use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Folder};
use super::exit::CliError;
use super::{JSON_VERSION, clean, say};
use crate::client::{Reply, Request};

/// Sends an agent a message
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the agent, with or without @
    to: String,
    /// The message; `-` reads it from standard input
    #[arg(required = true)]
    message: Vec<String>,
    #[command(flatten)]
    folder: Folder,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let request = Request::Send {
        agent: common::agent_ref(&args.to),
        text: common::text_of(&args.message)?,
        env: common::own_env(),
    };
    match common::ask(&args.folder, request)? {
        Reply::Sent {
            message,
            revived,
            steered,
        } => {
            if args.json {
                say(&json!({
                    "version": JSON_VERSION,
                    "message": message,
                    "revived": revived,
                    "steered": steered,
                })
                .to_string());
            } else {
                let name = clean(args.to.trim_start_matches('@'));
                let how = match (revived, steered) {
                    (true, _) => "revived and delivered",
                    (false, true) => "delivered to its run",
                    (false, false) => "delivered",
                };
                say(&format!("@{name} {how}"));
            }
            Ok(ExitCode::SUCCESS)
        }
        other => Err(common::odd_reply(&other)),
    }
}
