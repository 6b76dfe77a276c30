//! Keys as data: one chord, its two spellings (configuration and screen), and the lookup from a
//! chord and a context to an action.
//!
//! Owns nothing that acts. Invariant: within one context a chord names at most one action.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::{self, Action, Context};

/// One key with its modifiers, in one normal form: letters carry their case instead of Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key.
    pub code: KeyCode,
    /// Ctrl, Alt, Shift.
    pub mods: KeyModifiers,
}

impl Chord {
    /// The normal form of a key event: terminals differ in how they say Shift and Ctrl.
    #[must_use]
    pub fn of(event: &KeyEvent) -> Self {
        Self::new(event.code, event.modifiers)
    }

    fn new(code: KeyCode, mods: KeyModifiers) -> Self {
        let mut mods = mods & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let code = match code {
            KeyCode::BackTab => {
                mods |= KeyModifiers::SHIFT;
                KeyCode::Tab
            }
            KeyCode::Char(c) if mods.contains(KeyModifiers::CONTROL) => {
                mods -= KeyModifiers::SHIFT;
                KeyCode::Char(c.to_ascii_lowercase())
            }
            KeyCode::Char(c) => {
                let upper = mods.contains(KeyModifiers::SHIFT) && c.is_ascii_lowercase();
                mods -= KeyModifiers::SHIFT;
                KeyCode::Char(if upper { c.to_ascii_uppercase() } else { c })
            }
            other => other,
        };
        Self { code, mods }
    }

    /// The character this key types into a text field, if it types one.
    #[must_use]
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c)
                if !self.mods.contains(KeyModifiers::CONTROL)
                    && !self.mods.contains(KeyModifiers::ALT) =>
            {
                Some(c)
            }
            // AltGr arrives as Ctrl+Alt on some terminals: `@` and `[` on many layouts.
            KeyCode::Char(c)
                if self.mods.contains(KeyModifiers::CONTROL)
                    && self.mods.contains(KeyModifiers::ALT)
                    && !c.is_ascii_alphanumeric() =>
            {
                Some(c)
            }
            _ => None,
        }
    }

    /// Short spelling for footers: `^X`, `⏎`, `esc`.
    #[must_use]
    pub fn glyphs(self) -> String {
        let mut out = String::new();
        if self.mods.contains(KeyModifiers::ALT) {
            out.push('⌥');
        }
        if self.mods.contains(KeyModifiers::SHIFT) {
            out.push('⇧');
        }
        if self.mods.contains(KeyModifiers::CONTROL) {
            out.push('^');
        }
        match self.code {
            KeyCode::Char(c) if self.mods.contains(KeyModifiers::CONTROL) => {
                out.push(c.to_ascii_uppercase());
            }
            KeyCode::Char(' ') => out.push_str("space"),
            KeyCode::Char(c) => out.push(c),
            KeyCode::Enter => out.push('⏎'),
            KeyCode::Tab => out.push_str("tab"),
            KeyCode::Left => out.push('←'),
            KeyCode::Right => out.push('→'),
            KeyCode::Up => out.push('↑'),
            KeyCode::Down => out.push('↓'),
            other => out.push_str(code_name(other)),
        }
        out
    }
}

fn code_name(code: KeyCode) -> &'static str {
    NAMES
        .iter()
        .find(|(_, c)| *c == code)
        .map_or("?", |(name, _)| name)
}

/// Names of the keys that are not characters.
const NAMES: [(&str, KeyCode); 16] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
    ("del", KeyCode::Delete),
    ("backspace", KeyCode::Backspace),
    ("ins", KeyCode::Insert),
    ("f1", KeyCode::F(1)),
];

impl fmt::Display for Chord {
    /// The spelling of configuration files: `ctrl+x`, `alt+enter`, `N`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mods.contains(KeyModifiers::CONTROL) {
            f.write_str("ctrl+")?;
        }
        if self.mods.contains(KeyModifiers::ALT) {
            f.write_str("alt+")?;
        }
        if self.mods.contains(KeyModifiers::SHIFT) {
            f.write_str("shift+")?;
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("space"),
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            other => f.write_str(code_name(other)),
        }
    }
}

/// A key spelling that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a key; write one like ctrl+x, alt+enter, pgdn, f2 or a single character")]
pub struct BadChord(pub String);

