//! Small changes to the log that the reducer is made of. A tool that has ended and a text that is
//! done stay as they are: late records change nothing.

use super::cut;
use super::entry::{EntryKind, Level, ToolEntry, ToolState};
use super::log::TranscriptLog;
use crate::pi::message::ToolCall;

/// Longest text of one entry, in bytes: a model cannot write this much, a broken child can.
pub(super) const MAX_TEXT: usize = 8 * 1024 * 1024;

/// A tool call that the model is still writing.
pub(super) fn preparing(call: &ToolCall<'_>) -> ToolEntry {
    ToolEntry {
        call_id: call.id.to_string(),
        name: call.name.to_string(),
        args: cut::args(&call.args),
        output: String::new(),
        hidden_lines: 0,
        state: ToolState::Preparing,
        started_ms: None,
        took_ms: None,
    }
}

/// True for a tool entry that has not ended yet.
pub(super) fn is_open(log: &TranscriptLog, seq: u64) -> bool {
    matches!(
        log.get(seq).map(|e| &e.kind),
        Some(EntryKind::Tool(tool))
            if matches!(tool.state, ToolState::Preparing | ToolState::Running)
    )
}

/// Changes a tool entry that has not ended yet; one that has stays as it is.
pub(super) fn update_tool(log: &mut TranscriptLog, seq: u64, change: impl FnOnce(&mut ToolEntry)) {
    if is_open(log, seq) {
        log.update(seq, |kind| {
            if let EntryKind::Tool(tool) = kind {
                change(tool);
            }
        });
    }
}

pub(super) fn lose(log: &mut TranscriptLog, seq: u64) {
    update_tool(log, seq, |tool| tool.state = ToolState::Lost);
}

/// A text that grows no more, repaired if it was said as a whole.
pub(super) fn settle_text(log: &mut TranscriptLog, seq: u64, whole: Option<&str>) {
    let (EntryKind::Text { text, done } | EntryKind::Thinking { text, done }) = (match log.get(seq)
    {
        Some(entry) => &entry.kind,
        None => return,
    }) else {
        return;
    };
    let repair = whole.filter(|whole| text != whole);
    if *done && repair.is_none() {
        return;
    }
    log.update(seq, |kind| {
        if let EntryKind::Text { text, done } | EntryKind::Thinking { text, done } = kind {
            *done = true;
            if let Some(whole) = repair {
                *text = cut::head(whole, MAX_TEXT);
            }
            // It was grown in steps: half of what it holds may be empty.
            text.shrink_to_fit();
        }
    });
}

pub(super) fn notice(level: Level, text: String) -> EntryKind {
    EntryKind::Notice { level, text }
}

pub(super) fn push_notice(log: &mut TranscriptLog, level: Level, text: &str, at_ms: i64) {
    const LONGEST: usize = 16 * 1024;
    log.push(at_ms, notice(level, cut::head(text, LONGEST)));
}

/// A notice of a record without an identity of its own: what the last entry says already is a
/// repetition.
pub(super) fn push_news(log: &mut TranscriptLog, level: Level, text: &str, at_ms: i64) {
    let last = log.iter().last().map(|entry| &entry.kind);
    if !matches!(last, Some(EntryKind::Notice { level: l, text: t }) if *l == level && t == text) {
        push_notice(log, level, text, at_ms);
    }
}

pub(super) fn push_custom(log: &mut TranscriptLog, custom_type: &str, text: &str, at_ms: i64) {
    log.push(
        at_ms,
        EntryKind::Custom {
            custom_type: cut::head(custom_type, 200),
            text: cut::head(text, MAX_TEXT),
        },
    );
}
