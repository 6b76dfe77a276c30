//! The live part of an agent's row, derived from its child's records: what it is doing, tokens and
//! money, context, retry, dialogs, statuses. Pure: the clock is an argument.
//!
//! Usage, tool count and context outlive a process; everything else belongs to it.

use std::collections::VecDeque;

use super::interpret::one_line;
use super::meter::{Meter, totals};
use super::roster::{AgentView, ContextUse, DialogKind, DialogView, RetryView, UsageTotals};
pub use super::tool_line::tool_line;
use super::tool_line::{MAX_LINE, cut_line};
use crate::pi::event::{Change, MessageUpdate, Record};
use crate::pi::message::{Assistant, Message};
use crate::pi::response::{ModelInfo, Response};
use crate::pi::ui_request::{UiMethod, UiRequest};

/// The status entry that carries messages between agents: never shown (R-PI-16).
pub const MESSAGE_STATUS: &str = "pi-subagent-msg";
/// Most dialogs and statuses kept per child: a broken extension must not fill the memory (R-Q-01).
const MAX_OPEN: usize = 64;

/// Live parts of one agent's row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Model in use, `provider/id`.
    pub model: Option<String>,
    /// Thinking level in use, Pi's word.
    pub thinking: Option<String>,
    /// Name of the session.
    pub session_name: Option<String>,
    /// What it is doing, one line.
    pub activity: Option<String>,
    /// Sums over all runs.
    pub usage: UsageTotals,
    /// Context fill.
    pub context: Option<ContextUse>,
    /// Tool calls started so far.
    pub tool_uses: u64,
    /// Waiting for another attempt.
    pub retry: Option<RetryView>,
    /// The context is being compacted.
    pub compacting: bool,
    /// Open dialogs, oldest first.
    pub dialogs: Vec<DialogView>,
    /// Status entries by key, oldest first.
    pub statuses: Vec<(String, String)>,
    track: Track,
}

/// What is needed to derive the rest.
#[derive(Clone, Debug, Default)]
struct Track {
    meter: Meter,
    window: u64,
    /// Running tools and their lines, oldest first.
    tools: Vec<(String, String)>,
    /// First line of the text that is being streamed.
    line: String,
    /// That line is complete.
    line_done: bool,
    /// A run is going on, and its loop has not ended.
    in_run: bool,
    open: bool,
    /// Dialogs of this run: an abort closes them without a word (pi-facts §3).
    asked: Vec<String>,
    /// The latest that were answered: a repeated request does not ask again.
    closed: VecDeque<String>,
}

/// Not part of what a viewer sees.
impl PartialEq for Track {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Live {
    /// Of an agent that has said nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a record. `true` = the row looks different now.
    pub fn feed(&mut self, record: &Record<'_>, at_ms: i64) -> bool {
        match record {
            Record::MessageUpdate(update) => self.update(update),
            Record::ToolUpdate(_)
            | Record::TurnStart
            | Record::TurnEnd
            | Record::QueueUpdate(_)
            | Record::EntryAppended(_)
            | Record::ExtensionError(_)
            | Record::BashExecutionUpdate { .. }
            | Record::Unknown { .. } => false,
            Record::AgentStart => {
                if !self.track.in_run {
                    self.track.asked.clear();
                }
                self.track.in_run = true;
                self.track.open = true;
                self.retry.take().is_some()
            }
            Record::AgentEnd { .. } => {
                self.track.open = false;
                self.track.tools.clear();
                false
            }
            Record::AgentSettled { aborted } => self.settled(*aborted == Some(true)),
            Record::MessageStart(Message::Assistant(message)) => {
                self.track.meter.begin();
                self.begin_line();
                let model = full_id(message);
                let changed = model.is_some() && self.model != model;
                if changed {
                    self.model = model;
                }
                changed
            }
            Record::MessageStart(_) => false,
            Record::MessageEnd(Message::Assistant(message)) => self.message_end(message),
            Record::MessageEnd(_) => false,
            Record::ToolStart(tool) => {
                let line = tool_line(&tool.name, &tool.args);
                let tools = &mut self.track.tools;
                if !tools.iter().any(|(id, _)| *id == tool.call_id) {
                    tools.push((tool.call_id.to_string(), line.clone()));
                    self.tool_uses += 1;
                }
                self.activity = Some(line);
                true
            }
            Record::ToolEnd(tool) => {
                self.track.tools.retain(|(id, _)| *id != tool.call_id);
                match self.track.tools.last() {
                    Some((_, line)) => {
                        let line = line.clone();
                        self.say(&line)
                    }
                    None => false,
                }
            }
            Record::AutoRetryStart(retry) => {
                self.retry = Some(RetryView {
                    attempt: retry.attempt,
                    max: retry.max_attempts,
                    delay_ms: retry.delay_ms,
                    since_ms: at_ms,
                    error: one_line(&retry.error_message),
                });
                self.activity = Some(format!("retrying {}/{}", retry.attempt, retry.max_attempts));
                true
            }
            Record::AutoRetryEnd(_) => self.retry.take().is_some(),
            Record::CompactionStart { .. } => {
                self.compacting = true;
                self.activity = Some("compacting…".to_owned());
                true
            }
            Record::CompactionEnd(end) => {
                self.activity = None;
                // A repeated end costs nothing again (case B016).
                if std::mem::replace(&mut self.compacting, false) {
                    self.usage.add(&totals(&end.usage));
                }
                if let Some((_, after)) = end.tokens {
                    self.context = Some(ContextUse {
                        tokens: after,
                        window: self.track.window,
                    });
                }
                true
            }
            Record::SessionInfoChanged { name } => {
                let name = name.as_deref().map(str::to_owned);
                let changed = self.session_name != name;
                self.session_name = name;
                changed
            }
            Record::ThinkingLevelChanged { level } => {
                let changed = self.thinking.as_deref() != Some(level);
                self.thinking = Some(level.clone().into_owned());
                changed
            }
            Record::UiRequest(request) => self.ui_request(request, at_ms),
            Record::Response(response) => self.response(response),
        }
    }

