//! Builds a transcript out of a child's records.
//!
//! Owns which record becomes which entry. Streamed text is appended as it comes, by block: several
//! can be open at once. The end of a message is authoritative and repairs what was streamed; when
//! it was too long to keep, the streamed text stays (R-Q-01).
//!
//! Invariant: repeated, late and unknown records change nothing (case B016); nothing in an entry is
//! unbounded.

use std::collections::HashMap;

use super::cut;
use super::edit::{
    MAX_TEXT, is_open, lose, notice, preparing, push_custom, push_news, push_notice, settle_text,
    update_tool,
};
use super::entry::{EntryKind, Level, Outcome, ToolState};
use super::log::TranscriptLog;
use crate::pi::event::{
    AutoRetryEnd, AutoRetryStart, Change, CompactionEnd, MessageUpdate, Record, ToolEnd, ToolStart,
    ToolUpdate,
};
use crate::pi::message::{Assistant, Block, Message, StopReason, ToolCall};
use crate::pi::ui_request::{UiMethod, UiRequest};

/// Sort of a streamed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Text,
    Thinking,
    Tool,
}

/// A block of the assistant message that is being streamed.
#[derive(Clone, Copy, Debug)]
struct Streamed {
    index: u32,
    sort: Sort,
    seq: u64,
    bytes: usize,
}

/// Turns records into entries. One per agent; `run_ended` closes what a process left open.
#[derive(Debug, Default)]
pub struct Reducer {
    /// Blocks of the message that is being streamed, in the order they began.
    blocks: Vec<Streamed>,
    /// Pi's time of that message.
    message: Option<i64>,
    /// Pi's time of the message that ended last, to know a repetition.
    ended: Option<i64>,
    /// Entries of this run's tool calls.
    tools: HashMap<String, u64>,
    /// The user message whose end has not come yet.
    user: Option<(i64, String)>,
    /// The message of an extension or of a shell command whose end has not come yet.
    other: Option<(String, String)>,
    /// Ids of the latest entry and the latest request of an extension, to know a repetition.
    entry: String,
    request: String,
    /// A provider error that no notice has told yet.
    error: Option<String>,
    /// The notice of a compaction that is going on.
    compaction: Option<u64>,
}

impl Reducer {
    /// For an empty transcript, or one whose last run has ended.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a record. `at_ms` is the wall clock, Unix milliseconds.
    pub fn feed(&mut self, log: &mut TranscriptLog, record: &Record<'_>, at_ms: i64) {
        match record {
            Record::MessageUpdate(update) => self.update(log, update, at_ms),
            Record::ToolUpdate(tool) => self.tool_update(log, tool),
            Record::MessageStart(message) => self.message_start(log, message, at_ms),
            Record::MessageEnd(message) => self.message_end(log, message, at_ms),
            Record::ToolStart(tool) => self.tool_start(log, tool, at_ms),
            Record::ToolEnd(tool) => self.tool_end(log, tool, at_ms),
            Record::AutoRetryStart(retry) => self.retry(log, retry, at_ms),
            Record::AutoRetryEnd(end) => Self::retry_over(log, end, at_ms),
            // A second one while the first goes on is a repetition.
            Record::CompactionStart { .. } if self.compaction.is_some() => {}
            Record::CompactionStart { reason } => {
                self.tell_error(log, at_ms);
                let text = format!("compacting the context ({reason})");
                self.compaction = Some(log.push(at_ms, notice(Level::Info, text)));
            }
            Record::CompactionEnd(end) => self.compacted(log, end, at_ms),
            Record::AgentStart => self.tell_error(log, at_ms),
            Record::EntryAppended(entry) => {
                let repeated = !entry.id.is_empty() && self.entry == entry.id;
                self.entry.clear();
                self.entry.push_str(&entry.id);
                if entry.kind == "custom_message" && entry.display && !repeated {
                    push_custom(log, &entry.custom_type, &entry.content.text, at_ms);
                }
            }
            Record::ExtensionError(error) => {
                let text = format!(
                    "extension {} failed in {}: {}",
                    error.path, error.event, error.error
                );
                push_news(log, Level::Error, &text, at_ms);
            }
            Record::UiRequest(request) if self.request == request.id => {}
            Record::UiRequest(request) => self.ui_request(log, request, at_ms),
            Record::Response(_)
            | Record::TurnStart
            | Record::TurnEnd
            | Record::AgentEnd { .. }
            | Record::AgentSettled { .. }
            | Record::QueueUpdate(_)
            | Record::SessionInfoChanged { .. }
            | Record::ThinkingLevelChanged { .. }
            | Record::BashExecutionUpdate { .. }
            | Record::Unknown { .. } => {}
        }
    }

