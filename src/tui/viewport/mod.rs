//! Scrolling over a transcript of any length (R-TUI-04, R-TUI-05). Owns which rows of which
//! entries are on the screen, what is folded, and the drawings of the entries around.
//!
//! Invariants:
//! - what is drawn is exact; heights of entries never drawn are estimates and serve the scrollbar
//!   only;
//! - the cost of a frame depends on the rows on the screen, not on the length of the transcript;
//! - while the reader has scrolled away, the top line stays the same line, whatever arrives and
//!   however wide the view becomes (B050); only reaching the end follows again.
//!
//! Scrolling is asked for at any time and done at the next drawing, where widths are known.

mod heights;
mod moves;

use std::collections::HashMap;
use std::ops::Range;

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::heights::Heights;
use self::moves::Move;
use super::cards::{self, CardCtx, Memo, Sort};
use super::paint::Row;
use super::text::SafeText;
use super::theme::Theme;
use super::width;
use crate::fleet::transcript::{Entry, EntryKind, TranscriptLog};

/// Drawings kept at most; beyond it the ones not used for longest go.
const MAX_CACHED: usize = 512;

/// What a frame is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct ViewCtx<'a> {
    /// Colours and icons.
    pub theme: &'a Theme,
    /// Wall clock, Unix milliseconds.
    pub now_ms: i64,
    /// Frame of the spinner; `None` = reduced motion.
    pub spinner: Option<usize>,
    /// Zone for times of day.
    pub zone: &'a TimeZone,
    /// Entry with the cursor: a bar marks it.
    pub cursor: Option<u64>,
}

/// What lies below the view while it does not follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Entries that came since the view left the end.
    pub entries: u64,
    /// Anything came, be it only more text of a known entry.
    pub new: bool,
}

/// Where the view is, in rows; entries never drawn count with an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows above the view.
    pub top: u64,
    /// All rows.
    pub total: u64,
}

/// A place: a row of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    seq: u64,
    row: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    rev: u64,
    width: usize,
    folded: bool,
    /// The rule of what is new stands above it.
    ruled: bool,
    /// Spinner frame and second, for cards that move.
    moment: (Option<usize>, i64),
}

#[derive(Debug, Default)]
struct Drawing {
    key: Option<Key>,
    /// What is drawn.
    rows: Vec<Row>,
    /// The card alone, while a rule stands above it.
    card: Vec<Row>,
    memo: Memo,
    used: u64,
}

/// A rule between what was seen and what is new (screens.md §3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The first new entry.
    pub seq: u64,
    /// What the rule says.
    pub text: SafeText,
}

impl Mark {
    /// `── new since 12:03 · 3 tools, 1 answer ──────`
    fn rule(&self, width: usize, theme: &Theme) -> Row {
        let used = 4 + width::width(self.text.as_str());
        Row::new()
            .put("── ", theme.border_muted)
            .put(&self.text, theme.accent)
            .put(" ", theme.border_muted)
            .put(
                SafeText::repeat('─', width.saturating_sub(used)),
                theme.border_muted,
            )
    }
}

/// A scrolling view of one transcript.
#[derive(Debug)]
pub struct Viewport {
    heights: Heights,
    drawings: HashMap<u64, Drawing>,
    folded: bool,
    /// Entries whose fold differs from `folded`.
    exceptions: HashMap<u64, bool>,
    top: Place,
    follow: bool,
    moves: Vec<Move>,
    /// Revision and next entry when the end was last on the screen.
    seen: (u64, u64),
    /// What the last frame showed: entry, its rows, first screen row.
    shown: Vec<(u64, Range<usize>, u16)>,
    area: Rect,
    width: usize,
    frame: u64,
    mark: Option<Mark>,
}

impl Default for Viewport {
    fn default() -> Self {
        Self::new()
    }
}

