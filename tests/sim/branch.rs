//! Which agents a Pi session remembers on its open branch (R-PI-03).

use pi_agents::fleet::host::HostKind;
use pi_agents::fleet::ids::{AgentId, HostId};
use pi_agents::fleet::machine::Input;

use super::world::{World, agent_id, host_id, number};

impl World {
    /// A session is opened at one of its branches: sorts name all of its agents, none, or every other.
    pub fn open_branch(&mut self, at: usize, kind: HostKind, sort: u32) {
        let h = &self.hosts[at];
        if !h.open || kind != HostKind::Pi {
            return;
        }
        let its = self.agents.iter().filter(|a| a.host == h.n).map(|a| a.n);
        let named: Option<Vec<u32>> = match sort % 3 {
            0 => None,
            1 => Some(Vec::new()),
            _ => Some(its.step_by(2).collect()),
        };
        let (host, generation) = (host_id(h.n), h.generation);
        self.hosts[at].named = named.clone().unwrap_or_default();
        self.input(Input::HostBranch {
            host,
            generation,
            agents: named.map(|named| named.into_iter().map(agent_id).collect()),
            names: Vec::new(),
        });
    }

    /// Agents are to be remembered on the open branch of a session: its own, each once.
    pub fn check_named(&mut self, host: HostId, generation: u64, agents: &[(AgentId, String)]) {
        for (agent, _) in agents {
            let n = number(agent.0);
            let of = self.agent(n).map(|a| a.host);
            let Some(h) = self.host_mut(host) else {
                self.fail("agents are named to an unknown host");
                return;
            };
            let there = h.open && h.generation == generation;
            let again = h.named.contains(&n);
            h.named.push(n);
            let number = h.n;
            if !there || again || of != Some(number) {
                self.fail(format!(
                    "agent {n} is named twice, or to a session that is not its own (R-PI-03)"
                ));
            }
        }
    }
}
