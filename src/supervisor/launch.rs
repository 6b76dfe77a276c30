//! How a child is started: its command line and its environment. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::find_pi::PiFound;
use crate::config::env;
use crate::fleet::agent::ToolChoice;
use crate::fleet::ids::{CoreId, InstanceId};
use crate::fleet::machine::{EnvPairs, LaunchPlan};

/// Longest `--name`, in characters (R-LIFE-01).
const MAX_NAME: usize = 80;

/// What every child is told about where its answers go (R-DELIV-12), in the half that holds before
/// a child can send messages.
pub const REPORT_RULE: &str = "You work as an agent for somebody who is not watching every step. \
Your final reply of each run reaches them by itself: put the whole report into it. If you cannot go \
on without a decision, ask for it in that reply and end the reply there; the answer will come as your \
next message and you go on from where you were. Do not announce progress as a separate report.";

/// Variables of the asker that would give the child a false identity (R-LIFE-18, case B098), and
/// those of a terminal it does not have.
const STALE: &[&str] = &[
    env::AGENT_ID,
    env::DEPTH,
    env::MAX_DEPTH,
    env::SOCKET,
    env::TOKEN,
    env::INSTANCE,
    "PI_SESSION_ID",
    "PI_SESSION_FILE",
    "PI_PROVIDER",
    "PI_MODEL",
    "PI_REASONING_LEVEL",
    "COLUMNS",
    "LINES",
];

/// The command line after the program.
#[must_use]
pub fn arguments(plan: &LaunchPlan, session_dir: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut pair = |flag: &str, value: OsString| {
        args.push(flag.into());
        args.push(value);
    };
    pair("--mode", "rpc".into());
    pair("--name", one_line(&plan.spec.label, MAX_NAME).into());
    pair("--session-dir", session_dir.into());
    match &plan.resume {
        Some(path) if path.is_file() => pair("--session", path.into()),
        _ => pair("--session-id", plan.session_id.clone().into()),
    }
    if let Some(model) = &plan.spec.model {
        pair("--model", model.into());
    }
    if let Some(level) = plan.spec.thinking {
        pair("--thinking", level.as_str().into());
    }
    if let ToolChoice::Only(names) = &plan.spec.tools
        && !names.is_empty()
    {
        pair("--tools", names.join(",").into());
    }
    pair("--append-system-prompt", REPORT_RULE.into());
    if plan.spec.tools == ToolChoice::Only(Vec::new()) {
        args.push("--no-tools".into());
    }
    args
}

/// One line of at most `max` characters, cut on a character boundary.
fn one_line(text: &str, max: usize) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(max)
        .collect()
}

/// The child's environment: the asker's, without stale identity, with the good Node first in PATH,
/// our own identity last.
#[must_use]
pub fn environment(
    asker: &EnvPairs,
    pi: &PiFound,
    name: &str,
    core: CoreId,
    instance: InstanceId,
) -> Vec<(OsString, OsString)> {
    let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let mut vars: Vec<(OsString, OsString)> = asker
        .iter()
        .filter(|(name, value)| {
            !name.is_empty()
                && !name.contains(&b'=')
                && !name.contains(&0)
                && !value.contains(&0)
                && !STALE.iter().any(|s| s.as_bytes() == name.as_slice())
        })
        .map(|(name, value)| (os(name), os(value)))
        .collect();
    let pairs: Vec<(OsString, OsString)> = vars.clone();
    if let Some(path) = pi.path_for_child(&pairs) {
        vars.retain(|(n, _)| n.as_bytes() != b"PATH");
        vars.push(("PATH".into(), path));
    }
    vars.push((env::AGENT_ID.into(), name.into()));
    vars.push((env::DEPTH.into(), "1".into()));
    vars.push((env::MAX_DEPTH.into(), "1".into()));
    vars.push((env::INSTANCE.into(), format!("{core}:{instance}").into()));
    vars
}

/// The same variables as `find_pi` takes them.
#[must_use]
pub fn os_pairs(pairs: &EnvPairs) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(n, v)| (OsString::from_vec(n.clone()), OsString::from_vec(v.clone())))
        .collect()
}
