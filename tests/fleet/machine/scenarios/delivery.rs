//! Results on their way to a parent.

use std::collections::BTreeSet;

use pi_agents::fleet::answer::Reply;
use pi_agents::fleet::completion::{CompletionStatus, DeliveryId};
use pi_agents::fleet::host::{Caller, HostKind, LeaveReason, Sender, SpawnMode};
use pi_agents::fleet::ids::HostId;
use pi_agents::fleet::interpret::{Disposition, Fact, RunEnd};
use pi_agents::fleet::machine::{Effect, Input, MachineConfig, OfferAnswer, Timer};
use pi_agents::fleet::outbox::{Activity, OfferMode};
use pi_agents::fleet::roster::{Subtree, UsageTotals};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::message::StopReason;
use pi_agents::tools::progress::{Moment, Progress};

use super::super::parent::*;
use super::super::world::{Played, World};
use super::play::{Play, Rng, seeds};

fn many_slots() -> World {
    with_pi_and(MachineConfig {
        launch_slots: 1000,
        ..MachineConfig::default()
    })
}

fn offers(w: &World) -> Vec<(u64, OfferMode, Vec<DeliveryId>)> {
    w.effects
        .iter()
        .filter_map(|e| match e {
            Effect::Offer {
                epoch,
                mode,
                deliveries,
                ..
            } => Some((*epoch, *mode, deliveries.iter().map(|d| d.id()).collect())),
            _ => None,
        })
        .collect()
}

fn answer_offer(w: &mut World, epoch: u64, answer: OfferAnswer) {
    let Caller { host, generation } = w.caller;
    w.input(Input::Offered {
        host,
        generation,
        epoch,
        answer,
    });
}

#[test]
fn s22_progress_that_is_lost_repeated_or_late_changes_no_result() {
    // R-TOOL-11, R-TOOL-19, R-LIFE-05, R-DELIV-01
    let progress = [
        Fact::UserMessage {
            text: "task".into(),
        },
        Fact::QueueChanged {
            steering: vec!["x".into()],
            follow_up: Vec::new(),
        },
        Fact::RetryOver,
        Fact::ExtensionFailed { error: "e".into() },
        Fact::RunStarted,
        Fact::StraySettled,
        Fact::CompactionStarted,
        Fact::CompactionEnded,
    ];
    let end = RunEnd {
        stop: StopReason::Stop,
        text: "the answer".into(),
        usage: UsageTotals::default(),
        tool_uses: 3,
        ..RunEnd::default()
    };
    seeds(300, |seed| {
        let mut rng = Rng(seed);
        let mode = if rng.chance(50) {
            SpawnMode::Foreground
        } else {
            SpawnMode::Background
        };
        let mut w = with_pi();
        let a = w.spawn_mode("task", true, None, mode.clone());
        let waits = (mode == SpawnMode::Foreground).then_some(a.call);
        // Updates are looked at, and shown or dropped: as often as somebody likes.
        let looks = |w: &World, rng: &mut Rng, status: &str| {
            for _ in 0..rng.below(4) {
                assert_eq!(w.machine.waiting_call(a.agent), waits);
                let told = Progress::of(&Moment {
                    call: "c1",
                    agent: &w.view(a.agent),
                    below: Subtree::default(),
                    reply: "so far",
                });
                assert_eq!((told.status, told.call.as_str()), (status, "c1"));
            }
        };
        w.ready(&a);
        looks(&w, &mut rng, "starting");
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        for _ in 0..rng.below(20) {
            w.fact(&a, progress[rng.below(progress.len())].clone());
            looks(&w, &mut rng, "running");
        }
        w.fact(&a, Fact::RunEnded(end.clone()));
        // From here on there is no call to tell of.
        assert_eq!(w.machine.waiting_call(a.agent), None);
        sync(&mut w);
        let settled = w.view(a.agent);
        // What comes now belongs to nothing.
        for _ in 0..rng.below(10) {
            match rng.below(4) {
                0 => drop(w.fact(&a, Fact::RunEnded(RunEnd::default()))),
                1 => drop(w.fact(&a, Fact::RetryOver)),
                2 => drop(w.fact(&a, Fact::Unfinished(RunEnd::default()))),
                _ => drop(w.timer(Timer::Run(a.instance, 1))),
            }
        }
        assert_eq!(w.view(a.agent), settled);
        assert_eq!(w.machine.waiting_call(a.agent), None);
        assert_eq!(w.run_ends(a.agent), 1);
        let completed = Outcome::Completed { cut: false };
        assert_eq!(w.machine.last_outcome(a.agent), Some(completed.clone()));
        match mode {
            SpawnMode::Foreground => {
                let Ok(Reply::Finished {
                    outcome, result, ..
                }) = w.answer(a.call)
                else {
                    panic!("finished");
                };
                assert_eq!((outcome, result.as_str()), (completed, "the answer"));
                assert!(completions(&w).is_empty());
            }
            SpawnMode::Background => {
                let told = completions(&w);
                assert_eq!(told.len(), 1);
                assert_eq!(told[0].result, "the answer");
                assert_eq!(told[0].status, CompletionStatus::Completed);
            }
        }
    });
}

