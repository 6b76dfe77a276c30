//! The session file in Pi's format, version 3: written as it goes, read again for a revival.
//!
//! As with Pi the file appears with the first user message, and only appending writes to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::options::Options;
use super::record::Message;

/// Numbers for `get_session_stats`.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub messages: u64,
    pub user: u64,
    pub assistant: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cost: f64,
    /// Tokens of the last request and its answer.
    pub context: u64,
}

/// What a session says of its past.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The last thing it was asked.
    pub task: Option<String>,
    /// The last answer's text.
    pub report: Option<String>,
    /// That answer was cut short.
    pub interrupted: bool,
}

/// One session.
#[derive(Debug, Default)]
pub struct Session {
    pub id: String,
    pub path: Option<PathBuf>,
    pub name: Option<String>,
    /// Provider and id.
    pub model: Option<(String, String)>,
    pub thinking: Option<String>,
    pub cwd: Option<PathBuf>,
    pub counts: Counts,
    pub past: Past,
    entries: Vec<Value>,
    /// Lines that wait for the file to appear.
    held: Vec<String>,
    file: Option<File>,
}

impl Session {
    /// Opens or makes the session that the command line asks for.
    ///
    /// # Errors
    /// Its file is there and cannot be read or written.
    pub fn open(options: &Options) -> io::Result<Self> {
        let existing = match (&options.session, &options.session_dir, &options.session_id) {
            (Some(path), _, _) => path.exists().then(|| path.clone()),
            (None, Some(dir), Some(id)) => find_by_id(dir, id),
            _ => None,
        };
        if let Some(path) = existing {
            return Self::resume(path);
        }
        let id = options
            .session_id
            .clone()
            .unwrap_or_else(|| Uuid::now_v7().to_string());
        let now = timestamp();
        let path = match (&options.session, &options.session_dir) {
            _ if options.ephemeral => None,
            (Some(path), _) => Some(path.clone()),
            (None, Some(dir)) => {
                Some(dir.join(format!("{}_{id}.jsonl", now.replace([':', '.'], "-"))))
            }
            // Without a folder there is none to write to: Pi's own is not ours.
            (None, None) => None,
        };
        let cwd = std::env::current_dir().unwrap_or_default();
        let header = serde_json::to_string(&Header {
            r#type: "session",
            version: 3,
            id: &id,
            timestamp: &now,
            cwd: &cwd,
        })?;
        Ok(Self {
            id,
            path: path.map(|path| std::path::absolute(&path).unwrap_or(path)),
            held: vec![header],
            ..Self::default()
        })
    }

