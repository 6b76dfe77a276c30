//! Input of the terminal: the event stream, what was typed before it existed, and signals.
//!
//! Owns the crossterm event stream. It is dropped, not only left alone, while the terminal is
//! lent or suspended: it would go on reading.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use futures_util::task::AtomicWaker;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Events of the terminal in order.
#[derive(Default)]
pub struct Input {
    stream: Option<EventStream>,
    call: Arc<Call>,
    early: VecDeque<Event>,
    late: LateReply,
}

impl Input {
    /// Begins to read. `typed` = bytes that were read before.
    pub fn open(&mut self, typed: &[u8]) {
        self.early.extend(decode(typed).into_iter().map(Event::Key));
        self.stream = Some(EventStream::new());
        self.call.came.store(true, Ordering::Release);
    }

    /// Stops reading and forgets what was not taken.
    pub fn close(&mut self) {
        self.stream = None;
        self.early.clear();
    }

    /// True while it reads.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// The next event. Waits for ever while closed. `None` = the terminal is gone. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        loop {
            if let Some(event) = self.early.pop_front() {
                return Some(Ok(event));
            }
            let Some(stream) = &mut self.stream else {
                return std::future::pending().await;
            };
            let call = &self.call;
            let event = std::future::poll_fn(|cx| call.poll(stream, cx)).await?;
            match event {
                Ok(Event::Key(key)) if self.late.swallows(&key) => {}
                other => return Some(other),
            }
        }
    }
}

/// Whether the event stream has called since it was looked at in vain. Looking is not free: it
/// tries for a lock that the stream's own thread holds while it waits.
#[derive(Default)]
struct Call {
    came: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.came.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Call {
    fn poll(
        self: &Arc<Self>,
        stream: &mut EventStream,
        cx: &Context<'_>,
    ) -> Poll<Option<io::Result<Event>>> {
        // First, so that a call that comes just now is not missed.
        self.task.register(cx.waker());
        if !self.came.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(self));
        let found = stream.poll_next_unpin(&mut Context::from_waker(&waker));
        if found.is_ready() {
            // There may be more.
            self.came.store(true, Ordering::Release);
        }
        found
    }
}

/// Keys out of bytes that were read before the event stream existed: characters, Enter, Tab,
/// Backspace, Esc, Ctrl with a letter, the arrows, and keys of the kitty protocol. Anything else
/// is dropped.
#[must_use]
pub fn decode(bytes: &[u8]) -> Vec<KeyEvent> {
    let text = String::from_utf8_lossy(bytes);
    let mut keys = Vec::new();
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let (key, left) = match c {
            '\x1b' => match after.strip_prefix(['[', 'O']) {
                Some(tail) => {
                    let end = tail
                        .find(|c: char| !matches!(c, '0'..='9' | ';' | ':' | '?'))
                        .unwrap_or(tail.len());
                    let key = match tail.get(end..).and_then(|rest| rest.chars().next()) {
                        Some('A') if end == 0 => Some(plain(KeyCode::Up)),
                        Some('B') if end == 0 => Some(plain(KeyCode::Down)),
                        Some('C') if end == 0 => Some(plain(KeyCode::Right)),
                        Some('D') if end == 0 => Some(plain(KeyCode::Left)),
                        Some('u') => tail.get(..end).and_then(kitty),
                        _ => None,
                    };
                    let left = tail.get(end..).unwrap_or_default();
                    let skip = left.chars().next().map_or(0, char::len_utf8);
                    (key, left.get(skip..).unwrap_or_default())
                }
                None => (Some(plain(KeyCode::Esc)), after),
            },
            '\r' | '\n' => (Some(plain(KeyCode::Enter)), after),
            '\t' => (Some(plain(KeyCode::Tab)), after),
            '\x7f' => (Some(plain(KeyCode::Backspace)), after),
            '\x01'..='\x1a' => {
                let letter = char::from((c as u8) + b'a' - 1);
                (
                    Some(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)),
                    after,
                )
            }
            c if c.is_control() || c == '\u{fffd}' => (None, after),
            c => (Some(plain(KeyCode::Char(c))), after),
        };
        keys.extend(key);
        rest = left;
    }
    keys
}

/// `120:88;5:3`: a code point, modifiers plus one, and the kind of the event.
fn kitty(parameters: &str) -> Option<KeyEvent> {
    let mut parts = parameters.split(';');
    let code: u32 = parts.next()?.split(':').next()?.parse().ok()?;
    let mut state = parts.next().unwrap_or("1").split(':');
    let bits = state.next()?.parse::<u8>().ok()?.checked_sub(1)?;
    let kind = match state.next() {
        Some("2") => KeyEventKind::Repeat,
        Some("3") => KeyEventKind::Release,
        _ => KeyEventKind::Press,
    };
    let code = match code {
        9 => KeyCode::Tab,
        13 => KeyCode::Enter,
        27 => KeyCode::Esc,
        127 => KeyCode::Backspace,
        other => KeyCode::Char(char::from_u32(other).filter(|c| !c.is_control())?),
    };
    let mut mods = KeyModifiers::empty();
    for (bit, modifier) in [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
    ] {
        if bits & bit != 0 {
            mods |= modifier;
        }
    }
    Some(KeyEvent::new_with_kind(code, mods, kind))
}

