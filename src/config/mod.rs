//! Where files lie, what can be set, and which environment variables mean something.
//! Owns paths and settings; reads nothing else and starts nothing. One snapshot per process.

pub mod env;
pub mod folder;
pub mod paths;
pub mod private_dir;
pub mod settings;
