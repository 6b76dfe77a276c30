//! Names made from a folder: a stable hash, and a readable slug. Pure.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest readable part of a slug, in bytes.
const MAX_WORD: usize = 40;

/// Hash of a path as 32 hex digits, the same on every start and every version (FNV-1a, 128 bits).
/// Not proof against a chosen collision: files named by it also record the path itself.
#[must_use]
pub fn hash(path: &Path) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let sum = path
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(OFFSET, |sum, b| (sum ^ u128::from(*b)).wrapping_mul(PRIME));
    format!("{sum:032x}")
}

/// The first 16 digits of [`hash`], for names that must be short.
#[must_use]
pub fn short_hash(path: &Path) -> String {
    let mut hash = hash(path);
    hash.truncate(16);
    hash
}

/// A file name for a folder: its last part made harmless, then a short hash. At most 57 bytes of
/// letters, digits, `.`, `_` and `-`, for any path, UTF-8 or not.
#[must_use]
pub fn slug(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut word = String::new();
    for byte in name {
        let c = char::from(*byte);
        if c.is_ascii_alphanumeric() || (matches!(c, '.' | '_') && !word.is_empty()) {
            word.push(c);
        } else if !word.is_empty() && !word.ends_with('-') {
            word.push('-');
        }
        if word.len() == MAX_WORD {
            break;
        }
    }
    let word = word.trim_end_matches(['-', '.']);
    let word = if word.is_empty() { "folder" } else { word };
    format!("{word}-{}", short_hash(path))
}
