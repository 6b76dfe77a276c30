//! What a child says that matters to the machine: the dozen lifecycle facts in its records.
//!
//! Owns the rule for the end of a run (R-LIFE-04, rule F1 of the compatibility study): a run is
//! open from `agent_start`, `turn_start` or the start of an assistant message to `agent_end`; an
//! `agent_settled` counts only when nothing is open and nothing is being compacted, and one that
//! comes during a compaction counts at its end. Any other one is a stray, reported as such, and the
//! state the child then gives on request decides.
//!
//! Invariant: `RunStarted` and `RunEnded` alternate. Pure: the clock is an argument.

use std::borrow::Cow;
use std::path::PathBuf;

use super::agent::StopCause;
use super::live::{MESSAGE_STATUS, dialog_view};
use super::meter::{Meter, totals};
use super::roster::{DialogView, RetryView, UsageTotals};
use super::transcript::Outcome;
use crate::pi::event::{Change, Record};
use crate::pi::message::{Assistant, Message, StopReason};
use crate::pi::response::Response;
pub use crate::pi::response::{Disposition, ModelInfo};
use crate::pi::ui_request::UiMethod;

/// Longest text kept of a message that is being streamed, in bytes (R-Q-01).
const MAX_STREAMED: usize = 8 * 1024 * 1024;

/// `get_state`, as far as the machine reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildState {
    /// Session file; named before it exists.
    pub session_path: Option<PathBuf>,
    /// Session id.
    pub session_id: Option<String>,
    /// Name of the session.
    pub session_name: Option<String>,
    /// Model in use, `provider/id`; `None` = none configured.
    pub model: Option<String>,
    /// Size of its context in tokens; 0 = unknown.
    pub context_window: u64,
    /// Thinking level in use, Pi's word.
    pub thinking: Option<String>,
    /// A run is going on, tools, dialogs and waits for a retry included.
    pub streaming: bool,
    /// The context is being compacted.
    pub compacting: bool,
    /// User messages in Pi's queue.
    pub pending: u32,
    /// Messages in the context, the system message included.
    pub messages: u32,
}

/// Data of a successful response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseData {
    /// What became of a `prompt` (R-LIFE-03).
    Disposition(Disposition),
    /// Texts that `clear_queue` took back (R-PI-07).
    Dropped(Vec<String>),
    /// `get_state`.
    State(ChildState),
    /// `get_available_models`.
    Models(Vec<ModelInfo>),
    /// `get_commands`: names without the slash.
    Commands(Vec<String>),
    /// Any other command, or data that could not be read.
    Other,
}

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunEnd {
    /// How the run's last assistant message ended; `Unknown` = there was none.
    pub stop: StopReason,
    /// What the provider or the abort said.
    pub error: Option<String>,
    /// The run was aborted, by whomever and however Pi reports it.
    pub aborted: bool,
    /// Text of the run's last assistant message, no thinking (R-TOOL-13).
    pub text: String,
    /// Tokens and money of this run.
    pub usage: UsageTotals,
    /// Tool calls of this run.
    pub tool_uses: u64,
}

impl RunEnd {
    /// The end of a run that nobody saw end.
    #[must_use]
    pub fn vanished() -> Self {
        Self {
            error: Some("the end of the run was not reported".to_owned()),
            ..Self::default()
        }
    }

    /// The outcome (R-DELIV-15). An abort is `StopCause::Child` here: only the machine knows
    /// whether somebody asked for it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if self.aborted {
            return Outcome::Stopped {
                by: StopCause::Child,
            };
        }
        let failed = |default: &str| Outcome::Failed {
            reason: one_line(self.error.as_deref().unwrap_or(default)),
        };
        match &self.stop {
            StopReason::Stop | StopReason::ToolUse => Outcome::Completed { cut: false },
            StopReason::Length => Outcome::Completed { cut: true },
            StopReason::Error => failed("the provider failed and did not say why"),
            StopReason::Aborted => Outcome::Stopped {
                by: StopCause::Child,
            },
            StopReason::Pending | StopReason::Unknown | StopReason::Other(_)
                if self.error.is_none() && !self.text.is_empty() =>
            {
                Outcome::Completed { cut: false }
            }
            StopReason::Pending | StopReason::Unknown | StopReason::Other(_) => {
                failed("the run ended without an answer")
            }
        }
    }
}

