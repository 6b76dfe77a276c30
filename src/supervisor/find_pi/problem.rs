//! What can be wrong with Pi or Node, in words and with the exact way out (R-OPS-02, R-PI-06). One text for the
//! first-run screen, `doctor` and the error of a start.

use std::path::{Path, PathBuf};

use crate::pi::compat::Version;

/// The command that installs or updates Pi.
pub const INSTALL_PI: &str = "npm install -g @earendil-works/pi-coding-agent@latest";

/// How a person says which Pi to run, where the problem is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `pi-agents --pi CMD`, also as an option of a verb.
    Option,
    /// `PI_AGENTS_PI=CMD`: for a verb that has no options of its own.
    Variable,
}

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Self::Option => "--pi",
            Self::Variable => "PI_AGENTS_PI",
        }
    }

    /// The command that runs another Pi.
    fn example(self) -> &'static str {
        match self {
            Self::Option => "  pi-agents --pi /path/to/pi",
            Self::Variable => "  PI_AGENTS_PI=/path/to/pi pi-agents pi",
        }
    }
}

/// Why agents cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.title())]
pub enum PiProblem {
    /// `--pi CMD` cannot be read.
    BadCommand {
        /// As given.
        command: String,
        /// What is wrong with it.
        why: String,
    },
    /// No such program.
    NotFound {
        /// `--pi CMD`, if given.
        command: Option<String>,
        /// What was looked for.
        program: String,
    },
    /// The program cannot be started.
    CannotRun {
        /// The program.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The system refuses to start any program: no fault of this one.
    NotNow {
        /// The program.
        path: PathBuf,
        /// What the system says.
        why: String,
        /// What to do about it.
        way_out: &'static str,
    },
    /// A program of that name which is not Pi (B100).
    NotPi {
        /// The program.
        path: PathBuf,
        /// How that was seen.
        why: String,
        /// Short cleaned excerpt of what it printed; may be empty.
        said: String,
    },
    /// Pi is older than what works (R-PI-06).
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: Version,
        /// The oldest that works.
        needed: Version,
        /// It was chosen with `--pi`.
        given: bool,
    },
    /// Pi is there, no Node is.
    NoNode {
        /// The oldest that works.
        needed: Version,
    },
    /// Every Node found is too old for Pi.
    NodeTooOld {
        /// The newest one found.
        path: PathBuf,
        /// Its version.
        found: Version,
        /// The oldest that works.
        needed: Version,
    },
    /// Pi has no model to talk to.
    NoModels {
        /// Pi's folder of settings.
        agent_dir: PathBuf,
    },
    /// Another extension has tools of our names: Pi loads no two with the same tool (pi-facts §0).
    SameTool {
        /// The names.
        tools: Vec<String>,
        /// Its file.
        extension: PathBuf,
    },
    /// Another extension does not load, and Pi ends for it.
    BadExtension {
        /// Its file.
        extension: PathBuf,
        /// What Pi says of it, cleaned.
        why: String,
    },
}

impl PiProblem {
    /// Both in one line, for the reason of an agent that did not start: what to do comes before the
    /// path, which may be long.
    #[must_use]
    pub fn one_line(&self) -> String {
        match self {
            Self::SameTool { extension, .. } | Self::BadExtension { extension, .. } => format!(
                "{}; turn it off (pi config) or remove it: {}",
                self.title(),
                show(extension)
            ),
            _ => self.title(),
        }
    }