impl FromStr for Chord {
    type Err = BadChord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadChord(text.to_owned());
        let mut mods = KeyModifiers::empty();
        let mut rest = text;
        loop {
            let (head, tail) = match rest.split_once('+') {
                Some((head, tail)) if !head.is_empty() && !tail.is_empty() => (head, tail),
                _ => break,
            };
            mods |= match head {
                "ctrl" => KeyModifiers::CONTROL,
                "alt" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return Err(bad()),
            };
            rest = tail;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) => KeyCode::Char(c),
            (Some('f'), Some(_)) if rest.get(1..).is_some_and(|n| n.parse::<u8>().is_ok()) => {
                let n = rest.get(1..).and_then(|n| n.parse().ok()).ok_or_else(bad)?;
                KeyCode::F(n)
            }
            _ => NAMES
                .iter()
                .find(|(name, _)| *name == rest)
                .map(|(_, code)| *code)
                .ok_or_else(bad)?,
        };
        Ok(Self::new(code, mods))
    }
}

/// One thing that is wrong with a set of key bindings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeymapProblem {
    /// A spelling is not a key.
    #[error("{action}: {source}")]
    Chord {
        /// The action it was meant for.
        action: String,
        /// What is wrong.
        source: BadChord,
    },
    /// There is no such action.
    #[error("there is no action `{0}`")]
    UnknownAction(String),
    /// Two actions of one context want the same key.
    #[error("{chord} is both `{first}` and `{second}` in {context}")]
    Conflict {
        /// The key.
        chord: String,
        /// Where.
        context: &'static str,
        /// One action.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

/// Which chord does what where.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<(Context, Chord, &'static Action)>,
}

impl Keymap {
    /// The default keys, with some of them replaced: action id → its keys.
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn new(overrides: &BTreeMap<String, Vec<String>>) -> Result<Self, Vec<KeymapProblem>> {
        let mut problems: Vec<KeymapProblem> = overrides
            .keys()
            .filter(|id| action::find(id).is_none())
            .map(|id| KeymapProblem::UnknownAction(id.clone()))
            .collect();
        let mut bindings: Vec<(Context, Chord, &'static Action)> = Vec::new();
        for action in action::TABLE {
            let keys: Vec<&str> = match overrides.get(action.id) {
                Some(keys) => keys.iter().map(String::as_str).collect(),
                None => action.keys.to_vec(),
            };
            for key in keys {
                let chord = match key.parse::<Chord>() {
                    Ok(chord) => chord,
                    Err(source) => {
                        problems.push(KeymapProblem::Chord {
                            action: action.id.to_owned(),
                            source,
                        });
                        continue;
                    }
                };
                for context in action.contexts {
                    let clash = bindings
                        .iter()
                        .find(|(c, k, a)| c == context && *k == chord && a.id != action.id);
                    if let Some((_, _, other)) = clash {
                        problems.push(KeymapProblem::Conflict {
                            chord: chord.to_string(),
                            context: context.name(),
                            first: other.id,
                            second: action.id,
                        });
                    }
                    bindings.push((*context, chord, action));
                }
            }
        }
        if problems.is_empty() {
            Ok(Self { bindings })
        } else {
            Err(problems)
        }
    }

    /// The action of a chord: the first context of `stack` that has one (innermost first).
    #[must_use]
    pub fn lookup(&self, stack: &[Context], chord: Chord) -> Option<&'static Action> {
        stack.iter().find_map(|context| {
            self.bindings
                .iter()
                .find(|(c, k, _)| c == context && *k == chord)
                .map(|(_, _, action)| *action)
        })
    }

    /// The keys of an action, in the order of preference.
    #[must_use]
    pub fn keys(&self, id: &str) -> Vec<Chord> {
        let mut keys = Vec::new();
        for (_, chord, action) in &self.bindings {
            if action.id == id && !keys.contains(chord) {
                keys.push(*chord);
            }
        }
        keys
    }

    /// The first key of an action as a footer shows it; empty when it has none.
    #[must_use]
    pub fn glyphs(&self, id: &str) -> String {
        self.keys(id)
            .first()
            .map(|chord| chord.glyphs())
            .unwrap_or_default()
    }
}
