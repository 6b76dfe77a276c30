//! What can be set, and where each value came from (R-OPS-04): the command line beats the
//! environment, the environment beats the file, the file beats the default. One table.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::env::{self, Environment};
use crate::sys::logging;

/// The settings of a process, taken once at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Command line of the Pi to run; `None` = `pi` on the PATH.
    pub pi: Option<String>,
    /// Model of new agents; `None` = Pi's own default.
    pub model: Option<String>,
    /// Level of the log file, or directives of `tracing`.
    pub log: String,
    /// First wait of the stop ladder: after closing the child's input.
    pub stop_eof: Duration,
    /// Second wait of the stop ladder: after the terminate signal.
    pub stop_term: Duration,
    /// Bound on a child's start, up to its first answer.
    pub start_timeout: Duration,
    /// Bound on a child's acceptance of a prompt.
    pub prompt_timeout: Duration,
    /// Children that may be starting at the same time (R-PI-11).
    pub launch_slots: usize,
    /// Levels of agents below a person or a Pi session, as wished (R-ID-07). What a core can do of
    /// it is the supervisor's to say.
    pub max_depth: u32,
    /// A core with nobody attached and nothing running ends after this long (R-LIFE-19).
    pub core_idle_exit: Duration,
    /// Longest record taken from a child, in bytes (R-Q-01).
    pub record_limit: usize,
    /// Text kept in memory of one agent's transcript, in bytes; older entries stay in its session file.
    pub transcript_limit: usize,
    /// The second press of a double key must come within this time.
    pub double_key: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pi: None,
            model: None,
            log: "info".to_owned(),
            stop_eof: Duration::from_millis(1500),
            stop_term: Duration::from_millis(750),
            start_timeout: Duration::from_secs(60),
            prompt_timeout: Duration::from_secs(60),
            launch_slots: std::thread::available_parallelism().map_or(2, usize::from),
            max_depth: 1,
            core_idle_exit: Duration::from_secs(600),
            record_limit: 64 << 20,
            transcript_limit: 1 << 20,
            double_key: Duration::from_millis(2000),
        }
    }
}

/// What a setting holds, and how it gets into [`Settings`].
#[derive(Clone, Copy)]
enum Kind {
    Text(fn(&mut Settings, String)),
    /// A text that is a level of the log.
    Level(fn(&mut Settings, String)),
    Millis(fn(&mut Settings, Duration)),
    Count {
        least: u64,
        most: u64,
        set: fn(&mut Settings, usize),
    },
}

/// One row of the settings table.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Dotted key in the file and on the command line.
    pub key: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// The default, in words.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
    kind: Kind,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

/// Longest time that can be set: 30 days.
const MOST_MILLIS: u64 = 30 * 24 * 3600 * 1000;

/// Most levels of agents that can be wished for.
const MOST_DEPTH: u64 = 16;

