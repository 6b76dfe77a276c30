//! The machine, input by input: no processes, no clock.

mod branch;
mod cancel;
mod cases;
mod cases_delivery;
mod hosts;
mod lifecycle;
mod messages;
mod nested;
mod orders;
mod ownership;
mod parent;
mod promises;
mod scenarios;
mod slash;
mod unstarted;
pub mod world;
