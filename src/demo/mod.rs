//! The built-in scripted agent: a child process that speaks Pi's RPC, so that the program can be tried with no
//! Pi, no network and no key (R-OPS-03).
//!
//! Owns: the hidden subcommand `demo-agent`, its scripts (`assets/demo`), its session file. The supervisor starts
//! it as it starts Pi and knows nothing of scripts; no screen draws anything for it but the label.
//!
//! Invariants: behaves as `pi --mode rpc` of the version it names, as far as the supervisor uses it. One process
//! per agent, no network, reads and writes no file but its own session, and runs no command but a shell that
//! prints. Ends at the end of stdin and at SIGTERM within 100 ms and takes its tool with it.

mod agent;
mod answer;
mod commands;
mod options;
mod play;
mod record;
mod script;
mod session;
mod tool;
mod use_tools;

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};

use agent::{Agent, Input};
use options::Options;

/// The version of Pi that this agent behaves as.
pub const PLAYS_PI: &str = "1.6.0";

/// Variable with a factor on every pause: 1 = a pace for people, 0.01 = for tests.
pub const PACE_VARIABLE: &str = "PI_AGENTS_DEMO_PACE";

/// First word of the shell that a tool call runs: this program again, which leads a new session and becomes `sh`.
/// (Pi's bash tool leads its own session too; a stop must find it there.)
const TOOL_SHELL: &str = "--tool-shell";

/// Commands and tool output that wait for the agent. Whoever fills it waits: the pipe behind it is the bound.
const INBOX: usize = 64;

/// A command longer than this is not read.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Plays one agent: `args` are the words after `demo-agent`. Returns when stdin ends, with Pi's exit codes.
#[must_use]
pub fn run(args: Vec<OsString>) -> ExitCode {
    if args.first().is_some_and(|arg| arg == TOOL_SHELL) {
        return tool::become_shell(args.into_iter().nth(1).unwrap_or_default());
    }
    let options = Options::read(args);
    if options.version {
        return match writeln!(std::io::stdout(), "{PLAYS_PI}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let (inbox, read) = sync_channel(INBOX);
    watch_signals(inbox.clone());
    read_commands(inbox.clone());
    match Agent::new(options, inbox, read) {
        Ok(agent) => ExitCode::from(agent.serve()),
        Err(error) => {
            complain(&format!("Error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A line on stderr. Nobody may be listening: then it is lost, as it should be.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Reads stdin in its own thread, which ends with the process.
fn read_commands(inbox: SyncSender<Input>) {
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
            let input = match std::io::Read::take(&mut stdin, limit).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => Input::Eof,
                Ok(_) => Input::Line(line),
            };
            let end = matches!(input, Input::Eof);
            if inbox.send(input).is_err() || end {
                return;
            }
        }
    });
}

/// Turns SIGTERM and SIGHUP into an orderly end. The runtime in this thread does nothing but wait for them.
fn watch_signals(inbox: SyncSender<Input>) {
    use tokio::signal::unix::{SignalKind, signal};
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let code = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            std::io::Result::Ok(tokio::select! {
                _ = terminate.recv() => 143,
                _ = hangup.recv() => 129,
            })
        })?;
        // The agent is gone already: nothing left to end.
        let _ = inbox.send(Input::Signal(code));
        std::io::Result::Ok(())
    });
}
