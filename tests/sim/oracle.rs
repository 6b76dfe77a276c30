//! What must hold, whatever happens. Judged from what the machine was told and what it wanted, never from its own
//! counters: `told` notes an input, `check` judges an effect, `after` judges the whole answer to one input, `finish` the
//! world when nothing is left to happen.

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::answer::{ErrorCode, Reply, RequestError};
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::machine::{ChildCommand, Effect, LadderSignal, Timer};
use pi_agents::fleet::transcript::Outcome;

use super::world::{Asked, Msg, NESTED, World, agent_id, number, proc_of};

/// The number in a message's text.
pub fn number_in(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once('<')?;
    rest.split_once('>')?.0.parse().ok()
}

impl World {
    pub fn check(&mut self, effect: &Effect) {
        match effect {
            Effect::Launch {
                agent,
                instance,
                plan,
            } => self.check_launch(number(agent.0), number(instance.0), &plan.session_id),
            Effect::Write {
                instance,
                id,
                command,
            } => self.check_write(number(instance.0), id, command),
            Effect::CloseStdin { instance } => self.check_close(number(instance.0)),
            Effect::Signal { instance, signal } => self.check_signal(number(instance.0), *signal),
            Effect::Arm { timer, .. } => self.check_arm(*timer),
            Effect::Disarm(timer) => {
                if proc_of(*timer).is_some_and(|n| self.proc(n).is_none()) {
                    self.fail(format!(
                        "a timer of an unknown process was taken off: {timer:?}"
                    ));
                }
            }
            Effect::Answer { call, answer } => {
                self.check_answer(number(call.0), answer);
            }
            Effect::Save(agent) => {
                let inputs = self.inputs;
                match self.agents.iter_mut().find(|a| agent_id(a.n) == *agent) {
                    Some(a) => a.saved = inputs,
                    None => self.fail("the record of an unknown agent was written"),
                }
            }
            Effect::Publish(agent) => {
                if self.agent(number(agent.0)).is_none() {
                    self.fail("an unknown agent was published");
                }
            }
            Effect::Forget { agent, .. } => self.check_forget(number(agent.0)),
            Effect::RunEnded {
                agent,
                outcome,
                took_ms,
                ..
            } => self.check_run_ended(number(agent.0), outcome, *took_ms),
            Effect::Notice { agent, text, .. } => self.check_notice(number(agent.0), text),
            Effect::Exit => {
                if !self.shutdown || self.exited {
                    self.fail("the core ends unasked or twice");
                }
                if self.procs.iter().any(|p| !p.gone) {
                    self.fail("the core ends before its processes");
                }
                self.exited = true;
            }
            Effect::Journal { .. }
            | Effect::Offer { .. }
            | Effect::Named { .. }
            | Effect::Degraded { .. }
            | Effect::HostClosed { .. } => self.check_host(effect),
        }
    }

    /// What never came to be leaves nothing (R-TOOL-07): whoever asked was told so, nothing of it lives, and nobody
    /// waits for anything from it. A person's own stays to be read.
    fn check_forget(&mut self, n: u32) {
        let Some(a) = self.agent(n) else {
            self.fail("an unknown agent is forgotten");
            return;
        };
        let (host, runs) = (a.host, a.runs_ended);
        let told = self.calls.iter().any(|c| c.n == n && c.answers == 1);
        let lives = self.live_proc(n).is_some();
        let waits = self.msgs.iter().any(|m| m.agent == n && m.waits());
        if host == 0 || runs > 0 || !told || lives || waits {
            self.fail(format!(
                "agent {n} of host {host} is forgotten: {runs} runs, told {told}, lives {lives}, waits {waits} (R-TOOL-07)"
            ));
        }
        self.agents.retain(|a| a.n != n);
        self.records.retain(|r| number(r.id.0) != n);
    }

