//! The screen: a viewer over `client::FleetClient`.

pub mod numbers;
pub mod paint;
pub mod text;
pub mod theme;
pub mod width;
pub mod wrap;
