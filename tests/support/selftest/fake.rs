//! The fake Pi as a well-behaved Pi: what it answers has the shape real Pi gives.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::fake::FakePi;
use crate::support::rpc::{last_answer, message_text};
use crate::support::wait;

fn kinds(records: &[Value]) -> Vec<String> {
    let kinds = records
        .iter()
        .map(|r| r["type"].as_str().unwrap_or("?").to_owned());
    let mut kinds: Vec<String> = kinds.collect();
    kinds.dedup();
    kinds
}

#[test]
fn says_its_version() {
    let fake = FakePi::new().version("1.3.9");
    let program = fake.pi_command();
    let output = fake.command(&program).arg("--version").output().unwrap();
    assert_eq!(output.stdout, b"1.3.9\n");
    assert!(fake.log().is_empty(), "asking for the version is no start");
}

#[test]
fn a_prompt_gets_a_complete_run() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&["--name", "Ann", "--model", "fake/one"]);
    let state = rpc.request("get_state", json!({}));
    assert_eq!(state["data"]["sessionName"], "Ann");
    assert_eq!(state["data"]["messageCount"], 0);
    let file = state["data"]["sessionFile"].as_str().unwrap().to_owned();
    assert!(!std::path::Path::new(&file).exists());

    let before = rpc.records().len();
    let response = rpc.prompt("hello there");
    assert_eq!(response["data"]["disposition"], "started");
    let records = rpc.wait_settled(before);
    assert_eq!(
        kinds(&records),
        [
            "response",
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_end",
            "message_start",
            "message_update",
            "message_end",
            "turn_end",
            "agent_end",
            "agent_settled"
        ]
    );
    assert_eq!(message_text(last_answer(&records)), "ack: hello there");
    let lines = rpc.lines();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with(b"{\"type\":\"message_update\",\"usage\":"))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with(b"\"willRetry\":false}"))
    );
    assert!(lines[0].starts_with(b"{\"id\":\"t1\",\"type\":\"response\""));

    // System, user, assistant: on disk too, each entry below the one before.
    let state = rpc.request("get_state", json!({}));
    assert_eq!(state["data"]["messageCount"], 3);
    assert_eq!(state["data"]["isStreaming"], false);
    let text = std::fs::read_to_string(&file).unwrap();
    let entries: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries[0]["type"], "session");
    assert_eq!(entries[0]["cwd"], fake.work().to_str().unwrap());
    for pair in entries[1..].windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
    let asked = rpc.request("get_entries", json!({"since": entries[1]["id"]}));
    assert_eq!(asked["data"]["entries"], json!(entries[2..]));
    rpc.close_stdin();
    assert_eq!(rpc.wait_exit().code(), Some(0));
    let end = fake.events("end");
    assert_eq!(end[0]["cause"], "stdin ended");
}

#[test]
fn a_session_is_taken_up_again() {
    let fake = FakePi::new();
    let dir = fake.sandbox.data();
    let dir = dir.to_str().unwrap();
    let mut first = fake.rpc(&["--session-id", "abc", "--session-dir", dir]);
    first.run("one");
    let path = first.request("get_state", json!({}))["data"]["sessionFile"].clone();
    first.close_stdin();
    first.wait_exit();
    for args in [
        ["--session-id", "abc"],
        ["--session", path.as_str().unwrap()],
        ["--session", "ab"],
    ] {
        let mut again = fake.rpc(&[&args[..], &["--session-dir", dir]].concat());
        let data = again.request("get_state", json!({}))["data"].clone();
        assert_eq!(data["messageCount"], 3, "{args:?}");
        assert_eq!(data["sessionId"], "abc");
        assert_eq!(data["sessionFile"], path);
    }
    let mut unknown = fake.rpc(&["--session", "zzz", "--session-dir", dir]);
    assert_eq!(unknown.wait_exit().code(), Some(1));
    assert!(unknown.stderr().contains("No session found matching 'zzz'"));
    let starts = fake.events("start");
    assert_eq!(starts.len(), 5);
    assert_eq!(starts[0]["argv"][3], "abc");
    assert_eq!(starts[0]["env"]["PI_OFFLINE"], "1");
    assert_eq!(starts[0]["cwd"], fake.work().to_str().unwrap());
}

#[test]
fn a_message_during_a_run_is_queued_and_delivered() {
    let fake = FakePi::new();
    let go = fake.work().join("go");
    let mut rpc = fake.rpc(&[]);
    rpc.prompt(&format!("fake:wait {}", go.display()));
    rpc.wait_record("a delta", |r| {
        r["assistantMessageEvent"]["delta"] == "waiting"
    });
    let refused = rpc.request("prompt", json!({"message": "now!"}));
    assert_eq!(refused["success"], false);
    let queued = rpc.prompt("a correction");
    assert_eq!(queued["data"]["disposition"], "queued");
    let state = rpc.request("get_state", json!({}));
    assert_eq!(state["data"]["pendingMessageCount"], 1);
    assert_eq!(state["data"]["isStreaming"], true);
    std::fs::write(&go, "").unwrap();
    let records = rpc.wait_settled(0);
    assert_eq!(message_text(last_answer(&records)), "ack: a correction");
    let ends = records.iter().filter(|r| r["type"] == "agent_end");
    assert_eq!(ends.count(), 1, "one run");
}

