//! What lies over a screen: help, the question before quitting, the form.

pub mod form;
pub mod help;
pub mod quit;

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::app::App;
use super::paint::{self, Row};
use super::panes::Canvas;

/// Clears a place over the screen and puts a box around it. Returns the inside.
pub(super) fn panel(app: &App, canvas: &mut Canvas<'_>, place: Rect, title: &Row) -> Rect {
    canvas.caret = None;
    paint::clear(canvas.buf, place, Style::new());
    paint::frame(canvas.buf, place, app.theme.border, title, &Row::new())
}
