//! What must hold after each input and in the end: `after` and `finish` of the checks.

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::machine::{Effect, Timer};

use super::world::{Asked, Msg, NESTED, World, agent_id, number, proc_of};

/// The changes of a status that are allowed (R-LIFE-02), written down once more: Queued, Starting, Running, Idle,
/// Completed, Failed, `X` for stopped. `SC` is two at once: a message was handled without a run and the agent does not stay.
const CHANGES: &[&str] = &[
    "QS", "QX", "QF", "SR", "SI", "SC", "SF", "SX", "RI", "RC", "RF", "RX", "IR", "IC", "IF", "IX",
    "CQ", "CS", "FQ", "FS", "XQ", "XS",
];

fn letter(status: &Status) -> char {
    match status {
        Status::Queued => 'Q',
        Status::Starting => 'S',
        Status::Running => 'R',
        Status::Idle => 'I',
        Status::Completed => 'C',
        Status::Failed { .. } => 'F',
        Status::Stopped { .. } => 'X',
    }
}

impl World {
    pub fn after(&mut self, of: Option<u32>, effects: &[Effect]) {
        for p in &mut self.procs {
            p.never = false;
        }
        let everyone = self.inputs.is_multiple_of(16) || of.is_none();
        let agents: Vec<u32> = self
            .agents
            .iter()
            .map(|a| a.n)
            .filter(|n| {
                everyone || of == Some(*n) || effects.contains(&Effect::Publish(agent_id(*n)))
            })
            .collect();
        for n in agents {
            let published = effects.contains(&Effect::Publish(agent_id(n)));
            self.check_view(n, published);
        }
        self.check_procs();
    }

