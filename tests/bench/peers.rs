//! Peers of the ingest bench, where they are installed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nanoseconds of CPU per byte that Pi's own `RpcClient` needs for this stream, or why it was not
/// measured. Uses the newest Pi and the Node that the tests installed in their cache.
pub fn rpc_client(stream: &[u8]) -> Result<f64, String> {
    let cache = cache().ok_or("no cache folder")?;
    let pi = newest(&cache, "pi-").ok_or("no Pi in the tests' cache; `cargo test` fetches it")?;
    let package = pi.join("node_modules/@earendil-works/pi-coding-agent");
    let node = node(&cache).ok_or("no Node in the tests' cache")?;
    let mut file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let written = file.write_all(stream).and_then(|()| {
        file.write_all(b"{\"type\":\"bench_end\"}\n")?;
        file.flush()
    });
    written.map_err(|e| e.to_string())?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/peers/rpc_client.mjs");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs = vec![node.clone()];
    dirs.extend(std::env::split_paths(&path));
    let output = Command::new(node.join("node"))
        .arg(script)
        .args([package.as_path(), file.path()])
        .env(
            "PATH",
            std::env::join_paths(dirs).map_err(|e| e.to_string())?,
        )
        .env("PI_OFFLINE", "1")
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: serde_json::Value = serde_json::from_str(text.trim())
        .map_err(|_| format!("no result: {}", String::from_utf8_lossy(&output.stderr)))?;
    answer["ns"].as_f64().ok_or_else(|| "no result".to_owned())
}

fn cache() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("PI_AGENTS_TEST_CACHE") {
        return Some(dir.into());
    }
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    Some(base.join("pi-agents-tests"))
}

fn newest(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .ok()?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            p.is_dir()
                && p.file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with(prefix))
        })
        .collect();
    found.sort();
    found.pop()
}

fn node(cache: &Path) -> Option<PathBuf> {
    let root = newest(cache, "node-")?;
    let mut waiting = vec![root];
    while let Some(dir) = waiting.pop() {
        if dir.join("node").is_file() {
            return Some(dir);
        }
        for entry in std::fs::read_dir(dir).ok()?.flatten() {
            if entry.path().is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    None
}
