//! How foreground calls get on, as the session is told it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bridge::Bridge;
use crate::support::fake::FakePi;
use crate::support::wait;

const SESSION: &str = "0199c0de-0000-7000-8000-000000000001";
/// What a pipe holds.
const PIPE: usize = 64 * 1024;

fn spawn(prompt: &str) -> Value {
    json!({"prompt": prompt, "label": "a task"})
}

/// A file that a tool of the fake waits for.
fn gate(pi: &FakePi, name: &str) -> PathBuf {
    pi.sandbox.root().join(name)
}

fn until(path: &std::path::Path) -> String {
    format!("while ! test -e {}; do sleep 0.01; done", path.display())
}

fn operation(params: &Value) -> &str {
    params["details"]["operation"].as_str().unwrap_or_default()
}

fn elapsed(params: &Value) -> u64 {
    params["details"]["elapsed_ms"].as_u64().expect("a time")
}

/// Of all that came, nothing is said of a call behind its answer.
fn none_behind_the_answer(bridge: &Bridge, call: &str, id: i64) {
    let seen = bridge.seen();
    let answer = seen
        .iter()
        .position(|m| m["id"] == id && m.get("method").is_none())
        .expect("an answer");
    let last = seen
        .iter()
        .rposition(|m| m["method"] == "tools/progress" && m["params"]["call"] == call);
    assert!(
        last.is_none_or(|last| last < answer),
        "{call}: answered at {answer}, told of at {last:?}"
    );
}

#[test]
fn a_call_that_waits_tells_what_its_agent_does() {
    // R-TOOL-19: starting, the tool, the reply, usage so far, elapsed
    let pi = FakePi::new().options("--start-delay 500");
    let mut bridge = Bridge::start(&pi, SESSION);
    let open = gate(&pi, "open");
    let prompt = format!(
        "fake:say I look first. ;; tool {} ;; say the report",
        until(&open)
    );
    let id = bridge.use_tool("c1", "agent_spawn", spawn(&prompt));
    let starting =
        bridge.wait_progress("c1", "the start", |p| p["details"]["status"] == "starting");
    assert_eq!(starting["content"][0]["text"], "@max starting");
    assert_eq!(starting["details"]["call"], "c1");
    assert_eq!(starting["details"]["agent_id"], "max");
    assert_eq!(starting["details"]["label"], "a task");
    let tool = bridge.wait_progress("c1", "the tool", |p| {
        operation(p).starts_with("bash: while") && p["details"]["status"] == "running"
    });
    let details = &tool["details"];
    assert_eq!(details["tail"], "I look first.");
    assert_eq!(details["tool_uses"], 1);
    assert!(details["usage"]["output"].as_u64() > Some(0), "{details}");
    assert!(details["session_path"].is_string(), "{details}");
    let text = tool["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("@max running · bash: while"), "{text}");
    assert!(text.ends_with("\nI look first."), "{text}");
    std::fs::write(&open, "").unwrap();
    let answer = bridge.answer(id);
    let result = &answer["result"];
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("the report"),
        "{result}"
    );
    assert_eq!(result["details"]["call"], "c1");
    let told = bridge.progress("c1");
    assert!(told.windows(2).all(|p| elapsed(&p[0]) < elapsed(&p[1])));
    none_behind_the_answer(&bridge, "c1", id);
}

#[test]
fn a_flood_is_told_ten_times_a_second_and_bounded() {
    // R-TOOL-19, R-Q-02: counted over the core's own times
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let id = bridge.use_tool("c1", "agent_spawn", spawn("fake:flood 40"));
    bridge.wait("enough of it", |seen| {
        let told = seen.iter().filter(|m| m["method"] == "tools/progress");
        (told.count() >= 15).then_some(())
    });
    bridge.notify("tools/cancel", json!({"call": "c1"}));
    bridge.answer(id);
    let told = bridge.progress("c1");
    for pair in told.windows(2) {
        assert!(elapsed(&pair[1]) - elapsed(&pair[0]) >= 100, "{pair:?}");
        let but_time = |p: &Value| {
            let mut p = p.clone();
            p["details"]["elapsed_ms"] = Value::Null;
            p
        };
        assert_ne!(but_time(&pair[0]), but_time(&pair[1]), "told twice");
    }
    for one in &told {
        assert!(one.to_string().len() < 16 * 1024);
        assert!(one["content"][0]["text"].as_str().unwrap().len() < 2000);
    }
    none_behind_the_answer(&bridge, "c1", id);
}

