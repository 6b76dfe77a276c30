//! Tests of `tui`.

mod app_break;
mod app_bytes;
mod app_generated;
mod app_keys;
mod app_pictures;
mod app_terminal;
mod cards;
mod desk;
mod fake_client;
mod gallery;
mod hostile;
mod markdown;
mod paint;
mod paint_only;
pub mod sample;
mod screen;
mod scripted_fleet;
mod text;
mod theme;
mod viewport;
mod wrap;
