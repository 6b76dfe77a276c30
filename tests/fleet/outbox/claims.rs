//! Pull against push: counted claims.

use pi_agents::fleet::outbox::{
    Activity, Claim, Ending, OfferMode, OutboxEffect, Suppression, Whereabouts,
};

use super::kit::{World, call, completion, id, owed, reply};

#[test]
fn a_result_pulled_before_the_timer_is_not_pushed() {
    // R-ORCH-04, scenario 27
    let mut w = World::joined(Activity::Idle);
    w.open(1);
    w.settle(1);
    assert!(w.armed);
    assert_eq!(w.outbox.claim(id(1), call(1)), Claim::Ready);
    w.run();
    assert!(!w.armed, "nothing is left to wake for");
    assert_eq!(w.pull(1), Some(completion(1)));
    w.outbox.wake_due();
    w.run();
    w.state(Activity::Busy);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Pulled));
}

#[test]
fn a_waiter_before_completion_gets_it_and_nothing_is_pushed() {
    // R-ORCH-04, scenario 28
    for activity in [Activity::Idle, Activity::Busy, Activity::Silent] {
        let mut w = World::joined(activity);
        w.open(1);
        assert_eq!(w.outbox.claim(id(1), call(1)), Claim::Waiting);
        assert_eq!(w.pull(1), None);
        w.settle(1);
        w.no_offer();
        assert!(!w.armed);
        assert_eq!(w.outbox.pullable(), [call(1)]);
        assert_eq!(w.pull(1), Some(completion(1)));
        w.state(Activity::Idle);
        w.no_offer();
    }
}

#[test]
fn one_of_two_waiters_cancels_and_the_other_is_served() {
    // R-ORCH-04, scenario 29
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.outbox.claim(id(1), call(2));
    w.unclaim(1);
    w.settle(1);
    w.no_offer();
    assert_eq!(w.pull(1), None, "a cancelled call gets nothing");
    assert_eq!(w.pull(2), Some(completion(1)));
    w.no_offer();
}

#[test]
fn both_waiters_cancel_after_the_end_and_it_is_pushed_once() {
    // R-ORCH-04, scenario 30
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.outbox.claim(id(1), call(2));
    w.settle(1);
    w.unclaim(1);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Ready { claimed: 1 });
    w.unclaim(2);
    let offer = w.offer();
    assert_eq!(offer.ids, [reply(1)]);
    w.arrives(&offer);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
    w.state(Activity::Idle);
    w.no_offer();
}

#[test]
fn a_wait_that_was_cancelled_during_the_run_changes_nothing() {
    // R-ORCH-04, scenarios 15 and 31
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.unclaim(1);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Unsettled, "the agent goes on");
    w.settle(1);
    let offer = w.offer();
    w.arrives(&offer);
    w.no_offer();
}

#[test]
fn a_waiter_that_cancels_on_a_consumed_result_brings_nothing_back() {
    // R-ORCH-04, scenario 32
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.outbox.claim(id(1), call(2));
    w.settle(1);
    assert!(w.pull(1).is_some());
    w.outbox.claim(id(1), call(3));
    w.unclaim(3);
    w.unclaim(2);
    w.no_offer();
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Pulled));
    assert_eq!(w.outbox.claim(id(1), call(4)), Claim::Gone);
    w.unclaim(4);
    w.no_offer();
}

#[test]
fn a_claim_while_the_timer_runs_keeps_the_result_out_of_the_wake() {
    // R-ORCH-04, scenario 33
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    w.settle(2);
    assert_eq!(w.arms, 1);
    w.outbox.claim(id(1), call(1));
    w.due();
    let offer = w.offer();
    assert_eq!((offer.mode, offer.ids), (OfferMode::Wake, vec![reply(2)]));
}

#[test]
fn a_result_found_in_the_session_after_a_pull_stays_with_the_other_waiters() {
    // R-ORCH-04, R-TOOL-11: the id is in the details of the first one's tool result
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.outbox.claim(id(1), call(2));
    w.settle(1);
    assert_eq!(w.pull(1), Some(completion(1)));
    w.checked(0, &[reply(1)], true);
    assert_eq!(w.pull(2), Some(completion(1)));
    w.no_offer();
}

#[test]
fn several_waits_on_several_runs_each_get_their_own() {
    // R-TOOL-11, scenario 20
    let mut w = World::joined(Activity::Busy);
    for n in [1, 2] {
        w.open(n);
    }
    w.outbox.claim(id(1), call(1));
    w.outbox.claim(id(1), call(2));
    w.outbox.claim(id(2), call(3));
    w.settle(2);
    assert_eq!(w.pull(1), None);
    assert_eq!(w.pull(3), Some(completion(2)));
    w.settle(1);
    assert_eq!(w.pull(1), Some(completion(1)));
    assert_eq!(w.pull(2), Some(completion(1)), "each waiter gets the same");
    assert_eq!(w.pull(2), None, "once");
    w.no_offer();
    assert_eq!(w.outbox.size().0, 0);
}

#[test]
fn one_call_can_claim_several() {
    // R-ORCH-04
    let mut w = World::joined(Activity::Busy);
    for n in [1, 2, 3] {
        w.open(n);
        w.outbox.claim(id(n), call(1));
    }
    w.settle(3);
    w.settle(1);
    assert_eq!(w.pull(1), Some(completion(1)));
    assert_eq!(w.pull(1), Some(completion(3)));
    assert_eq!(w.pull(1), None);
    w.unclaim(1);
    w.settle(2);
    assert_eq!(w.offer().ids, [reply(2)]);
}

