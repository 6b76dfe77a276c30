//! `pi-agents send`: messages an agent; returns once the agent accepted the message.

use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Ground};
use super::exit::{CliError, Kind};
use super::target::{Owner, Target, Whose};
use super::{JSON_VERSION, clean, say};
use crate::client::{AgentRef, Reply, Request};

/// Sends an agent a message: steers its run, or starts one
///
/// An agent of a Pi session has two to answer to: say with --side-chat or --continue who gets the
/// answer. To an agent of your own both are a plain message.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the agent, with or without @
    to: String,
    /// The message; `-` reads it from standard input
    #[arg(required_unless_present = "hand_on")]
    message: Vec<String>,
    /// For you: the answer stays in the agent's session (while it works on what the Pi session asked
    /// for, the message joins that run, and its result is the Pi session's)
    #[arg(long, conflicts_with = "hand_on")]
    side_chat: bool,
    /// The answer goes to the Pi session; without a message: go on with the task
    #[arg(long = "continue")]
    hand_on: bool,
    #[command(flatten)]
    whose: Whose,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: Args) -> Result<ExitCode, CliError> {
    let text = match args.message.is_empty() {
        true => None,
        false => Some(common::text_of(&args.message)?),
    };
    let ground = Ground::find(&[])?;
    let reply = common::block_on(async {
        let reach = args.whose.reach(&ground).await?;
        let target = reach.find(&args.to)?;
        if target.works_for_another() && !args.side_chat && !args.hand_on {
            return Err(unclear(&target));
        }
        let agent = AgentRef::Id(target.agent.id);
        let env = common::own_env();
        let request = match (args.hand_on, text) {
            (false, Some(text)) => Request::Send { agent, text, env },
            (_, text) => Request::Continue { agent, text, env },
        };
        target.ask(request).await
    })?;
    match reply {
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

/// Whoever sends decides who gets the answer: a wrong guess costs the Pi session a run it did not
/// want, or keeps an answer from it that it waits for.
fn unclear(target: &Target<'_>) -> CliError {
    let (name, boss) = (&target.agent.name, boss(target));
    CliError::new(
        Kind::Usage,
        format!("@{name} works for {boss}: say who gets the answer"),
    )
    .with_hint(format!(
        "--side-chat: you, unless it still works on what {boss} asked for\n--continue: {boss}"
    ))
}

fn boss(target: &Target<'_>) -> String {
    let above = target.agent.parent.and_then(|id| {
        let agents = &target.core.fleet.agents;
        agents.iter().find(|a| a.id == id)
    });
    match (above, target.owner()) {
        (Some(above), _) => format!("@{}", above.key),
        (None, Owner::Pi(id)) => format!("Pi session {id}"),
        (None, Owner::You) => "another".to_owned(),
    }
}
