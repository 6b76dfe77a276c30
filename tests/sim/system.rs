//! What the system reports, and what a process does by itself.

use pi_agents::fleet::interpret::{Disposition, Fact, ResponseData, RunEnd};
use pi_agents::fleet::machine::{Exit, Input, Timer};

use super::step::{Kind, Step};
use super::world::{World, exit, instance_id, message_id, number, proc_of};

impl World {
    pub fn system(&mut self, step: Step) {
        let Some(p) = self.procs.iter_mut().rfind(|p| p.n == step.a && !p.gone) else {
            return;
        };
        let instance = instance_id(step.a);
        match step.kind {
            Kind::LaunchOk if !p.launched && !p.refused => {
                p.moved = true;
                self.input(Input::Launched {
                    instance,
                    pid: step.a + 1000,
                });
            }
            Kind::LaunchFail if !p.moved => {
                let reason = if p.refused {
                    "its session is in use by another pi-agents"
                } else {
                    "no such program"
                };
                self.input(Input::LaunchFailed {
                    instance,
                    reason: reason.to_owned(),
                    hint: None,
                });
            }
            Kind::Deliver => {
                if let Some(fact) = p.child.facts.pop_front() {
                    self.input(Input::Fact { instance, fact });
                }
            }
            Kind::Exit if p.dead && !p.exit_told => {
                let lost = usize::try_from(step.b).unwrap().min(p.child.facts.len());
                let kept = p.child.facts.len() - lost;
                p.child.facts.truncate(kept);
                // What is not heard yet can be lost: nothing says that it is all.
                let unheard = lost > 0 || kept > 0 || p.child.mute;
                let exit = Exit {
                    unheard,
                    ..p.exit.clone()
                };
                self.input(Input::Exited { instance, exit });
            }
            Kind::OutputEnd if p.child.mute && !p.dead && !p.output_ended => {
                p.output_ended = true;
                self.input(Input::OutputEnded { instance });
            }
            Kind::WriteFail if p.write_fails && !p.writer_dead => {
                p.writer_dead = true;
                self.input(Input::WriteFailed { instance });
            }
            Kind::Swept if p.exit_told => {
                // What it said last can be heard after its death, and not after this.
                p.child.facts.clear();
                let killed = step.b + self.sweep(step.a);
                self.input(Input::Swept {
                    instance,
                    killed,
                    left: step.c,
                });
            }
            _ => {}
        }
    }

    pub fn stale_timer(&mut self, at: u32) {
        let Some(timer) = usize::try_from(at)
            .ok()
            .and_then(|at| self.old_timers.get(at).copied())
        else {
            return;
        };
        let armed = self.timers.iter().any(|(_, _, t)| *t == timer);
        // Any timer of a process that is gone; of a living one, a timer that is about something else than what is so.
        let old = match (proc_of(timer).and_then(|n| self.proc(n)), timer) {
            (_, Timer::Wake(_)) => false,
            (Some(p), Timer::Run(..)) if !p.gone => p.closed.is_none(),
            (Some(p), Timer::Prompt(_, m)) if !p.gone => p.prompt != Some(number(m.0)),
            (Some(p), _) => p.gone,
            (None, _) => true,
        };
        if old && !armed {
            self.quiet = true;
            self.input(Input::Timer(timer));
        }
    }

    pub fn stale_fact(&mut self, n: u32, sort: u32) {
        if !self.proc(n).is_some_and(|p| p.gone) {
            return;
        }
        let instance = instance_id(n);
        let fact = |fact| Input::Fact { instance, fact };
        let input = match sort % 11 {
            0 => fact(Fact::RunStarted),
            1 => fact(Fact::RunEnded(RunEnd::default())),
            2 => fact(Fact::StraySettled),
            3 => fact(Fact::Response {
                id: message_id(n).to_string(),
                command: "prompt".to_owned(),
                result: Ok(ResponseData::Disposition(Disposition::Started)),
            }),
            4 => fact(Fact::CompactionEnded),
            5 => Input::Exited {
                instance,
                exit: Exit::default(),
            },
            6 => Input::Swept {
                instance,
                killed: 0,
                left: 0,
            },
            7 => Input::WriteFailed { instance },
            8 => Input::OutputEnded { instance },
            9 => Input::Launched { instance, pid: 1 },
            _ => Input::LaunchFailed {
                instance,
                reason: "late".to_owned(),
                hint: None,
            },
        };
        self.quiet = true;
        self.input(input);
    }

    pub fn child(&mut self, step: Step) {
        let Some(p) = self.procs.iter_mut().rfind(|p| p.n == step.a && p.exists()) else {
            return;
        };
        let given = p.child.given.len();
        let child = &mut p.child;
        match step.kind {
            Kind::Read if !child.deaf => child.read(step.b),
            Kind::Answer => child.answer_prompt(step.b),
            Kind::Go => child.go(step.b),
            Kind::Settle => child.settle(),
            Kind::SelfStart => child.self_start(),
            Kind::Stray => child.stray(),
            Kind::Compact => child.compact(),
            Kind::Compacted => child.compacted(),
            Kind::Die => {
                p.dead = true;
                p.exit = exit(step.b);
            }
            Kind::Mute => child.mute = true,
            Kind::Deaf => {
                child.deaf = true;
                p.write_fails |= !child.inbox.is_empty();
            }
            Kind::Repeat => child.repeat(),
            Kind::Question => child.ask(),
            Kind::Babble => child.babble(step.b),
            _ => {}
        }
        p.moved = true;
        let (agent, said) = (
            p.agent,
            p.child.given.get(given..).unwrap_or_default().to_vec(),
        );
        for text in said {
            self.given(agent, &text);
        }
    }
}
