//! The process table, and signals that cannot hit the wrong process.
//!
//! A process is named by pid *and* start time ([`ProcessId`]): a pid alone may belong to somebody else by
//! the time it is used. Everything here survives processes that vanish while they are being looked at; a
//! failed look never counts as a death. Blocking, a few milliseconds per whole scan.
//!
//! Looking takes descriptors. A process that may have no others ([`keep_room`]) looks with some that it kept,
//! or it would take what it cannot see for dead just when it has too many children.
//!
//! Not here: what belongs together after leaving its parent ([`super::tree`]) and who is to be killed.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
pub use rustix::process::Signal;

/// One process for as long as it lives, never its successor under the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<ProcessId> {
        Some(read(pid)?.id())
    }
}

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.pid, self.start_time)
    }
}

impl std::str::FromStr for ProcessId {
    type Err = std::num::ParseIntError;

    /// The form of `Display`: `pid:start_time`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (pid, start_time) = text.split_once(':').unwrap_or((text, ""));
        Ok(ProcessId {
            pid: pid.parse()?,
            start_time: start_time.parse()?,
        })
    }
}

/// One row of the process table, as of the moment it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proc {
    /// The process id.
    pub pid: u32,
    /// Its parent; changes when the parent dies.
    pub ppid: u32,
    /// Its process group.
    pub pgid: u32,
    /// Its session.
    pub sid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// The state letter: `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// The program's short name, at most 15 bytes, as far as it is UTF-8.
    pub comm: String,
}

impl Proc {
    /// The name that stays unique.
    pub fn id(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
        }
    }

    /// Whether it is dead and only waits to be reaped. (A PID 1 that does not reap leaves many.)
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Descriptors kept by [`keep_room`]: a directory and a file at a time, for a few threads.
const ROOM: usize = 6;

/// How often a look is tried again when other threads took the descriptors that were given up for it.
const LOOKS: u32 = 20;

/// What [`keep_room`] kept.
static KEPT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Keeps a few descriptors, so that processes can be looked at and signalled also when this process may open
/// no other file. Without this call such a look finds nothing.
pub fn keep_room() {
    refill(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner));
}

fn refill(kept: &mut Vec<OwnedFd>) {
    while kept.len() < ROOM {
        match File::open("/dev/null") {
            Ok(file) => kept.push(file.into()),
            // Tried again after the next look.
            Err(_) => return,
        }
    }
}

