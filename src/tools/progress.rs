//! What a session is told of a foreground call that waits (R-TOOL-11, R-TOOL-19): what its agent
//! does now and how far its reply has come. Pure: when it is told is the supervisor's.
//!
//! Bounded in lines and bytes, whatever the agent writes, and safe to draw: texts of the child have
//! nothing in them that acts on a terminal. The result of the call depends on none of it.

use serde::Serialize;
use serde_json::Value;

use crate::fleet::agent::Status;
use crate::fleet::plain::plain;
use crate::fleet::roster::{AgentView, DialogView, Subtree, UsageTotals};

/// Most lines of the reply in `details`.
pub const TAIL_LINES: usize = 20;
/// Most bytes of the reply in `details`.
pub const TAIL_BYTES: usize = 4 * 1024;
/// Most lines of the reply in the text: what a card shows when it is folded (R-TUI-14).
pub const TEXT_LINES: usize = 5;
/// Most bytes of the reply in the text.
pub const TEXT_BYTES: usize = 800;
/// Longest one-line text of the child, in characters.
const LINE: usize = 160;

/// A call that waits, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Pi's id of the call.
    pub call: &'a str,
    /// The agent it waits for, its live part filled in.
    pub agent: &'a AgentView,
    /// What goes on below that agent.
    pub below: Subtree,
    /// The reply so far, as the child wrote it.
    pub reply: &'a str,
}

/// What is told of a call. Two that are equal look the same: the second need not be told. Time that
/// passes is no difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// The text, for who draws no details.
    #[serde(skip)]
    pub content: String,
    /// Short name of the agent.
    pub agent_id: String,
    /// Title of its task.
    pub label: String,
    /// Pi's id of the call.
    pub call: String,
    /// State of the agent, one word: see [`status`].
    pub status: &'static str,
    /// What it is doing, one line (`bash: npm test`).
    pub operation: Option<String>,
    /// Model in use.
    pub model: Option<String>,
    /// Thinking level in use.
    pub thinking: Option<String>,
    /// The end of the reply so far.
    pub tail: String,
    /// There is more of the reply before it.
    pub tail_cut: bool,
    /// Tool calls so far.
    pub tool_uses: u64,
    /// Tokens and money so far.
    pub usage: UsageTotals,
    /// The agents below; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Subtree>,
    /// Saved session, once known.
    pub session_path: Option<String>,
}

impl Progress {
    /// What there is to tell at this moment.
    #[must_use]
    pub fn of(moment: &Moment<'_>) -> Self {
        let agent = moment.agent;
        let (tail, tail_cut) = tail(moment.reply, TAIL_LINES, TAIL_BYTES);
        let operation = operation(agent);
        let below = (moment.below.agents > 0).then_some(moment.below);
        let name = line(&agent.name);
        let content = content(
            &name,
            status(agent),
            operation.as_deref(),
            below.as_ref(),
            &tail,
        );
        Self {
            content,
            agent_id: name,
            label: line(&agent.spec.label),
            call: moment.call.to_owned(),
            status: status(agent),
            operation,
            model: agent.model.as_deref().map(line),
            thinking: agent.thinking.as_deref().map(line),
            tail,
            tail_cut,
            tool_uses: agent.tool_uses,
            usage: agent.usage,
            below,
            session_path: agent
                .session_path
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
        }
    }

    /// What is drawn, with how long the call waits already. `since_ms` is the wall clock when it
    /// began, Unix milliseconds, so that a card can count on between two updates.
    #[must_use]
    pub fn details(&self, elapsed_ms: u64, since_ms: i64) -> Value {
        let mut details = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = details.as_object_mut() {
            fields.insert("elapsed_ms".to_owned(), elapsed_ms.into());
            fields.insert("since_ms".to_owned(), since_ms.into());
        }
        details
    }
}

