//! Calls of the default tool set: arguments in, what the model reads and what is drawn out.
//!
//! Every check that needs neither disk nor fleet is made here, whatever Pi has checked before:
//! Pi coerces, and hooks edit after its validation (R-TOOL-16).

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cap;
use super::subagents::{
    NestedSpawnArgs, Position, SEND, SPAWN, STOP, SendArgs, SpawnArgs, StopArgs,
};
use crate::fleet::agent::{Thinking, ToolChoice};
use crate::fleet::answer::{ErrorCode, Reply, RequestError};
use crate::fleet::completion::{Completion, Delivery, Question};
use crate::fleet::roster::UsageTotals;
use crate::fleet::transcript::Outcome;

/// A call, as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolUse {
    /// Start an agent.
    Spawn(Spawn),
    /// Message an agent.
    Send {
        /// Its name, as it was written.
        to: String,
        /// The text.
        message: String,
    },
    /// Stop an agent.
    Stop {
        /// Its name, as it was written.
        agent: String,
    },
}

/// Arguments of a spawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Spawn {
    /// The task.
    pub prompt: String,
    /// Title.
    pub label: String,
    /// Model; `None` = the dispatching session's (R-TOOL-04).
    pub model: Option<String>,
    /// Level; `None` = the dispatching session's.
    pub thinking: Option<Thinking>,
    /// Tools.
    pub tools: ToolChoice,
    /// Folder; `None` = the dispatching session's.
    pub cwd: Option<PathBuf>,
    /// Stay idle when done (R-LIFE-06).
    pub persistent: bool,
    /// Return when it has started.
    pub background: bool,
    /// Bound on every run in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// What a tool answers, for the model and for the eye.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the model reads.
    pub content: String,
    /// It failed.
    pub is_error: bool,
    /// What is drawn.
    pub details: Value,
    /// Usage of a foreground run in Pi's shape (R-TOOL-15).
    pub usage: Option<Value>,
}

/// Reads a call.
///
/// # Errors
/// `Invalid` with what is wrong, in words for a model.
pub fn read(position: Position, name: &str, arguments: Value) -> Result<ToolUse, RequestError> {
    match (name, position) {
        (SPAWN, Position::Root) => {
            let args: SpawnArgs = parse(name, arguments)?;
            not_blank(&args.prompt, &args.label)?;
            Ok(ToolUse::Spawn(Spawn {
                prompt: args.prompt,
                label: args.label,
                model: args.model,
                thinking: args.thinking,
                tools: args.tools.map_or(ToolChoice::All, ToolChoice::Only),
                cwd: args.cwd.map(PathBuf::from),
                persistent: args.persistent.unwrap_or(true),
                background: args.run_in_background,
                timeout_ms: args.timeout_ms,
            }))
        }
        (SPAWN, Position::Nested) => {
            let args: NestedSpawnArgs = parse(name, arguments)?;
            not_blank(&args.prompt, &args.label)?;
            Ok(ToolUse::Spawn(Spawn {
                prompt: args.prompt,
                label: args.label,
                model: args.model,
                thinking: args.thinking,
                tools: args.tools.map_or(ToolChoice::All, ToolChoice::Only),
                cwd: args.cwd.map(PathBuf::from),
                persistent: args.persistent.unwrap_or(false),
                background: false,
                timeout_ms: args.timeout_ms,
            }))
        }
        (SEND, _) => {
            let args: SendArgs = parse(name, arguments)?;
            // `@parent` is carried by the bridge of a child itself. Here nobody is called so, and
            // whoever looks the name up says who is known (R-TOOL-02).
            if args.message.trim().is_empty() {
                // Looked at before the sender is written in front of it.
                return Err(invalid("the message is empty"));
            }
            Ok(ToolUse::Send {
                to: args.to.trim().to_owned(),
                message: args.message,
            })
        }
        (STOP, Position::Root | Position::Nested) => {
            let args: StopArgs = parse(name, arguments)?;
            Ok(ToolUse::Stop {
                agent: args.agent_id.trim().to_owned(),
            })
        }
        _ => Err(invalid(&format!("there is no tool {name} here"))),
    }
}

