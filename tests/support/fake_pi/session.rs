//! The session file as Pi keeps it: named before it exists, written from the first user message
//! on, one entry per line, each with the one before as its parent.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::args::Args;
use crate::records::now_iso;
use crate::wire;

/// A session, new or taken up again.
pub(crate) struct Session {
    /// Id.
    pub(crate) id: String,
    /// File; `None` with `--no-session`.
    pub(crate) path: Option<PathBuf>,
    /// Entries, the header not among them.
    pub(crate) entries: Vec<Value>,
    cwd: String,
    on_disk: bool,
}

impl Session {
    /// Finds or names the session the arguments ask for.
    pub(crate) fn open(args: &Args) -> Result<Self, String> {
        let cwd = std::env::current_dir().unwrap_or_default();
        let dir = args
            .session_dir
            .clone()
            .unwrap_or_else(|| default_dir(&cwd));
        let fresh = |id: String, path: Option<PathBuf>| Self {
            id,
            path,
            entries: Vec::new(),
            cwd: cwd.to_string_lossy().into_owned(),
            on_disk: false,
        };
        let new_id = || uuid::Uuid::now_v7().to_string();
        let place = |id: &str| {
            let stamp = now_iso().replace([':', '.'], "-");
            dir.join(format!("{stamp}_{id}.jsonl"))
        };
        if args.no_session {
            return Ok(fresh(new_id(), None));
        }
        if let Some(id) = &args.session_id {
            return Ok(if let Some(path) = find(&dir, |found| found == id) {
                Self::load(&path, &cwd)
            } else {
                eprintln!(
                    "Warning: No project session found with id '{id}'; creating a new session"
                );
                fresh(id.clone(), Some(place(id)))
            });
        }
        if let Some(wanted) = &args.session {
            let path = Path::new(wanted);
            if path.is_file() {
                return Ok(Self::load(path, &cwd));
            }
            if wanted.contains('/') || wanted.ends_with(".jsonl") {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                return Ok(fresh(new_id(), Some(path)));
            }
            return find(&dir, |found| found.starts_with(wanted.as_str()))
                .map(|path| Self::load(&path, &cwd))
                .ok_or_else(|| format!("No session found matching '{wanted}'"));
        }
        let id = new_id();
        let path = place(&id);
        Ok(fresh(id, Some(path)))
    }

    /// Reads what is there; Pi then works in the session's own folder.
    fn load(path: &Path, here: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let header: Value = lines.next().unwrap_or_default();
        let cwd = header["cwd"].as_str().map(str::to_owned);
        if let Some(cwd) = &cwd {
            let _ = std::env::set_current_dir(cwd);
        }
        Self {
            id: header["id"].as_str().unwrap_or("unknown").to_owned(),
            path: Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            entries: lines.collect(),
            cwd: cwd.unwrap_or_else(|| here.to_string_lossy().into_owned()),
            on_disk: true,
        }
    }

    /// Adds an entry and gives its id.
    pub(crate) fn add(&mut self, kind: &str, fields: Value) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let id = id.get(..8).unwrap_or(&id).to_owned();
        let parent = self.entries.last().map_or(Value::Null, |e| e["id"].clone());
        let mut entry = json!({"type": kind, "id": id, "parentId": parent, "timestamp": now_iso()});
        if let (Value::Object(entry), Value::Object(fields)) = (&mut entry, fields) {
            entry.extend(fields);
        }
        let user = entry["message"]["role"] == "user";
        self.entries.push(entry);
        if self.on_disk {
            self.write(self.entries.len() - 1);
        } else if user {
            self.write_header();
            self.write(0);
        }
        id
    }

    /// Adds a message.
    pub(crate) fn message(&mut self, message: &Value) -> String {
        self.add("message", json!({"message": message}))
    }

    /// Messages so far, system message included, as `messageCount` counts.
    pub(crate) fn messages(&self) -> Vec<&Value> {
        let messages = self.entries.iter().filter(|e| e["type"] == "message");
        messages.map(|entry| &entry["message"]).collect()
    }

    fn write_header(&mut self) {
        let header = json!({
            "type": "session", "version": 3, "id": self.id, "timestamp": now_iso(), "cwd": self.cwd,
        });
        if let Some(parent) = self.path.as_deref().and_then(Path::parent) {
            let _ = std::fs::create_dir_all(parent);
        }
        self.append(&wire::line(&header));
        self.on_disk = true;
    }

    fn write(&self, from: usize) {
        let new = self.entries.get(from..).unwrap_or_default();
        let lines: String = new.iter().map(wire::line).collect();
        self.append(&lines);
    }

    fn append(&self, text: &str) {
        let Some(path) = &self.path else { return };
        let file = OpenOptions::new().append(true).create(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("Error: session file: {error}");
        }
    }
}

fn default_dir(cwd: &Path) -> PathBuf {
    let base = std::env::var_os("PI_CODING_AGENT_DIR").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".pi/agent");
    let cwd = cwd.to_string_lossy();
    let name = cwd.trim_start_matches('/').replace(['/', '\\', ':'], "-");
    base.unwrap_or_else(home)
        .join("sessions")
        .join(format!("--{name}--"))
}

/// The newest file in `dir` whose id is wanted.
fn find(dir: &Path, wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let id = stem.and_then(|stem| stem.split_once('_')).map(|(_, id)| id);
            id.is_some_and(&wanted)
        })
        .collect();
    found.sort();
    found.pop()
}