/// The state in one word: that of the agent, or what overlays it on its row (`stopping`, `asks`,
/// `retrying`).
#[must_use]
pub fn status(agent: &AgentView) -> &'static str {
    if agent.closing {
        return "stopping";
    }
    match agent.status {
        Status::Failed { .. } => "failed",
        Status::Stopped { .. } => "stopped",
        Status::Completed => "completed",
        _ if !agent.dialogs.is_empty() => "asks",
        Status::Queued => "queued",
        Status::Starting => "starting",
        Status::Running if agent.retry.is_some() => "retrying",
        Status::Running => "running",
        Status::Idle => "idle",
    }
}

/// What it is doing: the line of its row, or what it asks.
fn operation(agent: &AgentView) -> Option<String> {
    let asks = |dialog: &DialogView| line(&dialog.title);
    let asked = agent.dialogs.first().map(asks).filter(|t| !t.is_empty());
    let doing = || agent.activity.as_deref().map(line);
    asked.or_else(doing).filter(|text| !text.is_empty())
}

/// `@max running · bash: npm test · done 2/3 · 1 running`, then the last lines of the reply.
fn content(
    name: &str,
    status: &'static str,
    operation: Option<&str>,
    below: Option<&Subtree>,
    tail: &str,
) -> String {
    let mut text = format!("@{name} {status}");
    let operation = operation.map(|o| o.strip_prefix(status).map_or(o, str::trim_start));
    // The line of a row is the beginning of the reply while that is written: it follows anyway.
    let said = operation.map(|o| o.trim_end_matches('…'));
    let repeats = |o: &str| tail.lines().any(|l| l.trim_start().starts_with(o));
    let repeated = said.is_some_and(|o| !o.is_empty() && repeats(o));
    match operation {
        Some(operation) if !repeated => text.push_str(&format!(" · {operation}")),
        // Said only when nothing more exact is known (R-TUI-14).
        None if status == "running" && tail.is_empty() => text.push_str(" · working…"),
        Some(_) | None => {}
    }
    for part in below.map(counters).unwrap_or_default() {
        text.push_str(" · ");
        text.push_str(&part);
    }
    let (last, _) = self::tail(tail, TEXT_LINES, TEXT_BYTES);
    if !last.is_empty() {
        text.push('\n');
        text.push_str(&last);
    }
    text
}

/// The agents below, in the words of a card's header (R-ID-05): `done 2/3`, `1 running`.
#[must_use]
pub fn counters(below: &Subtree) -> Vec<String> {
    let ended = below.done + below.idle;
    let mut parts = vec![format!("done {ended}/{}", below.agents)];
    for (count, word) in [
        (below.working, "running"),
        (below.failed, "failed"),
        (below.stopped, "stopped"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts
}

/// A text of others on one line, cleaned and cut.
fn line(raw: &str) -> String {
    // Only the beginning is looked at: a name can be as long as somebody likes.
    let beginning = head(raw, LINE * 16);
    let text = plain(beginning);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(LINE) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most))
        .unwrap_or_default()
}

/// The end of a text, cleaned, at most so many lines and bytes, and whether something is missing
/// before it. Whole lines, unless the last one alone is too long.
fn tail(raw: &str, lines: usize, bytes: usize) -> (String, bool) {
    let raw = raw.trim_end();
    // Cleaning makes a text longer by no byte, so that more than this is never needed; a sequence
    // cut in two at the front is in a part of a line, which goes.
    let from = raw.ceil_char_boundary(raw.len().saturating_sub(bytes));
    let mut end = raw.get(from..).unwrap_or_default();
    let mut cut = from > 0;
    if cut && let Some((_, whole)) = end.split_once('\n').filter(|(_, w)| !w.is_empty()) {
        end = whole;
    }
    let clean = plain(end);
    let mut clean = clean.trim_matches('\n');
    let mut starts = clean.rmatch_indices('\n');
    if let Some((at, _)) = starts.nth(lines.saturating_sub(1)) {
        clean = clean.get(at + 1..).unwrap_or_default();
        cut = true;
    }
    (clean.to_owned(), cut)
}
