//! The machine, input by input: no processes, no clock.

mod cases;
mod lifecycle;
mod messages;
mod world;
