//! The checks that the first-run screen and `doctor` share: each names what is wrong and the exact
//! way out.

use std::io::Write;
use std::path::Path;

use super::common::Ground;
use crate::bridge;
use crate::supervisor::find_pi::{self, EnvPairs, PiFound, PiProblem};
use crate::supervisor::record;
use crate::tools::subagents::{Position, definitions};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fine.
    Good,
    /// Works, but somebody should know.
    Note,
    /// Agents cannot be started like this.
    Bad,
}

/// How closely the extensions of Pi are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Before every start of a core: Pi is asked only when there is a reason to, and only what keeps
    /// agents from starting counts.
    Quick,
    /// Pi is asked, which takes as long as a start of it.
    Whole,
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// How it came out.
    pub verdict: Verdict,
    /// What was looked at and found, one line.
    pub title: String,
    /// What to do, a line each; commands as they are typed.
    pub fix: Vec<String>,
}

impl Check {
    fn good(title: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Good,
            title: title.into(),
            fix: Vec::new(),
        }
    }

    fn bad(title: impl Into<String>, fix: Vec<String>) -> Self {
        Self {
            verdict: Verdict::Bad,
            title: title.into(),
            fix,
        }
    }
}

/// Everything an agent needs in this folder.
#[must_use]
pub fn all(ground: &Ground, folder: &Path, care: Care) -> Vec<Check> {
    let mut checks = pi(ground, folder, care);
    checks.extend(folders(ground, folder));
    checks.extend(damaged(ground, folder));
    checks
}

/// Pi, the Node that runs it, a model, and the extensions beside ours.
fn pi(ground: &Ground, folder: &Path, care: Care) -> Vec<Check> {
    let env: Vec<_> = std::env::vars_os().collect();
    let found = match find_pi::find(ground.settings.pi.as_deref(), &env) {
        Ok(found) => found,
        Err(problem) => return vec![Check::bad(problem.title(), problem.lines())],
    };
    let words: Vec<_> = found.argv.iter().map(|w| w.to_string_lossy()).collect();
    let mut checks = vec![Check::good(format!(
        "Pi {} · {}",
        found.version,
        words.join(" ")
    ))];
    if let Some(node) = &found.path_prefix {
        checks.push(Check::good(format!(
            "Node · {}",
            node.join("node").display()
        )));
    }
    match find_pi::no_models(&env, folder) {
        Some(problem) => checks.push(Check::bad(problem.title(), problem.lines())),
        None => checks.push(Check::good(
            "a model is configured, or Pi will say that none is",
        )),
    }
    checks.extend(extensions(ground, folder, &found, &env, care));
    checks
}

/// Whether Pi starts with our bridge beside the extensions that are installed (design §6).
fn extensions(
    ground: &Ground,
    folder: &Path,
    pi: &PiFound,
    env: &EnvPairs,
    care: Care,
) -> Vec<Check> {
    let names = |position| definitions(position).into_iter().map(|tool| tool.name);
    let of_agents: Vec<_> = names(Position::Leaf).collect();
    if care == Care::Quick && !find_pi::any_suspect(env, folder, &of_agents) {
        return Vec::new();
    }
    let package = match bridge::install(&ground.paths.cache) {
        Ok(package) => package,
        Err(error) => {
            return vec![Check {
                verdict: Verdict::Note,
                title: "the bridge cannot be written: agents work and cannot ask anything"
                    .to_owned(),
                fix: vec![error.to_string()],
            }];
        }
    };
    let stops_agents = |problem: &PiProblem| match problem {
        PiProblem::SameTool { tools, .. } => tools.iter().any(|t| of_agents.contains(&t.as_str())),
        _ => true,
    };
    match find_pi::ask_for_clashes(pi, env, folder, &package, &[]) {
        Ok(problems) if care == Care::Whole && problems.is_empty() => {
            vec![Check::good("Pi starts with its extensions and the bridge")]
        }
        Ok(problems) => problems
            .iter()
            .filter(|problem| care == Care::Whole || stops_agents(problem))
            .map(|problem| {
                let mut fix = problem.lines();
                if !stops_agents(problem) {
                    fix.push(
                        "Only `pi-agents pi` is kept from starting; other agents work.".to_owned(),
                    );
                }
                Check::bad(problem.title(), fix)
            })
            .collect(),
        Err(_) if care == Care::Quick => Vec::new(),
        Err(error) => vec![Check {
            verdict: Verdict::Note,
            title: format!("Pi did not say whether it starts with its extensions: {error}"),
            fix: Vec::new(),
        }],
    }
}

/// Records of agents that cannot be read: those agents are in no list.
fn damaged(ground: &Ground, folder: &Path) -> Vec<Check> {
    let dir = ground.paths.agents_dir(folder);
    // That it cannot be read at all is said above.
    let (_, problems) = record::load_all(&dir).unwrap_or_default();
    let sessions = ground.paths.sessions(folder);
    problems
        .into_iter()
        .map(|problem| Check {
            verdict: Verdict::Note,
            title: format!("the record of an agent is damaged · {problem}"),
            fix: vec![
                format!(
                    "the agent is not listed; its conversation is in {} and opens with pi --session FILE",
                    sessions.display()
                ),
                "put the record back from a copy, or move it away to be rid of this".to_owned(),
            ],
        })
        .collect()
}

/// Folders that must be writable.
fn folders(ground: &Ground, folder: &Path) -> Vec<Check> {
    let paths = &ground.paths;
    let mut checks = Vec::new();
    let mut check = |what: &str, path: &Path, result: Result<(), String>| match result {
        Ok(()) => checks.push(Check::good(format!("{what} · {}", path.display()))),
        Err(error) => {
            // What is wrong, then what to do about it.
            let mut lines = error.split(['\n', ';']).map(|l| l.trim().to_owned());
            let first = lines.next().unwrap_or_default();
            checks.push(Check::bad(format!("{what}: {first}"), lines.collect()));
        }
    };
    let sessions = paths.sessions(folder);
    check(
        "saved sessions",
        &sessions,
        paths
            .ensure_sessions(folder)
            .map_err(|e| e.to_string())
            .and_then(|dir| writable(&dir)),
    );
    let state = paths.host_dir(folder);
    check(
        "records",
        &state,
        paths
            .ensure_state(&state)
            .map_err(|e| e.to_string())
            .and_then(|()| writable(&state)),
    );
    check(
        "sockets",
        &paths.runtime,
        paths
            .ensure_runtime()
            .map_err(|e| e.to_string())
            .and_then(|()| writable(&paths.runtime)),
    );
    checks
}

/// What a check writes, in bytes: a file without content can be made on a full disk too.
const TRIAL: usize = 64 << 10;

/// Tries it: permission bits say nothing to root, a read-only mount says nothing in its bits.
fn writable(dir: &Path) -> Result<(), String> {
    tempfile::Builder::new()
        .prefix(".check-")
        .tempfile_in(dir)
        .and_then(|mut file| file.write_all(&[0x5a; TRIAL]))
        .map_err(|e| {
            format!(
                "cannot write in {}: {e}\nfree space or make it writable for you, or choose another place",
                dir.display()
            )
        })
}
