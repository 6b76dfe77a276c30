//! The task line at the bottom of the fleet screen, with the names that complete it.

use ratatui::layout::Rect;

use crate::tui::app::{App, Focus, Link};
use crate::tui::layout::{Spot, take_bottom};
use crate::tui::paint::{self, Row};
use crate::tui::text::SafeText;
use crate::tui::update::dispatch::completions;
use crate::tui::width;

use super::{Canvas, DOT, field, focused, path};

/// Most lines the task grows to.
const MAX_LINES: u16 = 6;
/// Most names shown above it.
const MAX_NAMES: usize = 6;

/// Draws the line when it has the focus or something is typed, and takes its place from the area.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: &mut Rect) {
    let active = app.focus == Focus::Dispatch;
    if !active && app.dispatch.line.is_empty() {
        return;
    }
    let hint = hint(app);
    let hint_cols = u16::try_from(width::width(hint.as_str())).unwrap_or(0);
    let one_line = app.dispatch.line.line_count() == 1;
    let beside = one_line && area.width >= 60 + hint_cols / 2;
    let room = area.width.saturating_sub(4);
    let field_cols = if beside {
        room.saturating_sub(hint_cols + 3)
    } else {
        room
    };
    let lines = app.dispatch.line.layout(usize::from(field_cols)).rows.len();
    let most = MAX_LINES.min(area.height / 3).max(1);
    let height = u16::try_from(lines).unwrap_or(most).clamp(1, most);
    let place = take_bottom(area, height);
    let style = if active {
        app.theme.text
    } else {
        app.theme.muted
    };
    let mark = if active {
        app.theme.accent
    } else {
        app.theme.dim
    };
    let mut row = Row::new().put(" › ", mark);
    if app.dispatch.line.is_empty() {
        row.push(
            "type a task for a new agent, or @name and a message",
            app.theme.dim,
        );
    }
    if beside {
        row.push_right(&hint, app.theme.dim);
        row.push_right(" ", app.theme.dim);
    }
    paint::row(canvas.buf, place, &row);
    let inner = Rect {
        x: place.x + 3,
        width: field_cols.min(place.width.saturating_sub(3)),
        ..place
    };
    let typing = active && focused(app, Focus::Dispatch);
    let mut line = std::mem::take(&mut app.dispatch.line);
    if line.is_empty() {
        // The hint is under the caret.
        if typing {
            canvas.caret = Some((inner.x, inner.y).into());
        }
    } else {
        field(canvas, inner, &mut line, style, typing);
    }
    app.dispatch.line = line;
    app.shape.put(place, Spot::Dispatch);
    if active {
        names(app, canvas, area);
    }
}

/// What Enter would do: `new agent · ~/shop · sonnet`.
fn hint(app: &App) -> SafeText {
    if let Some(name) = app.dispatch.line.text().strip_prefix('@') {
        let name = name.split(char::is_whitespace).next().unwrap_or_default();
        return SafeText::from_static("message @").with(&SafeText::line(name));
    }
    let folder = app
        .fleet
        .as_ref()
        .map_or(&app.settings.folder, |fleet| &fleet.core.folder);
    let mut hint = SafeText::from_static("new agent · ").with(&path(app, folder));
    hint.push_static(DOT);
    match &app.settings.model {
        Some(model) => hint.push(&SafeText::line(model)),
        None => hint.push_static("Pi's default model"),
    }
    if matches!(app.link, Link::Starting) {
        hint.push_static(" · starting…");
    }
    hint
}

fn names(app: &mut App, canvas: &mut Canvas<'_>, area: &mut Rect) {
    let names = completions(app);
    if names.is_empty() || area.height < 8 {
        return;
    }
    let chosen = app.dispatch.choice % names.len();
    let start = (chosen + 1).saturating_sub(MAX_NAMES);
    let shown: Vec<&String> = names.iter().skip(start).take(MAX_NAMES).collect();
    let place = take_bottom(area, u16::try_from(shown.len()).unwrap_or(1));
    let theme = &app.theme;
    let mut rows = Vec::new();
    for (n, name) in shown.into_iter().enumerate() {
        let label = app
            .all()
            .iter()
            .find(|agent| agent.name == *name)
            .map(|agent| SafeText::line(&agent.spec.label))
            .unwrap_or_default();
        let mut row = Row::new()
            .put("   @", theme.accent)
            .put(SafeText::line(name), theme.accent)
            .put("  ", theme.muted)
            .put(&label, theme.muted);
        if n + start == chosen {
            row.set_ground(theme.selected_bg);
        }
        rows.push(row);
    }
    paint::rows(canvas.buf, place, &rows);
}