    /// A dialog was answered, by whomever. `true` = it was open.
    pub fn answered(&mut self, dialog: &str) -> bool {
        let before = self.dialogs.len();
        self.dialogs.retain(|d| d.id != dialog);
        let was_open = before != self.dialogs.len();
        if was_open {
            self.track.closed.push_back(dialog.to_owned());
            if self.track.closed.len() > MAX_OPEN {
                self.track.closed.pop_front();
            }
        }
        was_open
    }

    /// An aborted run closes the dialogs it opened. Others stay: what a command or a timer of an
    /// extension asks outlives the run, and only an answer ends it (case B014).
    fn settled(&mut self, aborted: bool) -> bool {
        let track = &mut self.track;
        if track.open {
            return false;
        }
        track.in_run = false;
        let asked = std::mem::take(&mut track.asked);
        let before = self.dialogs.len();
        if aborted {
            self.dialogs.retain(|d| !asked.contains(&d.id));
        }
        before != self.dialogs.len()
    }

    /// Drops dialogs whose time is over: Pi sends no record for that (pi-facts §3).
    /// `true` = there were some.
    pub fn expire(&mut self, now_ms: i64) -> bool {
        let before = self.dialogs.len();
        self.dialogs
            .retain(|d| closes_at(d).is_none_or(|at| at > now_ms));
        before != self.dialogs.len()
    }

    /// When `expire` is due next, Unix milliseconds.
    #[must_use]
    pub fn next_expiry(&self) -> Option<i64> {
        self.dialogs.iter().filter_map(closes_at).min()
    }

    /// The run ended (`Fact::RunEnded`): nothing of it is going on any more.
    pub fn run_ended(&mut self) {
        self.activity = None;
        self.retry = None;
        self.track.tools.clear();
        self.begin_line();
    }

    /// The process is gone: only what outlives it stays.
    pub fn process_gone(&mut self) {
        self.run_ended();
        self.compacting = false;
        self.dialogs.clear();
        self.statuses.clear();
        self.track.in_run = false;
        self.track.open = false;
        self.track.asked.clear();
        self.track.closed.clear();
        self.track.meter = Meter::default();
    }

    /// Copies the live parts into a viewer's row.
    pub fn show(&self, view: &mut AgentView) {
        view.model.clone_from(&self.model);
        view.thinking.clone_from(&self.thinking);
        view.activity.clone_from(&self.activity);
        view.usage = self.usage;
        view.context = self.context;
        view.tool_uses = self.tool_uses;
        view.retry.clone_from(&self.retry);
        view.compacting = self.compacting;
        view.dialogs.clone_from(&self.dialogs);
        view.statuses.clone_from(&self.statuses);
    }

    fn say(&mut self, line: &str) -> bool {
        if self.activity.as_deref() == Some(line) {
            return false;
        }
        self.activity = Some(line.to_owned());
        true
    }

    fn begin_line(&mut self) {
        self.track.line.clear();
        self.track.line_done = false;
    }

    fn update(&mut self, update: &MessageUpdate<'_>) -> bool {
        match &update.change {
            Change::TextDelta(delta) => self.text(delta),
            Change::ThinkingStart | Change::ThinkingDelta(_) => self.say("thinking…"),
            Change::ToolCallStart { name, .. } if !name.is_empty() => {
                self.say(&cut_line(&format!("{name}…")))
            }
            Change::TextStart => {
                self.begin_line();
                false
            }
            _ => false,
        }
    }

