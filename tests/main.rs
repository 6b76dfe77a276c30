//! The one integration binary. A folder per area; `support` holds what they stand on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod architecture;
mod bridge;
mod cli;
mod control;
mod demo;
mod e2e;
mod fleet;
mod pi;
mod proc;
mod sim;
mod supervisor;
mod support;
mod tools;
mod tui;
