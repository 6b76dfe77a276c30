//! The top line of the fleet screen and the title of the terminal: who, how many, how much.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::fleet::roster::UsageTotals;
use crate::tui::app::{App, Link};
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::text::SafeText;
use crate::tui::width::width;

use super::{Canvas, DOT};

/// The name of the folder has this part of the line, if the rest needs the room.
const FOLDER_SHARE: usize = 4;
/// But never less columns than this.
const FOLDER_LEAST: usize = 8;

/// Name of the folder this is about.
fn folder(app: &App) -> SafeText {
    let path = app
        .fleet
        .as_ref()
        .map_or(&app.settings.folder, |fleet| &fleet.core.folder);
    match path.file_name() {
        Some(name) => SafeText::line(&name.to_string_lossy()),
        None => SafeText::line(&path.to_string_lossy()),
    }
}

fn sums(app: &App) -> UsageTotals {
    let mut sums = UsageTotals::default();
    for agent in app.all() {
        sums.add(&agent.usage);
    }
    sums
}

/// How much of the counts is shown: what fits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Words, tokens and cost.
    All,
    /// Words and cost.
    NoTokens,
    /// Icons and numbers, cost.
    NoWords,
    /// Only what needs or does something.
    Least,
}

/// Draws the line.
pub fn fleet(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let counts = counts(app, canvas);
    if !app.is_lost() && app.counts().running > 0 {
        app.moving.spinner = true;
    }
    let cols = usize::from(area.width);
    let mut row = Row::new();
    for detail in [
        Detail::All,
        Detail::NoTokens,
        Detail::NoWords,
        Detail::Least,
    ] {
        row = line(app, &counts, detail);
        // A long name of the folder gives way before the counts do.
        let name = width(folder(app).as_str());
        let spare = name.saturating_sub((cols / FOLDER_SHARE).max(FOLDER_LEAST));
        if row.left_width() + row.right_width() < cols + spare {
            break;
        }
    }
    paint::row(canvas.buf, area, &row);
}

fn line(app: &App, counts: &[Count], detail: Detail) -> Row {
    let theme = &app.theme;
    let mut row = Row::new()
        .put(" pi-agents", theme.accent)
        .put(DOT, theme.dim)
        .put(folder(app), theme.text)
        .shrink_last();
    if app.fleet.as_ref().is_some_and(|fleet| fleet.core.demo) {
        row.push(DOT, theme.dim);
        row.push("demo", theme.warning);
    }
    match &app.link {
        Link::Starting => {
            row.push(DOT, theme.dim);
            row.push("starting…", theme.muted);
        }
        Link::Lost { at, again } => {
            row.push(DOT, theme.dim);
            row.push(lost(app, *at, *again), theme.error);
        }
        Link::Live | Link::Problem(_) => {}
    }
    if let Some(fleet) = &app.fleet {
        for badge in &fleet.core.badges {
            row.push(DOT, theme.dim);
            row.push(badge.words(), theme.warning);
        }
    }
    if !app.is_lost() {
        let words = matches!(detail, Detail::All | Detail::NoTokens);
        let sep = if words { DOT } else { "  " };
        let mut first = true;
        for (icon, count, word, style) in counts {
            let quiet = matches!(*word, "idle" | "done" | "stopped");
            if *count == 0 || detail == Detail::Least && quiet {
                continue;
            }
            row.push(if first { "   " } else { sep }, theme.dim);
            first = false;
            row.push(*icon, *style);
            row.push(" ", *style);
            row.push(numbers::plain(*count as u64), *style);
            if words {
                row.push(" ", theme.muted);
                row.push(*word, theme.muted);
            }
        }
    }
    let sums = sums(app);
    if sums.input + sums.output > 0 {
        let mut right = SafeText::default();
        if detail == Detail::All {
            right = SafeText::from_static("↑")
                .with(&numbers::tokens(sums.input))
                .with_static(" ↓")
                .with(&numbers::tokens(sums.output))
                .with_static(DOT);
        }
        right.push(&numbers::cost(sums.cost));
        row.push_right(right, theme.muted);
        row.push_right(" ", theme.muted);
    }
    row
}

type Count = (&'static str, usize, &'static str, Style);

fn counts(app: &App, canvas: &Canvas<'_>) -> [Count; 6] {
    let theme = &app.theme;
    let icons = &theme.icons;
    let counts = app.counts();
    [
        (
            icons.spinner(app.spin(canvas.now)),
            counts.running,
            "running",
            theme.accent,
        ),
        (icons.asks, counts.asks, "asks", theme.warning),
        (icons.idle, counts.idle, "idle", theme.muted),
        (icons.done, counts.done, "done", theme.success),
        (icons.failed, counts.failed, "failed", theme.error),
        (icons.stopped, counts.stopped, "stopped", theme.warning),
    ]
}

/// What the view of an agent says of a core that is gone, with the way out; `None` = it is there.
pub fn lost_in_view(app: &App) -> Option<SafeText> {
    let Link::Lost { at, again } = app.link else {
        return None;
    };
    let mut text = lost(app, at, again);
    if crate::tui::update::fleet::can_reconnect(app) {
        text.push_static(" · esc, then r to reconnect");
    }
    Some(text)
}

/// `core 4711 ended 12:41 · sessions kept`.
fn lost(app: &App, at: i64, again: bool) -> SafeText {
    let mut text = SafeText::from_static("core ");
    if let Some(fleet) = &app.fleet {
        text.push(&numbers::plain(u64::from(fleet.core.pid)));
        text.push_static(" ");
    }
    text.push_static("ended ");
    text.push(&clock(app, at));
    text.push_static(if again {
        " · reconnecting…"
    } else {
        " · sessions kept"
    });
    text
}

/// Time of day.
#[must_use]
pub fn clock(app: &App, at_ms: i64) -> SafeText {
    match jiff::Timestamp::from_millisecond(at_ms) {
        Ok(at) => {
            let at = app.settings.zone.to_datetime(at);
            numbers::clock(at.hour(), at.minute())
        }
        Err(_) => SafeText::default(),
    }
}

/// The terminal's title: counts that matter from another window (R-TUI-03).
#[must_use]
pub fn title(app: &App) -> SafeText {
    let counts = app.counts();
    let mut title = SafeText::from_static("pi-agents · ").with(&folder(app));
    if app.is_lost() {
        return title.with_static(" · core lost");
    }
    let waits = crate::tui::update::fleet::inbox(app).len();
    for (count, word) in [
        (waits, " waiting"),
        (counts.running, " running"),
        (counts.failed, " failed"),
    ] {
        if count > 0 {
            title.push_static(" · ");
            title.push(&numbers::plain(count as u64));
            title.push_static(word);
        }
    }
    title
}
