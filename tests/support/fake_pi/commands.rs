//! Reads commands and answers them.

use std::io::{BufRead, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::{Engine, Phase, State, level};
use crate::helpers;
use crate::log;
use crate::records;
use crate::verbs;

/// Reads stdin to its end.
pub(crate) fn read_stdin(engine: &Arc<Engine>) {
    let mut stdin = std::io::stdin().lock();
    let mut lines = 0;
    loop {
        if engine.options.read_lines == Some(lines) {
            close_stdin();
            return;
        }
        lines += 1;
        if let Some(ms) = engine.options.read_delay {
            std::thread::sleep(Duration::from_millis(ms));
        }
        let mut line = Vec::new();
        let read = match engine.options.byte_delay {
            Some(ms) => read_slowly(Duration::from_millis(ms), &mut line),
            None => stdin.read_until(b'\n', &mut line),
        };
        match read {
            Ok(1..) => line_arrived(engine, &line),
            _ => break,
        }
    }
    log::event("stdin ended", json!({}));
    engine.change(|state| state.stop = true);
    if !engine.options.ignore_eof {
        std::thread::sleep(Duration::from_millis(20));
        engine.exit("stdin ended", 0);
    }
}

/// Whoever writes to us gets a broken pipe from now on.
fn close_stdin() {
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    rustix::stdio::dup2_stdin(&null).expect("stdin can be replaced");
    log::event("stdin closed", json!({}));
}

/// A line, byte by byte, without a buffer between.
fn read_slowly(pause: Duration, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut byte = [0];
    loop {
        std::thread::sleep(pause);
        let count = rustix::io::read(std::io::stdin(), &mut byte)?;
        line.extend_from_slice(&byte[..count]);
        if count == 0 || byte == *b"\n" {
            return Ok(line.len());
        }
    }
}

fn line_arrived(engine: &Arc<Engine>, line: &[u8]) {
    let text = String::from_utf8_lossy(line);
    let command: Value = match serde_json::from_str(&text) {
        Ok(Value::Null) => {
            eprintln!("TypeError: Cannot read properties of null (reading 'type')");
            engine.exit("a null line", 1);
        }
        Ok(command) => command,
        Err(error) => {
            log::event("bad command", json!({"text": text}));
            let command = json!({"type": "parse"});
            engine.respond(&command, Err(format!("Failed to parse command: {error}")));
            return;
        }
    };
    log::event("command", json!({"command": command}));
    if let Some(code) = engine.options.exit_on_command {
        eprintln!("Error: fake pi was told to end at the first command");
        engine.exit("option", code);
    }
    if engine.options.silence {
        return;
    }
    handle(engine, &command);
}

fn handle(engine: &Arc<Engine>, command: &Value) {
    let kind = command["type"].as_str().unwrap_or("undefined");
    if kind == "extension_ui_response" {
        let id = command["id"].as_str().unwrap_or_default().to_owned();
        engine.change(|state| state.ui.insert(id, command.clone()));
        return;
    }
    let mut state = engine.state();
    if state.replaying {
        if kind == "abort" {
            state.stop = true;
        }
        if !state.manual {
            during_replay(engine, command, kind, &mut state);
        }
        state.received.push(command.clone());
        drop(state);
        engine.change(|_| ());
        return;
    }
    match kind {
        "prompt" => prompt(engine, command, &mut state),
        "steer" | "follow_up" => queue(engine, command, kind == "steer", &mut state),
        "abort" => {
            if engine.options.ignore_abort {
                return;
            }
            if state.phase == Phase::Running {
                state.abort = true;
                state.aborts.push(command.clone());
            } else {
                engine.respond(command, Ok(None));
            }
        }
        "compact" => compact(engine, command, &mut state),
        "bash" => {
            let (engine, command) = (Arc::clone(engine), command.clone());
            std::thread::spawn(move || bash(&engine, &command));
        }
        _ => {
            let result = query(engine, command, kind, &mut state);
            engine.respond(command, result);
        }
    }
    drop(state);
    engine.change(|_| ());
}

/// While a recording plays, commands get the plain answer and nothing else happens.
fn during_replay(engine: &Engine, command: &Value, kind: &str, state: &mut State) {
    let result = match kind {
        "prompt" | "steer" | "follow_up" => {
            let started = kind == "prompt" && state.phase == Phase::Idle;
            let disposition = if started { "started" } else { "queued" };
            Ok(Some(json!({"disposition": disposition})))
        }
        "abort" => Ok(None),
        _ => query(engine, command, kind, state),
    };
    engine.respond(command, result);
}

fn prompt(engine: &Arc<Engine>, command: &Value, state: &mut State) {
    let Some(text) = command["message"].as_str() else {
        let error = "Cannot read properties of undefined (reading 'startsWith')";
        return engine.respond(command, Err(error.to_owned()));
    };
    if state.compacting {
        let error = "Cannot submit a prompt while compaction is in progress. \
                     Wait for compaction to finish and retry.";
        return engine.respond(command, Err(error.to_owned()));
    }
    let statements = verbs::parse(text, engine.options.run.as_deref());
    if let Some(handled) = statements.iter().find(|s| s.verb == "handled") {
        let time = Duration::from_millis(handled.number(0));
        let (engine, command) = (Arc::clone(engine), command.clone());
        std::thread::spawn(move || {
            std::thread::sleep(time);
            engine.respond(&command, Ok(Some(json!({"disposition": "handled"}))));
        });
        return;
    }
    let started = || Ok(Some(json!({"disposition": "started"})));
    match state.phase {
        Phase::Idle => {
            engine.respond(command, started());
            state.next = Some(text.to_owned());
            state.phase = match engine.options.preflight {
                Some(_) => Phase::Preflight,
                None => Phase::Running,
            };
        }
        Phase::Preflight => {
            log::event("prompt lost", json!({"message": text}));
            engine.respond(command, started());
            let stray = json!({"type": "agent_settled", "aborted": false});
            engine.out.record(&stray);
        }
        Phase::Running => match command["streamingBehavior"].as_str() {
            Some("steer") => queue(engine, command, true, state),
            Some("followUp") => queue(engine, command, false, state),
            _ => engine.respond(
                command,
                Err(
                    "Agent is already processing. Specify streamingBehavior ('steer' or \
                     'followUp') to queue the message."
                        .to_owned(),
                ),
            ),
        },
    }
}

fn queue(engine: &Engine, command: &Value, steer: bool, state: &mut State) {
    let text = command["message"].as_str().unwrap_or_default().to_owned();
    if steer {
        state.steering.push_back(text);
    } else {
        state.follow_up.push_back(text);
    }
    engine.out.record(&queue_update(state));
    engine.respond(command, Ok(Some(json!({"disposition": "queued"}))));
}

/// The record that tells what is queued.
pub(crate) fn queue_update(state: &State) -> Value {
    json!({"type": "queue_update", "steering": state.steering, "followUp": state.follow_up})
}

fn compact(engine: &Arc<Engine>, command: &Value, state: &mut State) {
    if state.session.messages().len() < 2 {
        let error = "Compaction failed: Nothing to compact (session too small)";
        let start = json!({"type": "compaction_start", "reason": "manual"});
        let end = json!({"type": "compaction_end", "reason": "manual", "aborted": false,
                         "willRetry": false, "errorMessage": error});
        engine.out.record(&start);
        engine.out.record(&end);
        return engine.respond(command, Err(error.to_owned()));
    }
    state.compacting = true;
    let (engine, command) = (Arc::clone(engine), command.clone());
    std::thread::spawn(move || {
        let result = compaction(&engine, "manual");
        engine.respond(&command, Ok(Some(result)));
    });
}

/// A compaction from start to end; gives its result.
pub(crate) fn compaction(engine: &Engine, reason: &str) -> Value {
    engine.change(|state| state.compacting = true);
    let start = json!({"type": "compaction_start", "reason": reason});
    engine.out.record(&start);
    std::thread::sleep(Duration::from_millis(engine.options.compact_time));
    let mut state = engine.state();
    let first_kept = state
        .session
        .entries
        .last()
        .map_or(Value::Null, |e| e["id"].clone());
    let result = json!({
        "summary": "What was said before.", "firstKeptEntryId": first_kept,
        "tokensBefore": 1000, "estimatedTokensAfter": 100, "usage": records::usage(1000, 100),
        "details": {"readFiles": [], "modifiedFiles": []},
    });
    let entry = json!({"summary": result["summary"], "firstKeptEntryId": first_kept,
                       "tokensBefore": 1000});
    state.session.add("compaction", entry);
    state.compacting = false;
    drop(state);
    let end = json!({"type": "compaction_end", "reason": reason, "result": result,
                     "aborted": false, "willRetry": false});
    engine.out.record(&end);
    result
}

fn bash(engine: &Engine, command: &Value) {
    let script = command["command"].as_str().unwrap_or_default();
    let mut shell = helpers::shell(&format!("exec 2>&1\n{script}"));
    shell.stdin(Stdio::null()).stdout(Stdio::piped());
    let outcome = shell.spawn().and_then(|mut child| {
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut output)?;
        }
        Ok((output, child.wait()?.code()))
    });
    let result = outcome
        .map_err(|error| error.to_string())
        .map(|(output, code)| {
            let output = String::from_utf8_lossy(&output).into_owned();
            let update =
                json!({"type": "bash_execution_update", "id": command["id"], "delta": output});
            engine.out.record(&update);
            Some(
                json!({"output": output, "exitCode": code, "cancelled": false, "truncated": false}),
            )
        });
    engine.respond(command, result);
}

