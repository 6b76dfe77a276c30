//! Proves that each part of the support does what the areas take for granted.

mod basics;
mod fake;
mod fake_faults;
mod install;
mod real_pi;
mod terminal;
mod watchdog;
