//! Markdown to rows. Owns the looks of headings, lists, quotes, code, links and tables.
//!
//! Answers stream in: blocks that a later text cannot change any more are frozen, only the last
//! block of the text is parsed and laid out again ([`Streaming`]). Line breaks of a paragraph are
//! kept, as a model means them. Sequences are taken out before parsing, and every piece of text
//! is sanitised after it (an entity can spell an escape character).

mod blocks;
mod table;

use pulldown_cmark::{Options, Parser};
use ratatui::style::Style;

use crate::tui::paint::Row;
use crate::tui::text::without_sequences;
use crate::tui::theme::Theme;

/// How a text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Columns for the text.
    pub cols: usize,
    /// Blanks before every row.
    pub indent: usize,
    /// Colours.
    pub theme: &'a Theme,
    /// Style under everything.
    pub base: Style,
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Renders a whole text.
pub fn render(raw: &str, look: &Look<'_>, out: &mut Vec<Row>) {
    let source = without_sequences(raw);
    blocks::render(
        Parser::new_ext(&source, options()).into_offset_iter(),
        look,
        false,
        0,
        out,
    );
}

/// What is kept between two renderings of a growing text.
#[derive(Clone, Debug, Default)]
pub struct Streaming {
    /// The raw text of the last call, to notice one that did not only grow.
    seen: String,
    /// Bytes of the raw text whose rows do not change any more.
    frozen: usize,
    /// Rows (in the output) they gave.
    rows: usize,
    /// A blank row is due before what follows them.
    gap: bool,
    cols: usize,
}

impl Streaming {
    /// Brings `out` up to date: it holds what the last call left there. A text that did more
    /// than grow, and other columns, start anew. With `gap` a blank row comes first.
    pub fn update(&mut self, raw: &str, look: &Look<'_>, gap: bool, out: &mut Vec<Row>) {
        let grown = raw
            .strip_prefix(self.seen.as_str())
            .filter(|_| self.cols == look.cols && self.rows <= out.len());
        match grown {
            Some(more) => self.seen.push_str(more),
            None => {
                *self = Self {
                    seen: raw.to_owned(),
                    ..Self::default()
                }
            }
        }
        if self.frozen == 0 {
            self.gap = gap;
        }
        self.cols = look.cols;
        out.truncate(self.rows);
        let tail = raw.get(self.frozen..).unwrap_or_default();
        let source = without_sequences(tail);
        let parser = Parser::new_ext(&source, options()).into_offset_iter();
        // More text on a line can change what the line is, so a block counts as begun only when
        // its first line is complete.
        let settled = source.rfind('\n').unwrap_or(0);
        let Some(last) = blocks::render(parser, look, self.gap, settled, out) else {
            return;
        };
        let before = source.get(..last.source).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        if start == 0 || !before.get(start..).unwrap_or_default().trim().is_empty() {
            return;
        }
        // The same line of the raw text is found by counting: taking sequences out keeps every
        // line feed.
        let lines = before.bytes().filter(|b| *b == b'\n').count();
        if let Some(at) = memchr::memchr_iter(b'\n', tail.as_bytes()).nth(lines - 1) {
            self.frozen += at + 1;
            self.rows = last.rows;
            self.gap = last.gap;
        }
    }
}
