//! The machine, input by input: no processes, no clock.

mod lifecycle;
mod messages;
mod world;
