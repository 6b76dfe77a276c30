//! A core that is silent, slow, or dies: Pi goes on, and says so where it matters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{Plan, World};
use crate::bridge::scripted_core::{Handshake, Script, text_result};
use crate::support::model::{Gate, Turn};
use crate::support::rpc::message_text;
use crate::support::versions::Version;
use crate::support::wait;

/// The bridge waits longer than this for anything it waits for at all.
const AT_ONCE: Duration = Duration::from_millis(2400);

fn silent() -> Script {
    Script {
        handshake: Handshake::Never,
        ..Script::default()
    }
}

fn spawn() -> Turn {
    Turn::call("agent_spawn", json!({"prompt": "look", "label": "look"}))
}

/// Ends Pi as its owner would, and proves that nothing held it up.
fn ends_at_once(world: &mut World) {
    let began = Instant::now();
    world.rpc.close_stdin();
    let status = world.rpc.wait_exit();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{took:?}\n{}", world.rpc.stderr());
    assert_eq!(status.code(), Some(0), "{}", world.rpc.stderr());
}

// R-PI-12
#[test]
fn a_core_that_never_answers_holds_up_nothing() {
    for version in Version::ALL {
        let mut world = Plan::new(version)
            .script(silent())
            .arg("--tools")
            .arg("bash,agent_spawn")
            .start();
        world.model.on("hello", [Turn::say("hi")]);
        world.model.on_last("spawn", spawn());
        world.rpc.run("hello");
        // A call waits for the core; an abort ends the wait.
        let before = world.rpc.records().len();
        world.rpc.prompt("spawn");
        world
            .rpc
            .wait_record("the call", |r| r["type"] == "tool_execution_start");
        let began = Instant::now();
        world.rpc.request("abort", json!({}));
        assert!(began.elapsed() < AT_ONCE);
        let records = world.rpc.wait_settled(before);
        let settled = records
            .iter()
            .find(|r| r["type"] == "agent_settled")
            .unwrap();
        assert_eq!(settled["aborted"], true);
        ends_at_once(&mut world);
    }
}

// R-PI-12: it is there when it is there.
#[test]
fn a_core_that_answers_late_is_used_when_it_does() {
    let open = Arc::new(AtomicBool::new(false));
    let script = Script {
        handshake: Handshake::When(Arc::clone(&open)),
        ..Script::default()
    };
    let mut world = Plan::new(Version::Newest).script(script).start();
    world
        .model
        .on("hello", [Turn::say("hi"), Turn::say("thank you")]);
    let core = world.core.connection(0);
    let asked = Instant::now();
    world.rpc.run("hello");
    assert!(core.told("host/state").is_empty());
    wait::wait_until("four seconds to pass", || {
        asked.elapsed() > Duration::from_secs(4)
    });
    open.store(true, Ordering::SeqCst);
    let core = world.core.joined(0);
    let before = world.rpc.records().len();
    core.offer(1, "wake", &["one:1"]);
    world.rpc.wait_settled(before);
    assert_eq!(core.ack(1)["found"], json!(["one:1"]));
    ends_at_once(&mut world);
}

// R-TOOL-10, R-PI-12: an abort is not an answer's to give.
#[test]
fn a_call_that_is_never_answered_can_be_aborted() {
    for version in Version::ALL {
        let script = Script {
            tool: Box::new(|_| None),
            ..Script::default()
        };
        let mut world = Plan::new(version).script(script).start();
        let core = world.core.joined(0);
        world.model.on("spawn", [spawn()]);
        world.rpc.prompt("spawn");
        let call = core.wait_told("tools/call", |_| true);
        let began = Instant::now();
        world.rpc.request("abort", json!({}));
        assert!(began.elapsed() < AT_ONCE);
        let cancel = core.wait_told("tools/cancel", |_| true);
        assert_eq!(cancel["call"], call["call"]);
        assert_eq!(cancel["generation"], core.generation());
        let end = world
            .rpc
            .wait_record("the end of the call", |r| r["type"] == "tool_execution_end");
        assert_eq!(end["isError"], true);
        // An answer that comes all the same is nobody's.
        core.send(&json!({"jsonrpc": "2.0", "id": 2, "result": text_result("late")}));
        core.wait_state("aborted");
        ends_at_once(&mut world);
    }
}

