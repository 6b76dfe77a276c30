//! The control protocol: two real ends over socket pairs and sockets, no agents.

mod fake_core;
mod talk;
