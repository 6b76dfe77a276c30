//! Tests of `supervisor`, through the real `pi-agents serve`.

mod find_pi;
mod real_pi;
