//! One bounded look at the end of a session file, and what is kept of it (R-LIFE-10).
//!
//! Session files belong to Pi: nothing here writes one. Blocking, and the disk may be slow: called from
//! blocking threads only.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::pi::session::{self, Entry};

/// Bytes read from the end of a session file, at most: many hundred entries, or one very long one.
pub const LOOK: u64 = 256 * 1024;

/// What a session file looked like when its agent's process was gone: a later difference means that
/// another program wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMark {
    /// Size in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Id of the last entry, if it could be read.
    #[serde(default)]
    pub last_entry: Option<String>,
    /// A number that differs when the end of the file does.
    #[serde(default)]
    pub end_hash: Option<u64>,
    /// Another program wrote the file while our process lived.
    #[serde(default)]
    pub foreign: bool,
}

impl SessionMark {
    /// Whether the file that `now` was made of is another than this one was made of. A record of an
    /// older version knows less: what it does not know is not compared.
    #[must_use]
    pub fn differs(&self, now: &Self) -> bool {
        fn both<T: PartialEq>(then: Option<&T>, now: Option<&T>) -> bool {
            then.is_some() && then != now
        }
        self.size != now.size
            || self.modified_ns != now.modified_ns
            || both(self.last_entry.as_ref(), now.last_entry.as_ref())
            || both(self.end_hash.as_ref(), now.end_hash.as_ref())
    }
}

/// The end of a session file as it was at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// What is kept.
    pub mark: SessionMark,
    /// The entries at the end, oldest first.
    pub entries: Vec<Entry>,
    /// Where in the file the first byte lies that was read.
    pub from: u64,
}

/// Looks at the file; `None` = there is none.
///
/// # Errors
/// It cannot be read, or is no file.
pub fn look(path: &Path) -> io::Result<Option<Look>> {
    match std::fs::metadata(path) {
        // A pipe in its place would wait for a writer.
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("not a regular file")),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    }
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let size = meta.len();
    let from = size.saturating_sub(LOOK);
    let mut end = vec![0_u8; usize::try_from(size - from).unwrap_or(0)];
    file.read_exact_at(&mut end, from)?;
    let entries = session::entries(&end, from == 0);
    Ok(Some(Look {
        mark: SessionMark {
            size,
            modified_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
            last_entry: entries.last().map(|entry| entry.id.clone()),
            end_hash: Some(fnv1a(&end)),
            foreign: false,
        },
        entries,
        from,
    }))
}

/// FNV-1a: the same in every version of this program, and nobody means to deceive it.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