impl Viewport {
    /// A view that follows the end, everything folded.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heights: Heights::default(),
            drawings: HashMap::new(),
            folded: true,
            exceptions: HashMap::new(),
            top: Place::default(),
            follow: true,
            moves: Vec::new(),
            seen: (0, 0),
            shown: Vec::new(),
            area: Rect::ZERO,
            width: 0,
            frame: 0,
            mark: None,
        }
    }

    /// Puts the rule of what is new above an entry, or takes it away.
    pub fn set_mark(&mut self, mark: Option<Mark>) {
        self.mark = mark;
    }

    /// True while the end is followed.
    #[must_use]
    pub fn following(&self) -> bool {
        self.follow
    }

    /// True when cards are folded unless opened one by one.
    #[must_use]
    pub fn all_folded(&self) -> bool {
        self.folded
    }

    /// True when this entry is folded.
    #[must_use]
    pub fn is_folded(&self, seq: u64) -> bool {
        self.exceptions.get(&seq).copied().unwrap_or(self.folded)
    }

    /// Folds or opens one entry. Its first row stays where it is.
    pub fn toggle(&mut self, seq: u64) {
        let folded = !self.is_folded(seq);
        if folded == self.folded {
            self.exceptions.remove(&seq);
        } else {
            self.exceptions.insert(seq, folded);
        }
        self.keep_top(Some(seq));
    }

    /// Folds or opens all entries.
    pub fn toggle_all(&mut self) {
        self.folded = !self.folded;
        self.exceptions.clear();
        if !self.follow {
            self.keep_top(None);
        }
    }

    /// Stops following where the view is now; a following drawing that shows the end follows
    /// again.
    fn keep_top(&mut self, seq: Option<u64>) {
        if seq.is_none_or(|seq| seq == self.top.seq) {
            self.top.row = 0;
        }
        if self.follow && seq.is_some() {
            self.follow = false;
            self.moves.push(Move::Rows(0));
        }
    }

    /// Throws all drawings away (another theme).
    pub fn invalidate(&mut self) {
        self.drawings.clear();
    }

    /// The entry drawn at this screen position, and which of its rows.
    #[must_use]
    pub fn hit(&self, x: u16, y: u16) -> Option<(u64, usize)> {
        if !self.area.contains((x, y).into()) {
            return None;
        }
        self.shown.iter().find_map(|(seq, rows, from)| {
            let at = usize::from(y.checked_sub(*from)?);
            (at < rows.len()).then_some((*seq, rows.start + at))
        })
    }

    /// Entries on the screen, from the top, as of the last drawing.
    pub fn visible(&self) -> impl Iterator<Item = u64> {
        self.shown.iter().map(|(seq, _, _)| *seq)
    }

    /// True when something on the screen moves by itself (spinners, running times).
    #[must_use]
    pub fn moving(&self, log: &TranscriptLog) -> bool {
        self.visible()
            .any(|seq| log.get(seq).is_some_and(|e| cards::moves(&e.kind)))
    }

    /// What came below while the reader was away from the end.
    #[must_use]
    pub fn below(&self, log: &TranscriptLog) -> Below {
        if self.follow {
            return Below::default();
        }
        Below {
            entries: log.next_seq().saturating_sub(self.seen.1),
            new: log.rev() > self.seen.0,
        }
    }

    /// Where the view is.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            top: self.heights.before(self.top.seq) + self.top.row as u64,
            total: self.heights.total(),
        }
    }

    /// Draws the transcript into an area.
    pub fn draw(&mut self, buf: &mut Buffer, area: Rect, log: &TranscriptLog, ctx: &ViewCtx<'_>) {
        let area = area.intersection(buf.area);
        self.area = area;
        self.shown.clear();
        self.frame += 1;
        let height = usize::from(area.height);
        let width = usize::from(area.width);
        if height == 0 || width == 0 {
            return;
        }
        self.sync(log, width);
        let line = (width != self.width).then(|| self.line_of_top());
        self.width = width;
        if let Some(line) = line {
            self.row_of_line(line, log, ctx);
        }
        let down = self.act(log, ctx, height);
        let end = self.place(log, ctx, height, down);
        if end {
            self.seen = (log.rev(), log.next_seq());
        }
        self.paint(buf, area, log, ctx);
        self.trim();
    }

    /// Takes over what was added to and lost from the log.
    fn sync(&mut self, log: &TranscriptLog, width: usize) {
        if self.heights.next() > log.next_seq() || self.heights.next() < log.first_seq() {
            self.heights = Heights::starting_at(log.first_seq());
            self.drawings.clear();
        }
        self.heights.drop_before(log.first_seq());
        for seq in self.heights.next()..log.next_seq() {
            let estimate = log.get(seq).map_or(0, |e| estimate(e, width, self.folded));
            self.heights.push(estimate);
        }
        let last = log.next_seq().saturating_sub(1).max(log.first_seq());
        if self.top.seq < log.first_seq() {
            self.top = Place {
                seq: log.first_seq(),
                row: 0,
            };
        } else if self.top.seq > last {
            self.top = Place { seq: last, row: 0 };
            self.follow = true;
        }
    }

    /// Rows of an entry, drawn anew only when something about it changed.
    fn ensure(&mut self, seq: u64, log: &TranscriptLog, ctx: &ViewCtx<'_>) -> usize {
        let (Some(entry), Some(rev)) = (log.get(seq), log.entry_rev(seq)) else {
            return 0;
        };
        let folded = self.is_folded(seq);
        let key = Key {
            rev,
            width: self.width,
            folded: folded && cards::folds(&entry.kind),
            ruled: self.mark.as_ref().is_some_and(|m| m.seq == seq),
            moment: if cards::moves(&entry.kind) {
                (ctx.spinner, ctx.now_ms.div_euclid(1000))
            } else {
                (None, 0)
            },
        };
        let drawing = self.drawings.entry(seq).or_default();
        drawing.used = self.frame;
        if drawing.key == Some(key) {
            return drawing.rows.len();
        }
        if drawing
            .key
            .is_none_or(|k| (k.width, k.folded, k.ruled) != (key.width, key.folded, key.ruled))
        {
            drawing.rows.clear();
            drawing.card.clear();
            drawing.memo = Memo::default();
        }
        let card = CardCtx {
            width: self.width,
            theme: ctx.theme,
            folded,
            now_ms: ctx.now_ms,
            spinner: ctx.spinner,
            zone: ctx.zone,
            above: above(seq, log),
        };
        match self.mark.as_ref().filter(|_| key.ruled) {
            None => cards::render(entry, &card, &mut drawing.memo, &mut drawing.rows),
            Some(mark) => {
                cards::render(entry, &card, &mut drawing.memo, &mut drawing.card);
                drawing.rows.clear();
                drawing.rows.push(Row::new());
                drawing.rows.push(mark.rule(self.width, ctx.theme));
                drawing.rows.extend(drawing.card.iter().cloned());
            }
        }
        drawing.key = Some(key);
        let rows = drawing.rows.len();
        self.heights
            .set(seq, u32::try_from(rows).unwrap_or(u32::MAX));
        rows
    }

    /// Which line of its entry the top row belongs to, and how far into it: what stays the same
    /// at another width.
    fn line_of_top(&self) -> Option<(usize, usize)> {
        let rows = &self.drawings.get(&self.top.seq)?.rows;
        let before = rows.get(..=self.top.row.min(rows.len().checked_sub(1)?))?;
        let line = before.iter().filter(|r| !r.is_continued()).count();
        let into = before.iter().rev().take_while(|r| r.is_continued()).count();
        Some((line, into))
    }

    fn row_of_line(
        &mut self,
        line: Option<(usize, usize)>,
        log: &TranscriptLog,
        ctx: &ViewCtx<'_>,
    ) {
        let rows = self.ensure(self.top.seq, log, ctx);
        let Some((line, into)) = line else {
            self.top.row = self.top.row.min(rows.saturating_sub(1));
            return;
        };
        let Some(drawing) = self.drawings.get(&self.top.seq) else {
            return;
        };
        let mut seen = 0;
        let mut found = 0;
        for (at, row) in drawing.rows.iter().enumerate() {
            seen += usize::from(!row.is_continued());
            if seen == line {
                found = at;
                break;
            }
        }
        let deep = drawing
            .rows
            .iter()
            .skip(found + 1)
            .take(into)
            .take_while(|r| r.is_continued())
            .count();
        self.top.row = found + deep;
    }

    /// Finds the top row and what is below it; true when the end is on the screen. With `down`
    /// reaching the end follows it again.
    fn place(&mut self, log: &TranscriptLog, ctx: &ViewCtx<'_>, height: usize, down: bool) -> bool {
        if !self.follow {
            if self.fill(log, ctx, height) > 0 {
                return false;
            }
            // The end came up above the last row of the view: no empty rows below it.
            self.follow = down;
            self.align_end(log, ctx, height);
            self.fill(log, ctx, height);
            return true;
        }
        self.align_end(log, ctx, height);
        self.fill(log, ctx, height);
        true
    }

    /// Puts the top where the last row is the last one of the view.
    fn align_end(&mut self, log: &TranscriptLog, ctx: &ViewCtx<'_>, height: usize) {
        let mut have = 0;
        let mut seq = log.next_seq();
        while have < height && seq > log.first_seq() {
            seq -= 1;
            have += self.ensure(seq, log, ctx);
        }
        self.top = Place {
            seq,
            row: have.saturating_sub(height),
        };
    }

    /// Collects what is on the screen from the top on. Returns how much lies below the view: 0 =
    /// the end is on the screen, at its last row or above.
    fn fill(&mut self, log: &TranscriptLog, ctx: &ViewCtx<'_>, height: usize) -> usize {
        self.shown.clear();
        let mut used = 0;
        let mut seq = self.top.seq;
        let mut from = self.top.row;
        while seq < log.next_seq() {
            let rows = self.ensure(seq, log, ctx);
            if seq == self.top.seq && from >= rows && rows > 0 {
                // The entry became shorter above the view.
                from = rows - 1;
                self.top.row = from;
            }
            let to = rows.min(from + (height - used));
            if to > from {
                let y = self.area.y + u16::try_from(used).unwrap_or(u16::MAX);
                self.shown.push((seq, from..to, y));
                used += to - from;
            }
            if to < rows {
                return rows - to;
            }
            if used == height {
                // Entries without rows do not count.
                let more = (seq + 1..log.next_seq())
                    .take(64)
                    .map(|s| self.ensure(s, log, ctx))
                    .find(|rows| *rows > 0);
                return more.unwrap_or(0);
            }
            from = 0;
            seq += 1;
        }
        0
    }

    fn paint(&self, buf: &mut Buffer, area: Rect, log: &TranscriptLog, ctx: &ViewCtx<'_>) {
        for (seq, range, y) in &self.shown {
            let Some(drawing) = self.drawings.get(seq) else {
                continue;
            };
            let rows = drawing.rows.get(range.clone()).unwrap_or_default();
            // The bar leaves the blank row above a card free.
            let gap = usize::from(
                ctx.cursor == Some(*seq)
                    && above(*seq, log).is_some()
                    && drawing.rows.first().is_some_and(Row::is_empty),
            );
            for ((i, row), y) in (range.start..).zip(rows).zip(*y..) {
                row.paint(buf, area.x, y, area.width);
                if ctx.cursor == Some(*seq) && i >= gap {
                    Row::new()
                        .put(ctx.theme.icons.selected, ctx.theme.accent)
                        .paint(buf, area.x, y, 1);
                }
            }
        }
    }

    /// Keeps memory bounded: drawings far from the screen go.
    fn trim(&mut self) {
        if self.drawings.len() <= MAX_CACHED {
            return;
        }
        let mut used: Vec<u64> = self.drawings.values().map(|d| d.used).collect();
        let middle = used.len() / 2;
        let (_, limit, _) = used.select_nth_unstable(middle);
        let (limit, frame) = (*limit, self.frame);
        self.drawings
            .retain(|_, d| d.used > limit || d.used == frame);
    }
}

