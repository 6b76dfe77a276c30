//! Agent records: one atomic file per agent in the state directory, written before every launch and
//! after every change that must survive the core (design §2). No environment, no secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::session_file::SessionMark;
use crate::fleet::agent::{AgentSpec, Status};
use crate::fleet::host::HostKind;
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::machine::Restored;
use crate::fleet::roster::{AgentView, UsageTotals};
use crate::fleet::transcript::Outcome;
use crate::sys::atomic_file;

/// Version of the file's shape. Fields are only ever added.
const VERSION: u32 = 1;
/// A record larger than this is not one of ours.
const MAX_RECORD: u64 = 1 << 20;

/// The file's contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// Shape.
    pub version: u32,
    /// Identity.
    pub id: AgentId,
    /// Its host; records of older versions have none, their host was the person.
    #[serde(default)]
    pub host: Option<HostId>,
    /// Of what kind that is.
    #[serde(default)]
    pub host_kind: Option<HostKind>,
    /// Short name.
    pub name: String,
    /// What was asked for.
    pub spec: AgentSpec,
    /// State when it was written.
    pub status: Status,
    /// Since when, Unix milliseconds.
    pub since_ms: i64,
    /// Pi's session id.
    pub session_id: String,
    /// Saved session.
    pub session_path: Option<PathBuf>,
    /// The session file when the last process was gone.
    #[serde(default)]
    pub session_mark: Option<SessionMark>,
    /// Length of the last run in milliseconds.
    #[serde(default)]
    pub run_took_ms: Option<u64>,
    /// Runs ended.
    #[serde(default)]
    pub runs_ended: u64,
    /// How the last one ended.
    #[serde(default)]
    pub last: Option<Outcome>,
    /// Sums over all runs.
    #[serde(default)]
    pub usage: UsageTotals,
    /// Tool calls started.
    #[serde(default)]
    pub tool_uses: u64,
}

impl AgentRecord {
    /// The record of an agent as it is seen now.
    #[must_use]
    pub fn of(
        view: &AgentView,
        kind: Option<HostKind>,
        session_id: &str,
        session_mark: Option<SessionMark>,
        last: Option<Outcome>,
    ) -> Self {
        Self {
            version: VERSION,
            id: view.id,
            host: Some(view.host),
            host_kind: kind,
            name: view.name.clone(),
            spec: view.spec.clone(),
            status: view.status.clone(),
            since_ms: view.since_ms,
            session_id: session_id.to_owned(),
            session_path: view.session_path.clone(),
            session_mark,
            run_took_ms: view.run_took_ms,
            runs_ended: view.runs_ended,
            last,
            usage: view.usage,
            tool_uses: view.tool_uses,
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// The real file and what the system said.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|e| e.to_string())?;
        atomic_file::write(path, &bytes, 0o600).map_err(|e| e.to_string())
    }

    /// What the machine needs of it. `person` is the host of records that name none.
    #[must_use]
    pub fn restored(&self, person: HostId) -> Restored {
        Restored {
            id: self.id,
            host: self.host.unwrap_or(person),
            kind: self.host_kind.unwrap_or(HostKind::Person),
            name: self.name.clone(),
            spec: self.spec.clone(),
            session_id: self.session_id.clone(),
            session_path: self.session_path.clone(),
            status: self.status.clone(),
            since_ms: self.since_ms,
            run_took_ms: self.run_took_ms,
            runs_ended: self.runs_ended,
            last: self.last.clone(),
        }
    }
}

/// Reads all records of a folder, oldest agent first. A file that cannot be read is reported, never
/// deleted, and hides no other.
///
/// # Errors
/// The directory exists and cannot be read.
pub fn load_all(dir: &Path) -> io::Result<(Vec<AgentRecord>, Vec<String>)> {
    let mut records = Vec::new();
    let mut problems = Vec::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((records, problems)),
        Err(e) => return Err(e),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        match load(&path) {
            Ok(record) => records.push(record),
            Err(why) => problems.push(format!("{}: {why}", path.display())),
        }
    }
    records.sort_by_key(|r: &AgentRecord| r.id);
    Ok((records, problems))
}

fn load(path: &Path) -> Result<AgentRecord, String> {
    let meta = fs::metadata(path).map_err(|e| e.to_string())?;
    if !meta.is_file() || meta.len() > MAX_RECORD {
        return Err("not an agent record".to_owned());
    }
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    let record: AgentRecord = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    if record.version > VERSION {
        return Err(format!(
            "written by a newer version (record version {})",
            record.version
        ));
    }
    Ok(record)
}
