//! One turn: an answer of the model, and the tool it may call.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Flow, Run};
use crate::helpers;
use crate::records;
use crate::verbs::Statement;

/// How often a tool tells what it has printed.
const UPDATE: Duration = Duration::from_millis(100);

impl Run<'_> {
    pub(super) fn turn(&mut self, statement: &Statement) -> Flow {
        let rest = statement.rest.as_str();
        match statement.verb.as_str() {
            "say" => self.say(rest, "stop"),
            "length" => self.say(rest, "length"),
            "think" => self.think(rest),
            "error" => self.fail(rest),
            "stream" => self.stream(statement),
            "flood" => self.flood(usize::try_from(statement.number(20)).unwrap_or(20)),
            "big" => {
                let size = usize::try_from(statement.number(0)).unwrap_or(0);
                self.deltas(&mut std::iter::once("b".repeat(size)), Duration::ZERO)
            }
            "hang" => {
                self.begin();
                self.open_text();
                self.delta("hanging");
                self.engine.wait(None, |state| state.abort.then_some(()));
                self.abort_turn(vec![text_block("hanging")])
            }
            "mute" => self.abort_turn(Vec::new()),
            "tool" => self.tool(rest),
            "ask" => {
                let (method, title) = statement.split();
                self.ask(method, title, None)
            }
            "ask-timeout" => {
                let (_, rest) = statement.split();
                let (method, title) = rest.split_once(' ').unwrap_or((rest, ""));
                self.ask(method, title, Some(statement.number(0)))
            }
            "retry" => self.retry(statement),
            "env" => {
                let value = std::env::var_os(rest);
                let text = value.map_or("(unset)".into(), |v| v.to_string_lossy().into_owned());
                self.say(&text, "stop")
            }
            "cwd" => {
                let cwd = std::env::current_dir().unwrap_or_default();
                self.say(&cwd.to_string_lossy(), "stop")
            }
            "wait" => {
                self.begin();
                self.open_text();
                self.delta("waiting");
                while !Path::new(rest).exists() {
                    if self.engine.aborted_within(Duration::from_millis(5)) {
                        return self.abort_turn(vec![text_block("waiting")]);
                    }
                }
                self.end_text("waiting, done waiting", "stop")
            }
            other => self.fail(&format!("fake pi: {other} is not done yet")),
        }
    }

    fn model(&self) -> (Value, String) {
        let state = self.engine.state();
        (state.model.clone(), state.thinking.clone())
    }

    fn begin(&self) {
        let (model, _) = self.model();
        self.emit(&records::message(
            "message_start",
            &records::pending(&model),
        ));
    }

    fn open_text(&self) {
        self.emit(&records::update(
            json!({"type": "text_start", "contentIndex": 0}),
        ));
    }

    fn delta(&self, text: &str) {
        let event = json!({"type": "text_delta", "contentIndex": 0, "delta": text});
        self.emit(&records::update(event));
    }

    fn end_text(&mut self, text: &str, stop: &str) -> Flow {
        let event = json!({"type": "text_end", "contentIndex": 0, "content": text});
        self.emit(&records::update(event));
        self.end(vec![text_block(text)], stop);
        self.end_turn(Vec::new());
        Flow::On
    }

    /// The answer is complete: onto the stream and into the session.
    fn end(&mut self, content: Vec<Value>, stop: &str) {
        let (model, thinking) = self.model();
        self.end_message(records::answer(&model, content, stop, &thinking));
    }

    fn end_message(&mut self, message: Value) {
        self.engine.state().session.message(&message);
        self.emit(&records::message("message_end", &message));
        self.messages.push(message);
    }

    fn end_turn(&mut self, results: Vec<Value>) {
        let mut answers = self.messages.iter().rev();
        let answer = answers.find(|m| m["role"] == "assistant");
        let answer = answer.cloned().unwrap_or_default();
        let record = json!({"type": "turn_end", "message": answer, "toolResults": results});
        self.emit(&record);
    }

    /// Ends the message that was begun as aborted.
    pub(super) fn abort_turn(&mut self, content: Vec<Value>) -> Flow {
        let (model, thinking) = self.model();
        let mut message = records::answer(&model, content, "aborted", &thinking);
        message["errorMessage"] = "Request was aborted".into();
        if message["content"].as_array().is_some_and(Vec::is_empty) {
            self.emit(&records::message("message_start", &message));
        }
        self.end_message(message);
        self.end_turn(Vec::new());
        Flow::Aborted
    }

    fn say(&mut self, text: &str, stop: &str) -> Flow {
        self.begin();
        self.open_text();
        let all: Vec<char> = text.chars().collect();
        for part in all.chunks(12) {
            self.delta(&part.iter().collect::<String>());
        }
        self.end_text(text, stop)
    }

    fn think(&mut self, text: &str) -> Flow {
        self.begin();
        let event = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "contentIndex": 0});
            if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
                event.extend(more);
            }
            self.emit(&records::update(event));
        };
        event("thinking_start", json!({}));
        event("thinking_delta", json!({"delta": text}));
        event("text_start", json!({"contentIndex": 1}));
        event("text_delta", json!({"contentIndex": 1, "delta": "thought"}));
        event("thinking_end", json!({"content": text}));
        event("text_end", json!({"contentIndex": 1, "content": "thought"}));
        let thinking = json!({"type": "thinking", "thinking": text,
                              "thinkingSignature": "reasoning_content"});
        self.end(vec![thinking, text_block("thought")], "stop");
        self.end_turn(Vec::new());
        Flow::On
    }

    fn fail(&mut self, error: &str) -> Flow {
        let (model, thinking) = self.model();
        let mut message = records::answer(&model, Vec::new(), "error", &thinking);
        message["errorMessage"] = error.into();
        self.emit(&records::message("message_start", &message));
        self.end_message(message);
        self.end_turn(Vec::new());
        Flow::Failed
    }

    fn stream(&mut self, statement: &Statement) -> Flow {
        let count = statement.number(0);
        let (_, pause) = statement.split();
        let pause = Duration::from_millis(pause.trim().parse().unwrap_or(0));
        let mut words = (0..count).map(|i| {
            let end = if i % 10 == 9 { '\n' } else { ' ' };
            format!("w{i}{end}")
        });
        self.deltas(&mut words, pause)
    }

    fn deltas(&mut self, deltas: &mut dyn Iterator<Item = String>, pause: Duration) -> Flow {
        self.begin();
        self.open_text();
        let mut text = String::new();
        for delta in deltas {
            self.delta(&delta);
            text.push_str(&delta);
            if self.engine.aborted_within(pause) {
                return self.abort_turn(vec![text_block(&text)]);
            }
        }
        self.end_text(&text, "stop")
    }

    /// The final message does not repeat the flood, it counts it.
    fn flood(&mut self, size: usize) -> Flow {
        self.begin();
        self.open_text();
        let mut sent: u64 = 0;
        while !self.engine.state().abort {
            let text = format!("n{sent} ");
            self.delta(&format!("{text:-<size$}"));
            sent += 1;
        }
        self.abort_turn(vec![text_block(&format!("flooded with {sent} deltas"))])
    }

    fn tool(&mut self, script: &str) -> Flow {
        let id = format!("call_{}_{}", std::process::id(), self.calls);
        self.calls += 1;
        let args = json!({"command": script});
        let call = json!({"type": "toolCall", "id": id, "name": "bash", "arguments": args});
        self.begin();
        let start = json!({"type": "toolcall_start", "contentIndex": 0, "id": id,
                           "toolName": "bash"});
        let delta = json!({"type": "toolcall_delta", "contentIndex": 0,
                           "delta": args.to_string()});
        let end = json!({"type": "toolcall_end", "contentIndex": 0, "toolCall": call});
        for event in [start, delta, end] {
            self.emit(&records::update(event));
        }
        self.end(vec![call], "toolUse");
        let same = json!({"toolCallId": id, "toolName": "bash", "args": args});
        self.emit(&with(&same, json!({"type": "tool_execution_start"})));
        let update = json!({"type": "tool_execution_update", "partialResult": {"content": []}});
        self.emit(&with(&same, update));

        let began = Instant::now();
        let (output, code) = self.run_shell(script, &same);
        let duration = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
        let aborted = code.is_none();
        let mut text = output;
        match code {
            None => text.push_str("\n\nCommand aborted"),
            Some(0) => {}
            Some(code) => text.push_str(&format!("\n\nCommand exited with code {code}")),
        }
        let failed = code != Some(0);
        self.emit(&json!({
            "type": "tool_execution_end", "toolCallId": id, "toolName": "bash",
            "result": {"content": [text_block(&text)]}, "isError": failed, "durationMs": duration,
        }));
        let result = records::tool_result(&id, &text, failed, duration);
        self.message(&result);
        self.end_turn(vec![result]);
        if aborted {
            self.emit(&json!({"type": "turn_start"}));
            return self.abort_turn(Vec::new());
        }
        Flow::On
    }

    /// Runs it; no code when it was aborted.
    fn run_shell(&self, script: &str, same: &Value) -> (String, Option<i32>) {
        let mut shell = helpers::shell(&format!("exec 2>&1\n{script}"));
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = match shell.spawn() {
            Ok(child) => child,
            Err(error) => return (error.to_string(), Some(127)),
        };
        self.engine.set_shell(child.id());
        let printed = Arc::new(Mutex::new(Vec::new()));
        let text = || {
            let bytes = printed.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let reader = child.stdout.take().map(|mut stdout| {
            let printed = Arc::clone(&printed);
            std::thread::spawn(move || {
                let mut part = [0; 8192];
                while let Ok(count @ 1..) = stdout.read(&mut part) {
                    let new = part.get(..count).unwrap_or_default();
                    let mut all = printed.lock().unwrap_or_else(PoisonError::into_inner);
                    all.extend_from_slice(new);
                }
            })
        });
        let mut said = 0;
        let mut next = Instant::now() + UPDATE;
        let code = loop {
            if let Ok(Some(status)) = child.try_wait() {
                break Some(status.code().unwrap_or(137));
            }
            if self.engine.aborted_within(Duration::from_millis(5)) {
                self.engine.kill_shell();
                let _ = child.wait();
                break None;
            }
            let now = text();
            if Instant::now() >= next && now.len() > said {
                said = now.len();
                next = Instant::now() + UPDATE;
                let partial = json!({"content": [text_block(&now)], "details": {}});
                let update = json!({"type": "tool_execution_update", "partialResult": partial});
                self.emit(&with(same, update));
            }
        };
        self.engine.set_shell(0);
        // A descendant may hold the pipe open for ever: what is there now is what is told.
        let patience = Instant::now() + Duration::from_millis(200);
        while reader.as_ref().is_some_and(|r| !r.is_finished()) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        (text(), code)
    }

    fn ask(&mut self, method: &str, title: &str, timeout: Option<u64>) -> Flow {
        let id = uuid::Uuid::new_v4().to_string();
        let mut request = json!({"type": "extension_ui_request", "id": id, "method": method,
                                 "title": title});
        match method {
            "select" => request["options"] = json!(["A", "B", "C"]),
            "confirm" => request["message"] = "Is that so?".into(),
            "input" => request["placeholder"] = "your answer".into(),
            "editor" => request["prefill"] = "first line\nsecond line".into(),
            _ => return self.fail(&format!("fake pi: no such dialog: {method}")),
        }
        let mut deadline = None;
        if let Some(ms) = timeout {
            request["timeout"] = ms.into();
            deadline = Some(Instant::now() + Duration::from_millis(ms));
        }
        self.emit(&request);
        let answer = self.engine.wait(deadline, |state| {
            let answer = state.ui.remove(&id).map(Some);
            answer.or_else(|| state.abort.then_some(None))
        });
        match answer {
            None => self.say("nobody answered", "stop"),
            Some(None) => self.abort_turn(Vec::new()),
            Some(Some(answer)) => {
                let text = if answer["cancelled"] == true {
                    "cancelled".to_owned()
                } else if let Some(value) = answer["value"].as_str() {
                    format!("answered: {value}")
                } else {
                    format!("answered: {}", answer["confirmed"])
                };
                self.say(&text, "stop")
            }
        }
    }

    fn retry(&mut self, statement: &Statement) -> Flow {
        let attempts = statement.number(1);
        let (_, rest) = statement.split();
        let (delay, text) = rest.split_once(' ').unwrap_or((rest, "recovered"));
        let delay: u64 = delay.parse().unwrap_or(0);
        let error = "429: {\"message\":\"Rate limit reached\",\"type\":\"rate_limit\"}";
        for attempt in 1..=attempts {
            let _ = self.fail(error);
            self.emit(&json!({"type": "agent_end", "messages": self.messages, "willRetry": true}));
            self.emit(
                &json!({"type": "auto_retry_start", "attempt": attempt, "maxAttempts": 3,
                              "delayMs": delay, "errorMessage": error}),
            );
            if self.engine.aborted_within(Duration::from_millis(delay)) {
                self.emit(
                    &json!({"type": "auto_retry_end", "success": false, "attempt": attempt,
                                  "finalError": "Retry cancelled"}),
                );
                return Flow::Aborted;
            }
            self.messages.clear();
            self.emit(&json!({"type": "agent_start"}));
            self.emit(&json!({"type": "turn_start"}));
        }
        self.begin();
        self.open_text();
        self.delta(text);
        let end = json!({"type": "text_end", "contentIndex": 0, "content": text});
        self.emit(&records::update(end));
        self.end(vec![text_block(text)], "stop");
        self.emit(&json!({"type": "auto_retry_end", "success": true, "attempt": attempts}));
        self.end_turn(Vec::new());
        Flow::On
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// `more` first, then the fields all records of a call share.
fn with(same: &Value, mut more: Value) -> Value {
    if let (Value::Object(more), Value::Object(same)) = (&mut more, same) {
        more.extend(same.clone());
    }
    more
}
