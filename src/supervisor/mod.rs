//! The supervisor: executes what the machine decides with real processes and turns what happens
//! into inputs. One actor task owns everything; each child has its own tasks; viewers pull.

mod actor;
mod answers;
mod child;
mod effects;
pub mod extras;
pub mod find_pi;
mod handle;
mod host_calls;
mod host_link;
mod hosts;
pub mod journal;
pub mod launch;
pub mod leftovers;
mod live;
mod looks;
pub mod pipe;
mod progress;
pub mod record;
mod requests;
mod saving;
pub mod session_file;
mod shared;
mod start;
mod timers;
mod viewer;
pub mod witness;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use handle::Handle;
pub use shared::Shared;
pub use start::label;

use crate::fleet::ids::{CoreId, HostId};
use crate::fleet::machine::MachineConfig;
use crate::fleet::roster::{Badge, CoreView};

/// Levels of agents that a core can host today: children are given no way to start agents of their
/// own. A greater wish (R-ID-07) is not passed on to them, so that no tool promises what fails.
pub const DEEPEST: u32 = 1;

/// Requests that may wait; a client beyond that waits itself.
const ASKS: usize = 64;
/// Events of children that may wait; a child beyond that waits, and its pipe pushes back on Pi.
const EVENTS: usize = 256;

/// What a supervisor is made with.
#[derive(Clone, Debug)]
pub struct SupervisorConfig {
    /// Identity of this core.
    pub core: CoreId,
    /// The person's host.
    pub host: HostId,
    /// Folder it works for, canonical.
    pub folder: PathBuf,
    /// `--pi CMD`; `None` = `pi` on the asker's PATH.
    pub pi: Option<String>,
    /// Model of new agents that name none.
    pub model: Option<String>,
    /// It plays the demo.
    pub demo: bool,
    /// The log cannot be written: shown for as long as the core lives.
    pub unlogged: bool,
    /// Pid of the guard this core runs under, if any.
    pub guard: Option<u32>,
    /// Folder of the agents' saved sessions.
    pub sessions: PathBuf,
    /// Folder of the records of the person's agents.
    pub records: PathBuf,
    /// Folder of the folders with the records of Pi sessions' agents.
    pub session_records: PathBuf,
    /// A person's core: the person's agents are there from the start. Those of a Pi session come
    /// with it.
    pub person: bool,
    /// Folder of the hosts' journals.
    pub journals: PathBuf,
    /// The bridge that every child is given, if it could be written.
    pub bridge: Option<PathBuf>,
    /// Folder of the session locks.
    pub session_locks: PathBuf,
    /// Longest record of a child, in bytes.
    pub record_limit: usize,
    /// Text kept of a transcript, in bytes.
    pub transcript_limit: usize,
    /// Times and limits.
    pub machine: MachineConfig,
}

/// A running supervisor.
pub struct Supervisor {
    /// Its front door.
    pub handle: Handle,
    /// Ends when everything was stopped on request.
    pub task: JoinHandle<()>,
}

impl Supervisor {
    /// Starts a supervisor with the agents that are on record for its folder.
    #[must_use]
    pub fn start(config: SupervisorConfig) -> Self {
        let config = Arc::new(config);
        let shared = Shared::new(CoreView {
            id: config.core,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: config.host,
            folder: config.folder.clone(),
            pi: config.pi.clone().unwrap_or_else(|| "pi".to_owned()),
            demo: config.demo,
            badges: Vec::new(),
            attached: 0,
            sessions: Vec::new(),
        });
        let (asks_in, asks) = mpsc::channel(ASKS);
        let (events_in, events) = mpsc::channel(EVENTS);
        let handle = Handle {
            asks: asks_in,
            shared: Arc::clone(&shared),
            ended: CancellationToken::new(),
            waiting: Arc::default(),
        };
        let mut actor = actor::Actor::new(
            Arc::clone(&config),
            Arc::clone(&shared),
            handle.asks.clone(),
            events_in,
        );
        let on_record = if config.person {
            record::load_all(&config.records)
        } else {
            Ok(Default::default())
        };
        match on_record {
            Ok((records, problems)) => {
                shared.badge(Badge::Unreadable, !problems.is_empty());
                for problem in problems {
                    tracing::warn!(%problem, "agent record left alone");
                }
                actor.restore(records);
            }
            Err(error) => {
                tracing::error!(%error, folder = %config.records.display(), "records not read");
                shared.badge(Badge::NotSaved, true);
            }
        }
        let task = tokio::spawn(actor.run(asks, events));
        Self { handle, task }
    }
}
