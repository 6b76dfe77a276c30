//! Drawing: the state becomes rows, the rows become cells. One file per part of the screen.
//!
//! Nothing here decides anything. What is drawn where is remembered in the state for the mouse,
//! and so is whether something on the screen moves by itself.

mod agent_view;
mod dispatch;
mod footer;
mod header;
mod inbox;
mod roster;
mod start;
mod stream;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};

use super::app::{App, Focus, Link, Moving, Now, Overlay, Screen};
use super::composer::Composer;
use super::layout::{self, Class, MIN_COLS, MIN_ROWS};
use super::numbers;
use super::paint::{self, Row};
use super::text::SafeText;
use super::{overlays, width};

pub use footer::notice_rows;
pub use header::title;

/// What the parts of the drawing share.
pub struct Canvas<'a> {
    /// The cells.
    pub buf: &'a mut Buffer,
    /// The clocks.
    pub now: Now,
    /// Where the real cursor belongs.
    pub caret: Option<Position>,
}

/// Draws everything.
pub fn draw(app: &mut App, frame: &mut Frame<'_>, now: Now) {
    let area = frame.area();
    let mut canvas = Canvas {
        buf: frame.buffer_mut(),
        now,
        caret: None,
    };
    app.moving = Moving::default();
    app.shape = app.shape.next();
    whole(app, &mut canvas, area);
    if let Some(caret) = canvas.caret {
        frame.set_cursor_position(caret);
    }
}

fn whole(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    match layout::class(area.width, area.height) {
        Class::TooSmall => too_small(app, canvas, area),
        Class::Slim | Class::Narrow | Class::Wide => {
            match (&app.link, app.screen) {
                (Link::Problem(_), _) => start::draw(app, canvas, area),
                (_, Screen::Agent(id)) => agent_view::draw(app, canvas, area, id),
                (_, Screen::Fleet) => fleet(app, canvas, area),
            }
            match &app.overlay {
                Some(Overlay::Help { .. }) => overlays::help::draw(app, canvas, area),
                Some(Overlay::Quit { .. }) => overlays::quit::draw(app, canvas, area),
                Some(Overlay::Form) => overlays::form::draw(app, canvas, area),
                None => {}
            }
        }
    }
}

fn too_small(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let text = SafeText::from_static("needs ")
        .with(&numbers::plain(u64::from(MIN_COLS)))
        .with_static("×")
        .with(&numbers::plain(u64::from(MIN_ROWS)));
    let cols = u16::try_from(width::width(text.as_str())).unwrap_or(u16::MAX);
    let place = layout::middle(area, cols, 1);
    paint::row(canvas.buf, place, &Row::new().put(&text, app.theme.muted));
}

fn fleet(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let mut area = area;
    let top = layout::take_top(&mut area, 1);
    header::fleet(app, canvas, top);
    let keys = layout::take_bottom(&mut area, 1);
    footer::notice(app, canvas, &mut area);
    dispatch::draw(app, canvas, &mut area);
    let wide = layout::class(app.size.0, app.size.1) == Class::Wide;
    if wide {
        let list = layout::list_cols(area.width);
        let left = Rect {
            width: list,
            ..area
        };
        let right = Rect {
            x: area.x + list,
            width: area.width - list,
            ..area
        };
        roster::draw(app, canvas, left);
        stream::pane(app, canvas, right);
    } else {
        roster::draw(app, canvas, area);
    }
    // Last: which keys do something depends on what is on the screen.
    footer::keys(app, canvas, keys);
}

/// Style of a pane's border.
#[must_use]
pub fn border(app: &App, focused: bool) -> Style {
    if focused {
        app.theme.border
    } else {
        app.theme.border_muted
    }
}

/// True when this part of the fleet screen takes the keys.
#[must_use]
pub fn focused(app: &App, focus: Focus) -> bool {
    app.overlay.is_none() && app.focus == focus && app.window_focus
}

/// Style that says "this is as it was": the core is lost.
#[must_use]
pub fn faded(app: &App, style: Style) -> Style {
    if app.is_lost() {
        app.theme.dim.add_modifier(Modifier::DIM)
    } else {
        style
    }
}

/// Draws a text field and, when it has the keys, puts the caret into it.
pub fn field(
    canvas: &mut Canvas<'_>,
    area: Rect,
    composer: &mut Composer,
    style: Style,
    active: bool,
) {
    if area.is_empty() {
        return;
    }
    composer.set_cols(usize::from(area.width));
    let drawn = composer.window(usize::from(area.width), usize::from(area.height));
    let rows: Vec<Row> = drawn
        .rows
        .iter()
        .map(|line| Row::new().put(line, style))
        .collect();
    paint::rows(canvas.buf, area, &rows);
    if active {
        let x = u16::try_from(drawn.caret.1).unwrap_or(u16::MAX);
        let y = u16::try_from(drawn.caret.0).unwrap_or(u16::MAX);
        canvas.caret = Some(Position::new(
            area.x.saturating_add(x).min(area.right() - 1),
            area.y.saturating_add(y).min(area.bottom() - 1),
        ));
    }
}

/// A path as a person writes it: the home folder is `~`.
#[must_use]
pub fn path(app: &App, path: &std::path::Path) -> SafeText {
    if let Some(home) = &app.settings.home
        && let Ok(rest) = path.strip_prefix(home)
    {
        if rest.as_os_str().is_empty() {
            return SafeText::from_static("~");
        }
        return SafeText::from_static("~/").with(&SafeText::line(&rest.to_string_lossy()));
    }
    SafeText::line(&path.to_string_lossy())
}

/// Text between two things of one line.
pub const DOT: &str = " · ";
