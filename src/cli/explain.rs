//! `pi-agents explain`: what led to the state an agent shows, newest first.

mod page;

use std::io::IsTerminal;
use std::process::ExitCode;

use serde_json::json;

pub use page::page;

use super::common::{self, Ground};
use super::exit::CliError;
use super::target::Whose;
use super::{JSON_VERSION, say};
use crate::client::{AgentRef, Reply, Request};

/// Columns when nobody says how many there are.
const COLUMNS: usize = 100;
/// The narrowest page: below it the columns leave no room for words.
const NARROWEST: usize = 40;
/// The widest page: longer lines read badly.
const WIDEST: usize = 120;
/// Entries shown unless all are wanted.
const SHOWN: usize = 20;

/// Says why an agent is in the state it shows
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the agent, with or without @
    agent: String,
    /// Show everything that is kept, not only the newest entries
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    whose: Whose,
    /// Print the answer and the whole account as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    let explanation = common::block_on(async {
        let reach = args.whose.reach(&ground).await?;
        let target = reach.find(&args.agent)?;
        let agent = AgentRef::Id(target.agent.id);
        match target.ask(Request::Explain { agent }).await? {
            Reply::Explained { explanation } => Ok(explanation),
            other => Err(common::odd_reply(&other)),
        }
    })?;
    if args.json {
        let value = json!({
            "version": JSON_VERSION,
            "answer": explanation.answer(),
            "way_out": explanation.way_out(),
            "explanation": explanation,
        });
        say(&value.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let most = if args.all { usize::MAX } else { SHOWN };
    let zone = jiff::tz::TimeZone::system();
    for line in page(&explanation, columns(), most, &zone) {
        say(&line);
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns of the terminal that is written to.
fn columns() -> usize {
    let terminal = std::io::stdout().is_terminal();
    match terminal.then(crossterm::terminal::size) {
        Some(Ok((columns, _))) if columns > 0 => usize::from(columns).clamp(NARROWEST, WIDEST),
        _ => COLUMNS,
    }
}
