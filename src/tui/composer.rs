//! The text field behind every place where a person types: task line, message, form, answers.
//!
//! Owns the text, the caret, undo and where both are on the screen. `ratatui-textarea` is the
//! model underneath and is named nowhere else. Drawing goes through `paint` as everything does,
//! and the real cursor stands at the caret (B062).
//!
//! Invariant: the text holds no control character but line breaks and tabs, whatever was typed or
//! pasted (B059, B064).

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui_textarea::{CursorMove, TextArea};
use unicode_segmentation::UnicodeSegmentation;

use super::keymap::Chord;
use super::text::SafeText;
use super::width::width;
use super::wrap::{Mode, wrap};

/// Most text a field takes, in bytes; what is pasted beyond it is left out.
pub const MAX_BYTES: usize = 1024 * 1024;
/// How many steps can be undone.
const UNDO: usize = 200;

/// What a key means in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Type(char),
    Step(bool),
    Move(CursorMove),
    Erase(bool),
    EraseWord(bool),
    EraseLine(bool),
    Paste,
    Undo,
    Vertical(bool),
}

/// A text field of one or more lines.
#[derive(Clone, Debug)]
pub struct Composer {
    area: TextArea<'static>,
    /// Columns of the last drawing: up and down move by drawn lines.
    cols: usize,
}

impl Default for Composer {
    fn default() -> Self {
        Self::from_text("")
    }
}

/// A field broken into screen lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The lines.
    pub rows: Vec<SafeText>,
    /// Line and column of the caret.
    pub caret: (usize, usize),
}

