//! The scripts in `assets/demo`, and which one a task gets.

use serde::Deserialize;
use serde_json::Value;

/// Every script, in the order in which ties are decided.
const SCRIPTS: [&str; 6] = [
    include_str!("../../assets/demo/search.json"),
    include_str!("../../assets/demo/tests.json"),
    include_str!("../../assets/demo/refactor.json"),
    include_str!("../../assets/demo/outage.json"),
    include_str!("../../assets/demo/long.json"),
    include_str!("../../assets/demo/followup.json"),
];

/// Name of the script for tasks whose words say nothing.
const ANY_TASK: &str = "search";

/// Name of the script for later messages whose words say nothing.
const ANY_FOLLOW_UP: &str = "followup";

const PHRASES: &str = include_str!("../../assets/demo/phrases.json");

/// A scripted piece of work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Name.
    pub name: String,
    /// Beginnings of words in a task that ask for it.
    pub words: Vec<String>,
    /// What the agent does, answer by answer.
    pub turns: Vec<Turn>,
}

/// One answer of the model and the tools it calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Thinking before the answer.
    pub thinking: String,
    /// The answer.
    pub text: String,
    /// Tools, all called at once.
    pub tools: Vec<Step>,
    /// The provider fails with this instead of answering.
    pub error: Option<String>,
}

/// One tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Tool.
    pub tool: String,
    /// Arguments, as shown.
    pub args: Value,
    /// What really happens.
    #[serde(flatten)]
    pub act: Act,
}

/// What a tool call does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// A shell prints these lines, each after a pause in seconds, and ends with a code.
    Prints {
        /// Pause and line.
        lines: Vec<(f64, String)>,
        /// Exit code.
        #[serde(default)]
        exit: u8,
    },
    /// A result that is only told.
    Answers {
        /// For the model.
        text: String,
        /// For the screen.
        #[serde(default)]
        details: Option<Value>,
    },
    /// A dialog for the person.
    Asks {
        /// `select`, `confirm` or `input`.
        method: String,
        /// Title.
        title: String,
        /// Longer text of `confirm`.
        #[serde(default)]
        message: Option<String>,
        /// Choices of `select`.
        #[serde(default)]
        options: Option<Vec<String>>,
        /// Grey text of `input`.
        #[serde(default)]
        placeholder: Option<String>,
    },
}

/// Sentences that fit into any script. `{…}` is filled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrases {
    /// Before the first answer when the session has a past that was reported.
    pub earlier: String,
    /// Before the first answer when the session was cut short.
    pub interrupted: String,
    /// Before the next answer when the agent was told something meanwhile.
    pub told: String,
    /// The answer when it was told something at the very end.
    pub told_late: String,
    /// Before the last answer, about everything it was told.
    pub heeded: String,
    /// Instead of a tool that was not allowed.
    pub no_tool: String,
    /// Answer of a dialog that was closed.
    pub no_answer: String,
}

/// All scripts and phrases.
#[derive(Clone, Debug)]
pub struct Repertoire {
    scripts: Vec<Script>,
    /// The phrases.
    pub phrases: Phrases,
}

impl Repertoire {
    /// Reads the embedded files.
    pub fn load() -> Result<Self, serde_json::Error> {
        Ok(Self {
            scripts: SCRIPTS
                .iter()
                .map(|text| serde_json::from_str(text))
                .collect::<Result<_, _>>()?,
            phrases: serde_json::from_str(PHRASES)?,
        })
    }

    /// The turns for a message: the script whose words it has most of.
    pub fn choose(&self, message: &str, first: bool) -> Vec<Turn> {
        let message = message.to_lowercase();
        let words: Vec<&str> = message
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let score = |script: &Script| {
            words
                .iter()
                .filter(|word| {
                    script
                        .words
                        .iter()
                        .any(|start| word.starts_with(start.as_str()))
                })
                .count()
        };
        let otherwise = if first { ANY_TASK } else { ANY_FOLLOW_UP };
        let best = self
            .scripts
            .iter()
            .rev()
            .max_by_key(|script| score(script))
            .filter(|script| score(script) > 0)
            .or_else(|| self.scripts.iter().find(|script| script.name == otherwise));
        best.map(|script| script.turns.clone()).unwrap_or_default()
    }
}

/// Fills `{name}` places of a template.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let found = values.iter().find_map(|(name, value)| {
            let tail = from
                .strip_prefix('{')?
                .strip_prefix(name)?
                .strip_prefix('}')?;
            Some((value, tail))
        });
        match found {
            Some((value, tail)) => {
                text.push_str(value);
                rest = tail;
            }
            None => {
                text.push('{');
                rest = from.strip_prefix('{').unwrap_or_default();
            }
        }
    }
    text.push_str(rest);
    text
}

/// The beginning of a text on one line, at most `max` characters.
pub fn brief(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let cut: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}
