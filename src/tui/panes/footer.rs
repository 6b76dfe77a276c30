//! The key line and the line above it that says what went wrong. The key line names only keys
//! that do something now; it is the last line of every screen.

use ratatui::layout::Rect;

use crate::tui::action::TABLE;
use crate::tui::app::{App, Place};
use crate::tui::layout::take_bottom;
use crate::tui::paint::{self, Row};
use crate::tui::text::{SafeStr, SafeText};
use crate::tui::width;

use super::{Canvas, DOT};

/// Draws the key line, or in its place what a second press would do.
pub fn keys(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    if let Some(row) = armed(app) {
        paint::row(canvas.buf, area, &row);
        return;
    }
    paint::row(
        canvas.buf,
        area,
        &fit(app, hints(app), usize::from(area.width)),
    );
}

/// As many keys as fit. The help stays whatever goes: it names the others.
fn fit(app: &App, hints: Vec<(SafeText, &'static str)>, cols: usize) -> Row {
    let theme = &app.theme;
    let width_of = |(key, hint): &(SafeText, &'static str)| {
        4 + width::width(key.as_str()) + width::width(hint)
    };
    let help = hints.iter().position(|(_, hint)| *hint == "help");
    let mut keep: Vec<bool> = vec![false; hints.len()];
    let mut used = 0;
    if let Some(at) = help
        && let (Some(slot), Some(hint)) = (keep.get_mut(at), hints.get(at))
    {
        *slot = true;
        used += width_of(hint);
    }
    for (slot, hint) in keep.iter_mut().zip(&hints) {
        if *slot {
            continue;
        }
        if used + width_of(hint) > cols + 2 {
            break;
        }
        *slot = true;
        used += width_of(hint);
    }
    let mut row = Row::new().put(" ", theme.dim);
    let mut first = true;
    for ((key, hint), keep) in hints.into_iter().zip(keep) {
        if !keep {
            continue;
        }
        if !first {
            row.push(DOT, theme.dim);
        }
        first = false;
        row.push(key, theme.muted);
        row.push(" ", theme.dim);
        row.push(SafeStr::from_static(hint), theme.dim);
    }
    row
}

/// Keys that do something now, with their words.
#[must_use]
pub fn hints(app: &App) -> Vec<(SafeText, &'static str)> {
    let stack = app.contexts();
    let text = stack.first().is_some_and(|inner| inner.is_text());
    TABLE
        .iter()
        .filter(|action| !action.hint.is_empty())
        .filter(|action| (action.offered)(app) && (action.hinted)(app))
        .filter_map(|action| {
            let depth = stack
                .iter()
                .position(|context| action.contexts.contains(context))?;
            let inner = stack.get(..depth).unwrap_or_default();
            // In a text field a letter is text; and an inner context may have taken the key.
            let key = app.keymap.keys(action.id).into_iter().find(|key| {
                (!text || depth == 0 || key.typed().is_none())
                    && !inner.iter().any(|context| {
                        app.keymap
                            .lookup(&[*context], *key)
                            .is_some_and(|other| (other.offered)(app))
                    })
            })?;
            Some((SafeText::line(&key.glyphs()), action.hint_now(app)))
        })
        .collect()
}

fn armed(app: &App) -> Option<Row> {
    let name = |id| {
        app.agent(id)
            .map(|agent| SafeText::line(&agent.name))
            .unwrap_or_default()
    };
    let warning = app.theme.warning;
    if let Some(id) = app.stop.armed() {
        let key = SafeText::line(&app.keymap.keys("stop").first()?.to_string());
        return Some(
            Row::new()
                .put(" press ", warning)
                .put(&key, warning)
                .put(" again to stop @", warning)
                .put(name(id), warning)
                .put(" (2s)", warning),
        );
    }
    let id = app.abort.armed()?;
    let key = SafeText::line(&app.keymap.keys("abort").first()?.to_string());
    Some(
        Row::new()
            .put(" press ", warning)
            .put(&key, warning)
            .put(" again to abort the run of @", warning)
            .put(name(id), warning)
            .put(" (2s)", warning),
    )
}

/// Draws the notice of this screen, if there is one, at the bottom of an area.
pub fn notice(app: &App, canvas: &mut Canvas<'_>, area: &mut Rect) {
    let Some(notice) = &app.notice else {
        return;
    };
    if notice.place == Place::Form {
        return;
    }
    let rows = notice_rows(app, usize::from(area.width));
    let height = u16::try_from(rows.len()).unwrap_or(1).min(area.height / 3);
    let place = take_bottom(area, height);
    paint::rows(canvas.buf, place, &rows);
}

/// The lines of the notice.
#[must_use]
pub fn notice_rows(app: &App, cols: usize) -> Vec<Row> {
    let Some(notice) = &app.notice else {
        return Vec::new();
    };
    let theme = &app.theme;
    let (icon, style) = if notice.error {
        (theme.icons.failed, theme.error)
    } else {
        (theme.icons.info, theme.muted)
    };
    let room = cols.saturating_sub(4).max(1);
    let mut text = notice.text.clone();
    let mut rows = Vec::new();
    let inline = notice
        .hint
        .as_ref()
        .is_some_and(|hint| width::width(text.as_str()) + 3 + width::width(hint.as_str()) <= room);
    let lines = |text: &SafeText| -> Vec<SafeText> {
        crate::tui::wrap::wrap(text.as_safe(), room, crate::tui::wrap::Mode::Words)
            .into_iter()
            .map(|range| text.as_safe().slice(range).to_text())
            .collect()
    };
    if text.is_empty() {
        text = SafeText::from_static("something went wrong");
    }
    for (n, line) in lines(&text).into_iter().enumerate() {
        let head = if n == 0 { icon } else { " " };
        let mut row = Row::new()
            .put(" ", style)
            .put(head, style)
            .put(" ", style)
            .put(line, style);
        if inline && let Some(hint) = &notice.hint {
            row.push(DOT, theme.dim);
            row.push(hint, theme.muted);
        }
        rows.push(row);
    }
    if !inline && let Some(hint) = &notice.hint {
        for line in lines(hint) {
            rows.push(Row::new().put("   ", style).put(line, theme.muted));
        }
    }
    rows
}
