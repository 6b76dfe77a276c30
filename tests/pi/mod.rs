//! Tests of `pi`.

mod command;
mod compat;
mod event;
mod framing;
mod load_error;
mod session;
pub mod traces;