    fn check_launch(&mut self, agent: u32, n: u32, session: &str) {
        if self.proc(n).is_some() {
            self.fail(format!(
                "process {n} is launched a second time (its old inputs would count)"
            ));
        }
        let Some(a) = self.agent(agent) else {
            self.fail("a launch for an unknown agent");
            return;
        };
        let a_host = a.host;
        if a.saved != self.inputs {
            self.fail(format!(
                "agent {agent} is launched before its record is written"
            ));
        }
        if self.live_proc(agent).is_some() {
            self.fail(format!(
                "agent {agent} is launched while a process of it is not gone (R-LIFE-10)"
            ));
        }
        if session != agent_id(agent).to_string() {
            self.fail("a launch with another agent's session");
        }
        if !self.hosts[a_host as usize].open {
            self.fail(format!(
                "agent {agent} is launched and its host is gone (R-LIFE-12)"
            ));
        }
        if self.shutdown {
            self.fail("a launch after a shutdown was asked for (R-LIFE-12)");
        }
        if self.stop_asked(agent) {
            self.fail(format!(
                "agent {agent} is launched while a stop of it is not answered (R-LIFE-12)"
            ));
        }
        if !self.msgs.iter().any(|m| m.agent == agent && m.waits()) {
            self.fail(format!(
                "agent {agent} is launched and nobody wants it (R-LIFE-12)"
            ));
        }
        let starting = self
            .procs
            .iter()
            .filter(|p| !p.exit_told && !p.ready && p.closed.is_none())
            .count();
        if starting >= self.config.launch_slots {
            self.fail("more processes start at once than there are slots (R-PI-11)");
        }
    }

    fn check_write(&mut self, n: u32, id: &str, command: &ChildCommand) {
        let Some(p) = self.proc(n) else {
            self.fail(format!("a command for unknown process {n}"));
            return;
        };
        if !p.launched || p.exit_told {
            self.fail(format!(
                "a command for process {n}, which does not live: {command:?}"
            ));
            return;
        }
        if p.closed.is_some() {
            self.fail(format!(
                "a command for process {n} after its stdin was closed"
            ));
            return;
        }
        match command {
            ChildCommand::Prompt { text } => self.check_prompt(n, id, text),
            ChildCommand::Abort => {
                let (unanswered, cleared) = (p.prompt.is_some(), p.cleared);
                if unanswered {
                    self.fail("an abort while a prompt is unanswered does nothing (R-PI-07)");
                }
                if !cleared {
                    self.fail("an abort before the queue was cleared (R-PI-07)");
                }
                if let Some(p) = self.proc_mut(n) {
                    p.cleared = false;
                }
            }
            ChildCommand::ClearQueue => {
                if p.prompt.is_some() {
                    self.fail("the queue is cleared while a prompt is unanswered (R-PI-07)");
                }
            }
            ChildCommand::GetCommands => {
                if p.prompt.is_some() {
                    self.fail("commands are asked for while a prompt is unanswered");
                }
                if let Some(p) = self.proc_mut(n) {
                    p.checking = true;
                }
            }
            ChildCommand::GetState | ChildCommand::GetModels => {}
        }
    }

    fn check_prompt(&mut self, n: u32, id: &str, text: &str) {
        let m = id.parse::<MessageId>().map_or(u32::MAX, |id| number(id.0));
        let Some(p) = self.proc(n) else { return };
        let (agent, prompt, ready, compacting) = (p.agent, p.prompt, p.ready, p.compacting);
        if let Some(open) = prompt {
            self.fail(format!(
                "message {m} is written to process {n} while prompt {open} is unanswered (R-PI-07)"
            ));
            return;
        }
        if !ready {
            self.fail(format!(
                "message {m} is written before process {n} is ready"
            ));
        }
        if compacting {
            self.fail(format!(
                "message {m} is written while process {n} compacts (F4)"
            ));
        }
        let Some(at) = self.msgs.iter().position(|x| x.n == m) else {
            self.fail(format!("a message nobody sent is written: {text}"));
            return;
        };
        let msg = &self.msgs[at];
        let (owner, same, fate, consumed, written) = (
            msg.agent,
            msg.text == text,
            msg.fate,
            msg.consumed,
            msg.written,
        );
        if owner != agent || !same {
            self.fail(format!(
                "message {m} is written to another agent or with another text"
            ));
        }
        if fate.is_some() {
            self.fail(format!(
                "message {m} is written after it was given back (R-DELIV-11)"
            ));
        }
        if consumed {
            self.fail(format!(
                "message {m} is written again although the model has it (R-LIFE-11)"
            ));
        }
        if let Some(old) = written {
            let proven = self.proc(old).is_none_or(|p| p.exit_told);
            if old == n || !proven {
                self.fail(format!("message {m} is written twice (R-DELIV-11)"));
            }
        }
        let early = self.msgs[..at]
            .iter()
            .find(|x| x.agent == agent && x.waits() && x.written != Some(n));
        if let Some(early) = early {
            let early = early.n;
            self.fail(format!(
                "message {m} is written before the older {early} (R-LIFE-11)"
            ));
        }
        self.msgs[at].written = Some(n);
        if let Some(p) = self.proc_mut(n) {
            p.prompt = Some(m);
            p.checking = false;
        }
    }

