//! The only place where text becomes something ratatui draws (R-TUI-10). Owns pieces, rows and
//! painting them; no other file of the screen makes a `Span`, a `Line` or sets a cell's symbol
//! (`tests/tui/paint_only.rs`).
//!
//! What can be put into a row is decided by the type: [`Word`] is implemented for texts of the
//! program (`&'static str`) and for sanitised text, and for nothing else.

use std::borrow::Cow;
use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::text::{SafeStr, SafeText};
use super::width::{ELLIPSIS, prefix_len, width};

mod sealed {
    pub trait Sealed {}
    impl Sealed for &'static str {}
    impl Sealed for super::SafeText {}
    impl Sealed for &super::SafeText {}
    impl Sealed for super::SafeStr<'_> {}
}

/// Text that may be drawn. Sealed.
pub trait Word: sealed::Sealed {
    /// The text, owned or static.
    fn into_cow(self) -> Cow<'static, str>;
}

impl Word for &'static str {
    fn into_cow(self) -> Cow<'static, str> {
        Cow::Borrowed(self)
    }
}

impl Word for SafeText {
    fn into_cow(self) -> Cow<'static, str> {
        Cow::Owned(self.into_inner())
    }
}

impl Word for &SafeText {
    fn into_cow(self) -> Cow<'static, str> {
        Cow::Owned(self.as_str().to_owned())
    }
}

impl Word for SafeStr<'_> {
    fn into_cow(self) -> Cow<'static, str> {
        Cow::Owned(self.as_str().to_owned())
    }
}

/// A piece of one line in one style.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    text: Cow<'static, str>,
    style: Style,
    cols: usize,
}

impl Piece {
    /// A piece.
    #[must_use]
    pub fn new(word: impl Word, style: Style) -> Self {
        let mut text = word.into_cow();
        if text.contains('\n') {
            text = Cow::Owned(text.replace('\n', " "));
        }
        let cols = width(&text);
        Self { text, style, cols }
    }

    /// Columns it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.cols
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its style.
    #[must_use]
    pub fn style(&self) -> Style {
        self.style
    }
}

/// One screen line: pieces from the left and pieces that end at the right edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    left: Vec<Piece>,
    right: Vec<Piece>,
    fill: Style,
    stretch: Option<usize>,
    continued: bool,
}

impl Row {
    /// An empty row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece at the left.
    #[must_use]
    pub fn put(mut self, word: impl Word, style: Style) -> Self {
        self.push(word, style);
        self
    }

    /// Adds a piece at the left in place.
    pub fn push(&mut self, word: impl Word, style: Style) {
        let piece = Piece::new(word, style);
        if piece.cols > 0 {
            self.left.push(piece);
        }
    }

    /// Adds a ready piece at the left in place.
    pub fn push_piece(&mut self, piece: Piece) {
        if piece.cols > 0 {
            self.left.push(piece);
        }
    }

    /// Adds the left pieces of another row.
    pub fn append(&mut self, other: &Self) {
        self.left.extend(other.left.iter().cloned());
    }

    /// Adds a part of a text with styles that change inside it: `runs` are (byte offset, style
    /// from there on), ascending; before the first one, and under all of them, lies `base`.
    pub fn push_runs(
        &mut self,
        text: SafeStr<'_>,
        range: Range<usize>,
        runs: &[(usize, Style)],
        base: Style,
    ) {
        let first = runs.partition_point(|(at, _)| *at <= range.start);
        let mut from = range.start;
        let mut style = first
            .checked_sub(1)
            .and_then(|i| runs.get(i))
            .map_or(base, |(_, s)| base.patch(*s));
        for (at, next) in runs.get(first..).unwrap_or_default() {
            if *at >= range.end {
                break;
            }
            self.push(text.slice(from..*at), style);
            from = *at;
            style = base.patch(*next);
        }
        self.push(text.slice(from..range.end), style);
    }

    /// Adds blanks at the left.
    #[must_use]
    pub fn indent(mut self, cols: usize) -> Self {
        self.push(blanks(cols), Style::new());
        self
    }

    /// Adds a piece at the right.
    #[must_use]
    pub fn put_right(mut self, word: impl Word, style: Style) -> Self {
        self.push_right(word, style);
        self
    }

    /// Adds a piece at the right in place.
    pub fn push_right(&mut self, word: impl Word, style: Style) {
        let piece = Piece::new(word, style);
        if piece.cols > 0 {
            self.right.push(piece);
        }
    }

    /// Marks the last left piece as the one that gives way when the row is too long; without it
    /// the end of the row is cut.
    #[must_use]
    pub fn shrink_last(mut self) -> Self {
        self.stretch = self.left.len().checked_sub(1);
        self
    }

