//! One delivery on its way, and the ids of those that are over.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::record::{Ending, OwedRun};
use crate::fleet::completion::{Completion, Delivery, DeliveryId};
use crate::fleet::ids::CallId;

/// What is to be delivered.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A run that has not settled; the call that waits for it in the foreground, if one does.
    Owed(OwedRun, Option<CallId>),
    /// Frozen.
    Frozen(Delivery),
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The run goes on.
    Unsettled,
    /// With us and nowhere else.
    Ready,
    /// In an offer of this generation that was not yet resolved.
    Offered(u64),
    /// Found in the session, which is not safe on the disk yet. Never offered again in this generation.
    Placed,
    /// Offered once, to a generation or a core that is over: only a join tells whether it arrived.
    Unsure,
    /// A call took it. Kept for other calls that claim it.
    Pulled,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) body: Body,
    pub(super) state: State,
    /// Calls that want it as their result.
    pub(super) claims: BTreeSet<CallId>,
    /// Record of the journal that has to be safe before the first offer.
    pub(super) seq: u64,
    /// Place among what is ready: completions in the order they settled.
    pub(super) order: u64,
    /// How often it was taken and then not found.
    pub(super) misses: u8,
    /// Never wakes the host.
    pub(super) quiet: bool,
    /// Not offered before the host's state was reported this often.
    pub(super) not_before: u64,
}

impl Entry {
    pub(super) fn new(body: Body, state: State, seq: u64, order: u64) -> Self {
        Self {
            body,
            state,
            claims: BTreeSet::new(),
            seq,
            order,
            misses: 0,
            quiet: false,
            not_before: 0,
        }
    }

    pub(super) fn delivery(&self) -> Option<&Delivery> {
        match &self.body {
            Body::Owed(..) => None,
            Body::Frozen(delivery) => Some(delivery),
        }
    }

    /// Whose it is.
    pub(super) fn agent(&self) -> &str {
        match &self.body {
            Body::Owed(run, _) => &run.agent,
            Body::Frozen(Delivery::FinalReply(completion)) => &completion.agent,
            Body::Frozen(Delivery::Question(question)) => &question.agent,
        }
    }

    pub(super) fn completion(&self) -> Option<&Completion> {
        match &self.body {
            Body::Frozen(Delivery::FinalReply(completion)) => Some(completion),
            _ => None,
        }
    }
}

/// The ids of the last deliveries that are over, so that a second settlement of one is recognised. Bounded: the
/// oldest is forgotten first. An id can come back only by a fault of ours in the same core, soon after.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    order: VecDeque<DeliveryId>,
    how: HashMap<DeliveryId, Ending>,
}

impl Over {
    /// Ids kept, some 100 bytes each.
    pub(super) const LIMIT: usize = 4096;

    pub(super) fn add(&mut self, id: DeliveryId, how: Ending) {
        if self.how.insert(id, how).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > Self::LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            self.how.remove(&oldest);
        }
    }

    pub(super) fn get(&self, id: DeliveryId) -> Option<Ending> {
        self.how.get(&id).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}
