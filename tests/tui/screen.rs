//! What a real terminal would show: rows through ratatui's crossterm backend into a VT emulator.

use std::io::Write;

use pi_agents::tui::paint::Row;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Bytes kept by a backend.
#[derive(Clone, Default)]
pub struct Sink(pub std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The bytes a first frame of this buffer writes.
pub fn bytes(buf: &Buffer) -> Vec<u8> {
    let sink = Sink::default();
    let mut backend = CrosstermBackend::new(sink.clone());
    let empty = Buffer::empty(buf.area);
    backend
        .draw(empty.diff(buf).into_iter())
        .expect("a vector takes every byte");
    sink.0.borrow().clone()
}

/// A VT emulator's screen after this buffer was drawn.
pub fn terminal(buf: &Buffer) -> vt100::Parser {
    let rows = buf.area.height.try_into().expect("not empty");
    let cols = buf.area.width.try_into().expect("not empty");
    let mut parser = vt100::Parser::new(rows, cols, 0);
    parser.process(&bytes(buf));
    parser
}

/// Rows drawn into a buffer of their own.
pub fn buffer(rows: &[Row], width: u16) -> Buffer {
    let height = u16::try_from(rows.len()).expect("few rows").max(1);
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    pi_agents::tui::paint::rows(&mut buf, Rect::new(0, 0, width, height), rows);
    buf
}

/// Rows as plain lines, blanks at the end cut.
pub fn plain(rows: &[Row], width: u16) -> Vec<String> {
    let buf = buffer(rows, width);
    lines(&buf)
}

/// A buffer's lines, blanks at the end cut, the second halves of wide characters left out.
pub fn lines(buf: &Buffer) -> Vec<String> {
    let mut out = Vec::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut x = buf.area.left();
        while x < buf.area.right() {
            let symbol = buf[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(pi_agents::tui::width::width(symbol).max(1)).unwrap();
        }
        out.push(line.trim_end().to_owned());
    }
    out
}

/// Control characters of the data that reached the terminal: our own sequences removed.
pub fn foreign_controls(bytes: &[u8]) -> Vec<char> {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let mut rest = text.as_str();
    let mut bad = Vec::new();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if c == '\u{1b}' {
            // What a frame may hold: cursor position and SGR.
            let body = after.strip_prefix('[').unwrap_or_default();
            let end = body.find(|c: char| !c.is_ascii_digit() && c != ';');
            match end.map(|at| (at, &body[at..=at])) {
                Some((at, "H" | "m")) => {
                    rest = &body[at + 1..];
                    continue;
                }
                _ => bad.push(c),
            }
        } else if c.is_control() {
            bad.push(c);
        }
        rest = after;
    }
    bad
}
