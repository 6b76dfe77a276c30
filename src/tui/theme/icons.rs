//! Icons: one column each, never colour alone (screens.md §1).

/// Frames of the spinner in one second; one clock drives all spinners.
pub const SPINNER_FRAMES_PER_SECOND: u64 = 8;

/// The icons of every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icons {
    /// Frames of something running.
    pub running: &'static [&'static str],
    /// Running, where nothing moves.
    pub still: &'static str,
    /// Wants an answer.
    pub asks: &'static str,
    /// Waits for a message.
    pub idle: &'static str,
    /// Ended well.
    pub done: &'static str,
    /// Failed.
    pub failed: &'static str,
    /// Stopped on purpose.
    pub stopped: &'static str,
    /// Waits for its turn.
    pub queued: &'static str,
    /// Being started.
    pub starting: &'static str,
    /// Something new.
    pub unread: &'static str,
    /// Mark of a prompt.
    pub prompt: &'static str,
    /// Bar at the selected row.
    pub selected: &'static str,
    /// Information.
    pub info: &'static str,
    /// Attention.
    pub warning: &'static str,
    /// Opened group.
    pub open: &'static str,
    /// Closed group.
    pub closed: &'static str,
}

impl Icons {
    /// The usual ones.
    #[must_use]
    pub const fn unicode() -> Self {
        Self {
            running: &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"],
            still: "▸",
            asks: "?",
            idle: "‖",
            done: "✓",
            failed: "✗",
            stopped: "■",
            queued: "○",
            starting: "◌",
            unread: "●",
            prompt: "»",
            selected: "▌",
            info: "·",
            warning: "!",
            open: "▾",
            closed: "▸",
        }
    }

    /// For terminals or fonts without the usual ones.
    #[must_use]
    pub const fn ascii() -> Self {
        Self {
            running: &["*"],
            still: "*",
            asks: "?",
            idle: "=",
            done: "+",
            failed: "x",
            stopped: "#",
            queued: ".",
            starting: "~",
            unread: "o",
            prompt: ">",
            selected: "|",
            info: "-",
            warning: "!",
            open: "v",
            closed: ">",
        }
    }

    /// The icon of something running: `None` = reduced motion, else the number of the frame.
    #[must_use]
    pub fn spinner(&self, frame: Option<usize>) -> &'static str {
        match frame {
            Some(frame) if !self.running.is_empty() => self
                .running
                .get(frame % self.running.len())
                .copied()
                .unwrap_or(self.still),
            _ => self.still,
        }
    }
}
