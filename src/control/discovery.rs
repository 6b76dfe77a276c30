//! Finding cores: a small file beside each socket says which core listens there.
//!
//! The file is a hint, never a proof: a core may have died without removing it. An entry counts as
//! stale when its process (pid and start time) is gone; whoever connects finds out for certain.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::paths::Paths;
use crate::fleet::ids::{CoreId, HostId};
use crate::sys::atomic_file::{self, WriteError};
use crate::sys::process::{self, ProcessId};

/// No entry is longer; a longer file is not ours.
const MAX_ENTRY: u64 = 64 * 1024;

/// A core as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreEntry {
    /// Its process.
    pub pid: u32,
    /// Start time of that process, in the system's own unit; with the pid it names one process.
    pub start_time: u64,
    /// Identity of the core.
    pub core: CoreId,
    /// The person's host.
    pub host: HostId,
    /// Folder it works for.
    #[serde(with = "crate::fleet::path_text")]
    pub folder: PathBuf,
    /// Version of its program.
    pub version: String,
    /// Its socket. Not in the file: it lies beside it.
    #[serde(skip)]
    pub socket: PathBuf,
}

impl CoreEntry {
    /// The entry of this very process.
    #[must_use]
    pub fn of_this_process(core: CoreId, host: HostId, folder: &Path, socket: &Path) -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time: ProcessId::of(pid).map_or(0, |id| id.start_time),
            core,
            host,
            folder: folder.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            socket: socket.to_owned(),
        }
    }

    /// True while its process lives. Where the system has no process table, while its socket is there.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        if cfg!(target_os = "linux") {
            process::is_alive(ProcessId {
                pid: self.pid,
                start_time: self.start_time,
            })
        } else {
            self.socket.exists()
        }
    }
}

/// A published entry. Its file goes with it, if it is still this core's.
#[derive(Debug)]
pub struct Advert {
    entry: CoreEntry,
}

impl Advert {
    /// Writes the file beside the entry's socket. Do it while holding the socket.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(entry: CoreEntry) -> Result<Self, WriteError> {
        let path = file_of(&entry.socket);
        let text = serde_json::to_vec_pretty(&entry).map_err(|e| WriteError {
            path: path.clone(),
            step: "make its text",
            source: e.into(),
        })?;
        atomic_file::write(&path, &text, 0o600)?;
        Ok(Self { entry })
    }

    /// What was published.
    #[must_use]
    pub fn entry(&self) -> &CoreEntry {
        &self.entry
    }
}

impl Drop for Advert {
    fn drop(&mut self) {
        let path = file_of(&self.entry.socket);
        if read(&path).is_ok_and(|entry| entry.core == self.entry.core) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The live core of a folder (a canonical one, see `config::paths::canonical_folder`).
#[must_use]
pub fn find_core(paths: &Paths, folder: &Path) -> Option<CoreEntry> {
    let entry = read(&file_of(&paths.socket(folder))).ok()?;
    (entry.folder == folder && entry.is_alive()).then_some(entry)
}

/// Every live core of this user, by folder.
#[must_use]
pub fn list_cores(paths: &Paths) -> Vec<CoreEntry> {
    let mut entries = list_entries(paths);
    entries.retain(CoreEntry::is_alive);
    entries
}

/// Every entry, those of cores that are gone included, by folder.
#[must_use]
pub fn list_entries(paths: &Paths) -> Vec<CoreEntry> {
    let Ok(files) = std::fs::read_dir(&paths.runtime) else {
        return Vec::new();
    };
    let mut entries: Vec<CoreEntry> = files
        .filter_map(Result::ok)
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| !is_temporary(path))
        .filter_map(|path| {
            read(&path)
                .inspect_err(|error| tracing::debug!(?path, %error, "no entry of a core"))
                .ok()
        })
        .collect();
    entries.sort_by(|a, b| (&a.folder, a.core).cmp(&(&b.folder, b.core)));
    entries
}

fn is_temporary(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(atomic_file::TEMP_PREFIX))
}

fn file_of(socket: &Path) -> PathBuf {
    socket.with_extension("json")
}

fn read(path: &Path) -> io::Result<CoreEntry> {
    // Looked at first: opening a pipe would wait for a writer.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_ENTRY).read_to_end(&mut text)?;
    let mut entry: CoreEntry = serde_json::from_slice(&text)?;
    entry.socket = path.with_extension("sock");
    Ok(entry)
}
