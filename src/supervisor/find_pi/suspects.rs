//! Looks through what Pi would load for a tool name of ours, without running anything. Cheap and no
//! proof: a file that only mentions the name is found too, one that puts it together from parts is
//! not. What is found is worth asking Pi itself about (see `clash`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{EnvPairs, agent_dir, var};

/// Files and folders looked at; what lies behind is left to Pi.
const MAX_ENTRIES: usize = 4000;
/// Of each file so much is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Of all files together so much is read, in bytes.
const MAX_TOTAL: usize = 64 * 1024 * 1024;
/// How deep folders are gone through.
const MAX_DEPTH: usize = 6;
/// Our own package, also an installed copy: its copies find each other.
const OURS: &str = "\"pi-agents-bridge\"";

/// Whether any extension that Pi may load for a session in `folder` mentions one of these names.
#[must_use]
pub fn any(env: &EnvPairs, folder: &Path, names: &[&str]) -> bool {
    let mut search = Search {
        names,
        left: MAX_ENTRIES,
        bytes: MAX_TOTAL,
    };
    let home = var(env, "HOME").map_or(Path::new("/"), Path::new);
    let mut places = Vec::new();
    if let Some(dir) = agent_dir(env) {
        places_in(&dir, home, &mut places);
    }
    // Whether the person trusts the project is Pi's to say.
    places_in(&folder.join(".pi"), home, &mut places);
    places.iter().any(|place| search.found(place, 0))
}

/// Where the extensions of one scope lie: its own folder, and what its settings name.
fn places_in(base: &Path, home: &Path, places: &mut Vec<PathBuf>) {
    places.push(base.join("extensions"));
    places.push(base.join("git"));
    let settings = read(&base.join("settings.json"))
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        .unwrap_or_default();
    let list = |key: &str| settings.get(key).and_then(Value::as_array).cloned();
    for entry in list("extensions").unwrap_or_default() {
        // With one of these in front it is a pattern for what was found, no path.
        let path = entry
            .as_str()
            .filter(|text| !text.starts_with(['!', '+', '-']));
        places.extend(path.map(|path| resolve(base, home, path)));
    }
    for entry in list("packages").unwrap_or_default() {
        let source = entry.get("source").unwrap_or(&entry).as_str();
        places.extend(source.and_then(|source| package(base, home, source)));
    }
}

/// The folder of an installed package; those from git are all looked through.
fn package(base: &Path, home: &Path, source: &str) -> Option<PathBuf> {
    if let Some(name) = source.strip_prefix("npm:") {
        // `@scope/name@1.0.0`: what follows the second `@` is the version.
        let at = name.get(1..).and_then(|rest| rest.find('@'));
        let name = at.map_or(name, |at| name.get(..=at).unwrap_or(name));
        return Some(base.join("npm/node_modules").join(name));
    }
    let elsewhere = source.starts_with("git:") || source.contains("://");
    (!elsewhere).then(|| resolve(base, home, source))
}

fn resolve(base: &Path, home: &Path, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => base.join(path),
    }
}

struct Search<'a> {
    names: &'a [&'a str],
    /// Entries that may still be looked at.
    left: usize,
    /// Bytes that may still be read.
    bytes: usize,
}

impl Search<'_> {
    fn found(&mut self, path: &Path, depth: usize) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Ok(meta) = fs::metadata(path) else {
            return false;
        };
        if meta.is_file() {
            return is_source(path) && self.mentions(path);
        }
        if !meta.is_dir() || depth > MAX_DEPTH || is_ours(path) {
            return false;
        }
        let Ok(entries) = fs::read_dir(path) else {
            return false;
        };
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            // What a package needs is not loaded as an extension.
            let skip = name == "node_modules" || name.as_encoded_bytes().starts_with(b".");
            !skip && self.found(&entry.path(), depth + 1)
        })
    }

    fn mentions(&mut self, path: &Path) -> bool {
        if self.bytes == 0 {
            return false;
        }
        let text = read(path).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(text.len());
        self.names
            .iter()
            .any(|name| memchr::memmem::find(&text, name.as_bytes()).is_some())
    }
}

fn is_source(path: &Path) -> bool {
    let kinds = ["ts", "js", "mts", "mjs", "cts", "cjs"];
    path.extension()
        .is_some_and(|e| kinds.iter().any(|kind| e == *kind))
}

fn is_ours(folder: &Path) -> bool {
    read(&folder.join("package.json"))
        .is_some_and(|text| memchr::memmem::find(&text, OURS.as_bytes()).is_some())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    // A fifo would keep us waiting.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    fs::File::open(path)
        .ok()?
        .take(MAX_BYTES)
        .read_to_end(&mut text)
        .ok()?;
    Some(text)
}