    fn ui_request(&mut self, log: &mut TranscriptLog, request: &UiRequest<'_>, at_ms: i64) {
        self.request.clear();
        self.request.push_str(&request.id);
        match &request.method {
            UiMethod::Notify { message, level } => {
                let level = match &**level {
                    "error" => Level::Error,
                    "warning" => Level::Warning,
                    _ => Level::Info,
                };
                push_notice(log, level, message, at_ms);
            }
            UiMethod::Other { method, title } => {
                let text = format!("an extension asks in an unknown way: {method} {title}");
                push_notice(log, Level::Warning, text.trim_end(), at_ms);
            }
            _ => {}
        }
    }

    /// True for the start of a message that has started and not ended: a repetition.
    fn starts_again(&mut self, sort: &str, text: &str) -> bool {
        let known = self.other.as_ref();
        if known.is_some_and(|(s, t)| s == sort && t == text) {
            return true;
        }
        self.other = Some((sort.to_owned(), text.to_owned()));
        false
    }

    /// The run is over, as the machine decided: closes what is open and writes the end.
    /// `tokens` counts input and output together.
    pub fn run_ended(
        &mut self,
        log: &mut TranscriptLog,
        outcome: Outcome,
        took_ms: u64,
        tokens: u64,
        tool_uses: u64,
        at_ms: i64,
    ) {
        self.close(log);
        match &outcome {
            // Its line says the same.
            Outcome::Failed { .. } => self.error = None,
            Outcome::Completed { .. } | Outcome::Stopped { .. } => self.tell_error(log, at_ms),
        }
        log.push(
            at_ms,
            EntryKind::RunEnd {
                outcome,
                took_ms,
                tokens,
                tool_uses,
            },
        );
    }

    /// Closes open blocks and marks unfinished tools as lost, for an end without a run.
    pub fn close(&mut self, log: &mut TranscriptLog) {
        self.finish_blocks(log);
        self.message = None;
        self.ended = None;
        self.user = None;
        self.other = None;
        self.compaction = None;
        let mut open: Vec<u64> = self.tools.drain().map(|(_, seq)| seq).collect();
        open.sort_unstable();
        for seq in open {
            lose(log, seq);
        }
    }