/// Does what needs descriptors; when there are none, again with those that were kept.
fn with_room<T>(look: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut result = look();
    for _ in 0..LOOKS {
        if !result.as_ref().is_err_and(no_room) {
            break;
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            refill(&mut kept);
        }
        kept.clear();
        result = look();
        refill(&mut kept);
        drop(kept);
        if result.as_ref().is_err_and(no_room) {
            // Somebody else was quicker; such are soon done or refused.
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    result
}

fn no_room(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .map(|e| Some(e.raw_os_error()))
        .contains(&code)
}

/// Keeps the only error that is no answer: any other means that there is nothing to be seen.
fn unless_no_room<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if no_room(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The row of one process, or `None` when there is none (or none that can be read).
pub fn read(pid: u32) -> Option<Proc> {
    with_room(|| row(pid)).ok()?
}

fn row(pid: u32) -> io::Result<Option<Proc>> {
    let mut buffer = [0_u8; 1024];
    let Some(mut file) = unless_no_room(File::open(format!("/proc/{pid}/stat")))? else {
        return Ok(None);
    };
    let mut filled = 0;
    while let Some(space) = buffer.get_mut(filled..).filter(|space| !space.is_empty()) {
        match file.read(space) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(parse_stat(pid, buffer.get(..filled).unwrap_or_default()))
}

/// Reads `PID (COMM) STATE PPID PGRP SESSION … STARTTIME …`. COMM may hold blanks and parentheses, so the
/// last closing one ends it.
fn parse_stat(pid: u32, stat: &[u8]) -> Option<Proc> {
    let open = memchr::memchr(b'(', stat)?;
    let close = memchr::memrchr(b')', stat)?;
    let comm = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let ppid = fields.next()?.parse().ok()?;
    let pgid = fields.next()?.parse().ok()?;
    let sid = fields.next()?.parse().ok()?;
    // STARTTIME is field 22 of the line; STATE was the third and SESSION the sixth.
    let start_time = fields.nth(15)?.parse().ok()?;
    Some(Proc {
        pid,
        ppid,
        pgid,
        sid,
        start_time,
        state,
        comm,
    })
}

/// Every process that can be seen, zombies included, in no order.
pub fn list() -> Vec<Proc> {
    with_room(|| {
        let rows = pids()?.into_iter().map(row);
        rows.filter_map(Result::transpose).collect()
    })
    .unwrap_or_default()
}

fn pids() -> io::Result<Vec<u32>> {
    let entries = unless_no_room(std::fs::read_dir("/proc"))?;
    Ok(entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// The descendants of `roots` in the table as it is now, without the roots; parents before children.
pub fn descendants_of(roots: &[u32]) -> Vec<Proc> {
    descendants_in(&list(), roots)
}

/// The descendants of `roots` in a table that was read before.
pub fn descendants_in(table: &[Proc], roots: &[u32]) -> Vec<Proc> {
    let mut children: HashMap<u32, Vec<&Proc>> = HashMap::new();
    for process in table {
        children.entry(process.ppid).or_default().push(process);
    }
    let mut seen: HashSet<u32> = roots.iter().copied().collect();
    let mut found = Vec::new();
    let mut queue: std::collections::VecDeque<u32> = roots.iter().copied().collect();
    while let Some(parent) = queue.pop_front() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push((*child).clone());
                queue.push_back(child.pid);
            }
        }
    }
    found
}

/// The value of the variable `name` in the environment that process `pid` was started with, if the process
/// is one of ours (same user) and has it.
pub fn environ_has(pid: u32, name: &str) -> Option<Vec<u8>> {
    with_room(|| variable(pid, name)).ok()?
}

fn variable(pid: u32, name: &str) -> io::Result<Option<Vec<u8>>> {
    use std::os::unix::fs::MetadataExt;
    let Some(file) = unless_no_room(File::open(format!("/proc/{pid}/environ")))? else {
        return Ok(None);
    };
    if !file
        .metadata()
        .is_ok_and(|meta| meta.uid() == super::user::uid())
    {
        return Ok(None);
    }
    let mut environ = Vec::new();
    // Environments are bounded by the kernel (a quarter of the stack limit); this bound is far above.
    if file.take(16 << 20).read_to_end(&mut environ).is_err() {
        return Ok(None);
    }
    Ok(environ
        .split(|byte| *byte == 0)
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .map(<[u8]>::to_vec))
}

/// All processes of our user that were started with the variable `name`, with its value. Zombies have no
/// environment left and are not found.
pub fn find_marked(name: &str) -> Vec<(Proc, Vec<u8>)> {
    let me = std::process::id();
    with_room(|| {
        let pids = pids()?.into_iter().filter(|pid| *pid != me);
        pids.map(|pid| marked(pid, name))
            .filter_map(Result::transpose)
            .collect()
    })
    .unwrap_or_default()
}

fn marked(pid: u32, name: &str) -> io::Result<Option<(Proc, Vec<u8>)>> {
    if variable(pid, name)?.is_none() {
        return Ok(None);
    }
    // Asked again between two looks at who it is, or the value may be that of another process. Only for
    // the few that have one: the first question alone goes to everybody.
    let (before, value, after) = (row(pid)?, variable(pid, name)?, row(pid)?);
    Ok(match (before, value, after) {
        (Some(before), Some(value), Some(after)) if before.id() == after.id() => {
            Some((after, value))
        }
        _ => None,
    })
}

/// Whether this very process still runs. A zombie is dead.
pub fn is_alive(id: ProcessId) -> bool {
    read(id.pid).is_some_and(|now| now.start_time == id.start_time && !now.is_zombie())
}

/// Sends a signal to this very process. `Ok(false)`: it is gone, nothing was sent.
///
/// A pid that was reused is never hit: the handle is taken first and the start time compared afterwards.
///
/// # Errors
/// Not permitted, or the system refused for another reason.
#[cfg(target_os = "linux")]
pub fn signal(id: ProcessId, signal: Signal) -> io::Result<bool> {
    with_room(|| send(id, signal))
}

#[cfg(target_os = "linux")]
fn send(id: ProcessId, signal: Signal) -> io::Result<bool> {
    let Some(pid) = pid_of(id.pid) else {
        return Ok(false);
    };
    let handle = match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return Ok(false),
        // An old kernel or a sandbox without pidfds: the start time alone has to do.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => None,
        Err(error) => return Err(error.into()),
    };
    if row(id.pid)?.is_none_or(|now| now.start_time != id.start_time) {
        return Ok(false);
    }
    let sent = match &handle {
        Some(handle) => rustix::process::pidfd_send_signal(handle, signal),
        None => rustix::process::kill_process(pid, signal),
    };
    outcome(sent)
}

/// Sends nothing on this system: without a process table nobody can say whose pid it is.
///
/// # Errors
/// Always `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn signal(_id: ProcessId, _signal: Signal) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sends a signal to the process group that `leader` leads or led. `Ok(false)`: nobody of it is left.
///
/// While the leader exists (also unreaped) the whole group is signalled at once. When it is gone, its
/// pid cannot have been given away as long as the group has members, so the members are signalled one by
/// one; a pid with another start time means that the group ended, and nothing is sent.
///
/// # Errors
/// Not permitted, or the system refused for another reason.
#[cfg(target_os = "linux")]
pub fn signal_group(leader: ProcessId, signal: Signal) -> io::Result<bool> {
    let Some(pgid) = pid_of(leader.pid) else {
        return Ok(false);
    };
    match read(leader.pid) {
        Some(now) if now.start_time != leader.start_time => Ok(false),
        Some(now) if now.pgid == leader.pid => {
            outcome(rustix::process::kill_process_group(pgid, signal))
        }
        // It never led a group of its own: only it is meant, never the group it is in.
        Some(_) => self::signal(leader, signal),
        None => {
            let mut any = false;
            let mut refused = None;
            for member in list().into_iter().filter(|row| row.pgid == leader.pid) {
                match self::signal(member.id(), signal) {
                    Ok(sent) => any |= sent,
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if !any => Err(error),
                _ => Ok(any),
            }
        }
    }
}

/// Sends a signal to the process group of `leader`. Only for a leader that is our own unreaped child: its
/// start time cannot be checked on this system.
///
/// # Errors
/// Not permitted, or the system refused for another reason.
#[cfg(not(target_os = "linux"))]
pub fn signal_group(leader: ProcessId, signal: Signal) -> io::Result<bool> {
    match pid_of(leader.pid) {
        Some(pgid) => outcome(rustix::process::kill_process_group(pgid, signal)),
        None => Ok(false),
    }
}

fn outcome(sent: rustix::io::Result<()>) -> io::Result<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A pid that may be signalled: not 0 (the own group) and not 1 (everything, when negated).
fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 1)
        .and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c) S 7 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2\n";
        let row = parse_stat(42, line).unwrap();
        assert_eq!(
            (
                row.comm.as_str(),
                row.state,
                row.ppid,
                row.pgid,
                row.sid,
                row.start_time
            ),
            ("a) b (c", 'S', 7, 42, 41, 98765)
        );
        assert_eq!(parse_stat(42, b"42 (half) S 7"), None);
        assert_eq!(parse_stat(42, b""), None);
    }

    #[test]
    fn init_and_whole_groups_are_out_of_reach() {
        for pid in [0, 1, u32::MAX] {
            assert_eq!(pid_of(pid), None);
        }
    }
}
