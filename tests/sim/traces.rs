//! Worlds that once failed, played again step by step, and checks of the simulation itself.

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::answer::Reply;
use pi_agents::fleet::machine::{ChildCommand, Effect, LadderSignal, Timer};
use pi_agents::fleet::transcript::Outcome;

use super::play;
use super::shrink::Trace;
use super::step::{Kind, Step};
use super::world::{World, agent_id, call_id, instance_id, message_id};

/// Small failing worlds as the report prints them, with the promise they broke.
const TRACES: &[(&str, &str)] = &[
    (
        "R-LIFE-02: a stop is overwritten by a start that takes too long",
        "world 2
        spawn 3 9 0  # host 0 wants agent 3 (sort 9)
        stop 17 3 0  # somebody stops agent 3 (call 17)
        timer 0 0 0  # the next timer is over",
    ),
    (
        "R-LIFE-11: a message is launched for again and again",
        "world 1
        spawn 4 13 0  # host 0 wants agent 4 (sort 13)
        self-start 4 0 0  # process 4 starts a run by itself
        go 4 2 0  # process 4 goes on with its run (sort 2)
        go 4 0 0  # process 4 goes on with its run (sort 0)",
    ),
    (
        "R-DELIV-11: a task that was worked on is called not started",
        "world 0
        spawn 3 264 0  # host 0 wants agent 3 (sort 264)
        launched 3 0 0
        read 3 0 0
        hear 3 0 0
        read 3 0 0
        answer 3 5 0  # process 3 answers the prompt it holds (sort 5)
        hear 3 0 0
        hear 3 0 0
        die 3 0 0  # process 3 dies (sort 0)
        exit 3 0 0  # the system reports that process 3 is dead; 0 things it said are lost",
    ),
    (
        "R-DELIV-05: what is owed is forgotten when the core dies",
        "world 0
        join 2 1 0  # host 1 joins (call 2)
        spawn 13 14 1  # host 1 wants agent 13 (sort 14)
        die 13 143 0  # process 13 dies (sort 143)
        exit 13 0 0
        swept 13 0 0
        send 20 13 0  # somebody sends message 20 to agent 13 (sort 0)
        self-start 20 0 0
        go 20 0 0
        go 20 0 0
        go 20 0 0
        launched 20 0 0
        hear 20 0 0
        synced 0 1 0
        hear 20 0 0
        synced 0 1 0
        core-dies 0 0 0  # the core is killed and a new one takes in the records",
    ),
    (
        "R-DELIV-11: a message is sent again that a process without output may have consumed",
        "world 2
        spawn 6 1 0  # host 0 wants agent 6 (sort 1)
        core-dies 1 0 0  # the core is killed and a new one takes in the records
        send 10 6 0  # somebody sends message 10 to agent 6 (sort 0)
        launched 10 0 0  # the system reports that process 10 was started
        read 10 0 0  # process 10 reads its next command (sort 0)
        send 12 6 0  # somebody sends message 12 to agent 6 (sort 0)
        hear 10 0 0  # the core hears the next thing process 10 said
        send 13 6 0  # somebody sends message 13 to agent 6 (sort 0)
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 0 0  # process 10 answers the prompt it holds (sort 0)
        hear 10 0 0  # the core hears the next thing process 10 said
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 2 0  # process 10 answers the prompt it holds (sort 2)
        hear 10 0 0  # the core hears the next thing process 10 said
        hear 10 0 0  # the core hears the next thing process 10 said
        read 10 0 0  # process 10 reads its next command (sort 0)
        answer 10 0 0  # process 10 answers the prompt it holds (sort 0)
        go 10 7 0  # process 10 goes on with its run (sort 7)
        go 10 1 0  # process 10 goes on with its run (sort 1)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 4 0  # process 10 goes on with its run (sort 4)
        go 10 0 0  # process 10 goes on with its run (sort 0)
        self-start 10 0 0  # process 10 starts a run by itself
        mute 10 0 0  # process 10 closes its output and lives on
        go 10 0 0  # process 10 goes on with its run (sort 0)
        go 10 0 0  # process 10 goes on with its run (sort 0)",
    ),
    (
        "R-DELIV-11: a message is lost that was accepted once and refused by the next process",
        "world 0
        spawn 2 1 0  # host 0 wants agent 2 (sort 1)
        die 2 143 0  # process 2 dies (sort 143)
        exit 2 0 0  # the system reports that process 2 is dead; 0 things it said are lost
        swept 2 2 1  # what process 2 left is gone: 2 killed, 1 not
        send 14 2 20  # somebody sends message 14 to agent 2 (sort 20)
        launched 14 0 0  # the system reports that process 14 was started
        read 14 0 0  # process 14 reads its next command (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 3 0  # process 14 reads its next command (sort 3)
        answer 14 4 0  # process 14 answers the prompt it holds (sort 4)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        go 14 0 0  # process 14 goes on with its run (sort 0)
        send 18 2 0  # somebody sends message 18 to agent 2 (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        read 14 0 0  # process 14 reads its next command (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        answer 14 0 0  # process 14 answers the prompt it holds (sort 0)
        go 14 2 0  # process 14 goes on with its run (sort 2)
        hear 14 0 0  # the core hears the next thing process 14 said
        hear 14 0 0  # the core hears the next thing process 14 said
        go 14 0 0  # process 14 goes on with its run (sort 0)
        hear 14 0 0  # the core hears the next thing process 14 said
        die 14 9 0  # process 14 dies (sort 9)
        exit 14 0 0  # the system reports that process 14 is dead; 0 things it said are lost
        swept 14 0 0  # what process 14 left is gone: 0 killed, 0 not
        launched 18 0 0  # the system reports that process 18 was started
        read 18 4 0  # process 18 reads its next command (sort 4)
        hear 18 0 0  # the core hears the next thing process 18 said
        read 18 0 0  # process 18 reads its next command (sort 0)
        hear 18 0 0  # the core hears the next thing process 18 said
        answer 18 3 0  # process 18 answers the prompt it holds (sort 3)
        hear 18 0 0  # the core hears the next thing process 18 said
        send 37 2 10  # somebody sends message 37 to agent 2 (sort 10)",
    ),
];

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
