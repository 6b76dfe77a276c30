//! Runs: from the prompt to the settlement.

mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::commands::{compaction, queue_update};
use crate::engine::{Engine, Phase};
use crate::helpers;
use crate::records;
use crate::signals;
use crate::verbs::{self, Statement};

/// Runs one prompt after the other, for ever.
pub(crate) fn serve(engine: &Arc<Engine>) {
    loop {
        let next = engine.wait(None, |state| state.next.take());
        let Some(text) = next else { continue };
        if let Some(ms) = engine.options.preflight {
            std::thread::sleep(Duration::from_millis(ms));
        }
        engine.change(|state| {
            state.phase = Phase::Running;
            state.abort = false;
        });
        Run::new(engine).play(&text);
    }
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Aborted,
    /// The answer was an error: nothing queued is delivered.
    Failed,
}

struct Run<'a> {
    engine: &'a Engine,
    /// What `agent_end` repeats.
    messages: Vec<Value>,
    turns: usize,
    calls: usize,
    settles: bool,
    settle_delay: u64,
    compacts: bool,
}

impl<'a> Run<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            messages: Vec::new(),
            turns: 0,
            calls: 0,
            settles: true,
            settle_delay: 0,
            compacts: false,
        }
    }

    fn emit(&self, record: &Value) {
        self.engine.out.record(record);
    }

    fn play(mut self, text: &str) {
        let mut script = self.script(text);
        if script.iter().any(|s| s.verb == "stray") {
            self.emit(&json!({"type": "agent_settled", "aborted": false}));
        }
        if script.iter().any(|s| s.verb == "mute") {
            self.engine.wait(None, |state| state.abort.then_some(()));
        }
        self.emit(&json!({"type": "agent_start"}));
        self.emit(&json!({"type": "turn_start"}));
        self.open_session();
        self.message(&records::user(text));
        self.deliver();
        loop {
            let flow = self.perform(&mut script);
            let mut next = None;
            if flow == Flow::On {
                next = self.waiting();
            }
            if next.is_none() {
                // As Pi does: what was queued while the run was ending is a part of it.
                next = self.settle(&flow);
                if next.is_none() {
                    return;
                }
                self.emit(&json!({"type": "agent_start"}));
            }
            let text = next.unwrap_or_default();
            self.emit(&json!({"type": "turn_start"}));
            self.turns = 0;
            self.emit(&queue_update(&self.engine.state()));
            self.message(&records::user(&text));
            script = self.script(&text);
        }
    }

    fn script(&self, text: &str) -> VecDeque<Statement> {
        verbs::parse(text, self.engine.options.run.as_deref()).into()
    }

    /// Pi's first run of a session begins with the system prompt.
    fn open_session(&mut self) {
        let mut state = self.engine.state();
        let known = state
            .session
            .messages()
            .iter()
            .any(|m| m["role"] == "system");
        if known {
            return;
        }
        let cwd = std::env::current_dir().unwrap_or_default();
        let system = records::system(&cwd.to_string_lossy());
        state.session.message(&system);
        drop(state);
        self.say_message(&system);
    }

    /// A message that is complete from the start: into the session and onto the stream.
    fn message(&mut self, message: &Value) {
        self.engine.state().session.message(message);
        self.say_message(message);
    }

    fn say_message(&mut self, message: &Value) {
        self.emit(&records::message("message_start", message));
        self.emit(&records::message("message_end", message));
        self.messages.push(message.clone());
    }

    /// What was queued while idle goes along with the prompt, one message of it.
    fn deliver(&mut self) {
        let mut state = self.engine.state();
        let Some(text) = state.steering.pop_front() else {
            return;
        };
        self.emit(&queue_update(&state));
        drop(state);
        self.message(&records::user(&text));
    }

    fn waiting(&self) -> Option<String> {
        let mut state = self.engine.state();
        let steering = state.steering.pop_front();
        steering.or_else(|| state.follow_up.pop_front())
    }

    fn perform(&mut self, script: &mut VecDeque<Statement>) -> Flow {
        while let Some(statement) = script.pop_front() {
            let flow = if statement.is_turn() {
                if self.turns > 0 {
                    self.emit(&json!({"type": "turn_start"}));
                }
                self.turns += 1;
                self.turn(&statement)
            } else {
                self.in_passing(&statement)
            };
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    fn in_passing(&mut self, statement: &Statement) -> Flow {
        let (first, rest) = statement.split();
        match statement.verb.as_str() {
            "sleep" => {
                let time = Duration::from_millis(statement.number(0));
                if self.engine.aborted_within(time) {
                    return self.abort_turn(Vec::new());
                }
            }
            "message" => self.status("pi-subagent-msg", &statement.rest),
            "status" => self.status(first, rest),
            "notify" => {
                let id = uuid::Uuid::new_v4().to_string();
                self.emit(
                    &json!({"type": "extension_ui_request", "id": id, "method": "notify",
                                  "message": statement.rest, "notifyType": "info"}),
                );
            }
            "junk" => self
                .engine
                .out
                .raw(format!("{}\n", statement.rest).as_bytes()),
            "big-line" => {
                let size = usize::try_from(statement.number(0)).unwrap_or(0);
                let blob = "x".repeat(size);
                let line = format!("{{\"type\":\"future_event\",\"blob\":\"{blob}\"}}\n");
                self.engine.out.raw(line.as_bytes());
            }
            "bad-utf8" => self.raw_delta(b"bad \xff\xfe utf8"),
            "surrogate" => self.raw_delta(b"half \\ud83d pair"),
            "stderr" => match usize::try_from(statement.number(0)).unwrap_or(0) {
                0 => {
                    std::thread::spawn(|| {
                        loop {
                            crate::output::complain(100_000);
                        }
                    });
                }
                bytes => crate::output::complain(bytes),
            },
            "grandchild" => helpers::spawn_grandchild(first),
            "exit" => {
                let code = i32::try_from(statement.number(0)).unwrap_or(1);
                self.engine.exit("prompt", code);
            }
            "signal" => {
                self.engine.kill_shell();
                crate::log::event("killing itself", json!({"signal": first}));
                signals::kill_self(first);
            }
            "half" => {
                self.engine
                    .out
                    .raw(b"{\"type\":\"message_update\",\"assistantMess");
                let code = i32::try_from(statement.number(0)).unwrap_or(1);
                self.engine.exit("prompt", code);
            }
            "close-stdout" => self.engine.out.close(),
            "no-settle" => self.settles = false,
            "settle-delay" => self.settle_delay = statement.number(0),
            "auto-compact" => self.compacts = true,
            // `stray` and `handled` had their say before the run.
            _ => {}
        }
        Flow::On
    }

    fn status(&self, key: &str, text: &str) {
        let id = uuid::Uuid::new_v4().to_string();
        self.emit(
            &json!({"type": "extension_ui_request", "id": id, "method": "setStatus",
                          "statusKey": key, "statusText": text}),
        );
    }

    fn raw_delta(&self, text: &[u8]) {
        let start: &[u8] = br#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":""#;
        let line = [start, text, b"\"}}\n"].concat();
        self.engine.out.raw(&line);
    }

    /// Ends the run, or gives the message with which it goes on after all.
    fn settle(&mut self, flow: &Flow) -> Option<String> {
        let aborted = *flow == Flow::Aborted;
        self.emit(&json!({"type": "agent_end", "messages": self.messages, "willRetry": false}));
        if self.compacts {
            compaction(self.engine, "threshold");
        }
        std::thread::sleep(Duration::from_millis(self.settle_delay));
        // Under the lock: a prompt that arrives now is either part of this run or a new one.
        let mut state = self.engine.state();
        if *flow == Flow::On && !state.abort {
            let steering = state.steering.pop_front();
            let next = steering.or_else(|| state.follow_up.pop_front());
            if next.is_some() {
                return next;
            }
        }
        if self.settles {
            if self.engine.options.old {
                self.emit(&json!({"type": "agent_settled"}));
            } else {
                self.emit(&json!({"type": "agent_settled", "aborted": aborted}));
            }
        }
        state.phase = Phase::Idle;
        state.abort = false;
        let aborts = std::mem::take(&mut state.aborts);
        for command in &aborts {
            self.engine.respond(command, Ok(None));
        }
        None
    }
}