impl Composer {
    /// A field with a text; the caret is behind it.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let lines = clean(text).split('\n').map(str::to_owned).collect();
        let mut area = TextArea::new(lines);
        area.set_max_histories(UNDO);
        area.move_cursor(CursorMove::Bottom);
        area.move_cursor(CursorMove::End);
        Self { area, cols: 80 }
    }

    /// The text, lines separated by LF.
    #[must_use]
    pub fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// True when nothing is typed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// True when nothing but blanks is typed.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.area.lines().iter().all(|line| line.trim().is_empty())
    }

    /// Takes the text out and leaves the field empty.
    pub fn take(&mut self) -> String {
        let text = self.text();
        *self = Self {
            cols: self.cols,
            ..Self::default()
        };
        text
    }

    /// Replaces the text.
    pub fn set(&mut self, text: &str) {
        *self = Self {
            cols: self.cols,
            ..Self::from_text(text)
        };
    }

    /// Inserts typed or pasted text, cleaned, at the caret.
    pub fn insert(&mut self, raw: &str) {
        let mut text = clean(raw);
        let have: usize = self.area.lines().iter().map(|line| line.len() + 1).sum();
        text.truncate(text.floor_char_boundary(MAX_BYTES.saturating_sub(have)));
        self.area.insert_str(text);
    }

    /// Inserts for a field of one line: line breaks become blanks.
    pub fn insert_line(&mut self, raw: &str) {
        self.insert(&clean(raw).replace('\n', " "));
    }

    /// Breaks the line at the caret.
    pub fn newline(&mut self) {
        self.area.insert_newline();
    }

    /// Number of lines as typed.
    #[must_use]
    pub fn line_count(&self) -> usize {
        self.area.lines().len()
    }

    /// True when the caret is on the first drawn line.
    #[must_use]
    pub fn at_top(&self) -> bool {
        self.layout(self.cols).caret.0 == 0
    }

    /// True when the caret is on the last drawn line.
    #[must_use]
    pub fn at_bottom(&self) -> bool {
        let drawn = self.layout(self.cols);
        drawn.caret.0 + 1 >= drawn.rows.len()
    }

    /// What a key would do here. Keys that mean something else elsewhere (Enter, Tab, Esc, pages)
    /// are not known here; nor is any but a typed character while nothing is typed.
    fn meaning(&self, chord: Chord) -> Option<Op> {
        if let Some(c) = chord.typed() {
            return (!c.is_control()).then_some(Op::Type(c));
        }
        let ctrl = chord.mods == KeyModifiers::CONTROL;
        let alt = chord.mods == KeyModifiers::ALT;
        let none = chord.mods.is_empty();
        let op = match chord.code {
            KeyCode::Char('y') if ctrl => return Some(Op::Paste),
            KeyCode::Left if none => Op::Step(false),
            KeyCode::Right if none => Op::Step(true),
            KeyCode::Left if ctrl || alt => Op::Move(CursorMove::WordBack),
            KeyCode::Right if ctrl || alt => Op::Move(CursorMove::WordForward),
            KeyCode::Char('b') if alt => Op::Move(CursorMove::WordBack),
            KeyCode::Char('f') if alt => Op::Move(CursorMove::WordForward),
            KeyCode::Home if none => Op::Move(CursorMove::Head),
            KeyCode::End if none => Op::Move(CursorMove::End),
            KeyCode::Char('a') if ctrl => Op::Move(CursorMove::Head),
            KeyCode::Char('e') if ctrl => Op::Move(CursorMove::End),
            KeyCode::Backspace if none || chord.mods == KeyModifiers::SHIFT => Op::Erase(false),
            KeyCode::Char('h') if ctrl => Op::Erase(false),
            KeyCode::Delete if none => Op::Erase(true),
            KeyCode::Char('d') if ctrl => Op::Erase(true),
            KeyCode::Backspace if alt || ctrl => Op::EraseWord(false),
            KeyCode::Char('w') if ctrl => Op::EraseWord(false),
            KeyCode::Char('d') if alt => Op::EraseWord(true),
            KeyCode::Char('u') if ctrl => Op::EraseLine(false),
            KeyCode::Char('k') if ctrl => Op::EraseLine(true),
            KeyCode::Char('_' | '/' | '7') if ctrl => Op::Undo,
            KeyCode::Up if none && !self.at_top() => Op::Vertical(false),
            KeyCode::Down if none && !self.at_bottom() => Op::Vertical(true),
            _ => return None,
        };
        (!self.is_empty() || op == Op::Undo).then_some(op)
    }

    /// Would the field use this key?
    #[must_use]
    pub fn uses(&self, chord: Chord) -> bool {
        self.meaning(chord).is_some()
    }

    /// Edits by a key. `false` = the field has no use for it.
    pub fn key(&mut self, chord: Chord) -> bool {
        let Some(op) = self.meaning(chord) else {
            return false;
        };
        match op {
            Op::Type(c) => self.area.insert_char(c),
            Op::Step(forward) => self.step(forward),
            Op::Move(by) => self.area.move_cursor(by),
            Op::Erase(forward) => self.erase(forward),
            Op::EraseWord(true) => drop(self.area.delete_next_word()),
            Op::EraseWord(false) => drop(self.area.delete_word()),
            Op::EraseLine(true) => drop(self.area.delete_line_by_end()),
            Op::EraseLine(false) => drop(self.area.delete_line_by_head()),
            Op::Paste => drop(self.area.paste()),
            Op::Undo => drop(self.area.undo()),
            Op::Vertical(down) => self.vertical(down),
        }
        true
    }

    /// One grapheme cluster to the side; clusters of several code points are one step.
    fn step(&mut self, forward: bool) {
        for _ in 0..self.cluster(forward).max(1) {
            self.area.move_cursor(if forward {
                CursorMove::Forward
            } else {
                CursorMove::Back
            });
        }
    }

    fn erase(&mut self, forward: bool) {
        for _ in 0..self.cluster(forward).max(1) {
            if forward {
                self.area.delete_next_char();
            } else {
                self.area.delete_char();
            }
        }
    }

    /// Code points of the cluster before or behind the caret; 0 at a line's end.
    fn cluster(&self, forward: bool) -> usize {
        let (row, col) = self.caret();
        let line = self.area.lines().get(row).map_or("", String::as_str);
        let at = byte_at(line, col);
        let cluster = if forward {
            line.get(at..).and_then(|rest| rest.graphemes(true).next())
        } else {
            line.get(..at)
                .and_then(|rest| rest.graphemes(true).next_back())
        };
        cluster.map_or(0, |cluster| cluster.chars().count())
    }

    fn caret(&self) -> (usize, usize) {
        let cursor = self.area.cursor();
        (cursor.0, cursor.1)
    }

    /// Up and down by drawn lines.
    fn vertical(&mut self, down: bool) {
        let places = self.places(self.cols);
        let (row, col) = self.layout(self.cols).caret;
        let target = if down {
            Some(row + 1)
        } else {
            row.checked_sub(1)
        };
        let Some(place) = target.and_then(|row| places.get(row)) else {
            return;
        };
        // The end of a line broken inside a word is the start of the next one: stay before it.
        let end = place.chars_before + place.text.chars().count();
        let broken = target
            .and_then(|row| places.get(row + 1))
            .is_some_and(|next| next.line == place.line && next.chars_before == end);
        let mut used = 0;
        let mut chars = place.chars_before;
        for cluster in place.text.graphemes(true) {
            let next = chars + cluster.chars().count();
            used += width(SafeText::line(cluster).as_str());
            if used > col || broken && next >= end {
                break;
            }
            chars = next;
        }
        let (line, at) = (u16::try_from(place.line), u16::try_from(chars));
        if let (Ok(line), Ok(at)) = (line, at) {
            self.area.move_cursor(CursorMove::Jump(line, at));
        }
    }

    /// The drawn lines with where they come from.
    fn places(&self, cols: usize) -> Vec<Place> {
        let cols = cols.max(2) - 1;
        let mut places = Vec::new();
        for (line, text) in self.area.lines().iter().enumerate() {
            let safe = SafeText::block(text);
            for range in wrap(safe.as_safe(), cols, Mode::Words) {
                let (from, to) = (source_at(text, range.start), source_at(text, range.end));
                places.push(Place {
                    line,
                    chars_before: text.get(..from).unwrap_or_default().chars().count(),
                    text: text.get(from..to).unwrap_or_default().to_owned(),
                });
            }
        }
        places
    }

    /// The text in lines of at most `cols` columns, one column kept for the caret behind a full
    /// line.
    #[must_use]
    pub fn layout(&self, cols: usize) -> Drawn {
        let cols = cols.max(2) - 1;
        let (caret_line, caret_col) = self.caret();
        let mut rows = Vec::new();
        let mut caret = (0, 0);
        for (line, text) in self.area.lines().iter().enumerate() {
            let safe = SafeText::block(text);
            let before = text.get(..byte_at(text, caret_col)).unwrap_or_default();
            let at = SafeText::block(before).as_str().len();
            for range in wrap(safe.as_safe(), cols, Mode::Words) {
                if line == caret_line && range.start <= at {
                    let part = safe.as_safe().slice(range.start..at.min(range.end));
                    caret = (rows.len(), width(part.as_str()));
                }
                rows.push(safe.as_safe().slice(range).to_text());
            }
        }
        Drawn { rows, caret }
    }

    /// Remembers the columns it is drawn with.
    pub fn set_cols(&mut self, cols: usize) {
        self.cols = cols;
    }

    /// The text in lines, and of them the `height` ones around the caret.
    #[must_use]
    pub fn window(&self, cols: usize, height: usize) -> Drawn {
        let mut drawn = self.layout(cols);
        let height = height.max(1);
        if drawn.rows.len() > height {
            let start = (drawn.caret.0 + 1).saturating_sub(height);
            drawn.rows.drain(..start);
            drawn.rows.truncate(height);
            drawn.caret.0 -= start;
        }
        drawn
    }
}

