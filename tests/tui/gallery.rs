//! Whole frames of cards and rows at several sizes, in both grounds: borders stay in their
//! column in a terminal emulator. With `PI_AGENTS_GALLERY=DIR` the frames are written there as
//! ANSI text, to be looked at.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use pi_agents::tui::paint::{self, Row};
use pi_agents::tui::rows::{self, RowCtx};
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pi_agents::tui::viewport::{ViewCtx, Viewport};
use pi_agents::tui::widgets::scrollbar;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{sample, screen};

/// A roster beside a stream, as the fleet screen has them.
fn frame(theme: &Theme, width: u16, height: u16, folded: bool) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    let left = if width >= 90 { 43 } else { 0 };
    let fleet = sample::fleet();
    if left > 0 {
        let title = Row::new().put("Agents", theme.accent);
        let area = Rect::new(0, 0, left, height);
        let inside = paint::frame(&mut buf, area, theme.border_muted, &title, &Row::new());
        let mut y = inside.y;
        for (i, view) in fleet.iter().enumerate() {
            let ctx = RowCtx {
                theme,
                now_ms: sample::NOW,
                spinner: Some(i),
                selected: i == 0,
                unread: view.name == "leo",
                tree: if i > 7 { "├ " } else { "" },
                name_cols: 0,
            };
            let (row, second) = rows::roster_row(view, &ctx);
            for row in std::iter::once(row).chain(second) {
                if y < inside.bottom() {
                    row.paint(&mut buf, inside.x, y, inside.width);
                }
                y += 1;
            }
        }
    }
    let title = Row::new().put(rows::title(&fleet[0]), theme.accent);
    let bottom = Row::new().put("following · 214", theme.muted);
    let area = Rect::new(left, 0, width - left, height);
    let inside = paint::frame(&mut buf, area, theme.border, &title, &bottom);
    let log = sample::transcript();
    let zone = TimeZone::UTC;
    let ctx = ViewCtx {
        theme,
        now_ms: sample::NOW,
        spinner: Some(0),
        zone: &zone,
        cursor: None,
    };
    let mut view = Viewport::new();
    if !folded {
        view.toggle_all();
    }
    if folded != (height == 60) {
        view.home();
    }
    view.draw(&mut buf, inside, &log, &ctx);
    let at = view.position();
    let edge = Rect::new(area.x, inside.y, area.width, inside.height);
    scrollbar::paint(&mut buf, edge, at.top, at.total, theme);
    buf
}

/// SGR sequences that set a colour.
fn colours(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    text.split("\x1b[")
        .filter_map(|part| {
            part.split_once(|c: char| !c.is_ascii_digit() && c != ';')
                .map(|(p, _)| (p, part))
        })
        .filter(|(params, part)| part[params.len()..].starts_with('m'))
        .filter(|(params, _)| {
            params.split(';').any(|p| {
                matches!(p, "38" | "48") || matches!(p.parse(), Ok(30..=37 | 40..=47 | 90..=107u8))
            })
        })
        .map(|(params, _)| params.to_owned())
        .collect()
}

fn save(name: &str, buf: &Buffer) {
    let Ok(dir) = std::env::var("PI_AGENTS_GALLERY") else {
        return;
    };
    let mut text = String::from("\x1b[2J\x1b[?25l");
    let _ = write!(text, "{}", String::from_utf8_lossy(&screen::bytes(buf)));
    std::fs::write(std::path::Path::new(&dir).join(name), text).unwrap();
}

// B041, R-TUI-09
#[test]
fn frames_hold_at_every_size() {
    for (ground, word) in [(Ground::Dark, "dark"), (Ground::Light, "light")] {
        for (depth, deep) in [
            (Depth::True, ""),
            (Depth::Ansi16, "-16"),
            (Depth::None, "-none"),
        ] {
            let theme = Theme::load(ground, depth);
            for (width, height) in [(40, 30), (60, 40), (100, 60), (200, 70)] {
                for folded in [true, false] {
                    let buf = frame(&theme, width, height, folded);
                    let open = if folded { "" } else { "-open" };
                    save(&format!("{word}{deep}-{width}{open}.ansi"), &buf);
                    let written = screen::bytes(&buf);
                    assert!(screen::foreign_controls(&written).is_empty());
                    let term = screen::terminal(&buf);
                    for y in 1..height - 1 {
                        let cell = term.screen().cell(y, width - 1).unwrap();
                        assert!(matches!(cell.contents(), "│" | "┃"), "row {y} at {width}");
                    }
                    if depth == Depth::None {
                        assert_eq!(colours(&written), Vec::<String>::new());
                    }
                }
            }
        }
    }
}

#[test]
fn tiny_areas_do_no_harm() {
    let theme = Theme::load(Ground::Dark, Depth::True);
    for width in 0..12 {
        for height in 0..5 {
            let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
            let area = buf.area;
            let inside = paint::frame(&mut buf, area, Style::new(), &Row::new(), &Row::new());
            let zone = TimeZone::UTC;
            let ctx = ViewCtx {
                theme: &theme,
                now_ms: 0,
                spinner: None,
                zone: &zone,
                cursor: Some(0),
            };
            let mut view = Viewport::new();
            view.page(-1);
            view.draw(&mut buf, inside, &sample::transcript(), &ctx);
            view.draw(&mut buf, area, &sample::transcript(), &ctx);
        }
    }
}
