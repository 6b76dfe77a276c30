//! The default tool set: `agent_spawn`, `agent_send`, `agent_stop` (R-TOOL-01 to R-TOOL-06).
//!
//! Owns what the model reads of them and how their arguments are read. `assets/bridge/tools.json`
//! is made from [`definitions`], so that the bridge can register them before a core is there.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::fleet::agent::Thinking;

/// Starts an agent.
pub const SPAWN: &str = "agent_spawn";
/// Messages an agent or the parent.
pub const SEND: &str = "agent_send";
/// Stops an agent.
pub const STOP: &str = "agent_stop";
/// How a child addresses whoever started it.
pub const PARENT: &str = "@parent";

/// Where in the tree a Pi session is; the schemas follow it (R-TOOL-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// A person's Pi session.
    Root,
    /// A child that may start agents of its own.
    Nested,
    /// A child at the depth limit.
    Leaf,
}

impl Position {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Root, Self::Nested, Self::Leaf];

    /// The position of a session `depth` levels below a person, where agents may go `max_depth` deep.
    #[must_use]
    pub fn at(depth: u32, max_depth: u32) -> Self {
        match depth {
            0 => Self::Root,
            _ if depth < max_depth => Self::Nested,
            _ => Self::Leaf,
        }
    }
}

/// One tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Name.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// What it does.
    pub description: String,
    /// One line for the list of tools in the system prompt.
    pub prompt_snippet: &'static str,
    /// JSON schema of its arguments.
    pub input_schema: Schema,
}

/// The schema of an object, its properties in the order in which the model reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Name and schema of each.
    pub properties: Vec<(&'static str, Value)>,
    /// The names of those that must be there.
    pub required: &'static [&'static str],
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct Ordered<'a>(&'a [(&'static str, Value)]);
        impl Serialize for Ordered<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_map(self.0.iter().map(|(name, schema)| (name, schema)))
            }
        }
        let mut object = to.serialize_struct("Schema", 4)?;
        object.serialize_field("type", "object")?;
        object.serialize_field("properties", &Ordered(&self.properties))?;
        object.serialize_field("required", self.required)?;
        object.serialize_field("additionalProperties", &false)?;
        object.end()
    }
}

/// Arguments of [`SPAWN`] at the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnArgs {
    /// The task.
    pub prompt: String,
    /// One-line title.
    pub label: String,
    /// Model.
    #[serde(default)]
    pub model: Option<String>,
    /// Thinking level.
    #[serde(default)]
    pub thinking: Option<Thinking>,
    /// Tools; none given, none, or exactly these.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Folder.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Stay when the run is over.
    #[serde(default)]
    pub persistent: Option<bool>,
    /// Do not wait for the reply.
    #[serde(default)]
    pub run_in_background: bool,
    /// Bound on every run, in milliseconds.
    #[serde(default, rename = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

/// Arguments of [`SPAWN`] in a child: it waits for every agent it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestedSpawnArgs {
    /// The task.
    pub prompt: String,
    /// One-line title.
    pub label: String,
    /// Model.
    #[serde(default)]
    pub model: Option<String>,
    /// Thinking level.
    #[serde(default)]
    pub thinking: Option<Thinking>,
    /// Tools.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Folder.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Stay when the run is over.
    #[serde(default)]
    pub persistent: Option<bool>,
    /// Bound on every run, in milliseconds.
    #[serde(default, rename = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

/// Arguments of [`SEND`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendArgs {
    /// To whom.
    pub to: String,
    /// What.
    pub message: String,
}

/// Arguments of [`STOP`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopArgs {
    /// Whom.
    pub agent_id: String,
}

/// The tools of a session at this position, in the order in which they are listed.
#[must_use]
pub fn definitions(position: Position) -> Vec<Definition> {
    match position {
        Position::Root | Position::Nested => vec![spawn(position), send(position), stop()],
        Position::Leaf => vec![send(position)],
    }
}

/// The text of `assets/bridge/tools.json`.
///
/// # Errors
/// None in practice: it is text.
pub fn as_json() -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct All {
        root: Vec<Definition>,
        nested: Vec<Definition>,
        leaf: Vec<Definition>,
    }
    let mut text = serde_json::to_string_pretty(&All {
        root: definitions(Position::Root),
        nested: definitions(Position::Nested),
        leaf: definitions(Position::Leaf),
    })?;
    text.push('\n');
    Ok(text)
}

