//! Finds the Pi to run and the Node that can run it, without trusting either by its name.
//!
//! Owns: reading `--pi CMD`, the search of PATH, the check that the program found is Pi and new enough, the
//! choice of a Node. Does not own: starting agents, caching (the caller keeps what was found).
//!
//! Invariants: nothing is ever run by a shell; every probe is bounded in time and output and leaves no process;
//! the environment used is the requester's (R-LIFE-18), never this process's own. All calls block.

mod clash;
mod models;
mod probe;
mod problem;
mod suspects;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use clash::{
    LOAD_TIMEOUT, ask as ask_for_clashes, ask_within as ask_for_clashes_within, same_tool,
};
pub use models::no_models;
pub use probe::NotAsked;
pub use problem::{Choice, PiProblem};
pub use suspects::any as any_suspect;
pub use words::{WordsError, split_words};

use crate::pi::compat::{self, Version};

use probe::{NODE_TIMEOUT, Probe, VERSION_TIMEOUT, probe_version};

/// Name of Pi's package: proof that a program is Pi.
pub const PI_PACKAGE: &str = "@earendil-works/pi-coding-agent";

/// Where programs are looked for when the requester has no PATH at all.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How many Nodes on PATH are tried.
const MAX_NODES: usize = 8;

/// How far above a program its `package.json` may lie (`dist/bundle/cli.js` needs three).
const PACKAGE_DEPTH: usize = 5;

/// A `package.json` larger than this is not read.
const MAX_PACKAGE_BYTES: u64 = 1024 * 1024;

/// One environment, as the requester sent it. Later entries win, as with `execve` callers that overwrite.
pub type EnvPairs = [(OsString, OsString)];

/// A Pi that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PiFound {
    /// Program (absolute) and the words that go before Pi's own options.
    pub argv: Vec<OsString>,
    /// Version it says it is.
    pub version: Version,
    /// Folder of a Node that can run it: to be put first in the child's PATH. `None` = PATH is right as it is,
    /// or no Node is needed.
    pub path_prefix: Option<PathBuf>,
}

impl PiFound {
    /// Value of PATH for the child: the good Node first, then what the requester has.
    #[must_use]
    pub fn path_for_child(&self, env: &EnvPairs) -> Option<OsString> {
        let prefix = self.path_prefix.as_deref()?;
        Some(path_with_prefix(prefix, env))
    }
}

/// Finds Pi.
///
/// `pi_command` is the person's `--pi CMD`; without it PATH of `env` is searched for `pi`. Blocks: reads files and
/// may run `node --version` and `CMD --version`, each bounded.
///
/// # Errors
/// What is wrong, with the way out; see [`PiProblem`].
pub fn find(pi_command: Option<&str>, env: &EnvPairs) -> Result<PiFound, PiProblem> {
    find_within(pi_command, env, VERSION_TIMEOUT)
}

/// The same with another bound on every program that is asked for its version.
///
/// # Errors
/// As [`find`].
pub fn find_within(
    pi_command: Option<&str>,
    env: &EnvPairs,
    limit: Duration,
) -> Result<PiFound, PiProblem> {
    let mut argv = match pi_command {
        Some(command) => command_words(command)?,
        None => vec![OsString::from("pi")],
    };
    let Some(name) = argv.first().cloned() else {
        return Err(PiProblem::BadCommand {
            command: pi_command.unwrap_or_default().to_owned(),
            why: "it is empty".to_owned(),
        });
    };
    let program = locate(&name, env, pi_command)?;
    if let Some(first) = argv.first_mut() {
        *first = program.clone().into_os_string();
    }

    let kind = Kind::of(&program);
    // With more words the program is a launcher (`npx pi`): what it starts is known only by asking it.
    let package = if argv.len() == 1 {
        package_version(&program)
    } else {
        None
    };
    if let Some(version) = package {
        check_age(&version, &program, pi_command)?;
        let path_prefix = match kind {
            Kind::EnvNode => node_on_path(&program, env, limit)?,
            Kind::Node(node) => {
                node_in_shebang(&node, &program, env, limit)?;
                None
            }
            Kind::Other => None,
        };
        return Ok(PiFound {
            argv,
            version,
            path_prefix,
        });
    }

    // Not Pi's own package: a wrapper, a fake, or another program of that name. It has to say so itself (B100).
    let (mut path_prefix, needs_node) = match kind {
        Kind::EnvNode => (node_on_path(&program, env, limit)?, true),
        Kind::Node(node) => {
            node_in_shebang(&node, &program, env, limit)?;
            (None, true)
        }
        Kind::Other => (None, false),
    };
    let answer = probe_version(&argv, &child_env(env, path_prefix.as_deref()), limit);
    let version = match (answer, needs_node) {
        (Probe::Version(version), _) => version,
        (first, true) | (first @ Probe::NotNow { .. }, _) => {
            return Err(not_pi(&program, first, limit));
        }
        // A shell wrapper around Pi fails when the first Node on PATH is too old: try again with a good one.
        (first, false) => match node_on_path(&program, env, limit) {
            Ok(Some(dir)) => match probe_version(&argv, &child_env(env, Some(&dir)), limit) {
                Probe::Version(version) => {
                    path_prefix = Some(dir);
                    version
                }
                Probe::Silent
                | Probe::Said(_)
                | Probe::Slow
                | Probe::CannotRun(_)
                | Probe::NotNow { .. } => {
                    return Err(not_pi(&program, first, limit));
                }
            },
            Ok(None) | Err(_) => return Err(not_pi(&program, first, limit)),
        },
    };
    check_age(&version, &program, pi_command)?;
    Ok(PiFound {
        argv,
        version,
        path_prefix,
    })
}

