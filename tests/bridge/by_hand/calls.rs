//! Tool calls of a Pi session.

use serde_json::{Value, json};

use super::bridge::{Bridge, facts};
use crate::support::fake::FakePi;
use crate::support::wait;

const SESSION: &str = "0199c0de-0000-7000-8000-000000000001";

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("text")
}

#[test]
fn a_foreground_spawn_returns_the_reply_and_its_usage_once() {
    // R-TOOL-01, R-TOOL-15, R-DELIV-09
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let result = bridge.tool(
        "agent_spawn",
        json!({"prompt": "fake:say the report", "label": "a task"}),
    );
    assert_eq!(result["isError"], false, "{result}");
    assert!(text(&result).starts_with("the report"), "{result}");
    assert!(text(&result).contains("@max is idle"), "{result}");
    assert!(result["usage"]["output"].is_number(), "{result}");
    assert_eq!(result["details"]["agent_id"], "max");
    assert!(bridge.offers().is_empty(), "the result is the tool's only");
}

#[test]
fn a_background_spawn_returns_when_it_has_started() {
    // R-TOOL-01, R-TOOL-04: its level is the session's
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let name = bridge.spawn("fake:say done");
    assert_eq!(name, "max");
    let start = pi.wait_events("start", 1).remove(0);
    let argv: Vec<&str> = start["argv"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let level = argv.iter().position(|a| *a == "--thinking").unwrap();
    assert_eq!(argv[level + 1], "high");
}

#[test]
fn what_is_wrong_with_a_call_is_a_tool_error_and_starts_nothing() {
    // R-TOOL-06, R-TOOL-07, R-TOOL-08, R-TOOL-16
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    for (name, arguments, says) in [
        ("agent_spawn", json!({"label": "x"}), "prompt"),
        ("agent_spawn", json!({"prompt": " ", "label": "x"}), "empty"),
        ("agent_spawn", json!({"prompt": "x", "label": ""}), "label"),
        (
            "agent_spawn",
            json!({"prompt": "x", "label": "x", "more": 1}),
            "more",
        ),
        (
            "agent_spawn",
            json!({"prompt": "x", "label": "x", "thinking": "loud"}),
            "loud",
        ),
        (
            "agent_spawn",
            json!({"prompt": "x", "label": "x", "timeoutMs": 0}),
            "time limit",
        ),
        (
            "agent_spawn",
            json!({"prompt": "x", "label": "x", "cwd": "nowhere"}),
            "does not exist",
        ),
        (
            "agent_spawn",
            json!({"prompt": "x", "label": "x", "tools": ["a b"]}),
            "tool name",
        ),
        (
            "agent_send",
            json!({"to": "max", "message": "x"}),
            "no such",
        ),
        ("agent_stop", json!({"agent_id": "@max"}), "no such"),
        ("agent_fly", json!({}), "no tool"),
    ] {
        let result = bridge.tool(name, arguments.clone());
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert!(text(&result).contains(says), "{arguments}: {result}");
    }
    assert!(pi.events("start").is_empty(), "nothing was started");
    assert_eq!(bridge.spawn("fake:say hi"), "max", "no name was used up");
}

#[test]
fn a_message_and_a_stop_reach_the_agent() {
    // R-TOOL-02, R-TOOL-03, R-DELIV-13, R-LIFE-10
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let name = bridge.spawn("fake:say one");
    bridge.wait_offers(1);
    let result = bridge.tool("agent_send", json!({"to": "@max", "message": "go on"}));
    assert_eq!(result["isError"], false, "{result}");
    let prompts = pi.commands("prompt");
    assert_eq!(prompts[1]["message"], "[from parent] go on");
    bridge.wait("the second reply", |seen| {
        let ids = seen
            .iter()
            .filter(|m| m["method"] == "host/offer")
            .filter_map(|m| m["params"]["deliveries"].as_array())
            .map(Vec::len)
            .sum::<usize>();
        (ids >= 1).then_some(())
    });
    let result = bridge.tool("agent_stop", json!({"agent_id": name}));
    assert_eq!(result["isError"], false, "{result}");
    let again = bridge.tool("agent_stop", json!({"agent_id": name}));
    assert!(text(&again).contains("was not running"), "{again}");
    let result = bridge.tool("agent_send", json!({"to": "max", "message": "back"}));
    assert!(text(&result).contains("started again"), "{result}");
}

#[test]
fn a_cancelled_call_ends_at_once_and_its_agent_with_it() {
    // R-TOOL-10
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let id = bridge.use_tool(
        "c1",
        "agent_spawn",
        json!({"prompt": "fake:hang", "label": "a task"}),
    );
    bridge.wait("the agent to work", |_| {
        (!pi.commands("prompt").is_empty()).then_some(())
    });
    bridge.notify("tools/cancel", json!({"call": "c1"}));
    let answer = bridge.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["details"]["cancelled"], true, "{answer}");
    pi.wait_events("end", 1);
    assert_eq!(bridge.answers(id), 1);
}

