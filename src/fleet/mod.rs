//! The domain: agents, runs, transcripts and every decision about them. Pure and synchronous:
//! no clock, no I/O, no randomness, no tokio.

pub mod agent;
pub mod answer;
pub mod completion;
pub mod history;
pub mod host;
pub mod ids;
pub mod interpret;
pub mod live;
pub mod machine;
mod meter;
pub mod model;
pub mod name;
pub mod outbox;
pub mod path_text;
pub mod plain;
pub mod roster;
mod tool_line;
pub mod transcript;