#[test]
fn calls_side_by_side_are_told_of_under_their_own_ids() {
    // R-TOOL-11
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let gates = ["one", "two"].map(|name| gate(&pi, name));
    let calls = [("c1", "one"), ("c2", "two")];
    let ids: Vec<i64> = calls
        .iter()
        .zip(&gates)
        .map(|((call, word), gate)| {
            let tool = format!(
                "fake:tool true {word}; {} ;; say result {word}",
                until(gate)
            );
            bridge.use_tool(call, "agent_spawn", spawn(&tool))
        })
        .collect();
    for (call, word) in calls {
        let wanted = format!("bash: true {word};");
        bridge.wait_progress(call, word, |p| operation(p).starts_with(&wanted));
    }
    let names = calls.map(|(call, word)| {
        let told = bridge.progress(call);
        let other = if word == "one" {
            "true two"
        } else {
            "true one"
        };
        assert!(
            told.iter().all(|p| !p.to_string().contains(other)),
            "{told:?}"
        );
        assert!(told.iter().all(|p| p["details"]["call"] == call));
        let name = told[0]["details"]["agent_id"].clone();
        assert!(told.iter().all(|p| p["details"]["agent_id"] == name));
        name
    });
    assert_ne!(names[0], names[1]);
    // The first is over; of the second something is told still.
    std::fs::write(&gates[0], "").unwrap();
    bridge.answer(ids[0]);
    std::fs::write(&gates[1], "").unwrap();
    let answer = bridge.answer(ids[1]);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("result two"), "{text}");
    for ((call, _), id) in calls.iter().zip(&ids) {
        none_behind_the_answer(&bridge, call, *id);
    }
}

#[test]
fn of_two_calls_with_one_id_only_the_first_is_told_of() {
    // R-TOOL-11: ids of calls come from providers, and some use one twice in an answer.
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let first = bridge.use_tool("c1", "agent_spawn", spawn("fake:hang"));
    bridge.wait_progress("c1", "the first", |p| p["details"]["status"] == "running");
    let second = bridge.use_tool("c1", "agent_spawn", spawn("fake:stream 5 1"));
    bridge.answer(second);
    bridge.notify("tools/cancel", json!({"call": "c1"}));
    bridge.answer(first);
    let told = bridge.progress("c1");
    assert!(
        told.iter().all(|p| p["details"]["agent_id"] == "max"),
        "{told:?}"
    );
}

#[test]
fn nothing_is_told_of_a_call_that_is_answered_or_that_is_still() {
    // R-TOOL-11: in many orders; R-TOOL-19: nothing is sent when nothing changed
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let still = bridge.use_tool("still", "agent_spawn", spawn("fake:hang"));
    bridge.wait_progress("still", "the still one", |p| {
        p["details"]["tail"] == "hanging" && p["details"]["status"] == "running"
    });
    let before = bridge.progress("still").len();
    for round in 0..4 {
        let calls: Vec<(String, i64)> = (0..3)
            .map(|n| {
                let call = format!("r{round}-{n}");
                let prompt = format!("fake:stream {} 3", 20 + 25 * n);
                let id = bridge.use_tool(&call, "agent_spawn", spawn(&prompt));
                (call, id)
            })
            .collect();
        for (call, id) in &calls {
            bridge.answer(*id);
            none_behind_the_answer(&bridge, call, *id);
        }
        // The same agents go on working, for no call.
        let name = bridge.progress(&calls[0].0)[0]["details"]["agent_id"].clone();
        bridge.tool(
            "agent_send",
            json!({"to": name, "message": "fake:stream 40 3"}),
        );
    }
    assert_eq!(
        bridge.progress("still").len(),
        before,
        "nothing of it changed"
    );
    bridge.notify("tools/cancel", json!({"call": "still"}));
    bridge.answer(still);
    for m in bridge.seen() {
        if m["method"] == "tools/progress" {
            let call = m["params"]["call"].as_str().unwrap();
            assert!(call == "still" || call.starts_with('r'), "{m}");
        }
    }
}