/// The first line with anything on it, bounded.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The answer to a command.
    Response {
        /// Id of the command; empty = Pi could not read the command.
        id: String,
        /// Type of the command; empty = Pi could not tell.
        command: String,
        /// Its data, or why it was refused.
        result: Result<ResponseData, String>,
    },
    /// A run began.
    RunStarted,
    /// It ended.
    RunEnded(RunEnd),
    /// An `agent_settled` that ended nothing: ask for the state.
    StraySettled,
    /// The context is being compacted: no prompt now.
    CompactionStarted,
    /// It is not any more.
    CompactionEnded,
    /// The model was given a user message (R-DELIV-11).
    UserMessage {
        /// Its text.
        text: String,
    },
    /// Pi's own queue.
    QueueChanged {
        /// Texts that go out after the present tools.
        steering: Vec<String>,
        /// Texts that go out after the present answer.
        follow_up: Vec<String>,
    },
    /// An extension waits for an answer.
    DialogOpened(DialogView),
    /// A wait before another attempt begins.
    Retrying(RetryView),
    /// The attempts are over.
    RetryOver,
    /// The output ended in the middle of a run: what there is of it.
    Unfinished(RunEnd),
    /// The agent has a message for whoever started it (R-DELIV-10).
    ToParent {
        /// Its text.
        text: String,
    },
    /// An extension failed.
    ExtensionFailed {
        /// Where and how, one line.
        error: String,
    },
}

/// The run that is going on.
#[derive(Debug, Default)]
struct Run {
    stop: StopReason,
    error: Option<String>,
    aborted: bool,
    text: String,
    usage: UsageTotals,
    tool_uses: u64,
    /// Calls that are running, so that a repeated record counts once.
    calls: Vec<String>,
    /// Text of the message that is being streamed, should its end be lost (R-Q-01).
    streamed: String,
    /// An assistant message began and has not ended.
    in_message: bool,
    /// Pi said that it will try again: what comes next is another attempt.
    will_retry: bool,
    /// The pause before that attempt: Pi ends it with a record of its own before it settles, so a
    /// settlement within it belongs to something else (case B004).
    pausing: bool,
}

/// Reads one child's records, in order. One per process.
#[derive(Debug, Default)]
pub struct Interpreter {
    open: bool,
    compacting: bool,
    /// An `agent_settled` came during a compaction; with its flag.
    settled: Option<Option<bool>>,
    run: Option<Run>,
    meter: Meter,
    /// The user message whose end has not come yet.
    user: Option<(i64, String)>,
}

impl Interpreter {
    /// For a fresh process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True between `RunStarted` and `RunEnded`.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// The process is gone: what there is of a run that has not ended. Its `stop` is of no account.
    pub fn process_gone(&mut self) -> Option<RunEnd> {
        let end = self.take_run(None);
        *self = Self::default();
        end
    }

