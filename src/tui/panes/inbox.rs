//! The inbox below the list: who asks, what ended unseen.

use ratatui::layout::Rect;

use crate::tui::app::{App, Focus};
use crate::tui::layout::Spot;
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::text::SafeText;
use crate::tui::update::fleet::{Item, Why, inbox};

use super::{Canvas, focused};

/// Most entries shown.
const MAX: usize = 6;

/// Lines the inbox wants, its rule not counted; 0 = it is not drawn.
#[must_use]
pub fn wants(app: &App, height: u16) -> u16 {
    if height < 12 {
        return 0;
    }
    let most = usize::from(height / 4).clamp(1, MAX);
    u16::try_from(inbox(app).len().min(most)).unwrap_or(0)
}

/// `Inbox · 2`.
#[must_use]
pub fn title(app: &App) -> Row {
    let count = inbox(app).len();
    let active = focused(app, Focus::Inbox);
    let style = if active {
        app.theme.text
    } else {
        app.theme.muted
    };
    Row::new()
        .put("Inbox", style)
        .put(" · ", app.theme.dim)
        .put(numbers::plain(count as u64), app.theme.warning)
}

/// Draws the entries.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let items = inbox(app);
    let rows_shown = usize::from(area.height);
    let at = app.inbox_at.min(items.len().saturating_sub(1));
    let start = if focused(app, Focus::Inbox) {
        (at + 1).saturating_sub(rows_shown)
    } else {
        0
    };
    for (n, item) in items.iter().enumerate().skip(start).take(rows_shown) {
        let y = area.y + u16::try_from(n - start).unwrap_or(0);
        let place = Rect::new(area.x, y, area.width, 1);
        let chosen = focused(app, Focus::Inbox) && n == at;
        let row = row(app, canvas, item, chosen);
        paint::row(canvas.buf, place, &row);
        app.shape.put(place, Spot::Inbox(n));
        app.moving.elapsed = true;
    }
    app.shape.inbox = true;
}

fn row(app: &App, canvas: &Canvas<'_>, item: &Item, chosen: bool) -> Row {
    let theme = &app.theme;
    let Some(agent) = app.agent(item.agent) else {
        return Row::new();
    };
    let (icon, style, word) = match item.why {
        Why::Asks => (theme.icons.asks, theme.warning, " asks"),
        Why::Failed => (theme.icons.failed, theme.error, " failed"),
        Why::Ended => match agent.status {
            crate::fleet::agent::Status::Stopped { .. } => {
                (theme.icons.stopped, theme.warning, " stopped")
            }
            _ => (theme.icons.done, theme.success, " completed"),
        },
    };
    let mut row = Row::new()
        .put(
            if chosen { theme.icons.selected } else { " " },
            theme.accent,
        )
        .put(icon, style)
        .put(" @", theme.accent)
        .put(SafeText::line(&agent.name), theme.accent)
        .put(word, theme.text)
        .put(" · ", theme.dim)
        .put(SafeText::line(&agent.spec.label), theme.muted)
        .shrink_last();
    let ago = numbers::since(canvas.now.wall, item.since);
    row.push_right(numbers::coarse(ago), theme.dim);
    row.push_right(" ", theme.dim);
    if chosen {
        row.set_ground(theme.selected_bg);
    }
    row
}