/// Commands that are answered at once.
fn query(
    engine: &Engine,
    command: &Value,
    kind: &str,
    state: &mut State,
) -> Result<Option<Value>, String> {
    let data = match kind {
        "get_state" => get_state(state),
        "get_session_stats" => stats(state),
        "get_entries" => entries(command, state)?,
        "get_messages" => json!({"messages": state.session.messages()}),
        "get_available_models" => json!({"models": records::models()}),
        "get_available_thinking_levels" if state.model["reasoning"] == false => {
            json!({"levels": ["off"]})
        }
        "get_available_thinking_levels" => {
            json!({"levels": ["off", "minimal", "low", "medium", "high"]})
        }
        "get_commands" => json!({"commands": [{"name": "known", "source": "extension"}]}),
        "get_last_assistant_text" => json!({"text": last_text(state)}),
        "clear_queue" => {
            let dropped = json!({"steering": state.steering, "followUp": state.follow_up});
            state.steering.clear();
            state.follow_up.clear();
            engine.out.record(&queue_update(state));
            dropped
        }
        "set_model" => {
            let (provider, id) = (&command["provider"], &command["modelId"]);
            let mut all = records::models().into_iter();
            let found = all.find(|m| &m["provider"] == provider && &m["id"] == id);
            let model = found.ok_or_else(|| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                format!("Model not found: {}/{}", text(provider), text(id))
            })?;
            let change = json!({"provider": provider, "modelId": id});
            state.session.add("model_change", change);
            state.model = model.clone();
            let thinking = level(&state.thinking, &model);
            set_thinking(engine, state, thinking);
            model
        }
        "set_thinking_level" => {
            let wanted = command["level"].as_str().unwrap_or_default();
            let thinking = level(wanted, &state.model);
            set_thinking(engine, state, thinking);
            return Ok(None);
        }
        "set_session_name" => {
            let name = command["name"].as_str().unwrap_or_default().trim();
            if name.is_empty() {
                return Err("Session name cannot be empty".to_owned());
            }
            state.name = Some(name.to_owned());
            state.session.add("session_info", json!({"name": name}));
            let changed = json!({"type": "session_info_changed", "name": name});
            engine.out.record(&changed);
            return Ok(None);
        }
        // They change the user's settings; a test looks for them in the log (R-PI-08).
        "set_steering_mode"
        | "set_follow_up_mode"
        | "set_auto_retry"
        | "set_auto_compaction"
        | "abort_retry"
        | "abort_bash" => return Ok(None),
        other => return Err(format!("Unknown command: {other}")),
    };
    Ok(Some(data))
}

