//! The view of one agent (screens.md §3): conversation, open question, message field, footer.

use ratatui::layout::Rect;

use crate::fleet::ids::AgentId;
use crate::fleet::roster::{AgentView, DialogKind};
use crate::tui::app::App;
use crate::tui::layout::{Spot, take_bottom, take_top};
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::text::SafeText;
use crate::tui::update::agent::AgentFocus;
use crate::tui::update::dialog::DialogForm;
use crate::tui::wrap::{Mode, wrap};

use super::{Canvas, DOT, faded, field, footer, path, stream};

/// Most lines the message field grows to.
const MAX_LINES: u16 = 8;

/// Draws it.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, id: AgentId) {
    let Some(agent) = app.agent(id).cloned() else {
        return;
    };
    let rules = area.height >= 14;
    let mut area = area;
    let top = take_top(&mut area, 1);
    head(app, canvas, top, &agent);
    if rules {
        let line = take_top(&mut area, 1);
        paint::rule(canvas.buf, line, app.theme.border_muted);
    }
    let keys = take_bottom(&mut area, 1);
    let foot = take_bottom(&mut area, 1);
    match super::header::lost_in_view(app) {
        Some(text) => {
            let row = Row::new()
                .put(" ", app.theme.error)
                .put(&text, app.theme.error);
            paint::row(canvas.buf, foot, &row);
        }
        None => foot_line(app, canvas, foot, &agent),
    }
    footer::notice(app, canvas, &mut area);
    composer(app, canvas, &mut area, &agent, rules);
    stream::pending(app, canvas, &mut area, &agent);
    dialog(app, canvas, &mut area, &agent);
    let active = app.overlay.is_none()
        && app
            .agents
            .get(&id)
            .is_some_and(|state| state.focus == AgentFocus::Stream);
    stream::body(app, canvas, area, id, active);
    // Last: which keys do something depends on what is on the screen.
    footer::keys(app, canvas, keys);
}

fn head(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, agent: &AgentView) {
    let length = match area.width {
        0..60 => stream::Length::Short,
        60..120 => stream::Length::Middle,
        _ => stream::Length::Long,
    };
    let mut status = stream::status(app, canvas, agent.id, length);
    if area.width >= 80 && app.all().len() > 1 {
        let at = app.all().iter().position(|other| other.id == agent.id);
        let text = SafeText::from_static("   ")
            .with(&numbers::plain(at.unwrap_or(0) as u64 + 1))
            .with_static("/")
            .with(&numbers::plain(app.all().len() as u64));
        status.push(&text, app.theme.dim);
    }
    status.push(" ", app.theme.dim);
    // The state keeps its place at the right; the label gives way, down to the name alone.
    let cols = u16::try_from(status.left_width()).unwrap_or(u16::MAX);
    let least = 10.min(area.width);
    let cols = cols.min(area.width - least);
    let left = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(cols + 1),
        ..area
    };
    paint::row(canvas.buf, left, &stream::name(app, agent));
    let right = Rect {
        x: area.right() - cols,
        width: cols,
        ..area
    };
    paint::row(canvas.buf, right, &status);
}

/// Folder, tokens, cost, context, model, thinking, the child's own statuses.
fn foot_line(app: &App, canvas: &mut Canvas<'_>, area: Rect, agent: &AgentView) {
    let theme = &app.theme;
    let mut parts: Vec<(SafeText, ratatui::style::Style)> =
        vec![(path(app, &agent.spec.cwd), theme.muted)];
    let usage = &agent.usage;
    if usage.input + usage.output + usage.cache_read > 0 {
        let mut text = SafeText::from_static("↑")
            .with(&numbers::tokens(usage.input))
            .with_static(" ↓")
            .with(&numbers::tokens(usage.output));
        if usage.cache_read > 0 {
            text.push_static(" R");
            text.push(&numbers::tokens(usage.cache_read));
        }
        if usage.cache_write > 0 {
            text.push_static(" W");
            text.push(&numbers::tokens(usage.cache_write));
        }
        parts.push((text, theme.muted));
        parts.push((numbers::cost(usage.cost), theme.muted));
    }
    if let Some(context) = agent.context {
        let mut text = SafeText::from_static("ctx ");
        match context.percent() {
            Some(percent) => {
                text.push(&numbers::percent(percent));
                text.push_static("/");
                text.push(&numbers::tokens(context.window));
                parts.push((text, theme.context(percent)));
            }
            None => {
                text.push(&numbers::tokens(context.tokens));
                parts.push((text, theme.muted));
            }
        }
    }
    if let Some(model) = agent.model.as_ref().or(agent.spec.model.as_ref()) {
        parts.push((stream::model_name(model), theme.muted));
    }
    let level = agent
        .thinking
        .as_deref()
        .or(agent.spec.thinking.map(|level| level.as_str()));
    if let Some(level) = level {
        parts.push((SafeText::line(level), theme.thinking(level)));
    }
    for (key, value) in &agent.statuses {
        let text = SafeText::line(key)
            .with_static(": ")
            .with(&SafeText::line(value));
        parts.push((text, theme.text));
    }
    let mut row = Row::new().put(" ", theme.dim);
    for (n, (text, style)) in parts.into_iter().enumerate() {
        if n > 0 {
            row.push(DOT, theme.dim);
        }
        row.push(&text, style);
    }
    row.restyle(|style| faded(app, style));
    paint::row(canvas.buf, area, &row);
}

