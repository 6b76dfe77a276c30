//! Questions that do not block.

use pi_agents::fleet::completion::Question;
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::outbox::{Activity, Ending, OfferMode, Whereabouts};
use uuid::Uuid;

use super::kit::{World, question, reply};

#[test]
fn a_question_wakes_an_idle_parent_by_itself() {
    // R-DELIV-10
    let mut w = World::joined(Activity::Idle);
    w.settle(1);
    assert!(w.armed);
    w.ask(1);
    let offer = w.offer();
    assert_eq!(
        (offer.mode, offer.ids.clone()),
        (OfferMode::Wake, vec![question(1)])
    );
    assert!(!w.armed, "one wake at a time");
    w.taken(offer.epoch);
    w.state(Activity::Busy);
    let results = w.offer();
    assert_eq!(
        (results.mode, results.ids),
        (OfferMode::Boundary, vec![reply(1)])
    );
}

#[test]
fn a_busy_parent_gets_a_question_outside_the_batch() {
    // R-DELIV-10
    let mut w = World::joined(Activity::Idle);
    w.hold_journal = true;
    w.settle(1);
    w.ask(1);
    w.settle(2);
    w.ask(2);
    w.state(Activity::Busy);
    w.outbox.journaled(4);
    w.run();
    let ids: Vec<_> = w.offers.iter().map(|o| o.ids.clone()).collect();
    assert!(ids.contains(&vec![reply(1), reply(2)]), "{ids:?}");
    assert!(ids.contains(&vec![question(1)]) && ids.contains(&vec![question(2)]));
    assert_eq!(ids.len(), 3);
}

#[test]
fn several_questions_to_an_idle_parent_wake_it_once() {
    // R-DELIV-10: the first starts a run, in which the others arrive
    let mut w = World::joined(Activity::Idle);
    w.ask(1);
    w.ask(2);
    let first = w.offer();
    assert_eq!(first.ids, [question(1)]);
    w.taken(first.epoch);
    w.state(Activity::Busy);
    let second = w.offer();
    assert_eq!(
        (second.mode, second.ids),
        (OfferMode::Boundary, vec![question(2)])
    );
}

#[test]
fn after_an_abort_a_question_shows_and_wakes_nobody() {
    // R-DELIV-18
    let mut w = World::joined(Activity::Silent);
    w.ask(1);
    let offer = w.offer();
    assert_eq!(offer.mode, OfferMode::Silent);
    w.arrives(&offer);
    w.state(Activity::Idle);
    w.no_offer();
    assert_eq!(
        w.at(MessageId(Uuid::from_u128(1))),
        Whereabouts::Over(Ending::Acked)
    );
}

#[test]
fn a_question_is_journalled_and_survives_the_core() {
    // R-DELIV-18
    let mut w = World::joined(Activity::Idle);
    w.hold_journal = true;
    w.ask(1);
    w.no_offer();
    let mut w = w.crash(1);
    w.join(&[]);
    w.state(Activity::Idle);
    assert_eq!(w.offer().ids, [question(1)]);
}

#[test]
fn a_question_is_asked_once() {
    // R-DELIV-18
    let mut w = World::joined(Activity::Busy);
    w.ask(1);
    let again = Question {
        id: MessageId(Uuid::from_u128(1)),
        agent: "zoe".to_owned(),
        question: "again".to_owned(),
    };
    assert!(!w.outbox.ask(again.clone()));
    let offer = w.offer();
    w.arrives(&offer);
    assert!(!w.outbox.ask(again));
}
