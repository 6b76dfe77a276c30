//! The list of agents, with the inbox below it (screens.md §2).

use ratatui::layout::Rect;

use crate::fleet::roster::AgentView;
use crate::tui::app::{App, Focus, Link};
use crate::tui::layout::{Class, Spot, class, take_bottom, take_top};
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::rows;
use crate::tui::text::SafeText;
use crate::tui::update::fleet::{listed, row_height};
use crate::tui::width;

use super::{Canvas, border, faded, focused, inbox, stream};

/// Longest names that still push all labels to the right.
const MAX_NAME_COLS: usize = 8;

/// Draws the list.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let slim = class(app.size.0, app.size.1) == Class::Slim;
    let active = focused(app, Focus::Roster);
    let wants = inbox::wants(app, area.height);
    let style = faded(app, border(app, active || focused(app, Focus::Inbox)));
    let mut inside = if slim {
        area
    } else {
        let title = Row::new().put(
            "Agents",
            if active {
                app.theme.text
            } else {
                app.theme.muted
            },
        );
        paint::frame(canvas.buf, area, style, &title, &Row::new())
    };
    if wants > 0 {
        let place = take_bottom(&mut inside, wants);
        let line = take_bottom(&mut inside, 1);
        if slim {
            paint::rule(canvas.buf, line, app.theme.border_muted);
            let title = Rect {
                x: line.x + 1,
                width: line.width.saturating_sub(1),
                ..line
            };
            paint::row(canvas.buf, title, &inbox::title(app));
        } else {
            paint::frame_rule(canvas.buf, area, line.y, style, &inbox::title(app));
        }
        inbox::draw(app, canvas, place);
    }
    app.shape.put(inside, Spot::Roster);
    app.shape.list_rows = inside.height;
    if app.all().is_empty() {
        empty(app, canvas, inside);
        return;
    }
    list(app, canvas, inside);
}

fn empty(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let mut area = area;
    take_top(&mut area, 1);
    let theme = &app.theme;
    let lines: &[&'static str] = match (&app.link, &app.fleet) {
        (Link::Starting, _) => &["starting…"],
        (_, None) => &["…"],
        (_, Some(_)) => &[
            "No agents yet.",
            "",
            "Type a task, Enter starts it.",
            "Esc leaves the line, ? shows the keys.",
        ],
    };
    let rows: Vec<Row> = lines
        .iter()
        .map(|line| Row::new().put("  ", theme.muted).put(*line, theme.muted))
        .collect();
    paint::rows(canvas.buf, area, &rows);
}

/// Draws the rows that are in sight; only those are built.
fn list(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let (listed, folded) = listed(app);
    let name_cols = app
        .all()
        .iter()
        .map(|agent| width::width(&agent.name) + 1)
        .max()
        .unwrap_or(0)
        .min(MAX_NAME_COLS);
    let height = usize::from(area.height);
    let total: usize = listed.iter().map(|(_, lines)| lines).sum();
    let last = (total + usize::from(folded > 0)).saturating_sub(height);
    if app.list_pinned
        && let Some((from, to)) = chosen(app, &listed)
    {
        app.list_top = app.list_top.max(to.saturating_sub(height)).min(from);
    }
    app.list_top = app.list_top.min(last);
    let top = app.list_top;
    let mut line = 0;
    for (at, lines) in listed {
        let from = line;
        line += lines;
        if line <= top {
            continue;
        }
        if from >= top + height {
            return;
        }
        let Some(agent) = app.all().get(at).cloned() else {
            continue;
        };
        let selected = app.selected == Some(agent.id);
        let rows = agent_rows(app, canvas, &agent, selected, name_cols);
        for (n, row) in rows.iter().take(lines).enumerate() {
            let Some(place) = place(area, from + n, top) else {
                continue;
            };
            paint::row(canvas.buf, place, row);
            app.shape.put(place, Spot::Agent(agent.id));
        }
        stream::moves(app, &agent);
    }
    if folded > 0
        && let Some(place) = place(area, line, top)
    {
        let text = SafeText::from_static("   + ")
            .with(&numbers::plain(folded as u64))
            .with_static(" finished · ")
            .with(&SafeText::line(&app.keymap.glyphs("show-finished")))
            .with_static(" to show");
        paint::row(canvas.buf, place, &Row::new().put(text, app.theme.dim));
    }
}

/// First line of the selected row and the one behind it.
fn chosen(app: &App, listed: &[(usize, usize)]) -> Option<(usize, usize)> {
    let mut line = 0;
    for (at, lines) in listed {
        let id = app.all().get(*at).map(|agent| agent.id);
        if id.is_some() && id == app.selected {
            return Some((line, line + lines));
        }
        line += lines;
    }
    None
}

/// Where a line of the list is on the screen, if it is.
fn place(area: Rect, line: usize, top: usize) -> Option<Rect> {
    let y = u16::try_from(line.checked_sub(top)?).ok()?;
    (y < area.height).then(|| Rect::new(area.x, area.y + y, area.width, 1))
}

fn agent_rows(
    app: &App,
    canvas: &Canvas<'_>,
    agent: &AgentView,
    selected: bool,
    name_cols: usize,
) -> Vec<Row> {
    let spinner = if app.is_lost() {
        None
    } else {
        app.spin(canvas.now)
    };
    let ctx = rows::RowCtx {
        theme: &app.theme,
        now_ms: canvas.now.wall,
        spinner,
        selected,
        unread: app.is_unread(agent),
        tree: "",
        name_cols,
    };
    let (first, second) = rows::roster_row(agent, &ctx);
    let mut rows = vec![first];
    rows.extend(second.filter(|_| row_height(app, agent) == 2));
    if app.is_lost() {
        for row in &mut rows {
            row.restyle(|style| faded(app, style));
        }
    }
    rows
}
