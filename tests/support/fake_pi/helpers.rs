//! The fake in other roles: the shell of a tool, a terminal's session, and processes that try to outlive everything.
//! It starts itself again with a word that only it knows.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{ioctl_tiocsctty, setsid};
use serde_json::json;

use crate::log;

const SHELL: &str = "--be-shell";
const GRANDCHILD: &str = "--be-grandchild";
const SESSION: &str = "--be-session";

/// How long an escaped process lives if nobody ends it.
const LIFE: std::time::Duration = std::time::Duration::from_secs(300);

/// Plays a role if the first word says so.
pub(crate) fn run(argv: &[OsString]) -> bool {
    match argv.first().and_then(|word| word.to_str()) {
        Some(SHELL) => {
            // As Pi starts its bash: leader of its own session and group.
            let _ = setsid();
            let script = argv.get(1).cloned().unwrap_or_default();
            let error = Command::new("/bin/sh").arg("-c").arg(script).exec();
            eprintln!("no shell: {error}");
            std::process::exit(127);
        }
        Some(SESSION) => {
            // For the terminal of the tests: leader of a session with stdin as its terminal, and
            // then the program, all in one process.
            let _ = setsid();
            if let Err(error) = ioctl_tiocsctty(std::io::stdin()) {
                eprintln!("no controlling terminal: {error}");
                std::process::exit(126);
            }
            let program = argv.get(1).cloned().unwrap_or_default();
            let error = Command::new(&program).args(argv.iter().skip(2)).exec();
            eprintln!("{}: {error}", program.display());
            std::process::exit(127);
        }
        Some(GRANDCHILD) => {
            grandchild(argv);
            true
        }
        _ => false,
    }
}

/// A shell that runs `script` in a session of its own.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new(own_program());
    command.arg(SHELL).arg(script);
    command
}

/// Starts a process that goes on when this one is gone. Kinds:
/// - `holding`: an ordinary child, keeps stdout and stderr open;
/// - `setsid`: in its own session, outputs closed;
/// - `clean`: in its own session, without any environment;
/// - `double`: as `clean`, and its parent is gone at once;
/// - `stubborn`: as `setsid`, ignores SIGTERM and SIGHUP.
pub(crate) fn spawn_grandchild(kind: &str) {
    if !["holding", "setsid", "clean", "double", "stubborn"].contains(&kind) {
        crate::fail(&format!("fake pi: no such grandchild: {kind}"));
    }
    let log = std::env::var_os("FAKE_PI_LOG").unwrap_or_default();
    let mut command = Command::new(own_program());
    command.arg(GRANDCHILD).arg(kind).arg(log);
    command.stdin(Stdio::null());
    if kind != "holding" {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    if kind == "clean" || kind == "double" {
        command.env_clear();
    }
    let mut child = command.spawn().expect("the fake can start itself");
    let reaper = std::thread::spawn(move || child.wait());
    if kind == "double" {
        let _ = reaper.join();
    }
}

fn grandchild(argv: &[OsString]) {
    let kind = argv
        .get(1)
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    let log = argv.get(2).cloned().unwrap_or_default();
    if kind == "double" {
        let mut command = Command::new(own_program());
        command.args([GRANDCHILD, "clean"]).arg(log).env_clear();
        command.stdin(Stdio::null());
        let _ = command.spawn();
        return;
    }
    if kind != "holding" {
        let _ = setsid();
    }
    if kind == "stubborn" {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for signals");
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let _term = signal(SignalKind::terminate());
            let _hangup = signal(SignalKind::hangup());
            log::write(&log, "grandchild", json!({"kind": kind}));
            tokio::time::sleep(LIFE).await;
        });
        return;
    }
    log::write(&log, "grandchild", json!({"kind": kind}));
    std::thread::sleep(LIFE);
}

fn own_program() -> std::path::PathBuf {
    std::env::current_exe().expect("the fake knows its own path")
}
