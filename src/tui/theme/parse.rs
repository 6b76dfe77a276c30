//! Pi's theme format: `vars` and `colors`. Values are `#rrggbb`, an index of the 256 colours,
//! the name of a variable, or empty for the terminal's own colour. Untrusted: a user's file.

use std::collections::HashMap;

use ratatui::style::Color;
use serde::Deserialize;

/// Colours by role; a role that is there with `None` inside is the terminal's own colour.
#[derive(Debug, Default)]
pub(super) struct Colors(HashMap<String, Option<Color>>);

impl Colors {
    pub(super) fn get(&self, role: &str) -> Option<Color> {
        self.0.get(role).copied().flatten()
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

/// Why a theme file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// Not JSON, or not shaped like a theme.
    #[error("not a theme file: {0}")]
    Format(String),
    /// A colour that cannot be read.
    #[error("{role}: cannot read the colour {value:?}")]
    Color {
        /// The role or variable.
        role: String,
        /// What it says.
        value: String,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Index(u8),
    Text(String),
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    vars: HashMap<String, Value>,
    colors: HashMap<String, Value>,
}

pub(super) fn colors(source: &str) -> Result<Colors, ThemeError> {
    let file: File = serde_json::from_str(source).map_err(|e| ThemeError::Format(e.to_string()))?;
    let mut out = HashMap::with_capacity(file.colors.len());
    for (role, value) in &file.colors {
        out.insert(role.clone(), resolve(role, value, &file.vars, 0)?);
    }
    Ok(Colors(out))
}

/// Follows variables; `depth` bounds a circle of them.
fn resolve(
    role: &str,
    value: &Value,
    vars: &HashMap<String, Value>,
    depth: u8,
) -> Result<Option<Color>, ThemeError> {
    let text = match value {
        Value::Index(i) => return Ok(Some(Color::Indexed(*i))),
        Value::Text(text) => text.trim(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || ThemeError::Color {
        role: role.to_owned(),
        value: text.to_owned(),
    };
    if let Some(hex) = text.strip_prefix('#') {
        return hex_color(hex).map(Some).ok_or_else(wrong);
    }
    match vars.get(text) {
        Some(next) if depth < 8 => resolve(role, next, vars, depth + 1),
        _ => Err(wrong()),
    }
}

fn hex_color(hex: &str) -> Option<Color> {
    if !hex.is_ascii() {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    match hex.len() {
        6 => Some(Color::Rgb(byte(0)?, byte(2)?, byte(4)?)),
        3 => {
            let digit = |at: usize| {
                u8::from_str_radix(hex.get(at..=at)?, 16)
                    .ok()
                    .map(|d| d * 17)
            };
            Some(Color::Rgb(digit(0)?, digit(1)?, digit(2)?))
        }
        _ => None,
    }
}