struct Place {
    line: usize,
    chars_before: usize,
    text: String,
}

/// Where in the source the drawn text has reached a length in bytes. Drawing leaves things out and
/// expands tabs, so they are not the same.
fn source_at(source: &str, drawn: usize) -> usize {
    let mut used = 0;
    let mut end = 0;
    for (at, cluster) in source.grapheme_indices(true) {
        if used >= drawn {
            return at;
        }
        used = SafeText::block(source.get(..at + cluster.len()).unwrap_or_default())
            .as_str()
            .len();
        end = at + cluster.len();
    }
    end
}

fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at)
}

/// Text as a field takes it: line ends are LF; escape sequences, other control characters and
/// direction marks are gone. An escape sequence that never ends loses its introducer only.
#[must_use]
pub fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match c {
            '\r' => {
                out.push('\n');
                after.strip_prefix('\n').unwrap_or(after)
            }
            '\n' | '\t' => {
                out.push(c);
                after
            }
            '\u{2028}' | '\u{2029}' | '\u{85}' => {
                out.push('\n');
                after
            }
            '\u{1b}' => after_escape(after),
            '\u{9b}' => after_csi(after).unwrap_or(after),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => after_string(after).unwrap_or(after),
            c if c.is_control() || is_direction(c) => after,
            c => {
                out.push(c);
                after
            }
        };
    }
    out
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn after_escape(rest: &str) -> &str {
    let mut chars = rest.chars();
    match chars.next() {
        Some('[') => after_csi(chars.as_str()).unwrap_or(chars.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(chars.as_str()).unwrap_or(chars.as_str()),
        Some('\u{20}'..='\u{2f}') => match chars.next() {
            Some(c) if !c.is_control() => chars.as_str(),
            _ => rest,
        },
        Some('\u{30}'..='\u{7e}') => chars.as_str(),
        _ => rest,
    }
}

fn after_csi(rest: &str) -> Option<&str> {
    let end = rest.find(|c: char| !('\u{20}'..='\u{3f}').contains(&c))?;
    let last = rest.get(end..)?.chars().next()?;
    ('\u{40}'..='\u{7e}')
        .contains(&last)
        .then(|| rest.get(end + 1..))?
}

fn after_string(rest: &str) -> Option<&str> {
    for (at, c) in rest.char_indices() {
        match c {
            '\u{7}' | '\u{9c}' => return rest.get(at + c.len_utf8()..),
            '\u{1b}' => {
                let tail = rest.get(at + 1..)?;
                return Some(tail.strip_prefix('\\').unwrap_or(rest.get(at..)?));
            }
            '\n' | '\r' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> Chord {
        Chord {
            code,
            mods: KeyModifiers::NONE,
        }
    }

    // B064
    #[test]
    fn a_paste_keeps_what_is_readable_and_nothing_that_acts() {
        let raw = "safe \x1b]52;c;QUJD\x07 \x1b[31mred\x1b[0m \x03 \x18\x18 \x1a \0 tail";
        assert_eq!(clean(raw), "safe  red     tail");
        assert_eq!(clean("a\x1b]52;c;never ends\nb"), "a52;c;never ends\nb");
        assert_eq!(clean("a\r\nb\rc\u{2028}d\te"), "a\nb\nc\nd\te");
        assert_eq!(clean("x\u{9b}31my\u{202e}z"), "xyz");
        assert_eq!(clean("end\x1b"), "end");
        assert_eq!(clean("\x1b[é"), "é");
    }

    // B059
    #[test]
    fn pasted_lines_stay_lines() {
        let mut field = Composer::default();
        field.insert("# Heading\r\n\r\nparagraph\r\n\r\n/continue no\r\n@max no");
        assert_eq!(field.line_count(), 6);
        assert_eq!(field.take().matches('\n').count(), 5);
        assert!(field.is_empty());
    }

    #[test]
    fn clusters_are_one_step() {
        let mut field = Composer::from_text("ae\u{301}x");
        field.key(key(KeyCode::Left));
        field.key(key(KeyCode::Backspace));
        assert_eq!(field.text(), "ax");
    }

    #[test]
    fn the_caret_is_where_the_text_is_drawn() {
        let field = Composer::from_text("abcdefgh");
        let drawn = field.layout(5);
        assert_eq!(drawn.rows.len(), 2);
        assert_eq!(drawn.caret, (1, 4));
        assert_eq!(Composer::from_text("日本").layout(20).caret, (0, 4));
        assert_eq!(Composer::from_text("a\nb").window(20, 1).caret, (0, 1));
    }

    #[test]
    fn lines_break_between_words() {
        let field = Composer::from_text("find every place that parses");
        let rows = field.layout(13).rows;
        let rows: Vec<&str> = rows.iter().map(SafeText::as_str).collect();
        assert_eq!(rows, ["find every", "place that", "parses"]);
        let mut field = Composer::from_text("find every place");
        field.set_cols(13);
        field.key(key(KeyCode::Up));
        assert_eq!(field.caret(), (0, 5), "the same column of the line above");
        field.key(key(KeyCode::Down));
        assert_eq!(field.caret(), (0, 16));
    }

    #[test]
    fn up_and_down_move_by_drawn_lines() {
        let mut field = Composer::from_text("abcdefgh");
        field.set_cols(5);
        assert!(!field.at_top());
        assert!(field.key(key(KeyCode::Up)));
        assert!(!field.key(key(KeyCode::Up)));
        field.key(key(KeyCode::Char('X')));
        assert_eq!(field.text(), "abcXdefgh");
    }
}