fn set_thinking(engine: &Engine, state: &mut State, thinking: String) {
    if state.thinking != thinking {
        let change = json!({"thinkingLevel": thinking});
        state.session.add("thinking_level_change", change);
        let changed = json!({"type": "thinking_level_changed", "level": thinking});
        engine.out.record(&changed);
        state.thinking = thinking;
    }
}

fn get_state(state: &State) -> Value {
    let mut data = json!({
        "model": state.model,
        "thinkingLevel": state.thinking,
        "isStreaming": state.phase == Phase::Running,
        "isCompacting": state.compacting,
        "steeringMode": "one-at-a-time",
        "followUpMode": "one-at-a-time",
        "sessionId": state.session.id,
        "autoCompactionEnabled": true,
        "messageCount": state.session.messages().len(),
        "pendingMessageCount": state.steering.len() + state.follow_up.len(),
    });
    if let Some(path) = &state.session.path {
        data["sessionFile"] = path.to_string_lossy().into();
    }
    if let Some(name) = &state.name {
        data["sessionName"] = name.clone().into();
    }
    data
}

fn stats(state: &State) -> Value {
    let messages = state.session.messages();
    let count = |role: &str| messages.iter().filter(|m| m["role"] == role).count();
    let answers = count("assistant");
    json!({
        "sessionFile": state.session.path,
        "sessionId": state.session.id,
        "userMessages": count("user"),
        "assistantMessages": answers,
        "toolCalls": count("toolResult"),
        "toolResults": count("toolResult"),
        "totalMessages": messages.len(),
        "tokens": {"input": 1000 * answers, "output": 20 * answers, "cacheRead": 0,
                   "cacheWrite": 0, "total": 1020 * answers},
        "cost": 0.003 * answers as f64,
        "contextUsage": {"tokens": 1020, "contextWindow": 128_000, "percent": 0.8},
    })
}

fn entries(command: &Value, state: &State) -> Result<Value, String> {
    let all = &state.session.entries;
    let from = match command["since"].as_str() {
        None => 0,
        Some(since) => {
            let found = all.iter().position(|entry| entry["id"] == since);
            found.ok_or_else(|| format!("Entry not found: {since}"))? + 1
        }
    };
    let leaf = all.last().map_or(Value::Null, |entry| entry["id"].clone());
    Ok(json!({"entries": all.get(from..), "leafId": leaf}))
}

fn last_text(state: &State) -> Value {
    let messages = state.session.messages();
    let last = messages.iter().rev().find(|m| m["role"] == "assistant");
    let blocks = last.and_then(|m| m["content"].as_array());
    let texts = blocks
        .into_iter()
        .flatten()
        .filter_map(|b| b["text"].as_str());
    let text: String = texts.collect();
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}
