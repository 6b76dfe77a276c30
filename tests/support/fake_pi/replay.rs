//! Plays a recorded stream. Every line goes out as it is, except directives,
//! `{"type":"_replay","do":WHAT}`:
//! - `wait` with `command`: until a command of that type has arrived (each is waited for once);
//! - `sleep` with `ms`; `stderr` with `text`; `exit` with `code` or `signal`;
//! - `wait_ui` with `id`: until that dialog was answered, at most 10 s (then it is logged);
//! - `wait_stop`: until `abort`, SIGTERM or the end of stdin, at most 60 s;
//! - `wait_file` with `path`: until that file exists;
//! - `manual_responses`, in one of the first three lines: the recording holds the responses;
//!   `"$1"` in a line stands for the id of the first command, and so on up to `"$9"`.
//!
//! After the last line further prompts get ordinary runs (not with `manual_responses`).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::engine::{Engine, Phase, State};
use crate::log;
use crate::signals;

/// A recording, read but not begun.
pub(crate) struct Recording {
    lines: Vec<Vec<u8>>,
    manual: bool,
}

/// Reads the recording `FAKE_PI_FILE` names, and tells the engine how commands are answered while
/// it plays. To be called before the first command is read.
pub(crate) fn load(engine: &Engine) -> Option<Recording> {
    let path = std::env::var_os("FAKE_PI_FILE")?;
    let data = match std::fs::read(&path) {
        Ok(data) => data,
        Err(error) => crate::fail(&format!("fake pi: {}: {error}", path.display())),
    };
    let mut lines: Vec<Vec<u8>> = data
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let directives = lines.iter().take(3).filter_map(|line| directive(line));
    let manual = directives
        .into_iter()
        .any(|d| d["do"] == "manual_responses");
    engine.change(|state| state.manual = manual);
    Some(Recording { lines, manual })
}

/// Plays it to its end.
pub(crate) fn play(engine: &Engine, recording: &Recording) {
    let mut waited = 0;
    for line in &recording.lines {
        if let Some(directive) = directive(line) {
            follow(engine, &directive, &mut waited);
        } else {
            let line = if recording.manual {
                with_ids(engine, line)
            } else {
                line.clone()
            };
            engine.out.raw(&[&line, b"\n".as_slice()].concat());
            if memchr::memmem::find(&line, b"\"agent_settled\"").is_some() {
                engine.change(|state| state.phase = Phase::Idle);
            }
        }
    }
    log::event("replay ended", json!({}));
    if !recording.manual {
        engine.change(|state| hand_over(state, waited));
    }
}

/// The prompts the recording did not wait for are run now.
fn hand_over(state: &mut State, waited: usize) {
    state.replaying = false;
    state.phase = Phase::Idle;
    let rest = state.received.get(waited..).unwrap_or_default();
    let mut prompts = rest
        .iter()
        .filter(|command| command["type"] == "prompt")
        .filter_map(|command| command["message"].as_str().map(str::to_owned));
    if let Some(first) = prompts.next() {
        state.next = Some(first);
        state.phase = Phase::Running;
    }
    let others: Vec<String> = prompts.collect();
    state.follow_up.extend(others);
}

fn directive(line: &[u8]) -> Option<Value> {
    if !line.starts_with(b"{\"type\":\"_replay\"") {
        return None;
    }
    let parsed = serde_json::from_slice(line);
    Some(parsed.unwrap_or_else(|error| crate::fail(&format!("fake pi: directive: {error}"))))
}

fn follow(engine: &Engine, directive: &Value, waited: &mut usize) {
    let text = |key: &str| directive[key].as_str().unwrap_or_default();
    let within = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
    match text("do") {
        "wait" => {
            let wanted = text("command");
            let from = *waited;
            let found = engine.wait(None, |state| {
                let new = state.received.get(from..)?;
                let at = new.iter().position(|command| command["type"] == wanted)?;
                state.phase = Phase::Running;
                Some(from + at + 1)
            });
            *waited = found.unwrap_or(from);
        }
        "sleep" => std::thread::sleep(Duration::from_millis(directive["ms"].as_u64().unwrap_or(0))),
        "stderr" => eprint!("{}", text("text")),
        "wait_ui" => {
            let id = text("id");
            let answered = engine.wait(within(10), |state| state.ui.contains_key(id).then_some(()));
            if answered.is_none() {
                log::event("dialog not answered", json!({"id": id}));
            }
        }
        "wait_stop" => {
            engine.wait(within(60), |state| state.stop.then_some(()));
        }
        "wait_file" => {
            let path = Path::new(text("path")).to_owned();
            while !path.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "exit" => {
            if let Some(name) = directive["signal"].as_str() {
                log::event("killing itself", json!({"signal": name}));
                signals::kill_self(name.trim_start_matches("SIG"));
            }
            let code = directive["code"]
                .as_i64()
                .and_then(|code| i32::try_from(code).ok());
            engine.exit("replay", code.unwrap_or(0));
        }
        "manual_responses" => {}
        other => crate::fail(&format!("fake pi: unknown directive {other:?}")),
    }
}

/// Puts the ids of received commands in; waits for the command a line speaks of.
fn with_ids(engine: &Engine, line: &[u8]) -> Vec<u8> {
    let mut line = String::from_utf8_lossy(line).into_owned();
    for number in 1..=9 {
        let place = format!("\"${number}\"");
        if line.contains(&place) {
            let deadline = Instant::now() + Duration::from_secs(10);
            let id = engine.wait(Some(deadline), |state| {
                state
                    .received
                    .get(number - 1)
                    .map(|command| command["id"].clone())
            });
            line = line.replace(&place, &id.unwrap_or_default().to_string());
        }
    }
    line.into_bytes()
}