fn parse<T: DeserializeOwned>(name: &str, arguments: Value) -> Result<T, RequestError> {
    // Pi hands over what the model wrote; null stands for "left out" with many models.
    let arguments = match arguments {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(name, value)| (name, whole(value)))
            .collect(),
        other => other,
    };
    serde_json::from_value(arguments)
        .map_err(|error| invalid(&format!("{name}: {error}")).with_hint("see the tool's schema"))
}

/// `1000.0` is the whole number it says, as in JSON Schema.
fn whole(value: Value) -> Value {
    /// Up to here every whole number has a form of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(number)
            if value.is_f64() && number.fract() == 0.0 && (0.0..=EXACT).contains(&number) =>
        {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, not negative, and small enough"
            )]
            let number = number as u64;
            Value::from(number)
        }
        _ => value,
    }
}

fn not_blank(prompt: &str, label: &str) -> Result<(), RequestError> {
    if prompt.trim().is_empty() {
        return Err(invalid("the prompt is empty"));
    }
    if label.trim().is_empty() {
        return Err(invalid("the label is empty"));
    }
    Ok(())
}

fn invalid(message: &str) -> RequestError {
    RequestError::new(ErrorCode::Invalid, message)
}

/// What there was of an agent's work when the call that waited for it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct SoFar {
    /// Its short name.
    pub name: String,
    /// How long the call waited, in milliseconds.
    pub took_ms: u64,
    /// Tokens and money.
    pub usage: UsageTotals,
    /// Tool calls.
    pub tool_uses: u64,
    /// Saved session, if it has one.
    pub session_path: Option<PathBuf>,
}

/// What is known of a call besides its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Title of the agent.
    pub label: &'a str,
    /// Its short name, if it has one.
    pub name: Option<&'a str>,
    /// The session that asked ends after its task (R-PI-17).
    pub one_task: bool,
    /// The agent stays idle.
    pub persistent: bool,
    /// Pi's id of the call, for one that starts an agent (R-TOOL-19).
    pub call: Option<&'a str>,
    /// What there was of the agent's work, if the call waited for it.
    pub so_far: Option<&'a SoFar>,
}

/// The answer to a call that was carried out.
#[must_use]
pub fn answer(reply: &Reply, context: Context<'_>) -> Answer {
    let name = context.name.unwrap_or_default();
    match reply {
        Reply::Spawned {
            name, session_path, ..
        } => {
            let path = session_path.as_deref();
            let mut content = format!("@{name} has started. Its final reply arrives by itself.");
            if let Some(path) = path {
                content.push_str(&format!("\nSession: {}", path.display()));
            }
            if context.one_task {
                content.push_str(
                    "\nThis process ends after its answer, and the agent ends with it: \
                     wait for nothing from it.",
                );
            }
            ok(
                content,
                json!({
                    "agent_id": name,
                    "label": context.label,
                    "call": context.call,
                    "session_path": path.map(|p| p.to_string_lossy()),
                    "status": "started",
                }),
            )
        }
        Reply::Finished {
            name,
            outcome,
            result,
            session_path,
            took_ms,
            usage,
            ..
        } => {
            let path = session_path.as_deref();
            let completed = matches!(outcome, Outcome::Completed { .. });
            let mut content = cap::capped(result, path).into_owned();
            content.push_str(&format!("\n\n[@{name}"));
            if completed && context.persistent {
                content.push_str(" is idle and can be messaged");
            }
            if let Some(path) = path {
                content.push_str(&format!("; session: {}", path.display()));
            }
            content.push(']');
            Answer {
                content,
                is_error: !completed,
                details: json!({
                    "agent_id": name,
                    "label": context.label,
                    "call": context.call,
                    "session_path": path.map(|p| p.to_string_lossy()),
                    "status": status_word(outcome),
                    "took_ms": took_ms,
                    "usage": usage_details(usage),
                    "tool_uses": context.so_far.map(|s| s.tool_uses),
                }),
                usage: Some(pi_usage(usage)),
            }
        }
        Reply::Sent {
            revived, steered, ..
        } => {
            let how = if *revived {
                "was started again from its session and has the message"
            } else if *steered {
                "has the message and reads it when its present tool calls are done"
            } else {
                "has the message"
            };
            ok(
                format!("@{name} {how}. Its final reply arrives by itself."),
                json!({"agent_id": name, "label": context.label, "revived": revived, "steered": steered}),
            )
        }
        Reply::Stopped { was_live } => ok(
            if *was_live {
                format!("@{name} is stopped. Its session is kept.")
            } else {
                format!("@{name} was not running. Its session is kept.")
            },
            json!({"agent_id": name, "label": context.label, "was_live": was_live}),
        ),
        Reply::Aborted { .. } | Reply::Done | Reply::Explained { .. } | Reply::Snapshot { .. } => {
            ok("Done.".to_owned(), Value::Null)
        }
    }
}