    fn update(&mut self, log: &mut TranscriptLog, update: &MessageUpdate<'_>, at_ms: i64) {
        let index = update.index;
        match &update.change {
            Change::TextDelta(more) => self.append(log, index, Sort::Text, more, at_ms),
            Change::ThinkingDelta(more) => self.append(log, index, Sort::Thinking, more, at_ms),
            Change::TextEnd(whole) => {
                self.end_block(log, index, Sort::Text, whole.as_deref(), at_ms)
            }
            Change::ThinkingEnd(whole) => {
                self.end_block(log, index, Sort::Thinking, whole.as_deref(), at_ms);
            }
            Change::ToolCallStart { id, name } => {
                let call = ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    args: "".into(),
                };
                self.call(log, Some(index), &call, at_ms);
            }
            Change::ToolCallEnd(call) => self.call(log, Some(index), call, at_ms),
            Change::ToolCallDelta(_)
            | Change::TextStart
            | Change::ThinkingStart
            | Change::Other(_) => {}
        }
    }

    fn append(&mut self, log: &mut TranscriptLog, index: u32, sort: Sort, more: &str, at_ms: i64) {
        if more.is_empty() {
            return;
        }
        let open = self.blocks.iter_mut().rev();
        match { open }.find(|b| b.index == index && b.sort == sort) {
            Some(block) if block.bytes + more.len() <= MAX_TEXT => {
                block.bytes += more.len();
                log.append(block.seq, more);
            }
            Some(_) => {}
            None => self.begin_block(log, index, sort, more, at_ms),
        }
    }

    fn begin_block(
        &mut self,
        log: &mut TranscriptLog,
        index: u32,
        sort: Sort,
        text: &str,
        at_ms: i64,
    ) {
        let text = cut::head(text, MAX_TEXT);
        let bytes = text.len();
        let done = false;
        let seq = log.push(
            at_ms,
            match sort {
                Sort::Thinking => EntryKind::Thinking { text, done },
                Sort::Text | Sort::Tool => EntryKind::Text { text, done },
            },
        );
        self.blocks.push(Streamed {
            index,
            sort,
            seq,
            bytes,
        });
    }

    /// The end of a block, with its text as a whole if it was said.
    fn end_block(
        &mut self,
        log: &mut TranscriptLog,
        index: u32,
        sort: Sort,
        whole: Option<&str>,
        at_ms: i64,
    ) {
        let find = |b: &&Streamed| b.index == index && b.sort == sort;
        match self.blocks.iter().find(find) {
            Some(block) => settle_text(log, block.seq, whole),
            None => {
                if let Some(whole) = whole.filter(|w| !w.is_empty()) {
                    self.begin_block(log, index, sort, whole, at_ms);
                    let last = self.blocks.last().map(|b| b.seq);
                    last.into_iter().for_each(|seq| settle_text(log, seq, None));
                }
            }
        }
    }

    /// A tool call, while the model writes it or as a whole.
    fn call(
        &mut self,
        log: &mut TranscriptLog,
        index: Option<u32>,
        call: &ToolCall<'_>,
        at_ms: i64,
    ) {
        let streamed = index.and_then(|index| {
            let find = |b: &&Streamed| b.index == index && b.sort == Sort::Tool;
            self.blocks.iter().find(find).map(|b| b.seq)
        });
        // Some providers count their ids anew in each message: a call that is being streamed is
        // not the one of that id that has ended.
        let known = self.tools.get(&*call.id).copied();
        let known = known.filter(|seq| index.is_none() || is_open(log, *seq));
        let seq = match streamed.or(known) {
            Some(seq) => seq,
            None => {
                let seq = log.push(at_ms, EntryKind::Tool(preparing(call)));
                if let Some(index) = index {
                    self.blocks.push(Streamed {
                        index,
                        sort: Sort::Tool,
                        seq,
                        bytes: 0,
                    });
                }
                seq
            }
        };
        if !call.id.is_empty() && self.tools.get(&*call.id) != Some(&seq) {
            self.tools.insert(call.id.to_string(), seq);
        }
        let Some(EntryKind::Tool(tool)) = log.get(seq).map(|e| &e.kind) else {
            return;
        };
        let args = cut::args(&call.args);
        let news = (tool.call_id.is_empty() && !call.id.is_empty())
            || (tool.name.is_empty() && !call.name.is_empty())
            || (!args.is_empty() && tool.args != args);
        if news && tool.state == ToolState::Preparing {
            update_tool(log, seq, |tool| {
                if tool.call_id.is_empty() {
                    tool.call_id = call.id.to_string();
                }
                if tool.name.is_empty() {
                    tool.name = call.name.to_string();
                }
                if !args.is_empty() {
                    tool.args = args;
                }
            });
        }
    }

    fn message_start(&mut self, log: &mut TranscriptLog, message: &Message<'_>, at_ms: i64) {
        match message {
            Message::Assistant(message) => {
                let repeated = self.message == Some(message.timestamp) && self.blocks.is_empty();
                if !repeated {
                    self.tell_error(log, at_ms);
                    self.finish_blocks(log);
                    self.message = Some(message.timestamp);
                    self.ended = None;
                }
            }
            Message::User { content, timestamp } => {
                let known = self.user.as_ref();
                if known.is_some_and(|(at, text)| at == timestamp && *text == content.text) {
                    return;
                }
                self.user = Some((*timestamp, content.text.clone().into_owned()));
                log.push(
                    at_ms,
                    EntryKind::User {
                        text: cut::head(&content.text, MAX_TEXT),
                        images: content.images,
                    },
                );
            }
            Message::Custom {
                custom_type,
                content,
                display: true,
            } => {
                if !self.starts_again(custom_type, &content.text) {
                    push_custom(log, custom_type, &content.text, at_ms);
                }
            }
            Message::BashExecution { command, output } => {
                if self.starts_again(command, output) {
                    return;
                }
                let args = serde_json::json!({ "command": command }).to_string();
                let mut tool = preparing(&ToolCall {
                    name: "bash".into(),
                    args: args.into(),
                    ..ToolCall::default()
                });
                tool.state = ToolState::Done;
                cut::set_output(&mut tool, output);
                log.push(at_ms, EntryKind::Tool(tool));
            }
            Message::Custom { .. }
            | Message::System { .. }
            | Message::ToolResult { .. }
            | Message::Other { .. } => {}
        }
    }

    fn message_end(&mut self, log: &mut TranscriptLog, message: &Message<'_>, at_ms: i64) {
        match message {
            Message::Assistant(message) => self.assistant_end(log, message, at_ms),
            Message::User { .. } => self.user = None,
            Message::Custom { .. } | Message::BashExecution { .. } => self.other = None,
            _ => {}
        }
    }

    fn assistant_end(&mut self, log: &mut TranscriptLog, message: &Assistant<'_>, at_ms: i64) {
        let repeated = self.message.is_none()
            && self.blocks.is_empty()
            && self.ended == Some(message.timestamp);
        if repeated {
            return;
        }
        if message.whole {
            self.repair(log, message, at_ms);
        }
        let calls: Vec<u64> = { self.blocks.iter() }
            .filter(|b| b.sort == Sort::Tool)
            .map(|b| b.seq)
            .collect();
        self.finish_blocks(log);
        self.message = None;
        self.ended = Some(message.timestamp);
        if matches!(message.stop, StopReason::Error | StopReason::Aborted) {
            // What the model was about to call will never be called.
            calls.into_iter().for_each(|seq| lose(log, seq));
            if !message.is_aborted() {
                self.error = Some(message.error.as_deref().unwrap_or("unknown").to_owned());
            }
        }
    }

    /// Makes the streamed blocks equal to the message. The n-th text is the n-th text, whatever
    /// index it was streamed under; calls go by their id.
    fn repair(&mut self, log: &mut TranscriptLog, message: &Assistant<'_>, at_ms: i64) {
        let mut streamed = self.blocks.clone();
        streamed.sort_by_key(|b| b.index);
        let of = |sort: Sort| {
            let of_sort = streamed.iter().filter(move |b| b.sort == sort);
            of_sort.map(|b| b.seq).collect::<Vec<u64>>().into_iter()
        };
        let (mut texts, mut thoughts) = (of(Sort::Text), of(Sort::Thinking));
        for (index, block) in (0_u32..).zip(&message.blocks) {
            let (seqs, sort, text) = match block {
                Block::Text(text) => (&mut texts, Sort::Text, text),
                Block::Thinking(text) => (&mut thoughts, Sort::Thinking, text),
                Block::ToolCall(call) => {
                    self.call(log, None, call, at_ms);
                    continue;
                }
                Block::Other(_) => continue,
            };
            if text.is_empty() {
                continue;
            }
            match seqs.next() {
                Some(seq) => settle_text(log, seq, Some(text)),
                None => self.begin_block(log, index, sort, text, at_ms),
            }
        }
    }

    fn finish_blocks(&mut self, log: &mut TranscriptLog) {
        for block in self.blocks.drain(..) {
            if block.sort != Sort::Tool {
                settle_text(log, block.seq, None);
            }
        }
    }

    fn tool_start(&mut self, log: &mut TranscriptLog, start: &ToolStart<'_>, at_ms: i64) {
        let seq = match self.tools.get(&*start.call_id) {
            Some(seq) => *seq,
            None => self.new_tool(log, &start.call_id, &start.name, at_ms),
        };
        let args = cut::args(&start.args);
        update_tool(log, seq, |tool| {
            tool.state = ToolState::Running;
            tool.started_ms.get_or_insert(at_ms);
            tool.name = start.name.to_string();
            if !args.is_empty() {
                tool.args = args;
            }
        });
    }

    fn new_tool(&mut self, log: &mut TranscriptLog, id: &str, name: &str, at_ms: i64) -> u64 {
        let tool = preparing(&ToolCall {
            id: id.into(),
            name: name.into(),
            args: "".into(),
        });
        let seq = log.push(at_ms, EntryKind::Tool(tool));
        self.tools.insert(id.to_owned(), seq);
        seq
    }

    fn tool_update(&mut self, log: &mut TranscriptLog, update: &ToolUpdate<'_>) {
        let Some(seq) = self.tools.get(&*update.call_id).copied() else {
            return;
        };
        let Some(EntryKind::Tool(tool)) = log.get(seq).map(|e| &e.kind) else {
            return;
        };
        let (tail, hidden) = cut::tail(&update.output.text);
        if tool.output == tail && tool.hidden_lines == hidden {
            return;
        }
        update_tool(log, seq, |tool| cut::set_output(tool, &update.output.text));
    }

    fn tool_end(&mut self, log: &mut TranscriptLog, end: &ToolEnd<'_>, at_ms: i64) {
        let seq = match self.tools.get(&*end.call_id) {
            Some(seq) => *seq,
            None => self.new_tool(log, &end.call_id, &end.name, at_ms),
        };
        update_tool(log, seq, |tool| {
            tool.state = if end.is_error {
                ToolState::Failed
            } else {
                ToolState::Done
            };
            let since = tool.started_ms.map(|start| at_ms.saturating_sub(start));
            tool.took_ms = end
                .duration_ms
                .or_else(|| since.and_then(|ms| u64::try_from(ms).ok()));
            // An output too long to keep ends as nothing: then its last part stays.
            if !end.output.text.is_empty() {
                cut::set_output(tool, &end.output.text);
            } else if end.output.images > 0 {
                tool.output = match end.output.images {
                    1 => "(an image)".to_owned(),
                    n => format!("({n} images)"),
                };
            }
        });
    }

    fn retry(&mut self, log: &mut TranscriptLog, retry: &AutoRetryStart<'_>, at_ms: i64) {
        self.error = None;
        let wait = retry.delay_ms.div_ceil(1000);
        let text = format!(
            "retrying {}/{} in {wait}s: {}",
            retry.attempt, retry.max_attempts, retry.error_message
        );
        push_news(log, Level::Warning, &text, at_ms);
    }

    fn retry_over(log: &mut TranscriptLog, end: &AutoRetryEnd<'_>, at_ms: i64) {
        let cancelled = end.final_error.as_deref() == Some("Retry cancelled");
        if !end.success && !cancelled {
            let text = format!("gave up after {} retries", end.attempt);
            push_news(log, Level::Warning, &text, at_ms);
        }
    }

    fn compacted(&mut self, log: &mut TranscriptLog, end: &CompactionEnd<'_>, at_ms: i64) {
        let (level, text) = match (&end.error, end.tokens) {
            (_, _) if end.aborted => (Level::Warning, "compaction aborted".to_owned()),
            (Some(error), _) => (Level::Error, error.clone().into_owned()),
            (None, Some((before, after))) => (
                Level::Info,
                format!("context compacted: {before} → {after} tokens"),
            ),
            (None, None) => (Level::Info, "context compacted".to_owned()),
        };
        let kind = notice(level, cut::head(&text, MAX_TEXT));
        match self.compaction.take() {
            Some(seq) => log.update(seq, |entry| *entry = kind),
            None if log.iter().last().is_some_and(|last| last.kind == kind) => {}
            None => {
                log.push(at_ms, kind);
            }
        }
    }

    /// A provider error that turned out not to be the end of the run.
    fn tell_error(&mut self, log: &mut TranscriptLog, at_ms: i64) {
        if let Some(error) = self.error.take() {
            push_notice(log, Level::Error, &format!("provider: {error}"), at_ms);
        }
    }
}