/// Swallows the answer to the ground-colour question when it comes too late and so arrives as
/// typed keys (crossterm has no branch for it): Alt+] 1 1 ; r g b : … up to Alt+\ or Ctrl+G.
#[derive(Debug, Default)]
struct LateReply {
    left: usize,
}

/// Longest answer: `11;rgba:ffff/ffff/ffff/ffff`.
const REPLY_CHARS: usize = 32;

impl LateReply {
    fn swallows(&mut self, key: &KeyEvent) -> bool {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if self.left == 0 {
            if alt && key.code == KeyCode::Char(']') {
                self.left = REPLY_CHARS;
                return true;
            }
            return false;
        }
        self.left -= 1;
        match key.code {
            KeyCode::Char('\\') if alt => self.left = 0,
            KeyCode::Char('g') if ctrl => self.left = 0,
            KeyCode::Char(c)
                if !alt && !ctrl && (c.is_ascii_hexdigit() || ";:/#rgb".contains(c)) => {}
            _ => {
                self.left = 0;
                return false;
            }
        }
        true
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// End without stopping anything: the terminal is gone (SIGHUP).
    HangUp,
    /// End without stopping anything, by this signal number.
    End(i32),
    /// Give the terminal back (SIGTSTP from outside; Ctrl+Z is a key).
    Suspend,
    /// The process goes on after a stop (SIGCONT): modes may have been changed meanwhile.
    Continue,
}

/// The signals a screen cares about.
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    suspend: Signal,
    proceed: Signal,
}

/// How long the loop may take to end after a hang-up.
const HANG_UP_GRACE: Duration = Duration::from_secs(1);
/// Exit code of a screen whose terminal went away: 128 + SIGHUP.
const HUNG_UP: i32 = 129;

/// Ends the program after a hang-up if the loop did not. A terminal that is gone reads as empty
/// without end, and crossterm reads on until it is not: whoever looked at the input in that moment
/// never comes back to hear the signal, and would use a processor for ever (cases B019, B066).
/// Nothing is lost: the terminal is gone, and a lost screen stops nothing (R-LIFE-19).
fn watch_hang_up() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let watch = move || {
        runtime.block_on(async {
            let Ok(mut hangup) = signal(SignalKind::hangup()) else {
                return;
            };
            if hangup.recv().await.is_some() {
                tokio::time::sleep(HANG_UP_GRACE).await;
                std::process::exit(HUNG_UP);
            }
        });
    };
    let thread = std::thread::Builder::new().name("hang-up".to_owned());
    thread.spawn(watch).map(drop)
}

/// SIGTSTP and SIGCONT by number: tokio has no names for them.
fn number(signal: rustix::process::Signal) -> SignalKind {
    SignalKind::from_raw(signal.as_raw())
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub fn new() -> io::Result<Self> {
        watch_hang_up()?;
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            suspend: signal(number(rustix::process::Signal::TSTP))?,
            proceed: signal(number(rustix::process::Signal::CONT))?,
        })
    }

    /// The next one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.hangup.recv() => Asked::HangUp,
            _ = self.terminate.recv() => Asked::End(rustix::process::Signal::TERM.as_raw()),
            _ = self.interrupt.recv() => Asked::End(rustix::process::Signal::INT.as_raw()),
            _ = self.suspend.recv() => Asked::Suspend,
            _ = self.proceed.recv() => Asked::Continue,
        }
    }

    /// Forgets suspensions and continuations that were caused by suspending oneself.
    pub async fn forget_own(&mut self) {
        let _ = tokio::time::timeout(Duration::from_millis(20), async {
            loop {
                tokio::select! {
                    _ = self.suspend.recv() => {}
                    _ = self.proceed.recv() => {}
                }
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_typed_early_are_not_lost() {
        let keys = decode("nä\r\x18\x1b[A\x1b[200~\x1bx".as_bytes());
        let codes: Vec<KeyCode> = keys.iter().map(|key| key.code).collect();
        assert_eq!(
            codes,
            [
                KeyCode::Char('n'),
                KeyCode::Char('ä'),
                KeyCode::Enter,
                KeyCode::Char('x'),
                KeyCode::Up,
                KeyCode::Esc,
                KeyCode::Char('x'),
            ]
        );
        assert_eq!(keys[3].modifiers, KeyModifiers::CONTROL);
        let keys = decode(b"\x1b[120;5u\x1b[120;5:3u\x1b[13u");
        assert_eq!(keys.len(), 3);
        assert_eq!(keys[0].code, KeyCode::Char('x'));
        assert_eq!(keys[0].modifiers, KeyModifiers::CONTROL);
        assert_eq!(keys[1].kind, KeyEventKind::Release);
        assert_eq!(keys[2].code, KeyCode::Enter);
    }

    #[test]
    fn a_late_answer_is_not_typing() {
        let mut late = LateReply::default();
        let key = |c: char, mods| KeyEvent::new(KeyCode::Char(c), mods);
        assert!(late.swallows(&key(']', KeyModifiers::ALT)));
        for c in "11;rgb:1e1e/1e1e/2e2e".chars() {
            assert!(late.swallows(&key(c, KeyModifiers::NONE)), "{c}");
        }
        assert!(late.swallows(&key('\\', KeyModifiers::ALT)));
        assert!(!late.swallows(&key('1', KeyModifiers::NONE)));
        assert!(late.swallows(&key(']', KeyModifiers::ALT)));
        assert!(
            !late.swallows(&key('n', KeyModifiers::NONE)),
            "a person goes on typing"
        );
    }
}
