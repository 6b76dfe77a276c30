//! The bridge's files: embedded in this program, written where Pi can load them (R-PI-18).
//!
//! Owns the list of files and their place, `bridge/VERSION-HASH` in the cache folder; the hash is of
//! all contents, so another version never changes files under a running Pi. Does not know what they
//! do. What always holds after [`install`]: every file is there, whole, whoever else wrote it too.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::sys::atomic_file::{self, WriteError};

macro_rules! embed {
    ($($path:literal from $source:literal),+ $(,)?) => {
        /// Path below the package, and content.
        pub const FILES: &[(&str, &str)] = &[$(($path, include_str!($source))),+];
    };
}

embed! {
    "package.json" from "../assets/bridge/package.json",
    "tools.json" from "../assets/bridge/tools.json",
    "src/activity.ts" from "../assets/bridge/src/activity.ts",
    "src/core.ts" from "../assets/bridge/src/core.ts",
    "src/deliveries.ts" from "../assets/bridge/src/deliveries.ts",
    "src/environment.ts" from "../assets/bridge/src/environment.ts",
    "src/index.ts" from "../assets/bridge/src/index.ts",
    "src/launch.ts" from "../assets/bridge/src/launch.ts",
    "src/peer.ts" from "../assets/bridge/src/peer.ts",
    "src/program.ts" from "../assets/bridge/src/program.ts",
    "src/safe.ts" from "../assets/bridge/src/safe.ts",
    "src/session.ts" from "../assets/bridge/src/session.ts",
    "src/tools.ts" from "../assets/bridge/src/tools.ts",
    "src/wire.ts" from "../assets/bridge/src/wire.ts",
    "skills/pi-subagents-workflow/SKILL.md" from "../skills/pi-subagents-workflow/SKILL.md",
}

/// The extension below the package, to be named to Pi by itself.
pub const EXTENSION: &str = "src/index.ts";

/// Why the bridge cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// A folder cannot be made.
    #[error("cannot make the folder {path}: {source}; make it writable for you, or set XDG_CACHE_HOME to another folder", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{0}; free space or make it writable, or set XDG_CACHE_HOME to another folder")]
    File(#[from] WriteError),
}

/// Where the package of this program's bridge lies below the cache folder, written or not.
#[must_use]
pub fn folder(cache: &Path) -> PathBuf {
    let name = format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), content_hash());
    cache.join("bridge").join(name)
}

/// Writes the package unless it is there and whole; gives its folder, to be named to Pi. Safe beside
/// other processes that do the same: each file appears whole or not at all, and all write the same.
///
/// # Errors
/// See [`BridgeError`].
pub fn install(cache: &Path) -> Result<PathBuf, BridgeError> {
    let package = folder(cache);
    for (name, content) in FILES {
        let path = package.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == content.as_bytes()) {
            continue;
        }
        if let Some(parent) = path.parent() {
            make_folder(parent, cache)?;
        }
        if path.is_dir() {
            // Nothing we ever wrote: out of the way, or the file cannot take its place.
            std::fs::remove_dir_all(&path).map_err(|source| BridgeError::Folder {
                path: path.clone(),
                source,
            })?;
        }
        atomic_file::write(&path, content.as_bytes(), 0o600)?;
    }
    Ok(package)
}

/// Makes a folder below the cache folder; a file that stands in its place is damage and goes.
fn make_folder(path: &Path, cache: &Path) -> Result<(), BridgeError> {
    let fail = |source| BridgeError::Folder {
        path: path.to_owned(),
        source,
    };
    if path.is_dir() {
        return Ok(());
    }
    if path.starts_with(cache) && path != cache {
        if let Some(parent) = path.parent() {
            make_folder(parent, cache)?;
        }
        if path.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                _ => {}
            }
        }
    }
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(fail)
}

/// FNV-1a over names and contents, each ended by a byte that neither has.
fn content_hash() -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let parts = FILES.iter().flat_map(|(name, content)| [*name, *content]);
    parts.fold(OFFSET, |sum, part| {
        let bytes = part.as_bytes().iter().copied().chain([0xff]);
        bytes.fold(sum, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME))
    })
}