#[test]
fn a_foreground_run_is_the_result_of_its_call_alone() {
    // R-DELIV-09, R-TOOL-18
    let mut w = World::joined(Activity::Busy);
    assert!(w.outbox.open(owed(1), Some(call(1))));
    w.run();
    assert_eq!(w.outbox.claimants(id(1)).collect::<Vec<_>>(), [call(1)]);
    w.settle(1);
    w.no_offer();
    assert_eq!(w.pull(1), Some(completion(1)));
    w.state(Activity::Idle);
    w.no_offer();
    assert!(!w.armed);
}

#[test]
fn a_cancelled_foreground_call_with_a_stopped_child_tells_nothing_more() {
    // R-TOOL-10, R-DELIV-06, scenario 17
    let mut w = World::joined(Activity::Busy);
    w.outbox.open(owed(1), Some(call(1)));
    assert!(w.outbox.suppress(id(1), Suppression::CallEnded));
    w.unclaim(1);
    assert!(!w.outbox.settle(completion(1)), "the first cause stands");
    w.run();
    w.no_offer();
    assert_eq!(w.pull(1), None);
}

#[test]
fn a_result_that_is_on_its_way_is_not_pulled_too() {
    // R-ORCH-04: the bridge has it already; only its word frees it
    let mut w = World::joined(Activity::Busy);
    w.settle(1);
    let offer = w.offer();
    assert_eq!(w.outbox.claim(id(1), call(1)), Claim::OnItsWay);
    assert_eq!(w.pull(1), None);
    w.taken(offer.epoch);
    assert_eq!(w.pull(1), None);
    w.checked(offer.epoch, &[reply(1)], true);
    assert_eq!(w.pull(1), None);
    assert_eq!(w.at(id(1)), Whereabouts::Over(Ending::Acked));
    assert_eq!(w.outbox.pullable(), []);
}

#[test]
fn a_result_that_did_not_arrive_goes_to_the_call_that_claims_it() {
    // R-ORCH-04
    for refuse in [true, false] {
        let mut w = World::joined(Activity::Busy);
        w.settle(1);
        let offer = w.offer();
        w.outbox.claim(id(1), call(1));
        if refuse {
            w.refused(offer.epoch);
        } else {
            w.taken(offer.epoch);
            w.checked(offer.epoch, &[], true);
        }
        w.state(Activity::Busy);
        w.no_offer();
        assert_eq!(w.outbox.pullable(), [call(1)]);
        assert_eq!(w.pull(1), Some(completion(1)));
        w.no_offer();
    }
}

#[test]
fn ten_thousand_waits_leave_nothing_behind() {
    // R-TOOL-10, scenario 13
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    for n in 0..10_000 {
        w.outbox.claim(id(1), call(n));
        w.outbox.unclaim(call(n));
        w.outbox.unclaim(call(n));
    }
    w.run();
    assert_eq!(w.outbox.claimants(id(1)).count(), 0);
    assert_eq!(w.outbox.pullable(), []);
    assert_eq!(w.records.len(), 1, "a wait is nothing to remember");
    w.settle(1);
    assert_eq!(w.offer().ids, [reply(1)]);
}

#[test]
fn suppression_is_for_the_run_that_goes_on_alone() {
    // R-DELIV-06
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.settle(1);
    w.open(2);
    assert!(w.outbox.suppress(id(2), Suppression::Stopped));
    assert!(!w.outbox.suppress(id(1), Suppression::Stopped));
    w.run();
    assert!(!w.outbox.settle(completion(2)));
    let offer = w.offer();
    assert_eq!(offer.ids, [reply(1)]);
    w.arrives(&offer);
    w.no_offer();
    let stopped = Ending::Suppressed(Suppression::Stopped);
    assert_eq!(w.at(id(2)), Whereabouts::Over(stopped));
}

#[test]
fn a_completion_is_frozen_at_its_settlement() {
    // R-TOOL-13, R-DELIV-01
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    let mut later = completion(1);
    later.result = "second thoughts".to_owned();
    assert!(!w.outbox.settle(later.clone()));
    w.due();
    let offer = w.offer();
    assert_eq!(w.deliveries, [completion(1).into()]);
    w.arrives(&offer);
    assert!(!w.outbox.settle(later), "not after it arrived either");
    w.run();
    w.no_offer();
}

#[test]
fn equal_texts_of_different_runs_are_different_completions() {
    // R-DELIV-01
    let mut w = World::joined(Activity::Busy);
    for n in [1, 2] {
        let mut same = completion(n);
        same.result = "done".to_owned();
        assert!(w.outbox.settle(same));
    }
    w.run();
    let ids: Vec<_> = w.offers.iter().flat_map(|o| o.ids.clone()).collect();
    assert_eq!(ids, [reply(1), reply(2)]);
}

#[test]
fn waits_and_claims_of_a_bridge_end_with_it() {
    // R-DELIV-05: a call whose connection is gone cannot take a result with it
    let mut w = World::joined(Activity::Busy);
    w.open(1);
    w.outbox.claim(id(1), call(1));
    w.settle(1);
    w.outbox.leave();
    assert_eq!(w.pull(1), None);
    w.join(&[]);
    w.state(Activity::Busy);
    assert_eq!(w.offer().ids, [reply(1)]);
}

#[test]
fn effects_are_given_out_once() {
    let mut w = World::new();
    w.outbox.settle(completion(1));
    assert!(matches!(
        w.outbox.take_effects().as_slice(),
        [OutboxEffect::Journal { seq: 1, .. }]
    ));
    assert_eq!(w.outbox.take_effects(), []);
}
