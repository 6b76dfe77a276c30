//! Transcripts: the conversation of one agent as entries. A live run and (later) a saved session
//! build the same thing. Owns the entry types, the revisioned log and the reducer; draws nothing.

mod entry;
mod log;

pub use entry::{Entry, EntryKind, Level, MAX_ARGS, MAX_OUTPUT, Outcome, ToolEntry, ToolState};
pub use log::{EntryChange, TranscriptLog, TranscriptPatch};
