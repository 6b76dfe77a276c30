//! Changes of the state: one file per area. Every function takes the state and the clocks and
//! returns effects; none does I/O.

pub mod agent;
pub mod client;
pub mod dialog;
pub mod dispatch;
pub mod fleet;
pub mod form;
pub mod input;
pub mod overlay;
pub mod stop;
pub mod stream;
