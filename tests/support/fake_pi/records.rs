//! Pi's records, with the fields real Pi 1.6.0 sends.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Now, in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

/// Now, as Pi writes it into session files.
pub(crate) fn now_iso() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Usage of an answer.
pub(crate) fn usage(input: u64, output: u64) -> Value {
    json!({
        "input": input, "output": output, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0,
        "totalTokens": input + output,
        "cost": {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003,
                 "totalFromProvider": false},
    })
}

/// The message that opens a session.
pub(crate) fn system(cwd: &str) -> Value {
    json!({
        "role": "system",
        "content": "",
        "sections": {"preamble": "You are a fake.", "cwd": format!("<cwd>\n{cwd}\n</cwd>")},
        "timestamp": now_ms(),
        "toolsAdded": [{"name": "bash", "description": "Runs a command",
                        "parameters": {"type": "object"}}],
    })
}

/// What the user said.
pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": now_ms()})
}

/// An answer that has begun.
pub(crate) fn pending(model: &Value) -> Value {
    json!({
        "role": "assistant",
        "content": [],
        "api": model["api"],
        "provider": model["provider"],
        "model": model["id"],
        "usage": usage(0, 0),
        "stopReason": "pending",
        "timestamp": now_ms(),
    })
}

/// An answer that has ended.
pub(crate) fn answer(model: &Value, content: Vec<Value>, stop: &str, thinking: &str) -> Value {
    let complete = matches!(stop, "stop" | "length" | "toolUse");
    let mut message = json!({
        "role": "assistant",
        "content": content,
        "api": model["api"],
        "provider": model["provider"],
        "model": model["id"],
        "usage": if complete { usage(1000, 20) } else { usage(0, 0) },
        "stopReason": stop,
        "timestamp": now_ms(),
        "durationMs": 5,
        "thinkingLevel": thinking,
    });
    if complete {
        let raw = if stop == "toolUse" {
            "tool_calls"
        } else {
            stop
        };
        message["rawStopReason"] = raw.into();
        message["responseId"] = format!("fake-{}", now_ms()).into();
    }
    message
}

/// What a tool gave.
pub(crate) fn tool_result(id: &str, text: &str, is_error: bool, duration: u64) -> Value {
    json!({
        "role": "toolResult",
        "toolCallId": id,
        "toolName": "bash",
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
        "durationMs": duration,
        "timestamp": now_ms(),
    })
}

/// A message that starts or ends.
pub(crate) fn message(kind: &str, message: &Value) -> Value {
    json!({"type": kind, "message": message})
}

/// A piece of an answer.
pub(crate) fn update(event: Value) -> Value {
    json!({"type": "message_update", "usage": usage(0, 0), "assistantMessageEvent": event})
}

/// A response.
pub(crate) fn response(command: &Value, result: Result<Option<Value>, String>) -> Value {
    let mut record = json!({"type": "response", "success": result.is_ok()});
    if let Some(id) = command.get("id") {
        record["id"] = id.clone();
    }
    if let Some(kind) = command.get("type").filter(|kind| kind.is_string()) {
        record["command"] = kind.clone();
    }
    match result {
        Ok(Some(data)) => record["data"] = data,
        Ok(None) => {}
        Err(error) => record["error"] = error.into(),
    }
    record
}

/// The models the fake has: one that thinks and one that does not.
pub(crate) fn models() -> [Value; 2] {
    let model = |id: &str, name: &str, reasoning: bool| {
        json!({
            "id": id, "name": name, "api": "fake-api", "provider": "fake",
            "baseUrl": "http://127.0.0.1:9/v1", "reasoning": reasoning, "input": ["text"],
            "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
            "contextWindow": 128_000, "maxTokens": 8192,
        })
    };
    [
        model("one", "Fake One", true),
        model("two", "Fake Two", false),
    ]
}
