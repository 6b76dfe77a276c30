//! Which core and which agent a verb is about: the person's core of the folder and the cores of the
//! Pi sessions that run in it. What is not clear is asked back, never guessed.

use std::collections::HashMap;
use std::path::Path;

use clap::Args;

use super::common::{self, Folder, Ground};
use super::exit::{CliError, Kind};
use crate::client::{FleetClient, Reply, Request};
use crate::control::client::{self, ControlClient};
use crate::control::discovery::{self, CoreEntry};
use crate::control::protocol::Role;
use crate::fleet::ids::{AgentId, HostId};
use crate::fleet::roster::{AgentView, FleetSnapshot, SessionView};

/// Fewest characters of a session's id that are shown.
const SHORTEST: usize = 8;

/// Whose agents a verb is about.
#[derive(Clone, Debug, Default, Args)]
pub struct Whose {
    /// Only your own agents, not those of Pi sessions
    #[arg(long)]
    own: bool,
    /// Only the agents of the Pi session whose id begins with this, whatever its folder
    #[arg(long, value_name = "ID", conflicts_with_all = ["own", "folder"])]
    session: Option<String>,
    #[command(flatten)]
    folder: Folder,
}

/// Whose an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The person's.
    You,
    /// A Pi session's, by its id.
    Pi(String),
}

/// A core that was found, and its agents at that moment.
pub struct Found {
    /// Its line.
    pub client: ControlClient,
    /// Its fleet.
    pub fleet: FleetSnapshot,
    /// It is a person's core; else a Pi session's own.
    pub person: bool,
}

/// The cores a verb can be about.
pub struct Reach {
    cores: Vec<Found>,
    whose: Whose,
    /// The one session that was asked for.
    session: Option<SessionView>,
}

/// An agent in one of them.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// Its core.
    pub core: &'a Found,
    /// Its row.
    pub agent: &'a AgentView,
}

impl Found {
    /// Whose agents are whose, by host. Agents of agents belong where the one at the top belongs.
    fn owner(&self, agent: &AgentView) -> Owner {
        let rows: HashMap<AgentId, &AgentView> =
            self.fleet.agents.iter().map(|a| (a.id, a)).collect();
        let mut top = agent;
        for _ in 0..rows.len() {
            match top.parent.and_then(|parent| rows.get(&parent)) {
                Some(above) => top = above,
                None => break,
            }
        }
        self.owner_of(top.host)
    }

    fn owner_of(&self, host: HostId) -> Owner {
        if host == self.fleet.core.host {
            return Owner::You;
        }
        let sessions = &self.fleet.core.sessions;
        // One that has left is known by its host only, which its id is in most cases.
        Owner::Pi(match sessions.iter().find(|s| s.host == host) {
            Some(session) => session.session.clone(),
            None => host.to_string(),
        })
    }
}

impl Whose {
    /// Finds the cores: those of the folder, or those that have the session that was asked for.
    ///
    /// # Errors
    /// None is there, one does not answer, or the session is not clear.
    pub async fn reach(&self, ground: &Ground) -> Result<Reach, CliError> {
        if let Some(wanted) = &self.session {
            let cores = connect_all(discovery::list_cores(&ground.paths), ground).await?;
            let session = the_session(&cores, wanted)?;
            let has = |core: &Found| core.fleet.core.sessions.contains(&session);
            return Ok(Reach {
                cores: cores.into_iter().filter(has).collect(),
                whose: self.clone(),
                session: Some(session),
            });
        }
        let folder = self.folder.path()?;
        let mut entries = discovery::list_cores(&ground.paths);
        let own = ground.paths.socket(&folder);
        entries.retain(|e| e.folder == folder && (!self.own || e.socket == own));
        let cores = connect_all(entries, ground).await?;
        if cores.is_empty() {
            return Err(common::no_core(&folder));
        }
        Ok(Reach {
            cores,
            whose: self.clone(),
            session: None,
        })
    }
}

