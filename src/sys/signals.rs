//! Signals of this process: names, exit codes, what is ignored, the suspension of a screen, and (Linux) a
//! descriptor that delivers signals to a single-threaded program.

use std::borrow::Cow;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

pub use super::process::Signal;

/// The name of a signal number, e.g. `SIGTERM`; an unknown one is `signal 99`.
pub fn name(number: i32) -> Cow<'static, str> {
    let known = match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGCHLD => "SIGCHLD",
        libc::SIGCONT => "SIGCONT",
        libc::SIGSTOP => "SIGSTOP",
        libc::SIGTSTP => "SIGTSTP",
        libc::SIGTTIN => "SIGTTIN",
        libc::SIGTTOU => "SIGTTOU",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGWINCH => "SIGWINCH",
        libc::SIGSYS => "SIGSYS",
        _ => return Cow::Owned(format!("signal {number}")),
    };
    Cow::Borrowed(known)
}

/// The exit code a shell would show: the code itself, or 128 + n after signal n.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => signalled(signal),
        (None, None) => 1,
    };
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// 128 + n, the exit code that stands for an end by signal n.
pub fn signalled(signal: i32) -> i32 {
    128 + signal
}

/// Whether a shell of our own session is above, which sees a suspension and can end it. `false` also
/// when that cannot be known: below a leader outside of our pid namespace (a container), where both
/// sessions read as zero.
#[must_use]
pub fn has_shell() -> bool {
    let shell = session_of(std::os::unix::process::parent_id());
    shell.is_some() && shell == session_of(std::process::id())
}

/// The session of a process. Not through `rustix`: its ids are never zero, and zero is what the kernel
/// says for a leader that this pid namespace does not see.
#[allow(unsafe_code)]
fn session_of(pid: u32) -> Option<u32> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: getsid takes a number and touches no memory.
    let session = unsafe { libc::getsid(pid) };
    u32::try_from(session).ok().filter(|session| *session != 0)
}

/// Ignores a signal in this process from now on. Children started by [`super::spawn`] do not inherit it.
///
/// # Errors
/// The signal cannot be ignored (SIGKILL, SIGSTOP).
pub fn ignore(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

/// Restores the default action of a signal in this process, replacing an installed handler.
///
/// # Errors
/// The signal has no changeable action (SIGKILL, SIGSTOP).
pub fn restore_default(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

#[allow(unsafe_code)]
fn set_disposition(signal: Signal, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: SIG_IGN and SIG_DFL install no code of ours; `signal` is valid for any number and reports errors.
    let before = unsafe { libc::signal(signal.as_raw(), action) };
    if before == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Stops the process group of this process, as Ctrl+Z does in a program without raw mode, and returns once
/// it was continued. The terminal has to be restored before. (R-TUI-12)
///
/// The whole group, because the program may have been lent the terminal by a parent in the same group;
/// agents are in groups of their own and go on. A process whose group is orphaned (its own session, no shell
/// around) is not stopped by the kernel; then this returns at once.
///
/// # Errors
/// What the system said.
pub fn suspend_self_group() -> io::Result<()> {
    let before = replace_action(Signal::TSTP, &default_action())?;
    let sent = rustix::process::kill_current_process_group(Signal::TSTP);
    // The kernel may hand the signal to another thread of ours, and this one runs on until that has taken it. The
    // old action must not be back by then, or the signal would go to a handler instead of stopping anybody.
    std::thread::sleep(SETTLE);
    replace_action(Signal::TSTP, &before)?;
    Ok(sent?)
}

/// Far longer than the delivery of a signal takes.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(20);

#[allow(unsafe_code)]
fn default_action() -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid value: SIG_DFL, no flags, an empty mask, no restorer.
    unsafe { std::mem::zeroed() }
}

#[allow(unsafe_code)]
fn replace_action(signal: Signal, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = default_action();
    // SAFETY: both pointers are valid for the call; `action` is the default or one that sigaction gave us before,
    // so a handler in it is one that was installed already.
    let result = unsafe { libc::sigaction(signal.as_raw(), action, &mut before) };
    if result == 0 {
        Ok(before)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Signals delivered through a descriptor instead of a handler.
///
/// Blocks the signals in the calling thread, so it belongs into a single-threaded program; children started
/// by [`super::spawn`] get an empty mask again.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct SignalFd {
    file: std::fs::File,
}

#[cfg(target_os = "linux")]
impl SignalFd {
    /// Blocks `signals` and opens a non-blocking descriptor that becomes readable when one is pending.
    ///
    /// # Errors
    /// What the system said.
    #[allow(unsafe_code)]
    pub fn new(signals: &[Signal]) -> io::Result<SignalFd> {
        use std::os::fd::FromRawFd;
        let set = mask(signals);
        // SAFETY: `set` is an initialised set, the old mask is not asked for.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: -1 asks for a new descriptor; `set` is initialised.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and nobody else knows it.
        let file = unsafe { std::fs::File::from_raw_fd(fd) };
        Ok(SignalFd { file })
    }

    /// Takes the pending signal numbers without waiting. Several of one kind may be one.
    pub fn take(&self) -> Vec<i32> {
        use std::io::Read;
        const SIZE: usize = std::mem::size_of::<libc::signalfd_siginfo>();
        let mut signals = Vec::new();
        let mut record = [0_u8; SIZE];
        while (&self.file)
            .read(&mut record)
            .is_ok_and(|count| count == SIZE)
        {
            // The number is the first field of the record.
            if let Some(number) = record.first_chunk::<4>() {
                signals.push(i32::from_ne_bytes(*number));
            }
        }
        signals
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsFd for SignalFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn mask(signals: &[Signal]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before anything reads it; sigaddset only rejects bad numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_by_signal_is_128_and_its_number() {
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(name(libc::SIGTERM), "SIGTERM");
        assert_eq!(name(99), "signal 99");
    }
}