    fn resume(path: PathBuf) -> io::Result<Self> {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let mut session = Self {
            path: Some(std::path::absolute(&path)?),
            ..Self::default()
        };
        // A last line without its end was being written at a crash: the next entry begins a line of its own.
        let torn = !text.is_empty() && !text.ends_with('\n');
        for value in text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            if word(&value, "type") == Some("session") {
                session.id = word(&value, "id").unwrap_or_default().to_owned();
                session.cwd = word(&value, "cwd").map(PathBuf::from);
            } else {
                session.take_in(value);
            }
        }
        let mut file = OpenOptions::new().append(true).open(&path)?;
        if torn {
            file.write_all(b"\n")?;
        }
        session.file = Some(file);
        Ok(session)
    }

    /// True until the first user message.
    pub fn is_new(&self) -> bool {
        self.counts.user == 0
    }

    /// Appends an entry; returns it as it stands in the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, body: Body<'_>) -> io::Result<Value> {
        let id = Uuid::new_v4().simple().to_string();
        let entry = Entry {
            r#type: body.kind(),
            id: id.get(..8).unwrap_or(&id),
            parent_id: self.leaf(),
            timestamp: timestamp(),
            body: &body,
        };
        let line = serde_json::to_string(&entry)?;
        let value: Value = serde_json::from_str(&line)?;
        let starts_file = matches!(
            body,
            Body::Message {
                message: Message::User { .. }
            }
        );
        self.take_in(value.clone());
        self.write(line, starts_file)?;
        Ok(value)
    }

    /// Entries after `since`, or all; `None` = no such entry.
    pub fn entries_since(&self, since: Option<&str>) -> Option<&[Value]> {
        let Some(since) = since else {
            return Some(&self.entries);
        };
        let at = self
            .entries
            .iter()
            .position(|entry| word(entry, "id") == Some(since))?;
        self.entries.get(at + 1..)
    }

    /// Id of the last entry.
    pub fn leaf(&self) -> Option<&str> {
        self.entries.last().and_then(|entry| word(entry, "id"))
    }

    fn write(&mut self, line: String, starts_file: bool) -> io::Result<()> {
        self.held.push(line);
        let Some(path) = &self.path else {
            self.held.clear();
            return Ok(());
        };
        if self.file.is_none() {
            if !starts_file {
                return Ok(());
            }
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            self.file = Some(
                OpenOptions::new()
                    .create_new(true)
                    .append(true)
                    .open(path)?,
            );
        }
        if let Some(file) = &mut self.file {
            let mut text = self.held.join("\n");
            text.push('\n');
            self.held.clear();
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Learns what an entry says, ours or one read back.
    fn take_in(&mut self, entry: Value) {
        match word(&entry, "type") {
            Some("session_info") => self.name = word(&entry, "name").map(str::to_owned),
            Some("model_change") => {
                self.model = word(&entry, "provider")
                    .zip(word(&entry, "modelId"))
                    .map(|(provider, id)| (provider.to_owned(), id.to_owned()));
            }
            Some("thinking_level_change") => {
                self.thinking = word(&entry, "thinkingLevel").map(str::to_owned);
            }
            Some("message") => {
                if let Some(message) = entry.get("message") {
                    self.count(message);
                }
            }
            _ => {}
        }
        self.entries.push(entry);
    }

    fn count(&mut self, message: &Value) {
        self.counts.messages += 1;
        match word(message, "role") {
            Some("user") => {
                self.counts.user += 1;
                self.past.task = Some(text_of(message));
            }
            Some("assistant") => {
                self.counts.assistant += 1;
                let content = message.get("content").and_then(Value::as_array);
                self.counts.tool_calls += content.map_or(0, |blocks| {
                    let calls = blocks
                        .iter()
                        .filter(|b| word(b, "type") == Some("toolCall"));
                    u64::try_from(calls.count()).unwrap_or(0)
                });
                let text = text_of(message);
                self.past.interrupted = word(message, "stopReason") != Some("stop");
                if !text.is_empty() {
                    self.past.report = Some(text);
                }
                let Some(usage) = message.get("usage") else {
                    return;
                };
                let number = |key| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
                self.counts.input += number("input");
                self.counts.output += number("output");
                self.counts.cache_read += number("cacheRead");
                self.counts.cache_write += number("cacheWrite");
                self.counts.cost += usage
                    .pointer("/cost/total")
                    .and_then(Value::as_f64)
                    .unwrap_or(0.0);
                if number("totalTokens") > 0 {
                    self.counts.context = number("totalTokens");
                }
            }
            Some("toolResult") => self.counts.tool_results += 1,
            _ => {}
        }
    }
}

/// What an entry holds.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Body<'a> {
    Message {
        message: &'a Message,
    },
    Model {
        provider: &'a str,
        model_id: &'a str,
    },
    Thinking {
        thinking_level: &'a str,
    },
    Info {
        name: &'a str,
    },
    /// Hides a message from later requests.
    Hide {
        target_id: &'a str,
        replacement: (),
    },
}

impl Body<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::Model { .. } => "model_change",
            Self::Thinking { .. } => "thinking_level_change",
            Self::Info { .. } => "session_info",
            Self::Hide { .. } => "context_edit",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    r#type: &'static str,
    id: &'a str,
    parent_id: Option<&'a str>,
    timestamp: String,
    #[serde(flatten)]
    body: &'a Body<'a>,
}

#[derive(Serialize)]
struct Header<'a> {
    r#type: &'static str,
    version: u32,
    id: &'a str,
    timestamp: &'a str,
    cwd: &'a Path,
}

fn find_by_id(dir: &Path, id: &str) -> Option<PathBuf> {
    let end = format!("_{id}.jsonl");
    std::fs::read_dir(dir)
        .ok()?
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().ends_with(&end))
        .map(|entry| entry.path())
}

/// Now, in Pi's way of writing it.
fn timestamp() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

fn word<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .filter_map(|block| word(block, "text"))
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}