    /// Takes a record and adds the facts in it. `at_ms` is the wall clock, Unix milliseconds.
    pub fn feed(&mut self, record: &Record<'_>, at_ms: i64, out: &mut Vec<Fact>) {
        match record {
            Record::MessageUpdate(update) => {
                if let (Some(run), Change::TextDelta(delta)) = (&mut self.run, &update.change)
                    && run.streamed.len() + delta.len() <= MAX_STREAMED
                {
                    run.streamed.push_str(delta);
                }
            }
            Record::ToolStart(tool) => {
                if let Some(run) = &mut self.run
                    && !run.calls.iter().any(|id| *id == tool.call_id)
                {
                    run.calls.push(tool.call_id.to_string());
                    run.tool_uses += 1;
                }
            }
            Record::ToolEnd(tool) => {
                if let Some(run) = &mut self.run {
                    run.calls.retain(|id| *id != tool.call_id);
                }
            }
            Record::AgentStart | Record::TurnStart => self.begin(out),
            Record::AgentEnd { will_retry } => {
                self.open = false;
                if let Some(run) = &mut self.run {
                    run.close_message();
                    run.will_retry = *will_retry;
                    run.pausing = *will_retry;
                }
            }
            Record::AgentSettled { aborted } => self.settle(*aborted, out),
            Record::MessageStart(message) => self.message_start(message, out),
            Record::MessageEnd(message) => self.message_end(message),
            Record::CompactionStart { .. } => {
                self.compacting = true;
                out.push(Fact::CompactionStarted);
            }
            Record::CompactionEnd(end) => {
                // A repeated end costs nothing again (case B016).
                let was = std::mem::replace(&mut self.compacting, false);
                if let Some(run) = self.run.as_mut().filter(|_| was) {
                    run.usage.add(&totals(&end.usage));
                }
                out.push(Fact::CompactionEnded);
                if let Some(aborted) = self.settled.take() {
                    self.settle(aborted, out);
                }
            }
            Record::QueueUpdate(queue) => out.push(Fact::QueueChanged {
                steering: owned(&queue.steering),
                follow_up: owned(&queue.follow_up),
            }),
            Record::UiRequest(request) => {
                if let UiMethod::SetStatus {
                    key,
                    text: Some(text),
                } = &request.method
                    && key == MESSAGE_STATUS
                    && !text.is_empty()
                {
                    out.push(Fact::ToParent {
                        text: message_of(text),
                    });
                }
                out.extend(dialog_view(request, at_ms).map(Fact::DialogOpened));
            }
            Record::AutoRetryStart(retry) => out.push(Fact::Retrying(RetryView {
                attempt: retry.attempt,
                max: retry.max_attempts,
                delay_ms: retry.delay_ms,
                since_ms: at_ms,
                error: retry.error_message.clone().into_owned(),
            })),
            Record::AutoRetryEnd(_) => {
                if let Some(run) = &mut self.run {
                    run.pausing = false;
                }
                out.push(Fact::RetryOver);
            }
            Record::ExtensionError(error) => out.push(Fact::ExtensionFailed {
                error: one_line(&format!("{}: {}", error.path, error.error)),
            }),
            Record::Response(response) => self.response(response, out),
            Record::TurnEnd
            | Record::ToolUpdate(_)
            | Record::EntryAppended(_)
            | Record::SessionInfoChanged { .. }
            | Record::ThinkingLevelChanged { .. }
            | Record::BashExecutionUpdate { .. }
            | Record::Unknown { .. } => {}
        }
    }

    /// Something opens the loop: a new run, or more of the one that is going on (R-LIFE-14).
    fn begin(&mut self, out: &mut Vec<Fact>) {
        self.open = true;
        self.settled = None;
        match &mut self.run {
            None => {
                self.run = Some(Run::default());
                out.push(Fact::RunStarted);
            }
            Some(run) if run.will_retry => run.new_attempt(),
            Some(_) => {}
        }
    }

    fn settle(&mut self, aborted: Option<bool>, out: &mut Vec<Fact>) {
        let pausing = self.run.as_ref().is_some_and(|run| run.pausing);
        if self.open || pausing && aborted != Some(true) {
            out.push(Fact::StraySettled);
        } else if self.compacting {
            self.settled = Some(aborted);
        } else {
            out.push(
                self.take_run(aborted)
                    .map_or(Fact::StraySettled, Fact::RunEnded),
            );
        }
    }

    fn take_run(&mut self, aborted: Option<bool>) -> Option<RunEnd> {
        let mut run = self.run.take()?;
        run.close_message();
        self.open = false;
        self.settled = None;
        Some(RunEnd {
            stop: run.stop,
            error: run.error,
            aborted: run.aborted || aborted == Some(true),
            text: run.text,
            usage: run.usage,
            tool_uses: run.tool_uses,
        })
    }

    fn message_start(&mut self, message: &Message<'_>, out: &mut Vec<Fact>) {
        match message {
            Message::Assistant(_) => {
                self.begin(out);
                self.meter.begin();
                if let Some(run) = &mut self.run {
                    run.close_message();
                    run.in_message = true;
                }
            }
            Message::User { content, timestamp } => {
                let repeated = self
                    .user
                    .as_ref()
                    .is_some_and(|(at, text)| at == timestamp && *text == content.text);
                if !repeated {
                    let text = content.text.clone().into_owned();
                    self.user = Some((*timestamp, text.clone()));
                    out.push(Fact::UserMessage { text });
                }
            }
            _ => {}
        }
    }

