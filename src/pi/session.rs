//! The end of a session file, as Pi writes it: one JSON entry per line, each with an id and the id of
//! the entry before it.
//!
//! Owns what a line says of its place in the conversation; contents are skipped. The file is untrusted
//! like all that Pi writes: a line that cannot be read is a gap, never an error. Lines end at LF only
//! (U+2028 lies raw in texts), a CR before it is white space.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::lenient;

/// A longer id is none of Pi's.
const LONGEST_ID: usize = 128;

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person, or who writes in their place.
    User,
    /// The model.
    Assistant,
    /// A tool.
    ToolResult,
}

/// What a message is known by on the wire and in the file alike. Its entry's id is only in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageKey {
    /// Who speaks.
    pub role: Role,
    /// Pi's time of the message, Unix milliseconds.
    pub at_ms: i64,
}

/// What an entry says it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// It does not say; Pi always does.
    Unsaid,
    /// Nothing: it begins a conversation.
    Root,
    /// The entry with that id.
    Entry(String),
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// What it follows.
    pub parent: Parent,
    /// The message in it, if it is one of a [`Role`] and says when it was.
    pub message: Option<MessageKey>,
    /// Where its line begins, in bytes from the beginning of what was read.
    pub start: usize,
    /// What stands before it could not be read: whether it follows it cannot be told.
    pub after_gap: bool,
}

/// Reads the entries of a piece of a session file that goes to the file's end. `whole` = it also
/// begins where the file does; else the rest of a line may stand first.
#[must_use]
pub fn entries(piece: &[u8], whole: bool) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut gap = !whole;
    let mut start = if whole {
        0
    } else {
        memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at + 1)
    };
    while let Some(rest) = piece.get(start..).filter(|rest| !rest.is_empty()) {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default().trim_ascii();
        match read(line) {
            Line::Blank | Line::Header => {}
            Line::Bad => gap = true,
            Line::Entry {
                id,
                parent,
                message,
            } => found.push(Entry {
                id,
                parent,
                message,
                start,
                after_gap: std::mem::take(&mut gap),
            }),
        }
        start += end + 1;
    }
    found
}

enum Line {
    Blank,
    Header,
    Bad,
    Entry {
        id: String,
        parent: Parent,
        message: Option<MessageKey>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlatEntry<'a> {
    #[serde(rename = "type", borrow, deserialize_with = "lenient::text")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "lenient::text")]
    id: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "said")]
    parent_id: Option<Option<Cow<'a, str>>>,
    #[serde(borrow)]
    message: Option<FlatMessage<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlatMessage<'a> {
    #[serde(borrow, deserialize_with = "lenient::text")]
    role: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::or_zero")]
    timestamp: i64,
}

/// Tells a field that is null from one that is not there.
fn said<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<Cow<'de, str>>>, D::Error> {
    lenient::opt_text(input).map(Some)
}

fn read(line: &[u8]) -> Line {
    if line.is_empty() {
        return Line::Blank;
    }
    let Ok(flat) = serde_json::from_slice::<FlatEntry>(line) else {
        return Line::Bad;
    };
    if flat.kind == "session" {
        return Line::Header;
    }
    if flat.id.is_empty() || flat.id.len() > LONGEST_ID {
        return Line::Bad;
    }
    let parent = match flat.parent_id {
        None => Parent::Unsaid,
        Some(None) => Parent::Root,
        Some(Some(id)) => Parent::Entry(id.into_owned()),
    };
    let message = flat.message.filter(|_| flat.kind == "message");
    Line::Entry {
        id: flat.id.into_owned(),
        parent,
        message: message.and_then(|message| {
            let at_ms = message.timestamp;
            let role = role(&message.role)?;
            (at_ms > 0).then_some(MessageKey { role, at_ms })
        }),
    }
}

fn role(word: &str) -> Option<Role> {
    match word {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "toolResult" => Some(Role::ToolResult),
        _ => None,
    }
}
