//! When what is offered, and what becomes of it.

use pi_agents::fleet::outbox::{Activity, Ending, OfferMode, Whereabouts};

use super::kit::{World, completion, id, reply};

#[test]
fn a_busy_parent_gets_everything_ready_at_its_boundary() {
    // R-DELIV-02, scenario 42
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    w.settle(2);
    let modes: Vec<_> = w.offers.iter().map(|o| o.mode).collect();
    assert_eq!(modes, [OfferMode::Boundary, OfferMode::Boundary]);
    assert_eq!(w.offers[0].ids, [reply(1)]);
    assert_eq!(w.offers[1].ids, [reply(2)], "an offer repeats no other");
    assert!(w.offers[0].epoch < w.offers[1].epoch);
    assert_eq!(w.arms, 0);
}

#[test]
fn what_is_ready_when_the_parent_becomes_busy_is_one_offer() {
    // R-DELIV-02
    let mut w = World::joined(Activity::Idle);
    w.settle(2);
    w.settle(1);
    assert!(w.armed);
    w.state(Activity::Busy);
    assert!(!w.armed);
    let offer = w.offer();
    assert_eq!(offer.mode, OfferMode::Boundary);
    assert_eq!(offer.ids, [reply(2), reply(1)], "in the order they settled");
}

#[test]
fn an_idle_parent_is_woken_once_for_many() {
    // R-DELIV-03, scenario 42
    let mut w = World::joined(Activity::Idle);
    for n in 1..=5 {
        w.settle(n);
    }
    assert_eq!(w.arms, 1);
    w.no_offer();
    w.due();
    let offer = w.offer();
    assert_eq!(offer.mode, OfferMode::Wake);
    assert_eq!(offer.ids, (1..=5).map(reply).collect::<Vec<_>>());
    w.settle(6);
    assert!(!w.armed, "one wake at a time");
    w.taken(offer.epoch);
    assert!(!w.armed, "its run has not been reported yet");
    w.state(Activity::Busy);
    assert_eq!(w.offer().mode, OfferMode::Boundary);
}

#[test]
fn a_wake_that_was_taken_and_led_to_no_run_does_not_block_the_next() {
    // R-DELIV-03
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    w.due();
    let offer = w.offer();
    w.settle(2);
    w.arrives(&offer);
    assert!(w.armed);
    w.due();
    assert_eq!(w.offer().ids, [reply(2)]);
}

#[test]
fn a_refused_wake_comes_back_with_the_next_state() {
    // R-DELIV-03: a prompt was on its way
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    w.due();
    let wake = w.offer();
    w.refused(wake.epoch);
    w.settle(2);
    w.no_offer();
    assert!(!w.armed, "the state we know of is out of date");
    w.state(Activity::Busy);
    let offer = w.offer();
    assert_eq!(offer.ids, [reply(1), reply(2)]);
    assert_eq!(offer.mode, OfferMode::Boundary);
    w.arrives(&offer);
    w.state(Activity::Idle);
    w.no_offer();
}

#[test]
fn a_refusal_that_crosses_the_report_comes_back_at_once() {
    // R-DELIV-02: the run that began would reach its boundary without the results
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    w.due();
    let wake = w.offer();
    w.state(Activity::Busy);
    w.no_offer();
    w.refused(wake.epoch);
    let offer = w.offer();
    assert_eq!(
        (offer.mode, offer.ids),
        (OfferMode::Boundary, vec![reply(1)])
    );
}

#[test]
fn a_wake_meets_a_parent_that_became_busy_and_is_taken_or_refused_never_both() {
    // R-DELIV-03
    for take in [true, false] {
        let mut w = World::joined(Activity::Idle);
        w.settle(1);
        w.due();
        let wake = w.offer();
        w.state(Activity::Busy);
        if take {
            w.taken(wake.epoch);
            w.refused(wake.epoch);
        } else {
            w.refused(wake.epoch);
            w.taken(wake.epoch);
        }
        assert_eq!(w.offers.len(), usize::from(!take));
        w.checked(wake.epoch, &[reply(1)], true);
        let acked = w.at(id(1)) == Whereabouts::Over(Ending::Acked);
        assert_eq!(acked, take, "a check of a refused offer is stale");
    }
}

