//! Ownership of runs, and what becomes of their results (R-DELIV-01, 06 to 09, 16).
//!
//! The privacy boundary is a state of the agent, set when input is submitted, before anything is
//! written to the child (R-DELIV-08): Pi's `agent_start` does not say who caused it. A result is
//! a copy made at the settlement, never drawn from what the agent is later (R-LIFE-05).

use super::Machine;
use super::effect::Effect;
use super::input::Now;
use super::state::Run;
use crate::fleet::agent::StopCause;
use crate::fleet::answer::Reply;
use crate::fleet::completion::{Completion, CompletionId, CompletionStatus, Question};
use crate::fleet::host::{HostKind, Owner, Sender};
use crate::fleet::ids::{AgentId, MessageId};
use crate::fleet::interpret::{Disposition, RunEnd};
use crate::fleet::outbox::{OwedRun, Suppression};
use crate::fleet::transcript::{Level, Outcome};

/// What is said of a run without text (R-DELIV-15).
const NO_OUTPUT: &str = "(no output)";

impl Machine {
    /// True when the answer to this sender goes to the host.
    pub(super) fn claims(&self, id: AgentId, by: Sender) -> bool {
        match by {
            Sender::Parent(_) | Sender::Continue => true,
            Sender::User => self.has_person(id),
        }
    }

    fn has_person(&self, id: AgentId) -> bool {
        self.host_of(id).is_some_and(|h| h.kind == HostKind::Person)
    }

    /// Somebody's input is about to be queued: the privacy boundary (R-DELIV-08).
    pub(super) fn submitted(&mut self, id: AgentId, claims: bool) {
        if claims {
            return;
        }
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let busy = agent
            .instance
            .as_ref()
            .is_some_and(|i| i.run.is_some() || i.run_expected);
        if !busy && !agent.queue.iter().any(|m| m.claims) {
            agent.boundary = Owner::Private;
        }
    }

    /// Who owns a run that begins now.
    pub(super) fn owner_of_new_run(&self, id: AgentId) -> (Owner, bool) {
        let Some(agent) = self.agent(id) else {
            return (Owner::Parent, false);
        };
        if agent.instance.as_ref().is_some_and(|i| i.expected_owed) {
            return (Owner::Parent, false);
        }
        if agent.ending.is_some() && !agent.instance.as_ref().is_some_and(|i| i.run_expected) {
            // What it begins while it is being ended, nobody asked for (R-DELIV-06: an idle agent
            // stops silently).
            return (Owner::Private, false);
        }
        // Its prompt may still be unanswered; a person's makes it private until the answer says
        // that the run was there before.
        let inflight = agent.instance.as_ref().and_then(|i| i.inflight);
        let message = inflight.and_then(|id| agent.queue.iter().find(|m| m.id == id));
        match message {
            Some(m) if !m.claims => (Owner::Private, true),
            other => (agent.boundary, other.is_some()),
        }
    }

    /// A prompt was answered: what that means for the run that is going on (R-DELIV-07, 08).
    pub(super) fn prompt_decided(
        &mut self,
        id: AgentId,
        claims: bool,
        disposition: Option<Disposition>,
    ) {
        let accepted = matches!(
            disposition,
            Some(Disposition::Started | Disposition::Queued)
        );
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if claims && accepted {
            agent.boundary = Owner::Parent;
        } else if !claims && disposition == Some(Disposition::Started) {
            // Pi was idle when it took a person's message, whatever was going on when it was sent.
            agent.boundary = Owner::Private;
        }
        let boundary = agent.boundary;
        let Some(run) = agent.instance.as_mut().and_then(|i| i.run.as_mut()) else {
            return;
        };
        let undecided = std::mem::take(&mut run.undecided);
        if (claims && accepted) || (undecided && !claims && boundary == Owner::Parent) {
            self.own_run(id);
        }
    }

    /// The run that is going on belongs to the host: its answer is owed from now on.
    pub(super) fn own_run(&mut self, id: AgentId) {
        let Some(run) = self.instance_mut(id).and_then(|i| i.run.as_mut()) else {
            return;
        };
        run.owner = Owner::Parent;
        run.owed = true;
        let seq = run.seq;
        self.owe(id, seq);
    }

