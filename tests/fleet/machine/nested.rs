//! Agents of agents.

use pi_agents::fleet::agent::{AgentSpec, Status, StopCause, ToolChoice};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{Caller, HostKind, SpawnMode};
use pi_agents::fleet::ids::HostId;
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{Effect, Input, MachineConfig};
use pi_agents::fleet::roster::{Subtree, subtree};
use pi_agents::pi::message::StopReason;

use super::parent::*;
use super::world::{Played, World};

fn nested(w: &mut World, parent: &Played) -> Caller {
    let caller = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    let call = join(
        w,
        caller,
        HostKind::Nested {
            agent: parent.agent,
        },
    );
    assert_eq!(w.answer(call), Ok(Reply::Done));
    caller
}

fn deep() -> World {
    with_pi_and(MachineConfig {
        max_depth: 3,
        ..MachineConfig::default()
    })
}

#[test]
fn names_are_per_host_and_keys_say_where() {
    // R-ID-01, R-ID-02, R-ID-06
    let mut w = deep();
    let max = w.running();
    let zoe = w.running();
    let top = w.caller;
    let mut below = Vec::new();
    for parent in [&max, &zoe] {
        w.caller = nested(&mut w, parent);
        let child = w.spawn_mode("part", false, None, SpawnMode::Foreground);
        below.push(child);
        w.caller = top;
    }
    let views: Vec<_> = below.iter().map(|c| w.view(c.agent)).collect();
    assert_eq!(views[0].name, "max");
    assert_eq!(views[1].name, "max");
    assert_eq!(views[0].key, "max/max");
    assert_eq!(views[1].key, "zoe/max");
    assert_eq!(views[0].depth, 2);
    assert_eq!(views[0].parent, Some(max.agent));
    assert_eq!(w.view(max.agent).depth, 1);
    // From outside the key tells them apart.
    assert_eq!(w.machine.resolve_name(None, "max"), Ok(max.agent));
    assert_eq!(w.machine.resolve_name(None, "@zoe/max"), Ok(below[1].agent));
    assert_eq!(
        w.machine.resolve_name(Some(top.host), "@max"),
        Ok(max.agent)
    );
}

#[test]
fn a_name_that_two_sessions_use_is_not_guessed() {
    // R-ID-01
    let mut w = with_pi();
    w.running();
    w.caller = Caller {
        host: HostId::fresh(),
        generation: 1,
    };
    let caller = w.caller;
    join(&mut w, caller, HostKind::Pi);
    let mine = w.running();
    let several = w.machine.resolve_name(None, "max").unwrap_err();
    assert_eq!(several.code, ErrorCode::Invalid);
    assert_eq!(
        w.machine.resolve_name(Some(caller.host), "max"),
        Ok(mine.agent)
    );
}

#[test]
fn agents_below_an_agent_run_in_its_foreground_and_end_with_it() {
    // R-ID-04
    let mut w = deep();
    let max = w.running();
    let top = w.caller;
    w.caller = nested(&mut w, &max);
    let refused = w.spawn("part");
    assert_eq!(w.answer(refused.call).unwrap_err().code, ErrorCode::Invalid);
    let sam = w.spawn_mode("part", true, None, SpawnMode::Foreground);
    w.ready(&sam);
    w.accept_next(&sam, Disposition::Started);
    w.fact(&sam, Fact::RunStarted);
    w.caller = top;
    w.stop(max.agent);
    assert_eq!(
        w.count(|e| matches!(e, Effect::CloseStdin { .. })),
        2,
        "both at the same time"
    );
    w.exit(&sam, Some(0), None);
    w.exit(&max, Some(0), None);
    w.swept(&sam);
    w.swept(&max);
    let by = StopCause::HostGone;
    assert_eq!(w.status(sam.agent), Status::Stopped { by });
    assert!(matches!(w.answer(sam.call), Ok(Reply::Finished { .. })));
    assert_eq!(w.view(sam.agent).parent, Some(max.agent), "its row stays");
}

#[test]
fn the_depth_limit_and_the_parents_tools_bind_before_anything_starts() {
    // R-ID-03, R-ID-09, R-TOOL-07
    let mut w = with_pi();
    let max = w.running();
    w.caller = nested(&mut w, &max);
    let before = w.effects.len();
    let deep_one = w.spawn_mode("part", false, None, SpawnMode::Foreground);
    assert_eq!(
        w.answer(deep_one.call).unwrap_err().code,
        ErrorCode::Invalid
    );
    assert_eq!(w.effects.len(), before + 1);

    let mut w = deep();
    let spec = |tools: ToolChoice| AgentSpec {
        label: "a task".into(),
        model: None,
        thinking: None,
        tools,
        cwd: "/".into(),
        persistent: true,
        timeout_ms: None,
        call: None,
    };
    let only = |names: &[&str]| ToolChoice::Only(names.iter().map(|n| (*n).to_owned()).collect());
    let parent = w.spawn_spec(spec(only(&["read", "agent_spawn"])), SpawnMode::Background);
    w.ready(&parent);
    w.caller = nested(&mut w, &parent);
    let more = w.spawn_spec(spec(only(&["read", "bash"])), SpawnMode::Foreground);
    let error = w.answer(more.call).unwrap_err();
    assert!(error.message.contains("bash"), "{error}");
    let same = w.spawn_spec(spec(ToolChoice::All), SpawnMode::Foreground);
    assert_eq!(
        w.view(same.agent).spec.tools,
        only(&["read", "agent_spawn"]),
        "no list of its own: its parent's"
    );
}

#[test]
fn counts_and_costs_of_a_subtree_roll_up_at_any_depth() {
    // R-ID-06
    let mut w = deep();
    let top = w.caller;
    let max = w.running();
    let other = w.running();
    w.caller = nested(&mut w, &max);
    let mut below = Vec::new();
    for _ in 0..2 {
        let child = w.spawn_mode("part", true, None, SpawnMode::Foreground);
        w.ready(&child);
        w.accept_next(&child, Disposition::Started);
        w.fact(&child, Fact::RunStarted);
        below.push(child);
    }
    w.caller = nested(&mut w, &below[0]);
    let deepest = w.spawn_mode("detail", true, None, SpawnMode::Foreground);
    w.caller = top;
    w.settle(&below[1], StopReason::Stop);
    let mut rows: Vec<_> = w
        .machine
        .ids()
        .filter_map(|id| w.machine.view(id))
        .collect();
    for row in &mut rows {
        row.usage.output = 10;
        row.usage.cost = 0.5;
    }
    let all = subtree(&rows, max.agent);
    assert_eq!((all.agents, all.working, all.idle), (3, 2, 1));
    assert_eq!(all.usage.output, 30);
    assert!((all.usage.cost - 1.5).abs() < 1e-9);
    assert_eq!(subtree(&rows, below[0].agent).agents, 1);
    assert_eq!(w.view(deepest.agent).depth, 3);
    assert_eq!(w.view(deepest.agent).key, "max/max/max");
    assert_eq!(subtree(&rows, other.agent), Subtree::default());
    // A parent that ends takes all of it along; the rows stay and are counted.
    w.stop(max.agent);
    for p in [&deepest, &below[0], &below[1], &max] {
        w.input(Input::Launched {
            instance: p.instance,
            pid: 1,
        });
        w.exit(p, Some(0), None);
        w.swept(p);
    }
    let rows: Vec<_> = w
        .machine
        .ids()
        .filter_map(|id| w.machine.view(id))
        .collect();
    let all = subtree(&rows, max.agent);
    assert_eq!(
        (all.agents, all.working, all.stopped),
        (3, 0, 3),
        "{rows:#?}"
    );
}
