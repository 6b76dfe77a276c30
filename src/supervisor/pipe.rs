//! Reading a child's pipe without waking up for every record.
//!
//! A pipe that is registered with the runtime wakes it at every write, also while nobody waits for
//! it. A child that streams is therefore not registered: it is looked at on ticks that all children
//! share, so that one wake-up serves them all (design §9: drain per frame, never per record). A
//! silent child is registered and costs nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::process::ChildStdout;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time between two looks at children that stream: two frames.
const TICK: Duration = Duration::from_millis(32);

/// All ticks are counted from here.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The reading end of a pipe. Starts unregistered.
pub enum Pipe {
    /// Looked at, never waited for.
    Free(OwnedFd),
    /// Waited for.
    Registered(Receiver),
    /// A change between the two failed.
    Broken,
}

impl Pipe {
    /// Takes a child's stdout over.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(stdout: ChildStdout) -> io::Result<Self> {
        let fd = stdout.into_owned_fd()?;
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self::Free(fd))
    }

    /// Reads what is there; `None` = nothing, `0` = the end.
    ///
    /// # Errors
    /// The pipe is broken.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        *self = match std::mem::replace(self, Self::Broken) {
            Self::Registered(receiver) => Self::Free(receiver.into_nonblocking_fd()?),
            other => other,
        };
        let Self::Free(fd) = self else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        loop {
            match rustix::io::read(&*fd, &mut *buffer) {
                Ok(n) => return Ok(Some(n)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is something to read, or the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn readable(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Broken) {
            Self::Free(fd) => Self::Registered(Receiver::from_owned_fd_unchecked(fd)?),
            other => other,
        };
        match self {
            Self::Registered(receiver) => receiver.readable().await,
            Self::Free(_) | Self::Broken => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Says that an answer is awaited: until it came, the child is not read on ticks only.
#[derive(Default)]
pub struct Hurry {
    on: AtomicBool,
    call: Notify,
}

impl Hurry {
    /// From now on.
    pub fn begin(&self) {
        self.on.store(true, Ordering::Release);
        self.call.notify_one();
    }

    /// The child said something that matters.
    pub fn end(&self) {
        self.on.store(false, Ordering::Release);
    }

    /// True while an answer is awaited.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Waits for the next tick, or until there is a hurry.
    pub async fn tick(&self) {
        tokio::select! {
            () = tick() => {}
            () = self.call.notified() => {}
        }
    }
}

async fn tick() {
    let period = TICK.as_millis();
    let next = (START.elapsed().as_millis() / period + 1) * period;
    let next = Duration::from_millis(u64::try_from(next).unwrap_or(u64::MAX));
    tokio::time::sleep_until(*START + next).await;
}