fn composer(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: &mut Rect,
    agent: &AgentView,
    rules: bool,
) {
    let state = app.agents.entry(agent.id).or_default();
    let active = state.focus == AgentFocus::Composer;
    let mut draft = std::mem::take(&mut state.draft);
    let cols = area.width.saturating_sub(4);
    let lines = draft.layout(usize::from(cols)).rows.len();
    let most = MAX_LINES.min(area.height / 3).max(1);
    let height = u16::try_from(lines).unwrap_or(most).clamp(1, most);
    let place = take_bottom(area, height);
    let theme = &app.theme;
    let mark = if active { theme.accent } else { theme.dim };
    let mut row = Row::new().put(" > ", mark);
    if draft.is_empty() {
        let what = if agent.status.is_live() {
            "message @"
        } else {
            "message and bring back @"
        };
        row.push(what, theme.dim);
        row.push(SafeText::line(&agent.name), theme.dim);
    }
    paint::row(canvas.buf, place, &row);
    let inner = Rect {
        x: place.x + 3,
        width: cols.min(place.width.saturating_sub(3)),
        ..place
    };
    let typing = active && app.overlay.is_none() && app.window_focus;
    if draft.is_empty() {
        if typing {
            canvas.caret = Some((inner.x, inner.y).into());
        }
    } else {
        let style = if active { theme.text } else { theme.muted };
        field(canvas, inner, &mut draft, style, typing);
    }
    app.shape.put(place, Spot::Composer);
    app.agents.entry(agent.id).or_default().draft = draft;
    if rules {
        let line = take_bottom(area, 1);
        paint::rule(canvas.buf, line, app.theme.border_muted);
    }
}

/// The open question with what answers it.
fn dialog(app: &mut App, canvas: &mut Canvas<'_>, area: &mut Rect, agent: &AgentView) {
    let Some(form) = app
        .agents
        .get(&agent.id)
        .and_then(|state| state.dialog.clone())
    else {
        return;
    };
    let Some(view) = agent.dialogs.iter().find(|dialog| dialog.id == form.id) else {
        return;
    };
    let active = app.agents.get(&agent.id).map(|state| state.focus) == Some(AgentFocus::Dialog)
        && app.overlay.is_none();
    let theme = app.theme.clone();
    let cols = usize::from(area.width.saturating_sub(4)).max(1);
    let mut rows = vec![title(app, canvas, agent, &form, view)];
    let block = |text: &str, rows: &mut Vec<Row>| {
        let text = SafeText::block(text);
        for range in wrap(text.as_safe(), cols, Mode::Words) {
            rows.push(
                Row::new()
                    .put("   ", theme.text)
                    .put(text.as_safe().slice(range), theme.custom_message_text),
            );
        }
    };
    block(&view.title, &mut rows);
    let first_choice = match &form.kind {
        DialogKind::Select { options } => {
            let first = rows.len();
            for (n, option) in options.iter().enumerate() {
                rows.push(choice(app, &form, n, &SafeText::line(option), active));
            }
            Some(first)
        }
        DialogKind::Confirm { message } => {
            block(message, &mut rows);
            let first = rows.len();
            for (n, word) in ["yes", "no"].into_iter().enumerate() {
                rows.push(choice(app, &form, n, &SafeText::from_static(word), active));
            }
            Some(first)
        }
        DialogKind::Input { .. } | DialogKind::Editor { .. } => None,
    };
    let text_rows = match &form.kind {
        DialogKind::Input { .. } => 1,
        DialogKind::Editor { .. } => form.field.layout(cols).rows.len().clamp(2, 8),
        DialogKind::Select { .. } | DialogKind::Confirm { .. } => 0,
    };
    let want = u16::try_from(rows.len() + text_rows).unwrap_or(u16::MAX);
    let place = take_bottom(area, want.min(area.height * 2 / 3));
    paint::ground(canvas.buf, place, theme.custom_message_bg);
    app.shape.put(place, Spot::Dialog(None));
    // What is chosen stays in sight when the choices are more than the space.
    let space = usize::from(place.height).saturating_sub(text_rows);
    let skip = match first_choice {
        Some(first) => (first + form.choice + 1).saturating_sub(space),
        None => rows.len().saturating_sub(space),
    };
    for (n, row) in rows.iter_mut().enumerate().skip(skip).take(space) {
        row.set_ground(theme.custom_message_bg.patch(ground(
            &form,
            first_choice,
            n,
            active,
            &theme,
        )));
        let line = Rect {
            y: place.y + u16::try_from(n - skip).unwrap_or(0),
            height: 1,
            ..place
        };
        paint::row(canvas.buf, line, row);
        if let Some(at) = first_choice.and_then(|first| n.checked_sub(first)) {
            app.shape.put(line, Spot::Dialog(Some(at)));
        }
    }
    if text_rows > 0 {
        let rows = u16::try_from(text_rows).unwrap_or(1).min(place.height);
        let line = Rect {
            y: place.bottom() - rows,
            height: rows,
            ..place
        };
        text_field(app, canvas, line, &form, active);
    }
}

