//! Transcripts: the conversation of one agent as entries. A live run and (later) a saved session
//! build the same thing. Owns the entry types, the revisioned log and the reducer; draws nothing.

mod cut;
mod edit;
mod entry;
mod log;
mod reducer;

pub use entry::{Entry, EntryKind, Level, MAX_ARGS, MAX_OUTPUT, Outcome, ToolEntry, ToolState};
pub use log::{EntryChange, TranscriptLog, TranscriptPatch};
pub use reducer::Reducer;
