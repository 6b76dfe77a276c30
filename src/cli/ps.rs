//! `pi-agents ps`: the agents of a folder, for eyes or as JSON.

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use super::common::{self, Ground};
use super::exit::CliError;
use super::target::{self, Found, Owner, Reach, Whose};
use super::{JSON_VERSION, clean, say};
use crate::fleet::agent::Status;
use crate::fleet::roster::AgentView;

/// Lists the agents of this folder, those of its Pi sessions included
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    whose: Whose,
    /// List those of every folder of yours
    #[arg(long, short, conflicts_with_all = ["own", "session", "folder"])]
    all: bool,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let ground = Ground::find(&[])?;
    let reach = common::block_on(async {
        match args.all {
            true => target::everywhere(&ground).await,
            false => args.whose.reach(&ground).await,
        }
    })?;
    if args.json {
        say(&as_json(&reach, args.all).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let mut groups = groups(&reach);
    if groups.iter().all(|(_, _, agents)| agents.is_empty()) {
        let own = groups.iter().any(|(_, owner, _)| *owner == Owner::You);
        say(match own {
            true => "no agents here yet · start one with `pi-agents spawn TASK`",
            false => "no agents here yet · a Pi session starts its own; `pi-agents` opens yours",
        });
        groups.clear();
    }
    // A heading only where there is something to tell apart.
    let headings = args.all || groups.iter().any(|(_, owner, _)| *owner != Owner::You);
    for (core, owner, agents) in groups {
        if headings {
            let folder = target::folder_words(&core.fleet.core.folder);
            say(&match &owner {
                Owner::You => format!("you · {folder}"),
                Owner::Pi(id) => format!("pi session {} · {folder}", clean(id)),
            });
        }
        for agent in agents {
            say(&line(agent));
        }
    }
    // Beside the list: an agent that is not in it would else be missed by nobody.
    for badge in reach.cores().iter().flat_map(|c| &c.fleet.core.badges) {
        let _ = writeln!(std::io::stderr(), "pi-agents: {}", badge.words());
    }
    Ok(ExitCode::SUCCESS)
}

type Group<'a> = (&'a Found, Owner, Vec<&'a AgentView>);

/// The agents by whose they are; a session without agents is there too.
fn groups(reach: &Reach) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for core in reach.cores() {
        let from = groups.len();
        let yours = core.person.then_some(Owner::You);
        let sessions = core.fleet.core.sessions.iter();
        let owners = yours
            .into_iter()
            .chain(sessions.map(|s| Owner::Pi(s.session.clone())));
        groups.extend(
            owners
                .filter(|owner| reach.means(owner))
                .map(|owner| (core, owner, Vec::new())),
        );
        for target in reach.agents().filter(|t| std::ptr::eq(t.core, core)) {
            let owner = target.owner();
            let of_core = groups.iter_mut().skip(from);
            match of_core.into_iter().find(|(_, o, _)| *o == owner) {
                Some((_, _, agents)) => agents.push(target.agent),
                None => groups.push((core, owner, vec![target.agent])),
            }
        }
    }
    groups
}

/// `core` and `agents` are those of the person's core of the folder, `others` all the rest.
fn as_json(reach: &Reach, everywhere: bool) -> serde_json::Value {
    let agents = |core: &Found| -> Vec<&AgentView> {
        let of_core = reach.agents().filter(|t| std::ptr::eq(t.core, core));
        of_core.map(|t| t.agent).collect()
    };
    let first = reach.cores().first();
    let own = first.filter(|core| core.person && !everywhere);
    let rest = reach.cores().iter().skip(usize::from(own.is_some()));
    let others: Vec<_> = rest
        .map(|core| json!({ "core": core.fleet.core, "agents": agents(core) }))
        .collect();
    json!({
        "version": JSON_VERSION,
        "core": own.map(|core| &core.fleet.core),
        "agents": own.map(agents).unwrap_or_default(),
        "others": others,
    })
}

/// One agent in one line: status icon first, then name, state and label.
fn line(agent: &AgentView) -> String {
    let (mut icon, mut words) = match &agent.status {
        Status::Queued => ('○', "queued".to_owned()),
        Status::Starting => ('◌', "starting".to_owned()),
        Status::Running => ('▸', "running".to_owned()),
        Status::Idle => ('‖', "idle".to_owned()),
        Status::Completed => ('✓', "completed".to_owned()),
        Status::Failed { reason } => ('✗', format!("failed: {}", clean(reason))),
        Status::Stopped { by } => ('■', format!("stopped {}", by.words())),
    };
    if agent.closing {
        words = "stopping".to_owned();
    } else if !agent.dialogs.is_empty() {
        icon = '?';
        words = "asks".to_owned();
    } else if let Some(retry) = &agent.retry {
        words = format!("retrying {}/{}", retry.attempt, retry.max);
    }
    format!(
        "{icon} @{:<6} {words:<10} · {}",
        clean(&agent.name),
        clean(&agent.spec.label)
    )
}
