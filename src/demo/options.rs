//! The part of Pi's command line that the supervisor uses. Everything else is ignored.

use std::ffi::OsString;
use std::path::PathBuf;

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub struct Options {
    /// `--version`.
    pub version: bool,
    /// `--session-dir`.
    pub session_dir: Option<PathBuf>,
    /// `--session-id`: opened if there, else made.
    pub session_id: Option<String>,
    /// `--session`: a file.
    pub session: Option<PathBuf>,
    /// `--no-session`.
    pub ephemeral: bool,
    /// `--name`.
    pub name: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--thinking`.
    pub thinking: Option<String>,
    /// `--tools` or `--no-tools`; `None` = all.
    pub tools: Option<Vec<String>>,
    /// `--append-system-prompt`.
    pub system_prompt: Vec<String>,
}

impl Options {
    /// Reads the words after `demo-agent`. A value is never taken for an option (`--name --model` names it so).
    pub fn read(args: Vec<OsString>) -> Self {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let Some(word) = arg.to_str() else { continue };
            let (word, inline) = match word.split_once('=') {
                Some((word, value)) if word.starts_with("--") => {
                    (word, Some(OsString::from(value)))
                }
                _ => (word, None),
            };
            let mut value = || inline.clone().or_else(|| args.next());
            match word {
                "--version" | "-v" => options.version = true,
                "--no-session" => options.ephemeral = true,
                "--no-tools" => options.tools = Some(Vec::new()),
                "--session-dir" => options.session_dir = value().map(PathBuf::from),
                "--session" => options.session = value().map(PathBuf::from),
                "--session-id" => options.session_id = value().map(text),
                "--name" => options.name = value().map(text),
                "--model" => options.model = value().map(text),
                "--thinking" => options.thinking = value().map(text),
                "--append-system-prompt" => options.system_prompt.extend(value().map(text)),
                "--tools" => {
                    options.tools = value().map(text).map(|list| {
                        list.split(',')
                            .map(|tool| tool.trim().to_owned())
                            .filter(|tool| !tool.is_empty())
                            .collect()
                    });
                }
                // Options of Pi that take a value which means nothing here.
                "--mode" | "--provider" | "--api-key" | "--extension" | "-e" | "--skill"
                | "--system-prompt" | "--exclude-tools" => {
                    value();
                }
                _ => {}
            }
        }
        options
    }

    /// True when a tool may be used.
    pub fn allows(&self, tool: &str) -> bool {
        self.tools
            .as_ref()
            .is_none_or(|tools| tools.iter().any(|name| name == tool))
    }
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}