#[test]
fn calls_that_share_an_id_are_cancelled_together() {
    // R-TOOL-10: ids of calls come from providers, and some use one twice in an answer.
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let spawn = json!({"prompt": "fake:hang", "label": "a task"});
    let ids = [(); 3].map(|()| bridge.use_tool("c1", "agent_spawn", spawn.clone()));
    bridge.wait("the agents to work", |_| {
        (pi.commands("prompt").len() == ids.len()).then_some(())
    });
    bridge.notify("tools/cancel", json!({"call": "c1"}));
    for id in ids {
        let answer = bridge.answer(id);
        assert_eq!(answer["result"]["details"]["cancelled"], true, "{answer}");
        assert_eq!(bridge.answers(id), 1);
    }
    pi.wait_events("end", ids.len());
}

#[test]
fn a_launch_takes_what_other_extensions_add_and_a_rejected_one_leaks_nothing() {
    // R-PI-04, R-LIFE-18
    let pi = FakePi::new().with_env("FAKE_PI_LOG_ENV", "EXTRA,PI_AGENTS_TOKEN,HOST_ONLY");
    let mut host = facts(&pi, SESSION, &[]);
    let env = host["env"].as_array_mut().unwrap();
    env.push(json!({"name": "HOST_ONLY", "value": "of the session"}));
    let mut bridge = Bridge::with(&pi, host).unwrap();
    bridge.on_launch(Some(json!({
        "env": {"EXTRA": "one", "PI_SUBAGENT_AGENT_ID": "forged"},
        "extensions": ["/ext/a.ts", "/ext/b.ts", "/ext/a.ts"],
    })));
    let name = bridge.spawn("fake:say one");
    let start = pi.wait_events("start", 1).remove(0);
    assert_eq!(start["env"]["EXTRA"], "one");
    assert_eq!(start["env"]["HOST_ONLY"], "of the session");
    assert_eq!(start["env"]["PI_SUBAGENT_AGENT_ID"], name.as_str());
    let argv = start["argv"].to_string();
    assert_eq!(argv.matches("/ext/a.ts").count(), 1, "{argv}");
    assert!(argv.find("/ext/a.ts") < argv.find("/ext/b.ts"), "{argv}");

    bridge.on_launch(Some(json!({"error": true})));
    let result = bridge.tool(
        "agent_spawn",
        json!({"prompt": "x", "label": "x", "run_in_background": true}),
    );
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("rejected the launch"), "{result}");
    assert!(!result.to_string().contains("secret reason"), "{result}");
    bridge.on_launch(Some(json!({"env": {"1BAD": "x"}, "extensions": []})));
    let result = bridge.tool(
        "agent_spawn",
        json!({"prompt": "x", "label": "x", "run_in_background": true}),
    );
    assert!(text(&result).contains("cannot be one"), "{result}");
    assert!(!result.to_string().contains("1BAD"), "{result}");
    assert_eq!(pi.events("start").len(), 1, "nothing else was started");
}

#[test]
fn a_session_that_is_gone_takes_everything_with_it() {
    // R-PI-02, R-LIFE-08
    for end in ["hang up", "leave"] {
        let pi = FakePi::new();
        let mut bridge = Bridge::start(&pi, SESSION);
        bridge.spawn("fake:hang");
        if end == "leave" {
            bridge.leave("reload");
            assert_eq!(pi.events("end").len(), 1, "gone before the answer");
        }
        bridge.hang_up();
        bridge.wait_exit();
        let guard = bridge.guard_pid();
        wait::wait_until("nothing to be left", || {
            pi.sandbox.processes().iter().all(|p| p.pid == guard)
        });
    }
}