#[test]
fn s24_pulled_or_pushed_once_in_every_order() {
    // R-ORCH-04, R-DELIV-01, R-DELIV-09: calls that wait, cancels, settlements, timers, reconnections
    seeds(400, |seed| {
        let mut play = Play::new(seed);
        let mut calls = Vec::new();
        for _ in 0..1 + play.rng.below(5) {
            let mode = if play.rng.chance(60) {
                SpawnMode::Foreground
            } else {
                SpawnMode::Background
            };
            calls.push(play.spawn(play.pi, mode).0);
        }
        for _ in 0..150 {
            match play.rng.below(12) {
                0 if play.rng.chance(30) => {
                    let call = play.rng.pick(&calls).expect("one at least");
                    play.input(Input::Cancel { call });
                }
                1 => play.sync(),
                2 => {
                    let activity = play.rng.pick(&[Activity::Busy, Activity::Idle]);
                    if play.watch.generation.is_some() {
                        play.report(activity.expect("one of two"));
                    }
                }
                3 => play.answer_offer(false),
                4 => {
                    let wake = |t: &Timer| matches!(t, Timer::Wake(_));
                    if let Some(at) = play.watch.armed.iter().position(wake) {
                        play.fire(at);
                    }
                }
                5 if play.rng.chance(10) => match play.watch.generation {
                    Some(_) => play.leave(),
                    None => play.join(),
                },
                _ => {
                    let at = play.rng.below(play.watch.procs.len());
                    play.child(at, true);
                }
            }
        }
        play.comes_to_rest();
    });
}

#[test]
fn s34_a_pending_wake_of_a_session_that_is_replaced_reaches_nobody_else() {
    // R-DELIV-05, R-PI-03
    let mut w = with_pi();
    state(&mut w, Activity::Idle);
    let a = w.idle();
    sync(&mut w);
    let mine = w.caller;
    let wake = Timer::Wake(mine.host);
    assert_eq!(
        w.count(|e| matches!(e, Effect::Arm { timer, .. } if *timer == wake)),
        1
    );
    leave(&mut w, LeaveReason::New);
    assert_eq!(w.count(|e| *e == Effect::Disarm(wake)), 1);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    // Another session comes instead, and the old timer fires all the same.
    w.caller = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    let other = w.caller;
    join(&mut w, other, HostKind::Pi);
    state(&mut w, Activity::Idle);
    w.timer(wake);
    w.timer(Timer::Wake(other.host));
    assert!(offers(&w).is_empty());
    // The same session is back.
    w.caller = Caller {
        generation: 2,
        ..mine
    };
    let back = w.caller;
    join(&mut w, back, HostKind::Pi);
    state(&mut w, Activity::Idle);
    w.timer(wake);
    let told = offers(&w);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1, OfferMode::Wake);
}

#[test]
fn s41_a_delivery_that_fails_twice_is_tried_again_and_dropped_never() {
    // R-DELIV-05: refused or lost, in every mixture
    for failures in [
        ["refused", "lost"],
        ["lost", "refused"],
        ["refused"; 2],
        ["lost"; 2],
    ] {
        let mut w = with_pi();
        w.idle();
        sync(&mut w);
        for failure in failures {
            let (epoch, _, ids) = offers(&w).pop().expect("an offer");
            assert_eq!(ids.len(), 1);
            let before = offers(&w).len();
            if failure == "refused" {
                answer_offer(&mut w, epoch, OfferAnswer::Refused);
                assert_eq!(offers(&w).len(), before, "not before it says what it does");
                state(&mut w, Activity::Busy);
            } else {
                answer_offer(&mut w, epoch, OfferAnswer::Taken);
                answer_offer(
                    &mut w,
                    epoch,
                    OfferAnswer::Checked {
                        missing: Vec::new(),
                        found: Vec::new(),
                        durable: true,
                    },
                );
            }
            assert_eq!(offers(&w).len(), before + 1, "{failure}");
        }
        let (epoch, _, found) = offers(&w).pop().expect("an offer");
        answer_offer(&mut w, epoch, OfferAnswer::Taken);
        answer_offer(
            &mut w,
            epoch,
            OfferAnswer::Checked {
                missing: Vec::new(),
                found,
                durable: true,
            },
        );
        state(&mut w, Activity::Idle);
        state(&mut w, Activity::Busy);
        assert_eq!(offers(&w).len(), 3);
    }
}

