//! Looking at processes from outside: who is alive, who carries a mark, who descends from whom.
//! A zombie counts as dead: whether its parent reaps it is not what these tests ask.
//! Reads `/proc`, so the tests that use it run on Linux.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

/// One process as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: u32,
    /// Kernel's state letter; `Z` is a zombie.
    pub state: char,
    /// Start time in clock ticks since boot: with the pid it names one process for good.
    pub started: u64,
    /// Command line. Pi overwrites its own with `pi`.
    pub args: Vec<OsString>,
}

impl Process {
    /// Whether this very process (not another with its number) still runs.
    pub fn alive(&self) -> bool {
        find(self.pid).is_some_and(|now| now.started == self.started && now.state != 'Z')
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy()).collect();
        write!(
            f,
            "pid {} parent {} group {} session {} {} {}",
            self.pid,
            self.parent,
            self.group,
            self.session,
            self.state,
            line.join(" ")
        )
    }
}

/// One process, also a zombie.
pub fn find(pid: u32) -> Option<Process> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
    // The name stands in parentheses and may itself hold any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    let line = std::fs::read(dir.join("cmdline")).unwrap_or_default();
    Some(Process {
        pid,
        parent,
        group,
        session,
        state,
        started,
        args: split_nul(&line),
    })
}

fn split_nul(bytes: &[u8]) -> Vec<OsString> {
    bytes
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}

/// All processes that are not zombies.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("these tests read /proc (Linux)");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(find)
        .filter(|process| process.state != 'Z')
        .collect()
}

/// Those whose environment has `name=value`. Nobody else's environment can be read.
pub fn with_env(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let mut found = all();
    found.retain(|process| {
        std::fs::read(format!("/proc/{}/environ", process.pid)).is_ok_and(|environ| {
            environ
                .split(|byte| *byte == 0)
                .any(|item| item == wanted.as_bytes())
        })
    });
    found
}

/// Those with `text` in one of their arguments.
pub fn with_arg(text: &str) -> Vec<Process> {
    let mut found = all();
    found.retain(|process| process.args.iter().any(|arg| contains(arg, text)));
    found
}

fn contains(arg: &OsStr, text: &str) -> bool {
    memchr::memmem::find(arg.as_bytes(), text.as_bytes()).is_some()
}

/// Children, their children and so on. Who was orphaned meanwhile is not among them.
pub fn descendants_of(pid: u32) -> Vec<Process> {
    let everyone = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for process in everyone.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// Whether a process with this number runs (a zombie does not).
pub fn alive(pid: u32) -> bool {
    find(pid).is_some_and(|process| process.state != 'Z')
}

/// SIGKILL to each that is still the same process.
pub fn kill(processes: &[Process]) {
    for process in processes.iter().filter(|process| process.alive()) {
        signal(process.pid, Signal::KILL);
    }
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
