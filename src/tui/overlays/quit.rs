//! The question before quitting. Its default is to stay (screens.md §7).

use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::layout::middle;
use crate::tui::numbers;
use crate::tui::paint::{self, Row};
use crate::tui::panes::Canvas;
use crate::tui::text::SafeText;

use super::panel;

/// Draws it.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let theme = &app.theme;
    let counts = app.counts();
    let mut what = SafeText::default();
    for (count, word) in [
        (counts.running, " running"),
        (counts.asks, " asking"),
        (counts.idle, " idle"),
    ] {
        if count > 0 {
            if !what.is_empty() {
                what.push_static(", ");
            }
            what.push(&numbers::plain(count as u64));
            what.push_static(word);
        }
    }
    if what.is_empty() {
        what.push_static("nothing runs any more");
    }
    what.push_static(".");
    let key = |id: &str| SafeText::line(&app.keymap.glyphs(id));
    // The keys stand in one column.
    let width = ["quit-keep", "quit-stop", "quit-stay"]
        .iter()
        .map(|id| crate::tui::width::width(key(id).as_str()))
        .max()
        .unwrap_or(1);
    let aligned = |id: &'static str, text: &'static str| {
        let pad = width - crate::tui::width::width(key(id).as_str());
        Row::new()
            .put(" ", theme.text)
            .put(key(id), theme.accent)
            .indent(pad + 2)
            .put(text, theme.text)
    };
    let rows = [
        Row::new().put(" ", theme.text).put(&what, theme.text),
        Row::new(),
        aligned("quit-keep", "keep running in the background"),
        aligned("quit-stop", "stop all and quit"),
        aligned("quit-stay", "stay"),
    ];
    let place = middle(area, 44, 7);
    let title = Row::new().put("Quit", theme.text);
    let inside = panel(app, canvas, place, &title, &Row::new());
    paint::rows(canvas.buf, inside, &rows);
}
