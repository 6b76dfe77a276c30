//! The bridge's TypeScript against the types of every Pi that is supported.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::pi_install::{node_dir, real_pi, typescript};
use crate::support::versions::Version;

/// Compiles the sources beside a Pi's packages; gives what the compiler said.
fn check(version: Version, spoil: impl Fn(&Path)) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let assets = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/bridge");
    for name in ["package.json", "tsconfig.json"] {
        std::fs::copy(assets.join(name), folder.path().join(name)).unwrap();
    }
    let sources = folder.path().join("src");
    std::fs::create_dir(&sources).unwrap();
    for entry in std::fs::read_dir(assets.join("src")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, sources.join(path.file_name().unwrap())).unwrap();
    }
    spoil(&sources);
    let package = real_pi(version).package;
    let modules = package.ancestors().find(|p| p.ends_with("node_modules"));
    std::os::unix::fs::symlink(modules.unwrap(), folder.path().join("node_modules")).unwrap();
    let output = Command::new(node_dir().join("node"))
        .arg(typescript())
        .args(["--project", "."])
        .current_dir(folder.path())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).into_owned())
}

// R-PI-06, R-PI-14
#[test]
fn it_fits_the_types_of_every_supported_pi() {
    for version in Version::ALL {
        let said = check(version, |_| {});
        assert_eq!(said, Ok(()), "Pi {}", version.number());
    }
}

/// Without this the check above could be one that finds nothing.
#[test]
fn the_check_finds_what_does_not_fit() {
    let said = check(Version::Oldest, |sources| {
        let wrong = "import type { ExtensionAPI } from \"@earendil-works/pi-coding-agent\";\n\
                     export const f = (pi: ExtensionAPI) => pi.on(\"turn_ends\", () => {});\n";
        std::fs::write(sources.join("wrong.ts"), wrong).unwrap();
    });
    let said = said.unwrap_err();
    assert!(
        said.contains("wrong.ts") && said.contains("turn_ends"),
        "{said}"
    );
}
