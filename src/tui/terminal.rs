//! The terminal: which modes are on, who turns them off, and writing frames.
//!
//! Owns entering and leaving the screen. Leaving is idempotent and is reached from every way out:
//! `Drop`, the panic hook, signals, suspension (R-TUI-12, B066, B068). Nothing else of the
//! program writes to the terminal while it is entered.

mod ask;
mod quiet;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::style::ResetColor;
use crossterm::terminal::{
    Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{cursor, queue};
use ratatui::layout::Size;

use super::theme::Depth;
use crate::sys::signals;

pub use ask::{Answers, ask, read_answers};
pub use quiet::Quiet;

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
        // A screen that was killed left the terminal in it: entering again does not empty it then.
        Clear(ClearType::All),
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
        self.terminal.backend_mut().forget();
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Stops this process as Ctrl+Z does, with everybody in its group, and returns when it goes on.
/// The screen must be left. `false` = nobody could ever wake it: there is no shell above.
#[must_use]
pub fn suspend() -> bool {
    use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
    if !signals::has_shell() {
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
}