#[test]
fn an_abort_keeps_the_queue_and_answers_after_the_settlement() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    rpc.prompt("fake:hang");
    rpc.wait_record("a delta", |r| {
        r["assistantMessageEvent"]["delta"] == "hanging"
    });
    rpc.prompt("later");
    rpc.request("abort", json!({}));
    let records = rpc.records();
    let settled = records
        .iter()
        .position(|r| r["type"] == "agent_settled")
        .unwrap();
    assert_eq!(records[settled]["aborted"], true);
    assert_eq!(records[settled + 1]["command"], "abort");
    assert_eq!(last_answer(&records)["stopReason"], "aborted");
    let dropped = rpc.request("clear_queue", json!({}));
    assert_eq!(dropped["data"]["steering"], json!(["later"]));
}

#[test]
fn a_tool_is_a_process_of_its_own_session_and_dies_with_an_abort() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    let records = rpc.run("fake:tool echo out; echo err >&2; exit 3");
    let end = records
        .iter()
        .find(|r| r["type"] == "tool_execution_end")
        .unwrap();
    assert_eq!(end["isError"], true);
    let text = end["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "out\nerr\n\n\nCommand exited with code 3");
    assert_eq!(message_text(last_answer(&records)), "done");

    let before = rpc.records().len();
    rpc.prompt("fake:tool echo $$; sleep 300");
    let update = wait::wait_for("the tool's output", || {
        rpc.records()[before..].iter().find_map(|record| {
            let text = record["partialResult"]["content"][0]["text"].as_str()?;
            text.trim().parse::<u32>().ok()
        })
    });
    let shell = crate::support::processes::find(update).unwrap();
    assert_eq!((shell.group, shell.session), (shell.pid, shell.pid));
    rpc.request("abort", json!({}));
    assert!(!shell.alive());
    let records = rpc.records();
    assert_eq!(last_answer(&records)["stopReason"], "aborted");
}

#[test]
fn a_dialog_waits_for_its_answer() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    rpc.prompt("fake:ask confirm Really? ;; say after that");
    let request = rpc.wait_record("a dialog", |r| r["type"] == "extension_ui_request");
    assert_eq!(request["method"], "confirm");
    assert_eq!(request["title"], "Really?");
    let answer = json!({"type": "extension_ui_response", "id": request["id"], "confirmed": true});
    rpc.write(format!("{answer}\n").as_bytes()).unwrap();
    let records = rpc.wait_settled(0);
    let answers = records.iter().filter(|r| r["type"] == "message_end");
    let texts: Vec<String> = answers.map(|r| message_text(&r["message"])).collect();
    assert!(texts.contains(&"answered: true".to_owned()), "{texts:?}");
    assert_eq!(texts.last().unwrap(), "after that");
}

#[test]
fn failures_retries_and_compactions_have_their_records() {
    let fake = FakePi::new();
    let mut rpc = fake.rpc(&[]);
    let failed = rpc.run("fake:error 401: no");
    assert_eq!(last_answer(&failed)["stopReason"], "error");
    let before = rpc.records().len();
    rpc.run("fake:retry 2 1 fine at last ;; auto-compact");
    let records = rpc.records().split_off(before);
    let expected = ["agent_end", "auto_retry_start", "agent_start"];
    let kinds = kinds(&records);
    assert!(kinds.windows(3).any(|w| w == expected), "{kinds:?}");
    assert!(kinds.ends_with(&[
        "agent_end".to_owned(),
        "compaction_start".to_owned(),
        "compaction_end".to_owned(),
        "agent_settled".to_owned()
    ]));
    assert_eq!(message_text(last_answer(&records)), "fine at last");
    let handled = rpc.request("prompt", json!({"message": "fake:handled 5"}));
    assert_eq!(handled["data"]["disposition"], "handled");
    wait::stays("no run", Duration::from_millis(30), || {
        rpc.records().last() == Some(&handled)
    });
}

#[test]
fn wrong_options_end_the_start_as_with_pi() {
    let fake = FakePi::new();
    for (args, says) in [
        (&["--bogus"][..], "Unknown option: --bogus"),
        (&["--model", "zzz"][..], "Model \"zzz\" not found"),
    ] {
        let mut rpc = fake.rpc(args);
        assert_eq!(rpc.wait_exit().code(), Some(1));
        assert!(rpc.stderr().contains(says), "{}", rpc.stderr());
        assert!(rpc.lines().is_empty());
    }
    let fake = FakePi::new().options("--no-such-fault");
    let mut rpc = fake.rpc(&[]);
    assert_eq!(rpc.wait_exit().code(), Some(1));
}
