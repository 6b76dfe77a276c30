//! The file of a journal on its disk: found, read, appended to, written anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::book::Book;
use super::format::{self, Found, Parsed};
use crate::sys::atomic_file;
use crate::sys::lock::{self, FileLock};

/// A larger file is not one of ours.
const MAX_FILE: u64 = 1 << 30;
/// Longest part of a host's id that a file name shows.
const MAX_NAME: usize = 100;

/// Why a journal is not used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another core delivers for this host (R-DELIV-05: two Pis on one session have one deliverer).
    #[error("another pi-agents{} delivers results for the session {host}: use that one, or end it", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The host.
        host: String,
        /// Its process, as it wrote it down.
        pid: Option<u32>,
    },
    /// The file belongs to another session.
    #[error("{} is the journal of another session ({owner}): move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The session it names.
        owner: String,
    },
    /// The file is from the future.
    #[error("{} was written by a newer pi-agents (journal version {version}): use that one, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// No session has this id.
    #[error("a session needs an id")]
    NoId,
}

/// Why a file cannot be read or written now; it may be possible later.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("somebody removed the lock of the journal")]
    LockLost,
    #[error(transparent)]
    Folder(#[from] atomic_file::PrivateDirError),
    #[error(transparent)]
    Write(#[from] atomic_file::WriteError),
    #[error("{} is {what}, not a journal: move it away", path.display())]
    NoFile { path: PathBuf, what: &'static str },
}

/// Where the journal of a host lies.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) host: String,
    folder: PathBuf,
    name: String,
}

impl Place {
    pub(super) fn new(folder: &Path, host: &str) -> Result<Self, OpenError> {
        if host.is_empty() {
            return Err(OpenError::NoId);
        }
        Ok(Self {
            host: host.to_owned(),
            folder: folder.to_owned(),
            name: file_name(host),
        })
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.folder.join(format!("{}.jsonl", self.name))
    }

    fn lock_file(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    /// A new version before it is in place. One name, so that the next core removes what a crash left.
    fn draft(&self) -> PathBuf {
        let prefix = atomic_file::TEMP_PREFIX;
        self.folder.join(format!("{prefix}{}.jsonl", self.name))
    }

    /// Where a file goes that cannot be read, so that nothing of it is lost.
    fn aside(&self) -> PathBuf {
        self.folder.join(format!("{}.damaged", self.name))
    }

    /// Makes the folder and takes the lock.
    pub(super) fn lock(&self) -> Result<FileLock, Trouble> {
        atomic_file::private_dir(&self.folder)?;
        let path = self.lock_file();
        match FileLock::try_acquire(&path) {
            Ok(Some(lock)) => {
                let _ = fs::remove_file(self.draft());
                Ok(lock)
            }
            Ok(None) => Err(OpenError::Held {
                host: self.host.clone(),
                pid: lock::holder(&path),
            }
            .into()),
            Err(source) => Err(Trouble::Io {
                what: "lock",
                path,
                source,
            }),
        }
    }

    /// Reads what is there. A file that is not a journal at all, or has damage in its midst, is copied aside first.
    pub(super) fn read(&self) -> Result<Contents, Trouble> {
        let path = self.journal();
        let fail = |source| Trouble::Io {
            what: "read",
            path: path.clone(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
            Err(error) => return Err(fail(error)),
        };
        let meta = file.metadata().map_err(fail)?;
        if !meta.is_file() || meta.len() > MAX_FILE {
            let what = if meta.is_dir() {
                "a folder"
            } else if meta.is_file() {
                "too large"
            } else {
                "a special file"
            };
            return Err(Trouble::NoFile { path, what });
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(fail)?;
        let (found, note) = match format::parse(&bytes, &self.host) {
            Parsed::Ours(found) if found.damaged => (found, Some("has damaged records")),
            Parsed::Ours(found) => (found, None),
            Parsed::Unknown => (Found::default(), Some("is not a journal")),
            Parsed::Foreign(owner) => return Err(OpenError::Foreign { path, owner }.into()),
            Parsed::Newer(version) => return Err(OpenError::Newer { path, version }.into()),
        };
        let note = note.map(|note| {
            let aside = self.aside();
            let kept = atomic_file::write(&aside, &bytes, 0o600);
            (note, aside, kept)
        });
        let note = match note {
            // Writing over the only copy is worse than not writing.
            Some((_, _, Err(error))) => return Err(error.into()),
            Some((note, aside, Ok(()))) => Some(format!(
                "{} {note}: what can be read is used, the rest is kept in {}",
                path.display(),
                aside.display()
            )),
            None => None,
        };
        Ok(Contents {
            clean: !found.torn && note.is_none(),
            size: bytes.len() as u64,
            records: found.records,
            note,
        })
    }

    /// Replaces the file by a whole new one, synced.
    pub(super) fn rewrite(&self, book: &Book) -> Result<Appender, Trouble> {
        let bytes = book.file();
        atomic_file::write_through(&self.journal(), &self.draft(), &bytes, 0o600)?;
        self.appender(bytes.len() as u64)
    }

    /// Opens a file that was just read or written, to append.
    pub(super) fn appender(&self, size: u64) -> Result<Appender, Trouble> {
        let path = self.journal();
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        match file {
            Ok(file) => Ok(Appender { file, path, size }),
            Err(source) => Err(Trouble::Io {
                what: "open",
                path,
                source,
            }),
        }
    }

    /// Nothing is owed: the file has no use.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(self.journal());
    }
}

/// A file as it was found. A missing one is empty and not clean.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) records: Vec<crate::fleet::outbox::JournalRecord>,
    /// It ends where a record ends, and nothing in it is damaged.
    pub(super) clean: bool,
    pub(super) size: u64,
    /// What a person should know.
    pub(super) note: Option<String>,
}

/// The file, open at its end.
#[derive(Debug)]
pub(super) struct Appender {
    file: File,
    path: PathBuf,
    pub(super) size: u64,
}

impl Appender {
    /// Whether the file is still the one at its path, and as long as we left it. Writing to another one would be
    /// writing to nowhere.
    pub(super) fn is_intact(&self) -> bool {
        let (Ok(open), Ok(named)) = (self.file.metadata(), fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino()) && open.len() == self.size
    }

    /// Appends and syncs. After an error the end of the file is unknown: only a new file helps.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let done = self
            .file
            .write_all(bytes)
            .and_then(|()| self.file.sync_data());
        done.map_err(|source| Trouble::Io {
            what: "append to",
            path: self.path.clone(),
            source,
        })?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

/// A file name for any id: readable when the id is plain, always one name, the same on every file system. Two ids get
/// one name at most by the chance of a hash; the header tells them apart.
fn file_name(host: &str) -> String {
    let mut name = String::new();
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    if name.len() > MAX_NAME {
        name.truncate(MAX_NAME - 17);
        name = format!("{name}~{:016x}", hash(host));
    }
    name
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
