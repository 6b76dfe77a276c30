//! A screen that takes nothing in holds nobody up (B018, R-Q-02).

use std::fmt::Write;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::core::verb;
use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::pty::Terminal;
use crate::support::wait;

use super::world::{open, start_agent};

/// Records of text after the gate: with what Pi says around each they are 100 MB.
const DELTAS: usize = 400_000;

/// A stream that begins, waits for the file, and then comes as fast as it is read.
fn long_stream(gate: &str) -> String {
    let usage = r#""usage":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":2,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;
    let message = |text: &str, stop: &str| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"provider":"fake","model":"one",{usage},"stopReason":"{stop}","timestamp":1796040000000}}"#
        )
    };
    let mut out = String::with_capacity(DELTAS * 260);
    out.push_str("{\"type\":\"_replay\",\"do\":\"wait\",\"command\":\"prompt\"}\n");
    out.push_str("{\"type\":\"agent_start\"}\n{\"type\":\"turn_start\"}\n");
    let begin = message("", "pending").replace(r#"{"type":"text","text":""}"#, "");
    writeln!(out, r#"{{"type":"message_start","message":{begin}}}"#).unwrap();
    let delta = |out: &mut String, text: &str| {
        writeln!(
            out,
            r#"{{"type":"message_update",{usage},"assistantMessageEvent":{{"type":"text_delta","contentIndex":0,"delta":"{text}"}}}}"#
        )
        .unwrap();
    };
    delta(&mut out, "IT-HAS-BEGUN\\n");
    writeln!(
        out,
        r#"{{"type":"_replay","do":"wait_file","path":"{gate}"}}"#
    )
    .unwrap();
    for i in 0..DELTAS {
        delta(
            &mut out,
            &if i % 50 == 0 {
                "\\n".to_owned()
            } else {
                format!("word{i} ")
            },
        );
    }
    let whole = message("END-OF-STREAM", "stop");
    for record in [
        format!(r#"{{"type":"message_end","message":{whole}}}"#),
        r#"{"type":"agent_end","messages":[],"willRetry":false}"#.to_owned(),
        r#"{"type":"agent_settled","aborted":false}"#.to_owned(),
    ] {
        out.push_str(&record);
        out.push('\n');
    }
    out
}

/// The only agent as another viewer is told.
fn row(world: &FakePi) -> Value {
    let out = verb(world, &["ps", "--json"]);
    assert!(out.status.success(), "{out:?}");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    all["agents"][0].clone()
}

fn stalled(stall: impl FnOnce(&mut Terminal), resume: impl FnOnce(&mut Terminal)) {
    let world = FakePi::new();
    let gate = world.work().join("gate");
    let world = world.replay_lines(long_stream(gate.to_str().unwrap()).as_bytes());
    let mut t = open(&world);
    start_agent(&mut t, "go", "max");
    t.wait_text("IT-HAS-BEGUN");
    stall(&mut t);
    std::fs::write(&gate, "").unwrap();
    // All of it is read, while nobody draws.
    world.wait_events("replay ended", 1);
    wait::wait_until("another viewer sees the end", || {
        row(&world)["status"]["state"] == "idle"
    });
    assert!(t.exited().is_none());
    resume(&mut t);
    t.wait_text("END-OF-STREAM");
    t.wait_until("its row is right", |s| s.contains("‖ @max"));
    // It still takes keys.
    t.keys("q");
    t.wait_text("stop all");
}

#[test]
fn a_screen_that_is_stopped_holds_no_agent_up() {
    // B018, R-Q-02
    stalled(
        |t| processes::signal(t.pid(), Signal::STOP),
        |t| processes::signal(t.pid(), Signal::CONT),
    );
}

#[test]
fn a_terminal_that_takes_no_output_holds_no_agent_up() {
    // B018, R-Q-02: Ctrl+S in the terminal, a connection that hangs
    stalled(|t| t.hold(true), |t| t.hold(false));
}
