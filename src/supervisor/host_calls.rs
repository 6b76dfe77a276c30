//! Tool calls of Pi sessions: read, turned into inputs, answered.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::actor::Actor;
use super::progress::Origin;
use super::requests::child_env;
use super::start::Names;
use crate::client::host::{HostAnswer, HostCall};
use crate::client::{EnvText, EnvVar, ErrorCode, Reply, RequestError, SpawnRequest};
use crate::fleet::host::{Caller, Sender, SpawnMode, Stopper};
use crate::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use crate::fleet::machine::{ChildEnv, Input};
use crate::tools::call::{self, Context, ToolUse};
use crate::tools::subagents::Position;

/// Calls of a session that are remembered to be cancelled; those that are answered are dropped
/// beyond that.
const CALLS: usize = 256;

impl Actor {
    pub(super) fn host_calls(
        &mut self,
        caller: Caller,
        call: HostCall,
        reply: oneshot::Sender<HostAnswer>,
    ) {
        let max_depth = self.config.machine.max_depth;
        let call_id = CallId::fresh();
        let refuse = |error: &RequestError, reply: oneshot::Sender<HostAnswer>| {
            let _ = reply.send(carried(call::failure(error, Context::default())));
        };
        let answered = |calls: &HashMap<CallId, _>, id: &CallId| !calls.contains_key(id);
        let live = &self.calls;
        let Some(desk) = self
            .hosts
            .desks
            .get_mut(&caller.host)
            .filter(|d| d.generation == caller.generation)
        else {
            let gone =
                RequestError::new(ErrorCode::Gone, "the session that asked for this has ended");
            return refuse(&gone, reply);
        };
        if desk.calls.len() >= CALLS {
            desk.calls.retain(|_, ids| {
                ids.retain(|id| !answered(live, id));
                !ids.is_empty()
            });
        }
        let same = desk.calls.entry(call.call.clone()).or_default();
        if same.len() >= CALLS {
            same.retain(|id| !answered(live, id));
        }
        same.push(call_id);
        if !call.env.is_empty() {
            // Also for an agent that a person brings back later (R-LIFE-18).
            desk.env = child_env(&call.env);
        }
        let env = desk.env.clone();
        let one_task = desk.one_task;
        let origin = Origin::now(&call.call);
        let use_ = match call::read(Position::at(0, max_depth), &call.name, call.arguments) {
            Ok(use_) => use_,
            Err(error) => return refuse(&error, reply),
        };
        let (back, answer) = oneshot::channel();
        match use_ {
            ToolUse::Spawn(spawn) => {
                let seen = Seen {
                    label: spawn.label.clone(),
                    name: None,
                    one_task,
                    persistent: spawn.persistent,
                    origin: origin.clone(),
                };
                carry(answer, reply, seen);
                let mode = if spawn.background {
                    SpawnMode::Background
                } else {
                    SpawnMode::Foreground
                };
                let request = SpawnRequest {
                    prompt: spawn.prompt,
                    label: Some(spawn.label),
                    model: spawn.model.or_else(|| desk.model.clone()),
                    thinking: spawn.thinking.or(desk.thinking),
                    tools: spawn.tools,
                    cwd: spawn.cwd,
                    persistent: Some(spawn.persistent),
                    timeout_ms: spawn.timeout_ms,
                    env: env_vars(&env),
                };
                let folder = desk.cwd.clone();
                let names = Names {
                    known: call.known,
                    own_model: desk.model.clone(),
                };
                self.starter
                    .check_spawn(request, caller, mode, folder, names, origin, call_id, back);
            }
            ToolUse::Send { to, message } => {
                self.host_names(caller, &to, call_id, back, answer, reply, |agent| {
                    Input::Send {
                        call: call_id,
                        agent,
                        by: Sender::Parent(caller),
                        message: MessageId::fresh(),
                        instance: InstanceId::fresh(),
                        // Said in the message, so that the agent knows who speaks (R-DELIV-13).
                        text: format!("[from parent] {message}"),
                        env,
                    }
                });
            }
            ToolUse::Stop { agent } => {
                self.host_names(caller, &agent, call_id, back, answer, reply, |agent| {
                    Input::Stop {
                        call: call_id,
                        agent,
                        by: Stopper::Parent(caller),
                    }
                });
            }
        }
    }

    /// A call about an agent of this session, by its name.
    #[allow(clippy::too_many_arguments)]
    fn host_names(
        &mut self,
        caller: Caller,
        name: &str,
        call: CallId,
        back: oneshot::Sender<Result<Reply, RequestError>>,
        answer: oneshot::Receiver<Result<Reply, RequestError>>,
        reply: oneshot::Sender<HostAnswer>,
        input: impl FnOnce(AgentId) -> Input,
    ) {
        let found = self.machine.resolve_name(Some(caller.host), name);
        let view = found.as_ref().ok().and_then(|id| self.machine.view(*id));
        let seen = Seen {
            label: view
                .as_ref()
                .map(|v| v.spec.label.clone())
                .unwrap_or_default(),
            name: view.map(|v| v.name),
            one_task: false,
            persistent: true,
            origin: None,
        };
        carry(answer, reply, seen);
        match found {
            Ok(agent) => {
                self.calls.insert(call, back);
                let input = input(agent);
                self.input(input);
            }
            Err(error) => {
                let _ = back.send(Err(error));
            }
        }
    }
}

/// What is known of a call when its answer comes.
struct Seen {
    label: String,
    name: Option<String>,
    one_task: bool,
    persistent: bool,
    /// Of a call that starts an agent.
    origin: Option<Origin>,
}

/// Turns the core's answer into a tool's, when it comes.
fn carry(
    answer: oneshot::Receiver<Result<Reply, RequestError>>,
    reply: oneshot::Sender<HostAnswer>,
    seen: Seen,
) {
    tokio::spawn(async move {
        let answer = answer.await;
        let so_far = seen.origin.as_ref().and_then(Origin::so_far);
        let context = Context {
            label: &seen.label,
            name: seen.name.as_deref(),
            one_task: seen.one_task,
            persistent: seen.persistent,
            call: seen.origin.as_ref().map(|o| o.call.as_str()),
            so_far: so_far.as_ref(),
        };
        let answer = match answer {
            Ok(Ok(done)) => call::answer(&done, context),
            Ok(Err(error)) => call::failure(&error, context),
            Err(_) => call::failure(&core_gone(), context),
        };
        let _ = reply.send(carried(answer));
    });
}

pub(super) fn core_gone() -> RequestError {
    RequestError::new(ErrorCode::Gone, "the core has ended")
}

pub(super) fn carried(answer: call::Answer) -> HostAnswer {
    HostAnswer {
        content: answer.content,
        is_error: answer.is_error,
        details: answer.details,
        usage: answer.usage,
    }
}

fn env_vars(env: &ChildEnv) -> Vec<EnvVar> {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => EnvText::Text(text.to_owned()),
        Err(_) => EnvText::Bytes {
            bytes: bytes.to_vec(),
        },
    };
    env.0
        .iter()
        .map(|(name, value)| EnvVar {
            name: text(name),
            value: text(value),
        })
        .collect()
}
