//! What a person or a host asks for: spawn, send, stop, shutdown. Every check comes before any
//! side effect (R-TOOL-07).

use std::collections::VecDeque;

use super::Machine;
use super::effect::Effect;
use super::input::{ChildEnv, Input, Now, Timer};
use super::state::{Agent, EndWhy, Ending, Message, Phase};
use crate::fleet::agent::{AgentSpec, Status, StopCause, ToolChoice};
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::host::{Caller, HostKind, Owner, Sender, SpawnMode, Stopper};
use crate::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use crate::fleet::outbox::Suppression;
use crate::fleet::roster::MessageState;
use crate::fleet::transcript::Level;

/// Longest accepted time limit: what a JavaScript timer can hold (R-TOOL-16).
const MAX_TIMEOUT_MS: u64 = (1 << 31) - 1;

/// Checks what can be checked without the file system.
fn check_spec(spec: &AgentSpec, prompt: &str) -> Result<(), RequestError> {
    let bad = |message: &str| Err(RequestError::new(ErrorCode::Invalid, message));
    if prompt.trim().is_empty() {
        return bad("the task is empty");
    }
    if spec.label.trim().is_empty() {
        return bad("the label is empty");
    }
    if prompt.contains('\0') || spec.label.contains('\0') {
        return bad("the task and its label cannot hold a NUL character");
    }
    if let Some(ms) = spec.timeout_ms
        && !(1..=MAX_TIMEOUT_MS).contains(&ms)
    {
        return bad("the time limit must be between 1 ms and 2147483647 ms");
    }
    if let Some(model) = &spec.model
        && (model.trim().is_empty() || model.contains('\0'))
    {
        return bad("the model name is empty");
    }
    Ok(())
}

/// Tools every child has, whatever its list says (R-TOOL-05, R-ID-09).
const OWN_TOOLS: &[&str] = &["agent_spawn", "agent_send", "agent_stop"];

/// The tools of an agent below an agent: a part of its parent's (R-ID-09).
fn narrowed(parent: &ToolChoice, child: ToolChoice) -> Result<ToolChoice, RequestError> {
    let ToolChoice::Only(have) = parent else {
        return Ok(child);
    };
    let ToolChoice::Only(wanted) = child else {
        return Ok(ToolChoice::Only(have.clone()));
    };
    let excess: Vec<&str> = wanted
        .iter()
        .map(String::as_str)
        .filter(|name| !OWN_TOOLS.contains(name) && !have.iter().any(|h| h == name))
        .collect();
    if excess.is_empty() {
        return Ok(ToolChoice::Only(wanted));
    }
    Err(RequestError::new(
        ErrorCode::Invalid,
        format!("tools its parent does not have: {}", excess.join(", ")),
    )
    .with_hint(format!("its parent has: {}", have.join(", "))))
}

/// A message and the process it may need.
pub(super) struct First {
    pub(super) message: MessageId,
    pub(super) instance: InstanceId,
    pub(super) prompt: String,
    pub(super) env: ChildEnv,
}

impl First {
    fn into_message(self, call: CallId, revived: bool, initial: bool, claims: bool) -> Message {
        Message {
            id: self.message,
            text: self.prompt,
            state: MessageState::Queued,
            call: Some(call),
            revived,
            initial,
            claims,
            typed: false,
            seen: false,
            next: false,
            instance: self.instance,
            env: self.env,
        }
    }
}

impl Machine {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn spawn(
        &mut self,
        now: Now,
        call: CallId,
        by: Caller,
        mode: &SpawnMode,
        id: AgentId,
        spec: AgentSpec,
        first: First,
    ) {
        if self.was_cancelled(call) {
            return;
        }
        if self.shutdown.is_some() {
            self.refuse(call, ErrorCode::Conflict, "the core is ending");
            return;
        }
        let spec = match self.check_spawn(by, mode, spec, &first.prompt) {
            Ok(spec) => spec,
            Err(error) => {
                self.answer(call, Err(error));
                return;
            }
        };
        let Some(host) = self.host_mut(by.host) else {
            return;
        };
        let name = host.names.give();
        host.branch.joined();
        let agent = Agent {
            named: true,
            id,
            host: by.host,
            foreground: None,
            wait_for_result: *mode == SpawnMode::Foreground,
            boundary: Owner::Parent,
            name,
            spec,
            status: Status::Queued,
            since: now,
            // A fresh id for each agent: a reused human name would silently reopen an old
            // session, since Pi's `--session-id` is get-or-create (design §2).
            session_id: id.to_string(),
            session_path: None,
            instance: None,
            ending: None,
            queue: VecDeque::from([first.into_message(call, false, true, true)]),
            run_started_ms: None,
            run_took_ms: None,
            runs_ended: 0,
            last: None,
            start_error: None,
        };
        self.index.insert(id, self.agents.len());
        self.agents.push(agent);
        self.launches.push_back(id);
        self.publish(id);
    }