    /// A prompt of the host was accepted: the run it announces is owed before the host hears so, or
    /// a core that is lost in between would owe it to nobody (R-DELIV-17).
    pub(super) fn own_expected_run(&mut self, id: AgentId) {
        if self.outbox_of(id).is_none() {
            return;
        }
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        i.expected_owed = true;
        let seq = i.runs + 1;
        self.owe(id, seq);
    }

    /// The outbox owes the host this run. A call that waits for it claims it once its task was
    /// accepted: what the child does before by itself is not the answer.
    fn owe(&mut self, id: AgentId, seq: u64) {
        let Some(agent) = self.agent(id) else {
            return;
        };
        let Some(i) = agent.instance.as_ref() else {
            return;
        };
        let completion = CompletionId {
            instance: i.id,
            run: seq,
        };
        let run = OwedRun {
            id: completion,
            agent: agent.name.clone(),
            session_path: agent.session_path.clone(),
        };
        let call = agent.foreground;
        if let Some(outbox) = self.outbox_of(id)
            && !outbox.open(run, call)
            && let Some(call) = call
        {
            outbox.claim(completion, call);
        }
    }

    /// None of its runs that have not settled is told any more. The first reason stands. On record at
    /// once: a core that is lost before the process has ended does not report them as lost (R-TOOL-03).
    pub(super) fn silence(&mut self, id: AgentId, why: Suppression) {
        let Some(i) = self.instance_mut(id) else {
            return;
        };
        let why = *i.silenced.get_or_insert(why);
        let run = i.run.as_ref().filter(|run| run.owed).map(|run| run.seq);
        let next = i.expected_owed.then_some(i.runs + 1);
        let instance = i.id;
        let Some(outbox) = self.outbox_of(id) else {
            return;
        };
        for run in run.into_iter().chain(next) {
            outbox.suppress(CompletionId { instance, run }, why);
        }
    }

    /// Freezes a run: its result is copied, a call that waits for it is answered, its host is
    /// told. `run` is out of the agent's state already.
    pub(super) fn freeze_run(
        &mut self,
        now: Now,
        id: AgentId,
        mut run: Run,
        outcome: &Outcome,
        end: &RunEnd,
    ) {
        let took_ms = u64::try_from(now.mono.saturating_sub(run.started.mono).as_millis())
            .unwrap_or(u64::MAX);
        // The model has the task, only Pi's answer to it is missing: who waits for the result waits
        // for this one.
        let inflight = self.agent(id).and_then(|a| a.instance.as_ref()?.inflight);
        if let Some(message) = inflight
            && self.agent(id).is_some_and(|a| {
                a.wait_for_result && a.queue.iter().any(|m| m.id == message && m.seen)
            })
        {
            self.wait_for_result(id, message);
            self.claim_run(id, run.seq);
        }
        let stays = self.stays_idle(id, outcome);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.run_took_ms = Some(took_ms);
        agent.runs_ended += 1;
        agent.last = Some(outcome.clone());
        let completion = agent.instance.as_ref().map(|i| CompletionId {
            instance: i.id,
            run: run.seq,
        });
        // A prompt of the host that is still unanswered may have caused it: owed rather than lost.
        let claimed = agent
            .instance
            .as_ref()
            .and_then(|i| i.inflight)
            .and_then(|m| agent.queue.iter().find(|q| q.id == m))
            .is_some_and(|m| m.claims);
        let adopt = run.undecided && claimed && !run.owed;
        let silenced = agent.instance.as_ref().and_then(|i| i.silenced);
        let name = agent.name.clone();
        let session_path = agent.session_path.clone();
        let call = agent.foreground.take();
        let result = result_text(outcome, &end.text);
        self.out.push(Effect::RunEnded {
            agent: id,
            outcome: outcome.clone(),
            took_ms,
            tokens: end.usage.input + end.usage.output,
            tool_uses: end.tool_uses,
        });
        if let Some(call) = call {
            self.answer(
                call,
                Ok(Reply::Finished {
                    agent: id,
                    name: name.clone(),
                    outcome: outcome.clone(),
                    result: result.clone(),
                    session_path: session_path.clone(),
                    took_ms,
                    usage: end.usage,
                }),
            );
        }
        let Some(completion) = completion else {
            return;
        };
        if let Some(outbox) = self.outbox_of(id) {
            if adopt {
                run.owed = true;
                let run = OwedRun {
                    id: completion,
                    agent: name.clone(),
                    session_path: session_path.clone(),
                };
                outbox.open(run, call);
            }
            if run.owed {
                if let Some(why) = silenced {
                    outbox.suppress(completion, why);
                } else {
                    outbox.settle(Completion {
                        id: completion,
                        agent: name,
                        status: status_of(outcome),
                        result,
                        session_path,
                        idle: stays,
                    });
                    if let Some(call) = call {
                        outbox.pull(call);
                    }
                }
            }
        }
    }

