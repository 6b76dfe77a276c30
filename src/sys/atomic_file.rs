//! Files that are either the old or the new version, and private directories.
//!
//! Not here: what is in the files. Temporary files start with [`TEMP_PREFIX`], so that whoever lists a
//! directory can skip one that a crash left behind.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
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
    let fail = |step: &'static str| {
        move |source: io::Error| WriteError {
            path: path.to_owned(),
            step,
            source,
        }
    };
    let name = path.file_name().ok_or_else(|| {
        fail("look at the name")(io::Error::new(io::ErrorKind::InvalidInput, "no file name"))
    })?;
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = OsString::from(TEMP_PREFIX);
    prefix.push(name);
    let mut temp = tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(dir)
        .map_err(|error| fail("create a new file beside it")(plain(error)))?;
    temp.as_file()
        .set_permissions(Permissions::from_mode(mode))
        .map_err(fail("set its mode"))?;
    temp.write_all(bytes)
        .map_err(|error| fail("write")(plain(error)))?;
    temp.as_file().sync_data().map_err(fail("sync"))?;
    temp.persist(path)
        .map_err(|error| fail("put it in place")(error.error))?;
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(fail("sync its directory"))
}

/// The error without the temporary file's name that `tempfile` adds to it.
fn plain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => match std::error::Error::source(&error)
            .or_else(|| error.get_ref().map(|inner| inner as _))
            .and_then(first_os_error)
        {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::from(error.kind()),
        },
    }
}

fn first_os_error(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(code) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        at = error.source();
    }
    None
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