// R-DELIV-17: a lost core ends what waits for it as errors and is started again once.
#[test]
fn a_core_that_dies_is_started_again_once() {
    for version in Version::ALL {
        let script = Script {
            tool: Box::new(|call| {
                let first = call["arguments"]["label"] == "look";
                (!first).then(|| text_result("here again"))
            }),
            ..Script::default()
        };
        let mut world = Plan::new(version).script(script).start();
        let core = world.core.joined(0);
        let gate = Gate::new();
        world.model.on(
            "spawn",
            [
                spawn(),
                Turn::call("agent_spawn", json!({"prompt": "x", "label": "second"})).gate(&gate),
                Turn::call("agent_spawn", json!({"prompt": "x", "label": "third"})),
                Turn::say("done"),
            ],
        );
        world.rpc.prompt("spawn");
        core.wait_told("tools/call", |_| true);
        core.offer(1, "boundary", &["one:1"]);
        core.die();
        let end = world
            .rpc
            .wait_record("the end of the call", |r| r["type"] == "tool_execution_end");
        assert_eq!(end["isError"], true);
        let said = message_text(&end["result"]);
        assert!(said.contains("the core is gone"), "{said}");
        assert!(
            end["result"]["details"]["error"]["message"].is_string(),
            "{end}"
        );
        let second = world.core.joined(1);
        assert_eq!(second.facts()["session"], core.facts()["session"]);
        assert_eq!(second.facts()["state"], "busy");
        // What the dead core had offered is forgotten: nobody would look for it.
        assert_eq!(second.facts()["known"], json!([]));
        gate.open();
        second.wait_told("tools/call", |call| call["arguments"]["label"] == "third");
        world.rpc.wait_settled(0);
        let results = world.model.requests().pop().unwrap().tool_results();
        assert_eq!(results[1..], ["here again", "here again"]);
        // The second time is the last.
        second.die();
        wait::wait_until("the loss to be noticed", || second.ended());
        world.model.on("more", []);
        world.model.on_last(
            "more",
            Turn::call("agent_spawn", json!({"prompt": "x", "label": "x"})),
        );
        let before = world.rpc.records().len();
        world.rpc.prompt("more");
        let end = wait::wait_for("the end of the call", || {
            let new = world.rpc.records().split_off(before);
            new.into_iter().find(|r| r["type"] == "tool_execution_end")
        });
        let said = message_text(&end["result"]);
        assert!(said.contains("/reload"), "{said}");
        assert_eq!(end["isError"], true);
        assert_eq!(world.core.count(), 2);
        world.rpc.request("abort", json!({}));
        ends_at_once(&mut world);
    }
}

// R-DELIV-17, R-DELIV-05: nothing is lost or doubled when the core dies between taking and looking.
#[test]
fn a_core_that_dies_at_a_boundary_learns_what_became_of_it() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let gates = [Gate::new(), Gate::new()];
        world.model.on(
            "go",
            [
                Turn::call("bash", json!({"command": "true"})).gate(&gates[0]),
                Turn::say("thank you").gate(&gates[1]),
            ],
        );
        world.rpc.prompt("go");
        gates[0].wait_arrival("the first request");
        core.offer(1, "boundary", &["one:1"]);
        core.ask(70, "host/launch_event", json!({}));
        gates[0].open();
        core.wait_told("host/taken", |_| true);
        core.die();
        let next = world.core.joined(1);
        let facts = next.facts();
        let undecided = facts["undecided"].as_array().unwrap().len();
        let known = facts["known"].as_array().unwrap().len();
        assert_eq!((known, undecided), (1, 0), "{facts}");
        gates[1].open();
        world.rpc.wait_settled(0);
        ends_at_once(&mut world);
    }
}

// R-DELIV-17: it is a call's error that there is no program, not Pi's.
#[test]
fn a_missing_program_is_named_by_the_tools() {
    for (program, expected) in [
        ("/nowhere/pi-agents", "/nowhere/pi-agents"),
        ("", "PI_AGENTS_BIN"),
    ] {
        let mut world = Plan::new(Version::Newest)
            .env("PI_AGENTS_BIN", program)
            .arg("--tools")
            .arg("agent_spawn")
            .start();
        world.model.on("spawn", [spawn(), Turn::say("a pity")]);
        world.rpc.run("spawn");
        let results = world.model.requests().pop().unwrap().tool_results();
        assert!(results[0].contains(expected), "{results:?}");
        assert_eq!(world.core.count(), 0);
        ends_at_once(&mut world);
    }
}

