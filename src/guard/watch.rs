//! The guard's loop: sleep, reap, answer; after the core's death wait, kill, exit.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::link::{self, GuardEnd};
use super::{Options, note};
use crate::sys::process::{self, Proc, Signal};
use crate::sys::signals::{self, SignalFd};
use crate::sys::spawn;

/// The longest pause between two rounds of killing. The death of a child ends it early.
const ROUND: Duration = Duration::from_millis(20);

/// Signals that ask for an end.
const END: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::QUIT];

/// Signals that must neither end nor stop a guard.
const IGNORED: [Signal; 7] = [
    Signal::HUP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
];

/// A guard whose core has been started.
pub(super) struct Guard {
    core: Pid,
    signals: SignalFd,
    link: Option<GuardEnd>,
    /// The process that the core must not outlive, while it lives.
    owner: Option<OwnedFd>,
    /// Set once the core was reaped.
    status: Option<WaitStatus>,
}

impl Guard {
    /// Becomes subreaper, starts the core and lets go of stdin and stdout.
    pub(super) fn start(mut core: Command, bound: bool) -> io::Result<Guard> {
        // Where there are no pidfds, the end of the core's input alone has to do.
        let owner = bound.then(rustix::process::getppid).flatten();
        let owner = owner.and_then(|pid| {
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        });
        // Refused when this process leads a group already, e.g. started by a shell; nothing depends on it.
        let _ = rustix::process::setsid();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        for signal in IGNORED {
            signals::ignore(signal)?;
        }
        // Ignored by inheritance it would make the kernel reap behind our back.
        signals::restore_default(Signal::CHILD)?;
        for signal in END {
            signals::restore_default(signal)?;
        }
        let pending = SignalFd::new(&[Signal::CHILD, Signal::TERM, Signal::INT, Signal::QUIT])?;

        let (mine, theirs) = UnixStream::pair()?;
        mine.set_nonblocking(true)?;
        let number = spawn::inherit_fd(&mut core, OwnedFd::from(theirs));
        core.env(
            link::LINK_VARIABLE,
            link::variable(number, std::process::id()),
        );
        spawn::default_signals(&mut core);
        spawn::new_session(&mut core);
        let child = core.spawn()?;
        // With the command goes the core's end of the link: only the core may hold it.
        drop(core);
        spawn::detach_stdio()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Guard {
            core: pid.ok_or(io::ErrorKind::InvalidData)?,
            signals: pending,
            link: Some(GuardEnd::new(mine)),
            owner,
            status: None,
        })
    }

    /// Watches until the core is dead and nothing is left below it. Returns the exit code.
    pub(super) fn watch(mut self, options: &Options) -> u8 {
        let mut childless = self.reap();
        let mut hurry = false;
        let mut end_by = None;
        while self.status.is_none() && !childless {
            self.sleep(end_by.map(|end: Instant| end.saturating_duration_since(Instant::now())));
            if self.owner_ended() {
                end_by = Some(Instant::now() + options.last_orders);
            }
            if end_by.is_some_and(|end| end <= Instant::now()) {
                end_by = None;
                note(options, "the core did not end with its session; killed");
                // Our own unreaped child: the pid is certain.
                let _ = rustix::process::kill_process(self.core, Signal::KILL);
            }
            let asked = self.signals.take().into_iter().any(asks_for_end);
            childless = self.reap();
            if asked && self.status.is_none() {
                // Our own unreaped child: the pid is certain.
                let _ = rustix::process::kill_process(self.core, Signal::TERM);
            }
            hurry = asked && self.status.is_some();
            if let Some(link) = &mut self.link
                && !link.serve(|| orphans(self.core))
            {
                self.link = None;
            }
        }
        self.link = None;
        self.owner = None;
        if !childless {
            self.clean(options, hurry);
        }
        self.status.map_or(1, exit_code)
    }

    /// Lets what is left end by itself for a while, then kills everything below this process until nothing is
    /// left or time is up. Whoever asks for the end meanwhile (or asked already: `hurry`) cuts the wait short.
    fn clean(&mut self, options: &Options, mut hurry: bool) {
        let died = Instant::now();
        while let Some(left) = options.grace.checked_sub(died.elapsed())
            && !left.is_zero()
            && !hurry
        {
            if self.reap() {
                return;
            }
            self.sleep(Some(left));
            hurry = self.signals.take().into_iter().any(asks_for_end);
        }
        let mut killed: Vec<Proc> = Vec::new();
        loop {
            if self.reap() {
                note(
                    options,
                    &format!("the core ended ({}); killed {}", self.how(), names(&killed)),
                );
                return;
            }
            let Some(left) = options.limit.checked_sub(died.elapsed()) else {
                let left = process::descendants_of(&[std::process::id()]);
                note(
                    options,
                    &format!(
                        "the core ended ({}); not killed in time: {}",
                        self.how(),
                        names(&left)
                    ),
                );
                return;
            };
            for row in process::descendants_of(&[std::process::id()]) {
                if !row.is_zombie()
                    && process::signal(row.id(), Signal::KILL).unwrap_or(false)
                    && !killed.iter().any(|known| known.id() == row.id())
                {
                    killed.push(row);
                }
            }
            self.sleep(Some(left.min(ROUND)));
            self.signals.take();
        }
    }

    /// True once: the process that the core is bound to has ended.
    fn owner_ended(&mut self) -> bool {
        let ended = self.owner.as_ref().is_some_and(|owner| {
            let mut fd = [PollFd::new(owner, PollFlags::IN)];
            poll(&mut fd, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        });
        if ended {
            self.owner = None;
        }
        ended
    }

    /// Blocks until a signal is pending, the link has something, the owner ended, or `limit` passed.
    fn sleep(&self, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = Vec::with_capacity(3);
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        if let Some(owner) = &self.owner {
            fds.push(PollFd::new(owner, PollFlags::IN));
        }
        if let Some(link) = &self.link {
            let wanted = if link.has_output() {
                PollFlags::OUT
            } else {
                PollFlags::IN
            };
            fds.push(PollFd::from_borrowed_fd(link.as_fd(), wanted));
        }
        // An error here (interrupted) only means looking again.
        let _ = poll(&mut fds, limit.as_ref());
    }

    /// Reaps every dead child; the core's status is kept. True when no child is left at all, and so nothing is
    /// below this process: whatever lost its parent has become a child.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.core {
                        self.status = Some(status);
                    }
                }
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn how(&self) -> String {
        match self.status {
            Some(status) => match (status.exit_status(), status.terminating_signal()) {
                (_, Some(signal)) => signals::name(signal).into_owned(),
                (Some(code), None) => format!("exit code {code}"),
                (None, None) => "status unknown".to_owned(),
            },
            None => "status unknown".to_owned(),
        }
    }
}

fn asks_for_end(number: i32) -> bool {
    END.iter().any(|signal| signal.as_raw() == number)
}

/// The living children of this process other than the core.
fn orphans(core: Pid) -> Vec<process::ProcessId> {
    let me = std::process::id();
    process::list()
        .into_iter()
        .filter(|row| row.ppid == me && !row.is_zombie())
        .filter(|row| i64::from(row.pid) != i64::from(core.as_raw_nonzero().get()))
        .map(|row| row.id())
        .collect()
}

fn exit_code(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => signals::signalled(signal),
        (None, None) => 1,
    };
    u8::try_from(code & 0xff).unwrap_or(1)
}

fn names(rows: &[Proc]) -> String {
    let shown: Vec<String> = rows
        .iter()
        .take(20)
        .map(|row| format!("{} ({})", row.pid, row.comm))
        .collect();
    let more = rows.len().saturating_sub(shown.len());
    match (rows.len(), more) {
        (0, _) => "nothing".to_owned(),
        (_, 0) => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}
