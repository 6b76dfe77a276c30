//! A Pi session at the other end of a connection: its part of the protocol (`bridge`), translated to
//! and from the core's terms. Decides nothing.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::bridge::{
    Ack, Activity, Branch, Content, Contributions, Delivery, DeliveryKind, Epoch, HostFacts,
    HostState, HostWelcome, LaunchEvent, LeaveReason, Leaving, Limits, Named, NamedAgent, Offer,
    OfferMode, PiMode, Refused, Roster, Tool, ToolCall, ToolCancel, ToolList, ToolResult, method,
};
use super::protocol::{Nothing, params_of};
use super::rpc::{self, RpcError, RpcId};
use crate::client::host::{
    Contributions as Extra, HostBranch, HostCall, HostGate, HostHello, HostLink, HostNews,
    HostSays, Known, Offered, ProgressSource, ToolView,
};
use crate::client::{ErrorCode, RequestError};
use crate::fleet::completion::DeliveryId;
use crate::fleet::host as fleet;
use crate::fleet::outbox;

/// A line that is on its way to be written.
type Work = Pin<Box<dyn Future<Output = serde_json::Result<Vec<u8>>> + Send>>;

/// See the module.
pub(super) struct HostSession {
    link: Arc<dyn HostLink>,
    /// For the writer, once.
    progress: Option<Arc<dyn ProgressSource>>,
    generation: u64,
    tools: Vec<Tool>,
    max_line: usize,
    /// Questions to the bridge without an answer, by their number on the wire.
    asked: Arc<Mutex<HashSet<i64>>>,
    news: Option<AbortHandle>,
}

impl Drop for HostSession {
    fn drop(&mut self) {
        if let Some(news) = &self.news {
            news.abort();
        }
    }
}

impl HostSession {
    /// Takes a place in the core.
    pub(super) async fn join(
        gate: &dyn HostGate,
        facts: HostFacts,
        pid: Option<u32>,
        max_line: usize,
    ) -> Result<(Self, HostWelcome), RequestError> {
        let seat = gate.join(hello(facts, pid)).await?;
        let tools: Vec<Tool> = seat.tools.into_iter().map(tool).collect();
        let welcome = HostWelcome {
            id: seat.host.to_string(),
            generation: seat.generation,
            tools: tools.clone(),
            activate: false,
            limits: Limits {
                line_bytes: max_line,
            },
        };
        let session = Self {
            link: seat.link,
            progress: Some(seat.progress),
            generation: seat.generation,
            tools,
            max_line,
            asked: Arc::default(),
            news: None,
        };
        Ok((session, welcome))
    }

    /// Whether a call is one of this part.
    pub(super) fn takes(name: &str) -> bool {
        matches!(
            name,
            method::TOOLS_LIST | method::TOOLS_CALL | method::LEAVING
        )
    }

    /// Begins a call; what it gives is the answer's line.
    pub(super) fn call(
        &self,
        id: RpcId,
        name: &str,
        params: Option<&RawValue>,
    ) -> Result<Work, RpcError> {
        let link = Arc::clone(&self.link);
        let max_line = self.max_line;
        match name {
            method::TOOLS_LIST => {
                let list = ToolList {
                    tools: self.tools.clone(),
                };
                Ok(Box::pin(async move { rpc::result(&id, &list) }))
            }
            method::LEAVING => {
                let leaving: Leaving = params_of(name, params)?;
                self.current(leaving.generation)?;
                let reason = left(leaving.reason);
                Ok(Box::pin(async move {
                    link.leave(reason).await;
                    rpc::result(&id, &Nothing {})
                }))
            }
            _ => {
                let call: ToolCall = params_of(name, params)?;
                self.current(call.generation)?;
                let call = HostCall {
                    call: call.call,
                    name: call.name,
                    arguments: call.arguments,
                    env: call.env,
                    known: Known {
                        models: call.models,
                        tools: call.tools,
                    },
                };
                Ok(Box::pin(async move {
                    let answer = link.call(call).await;
                    let result = ToolResult {
                        content: vec![Content::Text {
                            text: answer.content,
                        }],
                        is_error: answer.is_error,
                        details: answer.details,
                        usage: answer.usage,
                    };
                    bounded(&id, &result, max_line)
                }))
            }
        }
    }

