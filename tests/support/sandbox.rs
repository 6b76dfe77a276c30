//! The world of one test: a home, Pi's folder, a work folder, the folders of the XDG
//! specification, a temporary folder, and an environment that knows nothing else. Everything
//! started with that environment carries the sandbox's mark and dies with it.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::processes::{self, Process};
use super::watchdog;

/// The variable that marks what a sandbox started.
pub const MARK: &str = "PI_AGENTS_TEST_MARK";

/// See the module. Names are one letter, since a socket below `runtime` has 107 bytes for its path.
pub struct Sandbox {
    root: TempDir,
    mark: String,
}

impl Sandbox {
    /// A new, empty one.
    pub fn new() -> Self {
        watchdog::arm();
        let mut builder = tempfile::Builder::new();
        builder.prefix("pa").rand_bytes(6);
        let usual = std::env::temp_dir();
        let root = if usual.as_os_str().len() <= 40 {
            builder.tempdir()
        } else {
            builder.tempdir_in("/tmp")
        };
        let root = root.expect("a temporary folder");
        let sandbox = Self {
            root,
            mark: uuid::Uuid::new_v4().simple().to_string(),
        };
        for dir in [
            sandbox.home(),
            sandbox.agent_dir(),
            sandbox.work(),
            sandbox.data(),
            sandbox.state(),
            sandbox.config(),
            sandbox.cache(),
            sandbox.runtime(),
            sandbox.tmp(),
        ] {
            std::fs::create_dir(&dir).expect("a folder of the sandbox");
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(&dir, private).expect("private folder");
        }
        sandbox
    }

    /// The folder that holds all others.
    pub fn root(&self) -> PathBuf {
        // Canonical, because Pi reports real paths and `/tmp` is a link on some systems.
        self.root.path().canonicalize().expect("sandbox exists")
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root().join("h")
    }

    /// `PI_CODING_AGENT_DIR`.
    pub fn agent_dir(&self) -> PathBuf {
        self.root().join("a")
    }

    /// Where agents work.
    pub fn work(&self) -> PathBuf {
        self.root().join("w")
    }

    /// `XDG_DATA_HOME`.
    pub fn data(&self) -> PathBuf {
        self.root().join("d")
    }

    /// `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.root().join("s")
    }

    /// `XDG_CONFIG_HOME`.
    pub fn config(&self) -> PathBuf {
        self.root().join("c")
    }

    /// `XDG_CACHE_HOME`.
    pub fn cache(&self) -> PathBuf {
        self.root().join("k")
    }

    /// `XDG_RUNTIME_DIR`.
    pub fn runtime(&self) -> PathBuf {
        self.root().join("r")
    }

    /// `TMPDIR`: Pi leaves logs of long command output there.
    pub fn tmp(&self) -> PathBuf {
        self.root().join("t")
    }

    /// The whole environment for a process of this sandbox: use it after `env_clear`.
    /// `first_in_path` goes before the system's PATH.
    pub fn env(&self, first_in_path: Option<&Path>) -> Vec<(OsString, OsString)> {
        let system = std::env::var_os("PATH").unwrap_or_default();
        let mut path = OsString::new();
        if let Some(first) = first_in_path {
            path.push(first);
            path.push(":");
        }
        path.push(system);
        let fixed = [
            ("PATH", path),
            ("HOME", self.home().into()),
            ("PI_CODING_AGENT_DIR", self.agent_dir().into()),
            ("PI_OFFLINE", "1".into()),
            ("XDG_DATA_HOME", self.data().into()),
            ("XDG_STATE_HOME", self.state().into()),
            ("XDG_CONFIG_HOME", self.config().into()),
            ("XDG_CACHE_HOME", self.cache().into()),
            ("XDG_RUNTIME_DIR", self.runtime().into()),
            ("TMPDIR", self.tmp().into()),
            ("TZ", "UTC".into()),
            ("LANG", "C.UTF-8".into()),
            ("SHELL", "/bin/sh".into()),
            ("TERM", "xterm-256color".into()),
            (MARK, self.mark.clone().into()),
        ];
        fixed
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect()
    }

    /// What of this sandbox runs now (not who cleared its own environment).
    pub fn processes(&self) -> Vec<Process> {
        processes::with_env(MARK, &self.mark)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // In rounds, because a process may start another while it is being killed.
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > deadline {
                break;
            }
            processes::kill(&left);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