fn ok(content: String, details: Value) -> Answer {
    Answer {
        content,
        is_error: false,
        details,
        usage: None,
    }
}

/// The answer to a call that was refused or failed (R-TOOL-08). What there was of the agent's work is
/// kept for the eye.
#[must_use]
pub fn failure(error: &RequestError, context: Context<'_>) -> Answer {
    let mut content = error.message.clone();
    if let Some(hint) = &error.hint {
        content.push('\n');
        content.push_str(hint);
    }
    let so_far = context.so_far;
    let mut details = json!({
        "agent_id": context.name.or(so_far.map(|s| s.name.as_str())),
        "label": context.label,
        "error": error.code,
        "cancelled": error.code == ErrorCode::Cancelled,
    });
    if let Some(call) = context.call {
        details["call"] = call.into();
    }
    if let Some(so_far) = so_far {
        let path = so_far.session_path.as_ref().map(|p| p.to_string_lossy());
        details["session_path"] = json!(path);
        details["took_ms"] = so_far.took_ms.into();
        details["usage"] = usage_details(&so_far.usage);
        details["tool_uses"] = so_far.tool_uses.into();
    }
    Answer {
        content: cap::capped(&content, None).into_owned(),
        is_error: true,
        details,
        usage: None,
    }
}

/// A delivery as the parent's model reads it: the contract's JSON with its text capped (R-TOOL-09).
#[must_use]
pub fn content(delivery: &Delivery) -> String {
    match delivery {
        Delivery::FinalReply(completion) => {
            let result = cap::capped(&completion.result, completion.session_path.as_deref());
            Delivery::FinalReply(Completion {
                result: result.into_owned(),
                ..completion.clone()
            })
            .content()
        }
        Delivery::Question(question) => {
            let place = || "the whole is in the session of the agent".to_owned();
            Delivery::Question(Question {
                question: cap::within(&question.question, place).into_owned(),
                ..question.clone()
            })
            .content()
        }
    }
}

/// Most of a text that is carried along to be drawn.
const DRAWN: usize = 256 * 1024;

/// What is drawn of a delivery.
#[must_use]
pub fn details(delivery: &Delivery) -> Value {
    match delivery {
        Delivery::FinalReply(c) => json!({
            "agent_id": c.agent,
            "status": c.status,
            "session_path": c.session_path.as_ref().map(|p| p.to_string_lossy()),
            "idle": c.idle,
            "result": cut(&c.result, DRAWN),
        }),
        Delivery::Question(q) => json!({
            "agent_id": q.agent,
            "question": cut(&q.question, DRAWN),
        }),
    }
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn status_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Failed { .. } => "failed",
        Outcome::Stopped { .. } => "stopped",
    }
}

fn usage_details(usage: &UsageTotals) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cost": usage.cost,
    })
}

/// Pi's shape. It knows the money as a whole only.
fn pi_usage(usage: &UsageTotals) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.input + usage.output + usage.cache_read + usage.cache_write,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": usage.cost},
    })
}
