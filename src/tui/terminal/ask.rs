//! Questions to the terminal about itself, and telling the answers from typed keys.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// What the terminal said about itself, and what was typed meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// The ground is light (OSC 11).
    pub light: Option<bool>,
    /// It reports key releases (kitty keyboard protocol).
    pub releases: bool,
    /// Bytes that are not answers: keys pressed before anybody listened.
    pub typed: Vec<u8>,
}

/// How long the terminal may take to answer.
const ANSWER_MS: u64 = 100;

/// Asks the terminal for its ground colour and keyboard protocol. Blocks at most [`ANSWER_MS`].
/// Must not run while an event stream reads (research: crossterm has no OSC branch).
#[must_use]
pub fn ask() -> Answers {
    let mut out = io::stdout();
    // The last question is one that every terminal answers: when its answer is here, no other
    // will come.
    if out
        .write_all(b"\x1b]11;?\x1b\\\x1b[?u\x1b[c")
        .and_then(|()| out.flush())
        .is_err()
    {
        return Answers::default();
    }
    let deadline = Instant::now() + Duration::from_millis(ANSWER_MS);
    let mut bytes = Vec::new();
    let stdin = io::stdin();
    while !has_device_attributes(&bytes) {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = rustix::event::Timespec::try_from(left) else {
            break;
        };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        }
        let mut chunk = [0_u8; 512];
        match rustix::io::read(&stdin, &mut chunk) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    read_answers(&bytes)
}

fn has_device_attributes(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices("\x1b[?").any(|(at, _)| {
        text.get(at + 3..)
            .and_then(|rest| {
                rest.find(|c: char| !c.is_ascii_digit() && c != ';')
                    .map(|end| (rest, end))
            })
            .is_some_and(|(rest, end)| rest.get(end..).is_some_and(|tail| tail.starts_with('c')))
    })
}

/// Takes the answers out of what was read.
#[must_use]
pub fn read_answers(bytes: &[u8]) -> Answers {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut answers = Answers::default();
    let mut typed = String::new();
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some(tail) = rest.strip_prefix("\x1b]11;") {
            let bel = tail.find('\x07').map(|at| (at, 1));
            let st = tail.find("\x1b\\").map(|at| (at, 2));
            let end = match (bel, st) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if let Some((end, len)) = end {
                answers.light = tail.get(..end).and_then(is_light);
                rest = tail.get(end + len..).unwrap_or_default();
                continue;
            }
        }
        if let Some(tail) = rest.strip_prefix("\x1b[?") {
            let end = tail.find(|c: char| !c.is_ascii_digit() && c != ';');
            match end.and_then(|end| tail.get(end..)?.chars().next().map(|c| (end, c))) {
                Some((end, 'u')) => {
                    answers.releases = true;
                    rest = tail.get(end + 1..).unwrap_or_default();
                    continue;
                }
                Some((end, 'c')) => {
                    rest = tail.get(end + 1..).unwrap_or_default();
                    continue;
                }
                _ => {}
            }
        }
        typed.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    answers.typed = typed.into_bytes();
    answers
}

/// `rgb:ffff/ffff/ffff` or `#ffffff`: is it light?
fn is_light(colour: &str) -> Option<bool> {
    let parts: Vec<f64> = if let Some(list) = colour
        .strip_prefix("rgb:")
        .or_else(|| colour.strip_prefix("rgba:"))
    {
        list.split('/')
            .take(3)
            .map(|part| {
                let max = 16_f64.powi(i32::try_from(part.len()).ok()?) - 1.0;
                u32::from_str_radix(part, 16)
                    .ok()
                    .map(|value| f64::from(value) / max)
            })
            .collect::<Option<_>>()?
    } else {
        let hex = colour.strip_prefix('#')?;
        (0..3)
            .map(|i| {
                let part = hex.get(i * 2..i * 2 + 2)?;
                u8::from_str_radix(part, 16)
                    .ok()
                    .map(|value| f64::from(value) / 255.0)
            })
            .collect::<Option<_>>()?
    };
    match parts.as_slice() {
        [r, g, b] => Some(0.299 * r + 0.587 * g + 0.114 * b > 0.5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_typed_keys() {
        let bytes = b"n\x1b]11;rgb:ffff/fefe/f0f0\x1b\\\x1b[?0u\x1b[?62;22chello\r";
        let answers = read_answers(bytes);
        assert_eq!(answers.light, Some(true));
        assert!(answers.releases);
        assert_eq!(answers.typed, b"nhello\r");
        assert!(has_device_attributes(bytes));
        assert!(!has_device_attributes(b"\x1b[?0u\x1b[?62;2"));
        let dark = read_answers(b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07\x1b[?1;2c");
        assert_eq!(dark.light, Some(false));
        assert!(!dark.releases && dark.typed.is_empty());
    }
}