#[test]
fn an_aborted_parent_gets_results_silently_until_it_runs_again() {
    // R-DELIV-04
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    let boundary = w.offer();
    w.state(Activity::Silent);
    w.no_offer();
    w.refused(boundary.epoch);
    let offer = w.offer();
    assert_eq!(
        (offer.mode, offer.ids.clone()),
        (OfferMode::Silent, vec![reply(1)])
    );
    w.arrives(&offer);
    w.settle(2);
    let later = w.offer();
    assert_eq!(later.mode, OfferMode::Silent);
    w.arrives(&later);
    assert_eq!(w.arms, 0, "nobody is woken");
    w.state(Activity::Busy);
    w.settle(3);
    assert_eq!(w.offer().mode, OfferMode::Boundary);
}

#[test]
fn nothing_is_offered_before_its_record_is_safe() {
    // R-DELIV-05
    for activity in [Activity::Busy, Activity::Idle, Activity::Silent] {
        let mut w = World::joined(activity);
        w.hold_journal = true;
        w.settle(1);
        w.settle(2);
        w.no_offer();
        assert!(!w.armed);
        let first = w.records[0].0;
        w.outbox.journaled(first);
        w.run();
        if activity == Activity::Idle {
            w.due();
        }
        assert_eq!(w.offer().ids, [reply(1)]);
    }
}

#[test]
fn a_report_about_records_never_written_is_worth_nothing() {
    // R-DELIV-05
    let mut w = World::joined(Activity::Busy);
    w.outbox.journaled(u64::MAX);
    w.hold_journal = true;
    w.settle(1);
    w.no_offer();
}

#[test]
fn a_journal_that_cannot_be_written_stops_no_delivery() {
    // R-DELIV-05, R-LIFE-18
    let mut w = World::joined(Activity::Busy);
    w.hold_journal = true;
    w.settle(1);
    w.no_offer();
    w.outbox.journal_failed();
    w.outbox.journal_failed();
    w.run();
    assert_eq!(w.degraded, Some(true));
    let offer = w.offer();
    w.arrives(&offer);
    w.settle(2);
    assert_eq!(w.offer().ids, [reply(2)]);
    let last = w.records.last().unwrap().0;
    w.outbox.journal_recovered(last);
    w.run();
    assert_eq!(w.degraded, Some(false));
    w.settle(3);
    w.no_offer();
    let last = w.records.last().unwrap().0;
    w.outbox.journaled(last);
    w.run();
    assert_eq!(w.offer().ids, [reply(3)]);
}

#[test]
fn found_but_not_on_disk_is_neither_acknowledged_nor_offered_again() {
    // R-DELIV-05: entries before the first message of a session are not on disk
    let mut w = World::joined(Activity::Silent);
    w.settle(1);
    let offer = w.offer();
    w.taken(offer.epoch);
    w.checked(offer.epoch, &offer.ids, false);
    assert_eq!(w.at(id(1)), Whereabouts::Placed);
    w.state(Activity::Idle);
    w.state(Activity::Busy);
    w.checked(offer.epoch, &[], false);
    w.no_offer();
    w.checked(offer.epoch, &offer.ids, true);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn not_found_is_offered_again() {
    // R-DELIV-05, scenario 41
    let mut w = World::joined(Activity::Busy);
    w.outbox.settle(completion(1));
    w.outbox.settle(completion(2));
    w.run();
    let [first, second] = [w.offers.remove(0), w.offers.remove(0)];
    w.taken(first.epoch);
    w.taken(second.epoch);
    w.checked(first.epoch, &[], true);
    let again = w.offer();
    assert_eq!(again.ids, [reply(1)]);
    assert!(again.epoch > second.epoch, "no epoch is used twice");
    w.checked(second.epoch, &second.ids, true);
    w.arrives(&again);
    for n in [1, 2] {
        assert_eq!(w.at(id(n)), Whereabouts::Over(Ending::Acked));
    }
    w.no_offer();
}

#[test]
fn only_what_was_taken_can_be_missed() {
    // R-ORCH-04: the bridge still has it in its memory
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    let offer = w.offer();
    w.checked(offer.epoch, &[], true);
    w.no_offer();
    w.arrives(&offer);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn what_another_extension_always_drops_costs_a_bounded_number_of_runs() {
    // R-DELIV-02, R-DELIV-05: kept, offered silently, and no endless loop of model calls
    for activity in [Activity::Busy, Activity::Idle] {
        let mut w = World::joined(activity);
        w.settle(1);
        let mut costly = 0;
        for _ in 0..20 {
            if w.armed {
                w.due();
            }
            let Some(offer) = w.offers.pop() else {
                w.state(activity);
                continue;
            };
            costly += usize::from(offer.mode != OfferMode::Silent);
            w.taken(offer.epoch);
            w.checked(offer.epoch, &[], true);
        }
        assert_eq!(costly, 3);
        if w.offers.is_empty() {
            w.state(activity);
        }
        let offer = w.offer();
        w.arrives(&offer);
        assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
    }
}

#[test]
fn nothing_is_offered_without_a_bridge_that_said_what_its_host_does() {
    // R-DELIV-05
    let mut w = World::new();
    w.settle(1);
    w.state(Activity::Busy);
    w.no_offer();
    w.join(&[]);
    w.no_offer();
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(1)]);
}

