//! The terminal: which modes are on, who turns them off, and writing frames.
//!
//! Owns entering and leaving the screen. Leaving is idempotent and is reached from every way out:
//! `Drop`, the panic hook, signals, suspension (R-TUI-12, B066, B068). Nothing else of the
//! program writes to the terminal while it is entered.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{cursor, queue};
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use rustix::event::{PollFd, PollFlags, poll};

use super::theme::Depth;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum NoTerminal {
    /// Input or output is a file, a pipe or nothing (B102).
    #[error("{0} is not a terminal")]
    NotATerminal(&'static str),
    /// The terminal cannot move the cursor.
    #[error("TERM={0} cannot show a full screen")]
    Dumb(String),
}

/// Looks whether there can be a screen at all. Writes nothing.
///
/// # Errors
/// When there cannot.
pub fn check() -> Result<(), NoTerminal> {
    if !io::stdin().is_terminal() {
        return Err(NoTerminal::NotATerminal("standard input"));
    }
    if !io::stdout().is_terminal() {
        return Err(NoTerminal::NotATerminal("standard output"));
    }
    match std::env::var("TERM") {
        Ok(term) if term == "dumb" => Err(NoTerminal::Dumb(term)),
        _ => Ok(()),
    }
}

/// The screen is entered: modes are on that somebody must turn off.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// A thread panicked while the screen was entered.
static PANICKED: AtomicBool = AtomicBool::new(false);
static PANIC_NEWS: tokio::sync::Notify = tokio::sync::Notify::const_new();

/// Turns every mode on.
fn enter() -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mut out = io::stdout();
    // The title is saved on the terminal's stack (XTWINOPS 22) and comes back with 23.
    out.write_all(b"\x1b[22;2t")?;
    queue!(
        out,
        EnterAlternateScreen,
        EnableBracketedPaste,
        EnableFocusChange,
        EnableMouseCapture,
        cursor::Hide,
        // Terminals without the protocol ignore it, so nobody has to be asked first.
        PushKeyboardEnhancementFlags(
            KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES
                | KeyboardEnhancementFlags::REPORT_EVENT_TYPES
        ),
    )?;
    out.flush()
}

/// Turns every mode off again, once; goes on when one fails. Safe to call from anywhere, a panic
/// hook included.
pub fn leave() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes: Vec<u8> = Vec::new();
    let _ = queue!(
        bytes,
        EndSynchronizedUpdate,
        PopKeyboardEnhancementFlags,
        DisableMouseCapture,
        DisableFocusChange,
        DisableBracketedPaste,
        ResetColor,
        LeaveAlternateScreen,
        cursor::Show,
    );
    bytes.extend_from_slice(b"\x1b[23;2t");
    let mut out = io::stdout();
    let _ = out.write_all(&bytes);
    let _ = out.flush();
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Makes a panic in any thread restore the terminal before its message is printed, and end the
/// screen (`sys::panic` calls it).
pub fn restore_on_panic() {
    crate::sys::panic::set_restore(|| {
        if ENTERED.load(Ordering::SeqCst) {
            leave();
            PANICKED.store(true, Ordering::SeqCst);
            PANIC_NEWS.notify_one();
        }
    });
}

/// Waits until a thread has panicked while the screen was entered.
pub async fn panicked() {
    while !PANICKED.load(Ordering::SeqCst) {
        PANIC_NEWS.notified().await;
    }
}

/// Colour depth by the usual variables (B054): no 24-bit colour that was not announced.
#[must_use]
pub fn depth(get: impl Fn(&str) -> Option<String>) -> Depth {
    if get("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return Depth::None;
    }
    let colorterm = get("COLORTERM").unwrap_or_default();
    let term = get("TERM").unwrap_or_default();
    if colorterm == "truecolor" || colorterm == "24bit" || term.ends_with("-direct") {
        return Depth::True;
    }
    if term.contains("256color") || term.contains("kitty") || term.contains("ghostty") {
        return Depth::Ansi256;
    }
    if term.is_empty() || term == "linux" || term.starts_with("vt") || term == "xterm" {
        return Depth::Ansi16;
    }
    Depth::Ansi256
}

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

/// The real screen: a ratatui terminal whose frames leave the process in one write each, wrapped
/// in synchronized output, and only when there is something to write.
pub struct Screen {
    terminal: ratatui::Terminal<Quiet>,
}

impl Screen {
    /// Enters the screen.
    ///
    /// # Errors
    /// When there is no terminal, or it went away.
    pub fn enter() -> io::Result<Self> {
        restore_on_panic();
        enter()?;
        match ratatui::Terminal::new(Quiet::new()) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Size in columns and lines; 1×1 at least (a hung-up terminal says 0×0).
    #[must_use]
    pub fn size(&self) -> (u16, u16) {
        let size = self.terminal.size().unwrap_or(Size::new(80, 24));
        (size.width, size.height)
    }

    /// Draws one frame.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, render: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(render)?;
        self.terminal.backend_mut().send()
    }

