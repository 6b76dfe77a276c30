//! Folders of ours: made private, refused when they are not (R-Q-03). Adds to what `sys` says which
//! variable moves the folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::sys::atomic_file::{self, PrivateDirError};

/// Why a folder cannot be used. The text names the folder, the cause and the way out.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// It cannot be made.
    #[error("cannot make the folder {path}: {source}; make its parent writable for you, or set {variable} to another folder", path = path.display())]
    Make {
        /// The first folder that could not be made.
        path: PathBuf,
        /// The variable that moves it.
        variable: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// It is there and not private.
    #[error("{source}, or set {variable} to another folder")]
    NotPrivate {
        /// The variable that moves it.
        variable: &'static str,
        /// The cause, with the folder.
        source: PrivateDirError,
    },
}

/// Makes a folder and its parents; those it makes are private. `variable` is named in errors.
///
/// # Errors
/// [`DirError::Make`] with the first folder that could not be made.
pub fn create_all(path: &Path, variable: &'static str) -> Result<(), DirError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_all(parent, variable)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(source) => Err(DirError::Make {
            path: path.to_owned(),
            variable,
            source,
        }),
    }
}

/// Makes a folder with mode 0700 if it is missing, then checks that it is a real folder, ours and
/// closed to others. Nothing that exists is changed.
///
/// # Errors
/// See [`DirError`].
pub fn ensure(path: &Path, variable: &'static str) -> Result<(), DirError> {
    if let Some(parent) = path.parent() {
        create_all(parent, variable)?;
    }
    atomic_file::private_dir(path).map_err(|source| DirError::NotPrivate { variable, source })
}
