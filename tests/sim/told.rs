//! What the machine was told, as the checks remember it.

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::host::Stopper;
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::interpret::{Disposition, Fact, ResponseData};
use pi_agents::fleet::machine::{Input, Timer};
use pi_agents::fleet::transcript::Outcome;

use super::oracle::number_in;
use super::world::{Asked, Msg, Proc, World, number, proc_of};

impl World {
    pub fn told(&mut self, input: &Input) {
        if self.quiet {
            return;
        }
        match input {
            Input::Stop { agent, by, .. } => {
                let agent = number(agent.0);
                match by {
                    Stopper::User => self.may_close(Some(agent), StopCause::You),
                    // Only its host as it is can stop it.
                    Stopper::Parent(caller) if self.is_present(*caller) => {
                        self.may_close(Some(agent), StopCause::Parent);
                        for p in self.procs.iter_mut().filter(|p| p.agent == agent) {
                            p.hushed = true;
                        }
                    }
                    Stopper::Parent(_) => {}
                }
            }
            Input::Cancel { call } => self.told_cancel(number(call.0)),
            Input::Abort { agent, .. } => {
                let agent = number(agent.0);
                for p in self.procs.iter_mut().filter(|p| p.agent == agent) {
                    p.abort_asked = true;
                }
            }
            Input::Shutdown { .. } => {
                self.shutdown = true;
                self.may_close(None, StopCause::Shutdown);
            }
            Input::Timer(timer) => self.told_timer(*timer),
            Input::Launched { instance, .. } => {
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.launched = true;
                }
            }
            Input::LaunchFailed { instance, .. } => {
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.gone = true;
                    p.exit_told = true;
                }
            }
            Input::WriteFailed { instance } | Input::OutputEnded { instance } => {
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.may_close = true;
                }
            }
            Input::Exited { instance, .. } => {
                self.hosts_nobody(number(instance.0));
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.exit_told = true;
                    p.run_over = p.run.is_some();
                    p.never = p.run.is_none();
                }
            }
            Input::Swept { instance, .. } => {
                if let Some(p) = self.proc_mut(number(instance.0)) {
                    p.gone = true;
                }
            }
            Input::Fact { instance, fact } => self.told_fact(number(instance.0), fact),
            Input::Spawn { .. } | Input::Send { .. } => {}
            _ => self.told_host(input),
        }
    }

    /// A child asks, and its host is no person, who would see it (R-DELIV-10).
    pub fn asks_its_host(&self, input: &Input) -> bool {
        let Input::Fact {
            instance,
            fact: Fact::ToParent { .. },
        } = input
        else {
            return false;
        };
        let proc = self.proc(number(instance.0)).filter(|p| !p.gone);
        let agent = proc.and_then(|p| self.agent(p.agent));
        agent.is_some_and(|a| a.host != 0)
    }

    /// A call is taken back: what it wanted may end.
    fn told_cancel(&mut self, n: u32) {
        let Some(call) = self.calls.iter().find(|c| c.n == n && c.open()) else {
            return;
        };
        let (asked, agent) = (call.asked, call.agent);
        for p in self
            .procs
            .iter_mut()
            .filter(|p| p.agent == agent && !p.gone)
        {
            match asked {
                Asked::Spawn => {
                    p.may_close = true;
                    p.cancelled = true;
                    p.hushed = true;
                    p.cause.get_or_insert(StopCause::Cancelled);
                }
                Asked::Send => {
                    p.may_close = true;
                    p.cancelled = true;
                }
                _ => {}
            }
        }
    }

    pub fn may_close(&mut self, agent: Option<u32>, cause: StopCause) {
        let its = |p: &&mut Proc| agent.is_none_or(|agent| p.agent == agent);
        for p in self.procs.iter_mut().filter(its) {
            p.may_close = true;
            p.cause.get_or_insert(cause);
        }
    }

    fn told_timer(&mut self, timer: Timer) {
        self.timers.retain(|(_, _, t)| *t != timer);
        let now = self.now;
        let Some(n) = proc_of(timer) else { return };
        let timeout = self
            .proc(n)
            .and_then(|p| self.agent(p.agent))
            .and_then(|a| a.timeout);
        let Some(p) = self.proc_mut(n) else {
            return;
        };
        match timer {
            Timer::Start(_) => {
                p.may_close = true;
                p.start_late = true;
            }
            Timer::Run(..) => {
                // Only the limit of the run that is going on stops it (R-LIFE-13).
                let due = p.run.zip(timeout).is_some_and(|(at, t)| at + t <= now);
                if due {
                    p.may_close = true;
                    p.cause.get_or_insert(StopCause::Timeout);
                }
            }
            Timer::Prompt(_, message) if p.checking || p.prompt == Some(number(message.0)) => {
                p.prompt = None;
                p.checking = false;
                p.may_close |= !p.accepted;
            }
            Timer::Compaction(_) => p.compacting = false,
            _ => {}
        }
    }

    fn told_fact(&mut self, n: u32, fact: &Fact) {
        let now = self.now;
        let Some(agent) = self.proc(n).map(|p| p.agent) else {
            return;
        };
        let secret = self.agent(agent).is_some_and(|a| a.secret);
        let aborting = self
            .calls
            .iter()
            .any(|c| c.asked == Asked::Abort && c.agent == agent && c.open());
        let Some(p) = self.proc_mut(n) else {
            return;
        };
        match fact {
            Fact::RunStarted => {
                if p.run.is_some() && !p.exit_told {
                    self.fail("two runs of one process without an end between (interpreter)");
                } else if !p.exit_told {
                    p.run = Some(now);
                    p.runs += 1;
                    p.secret = secret.then_some(p.runs);
                    p.after_stop = p.cause.is_some() || p.closed.is_some() || p.start_late;
                    p.run_over = false;
                    p.abort_asked = aborting;
                }
            }
            Fact::RunEnded(end) => {
                p.run_over = p.run.is_some();
                let in_order = matches!(
                    end.outcome(),
                    Outcome::Completed { .. } | Outcome::Stopped { .. }
                );
                let stays = self.agent(agent).is_some_and(|a| a.persistent);
                if !(in_order && stays)
                    && let Some(p) = self.proc_mut(n)
                {
                    p.may_close = true;
                }
            }
            Fact::CompactionStarted => p.compacting = true,
            Fact::CompactionEnded => p.compacting = false,
            Fact::UserMessage { text } => self.told_consumed(agent, text),
            Fact::Response {
                id,
                command,
                result,
            } => self.told_response(n, id, command, result),
            _ => {}
        }
    }

    fn told_consumed(&mut self, agent: u32, text: &str) {
        let Some(n) = number_in(text) else { return };
        let fits = |m: &Msg| m.agent == agent && !m.consumed && number_in(&m.text) == Some(n);
        // Of messages with the same text, the oldest that can be meant.
        let at = self
            .msgs
            .iter()
            .position(|m| fits(m) && m.fate.is_none() && m.written.is_some())
            .or_else(|| self.msgs.iter().position(fits));
        if let Some(at) = at {
            let msg = &mut self.msgs[at];
            msg.consumed = true;
            msg.counts |= msg.fate.is_none();
        }
    }

    fn told_response(
        &mut self,
        n: u32,
        id: &str,
        command: &str,
        result: &Result<ResponseData, String>,
    ) {
        let agent = self.proc(n).and_then(|p| self.agent(p.agent));
        let stays = agent.is_some_and(|a| a.persistent);
        let Some(p) = self.proc_mut(n) else {
            return;
        };
        match id {
            "state" | "models" => {
                p.never = p.run.is_none();
                p.may_close |= p.never && p.accepted && !stays;
                let first = !p.ready;
                p.ready = true;
                p.may_close |=
                    first && (id == "models" || !matches!(result, Ok(ResponseData::State(_))));
                // The list of models is asked for after the state, and can refuse the start.
                p.may_close |= !p.accepted && command == "get_available_models";
            }
            clear if clear.starts_with("clear") => p.cleared = true,
            // A command that it does not have is refused, and an agent without work does not stay for that (R-DELIV-14).
            "commands" => p.may_close |= p.run.is_none() && !(stays && p.accepted),
            "abort" => {}
            other => {
                let Ok(message) = other.parse::<MessageId>() else {
                    return;
                };
                let m = number(message.0);
                if p.prompt != Some(m) {
                    return;
                }
                p.prompt = None;
                let refused = matches!(result, Err(e) if e.contains("compaction is in progress"));
                let ok = matches!(
                    result,
                    Ok(ResponseData::Disposition(
                        Disposition::Started | Disposition::Queued | Disposition::Handled
                    ))
                );
                let handled = matches!(result, Ok(ResponseData::Disposition(Disposition::Handled)));
                p.may_close |= !p.accepted && (!ok || handled) && !refused;
                p.accepted |= ok;
                p.compacting |= refused;
                if let Some(msg) = self.msg_mut(m) {
                    if refused {
                        msg.written = None;
                    }
                    msg.accepted |= ok && !(handled && msg.n == msg.agent);
                    msg.counts |= ok && !handled && msg.fate.is_none();
                    // A task that a command took is a failed start, its message a refused one (R-LIFE-03).
                    msg.consumed |= handled && msg.n != msg.agent;
                }
            }
        }
    }
}
