//! A parent Pi session, played by hand.

use pi_agents::fleet::completion::{Completion, Delivery};
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason};
use pi_agents::fleet::ids::{CallId, HostId};
use pi_agents::fleet::interpret::Fact;
use pi_agents::fleet::machine::{Effect, Input, MachineConfig};
use pi_agents::fleet::outbox::{Activity, OfferMode};
use pi_agents::pi::message::StopReason;

use super::world::{Played, World};

/// A world in which a Pi session has joined and its journal works at once.
pub fn with_pi() -> World {
    with_pi_and(MachineConfig::default())
}

/// The same with a disk that takes its time: see [`sync`].
pub fn with_slow_disk() -> World {
    let mut w = with_pi();
    w.quick_disk = false;
    w
}

pub fn with_pi_and(config: MachineConfig) -> World {
    let mut w = World::with(config);
    w.quick_disk = true;
    let caller = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    join(&mut w, caller, HostKind::Pi);
    w.caller = caller;
    state(&mut w, Activity::Busy);
    w
}

pub fn join(w: &mut World, caller: Caller, kind: HostKind) -> CallId {
    let call = CallId::fresh();
    w.input(Input::HostJoined {
        call,
        host: caller.host,
        kind,
        generation: caller.generation,
        known: Vec::new(),
        undecided: Vec::new(),
        durable: true,
        journal: Vec::new(),
    });
    call
}

pub fn state(w: &mut World, activity: Activity) {
    let Caller { host, generation } = w.caller;
    w.input(Input::HostState {
        host,
        generation,
        activity,
    });
}

pub fn leave(w: &mut World, reason: LeaveReason) {
    let Caller { host, generation } = w.caller;
    w.input(Input::HostLeft {
        host,
        generation,
        reason,
    });
}

/// The disk is done with everything it was given.
pub fn sync(w: &mut World) {
    let last = w.effects.iter().rev().find_map(|e| match e {
        Effect::Journal { host, seq, .. } => Some((*host, *seq)),
        _ => None,
    });
    if let Some((host, seq)) = last {
        w.input(Input::Journaled { host, seq });
    }
}

/// Completions offered so far, with how.
pub fn offered(w: &World) -> Vec<(OfferMode, Completion)> {
    w.effects
        .iter()
        .filter_map(|e| match e {
            Effect::Offer {
                mode, deliveries, ..
            } => Some((*mode, deliveries.clone())),
            _ => None,
        })
        .flat_map(|(mode, deliveries)| deliveries.into_iter().map(move |d| (mode, d)))
        .filter_map(|(mode, d)| match d {
            Delivery::FinalReply(completion) => Some((mode, completion)),
            Delivery::Question(_) => None,
        })
        .collect()
}

pub fn completions(w: &World) -> Vec<Completion> {
    offered(w).into_iter().map(|(_, c)| c).collect()
}

/// An agent whose first run, started by the parent, is over and told.
pub fn told(w: &mut World) -> Played {
    let a = w.idle();
    sync(w);
    assert_eq!(completions(w).len(), 1);
    w.effects.retain(|e| !matches!(e, Effect::Offer { .. }));
    a
}

pub fn run(w: &mut World, a: &Played) {
    w.fact(a, Fact::RunStarted);
    w.settle(a, StopReason::Stop);
    sync(w);
}
