//! One line for a tool call: `bash: npm test`.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::interpret::one_line;

/// Longest line, in characters.
pub(super) const MAX_LINE: usize = 160;

/// `bash: npm test`: the tool and the argument that says most.
#[must_use]
pub fn tool_line(name: &str, args: &str) -> String {
    match telling_argument(args) {
        Some(argument) => cut_line(&format!("{name}: {}", one_line(&argument))),
        None => cut_line(name),
    }
}

pub(super) fn cut_line(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}

/// The value of the best-known key, or the first text there is.
fn telling_argument(args: &str) -> Option<String> {
    const KEYS: [&str; 9] = [
        "command",
        "path",
        "file_path",
        "filePath",
        "pattern",
        "query",
        "url",
        "prompt",
        "message",
    ];
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Option<(usize, String)>;
        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("arguments")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut best: Option<(usize, String)> = None;
            while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                let rank = KEYS.iter().position(|k| *k == key).unwrap_or(KEYS.len());
                if best.as_ref().is_some_and(|(have, _)| *have <= rank) {
                    map.next_value::<IgnoredAny>()?;
                } else if let Text(Some(text)) = map.next_value()? {
                    best = Some((rank, text));
                }
            }
            Ok(best)
        }
    }
    struct Text(Option<String>);
    impl<'de> serde::Deserialize<'de> for Text {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            let text = crate::pi::lenient::opt_text(input)?;
            Ok(Self(
                text.filter(|t| !t.trim().is_empty()).map(|t| one_line(&t)),
            ))
        }
    }
    let mut input = serde_json::Deserializer::from_str(args);
    let best = input.deserialize_map(Reader).ok()??;
    Some(best.1)
}
