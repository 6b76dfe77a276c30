//! Tests of `supervisor`, through the real `pi-agents serve`.

mod extras;
mod fake_pi;
mod faults;
mod find_pi;
mod journal;
mod real_pi;
mod session_file;
mod suspects;
mod witness;