    fn current(&self, generation: u64) -> Result<(), RpcError> {
        if generation == self.generation {
            return Ok(());
        }
        let what = "this is not the generation of the session that is connected";
        Err(RequestError::new(ErrorCode::Gone, what).into())
    }

    /// Takes what the session says. What cannot be read is noted and ignored: nobody waits for it.
    pub(super) async fn notice(&self, name: &str, params: Option<&RawValue>) {
        match self.said(name, params) {
            Ok(Some(what)) => self.link.says(what).await,
            Ok(None) => tracing::debug!(name, "notice of an older generation, or of nobody"),
            Err(error) => tracing::warn!(name, %error, "notice of a bridge cannot be read"),
        }
    }

    fn said(&self, name: &str, params: Option<&RawValue>) -> Result<Option<HostSays>, RpcError> {
        fn read<T: DeserializeOwned>(name: &str, params: Option<&RawValue>) -> Result<T, RpcError> {
            params_of(name, params)
        }
        let (generation, what) = match name {
            method::STATE => {
                let state: HostState = read(name, params)?;
                let what = HostSays::State {
                    activity: activity(state.state),
                    model: state.model,
                    thinking: state.thinking,
                };
                (state.generation, what)
            }
            method::BRANCH => {
                let said: Branch = read(name, params)?;
                (said.generation, HostSays::Branch(branch(said.branch)))
            }
            method::TAKEN => {
                let Epoch { generation, epoch } = read(name, params)?;
                (generation, HostSays::Taken { epoch })
            }
            method::REFUSED => {
                let refused: Refused = read(name, params)?;
                let epoch = refused.epoch;
                (refused.generation, HostSays::Refused { epoch })
            }
            method::ACK => {
                let ack: Ack = read(name, params)?;
                let what = HostSays::Ack {
                    epoch: ack.epoch,
                    found: ids(&ack.found),
                    missing: ids(&ack.missing),
                    durable: ack.durable,
                };
                (ack.generation, what)
            }
            method::TOOLS_CANCEL => {
                let cancel: ToolCancel = read(name, params)?;
                (cancel.generation, HostSays::Cancel { call: cancel.call })
            }
            _ => return Ok(None),
        };
        Ok((generation == self.generation).then_some(what))
    }

    /// The connection ended, with or without a goodbye.
    pub(super) async fn lost(&self) {
        self.link.says(HostSays::Lost).await;
    }

    /// The bridge answered a question.
    pub(super) async fn answered(
        &self,
        id: Option<&RpcId>,
        outcome: Result<Option<Box<RawValue>>, RpcError>,
    ) {
        let Some(RpcId::Number(number)) = id else {
            return;
        };
        let was_asked = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.remove(number)
        };
        let (true, Ok(id)) = (was_asked, u64::try_from(*number)) else {
            return;
        };
        let answer = match outcome {
            Ok(value) => {
                let text = value.as_deref().map_or("null", RawValue::get);
                serde_json::from_str::<Contributions>(text)
                    .map(|c| Extra {
                        env: c.env,
                        extensions: c.extensions,
                    })
                    // What it held is not repeated (R-PI-04).
                    .map_err(|_| "not the answer to a launch".to_owned())
            }
            Err(_) => Err("rejected".to_owned()),
        };
        self.link.says(HostSays::Launch { id, answer }).await;
    }

    /// Where the writer asks how calls get on, once.
    pub(super) fn take_progress(&mut self) -> Option<Arc<dyn ProgressSource>> {
        self.progress.take()
    }

    /// Sends news from now on.
    pub(super) fn send_news(&mut self, lines: mpsc::Sender<Vec<u8>>) {
        let link = Arc::clone(&self.link);
        let asked = Arc::clone(&self.asked);
        let generation = self.generation;
        let task = tokio::spawn(async move {
            while let Some(news) = link.news().await {
                let line = match line_of(news, generation, &asked) {
                    Ok(line) => line,
                    Err(error) => {
                        tracing::error!(%error, "news for a bridge cannot be written");
                        continue;
                    }
                };
                if lines.send(line).await.is_err() {
                    return;
                }
            }
        });
        self.news = Some(task.abort_handle());
    }
}

