//! The whole product as a person meets it: the real program in a real terminal.

mod first_run;
mod fleet;
mod quit;
mod real_pi;
mod stalled;
mod terminal;
mod world;
