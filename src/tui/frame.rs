//! When to draw. Pure: the loop asks how long it may sleep.
//!
//! A frame is drawn when something visible changed, at most every [`FRAME_MS`]; keys and resizes
//! are drawn at once. Without a wish there is no wake-up (R-TUI-01, design §5).

/// Shortest time between two frames that nobody pressed a key for, in milliseconds.
pub const FRAME_MS: u64 = 16;
/// One step of every spinner: eight a second, one clock for all of them.
pub const SPIN_MS: u64 = 125;

/// How soon a change has to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With the next frame that is due.
    Soon,
    /// At once: the answer to a key or a resize.
    Now,
}

/// The wish for a frame and the time of the last one. Times are monotonic milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameClock {
    last: Option<u64>,
    wish: Option<Urgency>,
}

impl FrameClock {
    /// Asks for a frame. Wishes fold into one.
    pub fn request(&mut self, urgency: Urgency) {
        self.wish = self.wish.max(Some(urgency));
    }

    /// When the next frame is due; `None` = nothing to draw.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<u64> {
        match (self.wish?, self.last) {
            (Urgency::Now, _) | (Urgency::Soon, None) => Some(now),
            (Urgency::Soon, Some(last)) => Some((last + FRAME_MS).max(now)),
        }
    }

    /// A frame was drawn.
    pub fn drew(&mut self, now: u64) {
        self.last = Some(now);
        self.wish = None;
    }
}

/// The next step of a clock that ticks every `period` milliseconds, strictly after `now`.
#[must_use]
pub fn next_tick(now: u64, period: u64) -> u64 {
    (now / period + 1) * period
}

#[cfg(test)]
mod tests {
    use super::*;

    // R-TUI-01, B052
    #[test]
    fn nothing_is_due_without_a_wish() {
        let mut clock = FrameClock::default();
        assert_eq!(clock.due(5), None);
        clock.request(Urgency::Soon);
        assert_eq!(clock.due(5), Some(5));
        clock.drew(5);
        assert_eq!(clock.due(1000), None);
    }

    #[test]
    fn background_changes_keep_the_pace_and_keys_do_not_wait() {
        let mut clock = FrameClock::default();
        clock.drew(100);
        clock.request(Urgency::Soon);
        assert_eq!(clock.due(103), Some(116));
        assert_eq!(clock.due(140), Some(140));
        clock.request(Urgency::Now);
        assert_eq!(clock.due(103), Some(103));
        clock.request(Urgency::Soon);
        assert_eq!(
            clock.due(103),
            Some(103),
            "a later wish does not weaken an earlier one"
        );
    }

    #[test]
    fn ticks_are_on_a_grid_and_never_now() {
        assert_eq!(next_tick(0, 125), 125);
        assert_eq!(next_tick(124, 125), 125);
        assert_eq!(next_tick(125, 125), 250);
    }
}
