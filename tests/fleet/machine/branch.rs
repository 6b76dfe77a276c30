//! Which agents a session speaks of.

use pi_agents::fleet::answer::ErrorCode;
use pi_agents::fleet::host::LeaveReason;
use pi_agents::fleet::ids::AgentId;
use pi_agents::fleet::machine::{Effect, Input};
use pi_agents::pi::message::StopReason;

use super::parent::*;
use super::world::World;

fn branch(w: &mut World, agents: Option<Vec<AgentId>>, names: &[&str]) {
    w.input(Input::HostBranch {
        host: w.caller.host,
        generation: w.caller.generation,
        agents,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    });
}

/// What the session was told to remember, so far.
fn remembered(w: &World) -> Vec<String> {
    let agents = w.effects.iter().filter_map(|e| match e {
        Effect::Named { agents, .. } => Some(agents.clone()),
        _ => None,
    });
    agents.flatten().map(|(_, name)| name).collect()
}

fn known(w: &World, name: &str) -> Result<AgentId, String> {
    let found = w.machine.resolve_name(Some(w.caller.host), name);
    found.map_err(|error| {
        assert_eq!(error.code, ErrorCode::NotFound);
        error.hint.unwrap_or_default()
    })
}

#[test]
fn agents_are_known_on_the_branches_that_name_them() {
    // R-PI-03, R-ID-01, R-TOOL-02
    let mut w = with_pi();
    branch(&mut w, None, &["zoe"]);
    let max = w.idle();
    sync(&mut w);
    assert_eq!(remembered(&w), ["max"]);
    assert_eq!(known(&w, "@max"), Ok(max.agent));

    // A branch from before.
    branch(&mut w, Some(vec![]), &["max", "zoe"]);
    assert_eq!(
        known(&w, "max").unwrap_err(),
        "there are no agents here yet"
    );
    assert_eq!(
        w.machine.resolve_name(None, "max"),
        Ok(max.agent),
        "a person sees all"
    );
    let kai = w.running();
    assert_eq!(remembered(&w), ["max", "kai"], "no name is used twice");
    assert_eq!(known(&w, "kai"), Ok(kai.agent));

    // The first one again.
    branch(&mut w, Some(vec![max.agent]), &["max", "zoe", "kai"]);
    assert_eq!(known(&w, "max"), Ok(max.agent));
    assert_eq!(known(&w, "kai").unwrap_err(), "known here: @max");
    assert_eq!(remembered(&w).len(), 2, "it has that name");

    // Whoever is heard can be answered.
    w.settle(&kai, StopReason::Stop);
    sync(&mut w);
    assert_eq!(completions(&w).len(), 2);
    assert_eq!(remembered(&w), ["max", "kai", "kai"]);
    assert_eq!(known(&w, "kai"), Ok(kai.agent));
}

#[test]
fn a_session_that_names_nobody_means_all_its_agents() {
    // R-PI-03: a session of a time when nothing was remembered
    let mut w = with_pi();
    let max = w.idle();
    sync(&mut w);
    assert!(
        remembered(&w).is_empty(),
        "nobody said which branch is open"
    );
    branch(&mut w, None, &[]);
    assert_eq!(known(&w, "max"), Ok(max.agent));
    assert_eq!(remembered(&w), ["max"]);
    // What a session says that has ended is not meant.
    leave(&mut w, LeaveReason::New);
    branch(&mut w, Some(vec![]), &[]);
    assert_eq!(known(&w, "max"), Ok(max.agent));
}
