//! Messages to agents in every state, and limits.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{Sender, SpawnMode};
use pi_agents::fleet::ids::{AgentId, CallId};
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{ChildCommand, Effect, Input, MachineConfig, Timer};
use pi_agents::fleet::roster::MessageState;
use pi_agents::pi::message::StopReason;

use super::super::parent::*;
use super::super::world::{Played, World};
use super::play::{Rng, seeds};

fn texts(w: &World, p: &Played) -> Vec<String> {
    w.prompts(p).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn s50_messages_during_a_run_keep_their_order_and_disturb_nothing() {
    // R-PI-07, R-DELIV-11: however answers and news of the run mix
    seeds(100, |seed| {
        let mut rng = Rng(seed);
        let mut w = with_pi();
        let a = w.running();
        let n = 2 + rng.below(6);
        let mut sent = Vec::new();
        let mut calls = Vec::new();
        while sent.len() < n || texts(&w, &a).len() < n + 1 {
            if sent.len() < n && rng.chance(50) {
                let text = format!("message {}", sent.len());
                let by = match rng.below(2) {
                    0 => Sender::User,
                    _ => Sender::Parent(w.caller),
                };
                calls.push(w.send_by(by, a.agent, &text).0);
                sent.push(text);
            } else if texts(&w, &a).len() > 1 {
                w.accept_next(&a, Disposition::Queued);
            }
        }
        w.accept_next(&a, Disposition::Queued);
        assert_eq!(texts(&w, &a)[1..], sent, "in order, each once");
        for call in &calls {
            let answer = w.answer(*call);
            assert!(matches!(
                answer,
                Ok(Reply::Sent {
                    steered: true,
                    revived: false,
                    ..
                })
            ));
        }
        let pending: Vec<_> = w
            .view(a.agent)
            .pending
            .iter()
            .map(|m| m.text.clone())
            .collect();
        assert_eq!(pending, sent, "accepted, not yet seen");
        for text in &sent {
            w.fact(&a, Fact::UserMessage { text: text.clone() });
        }
        assert!(w.view(a.agent).pending.is_empty());
        let only_prompts = w
            .commands(&a)
            .iter()
            .all(|c| matches!(c, ChildCommand::Prompt { .. } | ChildCommand::GetState));
        assert!(only_prompts, "nothing that would end a tool or a run");
        assert_eq!(w.run_ends(a.agent), 0);
    });
}

#[test]
fn s51_a_message_before_the_session_is_ready_is_held_and_sent_once_in_order() {
    // R-DELIV-11, R-LIFE-11: queued, launching, before the first answer
    for at in ["queued", "launching", "handshake"] {
        let mut w = with_pi_and(MachineConfig {
            launch_slots: 1,
            ..MachineConfig::default()
        });
        let other = (at == "queued").then(|| w.spawn("another"));
        let a = w.spawn("task");
        let instance = a.instance;
        if at == "handshake" {
            w.input(Input::Launched { instance, pid: 1 });
        }
        let calls: Vec<_> = ["one", "two"]
            .map(|text| w.send_by(Sender::Parent(w.caller), a.agent, text).0)
            .to_vec();
        assert!(texts(&w, &a).is_empty());
        let states: Vec<_> = w.view(a.agent).pending.iter().map(|m| m.state).collect();
        assert_eq!(states, [MessageState::Queued; 2]);
        if let Some(other) = other {
            w.stop(other.agent);
            w.input(Input::Launched {
                instance: other.instance,
                pid: 2,
            });
            w.exit(&other, Some(0), None);
            w.swept(&other);
        }
        w.ready(&a);
        assert_eq!(texts(&w, &a), ["task"]);
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        w.accept_next(&a, Disposition::Queued);
        w.accept_next(&a, Disposition::Queued);
        assert_eq!(texts(&w, &a), ["task", "one", "two"], "{at}");
        for call in calls {
            assert!(
                matches!(w.answer(call), Ok(Reply::Sent { revived: false, .. })),
                "{at}"
            );
        }
        assert_eq!(w.launches(a.agent).len(), 1);
    }
}

#[test]
fn s51_a_message_that_cannot_be_sent_has_no_effect_but_its_answer() {
    // R-TOOL-02, R-TOOL-07: nobody, nothing to say, no session
    let mut w = with_pi();
    let a = w.idle();
    for (agent, text, code) in [
        (AgentId::fresh(), "hello", ErrorCode::NotFound),
        (a.agent, " \n", ErrorCode::Invalid),
        (a.agent, "nul \0", ErrorCode::Invalid),
    ] {
        let before = w.effects.len();
        let (call, _) = w.send_by(Sender::Parent(w.caller), agent, text);
        assert_eq!(w.effects.len(), before + 1);
        assert_eq!(w.answer(call).unwrap_err().code, code);
    }
}

#[test]
fn s52_a_limit_binds_each_run_and_a_message_brings_the_agent_back_with_a_new_one() {
    // R-LIFE-13: the first run, a later one, one that began by itself
    let mut w = with_pi();
    let a = w.spawn_with("task", true, Some(9));
    let limits = |w: &World, p: &Played| -> Vec<u64> {
        w.effects
            .iter()
            .filter_map(|e| match e {
                Effect::Arm {
                    timer: Timer::Run(i, seq),
                    ..
                } if *i == p.instance => Some(*seq),
                _ => None,
            })
            .collect()
    };
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    for run in 1..=3 {
        w.fact(&a, Fact::RunStarted);
        assert_eq!(limits(&w, &a).last(), Some(&run));
        // The limit of an earlier run is over with it.
        if run > 1 {
            w.timer(Timer::Run(a.instance, run - 1));
            assert_eq!(w.status(a.agent), Status::Running);
        }
        if run < 3 {
            w.settle(&a, StopReason::Stop);
        }
    }
    w.timer(Timer::Run(a.instance, 3));
    w.exit(&a, Some(0), None);
    w.swept(&a);
    sync(&mut w);
    let by = StopCause::Timeout;
    assert_eq!(w.status(a.agent), Status::Stopped { by });
    let told = completions(&w);
    let runs: Vec<u64> = told.iter().map(|c| c.id.run).collect();
    assert_eq!(runs, [1, 2, 3], "R-LIFE-14: each with an id of its own");
    assert!(told[2].result.starts_with("stopped by the time limit"));
    let (_, instance) = w.send_by(Sender::Parent(w.caller), a.agent, "go on");
    let b = a.in_process(instance);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    w.fact(&b, Fact::RunStarted);
    assert_eq!(limits(&w, &b), [1]);
}

#[test]
fn s53_a_limit_that_passes_at_any_moment_ends_its_run_alone() {
    // R-LIFE-13, R-TOOL-18: with the settlement, during an abort, with a prompt on its way
    for moment in ["running", "settled", "aborting", "prompting", "stopping"] {
        let mut w = with_pi();
        let sibling = w.running();
        let a = w.spawn_mode("task", true, Some(9), SpawnMode::Foreground);
        w.ready(&a);
        w.accept_next(&a, Disposition::Started);
        w.fact(&a, Fact::RunStarted);
        let mut waits = None;
        match moment {
            "settled" => w.settle(&a, StopReason::Stop),
            "aborting" => {
                let call = CallId::fresh();
                w.input(Input::Abort {
                    call,
                    agent: a.agent,
                });
                waits = Some(call);
            }
            "prompting" => waits = Some(w.send_by(Sender::Parent(w.caller), a.agent, "more").0),
            "stopping" => waits = Some(w.stop(a.agent)),
            _ => {}
        }
        w.timer(Timer::Run(a.instance, 1));
        if moment != "settled" {
            w.exit(&a, Some(0), None);
            w.swept(&a);
        }
        let want = match moment {
            "settled" => Status::Idle,
            "stopping" => Status::Stopped { by: StopCause::You },
            _ => Status::Stopped {
                by: StopCause::Timeout,
            },
        };
        assert_eq!(w.status(a.agent), want, "{moment}");
        assert!(
            matches!(w.answer(a.call), Ok(Reply::Finished { .. })),
            "{moment}"
        );
        if let Some(call) = waits {
            assert_eq!(w.answers(call).len(), 1, "{moment}");
        }
        assert_eq!(w.run_ends(a.agent), 1);
        assert_eq!(w.status(sibling.agent), Status::Running);
        w.settle(&sibling, StopReason::Stop);
        sync(&mut w);
        assert_eq!(completions(&w).len(), 1, "the sibling's");
    }
}

#[test]
fn messages_that_share_a_revival_are_delivered_once_in_order_and_a_failure_starts_no_loop() {
    // R-LIFE-11, R-LIFE-12
    for fails in [false, true] {
        let mut w = with_pi();
        let a = w.idle();
        w.stop(a.agent);
        // While the old process is still going, after it is gone, while the new one starts.
        let (one, first) = w.send_by(Sender::Parent(w.caller), a.agent, "one");
        w.exit(&a, Some(0), None);
        let (two, _) = w.send_by(Sender::User, a.agent, "two");
        assert!(w.launches(a.agent).len() == 1, "not before it is gone");
        w.swept(&a);
        let (three, _) = w.send_by(Sender::Continue, a.agent, "three");
        assert_eq!(w.launches(a.agent)[1..], [first]);
        let b = a.in_process(first);
        if fails {
            w.input(Input::LaunchFailed {
                instance: first,
                reason: "no such program".into(),
                hint: None,
            });
            for call in [one, two, three] {
                assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::StartFailed);
            }
            assert_eq!(w.launches(a.agent).len(), 2);
            assert!(matches!(w.status(a.agent), Status::Failed { .. }));
            sync(&mut w);
            assert_eq!(
                completions(&w).len(),
                1,
                "the run of before; no start is a result"
            );
        } else {
            w.ready(&b);
            for disposition in [
                Disposition::Started,
                Disposition::Queued,
                Disposition::Queued,
            ] {
                w.accept_next(&b, disposition);
                w.fact(&b, Fact::RunStarted);
            }
            assert_eq!(texts(&w, &b), ["one", "two", "three"]);
            for call in [one, two, three] {
                assert!(matches!(w.answer(call), Ok(Reply::Sent { .. })));
            }
        }
    }
}