#[test]
fn s42_what_is_ready_together_is_one_offer_and_at_most_one_wake() {
    // R-DELIV-02, R-DELIV-03: n results in any order of settling
    seeds(60, |seed| {
        let mut rng = Rng(seed);
        let n = 1 + rng.below(8);
        for activity in [Activity::Busy, Activity::Idle] {
            let mut w = many_slots();
            w.quick_disk = false;
            state(&mut w, activity);
            let mut agents: Vec<Played> = (0..n).map(|_| w.running()).collect();
            while !agents.is_empty() {
                let a = agents.remove(rng.below(agents.len()));
                w.settle(&a, StopReason::Stop);
            }
            sync(&mut w);
            let host = w.caller.host;
            if activity == Activity::Idle {
                assert!(offers(&w).is_empty(), "collected first");
                w.timer(Timer::Wake(host));
            }
            let told = offers(&w);
            assert_eq!(told.len(), 1, "{n} results, {activity:?}");
            let ids: BTreeSet<_> = told[0].2.iter().collect();
            assert_eq!(ids.len(), n);
            let want = match activity {
                Activity::Busy => OfferMode::Boundary,
                _ => OfferMode::Wake,
            };
            assert_eq!(told[0].1, want);
        }
    });
}

#[test]
fn s63_a_result_that_was_not_delivered_is_kept_however_long_and_the_agent_resolves() {
    // R-DELIV-05, R-LIFE-17: more results than ids of the past are remembered
    let mut w = with_pi();
    let a = w.running();
    for _ in 0..5_000 {
        w.settle(&a, StopReason::Stop);
        w.fact(&a, Fact::RunStarted);
        w.effects.retain(|e| matches!(e, Effect::Journal { .. }));
        sync(&mut w);
        w.effects
            .retain(|e| matches!(e, Effect::Offer { .. } | Effect::Journal { .. }));
        let journal = w
            .effects
            .iter()
            .rposition(|e| matches!(e, Effect::Journal { .. }));
        let offer = w
            .effects
            .iter()
            .rposition(|e| matches!(e, Effect::Offer { .. }));
        let keep: Vec<Effect> = [journal, offer]
            .into_iter()
            .flatten()
            .map(|at| w.effects[at].clone())
            .collect();
        w.effects = keep;
    }
    leave(&mut w, LeaveReason::Quit);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    w.caller.generation = 2;
    let caller = w.caller;
    join(&mut w, caller, HostKind::Pi);
    state(&mut w, Activity::Busy);
    sync(&mut w);
    w.effects
        .retain(|e| matches!(e, Effect::Offer { generation: 2, .. }));
    let told = completions(&w);
    let ids: BTreeSet<_> = told.iter().map(|c| c.id).collect();
    assert_eq!(
        ids.len(),
        5_001,
        "each of them, and what the end of the session cut short"
    );
    assert_eq!(told.len(), 5_001);
    // Long over, it is still known by its name and its session, and comes back.
    assert_eq!(
        w.machine.resolve_name(Some(caller.host), "@max"),
        Ok(a.agent)
    );
    assert!(w.view(a.agent).session_path.is_some());
    let (_, instance) = w.send_by(Sender::Parent(caller), a.agent, "and then?");
    assert_eq!(w.launches(a.agent), [instance]);
}

#[test]
fn a_limit_and_a_failure_are_told() {
    // R-DELIV-06, R-LIFE-13, R-DELIV-15
    for (end, status, words) in [
        (
            "limit",
            CompletionStatus::Stopped,
            "stopped by the time limit",
        ),
        ("error", CompletionStatus::Failed, "failed: "),
        ("crash", CompletionStatus::Failed, "failed: exit code 3"),
    ] {
        let mut w = with_pi();
        let a = w.spawn_with("task", true, Some(9));
        w.ready(&a);
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        match end {
            "limit" => drop(w.timer(Timer::Run(a.instance, 1))),
            "error" => w.settle(&a, StopReason::Error),
            _ => {}
        }
        w.exit(&a, Some(3), None);
        w.swept(&a);
        sync(&mut w);
        let told = completions(&w);
        assert_eq!(told.len(), 1, "{end}");
        assert_eq!(told[0].status, status);
        assert!(told[0].result.starts_with(words), "{}", told[0].result);
        assert!(!told[0].idle, "{end}");
    }
}
