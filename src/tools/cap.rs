//! The bound on what a parent's model reads of an agent's text (R-TOOL-09): that of Pi's bash tool.

use std::borrow::Cow;
use std::path::Path;

/// Most bytes.
pub const MAX_BYTES: usize = 50 * 1024;
/// Most lines.
pub const MAX_LINES: usize = 2000;

/// The text, or as much of its end as fits with a note of what is missing and where the whole is.
/// The end, because a report ends with what it found.
#[must_use]
pub fn capped<'a>(text: &'a str, session: Option<&Path>) -> Cow<'a, str> {
    within(text, || match session {
        Some(path) => format!("the whole is in {}", path.display()),
        None => "the whole was not saved".to_owned(),
    })
}

/// The same for a text of which `place` says where the whole is.
#[must_use]
pub fn within(text: &str, place: impl FnOnce() -> String) -> Cow<'_, str> {
    let lines = text.lines().count();
    if text.len() <= MAX_BYTES && lines <= MAX_LINES {
        return Cow::Borrowed(text);
    }
    let mut from = text.len().saturating_sub(MAX_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let tail = text.get(from..).unwrap_or_default();
    // Whole lines where there are any.
    let tail = match tail.split_once('\n') {
        Some((_, rest)) if from > 0 && !rest.is_empty() => rest,
        _ => tail,
    };
    let kept = tail.lines().count();
    let tail = match kept.checked_sub(MAX_LINES) {
        Some(over @ 1..) => tail
            .match_indices('\n')
            .nth(over - 1)
            .and_then(|(at, _)| tail.get(at + 1..))
            .unwrap_or(tail),
        _ => tail,
    };
    Cow::Owned(format!(
        "[the last {} of {lines} lines, {} of {} bytes; {}]\n{tail}",
        tail.lines().count(),
        tail.len(),
        text.len(),
        place()
    ))
}