    /// It would be refused: whatever it needs besides need not be asked for.
    #[must_use]
    pub fn refuses(&self, input: &Input) -> bool {
        match input {
            Input::Spawn {
                by,
                mode,
                spec,
                prompt,
                ..
            } => {
                self.shutdown.is_some()
                    || self.check_spawn(*by, mode, spec.clone(), prompt).is_err()
            }
            _ => false,
        }
    }

    /// A message waits for this process to be started for it.
    #[must_use]
    pub fn is_to_start(&self, instance: InstanceId) -> bool {
        let waits = |a: &Agent| a.queue.iter().any(|m| m.instance == instance);
        !self.instances.contains_key(&instance) && self.agents.iter().any(waits)
    }

    /// Every check of a spawn that needs no disk, before any side effect (R-TOOL-07). Gives the
    /// spec as it will be used.
    fn check_spawn(
        &self,
        by: Caller,
        mode: &SpawnMode,
        mut spec: AgentSpec,
        prompt: &str,
    ) -> Result<AgentSpec, RequestError> {
        let host = self.check_caller(by)?;
        let kind = host.kind;
        check_spec(&spec, prompt)?;
        let depth = self.depth_below(by.host);
        if depth > self.config.max_depth {
            return Err(RequestError::new(
                ErrorCode::Invalid,
                format!(
                    "agents may be {} level(s) deep here, and this one would be at level {depth}",
                    self.config.max_depth
                ),
            ));
        }
        if let HostKind::Nested { agent } = kind {
            if *mode == SpawnMode::Background {
                // Nothing would wait for it when its parent's process ends (R-ID-04).
                return Err(RequestError::new(
                    ErrorCode::Invalid,
                    "an agent can only start agents in the foreground",
                ));
            }
            if let Some(parent) = self.agent(agent) {
                spec.tools = narrowed(&parent.spec.tools, spec.tools)?;
            }
        }
        Ok(spec)
    }

    pub(super) fn send(&mut self, now: Now, call: CallId, id: AgentId, by: Sender, first: First) {
        if self.was_cancelled(call) {
            return;
        }
        if let Err(error) = self.check_send(id, by, &first.prompt) {
            self.answer(call, Err(error));
            return;
        }
        let claims = self.claims(id, by);
        // Before anything is written to the child: what it does by itself from now on is the
        // person's (R-DELIV-08).
        self.submitted(id, claims);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        // Not if it waits for its first process with the task it is to begin with. A dead process
        // that is still being swept takes no message any more.
        let fresh = agent.queue.iter().any(|m| m.initial);
        let resident = agent.instance.as_ref();
        let gone = resident.is_none_or(|i| i.phase == Phase::Sweeping);
        let revived = !fresh && (gone || agent.ending.is_some());
        let mut message = first.into_message(call, revived, false, claims);
        message.typed = !matches!(by, Sender::Parent(_));
        agent.queue.push_back(message);
        self.publish(id);
        self.route(now, id);
    }

    fn check_send(&self, id: AgentId, by: Sender, text: &str) -> Result<(), RequestError> {
        let refuse = |code, message: &str| Err(RequestError::new(code, message));
        if self.shutdown.is_some() {
            return refuse(ErrorCode::Conflict, "the core is ending");
        }
        if text.trim().is_empty() {
            return refuse(ErrorCode::Invalid, "the message is empty");
        }
        if text.contains('\0') {
            return refuse(
                ErrorCode::Invalid,
                "the message cannot hold a NUL character",
            );
        }
        match by {
            Sender::Parent(caller) => self.check_parent(caller, id)?,
            Sender::User | Sender::Continue => {
                let Some(host) = self.host_of(id) else {
                    return refuse(ErrorCode::NotFound, "no such agent");
                };
                if !host.open {
                    // Its environment and its launch contributions are the session's (R-LIFE-18).
                    return Err(RequestError::new(
                        ErrorCode::Conflict,
                        "the session this agent belongs to has ended",
                    )
                    .with_hint("resume that session in Pi, then send the message again"));
                }
            }
        }
        Ok(())
    }

