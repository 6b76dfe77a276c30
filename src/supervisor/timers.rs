//! The timers the machine asked for, by their moments. Owns no clock and no task: the actor asks for
//! the next moment, waits, and takes what is due.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::machine::Timer;

/// A moment that is seen so much too late says that this process stood still.
const HELD_UP: Duration = Duration::from_millis(500);
/// Then the words of the children are read first, for so long.
const CATCH_UP: Duration = Duration::from_millis(250);

/// See the module. Each timer is there at most once.
#[derive(Debug, Default)]
pub(super) struct Timers {
    deadlines: HashMap<Timer, (Instant, u64)>,
    order: BTreeMap<(Instant, u64), Timer>,
    /// Tells timers of the same moment apart, in the order they were armed.
    armed: u64,
}

impl Timers {
    /// Starts a timer, or moves it.
    pub(super) fn arm(&mut self, timer: Timer, after: Duration) {
        self.disarm(timer);
        self.armed += 1;
        let key = (Instant::now() + after, self.armed);
        self.deadlines.insert(timer, key);
        self.order.insert(key, timer);
    }

    /// Forgets a timer.
    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(key) = self.deadlines.remove(&timer) {
            self.order.remove(&key);
        }
    }

    /// The moment of the next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.keys().next().map(|(at, _)| *at)
    }

    /// After this process stood still (suspended, no processor): moves what is overdue. What the
    /// children said in time meanwhile lies in their pipes unread, and counts. True when there was
    /// such a thing.
    pub(super) fn put_off(&mut self, now: Instant) -> bool {
        if self
            .next()
            .is_none_or(|at| now.duration_since(at) <= HELD_UP)
        {
            return false;
        }
        let overdue: Vec<Timer> = self
            .order
            .range(..=(now, u64::MAX))
            .map(|(_, t)| *t)
            .collect();
        for timer in overdue {
            self.arm(timer, CATCH_UP);
        }
        true
    }

    /// The next one that is over by then, once.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.order.pop_first()?;
        self.deadlines.remove(&timer);
        Some(timer)
    }
}
