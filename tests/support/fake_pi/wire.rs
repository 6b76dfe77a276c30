//! JSON with the keys in Pi's order. `serde_json` sorts them, and a reader that is tuned to real
//! records (`type` first, `willRetry` last) must meet the same here.

use serde_json::{Map, Value};

/// The record as one line, LF included.
pub(crate) fn line(record: &Value) -> String {
    let mut line = String::new();
    write(record, &mut line);
    line.push('\n');
    line
}

fn write(value: &Value, into: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by_key(|key| rank(key, map));
            into.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                into.push_str(&Value::from(key.as_str()).to_string());
                into.push(':');
                write(map.get(key).unwrap_or(&Value::Null), into);
            }
            into.push('}');
        }
        Value::Array(items) => {
            into.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write(item, into);
            }
            into.push(']');
        }
        plain => into.push_str(&plain.to_string()),
    }
}

/// Place of a key among its siblings; what is not named stands in the middle, sorted.
fn rank(key: &str, siblings: &Map<String, Value>) -> usize {
    const FIRST: &[&str] = &[
        "type",
        "version",
        "role",
        "id",
        "parentId",
        "toolCallId",
        "toolName",
        "args",
        "command",
        "success",
        "method",
        "title",
        "contentIndex",
        "input",
        "output",
    ];
    const MESSAGE: &[&str] = &[
        "content",
        "sections",
        "api",
        "provider",
        "model",
        "usage",
        "stopReason",
        "timestamp",
    ];
    match key {
        "id" if siblings.get("type").is_some_and(|kind| kind == "response") => 0,
        "timestamp" if siblings.contains_key("parentId") => 10,
        "usage" if siblings.contains_key("assistantMessageEvent") => 20,
        "id" if siblings.contains_key("contentIndex") => 20,
        "toolName" if siblings.contains_key("contentIndex") => 21,
        "timestamp" if siblings.contains_key("isError") => 80,
        "errorMessage" => 50,
        "responseId" => 51,
        "rawStopReason" => 52,
        "isError" => 70,
        "durationMs" => 71,
        "thinkingLevel" => 72,
        "willRetry" => 100,
        _ => {
            let first = FIRST.iter().position(|first| *first == key);
            let message = || MESSAGE.iter().position(|next| *next == key);
            first
                .map(|place| place + 1)
                .or_else(|| message().map(|place| place + 30))
                .unwrap_or(60)
        }
    }
}
