//! The guard: a tiny single-threaded process that outlives the core just long enough to leave nothing behind.
//!
//! `serve` is a guard that starts the core as its only child and makes itself the subreaper: whatever loses its
//! parent below it becomes its child, also what opened its own session, cleared its environment and forked
//! twice. While the core lives, the guard sleeps, reaps what was adopted and answers the core's question who is
//! orphaned. When the core ends, however it ends, the guard waits a moment for Pi to end itself and its tools,
//! then kills what is left, in rounds. A core that is bound to a Pi session and does not end with it is ended.
//! (R-LIFE-07, R-LIFE-08)
//!
//! Invariants: decided in `main` before any thread and any runtime exists; no timer and no wake-up while nothing
//! happens; its death harms nothing (the core reads the end of the link and goes on unguarded). It knows
//! nothing of agents.
//!
//! On systems without a subreaper [`run`] starts the core, waits and passes its status on; leftovers are then
//! the business of the core's own ladder alone.

mod link;
#[cfg(target_os = "linux")]
mod watch;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub use link::{GuardHandle, GuardLink, LINK_VARIABLE};

/// How a guard cleans up.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long what is left may end by itself after the core died: Pi sees its stdin end and ends its tools
    /// in about a tenth of a second.
    pub grace: Duration,
    /// When to give up, counted from the core's death. Only processes stuck in the kernel last that long.
    pub limit: Duration,
    /// The core works for the process that started this one, and must not outlive it: one that has not ended
    /// by itself after [`Options::last_orders`] is killed. It can be stopped, or hang.
    pub bound: bool,
    /// How long a core may take to end after the process it is bound to: the stop of its agents is shorter, and
    /// with [`Options::grace`] nothing is left after five seconds (R-LIFE-08).
    pub last_orders: Duration,
    /// A file that gets one line when something had to be killed or went wrong.
    pub log: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            grace: Duration::from_secs(1),
            limit: Duration::from_secs(4),
            bound: false,
            last_orders: Duration::from_millis(3500),
            log: None,
        }
    }
}

/// Exit code when the core could not be started at all.
const CANNOT_START: u8 = 126;

/// Runs this process as the guard of `core` and returns with the core's exit code (128 + n after signal n) once
/// nothing is left below it.
///
/// Standard streams go to the core; afterwards the guard holds none of stdin and stdout, so their other ends see
/// the core's death at once. SIGTERM, SIGINT and SIGQUIT become one SIGTERM to the core, for an end in order;
/// SIGHUP is ignored, since a core may outlive its terminal. The core gets [`LINK_VARIABLE`], see [`GuardLink`].
///
/// Must be called before this process has a second thread.
#[cfg(target_os = "linux")]
pub fn run(core: Command, options: &Options) -> ExitCode {
    match watch::Guard::start(core, options.bound) {
        Ok(guard) => ExitCode::from(guard.watch(options)),
        Err(error) => cannot_start(options, &error),
    }
}

/// Starts the core in a session of its own, waits for it and returns its exit code. This system has no
/// subreaper, so nothing that the core left is found here.
#[cfg(not(target_os = "linux"))]
pub fn run(mut core: Command, options: &Options) -> ExitCode {
    crate::sys::spawn::default_signals(&mut core);
    crate::sys::spawn::new_session(&mut core);
    match core.status() {
        Ok(status) => ExitCode::from(crate::sys::signals::exit_code(status)),
        Err(error) => cannot_start(options, &error),
    }
}

fn cannot_start(options: &Options, error: &std::io::Error) -> ExitCode {
    use std::io::Write;
    let text = format!("pi-agents: cannot start the core: {error}");
    note(options, &text);
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(CANNOT_START)
}

/// Adds a line to the guard's log file, when it has one. The guard has no other voice: its stderr may be a
/// terminal with a screen on it.
fn note(options: &Options, text: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let Some(path) = &options.log else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("guard {}: {text}\n", std::process::id()).as_bytes());
    }
}
