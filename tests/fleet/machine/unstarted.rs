//! Agents that never came to be.

use pi_agents::fleet::answer::ErrorCode;
use pi_agents::fleet::interpret::Disposition;
use pi_agents::fleet::machine::{Effect, Input, MachineConfig};

use super::parent::*;
use super::world::{Played, World};

fn forgotten(w: &World, a: &Played) -> bool {
    let effect = |e: &Effect| matches!(e, Effect::Forget { agent, .. } if *agent == a.agent);
    w.count(effect) == 1 && !w.machine.knows(a.agent)
}

fn name(w: &World, a: &Played) -> String {
    w.view(a.agent).name
}

fn launch_fails(w: &mut World, a: &Played) {
    w.input(Input::LaunchFailed {
        instance: a.instance,
        reason: "rejected".into(),
        hint: None,
    });
}

#[test]
fn a_launch_that_fails_leaves_neither_an_agent_nor_a_name_that_is_taken() {
    // R-TOOL-07
    let mut w = with_pi();
    let a = w.spawn("task");
    let b = w.spawn("another");
    let first = name(&w, &a);
    launch_fails(&mut w, &a);
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
    assert!(forgotten(&w, &a));
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    assert!(w.answer(b.call).is_ok(), "the others are still found");
    let next = w.spawn("again");
    assert_eq!(name(&w, &next), first);
}

#[test]
fn a_start_that_fails_is_told_when_nothing_of_its_process_is_left() {
    // R-TOOL-07, R-LIFE-03, R-DELIV-09
    for end in ["handled", "dies", "is late"] {
        let mut w = with_pi();
        let a = w.spawn("task");
        let first = name(&w, &a);
        match end {
            "handled" => {
                w.ready(&a);
                w.accept_next(&a, Disposition::Handled);
            }
            "dies" => drop(w.input(Input::Launched {
                instance: a.instance,
                pid: 1,
            })),
            _ => {
                let timer = pi_agents::fleet::machine::Timer::Start(a.instance);
                w.input(Input::Timer(timer));
                w.input(Input::Launched {
                    instance: a.instance,
                    pid: 1,
                });
            }
        }
        w.exit(&a, Some(1), None);
        assert_eq!(w.answers(a.call).is_empty(), end != "dies", "{end}");
        w.swept(&a);
        let error = w.answer(a.call).unwrap_err();
        assert_eq!(error.code, ErrorCode::StartFailed, "{end}: {error:?}");
        assert!(forgotten(&w, &a), "{end}");
        let next = w.spawn("again");
        assert_eq!(name(&w, &next), first, "{end}");
    }
}

#[test]
fn a_late_start_that_then_cannot_be_made_is_told() {
    // R-TOOL-07
    let mut w = with_pi();
    let a = w.spawn("task");
    let timer = pi_agents::fleet::machine::Timer::Start(a.instance);
    w.input(Input::Timer(timer));
    launch_fails(&mut w, &a);
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::StartFailed);
    assert!(forgotten(&w, &a));
}

#[test]
fn a_call_whose_start_failed_can_still_be_taken_back() {
    // R-TOOL-10, R-TOOL-17
    let mut w = with_pi();
    let a = w.spawn("task");
    w.ready(&a);
    w.accept_next(&a, Disposition::Handled);
    w.input(Input::Cancel { call: a.call });
    assert_eq!(w.answer(a.call).unwrap_err().code, ErrorCode::Cancelled);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert_eq!(w.answers(a.call).len(), 1);
    assert!(forgotten(&w, &a));
}

#[test]
fn a_message_that_came_meanwhile_keeps_the_agent() {
    // R-LIFE-10
    let mut w = with_pi();
    let a = w.spawn("task");
    w.ready(&a);
    w.accept_next(&a, Disposition::Handled);
    w.send(a.agent, "try this");
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert!(w.answer(a.call).is_err());
    assert!(w.machine.knows(a.agent));
}

#[test]
fn a_person_keeps_the_row_of_a_start_that_failed() {
    // R-TUI-03
    let mut w = World::with(MachineConfig::default());
    let a = w.spawn("task");
    launch_fails(&mut w, &a);
    assert!(w.answer(a.call).is_err());
    assert!(w.machine.knows(a.agent));
}
