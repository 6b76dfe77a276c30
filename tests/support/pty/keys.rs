//! Keys by name, as bytes.
//!
//! Text stands for itself; `<NAME>` is a key: `enter` `tab` `esc` `backspace` `space` `up` `down`
//! `left` `right` `home` `end` `pageup` `pagedown` `insert` `delete` `f1`…`f12`, or one character.
//! `lt` is `<` itself. Modifiers go before it: `ctrl-` `alt-` `shift-` (`<ctrl-x>`, `<alt-1>`,
//! `<shift-tab>`, `<ctrl-alt-up>`). With the kitty protocol reporting event types a key is pressed
//! and released; `<x:press>`, `<x:repeat>` and `<x:release>` are one of these alone.

/// Modifier bits of xterm and kitty, before one is added.
const SHIFT: u16 = 1;
const ALT: u16 = 2;
const CTRL: u16 = 4;

/// Flags of the kitty protocol.
const DISAMBIGUATE: u16 = 1;
const EVENT_TYPES: u16 = 2;
const ALL_KEYS: u16 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Stroke,
    Press,
    Repeat,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Char(char),
    /// A key with a number in the kitty protocol and one byte without it.
    Byte(u16, u8),
    /// `ESC [ X`, with modifiers `ESC [ 1 ; M X`.
    Letter(char),
    /// `ESC [ N ~`.
    Tilde(u16),
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    code: Code,
    modifiers: u16,
    event: Event,
}

/// Reads keys.
///
/// # Panics
/// At a name it does not know.
#[track_caller]
pub(super) fn parse(text: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '<' {
            let (name, after) = rest[1..]
                .split_once('>')
                .unwrap_or_else(|| panic!("no end of a key's name in {text:?}"));
            keys.push(named(name));
            rest = after;
        } else {
            keys.push(Key {
                code: plain(first),
                modifiers: 0,
                event: Event::Stroke,
            });
            rest = &rest[first.len_utf8()..];
        }
    }
    keys
}

fn plain(character: char) -> Code {
    match character {
        '\n' => Code::Byte(13, b'\r'),
        '\t' => Code::Byte(9, b'\t'),
        other => Code::Char(other),
    }
}

#[track_caller]
fn named(name: &str) -> Key {
    let (mut rest, event) = match name.split_once(':') {
        Some((rest, "press")) => (rest, Event::Press),
        Some((rest, "repeat")) => (rest, Event::Repeat),
        Some((rest, "release")) => (rest, Event::Release),
        _ => (name, Event::Stroke),
    };
    let mut modifiers = 0;
    loop {
        let (prefix, bit) = match rest {
            r if r.starts_with("ctrl-") => ("ctrl-", CTRL),
            r if r.starts_with("alt-") => ("alt-", ALT),
            r if r.starts_with("shift-") => ("shift-", SHIFT),
            _ => break,
        };
        modifiers |= bit;
        rest = &rest[prefix.len()..];
    }
    let code = match rest {
        "enter" => Code::Byte(13, b'\r'),
        "tab" => Code::Byte(9, b'\t'),
        "esc" => Code::Byte(27, 27),
        "backspace" => Code::Byte(127, 127),
        "space" => Code::Char(' '),
        "lt" => Code::Char('<'),
        "up" => Code::Letter('A'),
        "down" => Code::Letter('B'),
        "right" => Code::Letter('C'),
        "left" => Code::Letter('D'),
        "home" => Code::Letter('H'),
        "end" => Code::Letter('F'),
        "f1" => Code::Letter('P'),
        "f2" => Code::Letter('Q'),
        "f3" => Code::Tilde(13),
        "f4" => Code::Letter('S'),
        "insert" => Code::Tilde(2),
        "delete" => Code::Tilde(3),
        "pageup" => Code::Tilde(5),
        "pagedown" => Code::Tilde(6),
        "f5" => Code::Tilde(15),
        "f6" => Code::Tilde(17),
        "f7" => Code::Tilde(18),
        "f8" => Code::Tilde(19),
        "f9" => Code::Tilde(20),
        "f10" => Code::Tilde(21),
        "f11" => Code::Tilde(23),
        "f12" => Code::Tilde(24),
        other => {
            let mut chars = other.chars();
            match (chars.next(), chars.next()) {
                (Some(character), None) => plain(character),
                _ => panic!("no key is called {name:?}"),
            }
        }
    };
    Key {
        code,
        modifiers,
        event,
    }
}

