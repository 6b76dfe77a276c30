//! Rectangles: how the screen is divided for each size, and what lies where for the mouse.
//! Arithmetic only; every size from 0×0 on is fine.

use ratatui::layout::Rect;

use crate::fleet::ids::AgentId;

/// Smallest size with content; below it one line says so.
pub const MIN_COLS: u16 = 40;
/// See [`MIN_COLS`].
pub const MIN_ROWS: u16 = 10;
/// From here on the list and the conversation are side by side.
pub const WIDE_COLS: u16 = 100;
/// From here on rows have a second line and panes have borders.
pub const ROOMY_COLS: u16 = 60;

/// Size class (screens.md §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing fits.
    TooSmall,
    /// One line per agent, no borders.
    Slim,
    /// The list alone.
    Narrow,
    /// List and conversation.
    Wide,
}

/// The class of a size.
#[must_use]
pub fn class(width: u16, height: u16) -> Class {
    if width < MIN_COLS || height < MIN_ROWS {
        Class::TooSmall
    } else if width < ROOMY_COLS {
        Class::Slim
    } else if width < WIDE_COLS {
        Class::Narrow
    } else {
        Class::Wide
    }
}

/// Takes `n` lines from the top of an area.
pub fn take_top(area: &mut Rect, n: u16) -> Rect {
    let n = n.min(area.height);
    let top = Rect::new(area.x, area.y, area.width, n);
    area.y += n;
    area.height -= n;
    top
}

/// Takes `n` lines from the bottom of an area.
pub fn take_bottom(area: &mut Rect, n: u16) -> Rect {
    let n = n.min(area.height);
    area.height -= n;
    Rect::new(area.x, area.y + area.height, area.width, n)
}

/// Columns of the list beside the conversation: two fifths, within bounds.
#[must_use]
pub fn list_cols(width: u16) -> u16 {
    (width * 2 / 5).clamp(40, 64).min(width)
}

/// A box of at most `width`×`height` in the middle of an area.
#[must_use]
pub fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let height = height.min(area.height);
    Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    )
}

/// What a cell belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The row of an agent.
    Agent(AgentId),
    /// The list beside its rows.
    Roster,
    /// An entry of the inbox.
    Inbox(usize),
    /// The conversation.
    Stream,
    /// The task line.
    Dispatch,
    /// The message field.
    Composer,
    /// A question, or one of its choices.
    Dialog(Option<usize>),
}

/// What the last drawing put where.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    spots: Vec<(Rect, Spot)>,
    /// Area of the conversation, if it was drawn.
    pub stream: Option<Rect>,
    /// Lines of the list.
    pub list_rows: u16,
    /// The inbox was drawn.
    pub inbox: bool,
}

impl Shape {
    /// An empty one for the next drawing. The number of list lines is kept: which rows are folded
    /// away depends on it.
    #[must_use]
    pub fn next(&self) -> Self {
        Self {
            list_rows: self.list_rows,
            ..Self::default()
        }
    }

    /// Adds a place; a later one lies over an earlier one.
    pub fn put(&mut self, area: Rect, spot: Spot) {
        self.spots.push((area, spot));
    }

    /// What is at a cell.
    #[must_use]
    pub fn at(&self, x: u16, y: u16) -> Option<Spot> {
        self.spots
            .iter()
            .rev()
            .find(|(area, _)| area.contains((x, y).into()))
            .map(|(_, spot)| *spot)
    }

    /// True when a conversation is on the screen.
    #[must_use]
    pub fn stream_visible(&self) -> bool {
        self.stream.is_some()
    }
}
