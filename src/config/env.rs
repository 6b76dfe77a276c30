//! The environment: an injectable copy of it, and the one table of variables the program knows.
//! `docs/environment.md` is made from [`VARIABLES`] and the settings table.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::settings;

/// Identity of the agent a process was started for.
pub const AGENT_ID: &str = "PI_SUBAGENT_AGENT_ID";
/// How deep below a person or a Pi session a process runs.
pub const DEPTH: &str = "PI_SUBAGENT_DEPTH";
/// How deep agents may go.
pub const MAX_DEPTH: &str = "PI_SUBAGENT_MAX_DEPTH";
/// Socket of the core to join.
pub const SOCKET: &str = "PI_AGENTS_SOCKET";
/// Single-use proof of identity for that core.
pub const TOKEN: &str = "PI_AGENTS_TOKEN";
/// Marker `core id:instance id` by which leftovers of a core are recognised.
pub const INSTANCE: &str = "PI_AGENTS_INSTANCE";
/// This program.
pub const BIN: &str = "PI_AGENTS_BIN";
/// The Pi to run (a setting).
pub const PI: &str = "PI_AGENTS_PI";
/// Level of the log file (a setting).
pub const LOG: &str = "PI_AGENTS_LOG";

/// One variable of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Who sets it.
    pub set_by: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// Every variable that is not a setting (settings carry their variable in their own table).
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: AGENT_ID,
        set_by: "core → child",
        meaning: "identity of the agent this process serves; always the core's own value",
    },
    Variable {
        name: DEPTH,
        set_by: "core → child",
        meaning: "depth of the agent, 1 = started by a person or a Pi session",
    },
    Variable {
        name: MAX_DEPTH,
        set_by: "core → child",
        meaning: "how deep agents may go, in a child: 1, since agents start no agents of their own. Where `PI_SUBAGENT_AGENT_ID` is not set it is the setting above",
    },
    Variable {
        name: SOCKET,
        set_by: "core → child",
        meaning: "socket of the core that Pi's extension joins; deleted by it at once, never inherited further",
    },
    Variable {
        name: TOKEN,
        set_by: "core → child",
        meaning: "proof that a Pi is the child it says it is; deleted by its extension at once, never inherited further",
    },
    Variable {
        name: INSTANCE,
        set_by: "core → child",
        meaning: "marker (core id, instance id) by which processes left behind are recognised",
    },
    Variable {
        name: "PI_AGENTS_GUARD",
        set_by: "guard → core",
        meaning: "descriptor and pid of the guard; removed by the core, never inherited further",
    },
    Variable {
        name: "PI_AGENTS_DEMO_PACE",
        set_by: "you",
        meaning: "factor on every pause of the built-in demo, default 1 (a pace for people); 0 = no pauses",
    },
    Variable {
        name: BIN,
        set_by: "you",
        meaning: "path of the pi-agents program that Pi's extension starts; else the one in `pi-agents/program` of the configuration folder, else PATH",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        set_by: "system",
        meaning: "folder of `pi-agents/config.toml`, default `~/.config`",
    },
    Variable {
        name: "XDG_DATA_HOME",
        set_by: "system",
        meaning: "folder of the saved sessions, default `~/.local/share`",
    },
    Variable {
        name: "XDG_STATE_HOME",
        set_by: "system",
        meaning: "folder of agent records and logs, default `~/.local/state`",
    },
    Variable {
        name: "XDG_CACHE_HOME",
        set_by: "system",
        meaning: "folder of what can be made again, default `~/.cache`",
    },
    Variable {
        name: "XDG_RUNTIME_DIR",
        set_by: "system",
        meaning: "folder of the sockets; without a usable one a private folder in the temporary folder",
    },
    Variable {
        name: "TMPDIR",
        set_by: "system",
        meaning: "temporary folder, default `/tmp`",
    },
    Variable {
        name: "HOME",
        set_by: "system",
        meaning: "home folder the defaults above are relative to",
    },
];

/// A copy of an environment. Values are bytes.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    vars: HashMap<OsString, OsString>,
    /// Home folder from the user database, for when `HOME` is not set.
    home: Option<PathBuf>,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
        }
    }

    /// An environment with exactly these variables.
    pub fn of<K: Into<OsString>, V: Into<OsString>>(
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self {
            vars: vars
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            home: None,
        }
    }

    /// A variable; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// A variable that holds an absolute path; anything else counts as not set (XDG says so).
    #[must_use]
    pub fn absolute(&self, name: &str) -> Option<&Path> {
        self.get(name)
            .map(Path::new)
            .filter(|path| path.is_absolute())
    }

    /// The home folder.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.absolute("HOME").or(self.home.as_deref())
    }
}

/// The text of `docs/environment.md`.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(
        "# Environment and settings\n\n\
         <!-- Generated from src/config; `UPDATE_GENERATED=1 cargo test --test it control::` writes it again. -->\n\n\
         The command line beats the environment, the environment beats the file\n\
         `pi-agents/config.toml` in the configuration folder, the file beats the default.\n\n\
         ## Settings\n\n\
         | key in the file | variable | default | meaning |\n|---|---|---|---|\n",
    );
    for setting in settings::TABLE {
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} | {} |",
            setting.key, setting.env, setting.default, setting.doc
        );
    }
    out.push_str(
        "\n## Other variables\n\nAn empty variable counts as not set.\n\n\
         | variable | set by | meaning |\n|---|---|---|\n",
    );
    for variable in VARIABLES {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            variable.name, variable.set_by, variable.meaning
        );
    }
    out
}
