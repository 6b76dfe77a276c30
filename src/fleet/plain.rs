//! Texts of others for readers that are no screen of ours: a session's tool card, a log. Owns the
//! grammar of escape sequences (which bytes belong to one and must go, and that text after an
//! unterminated one stays) and which characters act or hide (R-TUI-10, R-Q-01).
//!
//! The screens' own sanitiser, which also measures, stands on the same grammar.

use std::borrow::Cow;

const ESC: char = '\u{1b}';

/// What a raw text is made of, sequences that only act left out.
pub enum Item<'a> {
    /// A character outside any sequence; a CR before LF is left out.
    Char(char),
    /// The parameters of a complete SGR sequence.
    Sgr(&'a str),
}

/// Takes a raw text apart.
pub fn each_char<'a>(raw: &'a str, mut emit: impl FnMut(Item<'a>)) {
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match c {
            ESC => match after.chars().next() {
                Some('[') => csi(after.get(1..).unwrap_or_default(), &mut emit),
                Some(']' | 'P' | '_' | '^' | 'X') => string(after.get(1..).unwrap_or_default()),
                _ => two_byte(after),
            },
            '\u{9b}' => csi(after, &mut emit),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => string(after),
            '\r' if after.starts_with('\n') => after,
            _ => {
                emit(Item::Char(c));
                after
            }
        };
    }
}

/// After a CSI introducer: drops parameters, intermediates and the final byte. What breaks the
/// grammar ends the sequence and is shown.
fn csi<'a>(body: &'a str, emit: &mut impl FnMut(Item<'a>)) -> &'a str {
    let bytes = body.as_bytes();
    let params = bytes
        .iter()
        .take_while(|b| (0x30..=0x3f).contains(*b))
        .count();
    let middle = bytes
        .iter()
        .skip(params)
        .take_while(|b| (0x20..=0x2f).contains(*b))
        .count();
    match bytes.get(params + middle) {
        Some(last @ 0x40..=0x7e) => {
            if *last == b'm' && middle == 0 {
                emit(Item::Sgr(body.get(..params).unwrap_or_default()));
            }
            body.get(params + middle + 1..).unwrap_or_default()
        }
        // A blank between is text, not part of a sequence that never came.
        _ => body.get(params..).unwrap_or_default(),
    }
}

/// After the introducer of a control string: drops it when its terminator (BEL, ST) comes on the
/// same line and before any other escape; otherwise only the introducer is gone.
fn string(body: &str) -> &str {
    for (at, c) in body.char_indices() {
        match c {
            '\u{7}' | '\u{9c}' => return body.get(at + c.len_utf8()..).unwrap_or_default(),
            ESC => {
                let after = body.get(at + 1..).unwrap_or_default();
                return after.strip_prefix('\\').unwrap_or(body);
            }
            '\n' | '\r' | '\u{18}' | '\u{1a}' => return body,
            _ => {}
        }
    }
    body
}

/// After a bare ESC: drops intermediates and one final byte, as a terminal would.
fn two_byte(after: &str) -> &str {
    let bytes = after.as_bytes();
    let middle = bytes
        .iter()
        .take_while(|b| (0x20..=0x2f).contains(*b))
        .count();
    match bytes.get(middle) {
        Some(0x30..=0x7e) => after.get(middle + 1..).unwrap_or_default(),
        _ => after,
    }
}

/// The text without anything that could act on a terminal, or be there unseen: escape sequences,
/// control characters, characters that reorder or hide. Line breaks are `\n`, tabs stay.
#[must_use]
pub fn plain(raw: &str) -> Cow<'_, str> {
    if raw
        .bytes()
        .all(|b| (0x20..0x7f).contains(&b) || matches!(b, b'\n' | b'\t'))
    {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    each_char(raw, |item| {
        let Item::Char(c) = item else { return };
        match c {
            '\n' | '\t' => out.push(c),
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            _ if c.is_control() || reorders(c) => {}
            _ => out.push(c),
        }
    });
    Cow::Owned(out)
}

/// Characters that change how others are read, and show nothing themselves.
fn reorders(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00ad
            | 0x034f
            | 0x061c
            | 0x200b
            | 0x200e..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0xfeff
            | 0xfff0..=0xfffb
            | 0xe0000..=0xe0fff
    )
}
