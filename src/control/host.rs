//! The person's host of a folder: an identity that stays, and the claim of the one core that works
//! for it. A folder that was moved is a new host (design §2).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::config::paths::Paths;
use crate::config::private_dir::DirError;
use crate::fleet::ids::HostId;
use crate::sys::atomic_file::{self, WriteError};
use crate::sys::lock::{self, FileLock};

/// Longest wait for another process that is just making the same identity.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Why there is no host. The text names the file and the way out.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its folder cannot be made.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// Its file cannot be written.
    #[error("{0}; free space or make it writable, or set XDG_STATE_HOME to another folder")]
    Write(#[from] WriteError),
    /// Its file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file of a lock cannot be made or written.
    #[error("cannot lock {path}: {source}; free space or make it writable, or set XDG_STATE_HOME to another folder", path = path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its file says something else.
    #[error("{path} is not what pi-agents wrote ({what}); move it away to begin anew, agents of this folder are then listed as new ones", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another core works for the folder.
    #[error("a core already works for this folder{}", pid.map(|p| format!(" (process {p})")).unwrap_or_default())]
    Claimed {
        /// Its process, if it wrote it down.
        pid: Option<u32>,
    },
}

#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    host: HostId,
    #[serde(with = "crate::fleet::path_text")]
    folder: PathBuf,
    created_ms: i64,
}

/// The identity of a folder's host; made the first time it is asked for.
///
/// # Errors
/// See [`HostError`].
pub fn host_of(paths: &Paths, folder: &Path) -> Result<HostId, HostError> {
    let path = paths.host_file(folder);
    if let Some(host) = read(&path, folder)? {
        return Ok(host);
    }
    paths.ensure_state(&paths.agents_dir(folder))?;
    let _lock = wait_for(&path.with_extension("lock"))?;
    // Somebody else may have been quicker.
    if let Some(host) = read(&path, folder)? {
        return Ok(host);
    }
    let record = Record {
        version: 1,
        host: HostId::fresh(),
        folder: folder.to_owned(),
        created_ms: now_ms(),
    };
    let text = serde_json::to_vec_pretty(&record).map_err(|e| HostError::Damaged {
        path: path.clone(),
        what: e.to_string(),
    })?;
    atomic_file::write(&path, &text, 0o600)?;
    Ok(record.host)
}

/// Held by the core of a folder for its whole life: one core per folder, wherever its socket lies.
#[derive(Debug)]
pub struct HostClaim {
    _lock: FileLock,
}

/// Claims a folder for this process.
///
/// # Errors
/// [`HostError::Claimed`] when a living core has it.
pub fn claim(paths: &Paths, folder: &Path) -> Result<HostClaim, HostError> {
    paths.ensure_state(&paths.host_dir(folder))?;
    let path = paths.host_lock(folder);
    match FileLock::try_acquire(&path) {
        Ok(Some(lock)) => Ok(HostClaim { _lock: lock }),
        Ok(None) => Err(HostError::Claimed {
            pid: lock::holder(&path),
        }),
        Err(source) => Err(HostError::Lock { path, source }),
    }
}

fn wait_for(path: &Path) -> Result<FileLock, HostError> {
    let fail = |source| HostError::Read {
        path: path.to_owned(),
        source,
    };
    let until = Instant::now() + LOCK_WAIT;
    loop {
        // Each attempt waits a few milliseconds by itself.
        if let Some(lock) = FileLock::try_acquire(path).map_err(fail)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            return Err(fail(io::ErrorKind::TimedOut.into()));
        }
    }
}

fn read(path: &Path, folder: &Path) -> Result<Option<HostId>, HostError> {
    let damaged = |what: String| HostError::Damaged {
        path: path.to_owned(),
        what,
    };
    let text = match std::fs::read(path) {
        Ok(text) => text,
        // A file where a folder belongs is named when the folder is made.
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(source) => {
            return Err(HostError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let record: Record = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
    if record.folder != folder {
        return Err(damaged(format!("it is of {}", record.folder.display())));
    }
    Ok(Some(record.host))
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
