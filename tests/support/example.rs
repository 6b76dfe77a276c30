//! Programs of our own that tests start, built as examples. `cargo test --test it` does not build
//! examples, so the first test that needs one has it built, once per run and program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::watchdog;

static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);

/// The path of the example `name`, built from the sources as they are now. Cargo's own lock keeps
/// two test runs apart.
pub fn ensure_example(name: &str) -> PathBuf {
    let _pause = watchdog::paused();
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if let Some(path) = built.get(name) {
        return path.clone();
    }
    let path = build(name);
    built.insert(name.to_owned(), path.clone());
    path
}

fn build(name: &str) -> PathBuf {
    // .../target/PROFILE/deps/it-HASH
    let test = std::env::current_exe().expect("the path of this test program");
    let profile_dir = test
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps");
    let target_dir = profile_dir.parent().expect("target/PROFILE");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--example", name])
        .args(["--profile", profile])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "the example {name} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = profile_dir.join("examples").join(name);
    assert!(path.is_file(), "no {} after its build", path.display());
    path
}
