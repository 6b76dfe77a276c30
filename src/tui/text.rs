//! The sanitiser (R-TUI-10, R-Q-01). Owns [`SafeText`], the only type through which text from
//! outside (children, files, names, paths, error messages) can reach a cell, and the only code
//! that makes one.
//!
//! What is guaranteed of a `SafeText`, for every input:
//! - no ESC, no C0 except `\n` (blocks only), no DEL, no C1, no bidi control and no other
//!   invisible character that reorders, hides or joins;
//! - escape sequences (CSI, OSC, DCS, APC, PM, SOS, two-byte ones) are dropped whole. One that is
//!   not terminated on its own line loses its introducer only: what follows is shown, never
//!   swallowed;
//! - tabs are spaces up to the next stop of eight columns, counted from the start of the text's
//!   own line (also after wide characters);
//! - every cluster has a width that terminals agree about.
//!
//! Emoji, the safe way (B041): terminals disagree about clusters that several code points join,
//! so joiners and variation selectors are dropped (`👩‍🔬` is drawn as the two emoji it is made of),
//! skin tones are dropped, regional indicators become their letters (`🇺🇳` → `UN`), and Hangul
//! written in parts is put together. Copying takes the source, not the drawn text.
//!
//! The sanitiser carries no state over a line break, so a streaming text can be sanitised again
//! from its last `\n` on.

mod chars;
mod escape;
mod sgr;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub use sgr::AnsiText;

/// Columns between two tab stops.
pub const TAB: usize = 8;

/// Text that can be drawn. See the module for what that means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafeText(String);

/// Takes escape sequences out of a source that will be parsed before it is sanitised (Markdown):
/// everything else stays, line breaks and tabs too. The result is not safe to draw.
#[must_use]
pub fn without_sequences(raw: &str) -> Cow<'_, str> {
    if !raw.contains(|c: char| matches!(c, '\u{1b}' | '\r') || ('\u{80}'..='\u{9f}').contains(&c)) {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    escape::each_char(raw, |item| {
        if let escape::Item::Char(c) = item {
            out.push(c);
        }
    });
    Cow::Owned(out)
}

/// A borrowed part of a [`SafeText`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SafeStr<'a>(&'a str);

impl SafeText {
    /// Text for one line: line breaks and tabs become one blank each.
    #[must_use]
    pub fn line(raw: &str) -> Self {
        if raw.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Self(raw.to_owned());
        }
        let mut out = chars::Out::new(raw.len(), false);
        escape::each(raw, &mut out, |_, _| {});
        Self(out.finish())
    }

    /// Text of several lines: line breaks are kept as `\n`, tabs expanded.
    #[must_use]
    pub fn block(raw: &str) -> Self {
        if raw.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\n') {
            return Self(raw.to_owned());
        }
        let mut out = chars::Out::new(raw.len(), true);
        escape::each(raw, &mut out, |_, _| {});
        Self(out.finish())
    }

    /// Like [`SafeText::block`] for text that goes on in a line: tab stops count from `column`.
    #[must_use]
    pub fn block_at(raw: &str, column: usize) -> Self {
        let mut out = chars::Out::new(raw.len(), true).at_column(column);
        escape::each(raw, &mut out, |_, _| {});
        Self(out.finish())
    }

    /// Like [`SafeText::block`] for output of programs: colours that the text asks for (SGR) come
    /// back as styles beside it.
    #[must_use]
    pub fn ansi(raw: &str) -> AnsiText {
        sgr::parse(raw)
    }

    /// A text of the program itself.
    #[must_use]
    pub fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Text the program made out of numbers; private to the screen's number formats.
    pub(super) fn from_digits(text: String) -> Self {
        debug_assert!(!text.chars().any(char::is_control));
        Self(text)
    }

    /// One of the program's own characters, `n` times (rules, bars, blanks).
    #[must_use]
    pub fn repeat(c: char, n: usize) -> Self {
        if c.is_control() {
            return Self::default();
        }
        Self(std::iter::repeat_n(c, n).collect())
    }

    pub(super) fn into_inner(self) -> String {
        self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, borrowed.
    #[must_use]
    pub fn as_safe(&self) -> SafeStr<'_> {
        SafeStr(&self.0)
    }

    /// True when there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This text followed by another one.
    #[must_use]
    pub fn with<'a>(mut self, more: impl Into<SafeStr<'a>>) -> Self {
        self.0.push_str(more.into().0);
        self
    }

    /// This text followed by one of the program's own.
    #[must_use]
    pub fn with_static(mut self, more: &'static str) -> Self {
        self.0.push_str(more);
        self
    }

    /// Appends in place.
    pub fn push<'a>(&mut self, more: impl Into<SafeStr<'a>>) {
        self.0.push_str(more.into().0);
    }

    /// Appends a text of the program's own in place.
    pub fn push_static(&mut self, more: &'static str) {
        self.0.push_str(more);
    }

    /// Shortens to the first `len` bytes; `len` is moved down to a character boundary.
    pub fn truncate_bytes(&mut self, len: usize) {
        self.0.truncate(self.0.floor_char_boundary(len));
    }

    /// Joins with a separator of the program's own, for example ` · `.
    #[must_use]
    pub fn join<'a>(parts: impl IntoIterator<Item = SafeStr<'a>>, sep: &'static str) -> Self {
        let mut out = String::new();
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                out.push_str(sep);
            }
            out.push_str(part.0);
        }
        Self(out)
    }
}

impl<'a> SafeStr<'a> {
    /// A text of the program itself.
    #[must_use]
    pub fn from_static(text: &'static str) -> SafeStr<'static> {
        SafeStr(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// True when there is nothing to draw.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// A part by byte offsets; ends outside the text or inside a character are moved down.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> SafeStr<'a> {
        let end = self.0.floor_char_boundary(range.end);
        let start = self.0.floor_char_boundary(range.start).min(end);
        SafeStr(self.0.get(start..end).unwrap_or_default())
    }

    /// The lines of a block.
    pub fn lines(self) -> impl DoubleEndedIterator<Item = SafeStr<'a>> {
        self.0.split('\n').map(SafeStr)
    }

    /// Without blanks at both ends.
    #[must_use]
    pub fn trim(self) -> SafeStr<'a> {
        SafeStr(self.0.trim())
    }

    /// Without these characters at both ends.
    #[must_use]
    pub fn trim_matches(self, chars: &[char]) -> SafeStr<'a> {
        SafeStr(self.0.trim_matches(chars))
    }

    /// Without blanks and line breaks at the end.
    #[must_use]
    pub fn trim_end(self) -> SafeStr<'a> {
        SafeStr(self.0.trim_end())
    }

    /// An owned copy.
    #[must_use]
    pub fn to_text(self) -> SafeText {
        SafeText(self.0.to_owned())
    }
}

impl<'a> From<&'a SafeText> for SafeStr<'a> {
    fn from(text: &'a SafeText) -> Self {
        SafeStr(&text.0)
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SafeStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
