//! The keys that need a second press: stop an agent, abort a run. Pure, with times in monotonic
//! milliseconds.
//!
//! Stop (R-TUI-06, B057): the first press arms for one agent; a second press for the same agent
//! within [`WINDOW_MS`] stops it. A terminal that reports key releases is believed at once. One
//! that does not cannot tell a held key from presses: there the stop happens [`HELD_MS`] after
//! the second press, a third press before that disarms, and the presses of a key that is held
//! on do not arm again.

use crate::fleet::ids::AgentId;

/// How long the first press counts.
pub const WINDOW_MS: u64 = 2000;
/// A held key sends its next press sooner than this.
pub const HELD_MS: u64 = 120;
/// After a held key was noticed, presses closer together than this belong to it.
const QUIET_MS: u64 = 700;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Calm,
    Armed {
        agent: AgentId,
        until: u64,
    },
    Due {
        agent: AgentId,
        at: u64,
    },
    Held {
        last: u64,
    },
}

/// The stop key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopKeys {
    state: State,
    changed: bool,
}

impl StopKeys {
    /// A press of the stop key (never a repeat or a release) on an agent. `releases` = the
    /// terminal reports releases. Returns the agent to stop now.
    pub fn press(&mut self, agent: AgentId, now: u64, releases: bool) -> Option<AgentId> {
        self.changed = true;
        let (state, stop) = match self.state {
            State::Armed {
                agent: armed,
                until,
            } if armed == agent && now <= until => {
                if releases {
                    (State::Calm, Some(agent))
                } else {
                    (
                        State::Due {
                            agent,
                            at: now + HELD_MS,
                        },
                        None,
                    )
                }
            }
            State::Due { .. } => (State::Held { last: now }, None),
            State::Held { last } if now.saturating_sub(last) < QUIET_MS => {
                (State::Held { last: now }, None)
            }
            State::Calm | State::Armed { .. } | State::Held { .. } => (
                State::Armed {
                    agent,
                    until: now + WINDOW_MS,
                },
                None,
            ),
        };
        self.state = state;
        stop
    }

    /// Anything else happened: another key, another selection, the window lost the focus.
    pub fn disarm(&mut self) {
        if matches!(self.state, State::Armed { .. } | State::Due { .. }) {
            self.state = State::Calm;
            self.changed = true;
        }
    }

    /// Time passed. Returns the agent to stop now.
    pub fn tick(&mut self, now: u64) -> Option<AgentId> {
        match self.state {
            State::Due { agent, at } if at <= now => {
                self.state = State::Calm;
                self.changed = true;
                Some(agent)
            }
            State::Armed { until, .. } if until < now => {
                self.state = State::Calm;
                self.changed = true;
                None
            }
            _ => None,
        }
    }

    /// When `tick` has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Armed { until, .. } => Some(until + 1),
            State::Due { at, .. } => Some(at),
            State::Calm | State::Held { .. } => None,
        }
    }

    /// The agent a second press would stop.
    #[must_use]
    pub fn armed(&self) -> Option<AgentId> {
        match self.state {
            State::Armed { agent, .. } | State::Due { agent, .. } => Some(agent),
            State::Calm | State::Held { .. } => None,
        }
    }

    /// What is shown changed since the last call.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The abort key: Esc in the view of a running agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbortKeys {
    armed: Option<(AgentId, u64)>,
}

impl AbortKeys {
    /// A press. `true` = abort now.
    pub fn press(&mut self, agent: AgentId, now: u64) -> bool {
        match self.armed.take() {
            Some((armed, until)) if armed == agent && now <= until => true,
            _ => {
                self.armed = Some((agent, now + WINDOW_MS));
                false
            }
        }
    }

    /// Anything else happened.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// Time passed. `true` = what is shown changed.
    pub fn tick(&mut self, now: u64) -> bool {
        let over = self.armed.is_some_and(|(_, until)| until < now);
        if over {
            self.armed = None;
        }
        over
    }

    /// When `tick` has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.armed.map(|(_, until)| until + 1)
    }

    /// The agent whose run a second press would abort.
    #[must_use]
    pub fn armed(&self) -> Option<AgentId> {
        self.armed.map(|(agent, _)| agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> (AgentId, AgentId) {
        (AgentId::fresh(), AgentId::fresh())
    }

    // R-TUI-06, B057
    #[test]
    fn two_presses_within_the_window_stop_where_releases_are_reported() {
        let (a, b) = ids();
        let mut keys = StopKeys::default();
        assert_eq!(keys.press(a, 0, true), None);
        assert_eq!(keys.press(a, 2000, true), Some(a));
        assert_eq!(keys.press(a, 2100, true), None, "a third begins anew");
        assert_eq!(keys.press(b, 2200, true), None, "armed for one agent");
        assert_eq!(keys.press(b, 4201, true), None, "too late");
        assert_eq!(keys.armed(), Some(b));
    }

    #[test]
    fn without_releases_the_stop_waits_and_a_third_press_disarms() {
        let (a, _) = ids();
        let mut keys = StopKeys::default();
        assert_eq!(keys.press(a, 0, false), None);
        assert_eq!(keys.press(a, 500, false), None);
        assert_eq!(keys.deadline(), Some(620));
        assert_eq!(keys.tick(619), None);
        assert_eq!(keys.tick(620), Some(a));
        assert_eq!(keys.deadline(), None);
    }

    #[test]
    fn a_held_key_never_stops() {
        let (a, _) = ids();
        let mut keys = StopKeys::default();
        keys.press(a, 0, false);
        let mut at = 500;
        for _ in 0..200 {
            assert_eq!(keys.tick(at), None);
            assert_eq!(keys.press(a, at, false), None);
            at += 33;
        }
        assert_eq!(keys.tick(at + 5000), None);
        assert_eq!(keys.press(a, at + 5000, false), None);
        assert_eq!(
            keys.armed(),
            Some(a),
            "a fresh press after a pause arms again"
        );
    }

    #[test]
    fn anything_else_disarms_also_in_the_last_moment() {
        let (a, _) = ids();
        let mut keys = StopKeys::default();
        keys.press(a, 0, false);
        keys.press(a, 100, false);
        keys.disarm();
        assert_eq!(keys.tick(1000), None);
        assert_eq!(keys.press(a, 1001, false), None);
        assert_eq!(keys.tick(3001), None);
        assert_eq!(keys.tick(3002), None);
        assert_eq!(keys.armed(), None, "the window is over");
    }

    #[test]
    fn esc_needs_two_presses_for_one_agent() {
        let (a, b) = ids();
        let mut keys = AbortKeys::default();
        assert!(!keys.press(a, 0));
        assert!(!keys.press(b, 10));
        assert!(keys.press(b, 20));
        assert!(!keys.press(b, 30));
        assert!(keys.tick(3000));
        assert!(!keys.press(b, 3001));
    }
}
