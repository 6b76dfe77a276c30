//! Leftovers of cores that died together with their guard.
//!
//! Proof before every kill: the process carries the marker `<core id>:<instance id>` in the environment it was
//! started with, belongs to our user, and the lock file of that core exists and is free, i.e. the core is
//! dead; pid and start time are compared again at the signal. A held lock, a missing lock file or a failed
//! look protects. (R-LIFE-07, R-LIFE-08)

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::lock::{self, FileLock};
use super::process::{self, Proc};
use super::tree;

/// How long the leftovers of one core may take to die.
const KILL_TIME: Duration = Duration::from_secs(2);

/// What was done about one dead core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The id of the dead core.
    pub core: String,
    /// Its processes that were killed.
    pub killed: Vec<Proc>,
    /// Its processes that would not die in time. Its lock file stays, so that the next sweep tries again.
    pub left: Vec<Proc>,
}

/// The path of the lock that the core `id` holds while it lives.
pub fn lock_path(lock_dir: &Path, id: &str) -> std::path::PathBuf {
    lock_dir.join(format!("{id}.lock"))
}

/// Kills what dead cores left behind and removes their lock files, also of those that left nothing.
///
/// `marker` is the name of the environment variable. Returns one entry per dead core. Blocks: some
/// milliseconds when there is nothing to do. This process and its ancestors are never killed.
///
/// # Errors
/// The lock directory cannot be read; a missing one means that there is nothing to sweep.
pub fn sweep_dead_cores(lock_dir: &Path, marker: &str) -> io::Result<Vec<Swept>> {
    let mut swept = Vec::new();
    for core in dead_cores(lock_dir)? {
        let path = lock_path(lock_dir, &core);
        // Held from here on: a second sweep or a reader sees a living owner and keeps away.
        let Ok(Some(lock)) = FileLock::try_acquire_existing(&path) else {
            continue;
        };
        let spared = tree::own_line();
        let report = tree::kill_in_rounds(Instant::now() + KILL_TIME, || {
            process::find_marked(marker)
                .into_iter()
                .filter(|(row, value)| !spared.contains(&row.pid) && core_of(value) == Some(&core))
                .map(|(row, _)| row)
                .collect()
        });
        if report.left.is_empty() {
            lock.remove()?;
        }
        swept.push(Swept {
            core,
            killed: report.killed,
            left: report.left,
        });
    }
    Ok(swept)
}

/// The ids of all cores whose lock file was once filled by its holder and is free now.
fn dead_cores(lock_dir: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match std::fs::read_dir(lock_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let mut dead = BTreeSet::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new("lock")) {
            continue;
        }
        let Some(id) = path.file_stem().and_then(|id| core_id(id.as_bytes())) else {
            continue;
        };
        // An empty file is one whose core is just taking it.
        if lock::holder(&path).is_some() && lock::is_free(&path) {
            dead.insert(id.to_owned());
        }
    }
    Ok(dead)
}

/// The core id in a marker value `<core id>:<instance id>`.
fn core_of(value: &[u8]) -> Option<&str> {
    let colon = memchr::memchr(b':', value)?;
    core_id(value.get(..colon)?)
}

/// Accepts what can be a UUID. The value comes from another process's environment and becomes a comparison
/// with a file name, so nothing else gets through.
fn core_id(bytes: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(bytes).ok()?;
    uuid::Uuid::try_parse(id).ok()?;
    (id.len() == 36).then_some(id)
}