/// Every setting.
pub const TABLE: &[Setting] = &[
    Setting {
        key: "pi",
        env: env::PI,
        default: "`pi` on the PATH",
        doc: "command line of the Pi to run; split into words, never run by a shell",
        kind: Kind::Text(|s, v| s.pi = Some(v)),
    },
    Setting {
        key: "model",
        env: "PI_AGENTS_MODEL",
        default: "Pi's own",
        doc: "model of new agents: `provider/id` or a bare id",
        kind: Kind::Text(|s, v| s.model = Some(v)),
    },
    Setting {
        key: "log",
        env: env::LOG,
        default: "`info`",
        doc: "level of the log file: `off`, `error`, `warn`, `info`, `debug` or `trace`",
        kind: Kind::Level(|s, v| s.log = v),
    },
    Setting {
        key: "agents.max_depth",
        env: env::MAX_DEPTH,
        default: "1",
        doc: "how many levels of agents there may be below you or a Pi session. Agents start no agents of their own yet: more than 1 is accepted for later and works as 1",
        kind: Kind::Count {
            least: 1,
            most: MOST_DEPTH,
            set: |s, v| s.max_depth = u32::try_from(v).unwrap_or(u32::MAX),
        },
    },
    Setting {
        key: "launch.slots",
        env: "PI_AGENTS_LAUNCH_SLOTS",
        default: "number of processors",
        doc: "children that may be starting at the same time",
        kind: Kind::Count {
            least: 1,
            most: 1024,
            set: |s, v| s.launch_slots = v,
        },
    },
    Setting {
        key: "launch.start_timeout_ms",
        env: "PI_AGENTS_LAUNCH_START_TIMEOUT_MS",
        default: "60000",
        doc: "longest wait for the first answer of a started child, in milliseconds",
        kind: Kind::Millis(|s, v| s.start_timeout = v),
    },
    Setting {
        key: "launch.prompt_timeout_ms",
        env: "PI_AGENTS_LAUNCH_PROMPT_TIMEOUT_MS",
        default: "60000",
        doc: "longest wait until a child accepts a prompt, in milliseconds",
        kind: Kind::Millis(|s, v| s.prompt_timeout = v),
    },
    Setting {
        key: "stop.eof_ms",
        env: "PI_AGENTS_STOP_EOF_MS",
        default: "1500",
        doc: "a stopped child has this long to leave by itself before it is asked by signal, in milliseconds",
        kind: Kind::Millis(|s, v| s.stop_eof = v),
    },
    Setting {
        key: "stop.term_ms",
        env: "PI_AGENTS_STOP_TERM_MS",
        default: "750",
        doc: "after that signal it has this long before it is killed, in milliseconds",
        kind: Kind::Millis(|s, v| s.stop_term = v),
    },
    Setting {
        key: "core.idle_exit_ms",
        env: "PI_AGENTS_CORE_IDLE_EXIT_MS",
        default: "600000",
        doc: "a core with nobody attached and no run going on ends after this long, and its idle agents with it (a message brings them back), in milliseconds",
        kind: Kind::Millis(|s, v| s.core_idle_exit = v),
    },
    Setting {
        key: "limits.record_bytes",
        env: "PI_AGENTS_LIMITS_RECORD_BYTES",
        default: "67108864",
        doc: "longest record taken from a child, in bytes",
        kind: Kind::Count {
            least: 64 * 1024,
            most: 1 << 30,
            set: |s, v| s.record_limit = v,
        },
    },
    Setting {
        key: "limits.transcript_bytes",
        env: "PI_AGENTS_LIMITS_TRANSCRIPT_BYTES",
        default: "1048576",
        doc: "text of one agent kept in memory, in bytes; the rest stays in its session file",
        kind: Kind::Count {
            least: 64 * 1024,
            most: 1 << 30,
            set: |s, v| s.transcript_limit = v,
        },
    },
    Setting {
        key: "keys.double_ms",
        env: "PI_AGENTS_KEYS_DOUBLE_MS",
        default: "2000",
        doc: "the second press of a double key must come within this time, in milliseconds",
        kind: Kind::Millis(|s, v| s.double_key = v),
    },
];

/// Whether a variable is a person's. In a child the depth is what its core says of the tree; for
/// whatever runs in the child's shell it says nothing (R-ID-07).
fn holds_here(setting: &Setting, env: &Environment) -> bool {
    setting.env != env::MAX_DEPTH || env.get(env::AGENT_ID).is_none()
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file, at this line.
    File {
        /// Line, from 1.
        line: usize,
    },
    /// Its environment variable.
    Environment,
    /// The command line.
    CommandLine,
}

/// Settings and the origin of each, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// Where they came from; one for every row of [`TABLE`].
    pub origins: BTreeMap<&'static str, Origin>,
}

/// Why settings were refused. The text names the place and the way out.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is there and cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{path}, line {line}: {what}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// An environment variable does.
    #[error("environment variable {name}: {what}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The command line does.
    #[error("setting {key}: {what}")]
    CommandLine {
        /// The key as given.
        key: String,
        /// What is wrong, and what would be right.
        what: String,
    },
}