fn command_words(command: &str) -> Result<Vec<OsString>, PiProblem> {
    split_words(command)
        .map(|words| words.into_iter().map(OsString::from).collect())
        .map_err(|error| PiProblem::BadCommand {
            command: command.to_owned(),
            why: error.to_string(),
        })
}

fn check_age(version: &Version, path: &Path, command: Option<&str>) -> Result<(), PiProblem> {
    if compat::pi_is_supported(version) {
        return Ok(());
    }
    Err(PiProblem::TooOld {
        path: path.to_owned(),
        found: version.clone(),
        needed: compat::MINIMUM,
        given: command.is_some(),
    })
}

fn not_pi(path: &Path, answer: Probe, limit: Duration) -> PiProblem {
    let (why, said) = match answer {
        Probe::CannotRun(why) => {
            return PiProblem::CannotRun {
                path: path.to_owned(),
                why,
            };
        }
        Probe::NotNow { why, way_out } => return not_now(path, why, way_out),
        Probe::Slow => (
            format!("it did not answer --version within {limit:?}"),
            String::new(),
        ),
        Probe::Said(said) => ("its --version is not a version".to_owned(), said),
        Probe::Silent => ("its --version says nothing".to_owned(), String::new()),
        // Not reached: a version is no reason to refuse.
        Probe::Version(version) => (format!("it is version {version}"), String::new()),
    };
    PiProblem::NotPi {
        path: path.to_owned(),
        why,
        said,
    }
}

fn not_now(path: &Path, why: String, way_out: &'static str) -> PiProblem {
    PiProblem::NotNow {
        path: path.to_owned(),
        why,
        way_out,
    }
}

// ---- programs on PATH ------------------------------------------------------------------------

/// The last value of a variable.
fn var<'a>(env: &'a EnvPairs, name: &str) -> Option<&'a OsStr> {
    env.iter()
        .rev()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_os_str())
}

/// Pi's folder of settings and extensions; `None` = there is no home to have it in.
fn agent_dir(env: &EnvPairs) -> Option<PathBuf> {
    let home = var(env, "HOME").filter(|home| !home.is_empty());
    let home = home.map(PathBuf::from)?;
    Some(match var(env, "PI_CODING_AGENT_DIR") {
        Some(dir) if !dir.is_empty() => match Path::new(dir).strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => PathBuf::from(dir),
        },
        _ => home.join(".pi/agent"),
    })
}

