//! The supervisor: executes what the machine decides with real processes and turns what happens into inputs.

pub mod find_pi;