    /// Style under the whole row: a ground, or the selected row.
    #[must_use]
    pub fn on(mut self, fill: Style) -> Self {
        self.fill = fill;
        self
    }

    /// The same in place.
    pub fn set_ground(&mut self, fill: Style) {
        self.fill = fill;
    }

    /// Changes the style of every piece (dimming a lost row, down-conversion).
    pub fn restyle(&mut self, change: impl Fn(Style) -> Style) {
        for piece in self.left.iter_mut().chain(&mut self.right) {
            piece.style = change(piece.style);
        }
    }

    /// Says that this row goes on with the line of the row above it: how a viewport finds the
    /// same line again at another width.
    pub fn set_continued(&mut self, continued: bool) {
        self.continued = continued;
    }

    /// True when it goes on with the line above it.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        self.continued
    }

    /// Columns of the left pieces.
    #[must_use]
    pub fn left_width(&self) -> usize {
        self.left.iter().map(|p| p.cols).sum()
    }

    /// Columns of the right pieces.
    #[must_use]
    pub fn right_width(&self) -> usize {
        self.right.iter().map(|p| p.cols).sum()
    }

    /// True when nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.right.is_empty()
    }

    /// The left pieces.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.left
    }

    /// Its text without styles, left and right.
    #[must_use]
    pub fn plain(&self) -> String {
        self.left
            .iter()
            .chain(&self.right)
            .map(|p| p.text.as_ref())
            .collect()
    }

    /// Lays the row out for a width: what is too long is cut with `…`, the right pieces keep
    /// their place at the edge and go only when nothing but they would be left.
    #[must_use]
    pub fn fit(&self, cols: usize) -> Line<'static> {
        let mut spans: Vec<Span<'static>> = Vec::with_capacity(self.left.len() + 2);
        let used = self.lay(cols, &mut |text, style, _| {
            spans.push(Span::styled(text.to_owned(), style));
        });
        if self.fill != Style::new() && used < cols {
            spans.push(Span::raw(blanks(cols - used).into_cow()));
        }
        Line::from(spans).style(self.fill)
    }

    /// Paints the row at (`x`, `y`), never beyond `cols` columns nor outside the buffer.
    pub fn paint(&self, buf: &mut Buffer, x: u16, y: u16, cols: u16) {
        let area = buf.area;
        if y < area.top() || y >= area.bottom() || x < area.left() || x >= area.right() {
            return;
        }
        let cols = cols.min(area.right() - x);
        if self.fill != Style::new() {
            buf.set_style(Rect::new(x, y, cols, 1), self.fill);
        }
        let fill = self.fill;
        self.lay(usize::from(cols), &mut |text, style, at| {
            let at = x.saturating_add(u16::try_from(at).unwrap_or(u16::MAX));
            if at < area.right() {
                let _ = buf.set_stringn(
                    at,
                    y,
                    text,
                    usize::from(area.right() - at),
                    fill.patch(style),
                );
            }
        });
    }

    /// Gives every visible piece with its column to `emit`; returns the columns used.
    fn lay(&self, cols: usize, emit: &mut impl FnMut(&str, Style, usize)) -> usize {
        let right = self.right_width();
        // One blank between the two sides; at least a few columns stay for the left one.
        let keep_right = right > 0 && (self.left.is_empty() && right <= cols || right + 5 <= cols);
        let room = if keep_right {
            cols - right - usize::from(!self.left.is_empty())
        } else {
            cols
        };
        let total = self.left_width();
        let mut at = 0;
        if total <= room {
            for piece in &self.left {
                emit(&piece.text, piece.style, at);
                at += piece.cols;
            }
        } else {
            let over = total - room;
            let shrink = self.stretch.and_then(|i| {
                let piece = self.left.get(i)?;
                (piece.cols > over + 1).then(|| (i, piece.cols - over))
            });
            for (i, piece) in self.left.iter().enumerate() {
                let limit = match shrink {
                    Some((at, keep)) if at == i => keep,
                    Some(_) => piece.cols,
                    None => room - at,
                };
                if piece.cols <= limit && (shrink.is_some() || at + piece.cols < room) {
                    emit(&piece.text, piece.style, at);
                    at += piece.cols;
                    continue;
                }
                if limit > 0 {
                    let len = prefix_len(&piece.text, limit - 1);
                    let text = piece.text.get(..len).unwrap_or_default();
                    emit(text, piece.style, at);
                    at += width(text);
                    emit(ELLIPSIS, piece.style, at);
                    at += 1;
                }
                if shrink.is_none() {
                    break;
                }
            }
        }
        if keep_right {
            let mut gap = cols - right - at;
            let start = cols - right;
            while gap > 0 {
                let n = gap.min(BLANKS.len());
                emit(
                    BLANKS.get(..n).unwrap_or_default(),
                    Style::new(),
                    start - gap,
                );
                gap -= n;
            }
            at = start;
            for piece in &self.right {
                emit(&piece.text, piece.style, at);
                at += piece.cols;
            }
        }
        at
    }
}

