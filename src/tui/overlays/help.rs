//! The help: every key from the action table, searchable by typing, the present screen first.

use ratatui::layout::Rect;

use crate::tui::action::{Action, Context, TABLE};
use crate::tui::app::{App, Overlay};
use crate::tui::layout::{middle, take_top};
use crate::tui::paint::{self, Row};
use crate::tui::panes::{Canvas, field};
use crate::tui::text::SafeText;
use crate::tui::widgets::scrollbar;
use crate::tui::width;

use super::panel;

/// Draws it.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let place = middle(area, 84, area.height.saturating_sub(2).max(8));
    let title = Row::new().put("Keys", app.theme.text);
    let mut inside = panel(app, canvas, place, &title, &Row::new());
    let top = take_top(&mut inside, 1);
    let Some(Overlay::Help { query, scroll }) = &app.overlay else {
        return;
    };
    let (mut query, scroll) = (query.clone(), *scroll);
    let theme = &app.theme;
    let mut prompt = Row::new().put(" / ", theme.accent);
    if query.is_empty() {
        prompt.push("type to search", theme.dim);
    }
    paint::row(canvas.buf, top, &prompt);
    let inner = Rect {
        x: top.x + 3,
        width: top.width.saturating_sub(4),
        ..top
    };
    if query.is_empty() {
        canvas.caret = Some((inner.x, inner.y).into());
    } else {
        field(canvas, inner, &mut query, theme.text, true);
    }
    let rows = rows(app, &query.text(), usize::from(inside.width));
    let height = usize::from(inside.height);
    let last = rows.len().saturating_sub(height);
    let start = scroll.min(last);
    let shown = rows.get(start..).unwrap_or_default();
    let text = Rect {
        width: inside.width.saturating_sub(2),
        ..inside
    };
    paint::rows(canvas.buf, text, shown);
    let (top_row, total) = (start as u64, rows.len() as u64);
    scrollbar::paint(canvas.buf, inside, top_row, total, &app.theme);
    if let Some(Overlay::Help { scroll, .. }) = &mut app.overlay {
        *scroll = start;
    }
}

/// The lines of the help that match what was typed.
fn rows(app: &App, query: &str, cols: usize) -> Vec<Row> {
    let theme = &app.theme;
    let here = below(app);
    let mut order: Vec<Context> = here.clone();
    order.extend(Context::ALL.into_iter().filter(|c| !here.contains(c)));
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut rows = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    for context in order {
        let actions: Vec<&Action> = TABLE
            .iter()
            .filter(|action| action.contexts.contains(&context))
            .filter(|action| !listed.contains(&action.id))
            .filter(|action| matches(app, action, context, &words))
            .collect();
        if actions.is_empty() {
            continue;
        }
        if !rows.is_empty() {
            rows.push(Row::new());
        }
        rows.push(Row::new().put(" ", theme.text).put(
            context.name(),
            if here.contains(&context) {
                theme.accent
            } else {
                theme.muted
            },
        ));
        for action in actions {
            listed.push(action.id);
            rows.push(line(app, action, cols));
        }
    }
    if rows.is_empty() {
        rows.push(Row::new().put(" no key does that", theme.dim));
    }
    rows
}

/// Contexts of what lies under the help.
fn below(app: &App) -> Vec<Context> {
    app.contexts_below()
}

fn matches(app: &App, action: &Action, context: Context, words: &[String]) -> bool {
    let keys: Vec<String> = app
        .keymap
        .keys(action.id)
        .iter()
        .flat_map(|key| [key.to_string(), key.glyphs()])
        .collect();
    let text = format!(
        "{} {} {} {}",
        action.doc,
        action.id,
        context.name(),
        keys.join(" ")
    )
    .to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

/// Columns of the keys.
const KEY_COLS: usize = 18;

fn line(app: &App, action: &Action, cols: usize) -> Row {
    let theme = &app.theme;
    let keys: Vec<String> = app
        .keymap
        .keys(action.id)
        .iter()
        .map(|key| key.glyphs())
        .collect();
    let keys = SafeText::line(&keys.join("  "));
    let key_cols = KEY_COLS.min(cols / 3);
    let keys = width::truncate(&keys, key_cols);
    let pad = key_cols.saturating_sub(width::width(keys.as_str()));
    Row::new()
        .put("   ", theme.text)
        .put(&keys, theme.text)
        .indent(pad + 1)
        .put(action.doc, theme.muted)
}
