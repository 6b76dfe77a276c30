//! Locks that end with their holder, however it ends.
//!
//! A lock is an advisory `flock` on a file that holds the holder's pid for people to read. The file
//! staying behind means nothing; only the kernel's lock counts. Descriptors are close-on-exec, so
//! children do not keep a lock of a dead parent.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often and how far apart a busy lock is tried again: whoever only looks ([`is_free`]) holds the
/// lock for some microseconds, and that must not look like an owner.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(3);

/// A held lock. Dropping it releases it and leaves the file.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Takes the lock at `path`, creating the file with mode 0600, or says `None` when somebody holds it.
    ///
    /// Blocks for at most about ten milliseconds.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn try_acquire(path: &Path) -> io::Result<Option<FileLock>> {
        take(path, true)
    }

    /// Like [`FileLock::try_acquire`], but a missing file is an error of kind `NotFound`.
    ///
    /// # Errors
    /// The file is missing or cannot be opened or written.
    pub fn try_acquire_existing(path: &Path) -> io::Result<Option<FileLock>> {
        take(path, false)
    }

    /// Where the lock lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is still at its path. If somebody removed it, others can take a lock beside this one.
    pub fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// A second descriptor of the same lock, for a child to inherit: the lock is then held until both are gone, so that
    /// it outlives this process when that is killed. Releasing it here releases it for both.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn duplicate(&self) -> io::Result<std::os::fd::OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Removes the file, then releases the lock: whoever comes next makes a new one.
    ///
    /// # Errors
    /// The file cannot be removed; the lock is released all the same.
    pub fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn take(path: &Path, create: bool) -> io::Result<Option<FileLock>> {
    let mut attempt = 0;
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                attempt += 1;
                if attempt >= ATTEMPTS {
                    return Ok(None);
                }
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between opening and locking the holder may have removed the file: a lock on an unlinked file
        // excludes nobody.
        if !is_at(&file, path) {
            continue;
        }
        if let Err(error) = sign(&mut file) {
            // An empty file would look like one that is just being taken, for ever.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        return Ok(Some(FileLock {
            file,
            path: path.to_owned(),
        }));
    }
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
        _ => false,
    }
}

/// Whether the lock file exists and nobody holds it, i.e. its last holder is gone. A file that cannot be
/// examined is not free: a failed question is no proof of death.
pub fn is_free(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(path) else {
        return false;
    };
    // Shared, so that two who look at once do not take each other for a holder.
    file.try_lock_shared().is_ok()
}

/// The pid its last holder wrote into a lock file. For messages only; the number may be long reused.
pub fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(32)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok()
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing would do; unlocking first also covers a descriptor that a fork in progress has copied.
        let _ = self.file.unlock();
    }
}