    fn check_close(&mut self, n: u32) {
        let now = self.now;
        let Some(p) = self.proc_mut(n) else {
            self.fail(format!("stdin of unknown process {n} is closed"));
            return;
        };
        let twice = p.closed.replace(now).is_some();
        let (live, reason) = (p.launched && !p.exit_told, p.may_close);
        if twice {
            self.fail(format!("stdin of process {n} is closed twice"));
        }
        if !live {
            self.fail(format!(
                "stdin of process {n}, which does not live, is closed"
            ));
        }
        if !reason {
            self.fail(format!("process {n} is ended without a reason"));
        }
    }

    fn check_signal(&mut self, n: u32, signal: LadderSignal) {
        let (now, config) = (self.now, self.config);
        let Some(p) = self.proc_mut(n) else {
            self.fail(format!("a signal for unknown process {n}"));
            return;
        };
        let (last, grace, slot) = match signal {
            LadderSignal::Term => (p.closed, config.eof_grace, &mut p.term),
            LadderSignal::Kill => (p.term, config.term_grace, &mut p.kill),
        };
        let early = last.is_none_or(|at| now < at + grace);
        *slot = Some(now);
        let dead = p.exit_told;
        if early {
            self.fail(format!(
                "{signal:?} for process {n} before its turn (R-LIFE-07)"
            ));
        }
        if dead {
            self.fail(format!("{signal:?} for process {n}, which is dead"));
        }
    }

    fn check_arm(&mut self, timer: Timer) {
        let Some(n) = proc_of(timer) else { return };
        let Some(p) = self.proc(n) else {
            self.fail(format!("a timer of an unknown process: {timer:?}"));
            return;
        };
        let fits = match timer {
            Timer::Ladder(_) => p.closed.is_some(),
            Timer::Run(..) => p.run.is_some(),
            Timer::Prompt(_, m) => p.checking || p.prompt == Some(number(m.0)),
            _ => true,
        };
        let dead = p.exit_told;
        if dead || !fits {
            self.fail(format!("a timer that is about nothing: {timer:?}"));
        }
    }

