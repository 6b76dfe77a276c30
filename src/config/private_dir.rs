//! Folders for one user only. Creates them, and refuses those that are not private (R-Q-03).

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Why a folder cannot be used. The text names the folder, the cause and the way out.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// It cannot be made or looked at.
    #[error("cannot use the folder {path}: {source}; make it writable for you, or set {variable} to another folder", path = path.display())]
    Io {
        /// The folder at which it failed.
        path: PathBuf,
        /// The variable that moves it.
        variable: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// It is a symlink or no folder at all.
    #[error("{path} is not a plain folder; remove it, or set {variable} to another folder", path = path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
        /// The variable that moves it.
        variable: &'static str,
    },
    /// It belongs to another user.
    #[error("{path} belongs to user {owner}, not to you ({user}); set {variable} to a folder of your own", path = path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who asked.
        user: u32,
        /// The variable that moves it.
        variable: &'static str,
    },
    /// Others may enter it.
    #[error("{path} is open to other users (mode {mode:o}); run: chmod 700 {path}", path = path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Makes a folder and its parents; those it makes are private. `variable` is named in errors.
///
/// # Errors
/// [`DirError::Io`] with the first folder that could not be made.
pub fn create_all(path: &Path, variable: &'static str) -> Result<(), DirError> {
    let fail = |path: &Path, source| DirError::Io {
        path: path.to_owned(),
        variable,
        source,
    };
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_all(parent, variable)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(fail(path, e)),
    }
}

/// Makes one folder with mode 0700 if it is missing, then checks that it is a real folder, ours
/// and closed to others. Nothing that exists is changed.
///
/// # Errors
/// See [`DirError`].
pub fn ensure(path: &Path, variable: &'static str) -> Result<(), DirError> {
    let fail = |source| DirError::Io {
        path: path.to_owned(),
        variable,
        source,
    };
    match DirBuilder::new().mode(0o700).create(path) {
        // A umask may have taken more than we wanted.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(fail)?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(fail(e)),
    }
    verify(path, variable)
}

/// The check of [`ensure`] alone.
///
/// # Errors
/// See [`DirError`].
pub fn verify(path: &Path, variable: &'static str) -> Result<(), DirError> {
    // One open and questions to that handle only: the name cannot be swapped in between.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            return Err(DirError::NotAFolder {
                path: path.to_owned(),
                variable,
            });
        }
        Err(rustix::io::Errno::ACCESS) => {
            // Not readable: say whose it is when that can be seen.
            return Err(match std::fs::symlink_metadata(path) {
                Ok(meta) if owner(&meta) != me() => DirError::Foreign {
                    path: path.to_owned(),
                    owner: owner(&meta),
                    user: me(),
                    variable,
                },
                _ => DirError::Io {
                    path: path.to_owned(),
                    variable,
                    source: io::ErrorKind::PermissionDenied.into(),
                },
            });
        }
        Err(e) => {
            return Err(DirError::Io {
                path: path.to_owned(),
                variable,
                source: e.into(),
            });
        }
    };
    let meta = std::fs::File::from(dir)
        .metadata()
        .map_err(|source| DirError::Io {
            path: path.to_owned(),
            variable,
            source,
        })?;
    if owner(&meta) != me() {
        return Err(DirError::Foreign {
            path: path.to_owned(),
            owner: owner(&meta),
            user: me(),
            variable,
        });
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(DirError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

fn owner(meta: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(meta)
}

/// The effective user id of this process.
#[must_use]
pub fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}