/// Every core of this user, whatever its folder.
///
/// # Errors
/// None is there, or one does not answer.
pub async fn everywhere(ground: &Ground) -> Result<Reach, CliError> {
    let cores = connect_all(discovery::list_cores(&ground.paths), ground).await?;
    if cores.is_empty() {
        return Err(
            CliError::new(Kind::NoCore, "no core of yours runs anywhere")
                .with_hint("start one with `pi-agents` in a folder, or with Pi and its bridge"),
        );
    }
    Ok(Reach {
        cores,
        whose: Whose::default(),
        session: None,
    })
}

/// Connects to each; one that is gone meanwhile is left out.
async fn connect_all(entries: Vec<CoreEntry>, ground: &Ground) -> Result<Vec<Found>, CliError> {
    // All at once: one that does not answer takes its time.
    let waits = entries.into_iter().map(|entry| async move {
        let person = is_person(&entry, ground);
        match client::connect(&entry.socket, Role::Cli).await {
            Ok(client) => match client.request(Request::Snapshot).await? {
                Reply::Snapshot { fleet } => Ok(Some(Found {
                    client,
                    fleet: *fleet,
                    person,
                })),
                other => Err(common::odd_reply(&other)),
            },
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(common::not_connected(&error, entry.pid, person)),
        }
    });
    let found: Result<Vec<_>, _> = futures_util::future::join_all(waits)
        .await
        .into_iter()
        .collect();
    let mut found: Vec<Found> = found?.into_iter().flatten().collect();
    found.sort_by_key(|core| !core.person);
    Ok(found)
}

/// A person's core listens at the socket of its folder; that of a Pi session has a name of its own.
fn is_person(entry: &CoreEntry, ground: &Ground) -> bool {
    entry.socket == ground.paths.socket(&entry.folder)
}

/// The one session whose id begins so; the whole id is always that session.
fn the_session(cores: &[Found], wanted: &str) -> Result<SessionView, CliError> {
    let all: Vec<&SessionView> = cores.iter().flat_map(|c| &c.fleet.core.sessions).collect();
    if let Some(exact) = all.iter().find(|s| s.session == wanted) {
        return Ok((*exact).clone());
    }
    let fits: Vec<&SessionView> = all
        .iter()
        .copied()
        .filter(|s| !wanted.is_empty() && s.session.starts_with(wanted))
        .collect();
    let list = |sessions: &[&SessionView]| {
        let ids: Vec<&str> = all.iter().map(|s| s.session.as_str()).collect();
        let lines = sessions.iter().map(|s| {
            let id = short(&s.session, &ids);
            format!("--session {id} · {}", s.folder.display())
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    match fits.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let error = CliError::new(
                Kind::NoCore,
                format!("no Pi session is running whose id begins with {wanted:?}"),
            );
            Err(if all.is_empty() {
                error.with_hint("no Pi session with the bridge is running")
            } else {
                error.with_hint(list(&all))
            })
        }
        several => Err(CliError::new(
            Kind::Usage,
            format!("several Pi sessions have an id that begins with {wanted:?}"),
        )
        .with_hint(list(several))),
    }
}

/// As much of an id as tells it from the others.
fn short<'a>(id: &'a str, all: &[&str]) -> &'a str {
    let ends = id.char_indices().map(|(at, _)| at).skip(SHORTEST);
    let unique = |part: &&str| {
        let mut others = all.iter().filter(|other| **other != id);
        !others.any(|other| other.starts_with(*part))
    };
    ends.filter_map(|end| id.get(..end))
        .find(unique)
        .unwrap_or(id)
}

impl Reach {
    /// Its cores, the person's first.
    #[must_use]
    pub fn cores(&self) -> &[Found] {
        &self.cores
    }

