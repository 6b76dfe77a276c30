//! Rows: what is cut, what stays at the edge, and boxes.

use pi_agents::tui::paint::{self, Row};
use pi_agents::tui::text::SafeText;
use pi_agents::tui::width::width;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use super::screen::{lines, plain};

fn row(left: &str, right: &str) -> Row {
    Row::new()
        .put(SafeText::line(left), Style::new())
        .put_right(SafeText::line(right), Style::new())
}

#[test]
fn the_right_side_keeps_its_place() {
    assert_eq!(plain(&[row("title", "42s")], 12), ["title    42s"]);
    assert_eq!(plain(&[row("a long title", "42s")], 12), ["a long … 42s"]);
    assert_eq!(plain(&[row("title", "a long right side")], 12), ["title"]);
}

#[test]
fn a_piece_can_give_way() {
    let r = Row::new()
        .put("@max ", Style::new())
        .put("a very long label", Style::new())
        .shrink_last()
        .put(" ●", Style::new())
        .put_right("1m", Style::new());
    assert_eq!(plain(&[r], 20), ["@max a very lo… ● 1m"]);
}

#[test]
fn grounds_reach_the_edge() {
    let r = row("x", "").on(Style::new().bg(Color::Red));
    let buf = super::screen::buffer(std::slice::from_ref(&r), 5);
    assert!((0..5).all(|x| buf[(x, 0)].bg == Color::Red));
    assert_eq!(r.fit(5).width(), 5);
}

#[test]
fn boxes_with_titles() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 20, 4));
    let inside = paint::frame(
        &mut buf,
        Rect::new(0, 0, 20, 4),
        Style::new(),
        &Row::new().put("Agents", Style::new()),
        &Row::new().put("following", Style::new()),
    );
    assert_eq!(inside, Rect::new(1, 1, 18, 2));
    assert_eq!(
        lines(&buf),
        [
            "╭ Agents ──────────╮",
            "│                  │",
            "│                  │",
            "╰─────── following ╯"
        ]
    );
}

proptest! {
    // B046: a row never takes more than its columns, at any width, drawn or fitted.
    #[test]
    fn never_wider(left in "\\PC{0,30}", mid in "\\PC{0,30}", right in "\\PC{0,12}", cols in 0u16..50, shrink: bool) {
        let mut r = Row::new().put(SafeText::line(&left), Style::new()).put(SafeText::line(&mid), Style::new());
        if shrink {
            r = r.shrink_last().put("!", Style::new());
        }
        let r = r.put_right(SafeText::line(&right), Style::new());
        let line = r.fit(usize::from(cols));
        let fitted: usize = line.spans.iter().map(|s| width(&s.content)).sum();
        prop_assert!(fitted <= usize::from(cols), "{fitted} > {cols}");
        let mut buf = Buffer::empty(Rect::new(0, 0, 60, 1));
        r.paint(&mut buf, 3, 0, cols);
        for x in (0..3).chain(3 + cols..60) {
            prop_assert_eq!(buf[(x, 0)].symbol(), " ");
        }
    }

    #[test]
    fn boxes_of_any_size(w in 0u16..12, h in 0u16..6, x in 0u16..12, y in 0u16..6) {
        let mut buf = Buffer::empty(Rect::new(0, 0, 10, 5));
        let area = Rect::new(x, y, w, h);
        let title = Row::new().put("a title", Style::new());
        let inside = paint::frame(&mut buf, area, Style::new(), &title, &title);
        prop_assert!(inside.width <= w && inside.height <= h);
        paint::frame_rule(&mut buf, area, y + 1, Style::new(), &title);
        paint::rule(&mut buf, area, Style::new());
        paint::clear(&mut buf, area, Style::new());
    }
}
