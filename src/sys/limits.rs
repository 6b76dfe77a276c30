//! How many files this process may have open.
//!
//! The usual limit of 1024 was made for `select`; a core needs some five descriptors per agent. A core therefore
//! takes what it is allowed to take, and gives its children the limit it was started with.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as this are taken, if they are allowed: far more than any fleet, and a bound where there is none.
const WANTED: u64 = 1 << 20;

/// The limit this process was started with.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of open files as far as it goes without asking anybody. Returns the limit that holds now;
/// `None` = no limit.
pub fn raise_open_files() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    let wanted = before.maximum.map_or(WANTED, |most| most.min(WANTED));
    if before.current.is_none_or(|now| now >= wanted) {
        return before.current;
    }
    let raised = Rlimit {
        current: Some(wanted),
        ..before
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return before.current;
    }
    let _ = BEFORE.set(before);
    Some(wanted)
}

/// Gives a child the limit that this process was started with.
#[allow(unsafe_code)]
pub(super) fn as_before(command: &mut Command) {
    let Some(before) = BEFORE.get().copied() else {
        return;
    };
    // SAFETY: the closure runs between fork and exec and only calls setrlimit, a plain system call; it neither
    // allocates nor locks.
    unsafe {
        command.pre_exec(move || {
            // More than is open now is always allowed, and less does no harm to what is open.
            let _ = setrlimit(Resource::Nofile, before);
            Ok(())
        });
    }
}

/// What a person can do about an error of the system that is no fault of what was asked for.
pub fn way_out(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::MFILE => {
            "stop agents that are not needed, or start pi-agents where more files may be open (`ulimit -n`)"
        }
        Errno::NFILE => "close programs: the whole system has too many files open",
        Errno::NOSPC | Errno::DQUOT => "free space on that disk",
        Errno::TOOBIG => {
            "the environment is too large to start a program with: unset large variables (`env | sort` shows them)"
        }
        Errno::AGAIN | Errno::NOMEM => {
            "close programs, or stop agents that are not needed: no further process can be started"
        }
        _ => return None,
    })
}
