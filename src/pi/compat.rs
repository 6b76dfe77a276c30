//! Versions of Pi and Node, and what differs between the supported ones. The only module that may
//! look at a version number (R-PI-06).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version such as `1.6.0`, `v22.19.0` or `1.7.0-beta.2+build`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    /// What follows a `-`; empty = a release.
    pub pre: String,
}

impl Version {
    /// A release.
    #[must_use]
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self {
            major,
            minor,
            patch,
            pre: String::new(),
        }
    }
}

/// Oldest Pi that works (R-PI-06).
pub const MINIMUM: Version = Version::new(1, 4, 0);
/// Oldest Node that this Pi runs on.
pub const NODE_MINIMUM: Version = Version::new(22, 19, 0);

/// The text is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    /// Takes a leading `v`, missing minor and patch numbers, white space around.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = numbers.split('.');
        let mut next = || match parts.next() {
            Some(part) if part.bytes().all(|b| b.is_ascii_digit()) => {
                part.parse().map(Some).map_err(|_| NotAVersion)
            }
            Some(_) => Err(NotAVersion),
            None => Ok(None),
        };
        let major = next()?.ok_or(NotAVersion)?;
        let minor = next()?.unwrap_or(0);
        let patch = next()?.unwrap_or(0);
        if parts.next().is_some() {
            return Err(NotAVersion);
        }
        Ok(Self {
            major,
            minor,
            patch,
            pre: pre.to_owned(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Prereleases by semver's rule: numbers as numbers and below words, the longer one is greater.
fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => x.cmp(y),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// True when this Pi works with us. A prerelease of the oldest supported version does.
#[must_use]
pub fn pi_is_supported(version: &Version) -> bool {
    (version.major, version.minor, version.patch) >= (MINIMUM.major, MINIMUM.minor, MINIMUM.patch)
}

/// True when Pi runs on this Node.
#[must_use]
pub fn node_is_supported(version: &Version) -> bool {
    *version >= NODE_MINIMUM
}

/// Pi's commands: words that are no message when they stand first (the same in every version that
/// works).
const COMMANDS: [&str; 8] = [
    "auth",
    "config",
    "install",
    "list",
    "mcp",
    "remove",
    "uninstall",
    "update",
];

/// True when Pi takes this first argument as a command instead of opening a session.
#[must_use]
pub fn is_command(word: &str) -> bool {
    COMMANDS.contains(&word)
}

/// True when a second signal, or SIGTERM behind a closed stdin, does not cut Pi's cleanup short
/// (pi-compat H6).
#[must_use]
pub fn cleans_up_once(version: &Version) -> bool {
    *version >= Version::new(1, 5, 1)
}

/// True when an abort inside a tool is reported as `aborted`; before, as an `error` with the text
/// that `message::says_aborted` knows (pi-compat H10).
#[must_use]
pub fn reports_tool_abort(version: &Version) -> bool {
    *version >= Version::new(1, 5, 2)
}
