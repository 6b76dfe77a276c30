//! The real core of a Pi session, its bridge played by hand, its agents played by the fake Pi.

mod bridge;
mod calls;
mod delivery;
mod progress;
mod verbs;
mod which;