#[test]
fn a_pending_push_never_reaches_the_next_session_runtime() {
    // R-DELIV-05, scenario 34
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    assert!(w.armed);
    w.outbox.leave();
    w.run();
    assert!(!w.armed);
    w.outbox.wake_due();
    w.state(Activity::Busy);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Ready { claimed: 0 });
}

#[test]
fn words_of_a_bridge_that_is_gone_count_for_nothing() {
    // R-DELIV-05, R-LIFE-12
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    let old = w.offer();
    w.join(&[]);
    w.state(Activity::Busy);
    let new = w.offer();
    assert_eq!(new.ids, [reply(1)]);
    let stale = old.generation;
    w.outbox.taken(stale, old.epoch);
    w.outbox.refused(stale, new.epoch);
    w.outbox.checked(stale, old.epoch, &[reply(1)], true);
    w.outbox.join(stale, &[reply(1)], true);
    w.run();
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Offered);
    w.checked(99, &[reply(1)], true);
    assert_eq!(w.at(id(1)), Whereabouts::Offered, "no such epoch");
    w.arrives(&new);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn a_join_acknowledges_what_is_in_the_session_and_offers_the_rest() {
    // R-DELIV-05
    let mut w = World::joined(Activity::Busy);
    for n in 1..=3 {
        w.settle(n);
    }
    let offers = std::mem::take(&mut w.offers);
    w.taken(offers[0].epoch);
    w.taken(offers[1].epoch);
    w.outbox.leave();
    assert_eq!(w.at(id(1)), Whereabouts::Offered, "only the session knows");
    w.join(&[reply(1)]);
    w.state(Activity::Idle);
    w.due();
    let offer = w.offer();
    assert_eq!(offer.ids, [reply(2), reply(3)]);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
}

#[test]
fn what_a_join_finds_unsafe_waits_for_a_check_of_no_offer() {
    // R-DELIV-05
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    w.offers.clear();
    w.join_as(&[reply(1)], false);
    w.state(Activity::Busy);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Placed);
    w.checked(0, &[reply(1)], true);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
    // A session that was lost before it was ever written brings it back.
    w.settle(2);
    w.offers.clear();
    w.join_as(&[reply(2)], false);
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(2)]);
}

#[test]
fn an_offer_has_a_size() {
    // R-Q-04: it has to fit a frame; the rest follows
    let mut w = World::joined(Activity::Silent);
    w.hold_journal = true;
    for n in 1..=5 {
        let mut big = completion(n);
        big.result = "x".repeat(900 << 10);
        w.outbox.settle(big);
    }
    w.run();
    w.outbox.journaled(5);
    w.run();
    let sizes: Vec<_> = w.offers.iter().map(|o| o.ids.len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
}

#[test]
fn what_was_not_delivered_is_kept_and_what_was_is_forgotten() {
    // R-DELIV-05, scenario 63
    let mut w = World::new();
    for n in 0..10_000 {
        w.settle(n);
    }
    assert_eq!(w.outbox.size(), (10_000, 0));
    w.join(&(0..9_999).map(reply).collect::<Vec<_>>());
    let (live, over) = w.outbox.size();
    assert_eq!(live, 1);
    assert!(over <= 4096, "{over}");
    assert_eq!(w.at(id(9_999)), Whereabouts::Ready { claimed: 0 });
    assert!(!w.outbox.settle(completion(9_998)));
}
