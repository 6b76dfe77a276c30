//! Cards: how each entry of a transcript is drawn. One file per card; this one holds what they
//! share and the one place that lists them all.
//!
//! A card is rows for a width. It knows nothing of scrolling; what it hides it counts in the same
//! wrap it draws (R-TUI-14).

mod args;
mod custom;
mod diff;
mod notice;
mod run_end;
mod text;
mod thinking;
mod tool;
mod tool_bash;
mod tool_edit;
mod user;

use std::ops::Range;

use jiff::tz::TimeZone;
use ratatui::style::Style;

use super::numbers;
use super::paint::Row;
use super::render::flow::Flow;
use super::render::markdown::Streaming;
use super::text::SafeText;
use super::theme::Theme;
use crate::fleet::transcript::{Entry, EntryKind, ToolState};

/// Columns before the text of a card; its icon stands in the second of them.
pub const INDENT: usize = 3;
/// Rows a folded output shows, its last ones (R-TUI-14).
pub const OUTPUT_PREVIEW: usize = 5;
/// Rows a folded message shows, its first ones (R-TUI-14).
pub const MESSAGE_PREVIEW: usize = 10;

/// What a card is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct CardCtx<'a> {
    /// Columns of the whole card.
    pub width: usize,
    /// Colours and icons.
    pub theme: &'a Theme,
    /// Only a preview of long texts.
    pub folded: bool,
    /// Wall clock, Unix milliseconds.
    pub now_ms: i64,
    /// Frame of the spinner; `None` = reduced motion.
    pub spinner: Option<usize>,
    /// Zone for times of day.
    pub zone: &'a TimeZone,
    /// What kind of card stands above it; `None` = it is the first.
    pub above: Option<Sort>,
}

impl CardCtx<'_> {
    /// Columns for text: behind the icon, one column free at the right edge.
    #[must_use]
    pub fn text_width(&self) -> usize {
        self.width.saturating_sub(INDENT + 1).max(1)
    }
}

/// Kinds of cards as far as the space between them goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Something said: stands free.
    Speech,
    /// Something done: packed.
    Work,
}

/// The sort of an entry. It never changes while the entry lives.
#[must_use]
pub fn sort(kind: &EntryKind) -> Sort {
    match kind {
        EntryKind::User { .. }
        | EntryKind::Text { .. }
        | EntryKind::Custom { .. }
        | EntryKind::RunEnd { .. } => Sort::Speech,
        EntryKind::Thinking { .. } | EntryKind::Tool(_) | EntryKind::Notice { .. } => Sort::Work,
    }
}

/// What a card keeps between two drawings of the same entry.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    markdown: Streaming,
}

/// True when the card looks different at another moment although its entry did not change
/// (a spinner, a running time).
#[must_use]
pub fn moves(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::Tool(tool) => matches!(tool.state, ToolState::Running | ToolState::Preparing),
        EntryKind::Thinking { done, .. } => !done,
        EntryKind::User { .. }
        | EntryKind::Text { .. }
        | EntryKind::Notice { .. }
        | EntryKind::Custom { .. }
        | EntryKind::RunEnd { .. } => false,
    }
}

/// True when the card looks different folded and unfolded.
#[must_use]
pub fn folds(kind: &EntryKind) -> bool {
    match kind {
        EntryKind::User { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::Tool(_)
        | EntryKind::Notice { .. }
        | EntryKind::Custom { .. } => true,
        EntryKind::Text { .. } | EntryKind::RunEnd { .. } => false,
    }
}

/// Draws an entry into rows. `out` and `memo` are what the last drawing of the same entry at the
/// same width and fold left behind, or empty; `out` holds exactly the card afterwards.
pub fn render(entry: &Entry, ctx: &CardCtx<'_>, memo: &mut Memo, out: &mut Vec<Row>) {
    if let EntryKind::Text { text, done } = &entry.kind {
        text::render(text, ctx, memo, out);
        if *done {
            *memo = Memo::default();
        }
        return;
    }
    out.clear();
    match &entry.kind {
        EntryKind::User { text, images } => user::render(text, *images, entry.at_ms, ctx, out),
        EntryKind::Thinking { text, done } => thinking::render(text, *done, ctx, out),
        EntryKind::Tool(tool) => tool::render(tool, ctx, out),
        EntryKind::Notice { level, text } => notice::render(*level, text, ctx, out),
        EntryKind::Custom { custom_type, text } => custom::render(custom_type, text, ctx, out),
        EntryKind::RunEnd {
            outcome,
            took_ms,
            tokens,
            tool_uses,
        } => run_end::render(outcome, *took_ms, *tokens, *tool_uses, ctx, out),
        EntryKind::Text { .. } => {}
    }
    if needs_gap(&entry.kind, ctx) {
        out.insert(0, Row::new());
    }
}

/// A blank row above: around everything said, not between things done.
fn needs_gap(kind: &EntryKind, ctx: &CardCtx<'_>) -> bool {
    match ctx.above {
        None => false,
        Some(above) => above == Sort::Speech || sort(kind) == Sort::Speech,
    }
}

/// A row that begins with an icon in its column.
fn head(icon: &'static str, style: Style) -> Row {
    Row::new()
        .put(" ", Style::new())
        .put(icon, style)
        .put(" ", Style::new())
}

/// Which rows a folded text shows.
enum Keep {
    First(usize),
    Last(usize),
}

/// Puts a text's rows behind the indent; what is hidden is said in a row of its own, where it is
/// missing. `more` = lines that are not in the text at all.
fn preview(
    flow: &Flow,
    lines: &[Range<usize>],
    keep: Option<Keep>,
    more: u64,
    base: Style,
    ctx: &CardCtx<'_>,
    out: &mut Vec<Row>,
) {
    let start = || Row::new().indent(INDENT);
    let all = lines.len();
    // A hint costs a row itself: hiding a single one gains nothing.
    let (from, to) = match keep {
        Some(Keep::First(n)) if all > n + 1 => (0, n),
        Some(Keep::Last(n)) if all > n + usize::from(more == 0) => (all - n, all),
        _ => (0, all),
    };
    let before = from as u64 + more;
    if before > 0 {
        out.push(hidden(before, "earlier", from == 0, ctx));
    }
    flow.rows(lines.get(from..to).unwrap_or_default(), base, start, out);
    if to < all {
        out.push(hidden((all - to) as u64, "more", false, ctx));
    }
}

/// `… 14 earlier lines (ctrl+o to expand)`.
fn hidden(n: u64, which: &'static str, gone: bool, ctx: &CardCtx<'_>) -> Row {
    let style = ctx.theme.dim;
    let mut text = SafeText::from_static("… ")
        .with(&numbers::grouped(n))
        .with_static(" ")
        .with_static(which)
        .with_static(if n == 1 { " line" } else { " lines" });
    let hint = match (gone, ctx.width >= 46) {
        (true, _) => " (no longer in memory)",
        (false, true) => " (ctrl+o to expand)",
        (false, false) => " (ctrl+o)",
    };
    text.push_static(hint);
    Row::new().indent(INDENT).put(text, style)
}

/// ` · ` between metadata.
const DOT: &str = " · ";
