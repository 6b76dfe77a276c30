//! Plays the worlds of `failed` again, step by step, and checks the simulation itself.

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::answer::Reply;
use pi_agents::fleet::machine::{ChildCommand, Effect, LadderSignal, Timer};
use pi_agents::fleet::transcript::Outcome;

use super::failed::TRACES;
use super::play;
use super::shrink::Trace;
use super::step::{Kind, Step};
use super::world::{World, agent_id, call_id, instance_id, message_id};

#[test]
fn worlds_that_once_failed_keep_every_promise() {
    for (what, text) in TRACES {
        let trace = Trace::read(text).unwrap();
        let (fault, story) = trace.play(true);
        assert_eq!(fault, None, "{what}\n{story}");
    }
}

#[test]
fn a_world_is_the_same_from_its_seed_and_from_its_text() {
    for seed in [3, 77, 1234] {
        let trace = Trace::of(seed, 120);
        assert_eq!(trace, Trace::of(seed, 120), "a seed is one world");
        let again = Trace::read(&trace.text()).unwrap();
        assert_eq!(again.play(true), trace.play(true));
    }
    assert!(Trace::read("world 1\nfly 1 2 3").is_err());
}

/// The promise that a machine breaks which wants this of a world with one idle agent.
fn fault_of(effect: Effect) -> String {
    let mut world = World::new(0);
    world.step(Step::new(Kind::Spawn, 1, 0, 0));
    let run: &[(Kind, u32)] = &[
        (Kind::LaunchOk, 0),
        (Kind::Read, 0),
        (Kind::Deliver, 0),
        (Kind::Read, 0),
        (Kind::Answer, 0),
        (Kind::Deliver, 0),
        (Kind::Go, 0),
        (Kind::Deliver, 0),
    ];
    for (kind, sort) in run {
        world.step(Step::new(*kind, 1, *sort, 0));
    }
    assert_eq!(world.fault, None);
    assert_eq!(world.view(1).unwrap().status, Status::Running);
    world.check(&effect);
    world.fault.unwrap_or_default()
}

#[test]
fn the_checks_notice_what_must_not_be() {
    let (agent, instance) = (agent_id(1), instance_id(1));
    let write = |id: u32, text: &str| Effect::Write {
        instance,
        id: message_id(id).to_string(),
        command: ChildCommand::Prompt { text: text.into() },
    };
    let cases: Vec<(Effect, &str)> = vec![
        (
            Effect::Answer {
                call: call_id(1),
                answer: Ok(Reply::Done),
            },
            "is answered 2 times",
        ),
        (
            Effect::Answer {
                call: call_id(5),
                answer: Ok(Reply::Done),
            },
            "which nobody made",
        ),
        (write(1, "do <1>"), "is written twice"),
        (write(7, "made up"), "a message nobody sent"),
        (Effect::CloseStdin { instance }, "ended without a reason"),
        (
            Effect::Signal {
                instance,
                signal: LadderSignal::Kill,
            },
            "before its turn",
        ),
        (
            Effect::RunEnded {
                agent,
                outcome: Outcome::Completed { cut: false },
                took_ms: 1,
                tokens: 0,
                tool_uses: 0,
            },
            "nothing ended it",
        ),
        (
            Effect::Arm {
                timer: Timer::Ladder(instance),
                after: std::time::Duration::ZERO,
            },
            "about nothing",
        ),
        (Effect::Save(agent_id(2)), "unknown agent"),
        (Effect::Exit, "ends unasked"),
    ];
    for (effect, words) in cases {
        let fault = fault_of(effect.clone());
        assert!(fault.contains(words), "{effect:?}: {fault}");
    }
}

// A failing world is made small without losing what is wrong with it.
#[test]
fn a_failing_world_is_made_small() {
    let mut world = World::new(1);
    for step in Trace::of(5, 60).steps() {
        world.step(*step);
    }
    play::finish(&mut world);
    assert_eq!(world.fault, None, "nothing is wrong with this one");
    // Wrong is here that the core was ever asked to stop an agent.
    let trace = Trace::of(5, 60);
    let small = trace.smaller_if(|steps| steps.iter().any(|s| s.kind == Kind::Spawn));
    assert_eq!(small.len(), 1);
    assert_eq!(small.steps()[0].kind, Kind::Spawn);
}
