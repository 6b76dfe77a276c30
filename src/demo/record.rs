//! The records this agent writes, with Pi's names in Pi's order of keys (readers may rely on `type` coming first).
//! Written by hand rather than taken from `crate::pi`: those types read, and borrow from what they read.

use serde::Serialize;
use serde_json::Value;

/// Money of one answer, in US dollars.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    pub total: f64,
}

/// Tokens of one answer.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total_tokens: u64,
    pub cost: Cost,
}

/// A piece of a message.
#[derive(Clone, Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
        thinking_signature: &'static str,
    },
    ToolCall {
        id: String,
        name: String,
        arguments: Value,
    },
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// The parts of the system prompt.
#[derive(Clone, Debug, Serialize)]
pub struct Sections {
    pub preamble: &'static str,
    pub appended: String,
    pub cwd: String,
}

/// The model's answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistant {
    pub content: Vec<Block>,
    pub api: &'static str,
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub stop_reason: &'static str,
    pub timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

/// A message, live and saved.
#[derive(Clone, Debug, Serialize)]
#[serde(
    tag = "role",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Message {
    System {
        content: &'static str,
        sections: Sections,
        timestamp: u64,
    },
    User {
        content: Vec<Block>,
        timestamp: u64,
    },
    Assistant(Assistant),
    ToolResult {
        tool_call_id: String,
        tool_name: String,
        content: Vec<Block>,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        is_error: bool,
        duration_ms: u64,
        timestamp: u64,
    },
}

/// What changed in the answer being written.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Change<'a> {
    ThinkingStart {
        content_index: usize,
    },
    ThinkingDelta {
        content_index: usize,
        delta: &'a str,
    },
    ThinkingEnd {
        content_index: usize,
        content: &'a str,
    },
    TextStart {
        content_index: usize,
    },
    TextDelta {
        content_index: usize,
        delta: &'a str,
    },
    TextEnd {
        content_index: usize,
        content: &'a str,
    },
    #[serde(rename = "toolcall_start")]
    ToolCallStart {
        content_index: usize,
        id: &'a str,
        tool_name: &'a str,
    },
    #[serde(rename = "toolcall_delta")]
    ToolCallDelta {
        content_index: usize,
        delta: &'a str,
    },
    #[serde(rename = "toolcall_end")]
    ToolCallEnd {
        content_index: usize,
        tool_call: &'a Block,
    },
}

/// Output of a tool so far, or all of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    pub content: Vec<Block>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
}

/// One line to the supervisor.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Record<'a> {
    AgentStart,
    TurnStart,
    MessageStart {
        message: &'a Message,
    },
    MessageUpdate {
        usage: &'a Usage,
        assistant_message_event: Change<'a>,
    },
    MessageEnd {
        message: &'a Message,
    },
    ToolExecutionStart {
        tool_call_id: &'a str,
        tool_name: &'a str,
        args: &'a Value,
    },
    ToolExecutionUpdate {
        tool_call_id: &'a str,
        tool_name: &'a str,
        args: &'a Value,
        partial_result: &'a ToolOutput,
    },
    ToolExecutionEnd {
        tool_call_id: &'a str,
        tool_name: &'a str,
        result: &'a ToolOutput,
        is_error: bool,
        duration_ms: u64,
    },
    TurnEnd {
        message: &'a Message,
        tool_results: &'a [Message],
    },
    AgentEnd {
        messages: &'a [Message],
        will_retry: bool,
    },
    AgentSettled {
        aborted: bool,
    },
    QueueUpdate {
        steering: Vec<&'a str>,
        follow_up: Vec<&'a str>,
    },
    AutoRetryStart {
        attempt: u32,
        max_attempts: u32,
        delay_ms: u64,
        error_message: &'a str,
    },
    AutoRetryEnd {
        success: bool,
        attempt: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        final_error: Option<&'a str>,
    },
    EntryAppended {
        entry: &'a Value,
    },
    SessionInfoChanged {
        name: &'a str,
    },
    ThinkingLevelChanged {
        level: &'a str,
    },
    ExtensionUiRequest {
        id: &'a str,
        method: &'a str,
        title: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        options: Option<&'a [String]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        placeholder: Option<&'a str>,
    },
}

/// Answer to a command.
#[derive(Debug, Serialize)]
pub struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a Value>,
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<&'a str>,
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