    fn message_end(&mut self, message: &Message<'_>) {
        match message {
            Message::Assistant(message) => {
                let usage = self.meter.end(message);
                if let Some(run) = &mut self.run {
                    run.message_end(message);
                    if let Some(usage) = usage {
                        run.usage.add(&usage);
                    }
                }
            }
            Message::User { .. } => self.user = None,
            _ => {}
        }
    }

    fn response(&mut self, response: &Response<'_>, out: &mut Vec<Fact>) {
        let result = if response.success {
            Ok(match &*response.command {
                "prompt" => ResponseData::Disposition(response.disposition()),
                "clear_queue" => ResponseData::Dropped(response.dropped()),
                "get_state" => child_state(response).map_or(ResponseData::Other, |state| {
                    // A child that says it is idle is idle: an end that was refused as a stray, or
                    // lost, is made good here (rule F1).
                    if !state.streaming && !state.compacting {
                        self.compacting = false;
                        out.extend(self.take_run(None).map(Fact::RunEnded));
                    }
                    ResponseData::State(state)
                }),
                "get_available_models" => ResponseData::Models(response.models()),
                "get_commands" => response
                    .commands()
                    .map_or(ResponseData::Other, ResponseData::Commands),
                "new_session" | "switch_session" | "fork" | "clone" => {
                    if !response.cancelled() {
                        self.compacting = false;
                        out.extend(self.take_run(Some(true)).map(Fact::RunEnded));
                        self.open = false;
                    }
                    ResponseData::Other
                }
                _ => ResponseData::Other,
            })
        } else {
            let error = response.error.as_deref().unwrap_or("refused");
            Err(error.to_owned())
        };
        out.push(Fact::Response {
            id: response.id.as_deref().unwrap_or_default().to_owned(),
            command: response.command.clone().into_owned(),
            result,
        });
    }
}

impl Run {
    /// Pi asks the provider again: nothing of the failed attempt is the run's answer.
    fn new_attempt(&mut self) {
        self.will_retry = false;
        self.pausing = false;
        self.stop = StopReason::Unknown;
        self.error = None;
        self.aborted = false;
        self.text.clear();
    }

    fn message_end(&mut self, message: &Assistant<'_>) {
        self.in_message = false;
        let streamed = std::mem::take(&mut self.streamed);
        let text = if message.whole {
            message.text()
        } else {
            streamed
        };
        let aborted = message.is_aborted();
        // An abort or error often ends in an empty message of its own; what the model had said
        // before is then the partial text of this run.
        if !text.is_empty() || !(aborted || message.stop == StopReason::Error) {
            self.text = text;
        }
        self.stop = message.stop.clone();
        self.error = message.error.as_deref().map(str::to_owned);
        self.aborted = aborted;
    }

    /// The end of a message was lost: what was streamed of it is its text (R-Q-01).
    fn close_message(&mut self) {
        let streamed = std::mem::take(&mut self.streamed);
        if std::mem::take(&mut self.in_message) {
            self.text = streamed;
            self.stop = StopReason::Unknown;
            self.error = None;
            self.aborted = false;
        }
    }
}

/// The message in a status entry: that of the bridge's envelope, or the text as it is.
fn message_of(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope {
        message: String,
    }
    serde_json::from_str::<Envelope>(text).map_or_else(|_| text.to_owned(), |e| e.message)
}

fn owned(texts: &[Cow<'_, str>]) -> Vec<String> {
    texts.iter().map(|text| text.clone().into_owned()).collect()
}

fn child_state(response: &Response<'_>) -> Option<ChildState> {
    let state = response.state()?;
    Some(ChildState {
        session_path: state.session_file,
        session_id: state.session_id,
        session_name: state.session_name,
        context_window: state.model.as_ref().map_or(0, |m| m.context_window),
        model: state.model.map(|m| m.full_id()),
        thinking: state.thinking,
        streaming: state.streaming,
        compacting: state.compacting,
        pending: state.pending,
        messages: state.messages,
    })
}
