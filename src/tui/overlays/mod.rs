//! What lies over a screen: help, the question before quitting, the form.

pub mod form;
pub mod help;
pub mod quit;

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::App;
use super::paint::{self, Row};
use super::panes::Canvas;

/// Dims the screen, clears a place over it and puts a box around that. Returns the inside.
pub(super) fn panel(
    app: &App,
    canvas: &mut Canvas<'_>,
    place: Rect,
    title: &Row,
    bottom: &Row,
) -> Rect {
    canvas.caret = None;
    let all = canvas.buf.area;
    // The key line stays as it is: it belongs to what is on top.
    let under = Rect {
        height: all.height.saturating_sub(1),
        ..all
    };
    paint::ground(canvas.buf, under, app.theme.dim.add_modifier(Modifier::DIM));
    paint::clear(canvas.buf, place, Style::new());
    paint::frame(canvas.buf, place, app.theme.border, title, bottom)
}
