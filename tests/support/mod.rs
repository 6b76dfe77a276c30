//! What tests stand on: real Pi, a scripted model, a fake Pi, a real terminal, waiting with a
//! deadline and a limit per test. Nothing here tests the product itself; `selftest` proves that
//! each part does what the other areas take for granted.
//!
//! Everything a test starts carries the mark of its [`sandbox::Sandbox`]; when that is dropped
//! nothing of it is alive and nothing of it is left on disk.
#![allow(
    dead_code,
    reason = "a helper may be there before the first area uses it"
)]

pub mod core;
pub mod example;
pub mod fake;
pub mod hermetic_pi;
pub mod model;
pub mod pi_install;
pub mod processes;
pub mod pty;
pub mod rpc;
pub mod sandbox;
pub mod versions;
pub mod wait;
pub mod watchdog;

mod selftest;
