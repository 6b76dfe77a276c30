//! What a child's extension asks of the screen. Only the first four methods wait for an answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;

use super::lenient;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiRequest<'a> {
    /// Id to answer with.
    pub id: Cow<'a, str>,
    /// What it wants.
    pub method: UiMethod<'a>,
    /// It closes by itself after this long; Pi sends no record then (pi-facts §3).
    pub timeout_ms: Option<u64>,
}

/// What an extension wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiMethod<'a> {
    /// Choose one. Waits for an answer.
    Select {
        /// Title line.
        title: Cow<'a, str>,
        /// The choices.
        options: Vec<Cow<'a, str>>,
    },
    /// Yes or no. Waits for an answer.
    Confirm {
        /// Title line.
        title: Cow<'a, str>,
        /// The longer question.
        message: Cow<'a, str>,
    },
    /// One line of text. Waits for an answer.
    Input {
        /// Title line.
        title: Cow<'a, str>,
        /// Grey text of the empty field.
        placeholder: Option<Cow<'a, str>>,
    },
    /// Several lines of text. Waits for an answer.
    Editor {
        /// Title line.
        title: Cow<'a, str>,
        /// Text to begin with.
        prefill: Option<Cow<'a, str>>,
    },
    /// A message for the person.
    Notify {
        /// The message.
        message: Cow<'a, str>,
        /// `info`, `warning`, `error` or empty.
        level: Cow<'a, str>,
    },
    /// A status entry; without text it goes away.
    SetStatus {
        /// Whose.
        key: Cow<'a, str>,
        /// The text.
        text: Option<Cow<'a, str>>,
    },
    /// Lines beside the editor; without lines they go away.
    SetWidget {
        /// Whose.
        key: Cow<'a, str>,
        /// The lines.
        lines: Vec<Cow<'a, str>>,
        /// `aboveEditor`, `belowEditor` or empty.
        placement: Cow<'a, str>,
    },
    /// A title of the terminal.
    SetTitle {
        /// The title.
        title: Cow<'a, str>,
    },
    /// Text for the editor.
    SetEditorText {
        /// The text.
        text: Cow<'a, str>,
    },
    /// A method from the future: whether it waits is unknown.
    Other {
        /// Its name.
        method: Cow<'a, str>,
        /// Its title, if it has one.
        title: Cow<'a, str>,
    },
}

impl UiMethod<'_> {
    /// True when Pi waits for an answer.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(
            self,
            Self::Select { .. } | Self::Confirm { .. } | Self::Input { .. } | Self::Editor { .. }
        )
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Flat<'a> {
    #[serde(borrow, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    method: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::opt")]
    timeout: Option<u64>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    title: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::texts")]
    options: Vec<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    message: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    placeholder: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    prefill: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    notify_type: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    status_key: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::opt_text")]
    status_text: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    widget_key: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::texts")]
    widget_lines: Vec<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    widget_placement: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "lenient::text")]
    text: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for UiRequest<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(input)?;
        let title = flat.title;
        let method = match &*flat.method {
            "select" => UiMethod::Select {
                title,
                options: flat.options,
            },
            "confirm" => UiMethod::Confirm {
                title,
                message: flat.message,
            },
            "input" => UiMethod::Input {
                title,
                placeholder: flat.placeholder,
            },
            "editor" => UiMethod::Editor {
                title,
                prefill: flat.prefill,
            },
            "notify" => UiMethod::Notify {
                message: flat.message,
                level: flat.notify_type,
            },
            "setStatus" => UiMethod::SetStatus {
                key: flat.status_key,
                text: flat.status_text,
            },
            "setWidget" => UiMethod::SetWidget {
                key: flat.widget_key,
                lines: flat.widget_lines,
                placement: flat.widget_placement,
            },
            "setTitle" => UiMethod::SetTitle { title },
            "set_editor_text" => UiMethod::SetEditorText { text: flat.text },
            _ => UiMethod::Other {
                method: flat.method,
                title,
            },
        };
        Ok(Self {
            id: flat.id,
            method,
            timeout_ms: flat.timeout,
        })
    }
}
