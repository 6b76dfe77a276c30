//! What the model answers, step by step.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::error_body;
use crate::support::wait;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Text, streamed in small pieces.
    Text(String),
    /// Thinking (`reasoning_content`), streamed in small pieces.
    Thinking(String),
    /// A call of a tool. All calls of one turn run together.
    ToolCall {
        /// Tool.
        name: String,
        /// Arguments.
        args: Value,
    },
    /// Nothing for a while.
    Pause(Duration),
    /// Nothing until the test opens the gate.
    Gate(Gate),
    /// Tokens reported at the end instead of the default.
    Usage {
        /// Prompt tokens.
        input: u64,
        /// Answer tokens.
        output: u64,
    },
    /// Reason of the end instead of the fitting one (`stop`, `length`, `tool_calls`).
    Finish(String),
    /// An HTTP error instead of an answer; only as the first step.
    HttpError {
        /// Status.
        status: u16,
        /// Body.
        body: Value,
        /// More headers.
        headers: Vec<(String, String)>,
    },
    /// The connection breaks here.
    Disconnect,
    /// Nothing more, the connection stays open.
    Hang,
    /// A line of the stream as it is, after `data: `.
    Raw(String),
}

/// One answer: the steps for one request.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    pub(super) steps: Vec<Step>,
}

impl Turn {
    /// An answer without content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Just text.
    pub fn say(text: &str) -> Self {
        Self::new().text(text)
    }

    /// Just a tool call.
    pub fn call(name: &str, args: Value) -> Self {
        Self::new().tool(name, args)
    }

    /// Just an HTTP error.
    pub fn error(status: u16, message: &str) -> Self {
        Self::new().then(Step::HttpError {
            status,
            body: error_body(message),
            headers: Vec::new(),
        })
    }

    /// Never an answer.
    pub fn hang() -> Self {
        Self::new().then(Step::Hang)
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.then(Step::Text(text.to_owned()))
    }

    /// Adds thinking.
    #[must_use]
    pub fn thinking(self, text: &str) -> Self {
        self.then(Step::Thinking(text.to_owned()))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn tool(self, name: &str, args: Value) -> Self {
        self.then(Step::ToolCall {
            name: name.to_owned(),
            args,
        })
    }

    /// Adds a pause.
    #[must_use]
    pub fn pause(self, duration: Duration) -> Self {
        self.then(Step::Pause(duration))
    }

    /// Adds a gate.
    #[must_use]
    pub fn gate(self, gate: &Gate) -> Self {
        self.then(Step::Gate(gate.clone()))
    }

    /// Sets the tokens reported.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.then(Step::Usage { input, output })
    }

    /// Sets the reason of the end.
    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.then(Step::Finish(reason.to_owned()))
    }

    /// Breaks the connection.
    #[must_use]
    pub fn disconnect(self) -> Self {
        self.then(Step::Disconnect)
    }
}

#[derive(Debug, Default)]
struct GateState {
    open: bool,
    arrived: usize,
}

/// Holds an answer back until the test lets it go on. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.with(|state| state.open = true);
        self.0.1.notify_all();
    }

    /// Waits until an answer stands at the gate.
    #[track_caller]
    pub fn wait_arrival(&self, what: &str) {
        wait::wait_until(what, || self.with(|state| state.arrived > 0));
    }

    pub(super) fn arrive(&self) {
        self.with(|state| state.arrived += 1);
    }

    pub(super) fn is_open(&self) -> bool {
        self.with(|state| state.open)
    }

    fn with<T>(&self, run: impl FnOnce(&mut GateState) -> T) -> T {
        run(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
