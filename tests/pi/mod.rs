//! Tests of `pi`.

mod command;
mod compat;
mod event;
mod framing;
mod session;
pub mod traces;
