//! Counts each assistant message's usage once, however often its end is reported.

use super::roster::UsageTotals;
use crate::pi::message::{Assistant, Usage};

/// Tells a message from a repetition of the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    begun: bool,
    last: Option<i64>,
}

impl Meter {
    /// An assistant message begins.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// An assistant message ended; its usage, unless it was counted before.
    pub(super) fn end(&mut self, message: &Assistant) -> Option<UsageTotals> {
        if !self.begun && self.last == Some(message.timestamp) {
            return None;
        }
        self.begun = false;
        self.last = Some(message.timestamp);
        Some(totals(&message.usage))
    }
}

/// Usage of one request as a sum.
pub(super) fn totals(usage: &Usage) -> UsageTotals {
    UsageTotals {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        cost: usage.cost.total,
    }
}