/// A result as a line; one that is too long becomes one that says so.
fn bounded(id: &RpcId, result: &ToolResult, max_line: usize) -> serde_json::Result<Vec<u8>> {
    let line = rpc::result(id, result)?;
    if line.len() <= max_line.saturating_add(1) {
        return Ok(line);
    }
    let what = format!(
        "the answer has {} bytes; {max_line} are the limit",
        line.len()
    );
    let refusal = RequestError::new(ErrorCode::Internal, what);
    rpc::error(Some(id), &refusal.into())
}

fn line_of(
    news: HostNews,
    generation: u64,
    asked: &Mutex<HashSet<i64>>,
) -> serde_json::Result<Vec<u8>> {
    match news {
        HostNews::Offer {
            epoch,
            mode,
            deliveries,
        } => rpc::notice(
            method::OFFER,
            &Offer {
                generation,
                epoch,
                mode: match mode {
                    outbox::OfferMode::Boundary => OfferMode::Boundary,
                    outbox::OfferMode::Wake => OfferMode::Wake,
                    outbox::OfferMode::Silent => OfferMode::Silent,
                },
                deliveries: deliveries.into_iter().map(delivery).collect(),
            },
        ),
        HostNews::Named { agents } => rpc::notice(
            method::NAMED,
            &Named {
                generation,
                agents: agents
                    .into_iter()
                    .map(|(id, name)| NamedAgent {
                        id: id.to_string(),
                        name,
                    })
                    .collect(),
            },
        ),
        HostNews::Launch { id } => {
            let number = i64::try_from(id).unwrap_or(i64::MAX);
            let mut open = asked.lock().unwrap_or_else(PoisonError::into_inner);
            open.insert(number);
            drop(open);
            question(number, method::LAUNCH_EVENT, &LaunchEvent { generation })
        }
    }
}

fn question(id: i64, name: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    rpc::call(id, name, params)
}

fn delivery(offered: Offered) -> Delivery {
    Delivery {
        kind: match offered.id {
            DeliveryId::Completion(_) => DeliveryKind::FinalReply,
            DeliveryId::Question(_) => DeliveryKind::NonBlockingQuestion,
        },
        id: offered.id.to_string(),
        content: offered.content,
        details: offered.details,
    }
}

fn tool(view: ToolView) -> Tool {
    Tool {
        name: view.name,
        title: view.title,
        description: view.description,
        prompt_snippet: view.prompt_snippet,
        input_schema: view.input_schema,
    }
}

fn hello(facts: HostFacts, pid: Option<u32>) -> HostHello {
    HostHello {
        session: facts.session,
        cwd: facts.cwd,
        model: facts.model,
        thinking: facts.thinking,
        one_task: matches!(facts.mode, PiMode::Json | PiMode::Print),
        trusted: facts.trusted,
        activity: activity(facts.state),
        known: ids(&facts.known),
        durable: facts.durable,
        undecided: ids(&facts.undecided),
        branch: branch(facts.branch),
        env: facts.env,
        pid,
    }
}

fn branch(roster: Roster) -> HostBranch {
    let ids = |texts: Vec<String>| texts.iter().filter_map(|text| text.parse().ok()).collect();
    HostBranch {
        agents: roster.agents.map(ids),
        names: roster.names,
    }
}

/// Ids as they are in a session, where anything may stand: what is no id is nobody's.
fn ids(texts: &[String]) -> Vec<DeliveryId> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn activity(said: Activity) -> outbox::Activity {
    match said {
        Activity::Busy => outbox::Activity::Busy,
        Activity::Idle => outbox::Activity::Idle,
        Activity::Aborted => outbox::Activity::Silent,
    }
}

fn left(reason: LeaveReason) -> fleet::LeaveReason {
    match reason {
        LeaveReason::Quit => fleet::LeaveReason::Quit,
        LeaveReason::Reload => fleet::LeaveReason::Reload,
        LeaveReason::New => fleet::LeaveReason::New,
        LeaveReason::Resume => fleet::LeaveReason::Resume,
        LeaveReason::Fork => fleet::LeaveReason::Fork,
    }
}
