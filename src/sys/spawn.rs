//! How children are started: own group, clean signals, exactly the given environment.
//!
//! Builds `std::process::Command`s; tokio callers convert them with `.into()`. Not here: what is started,
//! and pipes, which are the caller's.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A command with exactly this environment (values are bytes, not necessarily UTF-8), in this directory, in a
/// process group of its own, with default signal handling and the limits that this process was started with.
/// (R-LIFE-01)
///
/// A program without a slash is looked up in the PATH of the *given* environment.
pub fn command<A, E>(program: &OsStr, args: A, env: E, cwd: &Path) -> Command
where
    A: IntoIterator<Item = OsString>,
    E: IntoIterator<Item = (OsString, OsString)>,
{
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .process_group(0);
    super::limits::as_before(&mut command);
    default_signals(&mut command);
    command
}

/// Gives the child an empty signal mask and the default action for every signal, whatever this process ignores
/// or blocks: both would survive the exec, and a child that ignores SIGTERM by inheritance is a trap.
#[allow(unsafe_code)]
pub fn default_signals(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and only calls sigemptyset, sigprocmask and signal, which
    // are async-signal-safe; it neither allocates nor locks.
    unsafe {
        command.pre_exec(|| {
            let mut set = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
            // Numbers without a changeable action are refused, which is fine.
            for number in 1..=LAST_SIGNAL {
                libc::signal(number, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// The highest signal number: real-time signals included on Linux.
const LAST_SIGNAL: i32 = if cfg!(target_os = "linux") { 64 } else { 31 };

/// Makes the child the leader of a new session (and so of a new group, without a terminal).
///
/// Not together with [`command`] or `process_group`: a group leader cannot open a session, the spawn would
/// fail with EPERM.
#[allow(unsafe_code)]
pub fn new_session(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and only calls setsid, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

/// Lets the child inherit `fd` under its number, which is returned; everywhere else the descriptor stays
/// close-on-exec. The command keeps it open until it is dropped.
#[allow(unsafe_code)]
pub fn inherit_fd(command: &mut Command, fd: OwnedFd) -> i32 {
    let number = fd.as_raw_fd();
    // SAFETY: the closure runs between fork and exec and only calls fcntl, which is async-signal-safe; it owns
    // the descriptor, so the number is valid.
    unsafe {
        command.pre_exec(move || {
            rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?;
            Ok(())
        });
    }
    number
}

/// Takes the socket that a parent left open under `number`, and makes it close-on-exec. `None` when there is
/// no such socket (a stale number must not grab somebody else's file).
///
/// To be called once per number, early in `main`, before anything else opens descriptors.
#[allow(unsafe_code)]
pub fn adopt_socket(number: i32) -> Option<OwnedFd> {
    if number <= 2 {
        return None;
    }
    // SAFETY: the number is only borrowed to ask whether it is open and a socket; F_GETFD on a closed number
    // fails with EBADF.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_getfd(borrowed).ok()?;
    rustix::net::sockopt::socket_type(borrowed).ok()?;
    // SAFETY: the descriptor is open, was inherited over exec and, this early, belongs to nobody in this process.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(owned)
}

/// Removes a variable from the environment of this process and returns its value, so that no child inherits it.
///
/// To be called in `main` before any thread exists: other threads may be reading the environment.
#[allow(unsafe_code)]
pub fn take_env(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    // SAFETY: called before threads exist (see above), so nobody reads the environment meanwhile.
    unsafe { std::env::remove_var(name) };
    Some(value)
}

/// Asks for a larger pipe. Best effort: limits of the system may refuse, and then the pipe stays as it is.
/// Returns the size it has, in bytes, where that can be known.
#[cfg(target_os = "linux")]
pub fn set_pipe_size(pipe: &impl AsFd, bytes: usize) -> Option<usize> {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
    rustix::pipe::fcntl_getpipe_size(pipe).ok()
}

/// Pipes have a fixed size on this system.
#[cfg(not(target_os = "linux"))]
pub fn set_pipe_size(_pipe: &impl AsFd, _bytes: usize) -> Option<usize> {
    None
}

/// Replaces stdin and stdout of this process by the null device, so that the other ends see the end of the
/// stream when the process that they were meant for ends.
///
/// # Errors
/// The null device cannot be opened.
pub fn detach_stdio() -> io::Result<()> {
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
