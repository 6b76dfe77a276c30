//! Tests of `tui`.

mod gallery;
mod paint;
mod paint_only;
mod sample;
mod screen;
mod text;
mod theme;
mod viewport;
mod wrap;
