//! Answers to commands and the typed data in them.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::lenient;
use super::message::raw_text;

/// The answer to a command. Answers come in any order: only `id` says to which (pi-facts §2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response<'a> {
    /// Id of the command; `None` when Pi could not read the command.
    pub id: Option<Cow<'a, str>>,
    /// Type of the command; empty when Pi could not tell.
    pub command: Cow<'a, str>,
    /// It was done.
    pub success: bool,
    /// Why not.
    pub error: Option<Cow<'a, str>>,
    /// Data as JSON text, empty when there is none; the methods below read it.
    pub data: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Flat<'a> {
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    command: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::or_zero")]
    success: bool,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Response<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(input)?;
        Ok(Self {
            id: flat.id,
            command: flat.command,
            success: flat.success,
            error: flat.error,
            data: raw_text(flat.data),
        })
    }
}

/// What became of a prompt (R-LIFE-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It started a run.
    Started,
    /// It waits in Pi's queue of a run that is going on.
    Queued,
    /// An extension command took it: no run.
    Handled,
    /// Pi did not say.
    Missing,
}

/// A model Pi can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// Provider.
    pub provider: String,
    /// Id within the provider.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Size of its context in tokens; 0 = unknown.
    pub context_window: u64,
    /// It can think.
    pub reasoning: bool,
}

impl ModelInfo {
    /// `provider/id`, as `--model` takes it.
    #[must_use]
    pub fn full_id(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatModel<'a> {
    #[serde(borrow, deserialize_with = "lenient::text")]
    provider: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    name: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::or_zero")]
    context_window: u64,
    #[serde(deserialize_with = "lenient::or_zero")]
    reasoning: bool,
}

impl From<FlatModel<'_>> for ModelInfo {
    fn from(flat: FlatModel<'_>) -> Self {
        Self {
            provider: flat.provider.into_owned(),
            id: flat.id.into_owned(),
            name: flat.name.into_owned(),
            context_window: flat.context_window,
            reasoning: flat.reasoning,
        }
    }
}

/// `get_state`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Model in use; `None` = none configured.
    pub model: Option<ModelInfo>,
    /// Thinking level in use, Pi's word.
    pub thinking: Option<String>,
    /// Session file; named before it exists.
    pub session_file: Option<PathBuf>,
    /// Session id.
    pub session_id: Option<String>,
    /// Name of the session.
    pub session_name: Option<String>,
    /// A run is going on, tools, dialogs and waits for a retry included.
    pub streaming: bool,
    /// The context is being compacted.
    pub compacting: bool,
    /// User messages in Pi's queue.
    pub pending: u32,
    /// Messages in the context, the system message included.
    pub messages: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatState<'a> {
    #[serde(borrow)]
    model: Option<FlatModel<'a>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    thinking_level: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    session_file: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    session_name: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "lenient::or_zero")]
    is_streaming: bool,
    #[serde(deserialize_with = "lenient::or_zero")]
    is_compacting: bool,
    #[serde(deserialize_with = "lenient::or_zero")]
    pending_message_count: u32,
    #[serde(deserialize_with = "lenient::or_zero")]
    message_count: u32,
}

/// `get_session_stats`, as far as anybody reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Prompt tokens.
    pub input: u64,
    /// Generated tokens.
    pub output: u64,
    /// US dollars.
    pub cost: f64,
    /// Tokens in the context; `None` right after a compaction.
    pub context_tokens: Option<u64>,
    /// Size of the context; 0 = unknown.
    pub context_window: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatStats {
    tokens: FlatTokens,
    #[serde(deserialize_with = "lenient::or_zero")]
    cost: f64,
    context_usage: Option<FlatContext>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlatTokens {
    #[serde(deserialize_with = "lenient::or_zero")]
    input: u64,
    #[serde(deserialize_with = "lenient::or_zero")]
    output: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FlatContext {
    #[serde(deserialize_with = "lenient::opt")]
    tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::or_zero")]
    context_window: u64,
}

impl Response<'_> {
    fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(&self.data).ok()
    }

    /// What became of a prompt.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow, deserialize_with = "lenient::text")]
            disposition: Cow<'a, str>,
        }
        match self.read::<Data>().as_ref().map(|d| &*d.disposition) {
            Some("started") => Disposition::Started,
            Some("queued") => Disposition::Queued,
            Some("handled") => Disposition::Handled,
            _ => Disposition::Missing,
        }
    }

    /// What `clear_queue` dropped, in the order it would have gone out.
    #[must_use]
    pub fn dropped(&self) -> Vec<String> {
        let queue: super::event::QueueUpdate = self.read().unwrap_or_default();
        let all = queue.steering.into_iter().chain(queue.follow_up);
        all.map(Cow::into_owned).collect()
    }

    /// The data of `get_state`.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        let flat: FlatState = self.read()?;
        let own = |text: Option<Cow<str>>| text.map(Cow::into_owned);
        Some(State {
            model: flat.model.map(ModelInfo::from),
            thinking: own(flat.thinking_level),
            session_file: flat.session_file.map(|p| PathBuf::from(&*p)),
            session_id: own(flat.session_id),
            session_name: own(flat.session_name),
            streaming: flat.is_streaming,
            compacting: flat.is_compacting,
            pending: flat.pending_message_count,
            messages: flat.message_count,
        })
    }

    /// The data of `get_available_models`: only models with credentials.
    #[must_use]
    pub fn models(&self) -> Vec<ModelInfo> {
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow)]
            models: Vec<FlatModel<'a>>,
        }
        let data: Option<Data> = self.read();
        let models = data.map(|d| d.models).unwrap_or_default();
        models.into_iter().map(ModelInfo::from).collect()
    }

    /// Names in the data of `get_commands`, without the slash.
    #[must_use]
    pub fn commands(&self) -> Option<Vec<String>> {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow)]
            commands: Vec<Named<'a>>,
        }
        let data: Data = self.read()?;
        Some(
            data.commands
                .into_iter()
                .map(|c| c.name.into_owned())
                .collect(),
        )
    }

    /// The data of `set_model`.
    #[must_use]
    pub fn model(&self) -> Option<ModelInfo> {
        self.read::<FlatModel>().map(ModelInfo::from)
    }

    /// The data of `get_session_stats`.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        let flat: FlatStats = self.read()?;
        let context = flat.context_usage.unwrap_or_default();
        Some(Stats {
            input: flat.tokens.input,
            output: flat.tokens.output,
            cost: flat.cost,
            context_tokens: context.tokens,
            context_window: context.context_window,
        })
    }

    /// A session replacement was answered with "not done".
    #[must_use]
    pub fn cancelled(&self) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Data {
            #[serde(deserialize_with = "lenient::or_zero")]
            cancelled: bool,
        }
        self.read::<Data>().unwrap_or_default().cancelled
    }
}