fn spawn(position: Position) -> Definition {
    let root = position == Position::Root;
    let levels: Vec<&str> = Thinking::ALL.into_iter().map(Thinking::as_str).collect();
    let mut properties = vec![
        (
            "prompt",
            json!({"type": "string", "description": "The task. The agent sees nothing of this conversation: say everything it needs."}),
        ),
        (
            "label",
            json!({"type": "string", "description": "A title of a few words, shown to the user."}),
        ),
        (
            "model",
            json!({"type": "string", "description": "`provider/id`, an id, or either with `:thinking` behind it. Omitted: this session's model."}),
        ),
        (
            "thinking",
            json!({"type": "string", "enum": levels, "description": "Thinking level. Omitted: this session's level."}),
        ),
        (
            "tools",
            json!({"type": "array", "items": {"type": "string"}, "description": "Exactly these tools. Omitted: the default tools. An empty list: none. agent_send is always there."}),
        ),
        (
            "cwd",
            json!({"type": "string", "description": "Existing working folder, relative to this session's. Omitted: this session's."}),
        ),
        (
            "persistent",
            json!({"type": "boolean", "description": if root {
                "Keep the agent idle after a run, to be messaged again. Default true."
            } else {
                "Keep the agent idle after a run, to be messaged again while this session runs. Default false."
            }}),
        ),
    ];
    if root {
        properties.push((
            "run_in_background",
            json!({"type": "boolean", "description": "Return as soon as the agent has started; its reply arrives by itself later. Default false: wait for the reply."}),
        ));
    }
    properties.push((
        "timeoutMs",
        json!({"type": "integer", "minimum": 1, "maximum": i32::MAX, "description": "Stop each of its runs after this many milliseconds. Omitted: no limit."}),
    ));
    let mut description = String::from(
        "Starts an agent: a Pi process of its own with its own context and saved session. ",
    );
    description.push_str(if root {
        "By default waits and returns the agent's final reply; cancelling the call stops the agent. \
         With run_in_background it returns the agent's name at once, and the final reply arrives by \
         itself as a message; do not wait or ask for it. "
    } else {
        "Waits and returns the agent's final reply; cancelling the call stops the agent. "
    });
    description.push_str(
        "Several calls in one message run side by side. The agent is addressed by the short name \
         that is returned (agent_send, agent_stop). Its session file is kept.",
    );
    Definition {
        name: SPAWN,
        title: "Spawn agent",
        description,
        prompt_snippet: "Start an agent with its own context for a task",
        input_schema: object(properties, &["prompt", "label"]),
    }
}

fn send(position: Position) -> Definition {
    let (to, description, prompt_snippet) = match position {
        Position::Root => (
            json!({"type": "string", "description": "Name of an agent this session started, such as `max` or `@max`."}),
            "Messages an agent that this session started. A running agent reads it when its present \
             tool calls are done; an idle, finished, stopped or failed one is started again from its \
             session. Returns when the message was accepted; the agent's reply arrives by itself.",
            "Message an agent that was started before",
        ),
        Position::Nested => (
            json!({"type": "string", "description": "Name of an agent this session started, or `@parent`."}),
            "Messages an agent that this session started, or the parent. An agent reads it when its \
             present tool calls are done; an idle, finished, stopped or failed one is started again \
             from its session. To `@parent` send only a question you can work on without an answer to; \
             your final reply reaches the parent by itself.",
            "Message an agent that was started before, or the parent",
        ),
        Position::Leaf => (
            json!({"type": "string", "enum": [PARENT], "description": "`@parent`."}),
            "Asks the parent a question you can work on without an answer to. Returns at once; the \
             answer arrives by itself between two of your steps. Not for progress, results or a \
             question that blocks you: those belong into your final reply, which reaches the parent by \
             itself.",
            "Ask the parent something without waiting",
        ),
    };
    let message = json!({"type": "string", "description": "The text."});
    Definition {
        name: SEND,
        title: "Message agent",
        description: description.to_owned(),
        prompt_snippet,
        input_schema: object(vec![("to", to), ("message", message)], &["to", "message"]),
    }
}

fn stop() -> Definition {
    let id = json!({"type": "string", "description": "Name of an agent this session started, such as `max` or `@max`."});
    Definition {
        name: STOP,
        title: "Stop agent",
        description:
            "Stops an agent that this session started, whatever it is doing, and returns when \
                      its process is gone. The stopped run sends no reply. Its session is kept: \
                      agent_send starts it again."
                .to_owned(),
        prompt_snippet: "Stop an agent",
        input_schema: object(vec![("agent_id", id)], &["agent_id"]),
    }
}

fn object(properties: Vec<(&'static str, Value)>, required: &'static [&'static str]) -> Schema {
    Schema {
        properties,
        required,
    }
}
