//! Reading a tool's arguments. They are compact JSON of a model, may be cut in the middle and may
//! be anything.

use serde_json::Value;

/// Arguments of a call.
pub(super) enum Args<'a> {
    /// Complete JSON.
    Whole(Value),
    /// Cut, or still being written.
    Part(&'a str),
}

impl<'a> Args<'a> {
    pub(super) fn parse(raw: &'a str) -> Self {
        serde_json::from_str(raw).map_or(Self::Part(raw), Self::Whole)
    }

    /// The first of these fields that is a text.
    pub(super) fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| match self {
            Self::Whole(value) => value.get(name)?.as_str().map(str::to_owned),
            Self::Part(raw) => part(raw, name),
        })
    }

    /// A field of complete arguments.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Whole(value) => value.get(name),
            Self::Part(_) => None,
        }
    }
}

/// The text of a field in JSON that may end anywhere.
fn part(raw: &str, name: &str) -> Option<String> {
    let mut rest = raw;
    loop {
        let at = rest.find(name)?;
        let before = rest.get(..at)?.ends_with('"');
        rest = rest.get(at + name.len()..)?;
        if !before {
            continue;
        }
        let Some(value) = rest.strip_prefix('"').map(str::trim_start) else {
            continue;
        };
        let Some(value) = value.strip_prefix(':').map(str::trim_start) else {
            continue;
        };
        return unquote(value.strip_prefix('"')?);
    }
}

/// A JSON text without its opening quote up to its closing one, or to where it was cut.
fn unquote(body: &str) -> Option<String> {
    let mut end = body.len();
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let mut text = body.get(..end)?;
    // An escape may be cut (`\u00`): at most six bytes go until it reads.
    for _ in 0..=6 {
        if let Ok(done) = serde_json::from_str(&format!("\"{text}\"")) {
            return Some(done);
        }
        let last = text.chars().next_back()?;
        text = text.get(..text.len() - last.len_utf8())?;
    }
    None
}
