//! What is known of the session files of agents: looked at when a process is gone, compared before
//! the next one.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::{Actor, LAST_LOOKS};
use super::live::AgentLive;
use super::session_file::SessionMark;
use super::start::LastSeen;
use crate::fleet::ids::{AgentId, InstanceId};

/// Agent-side state that is not the machine's business.
pub(super) struct Side {
    pub(super) live: Arc<AgentLive>,
    /// The session file after the last process. None while one lives: what it writes is no change of
    /// another program, also not after a crash of this core.
    pub(super) mark: Option<SessionMark>,
    /// The process whose look at the file may set the mark.
    pub(super) look_of: Option<InstanceId>,
    /// That look, while it goes on.
    pub(super) looking: Option<oneshot::Receiver<Option<SessionMark>>>,
}

impl Side {
    pub(super) fn new(live: Arc<AgentLive>, mark: Option<SessionMark>) -> Self {
        Self {
            live,
            mark,
            look_of: None,
            looking: None,
        }
    }
}

impl Actor {
    /// Everybody has their answers: a moment more for looks at session files that still go on.
    pub(super) async fn finish_looks(&mut self) {
        let end = Instant::now() + LAST_LOOKS;
        let looks: Vec<_> = self
            .sides
            .iter_mut()
            .filter_map(|(agent, side)| Some((*agent, side.looking.take()?)))
            .collect();
        for (agent, looking) in looks {
            if let Ok(Ok(mark)) = tokio::time::timeout_at(end, looking).await {
                self.looked(agent, mark);
            }
        }
    }

    /// A process is gone with all it started: its session file will not change any more.
    pub(super) fn gone(&mut self, instance: InstanceId) {
        let Some((agent, child)) = self.children.remove(&instance) else {
            return;
        };
        let Some(path) = self.path_of(agent) else {
            return;
        };
        let live = self.live(agent);
        // Beside this task: the disk may be slow, and the answer to a stop must not wait for it.
        let looking = self
            .starter
            .look_after(agent, instance, path, child.witness, live);
        if let Some(side) = self.sides.get_mut(&agent) {
            side.look_of = Some(instance);
            side.looking = Some(looking);
        }
    }

    pub(super) fn looked(&mut self, agent: AgentId, mark: Option<SessionMark>) {
        if let Some(side) = self.sides.get_mut(&agent) {
            side.mark = mark;
            side.look_of = None;
            side.looking = None;
        }
        self.save(agent);
    }

    /// What is known of the session file of an agent that gets a new process. From here on nothing is
    /// on record, until that process is gone.
    pub(super) fn last_seen(&mut self, agent: AgentId, instance: InstanceId) -> LastSeen {
        let Some(side) = self.sides.get_mut(&agent) else {
            return LastSeen {
                mark: None,
                looking: None,
            };
        };
        side.look_of = Some(instance);
        let seen = LastSeen {
            mark: side.mark.take(),
            looking: side.looking.take(),
        };
        if seen.mark.is_some() {
            self.save(agent);
        }
        seen
    }

    pub(super) fn path_of(&self, agent: AgentId) -> Option<PathBuf> {
        self.machine.view(agent).and_then(|v| v.session_path)
    }
}
