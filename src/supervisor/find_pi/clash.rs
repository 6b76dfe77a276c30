//! Asks Pi itself which extensions keep it from starting with our bridge, without opening a session.
//!
//! Pi is given one more extension, which does not exist. It then loads all others, names everything
//! that is wrong with them, and ends before any of them hears of a session: nothing of theirs begins,
//! and no core is started. Blocks for about as long as Pi takes to start.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::probe::{self, NotAsked};
use super::{EnvPairs, PiFound, PiProblem, child_env};
use crate::config::env;
use crate::pi::load_error::{LoadError, Why};

/// Bound on a start of Pi that ends at once (measured on a busy machine: up to 6 s).
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The extension that is not there, below our package.
const ABSENT: &str = "asked-what-is-wrong";

/// Variables that would make the bridge take Pi for an agent, or for one of a core.
const IDENTITY: [&str; 5] = [
    env::AGENT_ID,
    env::DEPTH,
    env::MAX_DEPTH,
    env::SOCKET,
    env::TOKEN,
];

/// What keeps this Pi from starting in `folder` with the bridge in `bridge`: one problem for every
/// extension that has a tool of ours or does not load. `options` are given to Pi, such as
/// `--approve`.
///
/// # Errors
/// Pi could not be asked, or what it said is not understood: nothing is known then.
pub fn ask(
    pi: &PiFound,
    vars: &EnvPairs,
    folder: &Path,
    bridge: &Path,
    options: &[OsString],
) -> Result<Vec<PiProblem>, NotAsked> {
    ask_within(pi, vars, folder, bridge, options, LOAD_TIMEOUT)
}

/// The same with another bound.
///
/// # Errors
/// As [`ask`].
pub fn ask_within(
    pi: &PiFound,
    vars: &EnvPairs,
    folder: &Path,
    bridge: &Path,
    options: &[OsString],
    limit: Duration,
) -> Result<Vec<PiProblem>, NotAsked> {
    let Some((program, words)) = pi.argv.split_first() else {
        return Err(NotAsked("there is no Pi to ask".to_owned()));
    };
    let absent = bridge.join(ABSENT);
    let mut vars = child_env(vars, pi.path_prefix.as_deref());
    vars.retain(|(name, _)| !IDENTITY.iter().any(|identity| name == identity));
    let mut command = Command::new(program);
    command
        .args(words)
        .args(["--mode", "rpc", "--no-session"])
        .args(options)
        .arg("--extension")
        .arg(bridge)
        .arg("--extension")
        .arg(&absent)
        .env_clear()
        .envs(vars)
        .env("PI_OFFLINE", "1")
        .env("PI_SKIP_VERSION_CHECK", "1")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let said = probe::last_words(&mut command, limit)?;
    read(&said, bridge, &absent).ok_or_else(|| {
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        NotAsked(match line {
            Some(line) => format!("it said: {}", probe::excerpt(line)),
            None => "it said nothing of its extensions".to_owned(),
        })
    })
}

/// What Pi said, as problems; `None` if it did not get as far as its extensions.
fn read(said: &str, bridge: &Path, absent: &Path) -> Option<Vec<PiProblem>> {
    let ours = |path: &str| Path::new(path).starts_with(bridge);
    let is_absent = |error: &LoadError<'_>| Path::new(error.extension) == absent;
    let errors: Vec<_> = said.lines().filter_map(LoadError::read).collect();
    errors.iter().find(|error| is_absent(error))?;
    let mut problems: Vec<PiProblem> = Vec::new();
    for error in errors.iter().filter(|error| !is_absent(error)) {
        match (error.foreign(ours), &error.why) {
            (Some((tool, extension)), _) => add(&mut problems, tool, Path::new(extension)),
            (None, Why::Other(why)) => problems.push(PiProblem::BadExtension {
                extension: error.extension.into(),
                why: probe::excerpt(why),
            }),
            // Two strangers with the same tool: no fault of either alone.
            (None, Why::SameTool { tool, other }) => problems.push(PiProblem::BadExtension {
                extension: error.extension.into(),
                why: format!("it has a tool {tool}, and so has {other}"),
            }),
        }
    }
    Some(problems)
}

/// The first extension that has a tool of ours, from what a Pi said that was given the bridge in
/// `bridge` and ended.
#[must_use]
pub fn same_tool(said: &[String], bridge: &Path) -> Option<PiProblem> {
    let ours = |path: &str| Path::new(path).starts_with(bridge);
    let errors = said.iter().filter_map(|line| LoadError::read(line));
    let mut foreign = errors.filter_map(|error| error.foreign(ours));
    foreign.next().map(|(tool, extension)| PiProblem::SameTool {
        tools: vec![tool.to_owned()],
        extension: extension.into(),
    })
}

/// One problem for each extension, with all its tools.
fn add(problems: &mut Vec<PiProblem>, tool: &str, extension: &Path) {
    for problem in problems.iter_mut() {
        if let PiProblem::SameTool {
            tools,
            extension: known,
        } = problem
            && known == extension
        {
            tools.push(tool.to_owned());
            return;
        }
    }
    problems.push(PiProblem::SameTool {
        tools: vec![tool.to_owned()],
        extension: PathBuf::from(extension),
    });
}