#[test]
fn a_message_that_an_unheard_process_may_have_consumed_is_given_back_and_not_sent_again() {
    // R-DELIV-11: its output ended while it was being ended
    for heard in [true, false] {
        let mut w = with_pi();
        let a = w.running();
        w.send_by(Sender::Parent(w.caller), a.agent, "more");
        w.accept_next(&a, Disposition::Queued);
        w.fact(
            &a,
            Fact::QueueChanged {
                steering: vec!["more".into()],
                follow_up: Vec::new(),
            },
        );
        w.settle(&a, StopReason::Error);
        if !heard {
            w.input(Input::OutputEnded {
                instance: a.instance,
            });
        }
        w.exit(&a, Some(0), None);
        w.swept(&a);
        let told = |e: &Effect| matches!(e, Effect::Notice { text, .. } if text.contains("more"));
        assert_eq!(w.count(told), usize::from(!heard));
        assert_eq!(w.launches(a.agent).len(), if heard { 2 } else { 1 });
    }
}

#[test]
fn a_message_that_was_accepted_once_is_not_lost_when_the_replacement_refuses_it() {
    // R-DELIV-11: its call was answered long ago, so the agent's account says it
    let mut w = with_pi();
    let a = w.running();
    let (call, instance) = w.send_by(Sender::Parent(w.caller), a.agent, "more");
    w.accept_next(&a, Disposition::Queued);
    w.fact(
        &a,
        Fact::QueueChanged {
            steering: vec!["more".into()],
            follow_up: Vec::new(),
        },
    );
    w.settle(&a, StopReason::Error);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let b = a.in_process(instance);
    w.ready(&b);
    let (id, text) = w.prompts(&b).pop().unwrap();
    assert_eq!(text, "more");
    w.respond(&b, &id, Err("no API key".into()));
    assert_eq!(w.answers(call).len(), 1);
    let told = |e: &Effect| matches!(e, Effect::Notice { text, .. } if text.contains("more"));
    assert_eq!(w.count(told), 1);
}
