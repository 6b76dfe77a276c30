//! The embedded files: complete, written whole, repaired, safe beside others.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pi_agents::bridge::{self, FILES};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn below(folder: &Path, from: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(below(&path, from));
        } else {
            let name = path.strip_prefix(from).unwrap();
            all.insert(name.to_str().unwrap().to_owned());
        }
    }
    all
}

/// What a package must consist of.
fn whole(package: &Path) {
    for (name, content) in FILES {
        let there = std::fs::read_to_string(package.join(name)).unwrap();
        assert_eq!(there, *content, "{name}");
    }
    let names: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(below(package, package), names);
}

// R-PI-18: a file that is added to the bridge is shipped.
#[test]
fn everything_is_embedded() {
    let assets = root().join("assets/bridge");
    let mut sources = below(&assets, &assets);
    // Only for the type check.
    assert!(sources.remove("tsconfig.json"));
    let skills = root().join("skills");
    sources.extend(below(&skills, &root()));
    let embedded: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(embedded, sources);
}

// R-PI-14, R-PI-18: a Pi package with extension and skill, and nothing to be installed.
#[test]
fn the_package_is_one_of_pi() {
    let text = FILES.iter().find(|(name, _)| *name == "package.json");
    let package: Value = serde_json::from_str(text.unwrap().1).unwrap();
    assert_eq!(
        package["pi"]["extensions"],
        serde_json::json!(["./src/index.ts"])
    );
    assert_eq!(package["pi"]["skills"], serde_json::json!(["./skills"]));
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    assert!(package.get("dependencies").is_none());
    let version = format!("const VERSION = \"{}\";", env!("CARGO_PKG_VERSION"));
    let core = FILES.iter().find(|(name, _)| *name == "src/core.ts");
    assert!(
        core.unwrap().1.contains(&version),
        "the bridge says another version"
    );
}

// R-PI-18
#[test]
fn it_is_written_once_and_left_alone() {
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().join("deep/pi-agents");
    let package = bridge::install(&cache).unwrap();
    assert_eq!(package, bridge::folder(&cache));
    whole(&package);
    let stamp = |name: &str| {
        let file = package.join(name).metadata().unwrap();
        (
            std::os::unix::fs::MetadataExt::ino(&file),
            file.modified().unwrap(),
        )
    };
    let before = stamp("src/index.ts");
    assert_eq!(bridge::install(&cache).unwrap(), package);
    assert_eq!(stamp("src/index.ts"), before);
}

// R-PI-18: whatever happened to it, it is whole again.
#[test]
fn damage_is_repaired() {
    let cache = tempfile::tempdir().unwrap();
    let package = bridge::install(cache.path()).unwrap();
    let damage: [&dyn Fn(); 6] = [
        &|| std::fs::write(package.join("src/index.ts"), "half").unwrap(),
        &|| std::fs::remove_file(package.join("tools.json")).unwrap(),
        &|| std::fs::remove_dir_all(package.join("src")).unwrap(),
        &|| {
            std::fs::remove_dir_all(package.join("skills")).unwrap();
            std::fs::write(package.join("skills"), "a file").unwrap();
        },
        &|| {
            std::fs::remove_file(package.join("package.json")).unwrap();
            std::fs::create_dir_all(package.join("package.json/x")).unwrap();
        },
        &|| {
            std::fs::remove_dir_all(&package).unwrap();
            std::os::unix::fs::symlink("/nowhere/at/all", &package).unwrap();
        },
    ];
    for spoil in damage {
        spoil();
        bridge::install(cache.path()).unwrap();
        whole(&package);
    }
}

// R-PI-18: many at once, and a reader among them, never see half a file.
#[test]
fn many_can_write_it_at_once() {
    let cache = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let package = bridge::install(cache.path()).unwrap();
                for (name, content) in FILES {
                    let there = std::fs::read_to_string(package.join(name)).unwrap();
                    assert_eq!(there, *content, "{name}");
                }
            });
        }
    });
    whole(&bridge::folder(cache.path()));
}

#[test]
fn where_it_cannot_be_written_is_said() {
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("taken");
    std::fs::write(&file, "").unwrap();
    let error = bridge::install(&file.join("below"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("taken/below"), "{error}");
    assert!(error.contains("XDG_CACHE_HOME"), "{error}");
    let package = bridge::install(cache.path()).unwrap();
    let mode = package.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
