//! Numbered acceptance scenarios of an orchestrator, played on the machine alone; the number is in
//! the name of the test. What is a property over orders is played over many, see [`play`].

mod cancellation;
mod delivery;
mod lifecycle;
mod play;
mod recovery;
mod steering;
mod watch;
