//! A stand-in for `pi --mode rpc`: fast, scripted, and able to misbehave.
//!
//! What it does is set in three ways, all of them optional:
//! - by the prompt: `fake:VERB ARGUMENTS`, several joined by ` ;; `, see `verbs.rs`;
//! - by `FAKE_PI_OPTS`: faults of the whole process, see `options.rs`;
//! - by `FAKE_PI_FILE`: a recorded stream with directives, see `replay.rs`.
//!
//! `FAKE_PI_LOG` names a file that gets one JSON line per start, command and end (`log.rs`).
//! `--version` prints `FAKE_PI_VERSION`. Without any of that every prompt gets a short, complete
//! run, and a session file is kept as Pi keeps it, so that a revival can be told from a new start.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "test program"
)]

mod args;
mod commands;
mod engine;
mod helpers;
mod log;
mod options;
mod output;
mod records;
mod replay;
mod run;
mod session;
mod signals;
mod verbs;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../versions.rs"]
mod versions;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use options::Options;

fn main() {
    let argv: Vec<_> = std::env::args_os().skip(1).collect();
    if helpers::run(&argv) {
        return;
    }
    let words: Vec<String> = argv
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    if words.iter().any(|word| word == "--version" || word == "-v") {
        let version = std::env::var("FAKE_PI_VERSION");
        let newest = versions::Version::Newest.number();
        println!("{}", version.as_deref().unwrap_or(newest));
        return;
    }
    log::start(&argv);
    let options = Options::from_env();
    let args = match args::parse(&words) {
        Ok(args) => args,
        Err(message) => fail(&message),
    };
    if let Some(code) = options.exit {
        eprintln!("Error: fake pi was told to fail at its start");
        log::end("option", code);
        std::process::exit(code);
    }
    if let Some(name) = &options.exit_signal {
        log::event("killing itself", serde_json::json!({"signal": name}));
        signals::kill_self(name);
    }
    if let Some(kind) = &options.grandchild {
        helpers::spawn_grandchild(kind);
    }
    output::complain(options.stderr_bytes);
    if let Some(ms) = options.start_delay {
        std::thread::sleep(Duration::from_millis(ms));
    }
    let session = match session::Session::open(&args) {
        Ok(session) => session,
        Err(message) => fail(&message),
    };
    let engine = Arc::new(Engine::new(options, args, session));
    signals::watch(&engine);
    let recording = replay::load(&engine);
    if !engine.options.no_read {
        let for_reader = Arc::clone(&engine);
        std::thread::spawn(move || commands::read_stdin(&for_reader));
    }
    if let Some(recording) = recording {
        replay::play(&engine, &recording);
    }
    run::serve(&engine);
}

/// Ends as Pi does when it cannot start: a line on stderr, nothing on stdout, code 1.
fn fail(message: &str) -> ! {
    eprintln!("{message}");
    log::end("refused to start", 1);
    std::process::exit(1)
}