#[test]
fn a_call_that_ends_badly_keeps_label_time_and_usage() {
    // R-TOOL-10, R-TOOL-18, R-TOOL-19
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let id = bridge.use_tool("c1", "agent_spawn", spawn("fake:say one ;; hang"));
    bridge.wait_progress("c1", "some usage", |p| {
        p["details"]["usage"]["output"].as_u64() > Some(0) && p["details"]["tail"] == "hanging"
    });
    bridge.notify("tools/cancel", json!({"call": "c1"}));
    let cancelled = bridge.answer(id);
    let failed = bridge.tool(
        "agent_spawn",
        spawn("fake:say one ;; error 401 invalid key"),
    );
    let died = bridge.tool("agent_spawn", spawn("fake:say one ;; exit 3"));
    for (result, call) in [
        (&cancelled["result"], Some("c1")),
        (&failed, None),
        (&died, None),
    ] {
        let details = &result["details"];
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(details["label"], "a task", "{result}");
        assert!(details["agent_id"].is_string(), "{result}");
        assert!(details["took_ms"].is_number(), "{result}");
        assert!(details["usage"]["output"].as_u64() > Some(0), "{result}");
        assert!(details["session_path"].is_string(), "{result}");
        assert!(call.is_none_or(|call| details["call"] == call), "{result}");
    }
    assert_eq!(cancelled["result"]["details"]["cancelled"], true);
}

#[test]
fn the_call_stays_with_its_agent() {
    // R-TOOL-19: in its record, and so in what every viewer is shown of it
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.tool("agent_spawn", spawn("fake:say one"));
    let records = pi.sandbox.state().join("pi-agents");
    let call = "call-1";
    wait::wait_until("the record", || {
        let mut folders = vec![records.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let record: Value = serde_json::from_str(&text).unwrap_or_default();
                if record["name"] == "max" && record["spec"]["call"] == call {
                    return true;
                }
            }
        }
        false
    });
}

#[test]
fn a_session_that_does_not_read_holds_up_nobody_and_gets_no_old_news() {
    // R-Q-02, R-TOOL-11, R-DELIV-05: neither the core, nor other agents, nor offers behind progress
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.spawn("fake:say ready");
    bridge.wait_offers(1);
    let calls = ["c1", "c2", "c3"];
    let long = spawn("fake:stream 1000000 1");
    let ids = calls.map(|call| bridge.use_tool(call, "agent_spawn", long.clone()));
    for call in calls {
        bridge.wait_progress(call, "the stream", |p| p["details"]["tail_cut"] == true);
    }
    let reading = bridge.read_nothing();
    let stop = reading.lock().unwrap();
    wait::wait_until("the pipe to fill", || bridge.unread() > PIPE / 2);
    let before = bridge.seen().len();
    // Everything else goes on meanwhile.
    let full = Instant::now();
    let mut sent = 0;
    let mut sends = Vec::new();
    while sent < 10 || full.elapsed() < Duration::from_secs(2) {
        sent += 1;
        let message = format!("number {sent}");
        let arguments = json!({"to": "max", "message": message});
        sends.push(bridge.use_tool(&format!("s{sent}"), "agent_send", arguments));
        wait::wait_until("the message to be there", || {
            pi.commands("prompt").len() > 3 + sent
        });
    }
    for call in calls {
        bridge.notify("tools/cancel", json!({"call": call}));
    }
    pi.wait_events("end", 3);
    drop(stop);
    for (call, id) in calls.iter().zip(ids) {
        let answer = bridge.answer(id);
        assert_eq!(answer["result"]["details"]["cancelled"], true, "{answer}");
        none_behind_the_answer(&bridge, call, id);
    }
    for id in sends {
        assert_eq!(bridge.answer(id)["result"]["isError"], false);
    }
    let seen = bridge.seen();
    let late = seen.iter().skip(before);
    let old: usize = late
        .filter(|m| m["method"] == "tools/progress")
        .map(|m| m.to_string().len() + 1)
        .sum();
    assert!(old > PIPE / 2, "{old} bytes came late");
    assert!(
        old < PIPE + 48 * 1024,
        "{old} bytes of old news in {:?}",
        full.elapsed()
    );
    // What is owed is offered: first what was offered before, then the rest.
    let offer = bridge.offers().remove(0);
    bridge.take(&offer);
    bridge.wait_offers(2);
}