    /// The call that waits for the result claims this run, unless its session has ended: its claim
    /// ended with it.
    pub(super) fn claim_run(&mut self, id: AgentId, run: u64) {
        let open = self.host_of(id).is_some_and(|h| h.open);
        let Some(agent) = self.agent(id).filter(|_| open) else {
            return;
        };
        let (call, instance) = (agent.foreground, agent.instance.as_ref().map(|i| i.id));
        if let (Some(call), Some(instance)) = (call, instance)
            && let Some(outbox) = self.outbox_of(id)
        {
            outbox.claim(CompletionId { instance, run }, call);
        }
    }

    /// The agent stays resident after a run with this outcome (R-LIFE-06).
    fn stays_idle(&self, id: AgentId, outcome: &Outcome) -> bool {
        self.agent(id).is_some_and(|a| {
            a.spec.persistent
                && a.ending.is_none()
                && a.instance.as_ref().is_some_and(|i| i.exit.is_none())
                && !matches!(outcome, Outcome::Failed { .. })
        })
    }

    /// Somebody waits for the answer of a run that did not begin.
    pub(super) fn owed_without_a_run(&self, id: AgentId) -> bool {
        self.agent(id).is_some_and(|a| {
            a.foreground.is_some() || a.instance.as_ref().is_some_and(|i| i.expected_owed)
        })
    }

    /// A prompt was accepted and its run never began: whoever is owed its answer is told.
    pub(super) fn run_never_began(&mut self, now: Now, id: AgentId, outcome: &Outcome) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        i.run_expected = false;
        i.runs += 1;
        let mut run = Run::new(i.runs, now, Owner::Parent);
        run.owed = std::mem::take(&mut i.expected_owed);
        self.freeze_run(now, id, run, outcome, &RunEnd::default());
    }

    /// The agent's message to its host, not a result (R-DELIV-10).
    pub(super) fn asked_parent(&mut self, id: AgentId, text: String) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let name = agent.name.clone();
        let Some(i) = agent.instance.as_mut() else {
            return;
        };
        i.questions += 1;
        let question = Question {
            id: MessageId::derived(i.id, i.questions),
            agent: name,
            question: text,
        };
        match self.outbox_of(id) {
            Some(outbox) => {
                outbox.ask(question);
            }
            None => self.notice(id, Level::Info, format!("asks: {}", question.question)),
        }
    }
}

fn status_of(outcome: &Outcome) -> CompletionStatus {
    match outcome {
        Outcome::Completed { .. } => CompletionStatus::Completed,
        Outcome::Failed { .. } => CompletionStatus::Failed,
        Outcome::Stopped { .. } => CompletionStatus::Stopped,
    }
}

/// The `result` of a completion (R-TOOL-13, R-DELIV-15).
fn result_text(outcome: &Outcome, text: &str) -> String {
    let cause = match outcome {
        Outcome::Completed { .. } => None,
        Outcome::Failed { reason } => Some(format!("failed: {reason}")),
        // The reader is a model: "you" would be itself.
        Outcome::Stopped { by: StopCause::You } => Some("stopped by the user".to_owned()),
        Outcome::Stopped { by } => Some(format!("stopped {}", by.words())),
    };
    match (cause, text.is_empty()) {
        (None, true) => NO_OUTPUT.to_owned(),
        (None, false) => text.to_owned(),
        (Some(cause), true) => format!("{cause}\n\n{NO_OUTPUT}"),
        (Some(cause), false) => format!("{cause}\n\n{text}"),
    }
}
