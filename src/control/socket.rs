//! The socket file a core listens at: made, checked, removed (R-Q-03).
//!
//! Only a socket file whose connect is refused counts as left behind and is removed. Anything else
//! at the path is an error and nothing is deleted. Looking and binding happen under a lock, so two
//! cores that start at once do not remove each other's file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use tokio::net::{UnixListener, UnixStream};

use crate::config::private_dir::{self, DirError};
use crate::sys::user;

/// Longest wait for another core that is just starting.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed (too many open files): the cause does not go away at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections the system holds until they are accepted.
const BACKLOG: i32 = 128;

/// Why a core cannot listen. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The folder is not private.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// Another core answers there.
    #[error("a core already runs for this folder{}; attach to it, or stop it with `pi-agents shutdown`", of_pid(*pid))]
    Running {
        /// The socket.
        path: PathBuf,
        /// Its process, where the system tells it.
        pid: Option<u32>,
    },
    /// Something else lies at the path.
    #[error("{path} is not a socket; it was left alone: move it away", path = path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A socket lies at the path, and whether anybody listens cannot be told.
    #[error("cannot tell whether a core listens at {path}: {source}; nothing was removed", path = path.display())]
    Unclear {
        /// The path.
        path: PathBuf,
        /// What connecting said.
        source: io::Error,
    },
    /// The path is longer than the system takes.
    #[error("{path} is too long for a socket; set XDG_RUNTIME_DIR to a shorter folder", path = path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Another core has been starting for too long.
    #[error("another core is just starting and holds {path}; try again", path = path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen at {path}: {source}", path = path.display())]
    Io {
        /// The file it is about.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn of_pid(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

/// A connection of a process of the same user.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: UnixStream,
    /// The process at the other end, where the system tells it.
    pub pid: Option<u32>,
}

/// A listening socket and its file. The file goes with it, if it is still this one.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Listener {
    /// Listens at `path`, whose folder is made (0700) or checked. Blocks for a moment; needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        if let Some(dir) = path.parent() {
            private_dir::ensure(dir, "XDG_RUNTIME_DIR")?;
        }
        let fail = |source: io::Error| BindError::Io {
            path: path.to_owned(),
            source,
        };
        let address = SocketAddrUnix::new(path).map_err(|e| match e {
            Errno::NAMETOOLONG => BindError::TooLong {
                path: path.to_owned(),
            },
            e => fail(e.into()),
        })?;
        let _lock = lock(path, LOCK_WAIT)?;
        clear_the_way(path, &address)?;
        let socket = socket().map_err(|e| fail(e.into()))?;
        // On Linux the file gets the mode of the socket itself, so it is closed to others from its
        // first moment; elsewhere the private folder protects it until the next lines.
        let closed = Mode::RUSR | Mode::WUSR;
        let _ = rustix::fs::fchmod(&socket, closed);
        rustix::net::bind(&socket, &address).map_err(|e| fail(e.into()))?;
        let listening = (|| {
            rustix::fs::chmod(path, closed)?;
            rustix::net::listen(&socket, BACKLOG)?;
            let meta = std::fs::symlink_metadata(path)?;
            let listener = StdListener::from(socket);
            listener.set_nonblocking(true)?;
            Ok((UnixListener::from_std(listener)?, meta))
        })();
        match listening {
            Ok((listener, meta)) => Ok(Self {
                listener,
                path: path.to_owned(),
                file: (meta.dev(), meta.ino()),
            }),
            Err(source) => {
                // Made a moment ago, by us, under the lock.
                let _ = std::fs::remove_file(path);
                Err(fail(source))
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection of this user; those of others are closed unheard. Cancel-safe.
    pub async fn accept(&mut self) -> Accepted {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match user::peer(&stream) {
                Ok(peer) if peer.uid == user::uid() => {
                    return Accepted {
                        pid: peer.pid,
                        stream,
                    };
                }
                Ok(peer) => tracing::warn!(uid = peer.uid, "another user's connection closed"),
                Err(error) => tracing::warn!(%error, "a connection of nobody known closed"),
            }
        }
    }

    /// Sets the times of the file and of those beside it to now: cleaners of temporary folders
    /// take what looks old.
    pub fn touch(&self) {
        let now = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            },
            last_modification: rustix::fs::Timespec {
                tv_sec: 0,
                tv_nsec: rustix::fs::UTIME_NOW,
            },
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        for extension in ["sock", "lock", "json"] {
            let file = self.path.with_extension(extension);
            let _ = rustix::fs::utimensat(rustix::fs::CWD, &file, &now, flags);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Without the lock another core could be binding right now: then leave the file alone.
        let Ok(_lock) = lock(&self.path, Duration::from_millis(200)) else {
            return;
        };
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file nobody listens at; refuses everything else.
fn clear_the_way(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    let fail = |source: io::Error| BindError::Io {
        path: path.to_owned(),
        source,
    };
    let unclear = |source: io::Error| BindError::Unclear {
        path: path.to_owned(),
        source,
    };
    let before = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail(e)),
    };
    if !before.file_type().is_socket() {
        return Err(BindError::NotASocket {
            path: path.to_owned(),
        });
    }
    let probe = socket().map_err(|e| unclear(e.into()))?;
    // Without waiting: a full backlog says EAGAIN at once, and that is a live core.
    rustix::io::ioctl_fionbio(&probe, true).map_err(|e| unclear(e.into()))?;
    match rustix::net::connect(&probe, address) {
        Ok(()) => Err(BindError::Running {
            path: path.to_owned(),
            pid: user::peer(&probe).ok().and_then(|peer| peer.pid),
        }),
        Err(Errno::AGAIN | Errno::INPROGRESS) => Err(BindError::Running {
            path: path.to_owned(),
            pid: None,
        }),
        Err(Errno::CONNREFUSED) => {
            let now = std::fs::symlink_metadata(path).map_err(fail)?;
            if (now.dev(), now.ino()) != (before.dev(), before.ino()) {
                return Err(BindError::Busy {
                    path: path.to_owned(),
                });
            }
            std::fs::remove_file(path).map_err(fail)
        }
        Err(e) => Err(unclear(e.into())),
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        Ok(socket)
    }
}

/// The lock beside a socket, held while looking and binding. Its file stays.
fn lock(socket: &Path, wait: Duration) -> Result<File, BindError> {
    let path = socket.with_extension("lock");
    let fail = |source: io::Error| BindError::Io {
        path: path.clone(),
        source,
    };
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits();
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(i32::try_from(nofollow).unwrap_or(0))
        .open(&path)
        .map_err(fail)?;
    let until = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(BindError::Busy { path }),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
    }
}
