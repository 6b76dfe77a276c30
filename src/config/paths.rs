//! Where every file of the program lies. Resolving creates nothing; `ensure_*` do.
//!
//! Saved sessions lie in the data folder, never in Pi's own tree (R-LIFE-17). Everything that
//! belongs to a folder of a person is named by a hash of that folder's canonical path.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::env::Environment;
use super::folder;
use super::private_dir::{self, DirError};
use crate::sys::user;

/// Longest path of a Unix socket, in bytes (108 with the closing NUL on Linux).
pub const MAX_SOCKET_PATH: usize = 107;
/// `/`, 36 characters of an id or 16 of a hash, `.sock`.
const SOCKET_NAME: usize = 1 + 36 + 5;
/// Own part of every path.
const APP: &str = "pi-agents";

/// Why there is no path.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// No home folder.
    #[error("your home folder is unknown; set HOME, or {variable}, to an absolute path")]
    NoHome {
        /// The variable that would do as well.
        variable: &'static str,
    },
    /// A working folder that cannot be used.
    #[error("cannot work in {path}: {source}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A folder of ours that cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
}

/// The five roots. Each already ends in the program's own part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Configuration.
    pub config: PathBuf,
    /// Saved sessions.
    pub data: PathBuf,
    /// Records and logs.
    pub state: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// Sockets.
    pub runtime: PathBuf,
}

impl Paths {
    /// Works the roots out of an environment. Looks at the disk only to see whether the runtime
    /// folder of the system can be used.
    ///
    /// # Errors
    /// [`PathsError::NoHome`] when a root is neither set nor derivable.
    pub fn resolve(env: &Environment) -> Result<Self, PathsError> {
        let root = |variable: &'static str, below_home: &str| {
            env.absolute(variable)
                .map(Path::to_owned)
                .or_else(|| env.home().map(|home| home.join(below_home)))
                .map(|base| base.join(APP))
                .ok_or(PathsError::NoHome { variable })
        };
        let [config, data, state, cache] = if cfg!(target_os = "macos") {
            [
                "Library/Application Support",
                "Library/Application Support",
                "Library/Application Support",
                "Library/Caches",
            ]
        } else {
            [".config", ".local/share", ".local/state", ".cache"]
        };
        Ok(Self {
            config: root("XDG_CONFIG_HOME", config)?,
            data: root("XDG_DATA_HOME", data)?,
            state: root("XDG_STATE_HOME", state)?,
            cache: root("XDG_CACHE_HOME", cache)?,
            runtime: runtime(env),
        })
    }

    /// The configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Saved sessions of a folder's agents.
    #[must_use]
    pub fn sessions(&self, folder: &Path) -> PathBuf {
        self.data.join("sessions").join(folder::slug(folder))
    }

    /// Everything remembered about a folder's host.
    #[must_use]
    pub fn host_dir(&self, folder: &Path) -> PathBuf {
        self.state.join("hosts").join(folder::hash(folder))
    }

    /// Journals of hosts, by session id.
    #[must_use]
    pub fn journals(&self) -> PathBuf {
        self.state.join("journals")
    }

    /// Identity of a folder's host.
    #[must_use]
    pub fn host_file(&self, folder: &Path) -> PathBuf {
        self.host_dir(folder).join("host.json")
    }

    /// Held for as long as a core works for the folder.
    #[must_use]
    pub fn host_lock(&self, folder: &Path) -> PathBuf {
        self.host_dir(folder).join("core.lock")
    }

    /// Records of a folder's agents.
    #[must_use]
    pub fn agents_dir(&self, folder: &Path) -> PathBuf {
        self.host_dir(folder).join("agents")
    }

    /// The record of one agent.
    #[must_use]
    pub fn agent_file(&self, folder: &Path, agent: Uuid) -> PathBuf {
        self.agents_dir(folder).join(format!("{agent}.json"))
    }

    /// Locks of live cores: who holds none is gone, and what it left can be swept.
    #[must_use]
    pub fn cores_dir(&self) -> PathBuf {
        self.state.join("cores")
    }

    /// The lock of one core.
    #[must_use]
    pub fn core_lock(&self, core: Uuid) -> PathBuf {
        self.cores_dir().join(format!("{core}.lock"))
    }

    /// Records of the agents of Pi sessions, a folder for each session.
    #[must_use]
    pub fn session_agents_dir(&self) -> PathBuf {
        self.state.join("session-agents")
    }

    /// Where the core of a Pi session listens for viewers.
    #[must_use]
    pub fn session_socket(&self, core: uuid::Uuid) -> PathBuf {
        let name = core.simple().to_string();
        // The end of a time-ordered id is its random part.
        let short = name.get(20..).unwrap_or(&name);
        self.runtime.join(format!("pi-{short}.sock"))
    }

    /// Locks on saved sessions, across cores (R-LIFE-17).
    #[must_use]
    pub fn session_locks_dir(&self) -> PathBuf {
        self.state.join("session-locks")
    }

    /// Log files.
    #[must_use]
    pub fn logs_dir(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The log file of one core.
    #[must_use]
    pub fn core_log(&self, core: Uuid) -> PathBuf {
        self.logs_dir().join(format!("core-{core}.log"))
    }

    /// Socket of the core of a folder. Always short enough for the system.
    #[must_use]
    pub fn socket(&self, folder: &Path) -> PathBuf {
        self.runtime
            .join(format!("{}.sock", folder::short_hash(folder)))
    }

    /// Makes and checks the runtime folder: 0700, ours, no symlink (R-Q-03).
    ///
    /// # Errors
    /// [`DirError`], naming the folder and the way out.
    pub fn ensure_runtime(&self) -> Result<(), DirError> {
        private_dir::ensure(&self.runtime, "XDG_RUNTIME_DIR")
    }

    /// Makes the folder of saved sessions of a folder.
    ///
    /// # Errors
    /// [`DirError::Make`].
    pub fn ensure_sessions(&self, folder: &Path) -> Result<PathBuf, DirError> {
        let dir = self.sessions(folder);
        private_dir::create_all(&dir, "XDG_DATA_HOME")?;
        Ok(dir)
    }

    /// Makes a folder below the state folder.
    ///
    /// # Errors
    /// [`DirError::Make`].
    pub fn ensure_state(&self, dir: &Path) -> Result<(), DirError> {
        private_dir::create_all(dir, "XDG_STATE_HOME")
    }
}

