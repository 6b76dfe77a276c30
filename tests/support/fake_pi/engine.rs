//! What the reader of commands, the run and the signals share.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::args::Args;
use crate::log;
use crate::options::Options;
use crate::output::Output;
use crate::records;
use crate::session::Session;

/// Where a prompt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// Answered but not begun.
    Preflight,
    Running,
}

/// Changes under one lock.
pub(crate) struct State {
    pub(crate) session: Session,
    pub(crate) model: Value,
    pub(crate) thinking: String,
    pub(crate) name: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) compacting: bool,
    /// The prompt to run.
    pub(crate) next: Option<String>,
    pub(crate) abort: bool,
    /// `abort` commands that are answered when the run has settled.
    pub(crate) aborts: Vec<Value>,
    pub(crate) steering: VecDeque<String>,
    pub(crate) follow_up: VecDeque<String>,
    pub(crate) ui: HashMap<String, Value>,
    /// A recorded stream is being played.
    pub(crate) replaying: bool,
    /// The recording answers commands itself.
    pub(crate) manual: bool,
    /// Commands received, for the recording to wait for.
    pub(crate) received: Vec<Value>,
    /// Somebody asked for an end: `abort`, SIGTERM, or stdin has ended.
    pub(crate) stop: bool,
}

/// See the module.
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) out: Output,
    state: Mutex<State>,
    changed: Condvar,
    /// Leader of the running tool's process group; 0 without one. Apart from the state, so that
    /// ending never waits for whoever holds it.
    shell: AtomicU32,
}

impl Engine {
    pub(crate) fn new(options: Options, args: Args, mut session: Session) -> Self {
        let [one, two] = records::models();
        let model = match args.model.as_deref() {
            None | Some("fake/one" | "one") => one,
            Some("fake/two" | "two") => two,
            Some(other) => other_model(other, &one),
        };
        let thinking = level(args.thinking.as_deref().unwrap_or("medium"), &model);
        if session.entries.is_empty() {
            if let Some(name) = &args.name {
                session.add("session_info", json!({"name": name}));
            }
            session.add(
                "model_change",
                json!({"provider": model["provider"], "modelId": model["id"]}),
            );
            session.add("thinking_level_change", json!({"thinkingLevel": thinking}));
        }
        let named = session.entries.iter().rev().find_map(|entry| {
            let info = entry["type"] == "session_info";
            info.then(|| entry["name"].as_str().map(str::to_owned))?
        });
        let replaying = std::env::var_os("FAKE_PI_FILE").is_some();
        Self {
            out: Output::new(options.chunk),
            options,
            state: Mutex::new(State {
                session,
                model,
                thinking,
                name: args.name.or(named),
                phase: Phase::Idle,
                compacting: false,
                next: None,
                abort: false,
                aborts: Vec::new(),
                steering: VecDeque::new(),
                follow_up: VecDeque::new(),
                ui: HashMap::new(),
                replaying,
                manual: false,
                received: Vec::new(),
                stop: false,
            }),
            changed: Condvar::new(),
            shell: AtomicU32::new(0),
        }
    }

    /// The state, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for a change.
    pub(crate) fn change<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = run(&mut state);
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Waits until `found` gives something, at most until `deadline`.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut found: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(found) = found(&mut state) {
                return Some(found);
            }
            let now = Instant::now();
            let step = match deadline {
                Some(deadline) if deadline <= now => return None,
                Some(deadline) => deadline - now,
                None => Duration::from_secs(1),
            };
            let waited = self.changed.wait_timeout(state, step);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the run is to be aborted; looks for so long.
    pub(crate) fn aborted_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let seen = self.wait(Some(deadline), |state| state.abort.then_some(()));
        seen.is_some()
    }

    /// Sends a response.
    pub(crate) fn respond(&self, command: &Value, result: Result<Option<Value>, String>) {
        let mut record = records::response(command, result);
        if self.options.old
            && command["type"] != "get_state"
            && let Some(fields) = record.as_object_mut()
        {
            fields.remove("data");
        }
        self.out.record(&record);
    }

    /// Remembers the process group of the running tool.
    pub(crate) fn set_shell(&self, leader: u32) {
        self.shell.store(leader, Ordering::SeqCst);
    }

    /// Kills the running tool with its group.
    pub(crate) fn kill_shell(&self) {
        let leader = self.shell.load(Ordering::SeqCst);
        if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    /// Ends the process as Pi does: the tool dies, no further records.
    pub(crate) fn exit(&self, cause: &str, code: i32) -> ! {
        self.kill_shell();
        log::end(cause, code);
        std::process::exit(code)
    }
}

/// A model the fake does not have, treated as Pi treats it.
fn other_model(wanted: &str, template: &Value) -> Value {
    match wanted.split_once('/') {
        Some((provider, id)) => {
            if provider == "fake" {
                eprintln!(
                    "Warning: Model \"{id}\" not found for provider \"fake\". Using custom model id."
                );
            }
            let mut model = template.clone();
            model["provider"] = provider.into();
            model["id"] = id.into();
            model["name"] = id.into();
            model
        }
        None => crate::fail(&format!(
            "Error: Model \"{wanted}\" not found. Use --list-models to see available models."
        )),
    }
}

/// The level that takes effect: Pi accepts any word and makes `off` of one it does not know.
pub(crate) fn level(wanted: &str, model: &Value) -> String {
    let level = match wanted {
        _ if model["reasoning"] == false => "off",
        "minimal" | "low" | "medium" | "high" => wanted,
        "xhigh" | "max" => "high",
        _ => "off",
    };
    level.to_owned()
}
