//! Tests of `fleet::completion` and `fleet::outbox`.

mod claims;
mod content;
mod crash;
mod kit;
mod offers;
mod orders;
mod questions;
mod sim;