impl Loaded {
    /// Reads the file (a missing one is an empty one), the environment and the command line.
    ///
    /// # Errors
    /// The first thing that is not understood.
    pub fn load(
        file: &Path,
        env: &Environment,
        command_line: &[(&str, &str)],
    ) -> Result<Self, SettingsError> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            // A home that does not exist has no file either.
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                String::new()
            }
            Err(source) => {
                return Err(SettingsError::Read {
                    path: file.to_owned(),
                    source,
                });
            }
        };
        Self::from_text(file, &text, env, command_line)
    }

    /// The same with the text of the file.
    ///
    /// # Errors
    /// The first thing that is not understood.
    pub fn from_text(
        file: &Path,
        text: &str,
        env: &Environment,
        command_line: &[(&str, &str)],
    ) -> Result<Self, SettingsError> {
        let mut loaded = Self {
            settings: Settings::default(),
            origins: TABLE.iter().map(|s| (s.key, Origin::Default)).collect(),
        };
        loaded.read_file(file, text)?;
        for setting in TABLE {
            let Some(value) = env.get(setting.env).filter(|_| holds_here(setting, env)) else {
                continue;
            };
            let refuse = |what| SettingsError::Environment {
                name: setting.env,
                what,
            };
            let value = value
                .to_str()
                .ok_or_else(|| refuse("the value is not UTF-8".to_owned()))?;
            loaded.set_word(setting, value).map_err(refuse)?;
            loaded.origins.insert(setting.key, Origin::Environment);
        }
        for (key, value) in command_line {
            let refuse = |what| SettingsError::CommandLine {
                key: (*key).to_owned(),
                what,
            };
            let setting = find(key).ok_or_else(|| refuse(unknown(key)))?;
            loaded.set_word(setting, value).map_err(refuse)?;
            loaded.origins.insert(setting.key, Origin::CommandLine);
        }
        Ok(loaded)
    }

    fn set_word(&mut self, setting: &Setting, word: &str) -> Result<(), String> {
        match setting.kind {
            Kind::Text(set) => {
                set(&mut self.settings, word.to_owned());
                Ok(())
            }
            Kind::Level(set) => {
                logging::check_level(word)?;
                set(&mut self.settings, word.to_owned());
                Ok(())
            }
            Kind::Millis(_) | Kind::Count { .. } => match word.trim().parse() {
                Ok(number) => self.set_number(setting, number),
                Err(_) => Err(format!("`{word}` is not a whole number")),
            },
        }
    }

    fn set_number(&mut self, setting: &Setting, number: u64) -> Result<(), String> {
        let (least, most) = match setting.kind {
            Kind::Text(_) | Kind::Level(_) => return Err("must be a text in quotes".to_owned()),
            Kind::Millis(_) => (1, MOST_MILLIS),
            Kind::Count { least, most, .. } => (least, most),
        };
        if !(least..=most).contains(&number) {
            return Err(format!("{number} is not between {least} and {most}"));
        }
        match setting.kind {
            Kind::Text(_) | Kind::Level(_) => {}
            Kind::Millis(set) => set(&mut self.settings, Duration::from_millis(number)),
            Kind::Count { set, .. } => {
                set(
                    &mut self.settings,
                    usize::try_from(number).unwrap_or(usize::MAX),
                );
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path, text: &str) -> Result<(), SettingsError> {
        let refuse = |at: Option<usize>, what: String| SettingsError::File {
            path: path.to_owned(),
            line: line_of(text, at.unwrap_or(0)),
            what,
        };
        let table = DeTable::parse(text)
            .map_err(|e| refuse(e.span().map(|s| s.start), e.message().to_owned()))?;
        self.read_table("", table.get_ref(), text)
            .map_err(|(at, what)| refuse(Some(at), what))
    }

    /// Errors carry the byte they are about.
    fn read_table(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        text: &str,
    ) -> Result<(), (usize, String)> {
        for (name, value) in table {
            let at = name.span().start;
            let key = format!("{prefix}{}", name.get_ref());
            let group = format!("{key}.");
            if TABLE.iter().any(|s| s.key.starts_with(&group)) {
                let DeValue::Table(inner) = value.get_ref() else {
                    return Err((
                        at,
                        format!("`{key}` is a group: write [{key}] above its keys"),
                    ));
                };
                self.read_table(&group, inner, text)?;
                continue;
            }
            let setting = find(&key).ok_or_else(|| (at, unknown(&key)))?;
            let refuse = |what: String| (at, format!("`{key}` {what}"));
            match value.get_ref() {
                DeValue::String(word) => match setting.kind {
                    Kind::Text(_) | Kind::Level(_) => self
                        .set_word(setting, word)
                        .map_err(|what| refuse(format!("cannot be this: {what}")))?,
                    Kind::Millis(_) | Kind::Count { .. } => {
                        return Err(refuse("must be a whole number, without quotes".to_owned()));
                    }
                },
                DeValue::Integer(number) => {
                    let number = u64::from_str_radix(number.as_str(), number.radix())
                        .map_err(|_| refuse(format!("cannot be {}", number.as_str())))?;
                    self.set_number(setting, number)
                        .map_err(|what| (at, format!("`{key}`: {what}")))?;
                }
                other => {
                    let wanted = match setting.kind {
                        Kind::Text(_) | Kind::Level(_) => "a text in quotes",
                        Kind::Millis(_) | Kind::Count { .. } => "a whole number",
                    };
                    return Err(refuse(format!(
                        "must be {wanted}, not {}",
                        other.type_str()
                    )));
                }
            }
            self.origins.insert(
                setting.key,
                Origin::File {
                    line: line_of(text, at),
                },
            );
        }
        Ok(())
    }
}

fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key)
}

fn unknown(key: &str) -> String {
    let keys: Vec<&str> = TABLE.iter().map(|setting| setting.key).collect();
    format!("`{key}` is no setting; there are: {}", keys.join(", "))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}
