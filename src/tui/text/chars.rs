//! Character by character: what is kept, replaced and dropped. Owns the classes of characters.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use super::TAB;
use crate::tui::width::width;

/// How many characters without width of their own one base may carry. Real scripts stay far
/// below; without a bound one cell could hold megabytes.
const MAX_MARKS: usize = 8;

/// Collects safe text.
pub(super) struct Out {
    text: String,
    block: bool,
    /// A byte offset of the present line and the column there: where tabs count from.
    mark_at: (usize, usize),
    /// Byte offset of the last character with a width.
    base: usize,
    /// Last character of the source line that was not dropped, and marks after its base.
    prev: Option<char>,
    marks: usize,
    /// A Hangul syllable being put together.
    jamo: Jamo,
}

#[derive(Clone, Copy)]
enum Jamo {
    None,
    Lead(u32),
    Syllable(u32),
}

impl Out {
    pub(super) fn new(hint: usize, block: bool) -> Self {
        Self {
            text: String::with_capacity(hint),
            block,
            mark_at: (0, 0),
            base: 0,
            prev: None,
            marks: 0,
            jamo: Jamo::None,
        }
    }

    /// The first line begins in this column.
    pub(super) fn at_column(mut self, column: usize) -> Self {
        self.mark_at = (0, column);
        self
    }

    /// Bytes written, nothing pending.
    pub(super) fn settle(&mut self) -> usize {
        self.flush_jamo();
        self.text.len()
    }

    pub(super) fn finish(mut self) -> String {
        self.flush_jamo();
        self.text
    }

    fn put(&mut self, c: char) {
        self.base = self.text.len();
        self.text.push(c);
        self.prev = Some(c);
        self.marks = 0;
    }

    fn line_break(&mut self) {
        if self.block {
            self.text.push('\n');
            self.mark_at = (self.text.len(), 0);
        } else {
            self.text.push(' ');
        }
        self.prev = None;
        self.marks = 0;
    }

    fn tab(&mut self) {
        if !self.block {
            return self.put(' ');
        }
        let (from, column) = self.mark_at;
        let column = column + width(self.text.get(from..).unwrap_or_default());
        let stop = column + TAB - column % TAB;
        for _ in column..stop {
            self.put(' ');
        }
        self.mark_at = (self.text.len(), stop);
    }

    /// Takes one character that is not part of an escape sequence.
    pub(super) fn push(&mut self, c: char) {
        if self.take_jamo(c) {
            return;
        }
        match c {
            ' '..='~' => self.put(c),
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                self.line_break();
            }
            '\t' => self.tab(),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {}
            // Joiners shape letters of some scripts and nothing else.
            '\u{200c}' | '\u{200d}' => {
                if self.prev.is_some_and(joins_letters) {
                    self.mark(c);
                }
            }
            // Hangul fillers: blank on one terminal, two columns on another.
            '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => self.put(' '),
            '\u{1f3fb}'..='\u{1f3ff}' => {
                // A skin tone behind an emoji goes; alone it is a box.
                if self.prev.is_none_or(|p| u32::from(p) <= 0x2100) {
                    self.put('□');
                }
            }
            '\u{1f1e6}'..='\u{1f1ff}' => {
                let letter = u8::try_from(u32::from(c) - 0x1f1e6).unwrap_or(0);
                self.put(char::from(b'A' + letter));
            }
            _ if invisible(c) => {}
            // Drawn by most terminals, swallowed by some.
            '\u{fffd}' => self.put('□'),
            _ if noncharacter(c) => self.put('□'),
            _ if c.width() == Some(0) => self.mark(c),
            _ => self.put(c),
        }
    }

    /// A character without width of its own: kept behind a base, bounded in number.
    fn mark(&mut self, c: char) {
        if self.prev.is_none() {
            self.put('◌');
        }
        if self.marks < MAX_MARKS {
            self.text.push(c);
            self.marks += 1;
            self.prev = Some(c);
            // A "mark" that begins a cluster of its own would be dropped by the buffer.
            let tail = self.text.get(self.base..).unwrap_or_default();
            if tail
                .graphemes(true)
                .next_back()
                .is_some_and(|g| width(g) == 0)
            {
                self.text.pop();
                self.text.push('□');
                self.prev = Some('□');
                self.marks = 0;
            }
        }
    }

    /// Puts Hangul parts together (Unicode 3.12), which every terminal draws alike.
    fn take_jamo(&mut self, c: char) -> bool {
        let code = u32::from(c);
        match (self.jamo, code) {
            (Jamo::Lead(lead), 0x1161..=0x1175) => {
                let syllable = 0xac00 + ((lead - 0x1100) * 21 + (code - 0x1161)) * 28;
                self.jamo = Jamo::Syllable(syllable);
                return true;
            }
            (Jamo::Syllable(s), 0x11a8..=0x11c2) => {
                self.jamo = Jamo::Syllable(s + code - 0x11a7);
                self.flush_jamo();
                return true;
            }
            (Jamo::None, _) => {}
            _ => self.flush_jamo(),
        }
        match code {
            0x1100..=0x1112 => self.jamo = Jamo::Lead(code),
            // Vowels and tails that belong to nothing have no width to stand on.
            0x1161..=0x11ff | 0xd7b0..=0xd7fb => self.put('□'),
            0xac00..=0xd7a3 if (code - 0xac00).is_multiple_of(28) => {
                self.jamo = Jamo::Syllable(code);
            }
            _ => return false,
        }
        true
    }

    fn flush_jamo(&mut self) {
        if let Jamo::Lead(code) | Jamo::Syllable(code) = self.jamo {
            self.jamo = Jamo::None;
            if let Some(c) = char::from_u32(code) {
                self.put(c);
            }
        }
    }
}

/// Scripts whose letters are shaped by joiners: Arabic to Sinhala, Myanmar, Khmer, Mongolian.
fn joins_letters(c: char) -> bool {
    matches!(u32::from(c), 0x0600..=0x0dff | 0x1000..=0x109f | 0x1780..=0x18af)
}

/// Characters nobody sees: they reorder, hide, join, select or annotate.
fn invisible(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00ad
            | 0x034f
            | 0x061c
            | 0x17b4..=0x17b5
            | 0x180b..=0x180f
            | 0x200b..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0xfe00..=0xfe0f
            | 0xfeff
            | 0xfff0..=0xfffb
            | 0x1bca0..=0x1bca3
            | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff
    )
}

fn noncharacter(c: char) -> bool {
    let code = u32::from(c);
    code & 0xfffe == 0xfffe || matches!(code, 0xfdd0..=0xfdef)
}
