//! The command line, as Pi accepts it. An unknown option ends the start, as with Pi, unless an
//! extension is given that could have registered it.

use std::path::PathBuf;

/// What the fake does something with; the rest is only checked.
#[derive(Debug, Default)]
pub(crate) struct Args {
    pub(crate) model: Option<String>,
    pub(crate) thinking: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) session_dir: Option<PathBuf>,
    pub(crate) no_session: bool,
}

const WITH_VALUE: &[&str] = &[
    "--provider",
    "--api-key",
    "--system-prompt",
    "--append-system-prompt",
    "--mode",
    "--fork",
    "--models",
    "--tools",
    "-t",
    "--exclude-tools",
    "-xt",
    "--extension",
    "-e",
    "--skill",
    "--prompt-template",
    "--theme",
    "--use-theme",
    "--export",
    "--tui-mode",
];

const WITHOUT: &[&str] = &[
    "--print",
    "-p",
    "--continue",
    "-c",
    "--resume",
    "-r",
    "--no-tools",
    "-nt",
    "--no-builtin-tools",
    "-nbt",
    "--no-extensions",
    "-ne",
    "--no-mcp",
    "--no-skills",
    "-ns",
    "--no-prompt-templates",
    "-np",
    "--no-themes",
    "--no-context-files",
    "-nc",
    "--verbose",
    "--approve",
    "-a",
    "--no-approve",
    "-na",
    "--offline",
];

/// Reads the words after the program name.
pub(crate) fn parse(words: &[String]) -> Result<Args, String> {
    let extension = |word: &String| word == "-e" || word == "--extension";
    let lenient = words.iter().any(extension);
    let mut args = Args::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next().cloned();
            value.ok_or_else(|| format!("Error: Option {word} needs a value"))
        };
        match word.as_str() {
            "--" => break,
            "--model" => args.model = Some(value()?),
            "--thinking" => args.thinking = Some(value()?),
            "--name" | "-n" => args.name = Some(value()?),
            "--session" => args.session = Some(value()?),
            "--session-id" => args.session_id = Some(value()?),
            "--session-dir" => args.session_dir = Some(value()?.into()),
            "--no-session" => args.no_session = true,
            known if WITH_VALUE.contains(&known) => {
                let _ = value()?;
            }
            known if WITHOUT.contains(&known) => {}
            option if option.starts_with('-') && !lenient => {
                return Err(format!("Error: Unknown option: {option}"));
            }
            _ => {}
        }
    }
    Ok(args)
}
