//! Tests of `pi`.

mod command;
mod compat;
mod event;
mod framing;
pub mod traces;
