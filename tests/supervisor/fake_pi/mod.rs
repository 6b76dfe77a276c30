//! With the fake Pi as the child: what no real Pi does on request.

mod cores;
mod dialogs;
mod environment;
mod explain;
mod faults;
mod life_cases;
mod protocol_cases;
mod revival;
mod runs;
mod saved;
mod start;
mod stop;
mod stream;
mod writers;

use std::path::{Path, PathBuf};

pub(super) use environment::var;

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::roster::AgentView;
use pi_agents::fleet::transcript::{EntryKind, Level, Outcome};

use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::wait;

/// Short rungs of the stop ladder, for children that have to be forced.
pub(super) const FAST_LADDER: &[(&str, &str)] = &[
    ("PI_AGENTS_STOP_EOF_MS", "150"),
    ("PI_AGENTS_STOP_TERM_MS", "150"),
];

pub(super) fn stopped_by_you(row: &AgentView) -> bool {
    row.status == Status::Stopped { by: StopCause::You }
}

pub(super) fn is_failed(row: &AgentView) -> bool {
    matches!(row.status, Status::Failed { .. })
}

pub(super) fn reason(row: &AgentView) -> String {
    match &row.status {
        Status::Failed { reason } => reason.clone(),
        other => panic!("not failed but {other:?}"),
    }
}

/// Waits until it is idle with so many runs behind it, in its row and in its transcript.
#[track_caller]
pub(super) fn wait_idle(core: &Core, name: &str, runs: u64) -> AgentView {
    wait_run_ends(core, name, usize::try_from(runs).unwrap());
    core.wait_agent(name, &format!("idle after {runs} run(s)"), |a| {
        a.status == Status::Idle && a.runs_ended == runs
    })
}

/// Waits for the ends of so many runs in the transcript and gives them.
#[track_caller]
pub(super) fn wait_run_ends(core: &Core, name: &str, count: usize) -> Vec<Outcome> {
    core.wait_entries(name, &format!("{count} run end(s)"), |entries| {
        let ends: Vec<Outcome> = entries
            .iter()
            .filter_map(|e| match &e.kind {
                EntryKind::RunEnd { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        (ends.len() >= count).then_some(ends)
    })
}

/// Texts of the notices in the transcript, of one level.
pub(super) fn notices(core: &Core, name: &str, wanted: Level) -> Vec<String> {
    let entries = core.entries(name).into_iter();
    entries
        .filter_map(|e| match e.kind {
            EntryKind::Notice { level, text } if level == wanted => Some(text),
            _ => None,
        })
        .collect()
}

/// Waits for a notice that holds those words and gives it.
#[track_caller]
pub(super) fn wait_notice(core: &Core, name: &str, words: &str) -> String {
    core.wait_entries(name, &format!("a notice with {words:?}"), |entries| {
        entries.iter().find_map(|e| match &e.kind {
            EntryKind::Notice { text, .. } if text.contains(words) => Some(text.clone()),
            _ => None,
        })
    })
}

/// The one file below `dir` whose path ends so.
pub(super) fn find_file(dir: &Path, end: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        let found = if path.is_dir() {
            find_file(&path, end)
        } else {
            path.to_string_lossy().ends_with(end).then_some(path)
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Waits until the session of an agent without a process was looked at, and gives the mark on record.
#[track_caller]
fn wait_mark(pi: &FakePi, row: &AgentView) -> serde_json::Value {
    let record = find_file(&pi.sandbox.state(), &format!("{}.json", row.id)).expect("its record");
    wait::wait_for("a mark of the session on record", || {
        let text = std::fs::read(&record).ok()?;
        let mut record: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(record["session_mark"].take()).filter(serde_json::Value::is_object)
    })
}

/// A recording of the bug log.
fn case(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases");
    std::fs::read_to_string(dir.join(name)).unwrap()
}

/// Pids of the fakes that were started, oldest first.
pub(super) fn pids(pi: &FakePi) -> Vec<u32> {
    let starts = pi.events("start").into_iter();
    starts
        .map(|e| u32::try_from(e["pid"].as_u64().unwrap()).unwrap())
        .collect()
}

/// What of a sandbox is no part of the core.
pub(super) fn agents_alive(pi: &FakePi) -> Vec<String> {
    let all = pi.sandbox.processes().into_iter();
    all.filter(|p| !p.args.iter().any(|a| a == "serve"))
        .map(|p| p.to_string())
        .collect()
}
