//! The tools a model is given to work with agents: names, words, schemas, arguments. What they do is
//! the machine's.

pub mod call;
pub mod cap;
pub mod progress;
pub mod subagents;
