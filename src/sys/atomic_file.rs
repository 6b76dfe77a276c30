//! Files that are either the old or the new version, and private directories.
//!
//! Not here: what is in the files. Temporary files start with [`TEMP_PREFIX`], so that whoever lists a
//! directory can skip one that a crash left behind.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::user;

/// First characters of the name of every temporary file this module makes.
pub const TEMP_PREFIX: &str = ".tmp-";

/// Why a file could not be replaced. The path is the one that was asked for, never the temporary one.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {step}: {source}", path.display())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// What was being done, in words.
    pub step: &'static str,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Replaces `path` by a file of exactly `bytes` and `mode` (not reduced by the umask).
///
/// After `Ok` the new content survives a power cut; after an error or a crash the old content is
/// untouched. A symlink at `path` is replaced, not followed.
///
/// # Errors
/// [`WriteError`], naming `path` and the step that failed.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    let name = format!("{TEMP_PREFIX}{}", uuid::Uuid::new_v4().simple());
    write_through(path, &directory(path).join(name), bytes, mode)
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The same with a temporary file of a given name in the same directory, for who alone may write `path`: what a crash
/// left there is replaced.
///
/// # Errors
/// [`WriteError`], naming `path` and the step that failed.
pub fn write_through(path: &Path, temp: &Path, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
    let fail = |step: &'static str| {
        move |source: io::Error| WriteError {
            path: path.to_owned(),
            step,
            source,
        }
    };
    if path.file_name().is_none() {
        let nameless = io::Error::new(io::ErrorKind::InvalidInput, "no file name");
        return Err(fail("look at the name")(nameless));
    }
    let mut temp = Temp::create(temp, mode).map_err(fail("create a new file beside it"))?;
    temp.file
        .set_permissions(Permissions::from_mode(mode))
        .map_err(fail("set its mode"))?;
    temp.file.write_all(bytes).map_err(fail("write"))?;
    temp.file.sync_data().map_err(fail("sync"))?;
    temp.rename(path).map_err(fail("put it in place"))?;
    File::open(directory(path))
        .and_then(|dir| dir.sync_all())
        .map_err(fail("sync its directory"))
}

/// A new file that is removed unless it was renamed. (The `tempfile` crate would hide the system's reason behind
/// the temporary name.)
struct Temp {
    file: File,
    path: Option<PathBuf>,
}

impl Temp {
    fn create(path: &Path, mode: u32) -> io::Result<Temp> {
        let create = || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(path)
        };
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(path)?;
                create()?
            }
            other => other?,
        };
        let path = Some(path.to_owned());
        Ok(Temp { file, path })
    }

    fn rename(&mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            std::fs::rename(path, to)?;
            self.path = None;
        }
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why a directory is not a private one, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// It could not be made.
    #[error("cannot create the directory {}: {source}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It could not be examined.
    #[error("cannot examine {}: {source}", path.display())]
    Examine {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Something else has the name.
    #[error("{} is {what}, not a directory: move it away", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// Somebody else owns it.
    #[error("{} belongs to user {owner}, not to user {me}: remove it or choose another directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user we run as.
        me: u32,
    },
    /// Others may enter it.
    #[error("{} is open to others (mode {mode:03o}): run `chmod 700 {}`", path.display(), path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Makes `path` (and missing parents) with mode 0700, or checks one that exists: a real directory,
/// ours, closed to group and others. (R-Q-03)
///
/// # Errors
/// [`PrivateDirError`], which says what is wrong and what to do. Nothing is repaired silently: an open
/// directory may already hold what somebody else put there.
pub fn private_dir(path: &Path) -> Result<(), PrivateDirError> {
    let examined = || {
        std::fs::symlink_metadata(path).map_err(|source| PrivateDirError::Examine {
            path: path.to_owned(),
            source,
        })
    };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|source| PrivateDirError::Create {
                    path: path.to_owned(),
                    source,
                })?;
            examined()?
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(PrivateDirError::Create {
                path: path.to_owned(),
                source: error,
            });
        }
        Err(_) => examined()?,
    };
    let kind = meta.file_type();
    if !kind.is_dir() {
        let what = if kind.is_symlink() {
            "a symbolic link"
        } else if kind.is_file() {
            "a file"
        } else {
            "a special file"
        };
        return Err(PrivateDirError::NotADirectory {
            path: path.to_owned(),
            what,
        });
    }
    let me = user::uid();
    if meta.uid() != me {
        return Err(PrivateDirError::Foreign {
            path: path.to_owned(),
            owner: meta.uid(),
            me,
        });
    }
    let mode = meta.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(PrivateDirError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}