    /// Moves the queue of an agent forward: to its process if it has one, else towards a launch.
    pub(super) fn route(&mut self, now: Now, id: AgentId) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if agent.queue.is_empty() {
            return;
        }
        if agent.instance.is_some() {
            self.pump(id);
            return;
        }
        // One revival at a time: messages that come meanwhile share it (R-LIFE-11).
        if agent.status != Status::Queued && agent.set_status(now, Status::Queued) {
            for message in &mut agent.queue {
                message.state = MessageState::Queued;
            }
            self.launches.push_back(id);
            self.publish(id);
        }
    }

    pub(super) fn stop_asked(&mut self, now: Now, call: CallId, id: AgentId, by: Stopper) {
        if self.was_cancelled(call) {
            return;
        }
        let (known, cause) = match by {
            Stopper::Parent(caller) => (self.check_parent(caller, id), StopCause::Parent),
            Stopper::User if self.agent(id).is_none() => (
                Err(RequestError::new(ErrorCode::NotFound, "no such agent")),
                StopCause::You,
            ),
            Stopper::User => (Ok(()), StopCause::You),
        };
        match known {
            Ok(()) => {
                if cause == StopCause::Parent {
                    self.silence(id, Suppression::Stopped);
                }
                self.stop(now, id, cause, Some(call));
            }
            Err(error) => self.answer(call, Err(error)),
        }
    }

    /// Stops an agent (R-TOOL-03). Idempotent; cancels a launch that is pending (R-LIFE-12).
    pub(super) fn stop(&mut self, now: Now, id: AgentId, by: StopCause, call: Option<CallId>) {
        self.launches.retain(|waiting| *waiting != id);
        self.give_back(id, ErrorCode::Gone, "the agent was stopped first");
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        if agent.instance.is_none() {
            let was_live = agent.status.is_live();
            if was_live {
                agent.set_status(now, Status::Stopped { by });
                self.out.push(Effect::Save(id));
            }
            self.publish(id);
            if let Some(call) = call {
                self.answer(call, Ok(Reply::Stopped { was_live }));
            }
            return;
        }
        self.begin_ending(now, id, EndWhy::Stop(by), call);
    }

    /// Empties the queue: nobody will deliver these messages. Whoever waits is told; a message
    /// that was accepted already is named in the transcript, so that its text is not lost.
    pub(super) fn give_back(&mut self, id: AgentId, code: ErrorCode, why: &str) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let gone: Vec<Message> = agent.queue.drain(..).collect();
        if let Some(i) = &mut agent.instance
            && let Some(message) = i.inflight.take()
        {
            let timer = Timer::Prompt(i.id, message);
            self.out.push(Effect::Disarm(timer));
        }
        self.tell_undelivered(id, gone, code, why);
    }

    pub(super) fn tell_undelivered(
        &mut self,
        id: AgentId,
        gone: Vec<Message>,
        code: ErrorCode,
        why: &str,
    ) {
        for message in gone {
            let reply = self.agent(id).map(|a| a.accepted(&message, false));
            let result = message.initial && self.agent(id).is_some_and(|a| a.wait_for_result);
            let run = self
                .agent(id)
                .and_then(|a| a.instance.as_ref()?.run.as_ref())
                .map(|run| run.seq);
            match message.call {
                // The model has it, only the child's answer is missing: the end of the run answers.
                Some(call)
                    if message.seen
                        && result
                        && let Some(run) = run =>
                {
                    if let Some(agent) = self.agent_mut(id) {
                        agent.wait_for_result = false;
                        agent.foreground = Some(call);
                    }
                    self.claim_run(id, run);
                }
                Some(call) if message.seen && !result => {
                    if let Some(reply) = reply {
                        self.answer(call, Ok(reply));
                    }
                }
                None if message.seen => {}
                // The model has it, and nothing is left that would say what came of it (R-DELIV-11).
                Some(call) if message.seen => {
                    self.silence(id, Suppression::CallEnded);
                    let error = self.unknown_end(id, code, why);
                    self.answer(call, Err(error));
                }
                Some(call) if message.initial => {
                    self.silence(id, Suppression::StartFailed);
                    let error = RequestError::new(code, format!("not started: {why}"));
                    if code == ErrorCode::StartFailed {
                        self.not_started(id, call, error);
                    } else {
                        self.answer(call, Err(error));
                    }
                }
                // It was written, and the child has not said what became of it: whoever sends it
                // again has to know (R-DELIV-11).
                Some(call) if message.state == MessageState::Sent => {
                    let words = format!("not confirmed: {why}; the agent may have the message");
                    self.refuse(call, code, words);
                }
                Some(call) => self.refuse(call, code, format!("not delivered: {why}")),
                None => self.notice(
                    id,
                    Level::Warning,
                    format!("not delivered ({why}): {}", message.text),
                ),
            }
        }
    }

    /// What a call hears that waits for the result of a task which the model has, when the run that
    /// would be its answer was not heard: that, why there is no more to hear, and where to look (R-TOOL-18).
    pub(super) fn unknown_end(&self, id: AgentId, code: ErrorCode, why: &str) -> RequestError {
        let error = RequestError::new(
            code,
            format!("the model has the task, and what came of it is not known: {why}"),
        );
        match self.agent(id).and_then(|a| a.session_path.as_ref()) {
            Some(path) => error.with_hint(format!("its session may tell: {}", path.display())),
            None => error,
        }
    }

    pub(super) fn shutdown_asked(&mut self, now: Now, call: Option<CallId>) {
        if call.is_some_and(|call| self.was_cancelled(call)) {
            return;
        }
        let calls = self.shutdown.get_or_insert_default();
        calls.extend(call);
        let ids: Vec<AgentId> = self.agents.iter().map(|a| a.id).collect();
        for id in ids {
            let live = self
                .agent(id)
                .is_some_and(|a| a.has_process() || a.status.is_live());
            if live {
                self.stop(now, id, StopCause::Shutdown, None);
            }
        }
    }

    /// Starts the stop ladder (R-LIFE-07), or joins the one that is going on.
    pub(super) fn begin_ending(
        &mut self,
        now: Now,
        id: AgentId,
        why: EndWhy,
        call: Option<CallId>,
    ) {
        let eof_grace = self.config.eof_grace;
        let Some((agent, instance)) = self.both(id) else {
            return;
        };
        let was_live = agent
            .instance
            .as_ref()
            .is_some_and(|i| i.phase != Phase::Sweeping);
        let call = call.map(|call| (call, was_live));
        match &mut agent.ending {
            Some(ending) => {
                ending.calls.extend(call);
                // The first deliberate cause stays: it decides who hears of it.
                if matches!(why, EndWhy::Stop(_)) && !matches!(ending.why, EndWhy::Stop(_)) {
                    ending.why = why;
                }
            }
            slot @ None => {
                *slot = Some(Ending {
                    why,
                    calls: call.into_iter().collect(),
                });
            }
        }
        // A stop that came first stays a stop.
        let failed = match agent.ending.as_ref().map(|e| &e.why) {
            Some(EndWhy::Failed(reason)) => Some(reason.clone()),
            _ => None,
        };
        let phase = agent.instance.as_ref().map(|i| i.phase);
        if let Some(reason) = failed {
            self.status(now, id, Status::Failed { reason });
        }
        // Its own agents end with it, all at the same time (R-ID-04).
        self.close_nested(now, id);
        match phase {
            // There is no process to end yet: `launched` does it.
            Some(Phase::Launching) | None => {}
            Some(Phase::Ending(_) | Phase::Sweeping) => {}
            Some(Phase::Handshake | Phase::CheckingModel | Phase::Live) => {
                if let Some(i) = self.instance_mut(id) {
                    i.phase = Phase::Ending(super::state::Rung::Eof);
                }
                self.disarm_all(instance);
                self.out.push(Effect::CloseStdin { instance });
                self.out.push(Effect::Arm {
                    timer: Timer::Ladder(instance),
                    after: eof_grace,
                });
            }
        }
        self.publish(id);
    }

    /// Forgets every timer of a process but the ladder's.
    pub(super) fn disarm_all(&mut self, instance: InstanceId) {
        let Some(id) = self.of_instance(instance) else {
            return;
        };
        let run = self
            .agent(id)
            .and_then(|a| a.instance.as_ref())
            .map(|i| (i.run.as_ref().map(|r| r.seq), i.inflight));
        for timer in [
            Timer::Start(instance),
            Timer::RunBegins(instance),
            Timer::AskState(instance),
            Timer::Compaction(instance),
            Timer::Abort(instance),
        ] {
            self.out.push(Effect::Disarm(timer));
        }
        if let Some((run, inflight)) = run {
            if let Some(seq) = run {
                self.out.push(Effect::Disarm(Timer::Run(instance, seq)));
            }
            if let Some(message) = inflight {
                self.out
                    .push(Effect::Disarm(Timer::Prompt(instance, message)));
            }
        }
    }
}
