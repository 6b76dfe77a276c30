//! What state changes ask for and what they are told: clocks, effects, and what a request was for.

use crate::client::Request;
use crate::fleet::ids::AgentId;

use super::ExitReason;

/// The two clocks, read once per event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic milliseconds from some start: windows, timers, frames.
    pub mono: u64,
    /// Unix milliseconds: only for what is shown.
    pub wall: i64,
}

/// Which connection is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The first one.
    First,
    /// `r` on the first-run screen.
    Again,
    /// `d` on the first-run screen.
    Demo,
    /// `r` after the core was lost.
    Reconnect,
}

/// What the loop has to do for the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the core; the answer comes back with the number.
    Request(u64, Request),
    /// Connect to a core.
    Connect(Attempt),
    /// Give the terminal back to the shell.
    Suspend,
    /// Write the whole screen again.
    Redraw,
    /// End.
    Exit(ExitReason),
}

/// Several effects, most often none.
pub type Effects = Vec<Effect>;

/// What a request was for.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A new agent.
    Spawn {
        /// The task as typed, given back when it fails.
        draft: String,
        /// Open its view when it started.
        open: bool,
        /// The time of the key that started it: only while no other key was pressed does the
        /// selection follow.
        key: u64,
        /// Where the task was typed.
        from: Place,
    },
    /// A message.
    Send {
        /// To whom.
        agent: AgentId,
        /// The text, given back when it fails.
        text: String,
        /// Where it was typed.
        from: Place,
    },
    /// A stop.
    Stop(AgentId),
    /// An abort.
    Abort(AgentId),
    /// An answer to a dialog.
    Answer(AgentId, String),
    /// Which transcripts are wanted.
    Watch,
    /// A fresh start of the news.
    Resync,
}

/// An agent that was started here and whose row has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Who.
    pub agent: AgentId,
    /// Open its view.
    pub open: bool,
    /// The time of the key that started it.
    pub key: u64,
}

/// Where something was done, and so where its error belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The fleet screen.
    Fleet,
    /// The form.
    Form,
    /// The view of an agent.
    Agent(AgentId),
}
