//! What a core that comes back owes the parent.

use pi_agents::fleet::completion::{CompletionStatus, Delivery};
use pi_agents::fleet::outbox::{Activity, Ending, JournalRecord, Suppression, Whereabouts};

use super::kit::{World, call, id, owed, reply};

#[test]
fn a_run_that_did_not_settle_is_lost_and_told_once() {
    // R-DELIV-17, scenario 60
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    let mut w = w.crash(1);
    w.join(&[]);
    w.state(Activity::Idle);
    w.due();
    let offer = w.offer();
    let [Delivery::FinalReply(lost)] = w.deliveries.as_slice() else {
        panic!("{:?}", w.deliveries);
    };
    assert_eq!(lost.status, CompletionStatus::Failed);
    assert_eq!(lost.result, "supervisor lost\n(no output)");
    assert_eq!(lost.agent, "max");
    assert_eq!(lost.session_path, owed(1).session_path);
    w.arrives(&offer);
    let records = w.records.len();
    let mut w = w.crash(records);
    w.join(&[reply(1)]);
    w.state(Activity::Idle);
    assert!(!w.armed);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn a_result_survives_the_core_at_every_point() {
    // R-DELIV-05, scenario 60: only the records that were synced, and what the session holds, decide
    for taken in [false, true] {
        for acked in [false, true] {
            let mut w = World::joined(Activity::Busy);
            w.open(1);
            w.settle(1);
            let offer = w.offer();
            if taken {
                w.taken(offer.epoch);
            }
            if taken && acked {
                w.checked(offer.epoch, &offer.ids, true);
            }
            let all = w.records.len();
            let known = if taken { vec![reply(1)] } else { vec![] };
            let mut w = w.crash(all);
            w.join(&known);
            w.state(Activity::Busy);
            assert_eq!(w.offers.len(), usize::from(!taken));
        }
    }
}

#[test]
fn a_foreground_call_says_itself_that_the_core_was_lost() {
    // R-DELIV-09, R-DELIV-17
    let mut w = World::joined(Activity::Busy);
    w.outbox.open(owed(1), Some(call(1)));
    w.run();
    let all = w.records.len();
    let mut w = w.crash(all);
    w.join(&[]);
    w.state(Activity::Busy);
    w.no_offer();
    let ended = Ending::Suppressed(Suppression::CallEnded);
    assert_eq!(w.at(id(1)), Whereabouts::Over(ended));
}

#[test]
fn a_settled_foreground_result_nobody_took_is_pushed() {
    // R-ORCH-04: never pulled → pushed once
    let mut w = World::joined(Activity::Busy);
    w.outbox.open(owed(1), Some(call(1)));
    w.settle(1);
    let all = w.records.len();
    let mut w = w.crash(all);
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(1)]);
}

#[test]
fn a_foreground_run_whose_call_let_go_is_owed_like_any_other() {
    // R-DELIV-17, R-ORCH-04
    let mut w = World::joined(Activity::Busy);
    w.outbox.open(owed(1), Some(call(1)));
    w.unclaim(1);
    let all = w.records.len();
    let mut w = w.crash(all);
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(1)]);
}

#[test]
fn a_pulled_result_is_not_pushed_by_the_next_core() {
    // R-ORCH-04; the id in the tool result's details covers a record that was not synced in time
    for record_synced in [true, false] {
        let mut w = World::joined(Activity::Busy);
        w.outbox.open(owed(1), Some(call(1)));
        w.settle(1);
        assert!(w.pull(1).is_some());
        let all = w.records.len();
        let mut w = w.crash(all - usize::from(!record_synced));
        let known = if record_synced {
            vec![]
        } else {
            vec![reply(1)]
        };
        w.join(&known);
        w.state(Activity::Busy);
        w.no_offer();
    }
}

#[test]
fn what_was_delivered_while_the_journal_was_away_is_not_delivered_again() {
    // R-DELIV-05
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.hold_journal = true;
    w.outbox.journal_failed();
    w.settle(1);
    let offer = w.offer();
    w.taken(offer.epoch);
    let mut w = w.crash(1); // the settlement was never written
    w.join(&[reply(1)]);
    w.state(Activity::Busy);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn a_suppressed_run_stays_suppressed() {
    // R-DELIV-06
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.suppress(id(1), Suppression::Stopped);
    w.run();
    let all = w.records.len();
    let mut w = w.crash(all);
    w.join(&[]);
    w.state(Activity::Busy);
    w.no_offer();
}

#[test]
fn nothing_of_before_is_pulled_until_a_join_told_where_it_is() {
    // R-ORCH-04
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    let all = w.records.len();
    let mut w = w.crash(all);
    w.outbox.claim(id(1), call(1));
    assert_eq!(w.pull(1), None);
    w.join(&[]);
    assert!(w.pull(1).is_some());
}

#[test]
fn the_order_of_settlement_survives() {
    // R-DELIV-02
    let mut w = World::new();
    for n in [3, 1, 2] {
        w.open(n);
    }
    for n in [2, 3, 1] {
        w.settle(n);
    }
    let all = w.records.len();
    let mut w = w.crash(all);
    w.settle(4);
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [2, 3, 1, 4].map(reply));
}

#[test]
fn records_that_are_read_late_join_what_is_there() {
    // R-DELIV-05: the file could not be read at first
    let mut w = World::joined(Activity::Busy);
    w.settle(2);
    w.offers.clear();
    let old = |n| JournalRecord::Settled {
        completion: super::kit::completion(n),
        quiet: false,
    };
    w.outbox.restore([old(1), old(2)]);
    w.run();
    w.no_offer();
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(2), reply(1)]);
}
