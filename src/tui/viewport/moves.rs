//! Scrolling: what can be asked for, and doing it. Asked for at any time, done at the next drawing,
//! where widths and heights are known.

use super::{Place, ViewCtx, Viewport};
use crate::fleet::transcript::{EntryKind, TranscriptLog};

/// Something to do at the next drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Move {
    Rows(i64),
    /// Parts of a page, in halves.
    Halves(i64),
    Home,
    Prompt {
        forward: bool,
    },
    Entry(u64),
}

impl Viewport {
    /// Scrolls by rows; negative = towards the beginning.
    pub fn scroll(&mut self, rows: i64) {
        self.moves.push(Move::Rows(rows));
    }

    /// Scrolls by pages, keeping one row of the old page.
    pub fn page(&mut self, pages: i64) {
        self.moves.push(Move::Halves(pages * 2));
    }

    /// Scrolls by half pages.
    pub fn half_page(&mut self, halves: i64) {
        self.moves.push(Move::Halves(halves));
    }

    /// To the first entry in memory.
    pub fn home(&mut self) {
        self.moves.push(Move::Home);
    }

    /// To the end, and follows it from now on.
    pub fn end(&mut self) {
        self.moves.clear();
        self.follow = true;
    }

    /// To the prompt before the top line.
    pub fn previous_prompt(&mut self) {
        self.moves.push(Move::Prompt { forward: false });
    }

    /// To the prompt after the top line, or to the end.
    pub fn next_prompt(&mut self) {
        self.moves.push(Move::Prompt { forward: true });
    }

    /// Brings an entry to the top.
    pub fn show(&mut self, seq: u64) {
        self.moves.push(Move::Entry(seq));
    }

    /// Does what was asked for; true when the reader moved towards the end.
    pub(super) fn act(&mut self, log: &TranscriptLog, ctx: &ViewCtx<'_>, height: usize) -> bool {
        let mut down = false;
        for step in std::mem::take(&mut self.moves) {
            let rows = match step {
                Move::Rows(n) => n,
                Move::Halves(n) => {
                    let page = i64::try_from(height).unwrap_or(0).max(2) - 1;
                    if n % 2 == 0 {
                        n / 2 * page
                    } else {
                        n * (page + 1) / 2
                    }
                }
                Move::Home => {
                    self.follow = false;
                    self.top = Place {
                        seq: log.first_seq(),
                        row: 0,
                    };
                    continue;
                }
                Move::Entry(seq) => {
                    self.follow = false;
                    let last = log.next_seq().saturating_sub(1);
                    self.top = Place {
                        seq: seq.clamp(log.first_seq(), last.max(log.first_seq())),
                        row: 0,
                    };
                    continue;
                }
                Move::Prompt { forward } => {
                    down |= forward;
                    self.prompt(forward, log);
                    continue;
                }
            };
            down |= rows >= 0;
            if rows < 0 || !self.follow {
                self.step(rows, log, ctx);
            }
        }
        down
    }

    fn step(&mut self, rows: i64, log: &TranscriptLog, ctx: &ViewCtx<'_>) {
        self.follow = false;
        let mut left = usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX);
        if rows < 0 {
            while left > self.top.row && self.top.seq > log.first_seq() {
                left -= self.top.row;
                self.top.seq -= 1;
                self.top.row = self.ensure(self.top.seq, log, ctx);
            }
            self.top.row = self.top.row.saturating_sub(left);
            return;
        }
        let last = log.next_seq().saturating_sub(1);
        loop {
            let have = self.ensure(self.top.seq, log, ctx);
            if self.top.row + left < have || self.top.seq >= last {
                self.top.row = (self.top.row + left).min(have);
                return;
            }
            left -= have.saturating_sub(self.top.row);
            self.top = Place {
                seq: self.top.seq + 1,
                row: 0,
            };
        }
    }

    fn prompt(&mut self, forward: bool, log: &TranscriptLog) {
        let user = |seq: &u64| {
            log.get(*seq)
                .is_some_and(|e| matches!(e.kind, EntryKind::User { .. }))
        };
        let found = if forward {
            (self.top.seq + 1..log.next_seq()).find(user)
        } else {
            // The prompt whose entry the view is inside of comes first.
            let to = self.top.seq + u64::from(self.top.row > 0);
            (log.first_seq()..to).rev().find(user)
        };
        match found {
            Some(seq) => {
                self.follow = false;
                self.top = Place { seq, row: 0 };
            }
            None if forward => self.follow = true,
            None => {
                self.follow = false;
                self.top = Place {
                    seq: log.first_seq(),
                    row: 0,
                };
            }
        }
    }
}
