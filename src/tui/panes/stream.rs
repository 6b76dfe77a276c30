//! The conversation: beside the list, and in the view of one agent; and the line that says how
//! an agent is.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::fleet::agent::Status;
use crate::fleet::ids::AgentId;
use crate::fleet::roster::{AgentView, MessageState};
use crate::tui::app::{App, Call, Focus, Link};
use crate::tui::layout::{Spot, take_bottom, take_top};
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::rows;
use crate::tui::text::SafeText;
use crate::tui::update::stream::Show;

use super::{Canvas, DOT, border, faded, focused};

/// Most waiting messages shown.
const MAX_PENDING: usize = 3;

/// Draws the pane beside the list.
pub fn pane(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let active = focused(app, Focus::Stream);
    let style = faded(app, border(app, active));
    let Some(id) = app.selected.filter(|id| app.agent(*id).is_some()) else {
        let inside = paint::frame(canvas.buf, area, style, &Row::new(), &Row::new());
        empty(app, canvas, inside);
        return;
    };
    let title = app
        .agent(id)
        .map(|agent| name(app, agent))
        .unwrap_or_default();
    let bottom = position(app, id);
    let mut inside = paint::frame(canvas.buf, area, style, &title, &bottom);
    let line = take_top(&mut inside, 1);
    let status = status(app, canvas, id, Length::Long);
    paint::row(canvas.buf, line, &status);
    take_top(&mut inside, 1);
    if let Some(agent) = app.agent(id).cloned() {
        pending(app, canvas, &mut inside, &agent);
    }
    body(app, canvas, inside, id, active);
}

/// `@max — Check CI configuration`.
#[must_use]
pub fn name(app: &App, agent: &AgentView) -> Row {
    Row::new()
        .put(rows::name(agent), faded(app, app.theme.accent))
        .put(" — ", app.theme.dim)
        .put(rows::label(agent), faded(app, app.theme.text))
        .shrink_last()
}

/// `following · 214`, or what is below.
fn position(app: &App, id: AgentId) -> Row {
    let Some(place) = app.streams.place(id) else {
        return Row::new();
    };
    let theme = &app.theme;
    let mut row = Row::new();
    if place.following {
        row.push("following", theme.dim);
    } else if place.below.new {
        row.push("end", theme.accent);
        row.push(" for new output below", theme.accent);
    } else {
        row.push("end", theme.muted);
        row.push(" to follow", theme.dim);
    }
    row.push(DOT, theme.dim);
    row.push(numbers::grouped(place.entries), theme.dim);
    row
}

/// Draws the entries.
pub fn body(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, id: AgentId, active: bool) {
    app.shape.stream = Some(area);
    app.shape.put(area, Spot::Stream);
    let spinner = if app.is_lost() {
        None
    } else {
        app.spin(canvas.now)
    };
    let show = Show {
        theme: &app.theme,
        zone: &app.settings.zone,
        now_ms: canvas.now.wall,
        spinner,
        marked: active,
    };
    let shown = app.streams.draw(id, canvas.buf, area, show);
    app.moving.spinner |= shown.moves && !app.is_lost();
    app.moving.elapsed |= shown.moves && !app.is_lost();
    if shown.empty {
        let asks = app.agent(id).is_some_and(|agent| !agent.dialogs.is_empty());
        let text = match app.agent(id).map(|agent| &agent.status) {
            Some(Status::Queued) => "waiting for its turn to start",
            Some(Status::Starting) => "starting…",
            Some(Status::Running) if asks => "waits for your answer",
            Some(Status::Running) => "working…",
            _ if app.is_lost() => "the conversation is in its session file",
            _ if app.streams.is_waiting(id) => "…",
            _ if app.agent(id).is_some_and(|agent| agent.runs_ended > 0) => {
                "the conversation so far is in its session file"
            }
            _ => "(nothing said yet)",
        };
        let row = Row::new()
            .put("   ", app.theme.dim)
            .put(text, app.theme.dim);
        paint::row(canvas.buf, area, &row);
    }
}

