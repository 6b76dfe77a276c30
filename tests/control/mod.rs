//! The control protocol: two real ends over socket pairs and sockets, no agents. And the paths and
//! settings everything else asks for.

mod discovery;
mod fake_core;
mod framing;
mod generated;
mod outgoing;
mod paths;
mod rough;
mod samples;
mod settings;
mod socket;
mod talk;
mod wire;