    fn check_run_ended(&mut self, agent: u32, outcome: &Outcome, took_ms: u64) {
        let now = self.now;
        if let Some(p) = self.procs.iter_mut().rfind(|p| p.agent == agent)
            && p.run.is_none()
            && std::mem::take(&mut p.never)
            && !matches!(outcome, Outcome::Completed { .. })
        {
            p.runs += 1;
            let run = (p.n, p.runs);
            self.ends.push((agent, run, outcome.clone()));
            if let Some(a) = self.agents.iter_mut().find(|a| a.n == agent) {
                a.runs_ended += 1;
            }
            return;
        }
        let Some(p) = self
            .procs
            .iter_mut()
            .rfind(|p| p.agent == agent && p.run.is_some())
        else {
            self.fail(format!(
                "agent {agent}: the end of a run that did not begin, or a second one"
            ));
            return;
        };
        let begun = p.run.take().unwrap_or_default();
        let over = std::mem::take(&mut p.run_over);
        let (aborted, cause, cancelled) = (p.abort_asked, p.cause, p.cancelled);
        let run = (p.n, p.runs);
        self.ends.push((agent, run, outcome.clone()));
        if !over {
            self.fail(format!(
                "agent {agent}: its run is ended and nothing ended it (R-LIFE-04)"
            ));
        }
        // What ends below an agent ends with it or with the core, whichever comes first.
        let below = self.agent(agent).is_some_and(|a| a.host == NESTED);
        let good = match (cause, outcome) {
            (Some(_), Outcome::Stopped { .. }) if below => true,
            (Some(cause), Outcome::Stopped { by }) => *by == cause,
            (Some(_), _) => false,
            (None, Outcome::Stopped { by }) => match by {
                StopCause::You => aborted,
                StopCause::Child => true,
                StopCause::Cancelled => cancelled,
                _ => false,
            },
            (None, _) => true,
        };
        if !good {
            self.fail(format!(
                "agent {agent}: its run is {outcome:?}, stopped by {cause:?} (R-LIFE-07, R-LIFE-13)"
            ));
        }
        if u128::from(took_ms) != (now - begun).as_millis() {
            self.fail(format!(
                "agent {agent}: its run took another time (R-LIFE-05)"
            ));
        }
        if let Some(a) = self.agents.iter_mut().find(|a| a.n == agent) {
            a.runs_ended += 1;
        }
    }

    fn check_notice(&mut self, agent: u32, text: &str) {
        if self.agent(agent).is_none() {
            self.fail("a notice for an unknown agent");
        }
        // What is told of a message that its call was refused for, too.
        let again = text.starts_with("message not accepted");
        if let Some(n) = number_in(text) {
            self.given_back(agent, n, if again { "refused and told" } else { "told" });
        }
    }

    fn check_answer(&mut self, n: u32, answer: &Result<Reply, RequestError>) {
        let ok = answer.as_ref().ok();
        let cancelled = answer
            .as_ref()
            .is_err_and(|e| e.code == ErrorCode::Cancelled);
        let Some(at) = self.calls.iter().position(|c| c.n == n) else {
            self.fail(format!("an answer to call {n}, which nobody made"));
            return;
        };
        let call = &mut self.calls[at];
        call.answers += 1;
        let parent = call.parent;
        let (asked, agent, answers, lost, live) =
            (call.asked, call.agent, call.answers, call.lost, call.live);
        if answers > 1 || lost {
            self.fail(format!(
                "call {n} is answered {answers} times, or after its core died"
            ));
        }
        let known = self.agent(agent).is_some();
        if parent && matches!(ok, Some(Reply::Spawned { .. } | Reply::Sent { .. })) {
            self.told_taken.push(n);
        }
        match (asked, ok) {
            (_, None) if cancelled => self.withdrawn(n),
            (Asked::Spawn | Asked::Send, None) => {
                let words = answer.as_ref().err().map_or("", |e| e.message.as_str());
                if self.is_honest_about(n, words) {
                    return;
                }
                if self.msgs.iter().any(|m| m.n == n) {
                    self.given_back(agent, n, "refused");
                }
            }
            (Asked::Spawn, Some(Reply::Spawned { agent: a, name, .. })) => {
                let same = self.agent(agent).and_then(|a| a.name.clone());
                if number(a.0) != agent || same.is_some_and(|s| s != *name) {
                    self.fail("a spawn was answered with another agent");
                }
                self.check_accepted(n);
            }
            (Asked::Send, Some(Reply::Sent { message, .. })) => {
                if number(message.0) != n {
                    self.fail("a send was answered with another message");
                }
                self.check_accepted(n);
            }
            (Asked::Stop, Some(Reply::Stopped { was_live })) => {
                if self.live_proc(agent).is_some() {
                    self.fail(format!(
                        "the stop of agent {agent} is answered before it is gone"
                    ));
                }
                if *was_live != live {
                    self.fail(format!(
                        "stop {n}: was it live? {live}, the answer says {was_live}"
                    ));
                }
            }
            // Unknown, or not the asker's to stop.
            (Asked::Stop, None) if !known || !live || self.hosts.len() > 1 => {}
            (Asked::Abort | Asked::Join, None) => {}
            (Asked::Join, Some(Reply::Done)) => self.joined(n),
            (Asked::Spawn, Some(Reply::Finished { agent: a, .. })) => {
                let good = self.agent(agent).is_some_and(|a| a.foreground);
                if number(a.0) != agent || !good {
                    self.fail("a result for another agent, or that nobody waits for");
                }
                if !self
                    .msgs
                    .iter()
                    .any(|m| m.n == n && (m.accepted || m.consumed))
                {
                    self.fail(format!(
                        "call {n} has a result and its task was not accepted"
                    ));
                }
            }
            (Asked::Abort, Some(Reply::Aborted { returned })) => {
                for text in returned {
                    match number_in(text) {
                        Some(m) => self.given_back(agent, m, "returned"),
                        None => self.fail(format!("a text nobody sent is given back: {text}")),
                    }
                }
            }
            (Asked::Shutdown, Some(Reply::Done)) => {
                if self.procs.iter().any(|p| !p.gone) {
                    self.fail("the shutdown is answered before everything is gone");
                }
            }
            _ => self.fail(format!("call {n} ({asked:?}) got {answer:?}")),
        }
    }

