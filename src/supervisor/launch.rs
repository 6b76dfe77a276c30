//! How a child is started: its command line and its environment. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::find_pi::PiFound;
use crate::client::host::Contributions;
use crate::config::env;
use crate::fleet::agent::ToolChoice;
use crate::fleet::ids::{CoreId, InstanceId};
use crate::fleet::machine::{EnvPairs, LaunchPlan};
use crate::tools::subagents::SEND;

/// Longest `--name`, in characters (R-LIFE-01).
const MAX_NAME: usize = 80;

/// What every child is told about where its answers go (R-DELIV-12).
pub const REPORT_RULE: &str = "You work as an agent for somebody who is not watching every step. \
Your final reply of each run reaches them by itself: put the whole report into it. If you cannot go \
on without a decision, ask for it in that reply and end the reply there; the answer will come as your \
next message and you go on from where you were. Do not announce progress as a separate report.";

/// The same for a child that can send messages.
pub const QUESTION_RULE: &str = " The tool agent_send with `@parent` carries only a question you can \
go on working without an answer to: the answer comes later between two of your steps. Never use it for \
progress, for results or for a second report. You are @";

/// The same for a child whose parent waits for its first reply.
pub const WAITED_RULE: &str = " Your parent waits for this reply and reads nothing before it ends: \
put your questions into the reply.";

/// Who a child is.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its short name.
    pub name: &'a str,
    /// The core that starts it.
    pub core: CoreId,
    /// The process.
    pub instance: InstanceId,
    /// Levels below the top.
    pub depth: u32,
    /// How deep agents may go.
    pub max_depth: u32,
    /// Proves to its bridge that it is this child and no program in its shell (R-ID-08): the bridge
    /// takes it out of the environment before anything else runs.
    pub token: Option<&'a str>,
}

/// Checks what other extensions want a child to have, once more: nothing is coerced (R-PI-04).
///
/// # Errors
/// Generic words: names and values are not repeated.
pub fn check(extra: Contributions) -> Result<Contributions, String> {
    let bad_name = |name: &str| {
        name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if extra
        .env
        .iter()
        .any(|(name, value)| bad_name(name) || value.contains('\0'))
    {
        return Err("another extension wants a variable that cannot be one".to_owned());
    }
    if extra
        .extensions
        .iter()
        .any(|path| path.is_empty() || path.contains('\0'))
    {
        return Err("another extension wants an extension without a path".to_owned());
    }
    Ok(extra)
}

/// Variables that say who a child is and which core it belongs to: nobody else gives them.
const OWN: &[&str] = &[
    env::AGENT_ID,
    env::DEPTH,
    env::MAX_DEPTH,
    env::SOCKET,
    env::TOKEN,
    env::INSTANCE,
];

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
pub fn arguments(
    plan: &LaunchPlan,
    session_dir: &Path,
    bridge: Option<&Path>,
    extra: &Contributions,
    name: &str,
) -> Vec<OsString> {
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
    let mut tools = match &plan.spec.tools {
        ToolChoice::All => None,
        ToolChoice::Only(names) => Some(names.clone()),
    };
    if let (Some(names), Some(_)) = (&mut tools, bridge) {
        // Every list keeps the way to the parent (R-TOOL-05).
        if !names.iter().any(|name| name == SEND) {
            names.push(SEND.to_owned());
        }
    }
    if let Some(names) = tools.as_ref().filter(|names| !names.is_empty()) {
        pair("--tools", names.join(",").into());
    }
    pair(
        "--append-system-prompt",
        rules(bridge.is_some(), plan.waited_for, name).into(),
    );
    if let Some(bridge) = bridge {
        pair("--extension", bridge.into());
    }
    let mut seen = HashSet::new();
    for extension in extra.extensions.iter().filter(|e| seen.insert(e.as_str())) {
        pair("--extension", extension.into());
    }
    if tools.is_some_and(|names| names.is_empty()) {
        args.push("--no-tools".into());
    }
    args
}

/// The rules in one text.
fn rules(can_send: bool, waited_for: bool, name: &str) -> String {
    let mut text = REPORT_RULE.to_owned();
    if can_send {
        text.push_str(QUESTION_RULE);
        text.push_str(name);
        text.push('.');
        if waited_for {
            text.push_str(WAITED_RULE);
        }
    }
    text
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

/// The child's environment: the asker's, without stale identity, what other extensions add, with the
/// good Node first in PATH, our own identity last.
#[must_use]
pub fn environment(
    asker: &EnvPairs,
    pi: &PiFound,
    extra: &Contributions,
    identity: &Identity<'_>,
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
    // Identity always wins (R-ID-03), also where it is that there is none.
    for (name, value) in extra.env.iter().filter(|(n, _)| !OWN.contains(&n.as_str())) {
        vars.retain(|(n, _)| n.as_bytes() != name.as_bytes());
        vars.push((name.into(), value.into()));
    }
    let pairs: Vec<(OsString, OsString)> = vars.clone();
    if let Some(path) = pi.path_for_child(&pairs) {
        vars.retain(|(n, _)| n.as_bytes() != b"PATH");
        vars.push(("PATH".into(), path));
    }
    let Identity {
        name,
        core,
        instance,
        depth,
        max_depth,
        token,
    } = *identity;
    for (key, value) in [
        (env::AGENT_ID, name.to_owned()),
        (env::DEPTH, depth.to_string()),
        (env::MAX_DEPTH, max_depth.to_string()),
        (env::INSTANCE, format!("{core}:{instance}")),
    ] {
        vars.retain(|(n, _)| n.as_bytes() != key.as_bytes());
        vars.push((key.into(), value.into()));
    }
    if let Some(token) = token {
        vars.push((env::TOKEN.into(), token.into()));
    }
    vars
}

/// The environment in which Pi and its Node are looked for: where other extensions give the child
/// another PATH, that is searched first, and the asker's after it.
#[must_use]
pub fn searched<'a>(asker: &'a EnvPairs, extra: &Contributions) -> Cow<'a, EnvPairs> {
    let Some(first) = extra.env.get("PATH") else {
        return Cow::Borrowed(asker);
    };
    let mut path = first.clone().into_bytes();
    if let Some((_, rest)) = asker.iter().rev().find(|(name, _)| name == b"PATH") {
        path.push(b':');
        path.extend_from_slice(rest);
    }
    let mut all = asker.clone();
    all.retain(|(name, _)| name != b"PATH");
    all.push((b"PATH".to_vec(), path));
    Cow::Owned(all)
}

/// The same variables as `find_pi` takes them.
#[must_use]
pub fn os_pairs(pairs: &EnvPairs) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(n, v)| (OsString::from_vec(n.clone()), OsString::from_vec(v.clone())))
        .collect()
}
