//! Bounds for outside text in entries (R-Q-01): outputs keep their end, everything else its
//! beginning.

use memchr::memchr_iter;

use super::entry::{MAX_ARGS, MAX_OUTPUT, ToolEntry};

/// How far behind the cut a line start is looked for.
const NEAR: usize = 4096;

/// Replaces the output of a tool. Of a longer one the tail stays, from the start of a line where one
/// is near, and the lines in front are counted.
pub(super) fn set_output(tool: &mut ToolEntry, text: &str) {
    let (tail, hidden) = tail(text);
    tool.output.clear();
    tool.output.push_str(tail);
    tool.hidden_lines = hidden;
}

/// The part of an output that is kept, and how many lines are not.
pub(super) fn tail(text: &str) -> (&str, u64) {
    if text.len() <= MAX_OUTPUT {
        return (text, 0);
    }
    let mut from = text.len() - MAX_OUTPUT;
    let near = text.as_bytes().get(from..from + NEAR).unwrap_or_default();
    if let Some(line) = memchr::memchr(b'\n', near) {
        from += line + 1;
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let (front, tail) = text.split_at(from);
    (tail, memchr_iter(b'\n', front.as_bytes()).count() as u64)
}

/// Argument text, cut at its bound.
pub(super) fn args(json: &str) -> String {
    head(json, MAX_ARGS)
}

/// The beginning of a text, with a mark where it was cut.
pub(super) fn head(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let mut to = longest;
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let mut cut = text.get(..to).unwrap_or_default().to_owned();
    cut.push('…');
    cut
}
