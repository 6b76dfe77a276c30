//! Agents of agents.

use pi_agents::fleet::agent::{AgentSpec, Status, StopCause, ToolChoice};
use pi_agents::fleet::answer::{ErrorCode, Reply};
use pi_agents::fleet::host::{Caller, HostKind, SpawnMode};
use pi_agents::fleet::ids::HostId;
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{Effect, MachineConfig};

use super::world::{Played, World};

use super::parent::*;

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
