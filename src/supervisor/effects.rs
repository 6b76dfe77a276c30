//! What the machine decided is done.

use super::actor::Actor;
use super::hosts;
use crate::client::host::HostNews;
use crate::fleet::host::{Caller, LeaveReason};
use crate::fleet::ids::AgentId;
use crate::fleet::machine::{ChildCommand, Effect, Input, LadderSignal, Now};
use crate::fleet::roster::Badge;
use crate::fleet::transcript::Level;
use crate::pi::command::Command;
use crate::sys::process::Signal;

impl Actor {
    pub(super) fn effect(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Launch {
                agent,
                instance,
                plan,
            } => {
                let live = self.live(agent);
                let seen = self.last_seen(agent, instance);
                let name = self.machine.view(agent).map(|v| v.name).unwrap_or_default();
                // Fresh for every launch (R-PI-04); that of a new agent was asked for before.
                let asked = self.extras.take(instance);
                let asked = asked.or_else(|| self.hosts.ask_launch(plan.host));
                self.starter
                    .launch(agent, instance, *plan, name, live, seen, asked);
            }
            Effect::Write {
                instance,
                id,
                command,
            } => {
                let prompt = matches!(command, ChildCommand::Prompt { .. });
                let line = encode(&id, command);
                let ok = self.children.get(&instance).is_some_and(|(_, child)| {
                    if prompt {
                        child.witness.prompted();
                    }
                    child.write(line)
                });
                if !ok {
                    self.backlog.push_back(Input::WriteFailed { instance });
                }
            }
            Effect::CloseStdin { instance } => {
                if let Some((_, child)) = self.children.get(&instance) {
                    child.close_stdin();
                }
            }
            Effect::Signal { instance, signal } => {
                if let Some((_, child)) = self.children.get(&instance) {
                    child.signal_group(match signal {
                        LadderSignal::Term => Signal::TERM,
                        LadderSignal::Kill => Signal::KILL,
                    });
                }
            }
            Effect::Arm { timer, after } => self.timers.arm(timer, after),
            Effect::Disarm(timer) => self.timers.disarm(timer),
            Effect::Answer { call, answer } => {
                // First, so that nothing is told of it behind its answer (R-TOOL-11).
                self.hosts.call_ends(call);
                if let Some(reply) = self.calls.remove(&call) {
                    // A caller that went away withdraws nothing.
                    let _ = reply.send(answer);
                }
            }
            Effect::Save(agent) => self.save(agent),
            Effect::Publish(agent) => self.publish(agent),
            Effect::RunEnded {
                agent,
                outcome,
                took_ms,
                tokens,
                tool_uses,
            } => {
                let live = self.live(agent);
                live.lock()
                    .run_ended(outcome, took_ms, tokens, tool_uses, now.wall_ms);
                live.touch();
                self.shared.ring();
            }
            Effect::Notice { agent, level, text } => self.notice(agent, level, text, now.wall_ms),
            Effect::Journal { host, seq, record } => {
                if !self.hosts.write(host, seq, record) {
                    self.backlog.push_back(Input::JournalFailed { host });
                }
            }
            Effect::Offer {
                host,
                generation,
                epoch,
                mode,
                deliveries,
            } => {
                let news = HostNews::Offer {
                    epoch,
                    mode,
                    deliveries: hosts::offered(&deliveries),
                };
                self.tell_host(Caller { host, generation }, news);
            }
            Effect::Named {
                host,
                generation,
                agents,
            } => {
                let news = HostNews::Named { agents };
                self.tell_host(Caller { host, generation }, news);
            }
            Effect::Degraded { degraded, .. } => {
                self.shared.badge(Badge::NotCrashSafe, degraded);
            }
            Effect::Forget { agent, host } => self.forget(agent, host),
            Effect::HostClosed { host, generation } => {
                if self.hosts.closed(host, generation) {
                    self.shared.session_left(host);
                }
            }
            Effect::Exit => self.done = true,
        }
    }

    /// News for a session; one that does not read them is given up.
    fn tell_host(&mut self, caller: Caller, news: HostNews) {
        if !self.hosts.tell(caller, news) {
            let Caller { host, generation } = caller;
            self.backlog.push_back(Input::HostLeft {
                host,
                generation,
                reason: LeaveReason::Lost,
            });
        }
    }

    pub(super) fn notice(&mut self, agent: AgentId, level: Level, text: String, at_ms: i64) {
        let live = self.live(agent);
        live.lock().notice(level, text, at_ms);
        live.touch();
        self.shared.ring();
    }
}

/// A command as the line Pi reads.
fn encode(id: &str, command: ChildCommand) -> Vec<u8> {
    let command = match command {
        ChildCommand::GetState => Command::GetState,
        ChildCommand::GetModels => Command::GetAvailableModels,
        ChildCommand::GetCommands => Command::GetCommands,
        ChildCommand::Prompt { text } => Command::prompt(text),
        ChildCommand::ClearQueue => Command::ClearQueue,
        ChildCommand::Abort => Command::Abort,
    };
    command.to_line(id).into_bytes()
}
