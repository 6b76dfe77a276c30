//! Tests of processes, files and signals, with real ones: shells, sleeps, sessions.

mod files;
mod guard;
mod log;
mod spawn;
mod stand_in;
mod sweep;
mod table;
mod tree;