    fn text(&mut self, delta: &str) -> bool {
        let track = &mut self.track;
        if track.line_done {
            return false;
        }
        let delta = if track.line.is_empty() {
            delta.trim_start()
        } else {
            delta
        };
        let (line, ended) = match delta.split_once(['\n', '\r']) {
            Some((line, _)) => (line, true),
            None => (delta, false),
        };
        track.line.push_str(line);
        track.line_done = ended || track.line.len() >= MAX_LINE * 4;
        if line.is_empty() {
            return false;
        }
        self.activity = Some(cut_line(&self.track.line));
        true
    }

    fn message_end(&mut self, message: &Assistant<'_>) -> bool {
        let Some(usage) = self.track.meter.end(message) else {
            return false;
        };
        self.usage.add(&usage);
        if !message.usage.is_zero() {
            self.context = Some(ContextUse {
                tokens: message.usage.context_tokens(),
                window: self.track.window,
            });
        }
        true
    }

    fn ui_request(&mut self, request: &UiRequest<'_>, at_ms: i64) -> bool {
        if let UiMethod::SetStatus { key, text } = &request.method {
            return self.status(key, text.as_deref());
        }
        let Some(dialog) = dialog_view(request, at_ms) else {
            return false;
        };
        let known = self.dialogs.iter().any(|d| d.id == dialog.id)
            || self.track.closed.contains(&dialog.id);
        if known || self.dialogs.len() >= MAX_OPEN {
            return false;
        }
        if self.track.in_run {
            self.track.asked.push(dialog.id.clone());
        }
        self.dialogs.push(dialog);
        true
    }

    fn status(&mut self, key: &str, text: Option<&str>) -> bool {
        if key == MESSAGE_STATUS {
            return false;
        }
        let at = self.statuses.iter().position(|(k, _)| k == key);
        match (at, text.filter(|t| !t.is_empty())) {
            (Some(at), None) => {
                self.statuses.remove(at);
                true
            }
            (None, None) => false,
            (Some(at), Some(text)) => match self.statuses.get_mut(at) {
                Some((_, have)) if have != text => {
                    text.clone_into(have);
                    true
                }
                _ => false,
            },
            (None, Some(text)) => {
                let fits = self.statuses.len() < MAX_OPEN;
                if fits {
                    self.statuses.push((key.to_owned(), text.to_owned()));
                }
                fits
            }
        }
    }

    fn response(&mut self, response: &Response<'_>) -> bool {
        if !response.success {
            return false;
        }
        match &*response.command {
            "get_state" => {
                let Some(state) = response.state() else {
                    return false;
                };
                self.model_is(state.model);
                if state.thinking.is_some() {
                    self.thinking = state.thinking;
                }
                self.session_name = state.session_name;
                true
            }
            "set_model" => {
                self.model_is(response.model());
                true
            }
            "get_session_stats" => {
                let Some(stats) = response.stats() else {
                    return false;
                };
                if stats.context_window > 0 {
                    self.track.window = stats.context_window;
                }
                if let Some(tokens) = stats.context_tokens {
                    self.context = Some(ContextUse {
                        tokens,
                        window: self.track.window,
                    });
                }
                true
            }
            _ => false,
        }
    }

    fn model_is(&mut self, model: Option<ModelInfo>) {
        if let Some(model) = model {
            self.model = Some(model.full_id());
            self.track.window = model.context_window;
            if let Some(context) = &mut self.context {
                context.window = model.context_window;
            }
        }
    }
}

fn closes_at(dialog: &DialogView) -> Option<i64> {
    let after = i64::try_from(dialog.timeout_ms?).unwrap_or(i64::MAX);
    Some(dialog.since_ms.saturating_add(after))
}

fn full_id(message: &Assistant<'_>) -> Option<String> {
    (!message.model.is_empty() && !message.provider.is_empty())
        .then(|| format!("{}/{}", message.provider, message.model))
}

/// The dialog in a request that waits for an answer.
#[must_use]
pub fn dialog_view(request: &UiRequest<'_>, at_ms: i64) -> Option<DialogView> {
    let own = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let (title, kind) = match &request.method {
        UiMethod::Select { title, options } => (
            title,
            DialogKind::Select {
                options: options.iter().map(|o| o.clone().into_owned()).collect(),
            },
        ),
        UiMethod::Confirm { title, message } => (
            title,
            DialogKind::Confirm {
                message: message.clone().into_owned(),
            },
        ),
        UiMethod::Input { title, placeholder } => (
            title,
            DialogKind::Input {
                placeholder: own(placeholder),
            },
        ),
        UiMethod::Editor { title, prefill } => (
            title,
            DialogKind::Editor {
                prefill: own(prefill),
            },
        ),
        UiMethod::Notify { .. }
        | UiMethod::SetStatus { .. }
        | UiMethod::SetWidget { .. }
        | UiMethod::SetTitle { .. }
        | UiMethod::SetEditorText { .. }
        | UiMethod::Other { .. } => return None,
    };
    Some(DialogView {
        id: request.id.clone().into_owned(),
        title: title.clone().into_owned(),
        kind,
        since_ms: at_ms,
        timeout_ms: request.timeout_ms,
    })
}