fn ground(
    form: &DialogForm,
    first: Option<usize>,
    row: usize,
    active: bool,
    theme: &crate::tui::theme::Theme,
) -> ratatui::style::Style {
    match first {
        Some(first) if active && row == first + form.choice => theme.selected_bg,
        _ => ratatui::style::Style::new(),
    }
}

fn text_field(app: &mut App, canvas: &mut Canvas<'_>, line: Rect, form: &DialogForm, active: bool) {
    let theme = app.theme.clone();
    let ground = theme.custom_message_bg;
    let mark = if active { theme.accent } else { theme.dim };
    let mut row = Row::new().put("   > ", ground.patch(mark)).on(ground);
    if form.field.is_empty()
        && let DialogKind::Input {
            placeholder: Some(text),
        } = &form.kind
    {
        row.push(SafeText::line(text), ground.patch(theme.dim));
    }
    paint::row(canvas.buf, line, &row);
    let inner = Rect {
        x: line.x + 5,
        width: line.width.saturating_sub(6),
        ..line
    };
    if let Some(form) = app.dialog_mut() {
        let mut text = std::mem::take(&mut form.field);
        let typing = active;
        if text.is_empty() {
            if typing {
                canvas.caret = Some((inner.x, inner.y).into());
            }
        } else {
            field(canvas, inner, &mut text, ground.patch(theme.text), typing);
        }
        if let Some(form) = app.dialog_mut() {
            form.field = text;
        }
    }
}

/// `? @kai needs an answer · 12s left`.
fn title(
    app: &mut App,
    canvas: &Canvas<'_>,
    agent: &AgentView,
    form: &DialogForm,
    view: &crate::fleet::roster::DialogView,
) -> Row {
    let theme = &app.theme;
    let mut row = Row::new()
        .put(" ", theme.text)
        .put(theme.icons.asks, theme.warning)
        .put(" @", theme.accent)
        .put(SafeText::line(&agent.name), theme.accent)
        .put(" needs an answer", theme.warning);
    if agent.dialogs.len() > 1 {
        let more = SafeText::from_static(" · ")
            .with(&numbers::plain(agent.dialogs.len() as u64 - 1))
            .with_static(" more");
        row.push(&more, theme.muted);
    }
    if form.sent {
        row.push(" · answering…", theme.muted);
    }
    let now = canvas.now.wall;
    let right = match view.timeout_ms {
        Some(timeout) => {
            let end = view
                .since_ms
                .saturating_add(i64::try_from(timeout).unwrap_or(i64::MAX));
            numbers::short(numbers::since(end, now)).with_static(" left ")
        }
        None => SafeText::from_static("waits ")
            .with(&numbers::short(numbers::since(now, view.since_ms)))
            .with_static(" "),
    };
    row.push_right(&right, theme.muted);
    app.moving.elapsed = true;
    row
}

fn choice(app: &App, form: &DialogForm, n: usize, text: &SafeText, active: bool) -> Row {
    let theme = &app.theme;
    let marked = active && n == form.choice;
    let mut row = Row::new()
        .put(" ", theme.text)
        .put(
            if marked { theme.icons.selected } else { " " },
            theme.accent,
        )
        .put(" ", theme.text);
    if n < 9 {
        row.push(numbers::plain(n as u64 + 1), theme.accent);
    } else {
        row.push(" ", theme.dim);
    }
    row.push("  ", theme.text);
    row.push(text, theme.text);
    row
}