/// The folder a person's core works for: canonical, no search for a repository (design §2).
///
/// # Errors
/// [`PathsError::Folder`] when it is missing, no folder, or closed to us.
pub fn canonical_folder(path: &Path) -> Result<PathBuf, PathsError> {
    let fail = |source| PathsError::Folder {
        path: path.to_owned(),
        source,
    };
    let folder = std::fs::canonicalize(path).map_err(fail)?;
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(fail(std::io::ErrorKind::NotADirectory.into()))
    }
}

/// The system's runtime folder when it is ours, else a private one in the temporary folder. A
/// path that leaves no room for a socket name is replaced by a short one with its hash, so that
/// different long paths stay apart.
fn runtime(env: &Environment) -> PathBuf {
    let user = user::uid();
    let given = env
        .absolute("XDG_RUNTIME_DIR")
        .filter(|dir| std::fs::metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == user))
        .map(|dir| dir.join(APP));
    let temporary = env
        .absolute("TMPDIR")
        .filter(|dir| dir.is_dir())
        .unwrap_or(Path::new("/tmp"));
    let wanted = given.unwrap_or_else(|| temporary.join(format!("{APP}-{user}")));
    if wanted.as_os_str().len() + SOCKET_NAME <= MAX_SOCKET_PATH {
        return wanted;
    }
    let short = format!("{APP}-{user}-{}", folder::short_hash(&wanted));
    Path::new("/tmp").join(short)
}
