//! The cases about results on their way to a parent session: once, together, and with one wake.

use pi_agents::fleet::completion::Delivery;
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason};
use pi_agents::fleet::ids::InstanceId;
use pi_agents::fleet::machine::{Effect, Input, OfferAnswer, Timer};
use pi_agents::fleet::outbox::{Activity, OfferMode};
use pi_agents::pi::message::StopReason;

use super::parent::{join, leave, state, sync, with_pi};
use super::world::{Played, World};

/// Every offer so far: to which generation, how, and the agents whose runs it tells of.
fn offers(w: &World) -> Vec<(u64, u64, OfferMode, Vec<InstanceId>)> {
    w.effects
        .iter()
        .filter_map(|e| match e {
            Effect::Offer {
                generation,
                epoch,
                mode,
                deliveries,
                ..
            } => {
                let told = deliveries.iter().map(|d| match d {
                    Delivery::FinalReply(completion) => completion.id.instance,
                    Delivery::Question(_) => unreachable!("nobody asks"),
                });
                Some((*generation, *epoch, *mode, told.collect()))
            }
            _ => None,
        })
        .collect()
}

fn answer(w: &mut World, epoch: u64, answer: OfferAnswer) {
    let Caller { host, generation } = w.caller;
    w.input(Input::Offered {
        host,
        generation,
        epoch,
        answer,
    });
}

/// The bridge takes all offers so far and finds what they hold in the session.
fn deliver(w: &mut World) {
    for (_, epoch, ..) in offers(w) {
        answer(w, epoch, OfferAnswer::Taken);
    }
    let found: Vec<_> = w
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Offer { deliveries, .. } => Some(deliveries.iter().map(Delivery::id)),
            _ => None,
        })
        .flatten()
        .collect();
    for (_, epoch, ..) in offers(w) {
        let found = found.clone();
        answer(
            w,
            epoch,
            OfferAnswer::Checked {
                missing: Vec::new(),
                found,
                durable: true,
            },
        );
    }
    sync(w);
    w.effects.retain(|e| !matches!(e, Effect::Offer { .. }));
}

// B037, R-DELIV-02, R-DELIV-03
#[test]
fn results_wait_for_the_boundary_of_a_busy_parent_and_wake_an_idle_one_once() {
    let mut w = with_pi();
    let host = w.caller.host;
    let agents: Vec<Played> = (0..6).map(|_| w.running()).collect();
    let told = |w: &World| -> Vec<InstanceId> {
        offers(w).into_iter().flat_map(|(.., told)| told).collect()
    };
    let of = |range: std::ops::Range<usize>| -> Vec<InstanceId> {
        agents[range].iter().map(|p| p.instance).collect()
    };
    // Three end during a long tool batch: all of them lie ready before the next model call.
    for p in &agents[..3] {
        w.settle(p, StopReason::Stop);
    }
    sync(&mut w);
    assert_eq!(told(&w), of(0..3));
    assert!(
        offers(&w)
            .iter()
            .all(|(_, _, mode, _)| *mode == OfferMode::Boundary)
    );
    assert_eq!(
        w.count(|e| matches!(
            e,
            Effect::Arm {
                timer: Timer::Wake(_),
                ..
            }
        )),
        0
    );
    deliver(&mut w);
    // The parent is idle: one more is one wake, and two in one tick are one.
    state(&mut w, Activity::Idle);
    for (range, woken) in [(3..4, 1), (4..6, 2)] {
        for p in &agents[range.clone()] {
            w.settle(p, StopReason::Stop);
            sync(&mut w);
        }
        assert_eq!(told(&w), [], "collected until the tick is over");
        assert_eq!(
            w.count(|e| matches!(e, Effect::Arm { timer: Timer::Wake(h), .. } if *h == host)),
            woken
        );
        w.timer(Timer::Wake(host));
        w.timer(Timer::Wake(host));
        let offers = offers(&w);
        assert_eq!(offers.len(), 1, "one wake");
        assert_eq!(offers[0].2, OfferMode::Wake);
        assert_eq!(offers[0].3, of(range));
        deliver(&mut w);
        // The run it started begins and ends, and nothing is told again.
        state(&mut w, Activity::Busy);
        state(&mut w, Activity::Idle);
        w.timer(Timer::Wake(host));
        assert_eq!(told(&w), []);
    }
}

// B035, R-DELIV-05: a second view of the session, a reload, repeated words of the bridge
#[test]
fn one_end_is_delivered_once_whoever_looks_on() {
    let mut w = with_pi();
    let host = w.caller.host;
    let p = w.running();
    let second = Caller {
        host,
        generation: 2,
    };
    let call = join(&mut w, second, HostKind::Pi);
    assert!(w.answer(call).is_err(), "a session has one deliverer");
    state(&mut w, Activity::Idle);
    w.settle(&p, StopReason::Stop);
    w.settle(&p, StopReason::Stop);
    sync(&mut w);
    for _ in 0..3 {
        w.timer(Timer::Wake(host));
        state(&mut w, Activity::Idle);
    }
    // The second view says what it likes: it is nobody.
    for activity in [Activity::Idle, Activity::Busy] {
        w.input(Input::HostState {
            host,
            generation: 2,
            activity,
        });
    }
    let all = offers(&w);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((all[0].0, all[0].2), (1, OfferMode::Wake));
    assert_eq!(all[0].3, [p.instance]);
    deliver(&mut w);
    // The session is opened again by a new bridge that does not remember, and finds it there.
    leave(&mut w, LeaveReason::Reload);
    w.caller.generation = 2;
    let caller = w.caller;
    join(&mut w, caller, HostKind::Pi);
    for activity in [Activity::Idle, Activity::Busy, Activity::Silent] {
        state(&mut w, activity);
        w.timer(Timer::Wake(host));
    }
    sync(&mut w);
    assert_eq!(offers(&w), []);
}
