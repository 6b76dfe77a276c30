//! The bridge: its part of the protocol, its files, and itself in a real Pi against a scripted core.

mod by_hand;
mod files;
mod generated;
mod real_pi;
mod scripted_core;
