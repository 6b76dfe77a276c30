//! `pi-agents doctor`: what works here, what does not, and how to mend it.

use std::io::IsTerminal;
use std::process::ExitCode;

use serde_json::json;

use super::checks::{self, Care, Check, Verdict};
use super::common::{Folder, Ground};
use super::exit::{CliError, Kind};
use super::{JSON_VERSION, clean, say};
use crate::control::discovery::{self, CoreEntry};
use crate::supervisor::DEEPEST;

/// Checks this machine
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    folder: Folder,
    /// Command that starts Pi
    #[arg(long, value_name = "CMD")]
    pi: Option<String>,
    /// Print the checks as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let line: Vec<_> = args.pi.iter().map(|pi| ("pi", pi.as_str())).collect();
    let ground = Ground::find(&line)?;
    let folder = args.folder.path()?;
    let mut checks = checks::all(&ground, &folder, Care::Whole);
    let entry = discovery::find_core(&ground.paths, &folder);
    if let (Some(entry), Some(pi)) = (&entry, checks.first_mut())
        && pi.verdict == Verdict::Bad
    {
        pi.fix.push(format!(
            "this is about the PATH and settings of this shell; the core that works for this folder \
             (process {}) has its own",
            entry.pid
        ));
    }
    checks.extend(depth(&ground));
    checks.push(terminal(&ground));
    checks.push(core(entry));

    if args.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|c| {
                json!({
                    "verdict": match c.verdict {
                        Verdict::Good => "good",
                        Verdict::Note => "note",
                        Verdict::Bad => "bad",
                    },
                    "title": c.title,
                    "fix": c.fix,
                })
            })
            .collect();
        say(&json!({ "version": JSON_VERSION, "checks": rows }).to_string());
    } else {
        for check in &checks {
            let icon = match check.verdict {
                Verdict::Good => '✓',
                Verdict::Note => '·',
                Verdict::Bad => '✗',
            };
            say(&format!("{icon} {}", clean(&check.title)));
            for line in &check.fix {
                say(&format!("    {}", clean(line)));
            }
        }
    }
    let bad = checks.iter().any(|c| c.verdict == Verdict::Bad);
    Ok(if bad {
        ExitCode::from(Kind::StartFailed.code())
    } else {
        ExitCode::SUCCESS
    })
}

/// A wish for more levels than there can be (R-ID-07).
fn depth(ground: &Ground) -> Option<Check> {
    let wish = ground.settings.max_depth;
    (wish > DEEPEST).then(|| Check {
        verdict: Verdict::Note,
        title: format!("agents.max_depth is {wish} and works as {DEEPEST} so far"),
        fix: vec![
            "agents start no agents of their own yet; the setting is kept for later".to_owned(),
        ],
    })
}

fn terminal(ground: &Ground) -> Check {
    let term = ground
        .env
        .get("TERM")
        .map(|t| t.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (verdict, title) = if !std::io::stdout().is_terminal() {
        (
            Verdict::Note,
            "this is not a terminal: the screen needs one".to_owned(),
        )
    } else if term.is_empty() || term == "dumb" {
        (Verdict::Bad, format!("TERM={term} cannot show a screen"))
    } else {
        (Verdict::Good, format!("terminal · {term}"))
    };
    let fix = if verdict == Verdict::Bad {
        vec!["use another terminal, or the shell verbs: pi-agents ps, spawn, send, stop".to_owned()]
    } else {
        Vec::new()
    };
    Check {
        verdict,
        title,
        fix,
    }
}

fn core(entry: Option<CoreEntry>) -> Check {
    match entry {
        Some(entry) => Check {
            verdict: Verdict::Good,
            title: format!("a core works for this folder · process {}", entry.pid),
            fix: Vec::new(),
        },
        None => Check {
            verdict: Verdict::Good,
            title: "no core works for this folder; `pi-agents` starts one".to_owned(),
            fix: Vec::new(),
        },
    }
}
