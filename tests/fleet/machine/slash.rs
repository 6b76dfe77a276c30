//! Slash commands of a person: looked up before they are written (R-DELIV-14).

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::answer::ErrorCode;
use pi_agents::fleet::host::Sender;
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{ChildCommand, Effect, Input, Timer};

use super::world::World;

// R-DELIV-14
#[test]
fn a_command_the_child_does_not_have_is_refused_before_it_is_written() {
    for by in [Sender::User, Sender::Continue] {
        let mut w = World::new();
        let a = w.idle();
        let (call, _) = w.send_by(by, a.agent, "/deploy now");
        w.send_by(by, a.agent, "and this");
        assert_eq!(w.prompts(&a).len(), 1, "not written yet");
        w.has_commands(&a, &["review"]);
        let refused = w.answer(call).unwrap_err();
        assert!(refused.message.contains("/deploy"), "{refused:?}");
        assert!(refused.hint.unwrap().contains("/review"));
        assert_eq!(w.prompts(&a)[1].1, "and this", "the lane goes on");
    }
}

// R-DELIV-14, R-PI-07
#[test]
fn a_command_that_is_being_looked_up_is_given_back_by_an_abort_and_by_a_stop() {
    let mut w = World::new();
    let a = w.running();
    let (call, _) = w.send(a.agent, "/deploy");
    let abort = CallId::fresh();
    w.input(Input::Abort {
        call: abort,
        agent: a.agent,
    });
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Gone);
    assert!(!w.commands(&a).contains(&ChildCommand::ClearQueue));
    w.has_commands(&a, &["deploy"]);
    assert!(
        w.commands(&a).contains(&ChildCommand::ClearQueue),
        "it goes on"
    );
    assert_eq!(w.prompts(&a).len(), 1);

    let mut w = World::new();
    let a = w.idle();
    let (call, _) = w.send(a.agent, "/deploy");
    w.stop(a.agent);
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Gone);
    w.has_commands(&a, &["deploy"]);
    assert_eq!(w.prompts(&a).len(), 1);
}

// R-DELIV-14
#[test]
fn a_command_waits_for_a_compaction_that_began_while_it_was_looked_up() {
    let mut w = World::new();
    let a = w.idle();
    w.send(a.agent, "/deploy");
    w.fact(&a, Fact::CompactionStarted);
    w.has_commands(&a, &["deploy"]);
    assert_eq!(w.prompts(&a).len(), 1);
    w.fact(&a, Fact::CompactionEnded);
    w.has_commands(&a, &["deploy"]);
    assert_eq!(w.prompts(&a).len(), 2);
}

// R-DELIV-14, R-PI-07
#[test]
fn a_child_that_does_not_say_which_commands_it_has() {
    // One that cannot is given the text as it is, one that says nothing holds up nobody.
    let mut w = World::new();
    let a = w.idle();
    w.send(a.agent, "/deploy");
    w.respond(&a, "commands", Err("Unknown command".into()));
    assert_eq!(w.prompts(&a)[1].1, "/deploy");

    let mut w = World::new();
    let a = w.idle();
    let (call, _) = w.send(a.agent, "/deploy");
    w.send(a.agent, "and this");
    let message = w
        .effects
        .iter()
        .rev()
        .find_map(|e| match e {
            Effect::Arm {
                timer: timer @ Timer::Prompt(..),
                ..
            } => Some(*timer),
            _ => None,
        })
        .unwrap();
    w.input(Input::Timer(message));
    assert!(w.answer(call).is_err());
    assert_eq!(w.prompts(&a)[1].1, "and this");
    w.has_commands(&a, &["deploy"]);
    assert_eq!(w.prompts(&a).len(), 2, "too late");
}

// R-DELIV-14
#[test]
fn a_path_and_the_words_of_a_parent_are_no_command() {
    let mut w = World::new();
    let a = w.idle();
    for text in ["/etc/hosts is wrong", "/ is full", " /deploy", "do /deploy"] {
        w.send(a.agent, text);
        let (_, written) = w.prompts(&a).pop().unwrap();
        assert_eq!(written, text);
        w.accept_next(&a, Disposition::Handled);
    }
    w.send_by(Sender::Parent(w.caller), a.agent, "/deploy");
    assert_eq!(w.prompts(&a).pop().unwrap().1, "/deploy");
}

// R-LIFE-16, R-DELIV-14
#[test]
fn an_agent_that_was_started_for_a_command_rests_when_that_is_given_back() {
    for silent in [false, true] {
        let mut w = World::new();
        let a = w.idle();
        w.stop(a.agent);
        w.exit(&a, Some(0), None);
        w.swept(&a);
        let (call, instance) = w.send(a.agent, "/deploy");
        let a = a.in_process(instance);
        w.ready(&a);
        let message = w.deadline(&a);
        let abort = CallId::fresh();
        w.input(Input::Abort {
            call: abort,
            agent: a.agent,
        });
        assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Gone);
        if silent {
            w.timer(message);
        } else {
            w.has_commands(&a, &["deploy"]);
        }
        assert_eq!(w.status(a.agent), Status::Idle, "silent: {silent}");
    }
}
