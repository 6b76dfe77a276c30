//! Repairs of what a strict JSON reader would refuse, and of lines too long to keep.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;

use super::event::{Record, ToolEnd};
use super::message::{Assistant, Gist, Message, StopReason};

/// True when the text may hold an escaped surrogate (JavaScript writes only lone ones escaped).
pub(super) fn may_hold_surrogates(text: &str) -> bool {
    // Built once: most lines are shorter than building a searcher takes.
    static ESCAPE: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"\\u"));
    let bytes = text.as_bytes();
    let Some(first) = memchr::memchr(b'\\', bytes) else {
        return false;
    };
    let rest = bytes.get(first..).unwrap_or_default();
    let mut escapes = ESCAPE.find_iter(rest);
    escapes.any(|at| matches!(rest.get(at + 2), Some(b'd' | b'D')))
}

/// The text with every lone surrogate escape replaced by `\ufffd`; `None` = there is none.
pub(super) fn surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let start = at + found;
        let Some(unit) = escaped_unit(bytes, start) else {
            at = start + 2;
            continue;
        };
        at = start + 6;
        match unit {
            0xd800..=0xdbff => {
                if matches!(escaped_unit(bytes, at), Some(0xdc00..=0xdfff)) {
                    at += 6;
                    continue;
                }
            }
            0xdc00..=0xdfff => {}
            _ => continue,
        }
        let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
        out.push_str(text.get(copied..start).unwrap_or_default());
        out.push_str("\\ufffd");
        copied = at;
    }
    let mut out = out?;
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// The code unit of a `\uXXXX` escape at this place.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let hex = escape.strip_prefix(b"\\u")?;
    let hex = std::str::from_utf8(hex).ok()?;
    u16::from_str_radix(hex, 16).ok()
}

/// What can still be told of a record whose line was too long to keep: the few fields that decide
/// over a run. Pi writes them behind the long part, so the tail holds them. `None` = nothing of use.
pub(super) fn salvage(kind: &str, head: &str, tail: &str) -> Option<Record<'static>> {
    match kind {
        "turn_end" => Some(Record::TurnEnd),
        // Without the flag the run counts as over: the settlement decides anyway.
        "agent_end" => Some(Record::AgentEnd {
            will_retry: tail.trim_end().ends_with(r#""willRetry":true}"#),
        }),
        "message_end" if head.contains(r#""role":"assistant""#) => {
            let stop = last_string(tail, "stopReason")
                .map_or(StopReason::Unknown, |word| StopReason::parse(&word));
            Some(Record::MessageEnd(Message::Assistant(Assistant {
                stop,
                error: last_string(tail, "errorMessage").map(Cow::Owned),
                whole: false,
                ..Assistant::default()
            })))
        }
        "tool_execution_end" => Some(Record::ToolEnd(ToolEnd {
            call_id: first_string(head, "toolCallId")?.into(),
            name: first_string(head, "toolName").unwrap_or_default().into(),
            output: Gist::default(),
            is_error: memmem::rfind(tail.as_bytes(), br#""isError":true"#).is_some(),
            duration_ms: None,
        })),
        _ => None,
    }
}

fn first_string(text: &str, key: &str) -> Option<String> {
    string_behind(text, text.find(&format!("\"{key}\":\""))?, key)
}

/// A quote inside a JSON string is escaped, so an unescaped `"key":"` is a real key; the last one
/// is the record's own, since what a model can write lies in front of it.
fn last_string(text: &str, key: &str) -> Option<String> {
    string_behind(text, text.rfind(&format!("\"{key}\":\""))?, key)
}

fn string_behind(text: &str, at: usize, key: &str) -> Option<String> {
    if at > 0 && text.as_bytes().get(at - 1) == Some(&b'\\') {
        return None;
    }
    let value = text.get(at + key.len() + 3..)?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<String>();
    values.next()?.ok()
}
