//! Pi's wire format, pure: framing, events, commands, messages, dialogs, versions. No I/O.
//!
//! The way of a record: bytes → [`framing::Decoder`] → [`framing::Frame`] → [`event::Parser::read`] →
//! [`event::Record`]. Everything a child writes is untrusted (R-Q-01): nothing here panics, keeps
//! more than a bounded amount, or gives up on the stream because of one bad line.

pub mod command;
pub mod compat;
pub mod event;
pub mod framing;
pub mod lenient;
pub mod load_error;
pub mod message;
mod parse;
mod repair;
pub mod response;
pub mod session;
pub mod ui_request;