    /// The agents that are meant, in spawn order, each core's together.
    pub fn agents(&self) -> impl Iterator<Item = Target<'_>> {
        self.cores
            .iter()
            .flat_map(|core| {
                core.fleet
                    .agents
                    .iter()
                    .map(move |agent| Target { core, agent })
            })
            .filter(|target| self.means(&target.owner()))
    }

    /// The agents of this owner are meant.
    #[must_use]
    pub fn means(&self, owner: &Owner) -> bool {
        match (&self.session, owner) {
            (Some(session), Owner::Pi(id)) => session.session == *id,
            (Some(_), Owner::You) => false,
            (None, owner) => !self.whose.own || *owner == Owner::You,
        }
    }

    /// The agents of the person's core, or of the session that was asked for: what a verb is about
    /// that names nobody.
    ///
    /// # Errors
    /// There is no core of the person.
    pub fn all(&self) -> Result<Vec<Target<'_>>, CliError> {
        if self.session.is_none() && !self.cores.iter().any(|core| core.person) {
            let folder = self.whose.folder.path()?;
            let sessions = self.sessions();
            let lines = sessions.iter().map(|id| format!("--session {id}"));
            return Err(common::no_core(&folder).with_hint(format!(
                "the agents here are those of Pi sessions; say of which:\n{}",
                lines.collect::<Vec<_>>().join("\n")
            )));
        }
        let whole = self.session.is_some();
        let own = |t: &Target| whole || (t.core.person && t.owner() == Owner::You);
        Ok(self.agents().filter(own).collect())
    }

    fn ids(&self) -> Vec<&str> {
        let sessions = self.cores.iter().flat_map(|c| &c.fleet.core.sessions);
        sessions.map(|s| s.session.as_str()).collect()
    }

    fn sessions(&self) -> Vec<&str> {
        let ids = self.ids();
        ids.iter().map(|id| short(id, &ids)).collect()
    }

    /// The option that means the agents of this owner.
    #[must_use]
    pub fn option(&self, owner: &Owner) -> String {
        match owner {
            Owner::You => "--own".to_owned(),
            Owner::Pi(id) => format!("--session {}", short(id, &self.ids())),
        }
    }

    /// The agent of that name, key or id, if there is just one.
    ///
    /// # Errors
    /// There is none, or there are several: then the options that tell them apart.
    pub fn find(&self, wanted: &str) -> Result<Target<'_>, CliError> {
        if let Ok(id) = wanted.parse::<AgentId>() {
            let mut by_id = self.agents().filter(|t| t.agent.id == id);
            return by_id.next().ok_or_else(|| self.unknown(wanted));
        }
        let bare = wanted.strip_prefix('@').unwrap_or(wanted);
        // The key of an agent at the top is its name.
        let by_key: Vec<Target> = self.agents().filter(|t| t.agent.key == bare).collect();
        let found = if by_key.is_empty() {
            self.agents().filter(|t| t.agent.name == bare).collect()
        } else {
            by_key
        };
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(self.unknown(wanted)),
            [first, rest @ ..] => {
                let error =
                    CliError::new(Kind::Usage, format!("several agents are called @{bare}"));
                let owner = first.owner();
                let apart = rest.iter().any(|t| t.owner() != owner);
                let mut lines: Vec<String> = found
                    .iter()
                    .map(|target| {
                        let title = format!("@{} · {}", target.agent.key, target.agent.spec.label);
                        match target.owner() {
                            _ if !apart => title,
                            owner => format!("{title}: add {}", self.option(&owner)),
                        }
                    })
                    .collect();
                lines.insert(0, "say which:".to_owned());
                Err(error.with_hint(lines.join("\n")))
            }
        }
    }

    fn unknown(&self, wanted: &str) -> CliError {
        let bare = wanted.strip_prefix('@').unwrap_or(wanted);
        let known: Vec<String> = self.agents().map(|t| format!("@{}", t.agent.key)).collect();
        CliError::new(Kind::NotFound, format!("no such agent: @{bare}")).with_hint(
            if known.is_empty() {
                "there are no agents here yet".to_owned()
            } else {
                format!("known here: {}", known.join(", "))
            },
        )
    }
}

impl Target<'_> {
    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.core.owner(self.agent)
    }

    /// A message to it is a side chat unless it is handed on: it works for somebody else than the
    /// person (R-DELIV-07).
    #[must_use]
    pub fn works_for_another(&self) -> bool {
        self.agent.host != self.core.fleet.core.host
    }

    /// Asks its core.
    ///
    /// # Errors
    /// What the core refuses.
    pub async fn ask(&self, request: Request) -> Result<Reply, CliError> {
        Ok(self.core.client.request(request).await?)
    }
}

/// The folder of a core, for people.
#[must_use]
pub fn folder_words(folder: &Path) -> String {
    super::clean(&folder.to_string_lossy())
}
