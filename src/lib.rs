//! pi-agents: see, steer and stop many Pi coding agents from one terminal.
//!
//! The module list is the architecture; `docs/architecture.md` says in one line what each part
//! owns, and `tests/architecture.rs` fails when one imports what it may not.

pub mod bridge;
pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod demo;
pub mod fleet;
pub mod guard;
pub mod pi;
pub mod supervisor;
pub mod sys;
pub mod tools;
pub mod tui;
