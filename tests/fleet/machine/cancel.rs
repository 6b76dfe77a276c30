//! Calls that are taken back.

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::ErrorCode;
use pi_agents::fleet::host::{Sender, SpawnMode, Stopper};
use pi_agents::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{ChildEnv, Input, MachineConfig};

use super::parent::*;

#[test]
fn a_cancelled_foreground_call_stops_its_agent_and_ends_as_cancelled() {
    // R-TOOL-10, R-TOOL-17: before it is ready, while it runs, while it settles
    for at in ["queued", "launching", "ready", "accepted", "running"] {
        let mut config = MachineConfig::default();
        if at == "queued" {
            config.launch_slots = 1;
        }
        let mut w = with_pi_and(config);
        if at == "queued" {
            w.spawn("another one");
        }
        let a = w.spawn_mode("task", true, None, SpawnMode::Foreground);
        if matches!(at, "ready" | "accepted" | "running") {
            w.ready(&a);
        }
        if matches!(at, "accepted" | "running") {
            w.accept_next(&a, Disposition::Started);
        }
        if at == "running" {
            w.fact(&a, Fact::RunStarted);
        }
        w.input(Input::Cancel { call: a.call });
        assert_eq!(
            w.answer(a.call).unwrap_err().code,
            ErrorCode::Cancelled,
            "{at}"
        );
        if at != "queued" {
            w.input(Input::Launched {
                instance: a.instance,
                pid: 1,
            });
            w.exit(&a, Some(0), None);
            w.swept(&a);
        }
        sync(&mut w);
        let by = StopCause::Cancelled;
        assert_eq!(w.status(a.agent), Status::Stopped { by }, "{at}");
        assert_eq!(w.answers(a.call).len(), 1, "{at}");
        assert!(completions(&w).is_empty(), "{at}");
        assert!(w.prompts(&a).len() <= 1, "{at}");
    }
}

#[test]
fn a_call_that_was_cancelled_before_it_came_starts_nothing() {
    // R-TOOL-10
    let mut w = with_pi();
    let a = w.running().agent;
    let before = w.effects.len();
    let call = CallId::fresh();
    w.input(Input::Cancel { call });
    let by = w.caller;
    w.input(Input::Spawn {
        call,
        by,
        mode: SpawnMode::Foreground,
        agent: AgentId::fresh(),
        instance: InstanceId::fresh(),
        message: MessageId::fresh(),
        spec: w.view(a).spec,
        prompt: "task".into(),
        env: ChildEnv::default(),
    });
    assert_eq!(w.effects.len(), before + 1, "the answer and nothing else");
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Cancelled);
}

#[test]
fn cancelling_a_message_takes_back_what_was_not_sent_and_leaves_the_rest() {
    // R-TOOL-17
    let mut w = with_pi();
    let a = w.running();
    let (sent, _) = w.send_by(Sender::Parent(w.caller), a.agent, "with the child");
    let (held, _) = w.send_by(Sender::Parent(w.caller), a.agent, "with us");
    w.input(Input::Cancel { call: held });
    w.input(Input::Cancel { call: sent });
    assert_eq!(w.answer(held).unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(w.answer(sent).unwrap_err().code, ErrorCode::Cancelled);
    w.accept_next(&a, Disposition::Queued);
    let texts: Vec<String> = w.prompts(&a).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["task", "with the child"]);
    assert_eq!(w.answers(sent).len(), 1);
    // A stop that is not waited for goes on.
    let call = w.stop_by(Stopper::Parent(w.caller), a.agent);
    w.input(Input::Cancel { call });
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Cancelled);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    assert_eq!(w.answers(call).len(), 1);
    assert_eq!(
        w.status(a.agent),
        Status::Stopped {
            by: StopCause::Parent
        }
    );
}

#[test]
fn cancelling_a_message_that_revives_an_agent_withdraws_the_launch() {
    // R-TOOL-17
    let mut w = with_pi();
    let a = w.idle();
    w.stop(a.agent);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let (call, instance) = w.send_by(Sender::Parent(w.caller), a.agent, "back");
    w.input(Input::Cancel { call });
    assert_eq!(w.answer(call).unwrap_err().code, ErrorCode::Cancelled);
    let b = a.in_process(instance);
    w.ready(&b);
    assert!(w.prompts(&b).is_empty());
    w.exit(&b, Some(0), None);
    w.swept(&b);
    assert!(matches!(w.status(a.agent), Status::Stopped { .. }));
}