// R-DELIV-17: a core that cannot start says why.
#[test]
fn the_last_words_of_a_core_are_passed_on() {
    let plan = Plan::new(Version::Newest);
    let program = plan.sandbox().root().join("complains");
    std::fs::write(
        &program,
        "#!/bin/sh\necho 'the state folder is full' >&2\nexit 7\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    let mut world = plan
        .env("PI_AGENTS_BIN", program.to_str().unwrap())
        .arg("--tools")
        .arg("agent_spawn")
        .start();
    world.model.on("spawn", [spawn(), Turn::say("a pity")]);
    world.rpc.run("spawn");
    let results = world.model.requests().pop().unwrap().tool_results();
    assert!(
        results[0].contains("the state folder is full"),
        "{results:?}"
    );
    assert!(results[0].contains("code 7"), "{results:?}");
    ends_at_once(&mut world);
}

// R-PI-12, R-Q-01: whatever a core says, Pi goes on.
#[test]
fn nonsense_of_a_core_harms_nothing() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let values = [
            json!(null),
            json!(-1),
            json!(1e300),
            json!("x"),
            json!([]),
            json!({}),
            json!([null]),
            json!([{"id": 1, "kind": [], "content": {}}]),
            json!({"then": "x", "__proto__": {"a": 1}, "constructor": 1, "toString": 1}),
        ];
        let methods = [
            "host/offer",
            "host/withdraw",
            "tools/progress",
            "host/launch_event",
            "initialize",
            "toString",
            "__proto__",
        ];
        for method in methods {
            for value in &values {
                core.send(&json!({"jsonrpc": "2.0", "method": method, "params": value}));
                core.send(
                    &json!({"jsonrpc": "2.0", "id": value, "method": method, "params": value}),
                );
                for field in [
                    "generation",
                    "epoch",
                    "mode",
                    "deliveries",
                    "call",
                    "content",
                ] {
                    let mut params = json!({"generation": core.generation(), "epoch": 5, "mode": "silent",
                        "deliveries": [], "call": "call_1", "content": [], "details": null});
                    params[field] = value.clone();
                    core.notify(method, params);
                }
            }
        }
        for value in &values {
            core.send(value);
            core.send(&json!({"jsonrpc": "2.0", "id": 1, "result": value}));
            core.send(&json!({"jsonrpc": "2.0", "id": 99, "error": value}));
            core.send(&json!({"method": value}));
        }
        for line in ["", "{", "nul", "\u{feff}{}", "{\"a\":\"\\ud83d\"}"] {
            core.send_raw(format!("{line}\n").as_bytes());
        }
        core.send_raw(b"\xff\xfe\n\0\n");
        core.ask(900, "host/launch_event", json!({}));
        world.model.on("hello", [Turn::say("hi")]);
        world.rpc.run("hello");
        core.wait_state("idle");
        assert_eq!(world.core.count(), 1, "it is the same connection");
        // A line without end is the end of the connection, not of Pi.
        let flood = vec![b'x'; 17 << 20];
        core.send_raw(&flood);
        wait::wait_until("the connection to end", || core.ended());
        world.core.joined(1);
        ends_at_once(&mut world);
    }
}

/// A core that reads nothing.
// R-PI-12, R-Q-02: what it is told piles up in the system, then in memory, and Pi goes on.
#[test]
fn a_core_that_reads_nothing_holds_up_nothing() {
    let plan = Plan::new(Version::Newest);
    let program = plan.sandbox().root().join("deaf");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 300\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&program, mode).unwrap();
    // More than a pipe takes.
    let mut world = plan
        .env("PI_AGENTS_BIN", program.to_str().unwrap())
        .env("LARGE", &"x".repeat(100_000))
        .env("LARGER", &"y".repeat(100_000))
        .start();
    world.model.on("hello", [Turn::say("hi")]);
    world.rpc.run("hello");
    ends_at_once(&mut world);
}