/// `⧗ queued "also check the lint job"`: what the model has not seen yet.
pub fn pending(app: &App, canvas: &mut Canvas<'_>, area: &mut Rect, agent: &AgentView) {
    let theme = &app.theme;
    let mut lines: Vec<(&'static str, SafeText)> = agent
        .pending
        .iter()
        .map(|message| {
            let word = match message.state {
                MessageState::Queued => " ⧗ waiting to be sent  ",
                MessageState::Sent => " ⧗ sending  ",
                MessageState::Accepted => " ⧗ queued  ",
            };
            (word, SafeText::line(&message.text))
        })
        .collect();
    for call in app.waiting() {
        if let Call::Send {
            agent: to, text, ..
        } = call
            && *to == agent.id
            && !agent.pending.iter().any(|message| message.text == *text)
        {
            lines.push((" ⧗ sending  ", SafeText::line(text)));
        }
    }
    if lines.is_empty() || area.height < 4 {
        return;
    }
    let hidden = lines.len().saturating_sub(MAX_PENDING);
    let mut rows: Vec<Row> = lines
        .into_iter()
        .take(MAX_PENDING)
        .map(|(word, text)| {
            Row::new()
                .put(word, theme.dim)
                .put("\"", theme.muted)
                .put(&text, theme.muted)
                .shrink_last()
                .put("\"", theme.muted)
        })
        .collect();
    if hidden > 0 {
        let text = SafeText::from_static("   + ")
            .with(&numbers::plain(hidden as u64))
            .with_static(" more");
        rows.push(Row::new().put(&text, theme.dim));
    }
    let place = take_bottom(area, u16::try_from(rows.len()).unwrap_or(1));
    paint::rows(canvas.buf, place, &rows);
}

fn empty(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = &app.theme;
    let text = match &app.link {
        Link::Starting => "starting…",
        Link::Live | Link::Lost { .. } | Link::Problem(_) if app.fleet.is_none() => "…",
        Link::Live | Link::Lost { .. } | Link::Problem(_) => {
            "what an agent says and does appears here"
        }
    };
    let mut area = area;
    take_top(&mut area, 1);
    paint::row(
        canvas.buf,
        area,
        &Row::new().put("   ", theme.dim).put(text, theme.dim),
    );
}

/// How much is said of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Length {
    /// Its state.
    Short,
    /// With model and thinking.
    Middle,
    /// With the numbers.
    Long,
}

/// `⠋ running 42s · sonnet · high · 12.4k · ctx 18% · 3 tools`.
pub fn status(app: &mut App, canvas: &Canvas<'_>, id: AgentId, length: Length) -> Row {
    let mut row = Row::new();
    let Some(agent) = app.agent(id).cloned() else {
        return row;
    };
    let theme = app.theme.clone();
    let now = canvas.now.wall;
    let state = rows::shown(&agent);
    let spinner = if app.is_lost() {
        None
    } else {
        app.spin(canvas.now)
    };
    let (icon, style) = rows::icon(state, &theme, spinner);
    row.push(" ", theme.muted);
    row.push(icon, style);
    row.push(" ", theme.muted);
    row.push(rows::status(&agent, now), rows::word_style(state, &theme));
    if let (rows::Shown::Idle | rows::Shown::Done, Some(took)) = (state, agent.run_took_ms) {
        row.push(DOT, theme.dim);
        row.push("took ", theme.muted);
        row.push(numbers::short(took), theme.muted);
    }
    moves(app, &agent);
    let mut more: Vec<(SafeText, Style)> = Vec::new();
    if length == Length::Short {
        return row;
    }
    if let Some(model) = agent.model.as_ref().or(agent.spec.model.as_ref()) {
        more.push((model_name(model), theme.muted));
    }
    let level = agent
        .thinking
        .as_deref()
        .or(agent.spec.thinking.map(|level| level.as_str()));
    if let Some(level) = level {
        more.push((SafeText::line(level), theme.thinking(level)));
    }
    if length == Length::Long {
        let tokens = agent.usage.input + agent.usage.output;
        if tokens > 0 {
            more.push((numbers::tokens(tokens), theme.muted));
        }
        if let Some(percent) = agent.context.and_then(|context| context.percent()) {
            let text = SafeText::from_static("ctx ").with(&numbers::percent(percent));
            more.push((text, theme.context(percent)));
        }
        if agent.tool_uses > 0 {
            more.push((numbers::count(agent.tool_uses, "tool"), theme.muted));
        }
    }
    for (text, style) in more {
        row.push(DOT, theme.dim);
        row.push(&text, style);
    }
    if app.is_lost() {
        row.restyle(|style| faded(app, style));
    }
    row
}

/// Notes that the drawn state of an agent changes with time.
pub fn moves(app: &mut App, agent: &AgentView) {
    if app.is_lost() || !rows::moves(agent) {
        return;
    }
    app.moving.elapsed = true;
    app.moving.spinner |= matches!(
        rows::shown(agent),
        rows::Shown::Running | rows::Shown::Retrying | rows::Shown::Stopping
    );
}

/// The model without its provider.
#[must_use]
pub fn model_name(model: &str) -> SafeText {
    let short = model.rsplit_once('/').map_or(model, |(_, name)| name);
    SafeText::line(if short.is_empty() { model } else { short })
}
