//! `pi-agents pi`: Pi itself, with the bridge and its skill for this one session (R-OPS-01).
//!
//! Finds Pi and Node as the core does and then becomes that Pi: the same process, so that terminal,
//! job control, signals and exit code are Pi's own. Nothing is installed and no setting is touched.
//! What follows `pi` on the command line is Pi's, word for word; ours goes before it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use super::common::Ground;
use super::exit::{CliError, Kind};
use super::serve::own_program;
use crate::bridge;
use crate::config::env;
use crate::pi::compat;
use crate::supervisor::find_pi::{self, Choice, EnvPairs, PiFound, PiProblem};
use crate::tools::subagents::{Position, definitions};

/// The arguments of Pi
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Arguments of Pi
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// The arguments of Pi if this command line is `pi-agents pi …`. Read before anything else is: some
/// of them mean something to a reader of command lines, and none is ours.
pub fn arguments_of(mut line: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let _program = line.next();
    (line.next()? == "pi").then(|| line.collect())
}

/// Becomes Pi. Comes back only with what went wrong.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    exec(&args.args)
}

/// The same with arguments as they came.
pub fn exec(args: &[OsString]) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    let vars: Vec<_> = std::env::vars_os().collect();
    let pi = find_pi::find(ground.settings.pi.as_deref(), &vars).map_err(|p| refusal(&p))?;
    let ours = if is_command(args) {
        Vec::new()
    } else {
        let package = bridge::install(&ground.paths.cache)
            .map_err(|e| CliError::new(Kind::Failed, e.to_string()))?;
        if let Some(problem) = taken(&pi, &vars, &package, args) {
            return Err(problem);
        }
        extension(&package, args)
    };
    let (program, mut command) = command(&pi)?;
    command
        .args(ours)
        .args(args)
        // The bridge is of this very program: it starts no other.
        .env(env::BIN, own_program()?);
    if let Some(path) = pi.path_for_child(&vars) {
        command.env("PATH", path);
    }
    // Its agents are run by the same one, wherever PATH and a relative name lead from there.
    if let Some(same) = as_words(&pi.argv) {
        command.env(env::PI, same);
    }
    let error = command.exec();
    Err(refusal(&PiProblem::CannotRun {
        path: program.into(),
        why: error.to_string(),
    }))
}

fn command(pi: &PiFound) -> Result<(OsString, Command), CliError> {
    let (program, words) = pi
        .argv
        .split_first()
        .ok_or_else(|| CliError::new(Kind::StartFailed, "no Pi to start"))?;
    let mut command = Command::new(program);
    command.args(words);
    Ok((program.clone(), command))
}

/// A command as `split_words` reads it; `None` = it is no text.
fn as_words(argv: &[OsString]) -> Option<String> {
    let words: Option<Vec<_>> = argv
        .iter()
        .map(|word| Some(format!("'{}'", word.to_str()?.replace('\'', r"'\''"))))
        .collect();
    words.map(|words| words.join(" "))
}

fn refusal(problem: &PiProblem) -> CliError {
    CliError::new(Kind::StartFailed, problem.title())
        .with_hint(problem.lines_for(Choice::Variable).join("\n"))
}

/// Options with which Pi opens no session, or loads nothing that could be in the way.
const NO_QUESTION: &[&str] = &[
    "--no-extensions",
    "-ne",
    "--help",
    "-h",
    "--version",
    "-v",
    "--list-models",
    "--export",
];
/// Options that decide what of a project is loaded.
const TRUST: &[&str] = &["--approve", "-a", "--no-approve", "-na"];

/// Another extension that has a tool of ours: Pi would end before it begins. Pi is asked only when
/// something that is installed looks like it; otherwise its own error stands.
fn taken(pi: &PiFound, vars: &EnvPairs, package: &Path, args: &[OsString]) -> Option<CliError> {
    if has_option(args, NO_QUESTION) {
        return None;
    }
    let folder = std::env::current_dir().ok()?;
    let names: Vec<_> = definitions(Position::Root).iter().map(|t| t.name).collect();
    if !find_pi::any_suspect(vars, &folder, &names) {
        return None;
    }
    let trust = args.iter().take_while(|arg| *arg != "--");
    let trust: Vec<_> = trust.filter(|arg| is_one(arg, TRUST)).cloned().collect();
    let problems = find_pi::ask_for_clashes(pi, vars, &folder, package, &trust).ok()?;
    let mut taken = problems
        .into_iter()
        .filter(|problem| matches!(problem, PiProblem::SameTool { .. }));
    let mut error = refusal(&taken.next()?);
    for other in taken {
        let hint = error.hint.get_or_insert_default();
        hint.push_str("\nAnd the same for this one:\n  ");
        hint.push_str(&other.one_line());
    }
    Some(error)
}

/// Whether this is one of Pi's commands, such as `install`. Pi knows them by their place at the very
/// beginning, and no session is opened.
fn is_command(args: &[OsString]) -> bool {
    args.first()
        .and_then(|first| first.to_str())
        .is_some_and(compat::is_command)
}

/// What Pi is told of the bridge. A package brings its skill along also where the person wants no
/// skills; then only the extension in it is named.
fn extension(package: &Path, args: &[OsString]) -> Vec<OsString> {
    let path = if has_option(args, &["--no-skills", "-ns"]) {
        package.join(bridge::EXTENSION)
    } else {
        package.to_owned()
    };
    vec!["--extension".into(), path.into()]
}

/// Whether one of these options is there. What follows `--` is none.
fn has_option(args: &[OsString], names: &[&str]) -> bool {
    args.iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| is_one(arg, names))
}

fn is_one(arg: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|name| arg == OsStr::new(name))
}