    /// Forgets what is on the screen: the next frame is written whole. Does not ask for the cursor
    /// position, as `Terminal::clear` does (research: that fights the event stream).
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn forget(&mut self) -> io::Result<()> {
        let (width, height) = self.size();
        self.terminal
            .resize(ratatui::layout::Rect::new(0, 0, width, height))
    }

    /// Sets the terminal's title. The text must be sanitised already.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn title(&mut self, title: &super::text::SafeText) -> io::Result<()> {
        let mut out = io::stdout();
        queue!(out, crossterm::terminal::SetTitle(title.as_str()))?;
        out.flush()
    }

    /// Enters again after [`leave`].
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn again(&mut self) -> io::Result<()> {
        enter()?;
        self.terminal.backend_mut().cursor = Cursor::default();
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// What the real cursor looks like, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    shown: Option<bool>,
    at: Option<Position>,
}

/// Collects what a frame writes. Shared with the backend, which does not give its writer back.
#[derive(Clone, Debug, Default)]
struct Pen(Arc<Mutex<Vec<u8>>>);

impl Pen {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Most bytes collected for one frame before the buffer is given back.
const KEEP_BYTES: usize = 256 * 1024;

/// A crossterm backend that writes into memory and leaves out cursor commands that change
/// nothing, so that a frame without a change costs no byte (B052).
pub struct Quiet {
    inner: CrosstermBackend<Pen>,
    written: Pen,
    cursor: Cursor,
}

impl Default for Quiet {
    fn default() -> Self {
        Self::new()
    }
}

impl Quiet {
    /// A backend for the process's terminal.
    #[must_use]
    pub fn new() -> Self {
        let written = Pen::default();
        Self {
            inner: CrosstermBackend::new(written.clone()),
            written,
            cursor: Cursor::default(),
        }
    }

    /// What was drawn since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.written.lock())
    }

    fn send(&mut self) -> io::Result<()> {
        let mut drawn = self.take();
        if drawn.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(drawn.len() + 16);
        queue!(bytes, BeginSynchronizedUpdate)?;
        bytes.append(&mut drawn);
        queue!(bytes, EndSynchronizedUpdate)?;
        if drawn.capacity() <= KEEP_BYTES {
            *self.written.lock() = drawn;
        }
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}

impl Backend for Quiet {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut content = content.peekable();
        if content.peek().is_none() {
            return Ok(());
        }
        // The cursor would be seen to run over the screen.
        self.hide_cursor()?;
        self.cursor.at = None;
        self.inner.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        if self.cursor.shown == Some(false) {
            return Ok(());
        }
        self.cursor.shown = Some(false);
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        if self.cursor.shown == Some(true) {
            return Ok(());
        }
        self.cursor.shown = Some(true);
        self.inner.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Asking would take the answer away from the event stream.
        Ok(self.cursor.at.unwrap_or_default())
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let position = position.into();
        if self.cursor.at == Some(position) {
            return Ok(());
        }
        self.cursor.at = Some(position);
        self.inner.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.cursor.at = None;
        self.inner.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.cursor.at = None;
        self.inner.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = crossterm::terminal::size()?;
        Ok(Size::new(width.max(1), height.max(1)))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size()?,
            pixels: Size::new(0, 0),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stops this process as Ctrl+Z does, with everybody in its group, and returns when it goes on.
/// The screen must be left. `false` = nobody could ever wake it: there is no shell above.
#[must_use]
pub fn suspend() -> bool {
    use rustix::process::{
        Signal, getpid, getppid, getsid, kill_current_process_group, kill_process,
    };
    let shell = getppid().and_then(|parent| getsid(Some(parent)).ok());
    if shell.is_none() || shell != getsid(None).ok() {
        return false;
    }
    // The others of the group stop by this; a handler may be in place here, so it cannot be
    // relied on for ourselves.
    let _ = kill_current_process_group(Signal::TSTP);
    kill_process(getpid(), Signal::STOP).is_ok()
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

    // B054
    #[test]
    fn no_colours_that_were_not_announced() {
        let with = |pairs: &'static [(&str, &str)]| {
            depth(|name| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            })
        };
        assert_eq!(with(&[("TERM", "xterm-256color")]), Depth::Ansi256);
        assert_eq!(with(&[("TERM", "linux")]), Depth::Ansi16);
        assert_eq!(
            with(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            Depth::True
        );
        assert_eq!(
            with(&[("NO_COLOR", "1"), ("COLORTERM", "truecolor")]),
            Depth::None
        );
    }

    #[test]
    fn a_frame_without_a_change_costs_no_byte() {
        let mut quiet = Quiet::new();
        quiet.hide_cursor().unwrap();
        quiet.set_cursor_position((3, 4)).unwrap();
        assert!(!quiet.take().is_empty());
        quiet.draw(std::iter::empty()).unwrap();
        quiet.hide_cursor().unwrap();
        quiet.set_cursor_position((3, 4)).unwrap();
        assert!(quiet.take().is_empty());
    }
}
