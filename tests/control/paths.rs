//! Where files lie. R-LIFE-17, R-Q-03, B094, B101.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use pi_agents::config::env::Environment;
use pi_agents::config::folder;
use pi_agents::config::paths::{self, MAX_SOCKET_PATH, Paths};
use pi_agents::config::private_dir;
use proptest::prelude::*;
use uuid::Uuid;

pub fn sandbox(root: &Path) -> Paths {
    let runtime = root.join("run");
    std::fs::create_dir_all(&runtime).unwrap();
    Paths::resolve(&Environment::of([
        ("HOME", root.join("home").into_os_string()),
        ("XDG_CONFIG_HOME", root.join("config").into_os_string()),
        ("XDG_DATA_HOME", root.join("data").into_os_string()),
        ("XDG_STATE_HOME", root.join("state").into_os_string()),
        ("XDG_RUNTIME_DIR", runtime.into_os_string()),
    ]))
    .unwrap()
}

#[test]
fn roots_come_from_the_system_variables() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    let folder = Path::new("/home/ada/project");
    let at = |rest: &str| root.path().join(rest);
    assert_eq!(paths.config_file(), at("config/pi-agents/config.toml"));
    let sessions = paths.sessions(folder);
    assert!(sessions.starts_with(at("data/pi-agents/sessions")));
    assert!(
        sessions
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("project-")
    );
    let hash = folder::hash(folder);
    let agent = Uuid::from_u128(5);
    assert_eq!(
        paths.agent_file(folder, agent),
        at(&format!("state/pi-agents/hosts/{hash}/agents/{agent}.json"))
    );
    assert_eq!(
        paths.host_file(folder),
        at(&format!("state/pi-agents/hosts/{hash}/host.json"))
    );
    assert_eq!(
        paths.core_lock(agent),
        at(&format!("state/pi-agents/cores/{agent}.lock"))
    );
    assert!(
        paths
            .core_log(agent)
            .starts_with(at("state/pi-agents/logs"))
    );
    assert_eq!(paths.socket(folder).parent().unwrap(), at("run/pi-agents"));
    // Nothing was made by asking.
    assert!(!at("state").exists() && !at("run/pi-agents").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn without_variables_they_lie_below_home() {
    let paths = Paths::resolve(&Environment::of([
        ("HOME", "/home/ada"),
        ("XDG_DATA_HOME", ""),
        ("XDG_STATE_HOME", "relative/is/ignored"),
    ]))
    .unwrap();
    assert_eq!(paths.config, Path::new("/home/ada/.config/pi-agents"));
    assert_eq!(paths.data, Path::new("/home/ada/.local/share/pi-agents"));
    assert_eq!(paths.state, Path::new("/home/ada/.local/state/pi-agents"));
    assert_eq!(paths.cache, Path::new("/home/ada/.cache/pi-agents"));
}

#[test]
fn no_home_names_the_variable() {
    let error = Paths::resolve(&Environment::of([("PATH", "/bin")])).unwrap_err();
    assert!(error.to_string().contains("set HOME"), "{error}");
}

#[test]
fn a_runtime_folder_that_cannot_be_used_is_replaced_by_a_private_one() {
    let root = tempfile::tempdir().unwrap();
    let user = rustix::process::geteuid().as_raw();
    let runtime = |run: &Path, tmp: &Path| {
        Paths::resolve(&Environment::of([
            ("HOME", root.path().as_os_str()),
            ("XDG_RUNTIME_DIR", run.as_os_str()),
            ("TMPDIR", tmp.as_os_str()),
        ]))
        .unwrap()
        .runtime
    };
    let missing = Path::new("/nonexistent");
    assert_eq!(
        runtime(missing, root.path()),
        root.path().join(format!("pi-agents-{user}"))
    );
    assert_eq!(
        runtime(missing, missing),
        PathBuf::from(format!("/tmp/pi-agents-{user}"))
    );
    // Too long for a socket: short and by hash, one per long path.
    let mut shorts = Vec::new();
    for name in ["a", "b"] {
        let long = root.path().join(name.repeat(100));
        std::fs::create_dir(&long).unwrap();
        let paths = Paths {
            runtime: runtime(&long, root.path()),
            ..sandbox(root.path())
        };
        let socket = paths.socket(Path::new("/home/ada/project"));
        assert!(socket.as_os_str().len() <= MAX_SOCKET_PATH, "{socket:?}");
        assert!(!paths.runtime.starts_with(&long));
        shorts.push(paths.runtime);
    }
    assert_ne!(shorts[0], shorts[1]);
}

// B094: 0700 and ours, or refused; also when it is a symlink.
#[test]
fn the_runtime_folder_is_private_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    paths.ensure_runtime().unwrap();
    let mode = std::fs::metadata(&paths.runtime)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    paths.ensure_runtime().unwrap();

    std::fs::set_permissions(&paths.runtime, PermissionsExt::from_mode(0o755)).unwrap();
    let error = paths.ensure_runtime().unwrap_err().to_string();
    let named = paths.runtime.display().to_string();
    assert!(
        error.contains(&named) && error.contains("chmod 700"),
        "{error}"
    );

    std::fs::remove_dir(&paths.runtime).unwrap();
    let elsewhere = root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o700)).unwrap();
    symlink(&elsewhere, &paths.runtime).unwrap();
    let error = paths.ensure_runtime().unwrap_err().to_string();
    assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");

    std::fs::remove_file(&paths.runtime).unwrap();
    std::fs::write(&paths.runtime, "").unwrap();
    assert!(paths.ensure_runtime().is_err());
    assert!(paths.runtime.exists());
}