impl Key {
    /// The bytes, for a program that set these modes.
    pub(super) fn encode(self, application_cursor: bool, flags: u16) -> Vec<u8> {
        if flags == 0 {
            assert!(
                matches!(self.event, Event::Stroke | Event::Press),
                "without the kitty protocol a terminal tells no repeat and no release"
            );
            return self.legacy(application_cursor);
        }
        let reports = flags & EVENT_TYPES != 0;
        match self.event {
            Event::Stroke if reports => {
                let mut bytes = self.kitty(flags, 1, application_cursor);
                bytes.extend(self.kitty(flags, 3, application_cursor));
                bytes
            }
            Event::Stroke | Event::Press => self.kitty(flags, 1, application_cursor),
            Event::Repeat => self.kitty(flags, 2, application_cursor),
            Event::Release => self.kitty(flags, 3, application_cursor),
        }
    }

    fn legacy(self, application_cursor: bool) -> Vec<u8> {
        let Self {
            code, modifiers, ..
        } = self;
        let alt = |mut bytes: Vec<u8>| {
            if modifiers & ALT != 0 {
                bytes.insert(0, 27);
            }
            bytes
        };
        match code {
            Code::Char(character) if modifiers & CTRL != 0 => alt(vec![match character {
                ' ' | '@' => 0,
                c => (c.to_ascii_uppercase() as u8) & 0x1f,
            }]),
            Code::Char(character) => alt(character.to_string().into_bytes()),
            Code::Byte(9, _) if modifiers & SHIFT != 0 => alt(b"\x1b[Z".to_vec()),
            Code::Byte(127, _) if modifiers & CTRL != 0 => alt(vec![8]),
            Code::Byte(_, byte) => alt(vec![byte]),
            Code::Letter(letter) if modifiers != 0 => {
                format!("\x1b[1;{}{letter}", modifiers + 1).into_bytes()
            }
            Code::Letter(letter @ ('P' | 'Q' | 'S')) => format!("\x1bO{letter}").into_bytes(),
            Code::Letter(letter) if application_cursor => format!("\x1bO{letter}").into_bytes(),
            Code::Letter(letter) => format!("\x1b[{letter}").into_bytes(),
            Code::Tilde(13) if modifiers == 0 => b"\x1bOR".to_vec(),
            Code::Tilde(number) if modifiers != 0 => {
                format!("\x1b[{number};{}~", modifiers + 1).into_bytes()
            }
            Code::Tilde(number) => format!("\x1b[{number}~").into_bytes(),
        }
    }

    /// `event` is 1 for press, 2 for repeat, 3 for release.
    fn kitty(self, flags: u16, event: u16, application_cursor: bool) -> Vec<u8> {
        let modifiers = self.modifiers + 1;
        let suffix = match (modifiers, event) {
            (1, 1) => String::new(),
            (_, 1) => format!(";{modifiers}"),
            _ => format!(";{modifiers}:{event}"),
        };
        let escaped = |code: u32| format!("\x1b[{code}{suffix}u").into_bytes();
        let disambiguates = flags & DISAMBIGUATE != 0;
        let all = flags & ALL_KEYS != 0;
        match self.code {
            // Text stays text: its release is not told.
            Code::Char(_) if !all && self.modifiers & !SHIFT == 0 => {
                if event == 3 {
                    Vec::new()
                } else {
                    self.legacy(application_cursor)
                }
            }
            Code::Char(character) if all || disambiguates => {
                escaped(character.to_ascii_lowercase().into())
            }
            Code::Byte(27, _) if all || disambiguates => escaped(27),
            Code::Byte(code, _) if all || (disambiguates && self.modifiers != 0) => {
                escaped(code.into())
            }
            Code::Letter(letter) if suffix.is_empty() => {
                if application_cursor {
                    self.legacy(true)
                } else {
                    format!("\x1b[{letter}").into_bytes()
                }
            }
            Code::Letter(letter) => format!("\x1b[1{suffix}{letter}").into_bytes(),
            Code::Tilde(number) => format!("\x1b[{number}{suffix}~").into_bytes(),
            Code::Char(_) | Code::Byte(..) if event == 3 => Vec::new(),
            Code::Char(_) | Code::Byte(..) => self.legacy(application_cursor),
        }
    }
}
