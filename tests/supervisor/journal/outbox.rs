//! An outbox on a real journal, through the deaths of cores.

use std::path::Path;

use pi_agents::fleet::completion::{Delivery, DeliveryId};
use pi_agents::fleet::outbox::{Activity, Outbox, OutboxEffect};
use pi_agents::supervisor::journal::{JournalEvent, Opened};

use super::history::{record, settled};
use super::{event, open};
use pi_agents::fleet::outbox::JournalRecord;

/// A core of one host: carries out what the outbox wants.
struct Core {
    outbox: Outbox,
    opened: Opened,
    offers: Vec<(u64, Vec<DeliveryId>)>,
}

impl Core {
    fn start(dir: &Path) -> Self {
        let mut opened = open(dir);
        let mut outbox = Outbox::new();
        outbox.restore(std::mem::take(&mut opened.records));
        if opened.failed.is_some() {
            outbox.journal_failed();
        }
        let mut core = Self {
            outbox,
            opened,
            offers: Vec::new(),
        };
        core.run();
        core
    }

    fn run(&mut self) {
        let mut last = 0;
        loop {
            let effects = self.outbox.take_effects();
            if effects.is_empty() && last == 0 {
                return;
            }
            for effect in effects {
                match effect {
                    OutboxEffect::Journal { seq, record } => {
                        self.opened.journal.append(seq, record);
                        last = seq;
                    }
                    OutboxEffect::Offer {
                        epoch, deliveries, ..
                    } => self
                        .offers
                        .push((epoch, deliveries.iter().map(Delivery::id).collect())),
                    _ => {}
                }
            }
            while last > 0 {
                match event(&mut self.opened) {
                    JournalEvent::Synced(seq) => {
                        self.outbox.journaled(seq);
                        if seq >= last {
                            last = 0;
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn settle(&mut self, run: u64) {
        let JournalRecord::Settled { completion, .. } = settled(run, "done") else {
            return;
        };
        assert!(self.outbox.settle(completion));
        self.run();
    }

    fn join(&mut self, session: &[DeliveryId]) {
        self.outbox.join(1, session, true);
        self.outbox.host_state(Activity::Busy);
        self.run();
    }
}

#[test]
fn each_result_reaches_the_session_once_through_many_cores() {
    // R-DELIV-05, R-DELIV-17, scenario 60
    let dir = super::temp();
    let mut session: Vec<DeliveryId> = Vec::new();
    let mut run = 0;
    for round in 0..24 {
        let mut core = Core::start(dir.path());
        if round % 3 != 0 {
            core.join(&session);
        }
        for _ in 0..3 {
            core.settle(run);
            run += 1;
        }
        if let JournalRecord::Opened { run: owed, .. } = record(1 + 3 * run) {
            assert!(core.outbox.open(owed, None));
            core.run();
            run += 1;
        }
        for (epoch, ids) in std::mem::take(&mut core.offers) {
            if round % 2 == 0 {
                continue; // never taken
            }
            core.outbox.taken(1, epoch);
            session.extend(&ids);
            if round % 4 == 1 {
                core.outbox.checked(1, epoch, &ids, true);
                core.run();
            }
        }
        // It dies: nothing is said goodbye to. What it handed over was synced before it was offered.
        core.opened.journal.close(core.opened.events);
    }
    let mut core = Core::start(dir.path());
    core.join(&session);
    for (epoch, ids) in std::mem::take(&mut core.offers) {
        core.outbox.taken(1, epoch);
        session.extend(&ids);
        core.outbox.checked(1, epoch, &ids, true);
    }
    core.run();
    assert_eq!(core.outbox.size().0, 0);
    assert_eq!(session.len() as u64, run);
    session.sort_unstable();
    session.dedup();
    assert_eq!(session.len() as u64, run, "some arrived twice");
    let path = core.opened.journal.path().to_owned();
    core.opened.journal.close(core.opened.events);
    assert!(!path.exists(), "nothing is owed");
}
