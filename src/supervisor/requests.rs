//! What a person or a shell asks: names are resolved, and the rest is the machine's.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::actor::{Actor, wall_ms};
use super::answers;
use super::handle::Ask;
use super::start::Names;
use crate::client::{AgentRef, Env, EnvText, ErrorCode, Reply, Request, RequestError};
use crate::fleet::host::{CONTINUE, Caller, Sender, SpawnMode, Stopper};
use crate::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use crate::fleet::machine::{ChildEnv, Input};
use crate::fleet::roster::DialogAnswer;

impl Actor {
    pub(super) fn ask(&mut self, ask: Ask) {
        let (request, reply) = match ask {
            Ask::Request { request, reply } => (request, reply),
            Ask::Host(ask) => return self.host_ask(ask),
        };
        let call = CallId::fresh();
        match request {
            Request::Spawn(spawn) => {
                // Everything that needs the disk is checked before the machine hears of it
                // (R-TOOL-07), away from this task.
                let by = Caller {
                    host: self.config.host,
                    generation: 1,
                };
                let folder = self.config.folder.clone();
                let mode = SpawnMode::Background;
                self.starter.check_spawn(
                    spawn,
                    by,
                    mode,
                    folder,
                    Names::default(),
                    None,
                    call,
                    reply,
                );
            }
            Request::Send { agent, text, env } => {
                self.message(agent, Sender::User, text, &env, call, reply);
            }
            Request::Continue { agent, text, env } => {
                let text = text.unwrap_or_else(|| CONTINUE.to_owned());
                self.message(agent, Sender::Continue, text, &env, call, reply);
            }
            Request::Stop { agent } => {
                self.named(agent, call, reply, |agent| Input::Stop {
                    call,
                    agent,
                    by: Stopper::User,
                });
            }
            Request::Abort { agent } => {
                self.named(agent, call, reply, |agent| Input::Abort { call, agent });
            }
            Request::Answer {
                agent,
                dialog,
                answer,
            } => {
                let result = self
                    .resolve(&agent)
                    .and_then(|id| self.answer_dialog(id, &dialog, answer));
                let _ = reply.send(result);
            }
            Request::Explain { agent } => {
                let result = self.explain(&agent);
                let _ = reply.send(result);
            }
            Request::Shutdown => {
                self.calls.insert(call, reply);
                self.input(Input::Shutdown { call: Some(call) });
            }
            Request::Watch { .. } | Request::Resync | Request::Snapshot => {
                let _ = reply.send(Err(RequestError::new(
                    ErrorCode::Internal,
                    "a viewer's own request reached the supervisor",
                )));
            }
        }
    }

    /// A person's message.
    fn message(
        &mut self,
        agent: AgentRef,
        by: Sender,
        text: String,
        env: &Env,
        call: CallId,
        reply: oneshot::Sender<Result<Reply, RequestError>>,
    ) {
        // An agent of a Pi session gets that session's environment, whoever brings it back
        // (R-LIFE-18).
        let env = self
            .resolve(&agent)
            .ok()
            .and_then(|id| self.machine.view(id))
            .and_then(|view| self.hosts.env_of(view.host))
            .unwrap_or_else(|| child_env(env));
        self.named(agent, call, reply, |agent| Input::Send {
            call,
            agent,
            by,
            message: MessageId::fresh(),
            instance: InstanceId::fresh(),
            text,
            env,
        });
    }

    pub(super) fn resolve(&self, agent: &AgentRef) -> Result<AgentId, RequestError> {
        match agent {
            AgentRef::Name(name) => self.machine.resolve_name(None, name),
            AgentRef::Id(id) if self.machine.knows(*id) => Ok(*id),
            AgentRef::Id(_) => Err(RequestError::new(ErrorCode::NotFound, "no such agent")),
        }
    }

    pub(super) fn named(
        &mut self,
        agent: AgentRef,
        call: CallId,
        reply: oneshot::Sender<Result<Reply, RequestError>>,
        input: impl FnOnce(AgentId) -> Input,
    ) {
        match self.resolve(&agent) {
            Ok(id) => {
                self.calls.insert(call, reply);
                let input = input(id);
                self.input(input);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    pub(super) fn answer_dialog(
        &mut self,
        agent: AgentId,
        dialog: &str,
        answer: DialogAnswer,
    ) -> Result<Reply, RequestError> {
        let not_open =
            || RequestError::new(ErrorCode::NotFound, "that dialog is not open any more");
        let side = self.sides.get(&agent).ok_or_else(not_open)?;
        let child = self
            .children
            .values()
            .find(|(id, _)| *id == agent)
            .map(|(_, child)| child)
            .ok_or_else(not_open)?;
        let line = {
            let mut inner = side.live.lock();
            let kind = inner
                .live
                .dialogs
                .iter()
                .find(|d| d.id == dialog)
                .map(|d| d.kind.clone())
                .ok_or_else(not_open)?;
            let line = answers::line(dialog, &kind, answer)?;
            inner.live.answered(dialog);
            line
        };
        side.live.touch();
        self.shared.ring();
        if child.write(line) {
            Ok(Reply::Done)
        } else {
            Err(RequestError::new(
                ErrorCode::Gone,
                "the agent reads no more",
            ))
        }
    }

    /// What led to the state an agent shows.
    pub(super) fn explain(&mut self, agent: &AgentRef) -> Result<Reply, RequestError> {
        let gone = || RequestError::new(ErrorCode::NotFound, "no such agent");
        let agent = self.resolve(agent)?;
        let view = self.machine.view(agent);
        let mut view = view.ok_or_else(gone)?;
        self.live(agent).lock().overlay(&mut view);
        let hosted = view.host != self.config.host;
        let mut explanation = self.history.explain(view, wall_ms(), self.started_ms);
        explanation.hosted = hosted;
        Ok(Reply::Explained {
            explanation: Box::new(explanation),
        })
    }
}

/// The asker's environment as bytes.
pub(super) fn child_env(env: &Env) -> ChildEnv {
    let bytes = |text: &EnvText| match text {
        EnvText::Text(text) => text.clone().into_bytes(),
        EnvText::Bytes { bytes } => bytes.clone(),
    };
    ChildEnv(Arc::new(
        env.iter()
            .map(|v| (bytes(&v.name), bytes(&v.value)))
            .collect(),
    ))
}
