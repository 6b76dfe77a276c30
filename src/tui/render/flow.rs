//! Styled text that wraps: one safe text with styles beside it.

use std::ops::Range;

use ratatui::style::Style;

use crate::tui::paint::Row;
use crate::tui::text::{AnsiText, SafeStr, SafeText};
use crate::tui::theme::Theme;
use crate::tui::width::width;
use crate::tui::wrap::{Mode, wrap};

/// A text with styles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    text: SafeText,
    runs: Vec<(usize, Style)>,
}

impl Flow {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One text in the style it is laid over.
    #[must_use]
    pub fn plain(text: SafeText) -> Self {
        Self {
            text,
            runs: Vec::new(),
        }
    }

    /// Output of a program, its colours converted to what there is.
    #[must_use]
    pub fn ansi(text: &AnsiText, theme: &Theme) -> Self {
        Self {
            text: text.text().to_text(),
            runs: text
                .runs()
                .iter()
                .map(|(at, style)| (*at, theme.output_style(*style)))
                .collect(),
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> SafeStr<'_> {
        self.text.as_safe()
    }

    /// True when there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Columns of its longest line.
    #[must_use]
    pub fn width(&self) -> usize {
        self.text()
            .lines()
            .map(|l| width(l.as_str()))
            .max()
            .unwrap_or(0)
    }

    /// Appends a text in a style.
    pub fn push<'a>(&mut self, text: impl Into<SafeStr<'a>>, style: Style) {
        let text: SafeStr<'a> = text.into();
        if text.is_empty() {
            return;
        }
        let at = self.text.as_str().len();
        match self.runs.last() {
            Some((_, last)) if *last == style => {}
            None if style == Style::new() => {}
            _ => self.runs.push((at, style)),
        }
        self.text.push(text);
    }

    /// Appends a text of the program's own.
    pub fn push_static(&mut self, text: &'static str, style: Style) {
        self.push(SafeStr::from_static(text), style);
    }

    /// Appends a raw text; its tabs go to the stops of this text's own line.
    pub fn push_raw(&mut self, raw: &str, style: Style) {
        let column = if raw.contains('\t') {
            let all = self.text.as_str();
            let line = all.rfind('\n').map_or(0, |at| at + 1);
            width(all.get(line..).unwrap_or_default())
        } else {
            0
        };
        self.push(&SafeText::block_at(raw, column), style);
    }

    /// Appends another one with its styles.
    pub fn append(&mut self, other: &Self) {
        let base = self.text.as_str().len();
        if other.runs.first().is_none_or(|(at, _)| *at > 0) && !self.runs.is_empty() {
            self.runs.push((base, Style::new()));
        }
        self.runs
            .extend(other.runs.iter().map(|(at, s)| (base + at, *s)));
        self.text.push(other.text());
    }

    /// Where the lines break for a width.
    #[must_use]
    pub fn wrap(&self, cols: usize, mode: Mode) -> Vec<Range<usize>> {
        wrap(self.text(), cols, mode)
    }

    /// Appends one line of it to a row.
    pub fn put(&self, row: &mut Row, range: Range<usize>, base: Style) {
        let before = self.text.as_str().as_bytes().get(..range.start);
        let inside = before.and_then(<[u8]>::last).is_some_and(|b| *b != b'\n');
        row.set_continued(inside);
        row.push_runs(self.text(), range, &self.runs, base);
    }

    /// Appends the lines as rows; `start` gives the row each line is put into (its prefix).
    pub fn rows(
        &self,
        ranges: &[Range<usize>],
        base: Style,
        mut start: impl FnMut() -> Row,
        out: &mut Vec<Row>,
    ) {
        for range in ranges {
            let mut row = start();
            self.put(&mut row, range.clone(), base);
            out.push(row);
        }
    }
}
