//! The list of agents, with the inbox below it (screens.md §2).

use ratatui::layout::Rect;

use crate::fleet::ids::AgentId;
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

struct Line {
    row: Row,
    agent: Option<AgentId>,
}

fn list(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let (ids, folded) = listed(app);
    let name_cols = app
        .all()
        .iter()
        .map(|agent| width::width(rows::name(agent).as_str()))
        .max()
        .unwrap_or(0)
        .min(MAX_NAME_COLS);
    let mut lines: Vec<Line> = Vec::new();
    let mut chosen = None;
    for id in ids {
        let Some(agent) = app.agent(id).cloned() else {
            continue;
        };
        let selected = app.selected == Some(id);
        let from = lines.len();
        for row in agent_rows(app, canvas, &agent, selected, name_cols) {
            lines.push(Line {
                row,
                agent: Some(id),
            });
        }
        if selected {
            chosen = Some((from, lines.len()));
        }
    }
    if folded > 0 {
        let key = SafeText::line(&app.keymap.glyphs("show-finished"));
        let text = SafeText::from_static("   + ")
            .with(&numbers::plain(folded as u64))
            .with_static(" finished · ")
            .with(&key)
            .with_static(" to show");
        lines.push(Line {
            row: Row::new().put(&text, app.theme.dim),
            agent: None,
        });
    }
    let height = usize::from(area.height);
    let last = lines.len().saturating_sub(height);
    if app.list_pinned
        && let Some((from, to)) = chosen
    {
        app.list_top = app.list_top.max(to.saturating_sub(height)).min(from);
    }
    app.list_top = app.list_top.min(last);
    let shown = lines.into_iter().skip(app.list_top).take(height);
    for (line, y) in shown.zip(area.top()..area.bottom()) {
        let place = Rect::new(area.x, y, area.width, 1);
        paint::row(canvas.buf, place, &line.row);
        if let Some(id) = line.agent {
            app.shape.put(place, Spot::Agent(id));
            if let Some(agent) = app.agent(id).cloned() {
                stream::moves(app, &agent);
            }
        }
    }
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