#[test]
#[allow(clippy::print_stderr)]
fn the_runtime_folder_of_another_user_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    paths.ensure_runtime().unwrap();
    let nobody = Some(rustix::fs::Uid::from_raw(65534));
    if rustix::fs::chown(&paths.runtime, nobody, None).is_err() {
        eprintln!("not run: only root can give a folder away");
        return;
    }
    let error = paths.ensure_runtime().unwrap_err().to_string();
    assert!(error.contains("65534"), "{error}");
}

// B101: the message names the real folder and what to do.
#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    std::fs::write(root.path().join("data"), "a file").unwrap();
    let error = paths
        .ensure_sessions(Path::new("/home/ada"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&root.path().join("data").display().to_string()),
        "{error}"
    );
    assert!(error.contains("XDG_DATA_HOME"), "{error}");
    assert!(private_dir::create_all(&root.path().join("x/y/z"), "X").is_ok());
    let mode = std::fs::metadata(root.path().join("x/y"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_folder_of_a_core_is_the_canonical_one() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap().join("real");
    std::fs::create_dir(&real).unwrap();
    symlink(&real, root.path().join("link")).unwrap();
    let folder = paths::canonical_folder(&root.path().join("link/../link")).unwrap();
    assert_eq!(folder, real);
    std::fs::write(real.join("file"), "").unwrap();
    for wrong in ["file", "missing"] {
        let error = paths::canonical_folder(&real.join(wrong)).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
}

#[test]
fn hashes_never_change() {
    // Records of earlier versions are found by them.
    assert_eq!(
        folder::hash(Path::new("/home/ada/project")),
        "4c631209bcc23da1212d874c949fcc64"
    );
    assert_eq!(
        folder::slug(Path::new("/")).split('-').next(),
        Some("folder")
    );
    assert!(folder::slug(Path::new("/x/..hidden dir (2).d")).starts_with("hidden-dir-2-.d-"));
}

proptest! {
    #[test]
    fn slugs_are_harmless_and_tell_folders_apart(
        a in prop::collection::vec(any::<u8>(), 0..300),
        b in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let path = |bytes: &Vec<u8>| Path::new("/").join(OsString::from_vec(bytes.clone()));
        let (a, b) = (path(&a), path(&b));
        let slug = folder::slug(&a);
        prop_assert!(slug.len() <= 57);
        prop_assert!(slug.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
        prop_assert!(!slug.starts_with(['.', '-']));
        if a.as_os_str() != b.as_os_str() {
            prop_assert_ne!(slug, folder::slug(&b));
        }
    }
}