    fn check_procs(&mut self) {
        let mut wrong = self.two_on_one_session();
        for p in &self.procs {
            if p.run_over && p.run.is_some() {
                wrong = Some(format!("the end of a run of process {} is not told", p.n));
            }
            let stopping = self.shutdown
                || self
                    .calls
                    .iter()
                    .any(|c| c.asked == Asked::Stop && c.agent == p.agent && c.open());
            if stopping && p.launched && !p.exit_told && p.closed.is_none() {
                wrong = Some(format!("process {} is to be stopped and is not", p.n));
            }
        }
        for (_, _, timer) in &self.timers {
            let Some(n) = proc_of(*timer) else { continue };
            if self.proc(n).is_none_or(|p| p.gone) {
                wrong = Some(format!(
                    "a timer is left of a process that is gone: {timer:?}"
                ));
            }
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    fn check_view(&mut self, n: u32, published: bool) {
        let Some(view) = self.view(n) else {
            self.fail(format!("agent {n} is forgotten"));
            return;
        };
        let Some(at) = self.agents.iter().position(|a| a.n == n) else {
            return;
        };
        let (from, to) = (&self.agents[at].status, &view.status);
        let mut wrong = None;
        if from != to {
            let change: String = [letter(from), letter(to)].iter().collect();
            if !CHANGES.contains(&change.as_str()) {
                wrong = Some(format!(
                    "agent {n} went from {from:?} to {to:?} (R-LIFE-02)"
                ));
            }
            if matches!(to, Status::Failed { .. }) && self.stop_asked(n) {
                wrong = Some(format!("agent {n} was stopped and is {to:?} (R-LIFE-02)"));
            }
            let cause = self.live_proc(n).and_then(|p| p.cause);
            if let (Status::Stopped { by }, Some(cause)) = (to, cause)
                && *by != cause
                && self.agents[at].host != NESTED
            {
                wrong = Some(format!("agent {n} is {to:?}, it was stopped by {cause:?}"));
            }
            if !from.is_live() && !self.msgs.iter().any(|m| m.agent == n && m.waits()) {
                wrong = Some(format!("agent {n} lives again and nobody wants it"));
            }
        }
        if !published && self.agents[at].shown.as_ref() != Some(&view) {
            wrong = Some(format!("agent {n} changed and was not published: {view:?}"));
        }
        let name = self.agents[at].name.clone();
        if name.is_some_and(|name| name != view.name)
            || self.agents.iter().any(|a| {
                a.n != n && a.host == self.agents[at].host && a.name.as_ref() == Some(&view.name)
            })
        {
            wrong = Some(format!(
                "agent {n} has another name or one that is taken (R-ID-01)"
            ));
        }
        let live = self.live_proc(n);
        let pid = live
            .filter(|p| p.launched && !p.exit_told)
            .map(|p| p.n + 1000);
        if view.pid != pid {
            wrong = Some(format!("agent {n} shows pid {:?}, it is {pid:?}", view.pid));
        }
        let fits = match to {
            Status::Queued => live.is_none(),
            Status::Starting => live.is_some_and(|p| !p.exit_told),
            Status::Running => live.is_some_and(|p| !p.exit_told),
            Status::Idle => live.is_some_and(|p| !p.exit_told && p.run.is_none()),
            Status::Completed | Status::Failed { .. } | Status::Stopped { .. } => true,
        };
        if !fits {
            wrong = Some(format!("agent {n} is {to:?}, its process is {live:?}"));
        }
        if view.runs_ended != self.agents[at].runs_ended {
            wrong = Some(format!("agent {n} counts {} runs", view.runs_ended));
        }
        for pending in &view.pending {
            let m = number(pending.id.0);
            let good = self
                .msgs
                .iter()
                .any(|x| x.n == m && x.agent == n && (x.fate.is_none() || x.text == "same <0>"));
            if !good {
                wrong = Some(format!("message {m} waits in the view and was given back"));
            }
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
        let agent = &mut self.agents[at];
        agent.status = view.status.clone();
        agent.name.get_or_insert_with(|| view.name.clone());
        agent.shown = Some(view);
    }

    /// A new core has taken in the records.
    pub fn restored(&mut self) {
        for n in self.agents.iter().map(|a| a.n).collect::<Vec<_>>() {
            let Some(view) = self.view(n) else {
                self.fail(format!("agent {n} is lost with its core"));
                return;
            };
            let live_calls = self
                .calls
                .iter()
                .any(|c| c.agent == n && c.asked == Asked::Stop && c.answers == 1);
            let Some(a) = self.agents.iter_mut().find(|a| a.n == n) else {
                return;
            };
            let before = a.status.clone();
            let renamed = a.name.as_ref().is_some_and(|name| *name != view.name);
            let (runs, counted) = (a.runs_ended, view.runs_ended);
            a.status = view.status.clone();
            a.shown = Some(view.clone());
            if renamed || runs != counted {
                self.fail(format!(
                    "agent {n} came back with another name or {counted} of {runs} runs"
                ));
            }
            if view.status.is_live() || view.pid.is_some() {
                self.fail(format!(
                    "agent {n} lives after its core died: {:?}",
                    view.status
                ));
            }
            if !before.is_live() && before != view.status && live_calls {
                self.fail(format!(
                    "agent {n} was {before:?} and came back {:?}",
                    view.status
                ));
            }
        }
    }

    /// The model of some process was given a message.
    pub fn given(&mut self, agent: u32, text: &str) {
        let sent = self
            .msgs
            .iter()
            .filter(|m| m.agent == agent && m.text == text)
            .count();
        if self.times_given(agent, text) > sent {
            self.fail(format!("the model was given twice: {text} (R-DELIV-11)"));
        }
    }

    /// Which of several texts Pi has expanded can only be guessed: another of them was reported in its place.
    fn is_mixed_up(&self, m: &Msg) -> bool {
        m.text.starts_with("/expand")
            && self.msgs.iter().any(|other| {
                other.agent == m.agent
                    && other.n != m.n
                    && other.text.starts_with('/')
                    && other.fate.is_some()
                    && self.times_given(m.agent, &other.text) > 0
            })
    }

    fn times_given(&self, agent: u32, text: &str) -> usize {
        self.procs
            .iter()
            .filter(|p| p.agent == agent)
            .flat_map(|p| &p.child.given)
            .filter(|t| *t == text)
            .count()
    }

    /// Nothing is left to happen.
    pub fn finish(&mut self) {
        let mut wrong = None;
        for c in &self.calls {
            if c.open() {
                wrong = Some(format!("call {} ({:?}) was never answered", c.n, c.asked));
            }
        }
        for m in &self.msgs {
            let shared = m.text == "same <0>" || self.is_mixed_up(m);
            let kept = self
                .live_proc(m.agent)
                .is_some_and(|p| p.child.keeps(&m.text));
            if m.waits() && !shared && !kept && self.times_given(m.agent, &m.text) == 0 {
                wrong = Some(format!(
                    "message {} was neither delivered nor given back nor reported",
                    m.n
                ));
            }
        }
        let left = |t: &&(_, _, Timer)| !self.exited || proc_of(t.2).is_some();
        if let Some((_, _, timer)) = self.timers.iter().find(left) {
            wrong = Some(format!("a timer is left: {timer:?}"));
        }
        for a in &self.agents {
            let live = self.live_proc(a.n);
            let fits = match a.status {
                Status::Queued | Status::Starting => false,
                Status::Running => live.is_some_and(|p| p.child.hung),
                Status::Idle => a.persistent && live.is_some(),
                Status::Completed | Status::Failed { .. } | Status::Stopped { .. } => {
                    live.is_none()
                }
            };
            if !fits {
                wrong = Some(format!(
                    "in the end agent {} is {:?}, {live:?}",
                    a.n, a.status
                ));
            }
        }
        if wrong.is_none() && !self.exited {
            wrong = self
                .abandoned()
                .or_else(|| self.unpaid())
                .or_else(|| self.not_over());
        }
        if self.shutdown && !self.exited {
            wrong = Some("a shutdown was asked for and the core does not end".to_owned());
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }
}

impl super::world::Msg {
    /// Nobody knows yet what becomes of it.
    pub fn waits(&self) -> bool {
        self.fate.is_none() && !self.consumed
    }
}

impl super::world::Call {
    pub fn open(&self) -> bool {
        self.answers == 0 && !self.lost
    }
}
