//! The fake Pi misbehaving, each fault as it says.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::rpc::{last_answer, message_text};
use crate::support::wait;

fn pid(event: &Value) -> u32 {
    event["pid"].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn ends_in_many_ways() {
    let fake = FakePi::new().options("--exit 7");
    assert_eq!(fake.rpc(&[]).wait_exit().code(), Some(7));
    let fake = FakePi::new().options("--exit-signal SEGV");
    assert_eq!(fake.rpc(&[]).wait_exit().signal(), Some(11));
    let fake = FakePi::new().options("--exit-on-command 5");
    let mut rpc = fake.rpc(&[]);
    rpc.send("get_state", json!({}));
    assert_eq!(rpc.wait_exit().code(), Some(5));
    assert!(rpc.lines().is_empty());

    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    rpc.send("prompt", json!({"message": "fake:say a ;; exit 9"}));
    assert_eq!(rpc.wait_exit().code(), Some(9));
    let mut rpc = fake.rpc(&[]);
    rpc.send("prompt", json!({"message": "fake:say a ;; half 3"}));
    assert_eq!(rpc.wait_exit().code(), Some(3));
    assert_eq!(
        rpc.lines().last().unwrap(),
        b"{\"type\":\"message_update\",\"assistantMess"
    );
    let mut rpc = fake.rpc(&[]);
    rpc.send("prompt", json!({"message": "fake:signal KILL"}));
    assert_eq!(rpc.wait_exit().signal(), Some(9));
    let mut rpc = fake.rpc(&[]);
    rpc.write(b"null\n").unwrap();
    assert_eq!(rpc.wait_exit().code(), Some(1));
}

#[test]
fn ends_on_signals_unless_it_ignores_them() {
    let fake = FakePi::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut rpc = fake.rpc(&[]);
        rpc.request("get_state", json!({}));
        processes::signal(rpc.pid(), signal);
        assert_eq!(rpc.wait_exit().code(), Some(code));
    }
    let fake = FakePi::new().options("--ignore-term --ignore-eof");
    let mut rpc = fake.rpc(&[]);
    rpc.request("get_state", json!({}));
    processes::signal(rpc.pid(), Signal::TERM);
    fake.wait_events("signal", 1);
    rpc.close_stdin();
    fake.wait_events("stdin ended", 1);
    let pid = rpc.pid();
    wait::stays("alive", Duration::from_millis(100), || {
        processes::alive(pid)
    });
}

#[test]
fn is_silent_deaf_or_slow() {
    let fake = FakePi::new().options("--silence");
    let mut rpc = fake.rpc(&[]);
    rpc.send("get_state", json!({}));
    fake.wait_events("command", 1);
    assert!(rpc.lines().is_empty());

    let fake = FakePi::new().options("--no-read");
    let mut rpc = fake.rpc(&[]);
    rpc.send("get_state", json!({}));
    fake.wait_events("start", 1);
    wait::stays("deaf", Duration::from_millis(50), || {
        fake.events("command").is_empty()
    });

    let fake = FakePi::new().options("--start-delay 60 --chunk 7");
    let start = std::time::Instant::now();
    let mut rpc = fake.rpc(&[]);
    let state = rpc.request("get_state", json!({}));
    assert!(start.elapsed() >= Duration::from_millis(60));
    assert_eq!(state["success"], true, "whole, although written in pieces");

    let fake = FakePi::new().options("--stderr-bytes 200000");
    let mut rpc = fake.rpc(&[]);
    rpc.request("get_state", json!({}));
    wait::wait_until("all of its stderr", || rpc.stderr().len() == 200_000);
}

#[test]
fn floods_until_it_is_aborted() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    rpc.prompt("fake:flood 200");
    wait::wait_until("a thousand deltas", || rpc.lines().len() > 1000);
    rpc.request("abort", json!({}));
    let lines = rpc.lines();
    let deltas = lines
        .iter()
        .filter(|line| memchr::memmem::find(line, b"text_delta").is_some());
    let answer = last_answer(&rpc.records()).clone();
    assert_eq!(
        message_text(&answer),
        format!("flooded with {} deltas", deltas.count())
    );
}

#[test]
fn sends_what_no_reader_likes() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    rpc.run(
        "fake:junk hello from a library ;; big-line 20971520 ;; bad-utf8 ;; surrogate ;; say ok",
    );
    let lines = rpc.lines();
    assert!(lines.contains(&b"hello from a library".to_vec()));
    assert!(lines.iter().any(|line| line.len() > 20_971_520));
    assert!(lines.iter().any(|line| std::str::from_utf8(line).is_err()));
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with(br#""half \ud83d pair"}}"#))
    );
    assert_eq!(message_text(last_answer(&rpc.records())), "ok");

    let records = rpc.run("fake:stray ;; say first");
    assert_eq!(records[1]["type"], "agent_settled");
    let before = rpc.records().len();
    rpc.prompt("fake:no-settle ;; say second");
    rpc.wait_record("the end", |r| {
        r["type"] == "agent_end" && r.to_string().contains("second")
    });
    let quiet = || {
        !rpc.records()[before..]
            .iter()
            .any(|r| r["type"] == "agent_settled")
    };
    wait::stays("not settled", Duration::from_millis(50), quiet);

    rpc.prompt("fake:close-stdout ;; hang");
    wait::wait_until("the stream ends", || rpc.stdout_ended());
    assert!(processes::alive(rpc.pid()));
}

