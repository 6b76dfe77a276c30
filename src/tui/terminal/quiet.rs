//! The backend: collects a frame in memory, leaves out what changes nothing, and gives it away in
//! one write.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

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

    /// Forgets what is known of the cursor: somebody else had the terminal.
    pub(super) fn forget(&mut self) {
        self.cursor = Cursor::default();
    }

    /// What was drawn since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.written.lock())
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
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
        // Asked twice a frame; crossterm opens the terminal anew each time.
        if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout())
            && size.ws_col > 0
            && size.ws_row > 0
        {
            return Ok(Size::new(size.ws_col, size.ws_row));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