/// The kind of card above an entry, also when that one is not in memory any more.
fn above(seq: u64, log: &TranscriptLog) -> Option<Sort> {
    let before = seq.checked_sub(1)?;
    Some(
        log.get(before)
            .map_or(Sort::Speech, |e| cards::sort(&e.kind)),
    )
}

/// A guess at the rows of an entry that was never drawn; constant time.
fn estimate(entry: &Entry, width: usize, folded: bool) -> u32 {
    let cols = width.saturating_sub(cards::INDENT + 1).max(1);
    let rows = |len: usize| len / cols + 1;
    let guess = match &entry.kind {
        EntryKind::Text { text, .. } => 1 + rows(text.len() * 3 / 2),
        EntryKind::User { text, .. }
        | EntryKind::Notice { text, .. }
        | EntryKind::Custom { text, .. } => {
            let all = rows(text.len());
            1 + if folded {
                all.min(cards::MESSAGE_PREVIEW + 1)
            } else {
                all
            }
        }
        EntryKind::Thinking { text, .. } => {
            if folded {
                1
            } else {
                1 + rows(text.len())
            }
        }
        EntryKind::Tool(tool) => {
            let all = rows(tool.output.len() * 2);
            1 + if folded {
                all.min(cards::OUTPUT_PREVIEW + 1)
            } else {
                all
            }
        }
        EntryKind::RunEnd { .. } => 2,
    };
    u32::try_from(guess).unwrap_or(u32::MAX)
}
