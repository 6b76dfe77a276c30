//! Tests of `tui`.

mod paint;
mod paint_only;
mod screen;
mod text;
mod theme;
mod wrap;
