//! The form for a new agent (screens.md §5).

use ratatui::layout::Rect;

use crate::tui::app::{App, Place};
use crate::tui::composer::Composer;
use crate::tui::layout::{middle, take_bottom, take_top};
use crate::tui::paint::{self, Row};
use crate::tui::panes::{Canvas, field, notice_rows, path};
use crate::tui::text::{SafeStr, SafeText};
use crate::tui::update::form::Field;

use super::panel;

/// Columns of a field's name.
const NAME_COLS: u16 = 9;

/// Draws it.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let two = area.width >= 74;
    let lines = app
        .form
        .task
        .layout(usize::from(area.width.min(86).saturating_sub(6)))
        .rows
        .len();
    let task = u16::try_from(lines)
        .unwrap_or(8)
        .clamp(2, (area.height / 3).max(2));
    let fields = if two { 3 } else { 6 };
    let notice = match &app.notice {
        Some(notice) if notice.place == Place::Form => notice_rows(app, 80),
        _ => Vec::new(),
    };
    let notes = u16::try_from(notice.len()).unwrap_or(0);
    let roomy = area.height >= task + fields + notes + 7;
    let gap = u16::from(roomy);
    let height = 2 + 1 + task + gap + fields + if notes > 0 { gap } else { 0 } + notes;
    let place = middle(area, 86, height);
    let title = Row::new().put("New agent", app.theme.text);
    let bottom = if app.form.waiting {
        Row::new().put("starting…", app.theme.accent)
    } else {
        Row::new()
    };
    let mut inside = panel(app, canvas, place, &title, &bottom);
    inside.x += 1;
    inside.width = inside.width.saturating_sub(2);
    let below = take_bottom(&mut inside, notes);
    paint::rows(canvas.buf, below, &notice);
    let head = take_top(&mut inside, 1);
    label(app, canvas, head, "Task", Field::Task);
    let mut place = take_top(&mut inside, task);
    bar(app, canvas, place, app.form.at == Field::Task);
    place.x += 2;
    place.width = place.width.saturating_sub(2);
    text(
        app,
        canvas,
        place,
        Field::Task,
        SafeStr::from_static("what it shall do"),
    );
    take_top(&mut inside, gap);
    grid(app, canvas, &mut inside, two);
}

fn grid(app: &mut App, canvas: &mut Canvas<'_>, inside: &mut Rect, two: bool) {
    let folder = app
        .fleet
        .as_ref()
        .map_or_else(|| app.settings.folder.clone(), |f| f.core.folder.clone());
    let folder = path(app, &folder);
    let model = match &app.settings.model {
        Some(model) => SafeText::line(model),
        None => SafeText::from_static("Pi's default"),
    };
    let none = SafeText::default();
    let from_task = SafeText::from_static("(from the task)");
    let tools = SafeText::from_static("all (default)");
    let pairs = [
        [
            ("Title", Field::Name, &from_task),
            ("Model", Field::Model, &model),
        ],
        [
            ("Folder", Field::Folder, &folder),
            ("Thinking", Field::Thinking, &none),
        ],
        [
            ("Tools", Field::Tools, &tools),
            ("Stay", Field::Stay, &none),
        ],
    ];
    for pair in pairs {
        if two {
            let line = take_top(inside, 1);
            let half = line.width / 2;
            for (n, (name, at, empty)) in pair.into_iter().enumerate() {
                let part = Rect {
                    x: line.x + if n == 0 { 0 } else { half },
                    width: if n == 0 {
                        half.saturating_sub(2)
                    } else {
                        line.width - half
                    },
                    ..line
                };
                one(app, canvas, part, name, at, empty);
            }
        } else {
            for (name, at, empty) in pair {
                let line = take_top(inside, 1);
                one(app, canvas, line, name, at, empty);
            }
        }
    }
}

fn one(
    app: &mut App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    name: &'static str,
    at: Field,
    empty: &SafeText,
) {
    if area.is_empty() {
        return;
    }
    label(app, canvas, area, name, at);
    let place = Rect {
        x: area.x + NAME_COLS,
        width: area.width.saturating_sub(NAME_COLS),
        ..area
    };
    match at {
        Field::Thinking => {
            let word = app
                .form
                .thinking
                .map_or("Pi's default", |level| level.as_str());
            choice(app, canvas, place, word, at);
        }
        Field::Stay => {
            let word = if app.form.stay {
                "yes, idle when done"
            } else {
                "no, ends when done"
            };
            choice(app, canvas, place, word, at);
        }
        Field::Task | Field::Name | Field::Model | Field::Folder | Field::Tools => {
            text(app, canvas, place, at, empty.as_safe());
        }
    }
}

fn label(app: &App, canvas: &mut Canvas<'_>, area: Rect, name: &'static str, at: Field) {
    let style = if app.form.at == at {
        app.theme.accent
    } else {
        app.theme.muted
    };
    paint::row(canvas.buf, area, &Row::new().put(name, style));
}

/// The bar at the side of the task.
fn bar(app: &App, canvas: &mut Canvas<'_>, area: Rect, active: bool) {
    let style = if active {
        app.theme.accent
    } else {
        app.theme.dim
    };
    let rows: Vec<Row> = (0..area.height)
        .map(|_| Row::new().put("▏", style))
        .collect();
    paint::rows(canvas.buf, area, &rows);
}

fn text(app: &mut App, canvas: &mut Canvas<'_>, area: Rect, at: Field, empty: SafeStr<'_>) {
    let active = app.form.at == at;
    let Some(composer) = composer(app, at) else {
        return;
    };
    let mut composer = std::mem::take(composer);
    if composer.is_empty() {
        paint::row(canvas.buf, area, &Row::new().put(empty, app.theme.dim));
        if active {
            canvas.caret = Some((area.x, area.y).into());
        }
    } else {
        let style = app.theme.text;
        field(canvas, area, &mut composer, style, active);
    }
    if let Some(slot) = self::composer(app, at) {
        *slot = composer;
    }
}

fn composer(app: &mut App, at: Field) -> Option<&mut Composer> {
    let form = &mut app.form;
    match at {
        Field::Task => Some(&mut form.task),
        Field::Name => Some(&mut form.name),
        Field::Model => Some(&mut form.model),
        Field::Folder => Some(&mut form.folder),
        Field::Tools => Some(&mut form.tools),
        Field::Thinking | Field::Stay => None,
    }
}

fn choice(app: &App, canvas: &mut Canvas<'_>, area: Rect, word: &'static str, at: Field) {
    let active = app.form.at == at;
    let theme = &app.theme;
    let mut row = Row::new();
    if active {
        row.push("‹ ", theme.accent);
        row.push(word, theme.text);
        row.push(" ›", theme.accent);
    } else {
        row.push(word, theme.muted);
    }
    paint::row(canvas.buf, area, &row);
}