const BLANKS: &str = "                                                                ";

/// Blanks as a drawable text.
#[must_use]
pub fn blanks(cols: usize) -> SafeText {
    SafeText::repeat(' ', cols)
}

/// Paints rows from the top of an area; what is too much is left out.
pub fn rows(buf: &mut Buffer, area: Rect, rows: &[Row]) {
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        row.paint(buf, area.x, y, area.width);
    }
}

/// Paints one row at the top of an area.
pub fn row(buf: &mut Buffer, area: Rect, row: &Row) {
    if area.height > 0 {
        row.paint(buf, area.x, area.y, area.width);
    }
}

/// Clears an area to blanks in a style (under overlays).
pub fn clear(buf: &mut Buffer, area: Rect, style: Style) {
    let area = area.intersection(buf.area);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
                cell.set_style(style);
            }
        }
    }
}

/// Sets a style on an area without touching its text (selection, dimming).
pub fn ground(buf: &mut Buffer, area: Rect, style: Style) {
    buf.set_style(area.intersection(buf.area), style);
}

/// A horizontal rule over the width of the area's first line.
pub fn rule(buf: &mut Buffer, area: Rect, style: Style) {
    if area.height > 0 {
        Row::new()
            .put(SafeText::repeat('─', usize::from(area.width)), style)
            .paint(buf, area.x, area.y, area.width);
    }
}

/// A rounded box around an area with a title in its top and one at the right end of its bottom
/// border. Returns the inside. Too small an area is left as it is.
pub fn frame(buf: &mut Buffer, area: Rect, border: Style, title: &Row, bottom: &Row) -> Rect {
    let area = area.intersection(buf.area);
    if area.width < 2 || area.height < 2 {
        return Rect::new(area.x, area.y, 0, 0);
    }
    let inside = Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2);
    let dash = SafeText::repeat('─', usize::from(inside.width));
    let (top, low) = (area.top(), area.bottom() - 1);
    Row::new()
        .put("╭", border)
        .put(&dash, border)
        .put("╮", border)
        .paint(buf, area.x, top, area.width);
    Row::new()
        .put("╰", border)
        .put(&dash, border)
        .put("╯", border)
        .paint(buf, area.x, low, area.width);
    for y in top + 1..low {
        Row::new().put("│", border).paint(buf, area.x, y, 1);
        Row::new()
            .put("│", border)
            .paint(buf, area.right() - 1, y, 1);
    }
    let room = usize::from(inside.width);
    if !title.is_empty() && room >= 6 {
        let cols = (title.left_width() + title.right_width()).min(room - 3);
        title_at(buf, title, area.x + 2, top, cols);
    }
    if !bottom.is_empty() && room >= 6 {
        let cols = (bottom.left_width() + bottom.right_width()).min(room - 3);
        let x = area.right() - 2 - u16::try_from(cols).unwrap_or(0);
        title_at(buf, bottom, x, low, cols);
    }
    inside
}

/// A rule inside a box, joined to its sides (`├───┤`), with a title.
pub fn frame_rule(buf: &mut Buffer, area: Rect, y: u16, border: Style, title: &Row) {
    let area = area.intersection(buf.area);
    if area.width < 2 || y < area.top() || y >= area.bottom() {
        return;
    }
    let room = usize::from(area.width - 2);
    Row::new()
        .put("├", border)
        .put(SafeText::repeat('─', room), border)
        .put("┤", border)
        .paint(buf, area.x, y, area.width);
    if !title.is_empty() && room >= 6 {
        let cols = (title.left_width() + title.right_width()).min(room - 3);
        title_at(buf, title, area.x + 2, y, cols);
    }
}

fn title_at(buf: &mut Buffer, title: &Row, x: u16, y: u16, cols: usize) {
    let cols = u16::try_from(cols).unwrap_or(0);
    Row::new().put(" ", Style::new()).paint(buf, x - 1, y, 1);
    clear(buf, Rect::new(x, y, cols, 1), Style::new());
    title.paint(buf, x, y, cols);
    Row::new().put(" ", Style::new()).paint(buf, x + cols, y, 1);
}
