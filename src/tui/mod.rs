//! The screen: a viewer over `client::FleetClient`.

pub mod cards;
pub mod numbers;
pub mod paint;
pub mod render;
pub mod rows;
pub mod text;
pub mod theme;
pub mod viewport;
pub mod widgets;
pub mod width;
pub mod wrap;