    /// A call that waits for a result can end without one although the model has its task: then it is told that.
    fn is_honest_about(&self, n: u32, words: &str) -> bool {
        let waits = self.agent(n).is_some_and(|a| a.foreground);
        let consumed = self.msgs.iter().any(|m| m.n == n && m.consumed);
        waits && consumed && words.contains("the model has the task")
    }

    /// A call was taken back. Its message, if it was not with the child yet, goes nowhere.
    fn withdrawn(&mut self, n: u32) {
        let inputs = self.inputs;
        if let Some(m) = self.msg_mut(n)
            && !m.consumed
            && (m.written.is_none() || m.n == m.agent)
        {
            m.fate.get_or_insert(inputs);
        }
    }

    fn check_accepted(&mut self, n: u32) {
        let good = self.msgs.iter().find(|m| m.n == n).is_some_and(|m| {
            // The answer may have waited for the disk while something else became of the agent.
            let taken = m.accepted || m.consumed || m.text.starts_with('/');
            m.counts || (taken && m.fate.is_none())
        });
        if !good {
            self.fail(format!("message {n} is called accepted and was not"));
        }
    }

    /// A message will not be delivered, says the machine.
    fn given_back(&mut self, agent: u32, n: u32, how: &str) {
        let inputs = self.inputs;
        // Of messages with the same text any will do, one for each time.
        let told = |m: &Msg| m.agent == agent && m.text == "same <0>" && m.fate == Some(inputs);
        let msg = match n {
            0 if how == "refused and told" && self.msgs.iter().any(told) => return,
            0 => self
                .msgs
                .iter_mut()
                .find(|m| m.agent == agent && m.text == "same <0>" && m.waits()),
            _ => self.msgs.iter_mut().find(|m| m.n == n),
        };
        let Some(msg) = msg else { return };
        let shared = msg.text == "same <0>";
        let msg_text = msg.text.clone();
        let (consumed, fate) = (msg.consumed, msg.fate);
        msg.fate.get_or_insert(inputs);
        // Which of several texts Pi has expanded can only be guessed.
        let guessed = msg_text.starts_with('/');
        if consumed && !shared && !guessed {
            self.fail(format!(
                "message {n} is {how}, but the core knows that the model has it (R-DELIV-11)"
            ));
        }
        if fate.is_some_and(|at| at != inputs) && !shared {
            self.fail(format!("message {n} is given back twice ({how})"));
        }
    }

    pub fn stop_asked(&self, agent: u32) -> bool {
        self.calls
            .iter()
            .any(|c| c.asked == Asked::Stop && c.agent == agent && c.open() && c.at < self.inputs)
    }
}
