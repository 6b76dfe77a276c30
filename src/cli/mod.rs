//! The command line: one subcommand per file; the only place that wires layers together.

mod checks;
mod common;
mod dashboard;
mod demo;
mod doctor;
mod exit;
mod ps;
mod send;
mod serve;
mod shutdown;
mod spawn;
mod stop;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::{CliError, Kind};

use crate::tui::text::SafeText;

/// Version of the shapes that `--json` prints. Fields are only ever added.
pub const JSON_VERSION: u32 = 1;

/// See, steer and stop many Pi coding agents from one terminal.
#[derive(Debug, Parser)]
// Options of the dashboard before a subcommand would be about something else than they seem: refused.
#[command(name = "pi-agents", version, about, long_about = None, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    dashboard: dashboard::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the agents of this folder
    Ps(ps::Args),
    /// Starts an agent
    Spawn(spawn::Args),
    /// Sends an agent a message: steers its run, or starts one
    Send(send::Args),
    /// Stops agents
    Stop(stop::Args),
    /// Stops every agent of this folder and ends its core
    Shutdown(shutdown::Args),
    /// Runs the core of this folder in the foreground
    Serve(serve::Args),
    /// Shows everything with built-in agents: no Pi, no network, no key
    Demo(demo::Args),
    /// Checks Pi, Node, folders and the terminal, and says how to mend each
    Doctor(doctor::Args),
    /// The built-in scripted agent (started by the demo's core)
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    DemoAgent(demo::AgentArgs),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let (json, result) = match cli.command {
        None => (false, dashboard::run(cli.dashboard)),
        Some(Command::Ps(args)) => (args.json, ps::run(&args)),
        Some(Command::Spawn(args)) => (args.json, spawn::run(args)),
        Some(Command::Send(args)) => (args.json, send::run(args)),
        Some(Command::Stop(args)) => (args.json, stop::run(&args)),
        Some(Command::Shutdown(args)) => (args.json, shutdown::run(&args)),
        Some(Command::Serve(args)) => (false, serve::run(&args)),
        Some(Command::Demo(args)) => (false, demo::run(args)),
        Some(Command::Doctor(args)) => (args.json, doctor::run(&args)),
        Some(Command::DemoAgent(args)) => return demo::agent(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}

/// Outside text for one line of a terminal: nothing in it can act on the terminal (R-TUI-10).
fn clean(text: &str) -> String {
    SafeText::line(text).as_str().to_owned()
}

/// Writes a line to stdout. A reader that went away is no error.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