/// Absolute folders of the requester's PATH, in order. Relative ones are left out: they would mean
/// another folder in the core than in the requester's shell.
fn path_dirs(env: &EnvPairs) -> Vec<PathBuf> {
    let path = var(env, "PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .collect()
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn locate(name: &OsStr, env: &EnvPairs, command: Option<&str>) -> Result<PathBuf, PiProblem> {
    let as_path = Path::new(name);
    if as_path.components().count() > 1 || as_path.is_absolute() {
        let path = std::path::absolute(as_path).unwrap_or_else(|_| as_path.to_owned());
        return match std::fs::metadata(&path) {
            Err(_) => Err(PiProblem::NotFound {
                command: command.map(str::to_owned),
                program: path.display().to_string(),
            }),
            Ok(_) if !is_executable(&path) => Err(PiProblem::CannotRun {
                path,
                why: "it is not an executable file".to_owned(),
            }),
            Ok(_) => Ok(path),
        };
    }
    path_dirs(env)
        .into_iter()
        .map(|dir| dir.join(name))
        .find(|path| is_executable(path))
        .ok_or_else(|| PiProblem::NotFound {
            command: command.map(str::to_owned),
            program: name.to_string_lossy().into_owned(),
        })
}

// ---- what kind of program --------------------------------------------------------------------

/// How the kernel would start a program.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// `#!/usr/bin/env node`: the first Node on PATH.
    EnvNode,
    /// `#!/path/to/node`: this one.
    Node(PathBuf),
    /// A binary or a script for something else: needs no Node that we could know of.
    Other,
}

impl Kind {
    fn of(program: &Path) -> Self {
        let mut head = [0_u8; 256];
        let Ok(read) = File::open(program).and_then(|mut file| file.read(&mut head)) else {
            return Self::Other;
        };
        let head = String::from_utf8_lossy(head.get(..read).unwrap_or_default()).into_owned();
        let Some(line) = head
            .strip_prefix("#!")
            .and_then(|rest| rest.lines().next())
            .map(str::trim)
        else {
            return Self::Other;
        };
        let mut words = line.split_ascii_whitespace();
        let interpreter = Path::new(words.next().unwrap_or_default());
        let is_node = |path: &Path| {
            path.file_name()
                .is_some_and(|name| name == "node" || name == "nodejs")
        };
        if is_node(interpreter) {
            return Self::Node(interpreter.to_owned());
        }
        let by_env = interpreter.file_name().is_some_and(|name| name == "env")
            && words
                .find(|word| !word.starts_with('-') && !word.contains('='))
                .is_some_and(|word| is_node(Path::new(word)));
        if by_env { Self::EnvNode } else { Self::Other }
    }
}

/// Version in the `package.json` of Pi's package, if the program belongs to it (pi-compat F13: nothing is run).
fn package_version(program: &Path) -> Option<Version> {
    #[derive(serde::Deserialize)]
    struct Package {
        name: Option<String>,
        version: Option<String>,
    }
    let real = std::fs::canonicalize(program).ok()?;
    real.ancestors()
        .skip(1)
        .take(PACKAGE_DEPTH)
        .find_map(|dir| {
            let mut text = String::new();
            File::open(dir.join("package.json"))
                .ok()?
                .take(MAX_PACKAGE_BYTES)
                .read_to_string(&mut text)
                .ok()?;
            let package: Package = serde_json::from_str(&text).ok()?;
            (package.name.as_deref() == Some(PI_PACKAGE)).then(|| package.version?.parse().ok())?
        })
}

// ---- Node ------------------------------------------------------------------------------------

/// Folder to put first in PATH so that `env node` finds a good Node; `None` = it does already.
fn node_on_path(
    program: &Path,
    env: &EnvPairs,
    limit: Duration,
) -> Result<Option<PathBuf>, PiProblem> {
    let mut dirs = path_dirs(env);
    // Version managers put Pi beside the Node it was installed with, also when PATH knows nothing of it.
    dirs.extend(program.parent().map(Path::to_owned));
    let mut best: Option<(Version, PathBuf)> = None;
    let mut seen = Vec::new();
    for dir in dirs {
        let node = dir.join("node");
        if seen.contains(&node) || seen.len() >= MAX_NODES || !is_executable(&node) {
            continue;
        }
        let first = seen.is_empty();
        seen.push(node.clone());
        let version = match probe_version(&[node.clone().into()], env, limit.min(NODE_TIMEOUT)) {
            Probe::Version(version) => version,
            // The next would say the same, and "no Node" would be wrong.
            Probe::NotNow { why, way_out } => return Err(not_now(&node, why, way_out)),
            Probe::Silent | Probe::Said(_) | Probe::Slow | Probe::CannotRun(_) => continue,
        };
        if compat::node_is_supported(&version) {
            return Ok((!first).then_some(dir));
        }
        if best.as_ref().is_none_or(|(known, _)| *known < version) {
            best = Some((version, node));
        }
    }
    Err(match best {
        Some((found, path)) => PiProblem::NodeTooOld {
            path,
            found,
            needed: compat::NODE_MINIMUM,
        },
        None => PiProblem::NoNode {
            needed: compat::NODE_MINIMUM,
        },
    })
}

fn node_in_shebang(
    node: &Path,
    program: &Path,
    env: &EnvPairs,
    limit: Duration,
) -> Result<(), PiProblem> {
    match probe_version(&[node.into()], env, limit.min(NODE_TIMEOUT)) {
        Probe::Version(version) if compat::node_is_supported(&version) => Ok(()),
        Probe::Version(found) => Err(PiProblem::NodeTooOld {
            path: node.to_owned(),
            found,
            needed: compat::NODE_MINIMUM,
        }),
        Probe::NotNow { why, way_out } => Err(not_now(node, why, way_out)),
        Probe::Silent | Probe::Said(_) | Probe::Slow | Probe::CannotRun(_) => {
            Err(PiProblem::CannotRun {
                path: program.to_owned(),
                why: format!("its Node {} does not work", node.display()),
            })
        }
    }
}

fn path_with_prefix(prefix: &Path, env: &EnvPairs) -> OsString {
    let mut path = OsString::from(prefix);
    path.push(":");
    path.push(var(env, "PATH").unwrap_or(OsStr::new(DEFAULT_PATH)));
    path
}

/// The requester's environment with the good Node first in PATH.
fn child_env(env: &EnvPairs, prefix: Option<&Path>) -> Vec<(OsString, OsString)> {
    let mut env = env.to_vec();
    if let Some(prefix) = prefix {
        let path = path_with_prefix(prefix, &env);
        env.push(("PATH".into(), path));
    }
    env
}