    /// What is wrong, one line.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::BadCommand { why, .. } => format!("the command of Pi cannot be read: {why}"),
            Self::NotFound {
                command: Some(_),
                program,
            } => format!("{} is not there", clean(program)),
            Self::NotFound { command: None, .. } => "Pi is not installed".to_owned(),
            Self::CannotRun { path, .. } => format!("{} does not start", show(path)),
            Self::NotNow { path, why, .. } => {
                format!("{} cannot be started now: {}", show(path), clean(why))
            }
            Self::NotPi { path, .. } => format!("{} is not Pi", show(path)),
            Self::TooOld { found, needed, .. } => {
                format!("Pi {found} is too old: {needed} or newer is needed")
            }
            Self::NoNode { .. } => "Node is not installed".to_owned(),
            Self::NodeTooOld { found, needed, .. } => {
                format!("Node {found} is too old for Pi: {needed} or newer is needed")
            }
            Self::NoModels { .. } => "Pi has no model configured".to_owned(),
            Self::SameTool { tools, .. } => {
                let names = clean(&tools.join(", "));
                match tools.len() {
                    1 => format!("another extension has a tool named {names}"),
                    _ => format!("another extension has tools named {names}"),
                }
            }
            Self::BadExtension { .. } => "an extension of Pi does not load".to_owned(),
        }
    }

    /// What was seen and what to do, a few lines. A line that begins with two spaces is a command to type.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines_for(Choice::Option)
    }

    /// The same where Pi is chosen in this way.
    #[must_use]
    pub fn lines_for(&self, choice: Choice) -> Vec<String> {
        let (name, example) = (choice.name(), choice.example().to_owned());
        match self {
            Self::BadCommand { command, .. } => vec![
                format!("Given was: {}", clean(command)),
                "Words are split at spaces; quotes and backslashes keep them together:".to_owned(),
                match choice {
                    Choice::Option => "  pi-agents --pi 'node /path/to/cli.js'",
                    Choice::Variable => "  PI_AGENTS_PI='node /path/to/cli.js' pi-agents pi",
                }
                .to_owned(),
            ],
            Self::NotFound {
                command: Some(command),
                ..
            } => vec![
                format!("Looked for because of {name} {}", clean(command)),
                format!(
                    "Name the program by its path, or leave {name} out to use the pi on your PATH."
                ),
            ],
            Self::NotFound { command: None, .. } => vec![
                "No pi on your PATH. Install it:".to_owned(),
                format!("  {INSTALL_PI}"),
                "Or say where it is:".to_owned(),
                example,
            ],
            Self::CannotRun { path, why } => vec![
                format!("{}: {}", show(path), clean(why)),
                "Install Pi again, or say which one to run:".to_owned(),
                format!("  {INSTALL_PI}"),
                example,
            ],
            Self::NotNow { way_out, .. } => vec![(*way_out).to_owned()],
            Self::NotPi { why, said, .. } => {
                let mut lines = vec![if said.is_empty() {
                    format!("Another program has this name: {}.", clean(why))
                } else {
                    format!("Another program has this name: {} ({said}).", clean(why))
                }];
                lines.push("Say which one to run, or install Pi:".to_owned());
                lines.push(example);
                lines.push(format!("  {INSTALL_PI}"));
                lines
            }
            Self::TooOld { path, given, .. } => {
                let mut lines = vec![format!("Found at {}", show(path)), "Update it:".to_owned()];
                lines.push(format!("  {INSTALL_PI}"));
                if *given {
                    lines.push(format!("Or leave {name} out to use the pi on your PATH."));
                }
                lines
            }
            Self::NoNode { needed } => node_lines(
                "Pi runs on Node, and there is no node on your PATH.".to_owned(),
                needed,
            ),
            Self::NodeTooOld { path, needed, .. } => {
                node_lines(format!("Newest one found: {}", show(path)), needed)
            }
            Self::NoModels { agent_dir } => vec![
                format!(
                    "Nothing in {} and no key in the environment.",
                    show(agent_dir)
                ),
                "Start Pi once and log in, or set your provider's key:".to_owned(),
                "  pi    (then /login)".to_owned(),
                "  export ANTHROPIC_API_KEY=...".to_owned(),
            ],
            Self::SameTool { extension, .. } => turn_off(
                choice,
                format!("It is {}", show(extension)),
                "Pi starts with only one of a name. Turn that one off, or remove it:",
            ),
            Self::BadExtension { extension, why } => turn_off(
                choice,
                format!("{}: {}", show(extension), clean(why)),
                "Pi ends for it. Turn it off, or mend it:",
            ),
        }
    }
}

/// What to do about an extension that keeps Pi from starting.
fn turn_off(choice: Choice, first: String, what: &str) -> Vec<String> {
    let without = match choice {
        Choice::Option => "  pi-agents --pi 'pi --no-extensions'",
        // As an option it would not hold for the agents of the session.
        Choice::Variable => "  PI_AGENTS_PI='pi --no-extensions' pi-agents pi",
    };
    vec![
        first,
        what.to_owned(),
        "  pi config".to_owned(),
        "Or go without the extensions that are installed:".to_owned(),
        without.to_owned(),
    ]
}

fn node_lines(first: String, needed: &Version) -> Vec<String> {
    vec![
        first,
        format!("Install Node {needed} or newer, with the tool you use for it:"),
        "  nvm install 22".to_owned(),
        "  fnm install 22".to_owned(),
        "  brew install node".to_owned(),
        "or from https://nodejs.org/en/download".to_owned(),
    ]
}

/// A path for display: on one line whatever its name holds.
fn show(path: &Path) -> String {
    clean(&path.display().to_string())
}

fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
}
