//! Colour depth. Owns the conversion of a colour to what the terminal has (R-TUI-09).

use ratatui::style::{Color, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Depth {
    /// 24 bits.
    True,
    /// The xterm palette.
    #[default]
    Ansi256,
    /// The sixteen colours of the user's own palette.
    Ansi16,
    /// None (`NO_COLOR`, a dumb terminal): no colour sequence at all is written.
    None,
}

pub(super) fn foreground(color: Option<Color>, depth: Depth) -> Style {
    match color.and_then(|c| reduce(c, depth)) {
        Some(color) => Style::new().fg(color),
        None => Style::new(),
    }
}

/// Grounds: with sixteen colours there is no quiet one, so only the terminal's own remains
/// (the selected row is marked by a bar as well).
pub(super) fn background(color: Option<Color>, depth: Depth) -> Style {
    match color.and_then(|c| reduce(c, depth)) {
        Some(color) if depth != Depth::Ansi16 => Style::new().bg(color),
        _ => Style::new(),
    }
}

pub(super) fn convert(style: Style, depth: Depth) -> Style {
    Style {
        fg: style.fg.and_then(|c| reduce(c, depth)),
        bg: style.bg.and_then(|c| reduce(c, depth)),
        underline_color: None,
        ..style
    }
}

fn reduce(color: Color, depth: Depth) -> Option<Color> {
    match depth {
        Depth::None => None,
        Depth::True => Some(color),
        Depth::Ansi256 => Some(match color {
            Color::Rgb(r, g, b) => Color::Indexed(nearest256(r, g, b)),
            other => other,
        }),
        Depth::Ansi16 => Some(match color {
            Color::Rgb(r, g, b) => Color::Indexed(nearest16(r, g, b)?),
            Color::Indexed(i @ 16..) => {
                let (r, g, b) = xterm(i);
                Color::Indexed(nearest16(r, g, b)?)
            }
            other => other,
        }),
    }
}

const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Red, green and blue of an index from 16 on.
fn xterm(index: u8) -> (u8, u8, u8) {
    if index >= 232 {
        let v = 8 + (index - 232) * 10;
        return (v, v, v);
    }
    let i = index.saturating_sub(16);
    let level = |n: u8| LEVELS.get(usize::from(n)).copied().unwrap_or(255);
    (level(i / 36), level(i / 6 % 6), level(i % 6))
}

/// Squared distance, weighted by how much the eye sees of each part ("redmean").
fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> u32 {
    let d = |x: u8, y: u8| u32::from(x.abs_diff(y)).pow(2);
    let mean = (u32::from(a.0) + u32::from(b.0)) / 2;
    (((512 + mean) * d(a.0, b.0)) >> 8) + 4 * d(a.1, b.1) + (((767 - mean) * d(a.2, b.2)) >> 8)
}

fn nearest256(r: u8, g: u8, b: u8) -> u8 {
    (16..=255)
        .min_by_key(|i| distance((r, g, b), xterm(*i)))
        .unwrap_or(7)
}

/// By hue, not by distance: the sixteen are the user's own colours, so only their names are
/// known, and a soft red must stay red, not become grey. Light greys are the terminal's own text
/// colour (`None`), darker ones its "bright black".
fn nearest16(r: u8, g: u8, b: u8) -> Option<u8> {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    let spread = max - min;
    if u32::from(spread) * 100 < u32::from(max) * 30 {
        return (max < 150).then_some(8);
    }
    // A part counts from two fifths of the spread on.
    let bit = |v: u8, n: u8| {
        if u16::from(v - min) * 5 >= u16::from(spread) * 2 {
            n
        } else {
            0
        }
    };
    Some(match bit(r, 1) | bit(g, 2) | bit(b, 4) {
        // Plain blue cannot be read on black.
        4 if g >= r => 6,
        4 => 5,
        n => n,
    })
}
