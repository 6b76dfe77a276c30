//! The command line: one subcommand per file; the only place that wires layers together.

mod checks;
mod common;
mod dashboard;
mod demo;
mod doctor;
mod exit;
mod explain;
mod pi;
mod ps;
mod send;
mod serve;
mod shutdown;
mod spawn;
mod stop;
mod target;

use std::io::Write;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};

pub use exit::{CliError, Kind};
pub use explain::page as explain_page;

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
    /// Runs Pi with the agent tools, for this session only
    ///
    /// Pi gets everything that follows `pi`, options too: `pi-agents pi --help` is Pi's own help.
    /// Which Pi is run: PI_AGENTS_PI, else the setting `pi`, else the one on your PATH.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Pi(pi::Args),
    /// Lists the agents of this folder, those of its Pi sessions included
    Ps(ps::Args),
    /// Starts an agent
    Spawn(spawn::Args),
    /// Sends an agent a message: steers its run, or starts one
    Send(send::Args),
    /// Stops agents
    Stop(stop::Args),
    /// Says why an agent is in the state it shows
    Explain(explain::Args),
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
    if let Some(args) = pi::arguments_of(std::env::args_os()) {
        return match pi::exec(&args) {
            Ok(code) => code,
            Err(error) => error.report(false),
        };
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && wants_json() => return usage(&error).report(true),
        Err(error) => {
            let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            noted(error.print().and_then(|()| std::io::stdout().flush()));
            return ended(code);
        }
    };
    let (json, result) = match cli.command {
        None => (false, dashboard::run(cli.dashboard)),
        Some(Command::Pi(args)) => (false, pi::run(&args)),
        Some(Command::Ps(args)) => (args.json, ps::run(&args)),
        Some(Command::Spawn(args)) => (args.json, spawn::run(args)),
        Some(Command::Send(args)) => (args.json, send::run(args)),
        Some(Command::Stop(args)) => (args.json, stop::run(&args)),
        Some(Command::Explain(args)) => (args.json, explain::run(&args)),
        Some(Command::Shutdown(args)) => (args.json, shutdown::run(&args)),
        Some(Command::Serve(args)) => (false, serve::run(&args)),
        Some(Command::Demo(args)) => (false, demo::run(args)),
        Some(Command::Doctor(args)) => (args.json, doctor::run(&args)),
        Some(Command::DemoAgent(args)) => return demo::agent(&args),
    };
    match result {
        Ok(code) => ended(code),
        Err(error) => error.report(json),
    }
}

/// Outside text for one line of a terminal: nothing in it can act on the terminal (R-TUI-10).
fn clean(text: &str) -> String {
    SafeText::line(text).as_str().to_owned()
}

/// What was wrong with the command line, as the verbs say what is wrong.
fn usage(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let (what, way) = text.split_once("\n\n").unwrap_or((&text, ""));
    let words: Vec<&str> = what.split_whitespace().collect();
    let message = words.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    CliError {
        kind: Kind::Usage,
        message: message.to_owned(),
        hint: Some(way.trim().to_owned()).filter(|w| !w.is_empty()),
    }
}

/// Whether a command line that cannot be understood asks for JSON.
fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|a| a != "--")
        .any(|a| a == "--json")
}

/// Why what was said on stdout did not arrive.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// Remembers output that was lost. A reader that went away is no error: it has read what it wanted.
fn noted(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error);
    }
}

/// The exit code of a command that did what it should: lost output is no success.
fn ended(code: ExitCode) -> ExitCode {
    match LOST.get() {
        None => code,
        Some(error) => CliError::new(
            Kind::Failed,
            format!("what was asked for is done, but standard output cannot be written: {error}"),
        )
        .report(false),
    }
}

/// Writes a line to stdout. What cannot be written shows in the exit code, see [`ended`].
fn say(line: &str) {
    let mut out = std::io::stdout();
    noted(writeln!(out, "{line}").and_then(|()| out.flush()));
}
