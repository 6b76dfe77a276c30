//! What people and hosts ask of the machine.

use std::time::Duration;

use pi_agents::fleet::agent::{AgentSpec, Status, Thinking, ToolChoice};
use pi_agents::fleet::host::{Caller, Sender, SpawnMode, Stopper};
use pi_agents::fleet::machine::{ChildEnv, Input};

use super::world::{
    Agent, Asked, Call, Msg, World, agent_id, call_id, host_id, instance_id, message_id,
};

impl World {
    pub fn taken(&self, n: u32) -> bool {
        n == 0 || self.calls.iter().any(|c| c.n == n)
    }

    pub fn call(&mut self, asked: Asked, n: u32, agent: u32) {
        let live = self
            .procs
            .iter()
            .any(|p| p.agent == agent && !p.gone && !p.exit_told)
            || self
                .agent(agent)
                .is_some_and(|a| self.live_proc(agent).is_none() && a.status == Status::Queued);
        self.calls.push(Call {
            n,
            asked,
            agent,
            answers: 0,
            at: self.inputs + 1,
            live,
            lost: false,
            orphan: false,
            parent: false,
        });
    }

    /// The last call was made by a session that keeps a journal.
    fn by_a_session(&mut self) {
        if let Some(call) = self.calls.last_mut() {
            call.parent = true;
        }
    }

    /// Whose request it is: the host as it is, or a generation of it that is over.
    fn caller(&self, host: u32, old: bool) -> Caller {
        let generation = self.hosts.get(host as usize).map_or(1, |h| h.generation);
        Caller {
            host: host_id(host),
            generation: generation.saturating_sub(u64::from(old)),
        }
    }

    /// Sorts, as bits: 1 does not stay, 2 has a time limit, 4 wants a model, 8 wants a thinking level, 16 an empty task, 32
    /// a task that is a command, 64 a task that Pi expands, 128 a bad time limit, 256 its result is waited for, 512 in
    /// the name of a generation that is over.
    pub fn spawn(&mut self, n: u32, sort: u32, host: u32) {
        if self.taken(n) {
            return;
        }
        let bit = |bit: u32| sort & bit != 0;
        let timeout = match (bit(2), bit(128)) {
            (_, true) => Some(0),
            (true, false) => Some(2000),
            _ => None,
        };
        let text = match sort {
            _ if bit(16) => " ".to_owned(),
            _ if bit(32) => format!("/command <{n}>"),
            _ if bit(64) => format!("/expand <{n}>"),
            _ => format!("do <{n}>"),
        };
        self.call(Asked::Spawn, n, n);
        if host != 0 {
            self.by_a_session();
        }
        self.agents.push(Agent {
            n,
            host,
            persistent: !bit(1),
            foreground: bit(256),
            private: false,
            secret: false,
            timeout: timeout.map(Duration::from_millis),
            name: None,
            shown: None,
            status: Status::Queued,
            runs_ended: 0,
            saved: 0,
        });
        self.message(n, n, &text);
        self.input(Input::Spawn {
            call: call_id(n),
            by: self.caller(host, bit(512)),
            mode: if bit(256) {
                SpawnMode::Foreground
            } else {
                SpawnMode::Background
            },
            agent: agent_id(n),
            instance: instance_id(n),
            message: message_id(n),
            spec: AgentSpec {
                label: "a task".to_owned(),
                model: bit(4).then(|| "p/real".to_owned()),
                thinking: bit(8).then_some(Thinking::High),
                tools: ToolChoice::All,
                cwd: "/".into(),
                persistent: !bit(1),
                timeout_ms: timeout,
                call: None,
            },
            prompt: text,
            env: ChildEnv::default(),
        });
    }

    fn message(&mut self, n: u32, agent: u32, text: &str) {
        self.msgs.push(Msg {
            n,
            agent,
            text: text.to_owned(),
            written: None,
            consumed: false,
            accepted: false,
            counts: false,
            fate: None,
            taken_at: None,
        });
    }

    /// Sorts: 0 plain, 1 the same text as others, 2 Pi expands it, 3 a command, 4 empty, 5 with a NUL; 10 more: from a
    /// person, 20 more: a person hands the answer on, 30 more: from a generation that is over.
    pub fn send(&mut self, n: u32, agent: u32, sort: u32) {
        if self.taken(n) {
            return;
        }
        let host = self.agent(agent).map_or(0, |a| a.host);
        let by = match sort / 10 {
            1 => Sender::User,
            2 => Sender::Continue,
            old => Sender::Parent(self.caller(host, old == 3)),
        };
        if by == Sender::User
            && let Some(a) = self.agents.iter_mut().find(|a| a.n == agent)
        {
            a.private = true;
        }
        let secret =
            by == Sender::User && host != 0 && (self.rests(agent) || self.is_secret(agent));
        if by != Sender::User {
            self.set_secret(agent, false);
        }
        let text = match sort % 10 {
            1 => "same <0>".to_owned(),
            2 => format!("/expand <{n}>"),
            3 => format!("/command <{n}>"),
            4 => String::new(),
            5 => "do \0".to_owned(),
            _ => format!("do <{n}>"),
        };
        self.call(Asked::Send, n, agent);
        if host != 0 && matches!(by, Sender::Parent(_)) {
            self.by_a_session();
        }
        self.message(n, agent, &text);
        self.input(Input::Send {
            call: call_id(n),
            agent: agent_id(agent),
            by,
            message: message_id(n),
            instance: instance_id(n),
            text,
            env: ChildEnv::default(),
        });
        let refused = self.msgs.iter().any(|m| m.n == n && m.fate.is_some());
        if secret && !refused {
            self.set_secret(agent, true);
        }
    }

    /// It has no run, none is to come, and no message waits for it.
    fn rests(&self, agent: u32) -> bool {
        let shown = self.agent(agent).and_then(|a| a.shown.as_ref());
        let still = shown.is_some_and(|view| {
            let working = matches!(
                view.status,
                Status::Queued | Status::Starting | Status::Running
            );
            !working && view.pending.is_empty()
        });
        still
            && !self.msgs.iter().any(|m| m.agent == agent && m.waits())
            && !self
                .procs
                .iter()
                .any(|p| p.agent == agent && (p.run.is_some() || p.prompt.is_some()))
    }

    fn is_secret(&self, agent: u32) -> bool {
        self.agent(agent).is_some_and(|a| a.secret)
    }

    /// Whether what the agent begins from now on is a person's own. If not, what it is at may be its host's, too.
    fn set_secret(&mut self, agent: u32, secret: bool) {
        if let Some(a) = self.agents.iter_mut().find(|a| a.n == agent) {
            a.secret = secret;
        }
        if !secret {
            for p in self.procs.iter_mut().filter(|p| p.agent == agent) {
                p.secret = None;
            }
        }
    }

    pub fn ask(&mut self, asked: Asked, n: u32, agent: u32, by: u32) {
        if self.taken(n) && (n != 0 || asked != Asked::Shutdown) {
            return;
        }
        if n != 0 {
            self.call(asked, n, agent);
        }
        let host = self.agent(agent).map_or(0, |a| a.host);
        let by = match by {
            0 => Stopper::User,
            old => Stopper::Parent(self.caller(host, old == 2)),
        };
        let (call, agent) = (call_id(n), agent_id(agent));
        self.input(match asked {
            Asked::Stop => Input::Stop { call, agent, by },
            Asked::Abort => Input::Abort { call, agent },
            _ => Input::Shutdown {
                call: (n != 0).then_some(call),
            },
        });
    }
}