#[test]
fn loses_prompts_sent_in_a_burst() {
    let fake = FakePi::new().options("--preflight 50");
    let mut rpc = fake.rpc(&[]);
    let first = rpc.send(
        "prompt",
        json!({"message": "one", "streamingBehavior": "steer"}),
    );
    let second = rpc.send(
        "prompt",
        json!({"message": "two", "streamingBehavior": "steer"}),
    );
    let abort = rpc.send("abort", json!({}));
    for id in [first, second, abort] {
        assert_eq!(rpc.response(&id)["success"], true);
    }
    wait::wait_until("both settlements", || {
        let records = rpc.records();
        records
            .iter()
            .filter(|r| r["type"] == "agent_settled")
            .count()
            == 2
    });
    assert_eq!(message_text(last_answer(&rpc.records())), "ack: one");
    assert_eq!(fake.events("prompt lost")[0]["message"], "two");
}

#[test]
fn leaves_processes_behind() {
    for kind in ["holding", "setsid", "clean", "double", "stubborn"] {
        let fake = FakePi::new().options(&format!("--grandchild {kind}"));
        let mut rpc = fake.rpc(&[]);
        rpc.request("get_state", json!({}));
        let left = pid(&fake.wait_events("grandchild", 1)[0]);
        let process = processes::find(left).unwrap();
        rpc.close_stdin();
        wait::wait_until("the fake is gone", || rpc.exited().is_some());
        assert!(process.alive(), "{kind}");
        if kind == "holding" {
            assert!(!rpc.stdout_ended());
        } else {
            wait::wait_until("the stream ends too", || rpc.stdout_ended());
        }
        let marked = fake.sandbox.processes().iter().any(|p| p.pid == left);
        assert_eq!(marked, kind != "clean" && kind != "double", "{kind}");
        if kind == "stubborn" {
            processes::signal(left, Signal::TERM);
            wait::stays("alive", Duration::from_millis(50), || process.alive());
        }
        processes::kill(&[process]);
    }
}

#[test]
fn plays_a_recording() {
    let recording = concat!(
        r#"{"type":"_replay","do":"stderr","text":"hm\n"}"#,
        "\n",
        r#"{"type":"_replay","do":"wait","command":"prompt"}"#,
        "\n",
        r#"{"type":"agent_start"}"#,
        "\n",
        "no record\n",
        r#"{"type":"extension_ui_request","id":"d1","method":"confirm","title":"?"}"#,
        "\n",
        r#"{"type":"_replay","do":"wait_ui","id":"d1"}"#,
        "\n",
        r#"{"type":"_replay","do":"wait_stop"}"#,
        "\n",
        r#"{"type":"agent_settled","aborted":true}"#,
        "\n",
    );
    let fake = FakePi::new().replay_lines(recording.as_bytes());
    let mut rpc = fake.rpc(&[]);
    assert_eq!(rpc.prompt("go")["data"]["disposition"], "started");
    rpc.wait_record("the dialog", |r| r["id"] == "d1");
    rpc.write(b"{\"type\":\"extension_ui_response\",\"id\":\"d1\",\"confirmed\":true}\n")
        .unwrap();
    let queued = rpc.prompt("more");
    assert_eq!(queued["data"]["disposition"], "queued");
    rpc.request("abort", json!({}));
    let records = rpc.wait_settled(0);
    assert!(records.contains(&json!("no record")));
    assert!(fake.events("dialog not answered").is_empty());
    assert_eq!(rpc.stderr(), "hm\n");
    // The prompt nobody waited for is run when the recording has ended.
    rpc.wait_record("its answer", |r| {
        r["type"] == "message_end" && message_text(&r["message"]) == "ack: more"
    });
}

#[test]
fn a_recording_can_answer_itself_and_end_the_process() {
    let recording = concat!(
        r#"{"type":"_replay","do":"manual_responses"}"#,
        "\n",
        r#"{"id":"$2","type":"response","command":"prompt","success":true}"#,
        "\n",
        r#"{"id":"$1","type":"response","command":"get_state","success":false,"error":"x"}"#,
        "\n",
        r#"{"type":"_replay","do":"exit","signal":"SIGKILL"}"#,
        "\n",
    );
    let fake = FakePi::new().replay_lines(recording.as_bytes());
    let mut rpc = fake.rpc(&[]);
    rpc.send("get_state", json!({}));
    rpc.send("prompt", json!({"message": "x"}));
    assert_eq!(rpc.wait_exit().signal(), Some(9));
    let ids: Vec<Value> = rpc.records().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, ["t2", "t1"]);
}
