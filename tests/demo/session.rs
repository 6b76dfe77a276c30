//! The session file: written as it goes, and taken up again.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Stage;
use crate::support::rpc::{last_answer, message_text};

fn entries(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

#[test]
fn the_file_appears_with_the_first_message_and_is_a_chain() {
    // R-LIFE-17, pi-facts §5
    let stage = Stage::new();
    let mut agent = stage.agent(&["--name", "Check dates"]);
    let state = agent.request("get_state", json!({}))["data"].clone();
    assert!(!stage.sessions().exists(), "not before the first message");
    agent.run("find all dates");

    let file = stage.session_file();
    assert_eq!(state["sessionFile"], json!(file), "named before it exists");
    let entries = entries(&fs::read_to_string(&file).expect("session"));
    let header = &entries[0];
    assert_eq!(
        (&header["type"], &header["version"]),
        (&json!("session"), &json!(3))
    );
    assert_eq!(header["cwd"], json!(stage.sandbox.work()));
    let name = file
        .file_name()
        .expect("name")
        .to_string_lossy()
        .into_owned();
    assert!(name.ends_with("_agent-1.jsonl"), "{name}");
    let mut parent = Value::Null;
    for entry in &entries[1..] {
        assert_eq!(entry["parentId"], parent, "{entry}");
        assert_eq!(entry["id"].as_str().expect("id").len(), 8);
        parent = entry["id"].clone();
    }

    // Live and saved are the same: what the wire told is what the file holds.
    let told: Vec<Value> = agent
        .records()
        .into_iter()
        .filter(|record| record["type"] == "message_end")
        .map(|record| record["message"].clone())
        .collect();
    let saved: Vec<Value> = entries
        .iter()
        .filter(|entry| entry["type"] == "message")
        .map(|entry| entry["message"].clone())
        .collect();
    assert_eq!(told, saved);
    let asked = agent.request("get_entries", json!({}))["data"].clone();
    assert_eq!(asked["entries"].as_array().expect("list")[..], entries[1..]);
    assert_eq!(asked["leafId"], parent);
    let since = agent.request("get_entries", json!({"since": entries[3]["id"]}));
    assert_eq!(
        since["data"]["entries"].as_array().expect("list")[..],
        entries[4..]
    );
    let bad = agent.request("get_entries", json!({"since": "nope"}));
    assert_eq!(bad["error"], "Entry not found: nope");
}

#[test]
fn a_revived_agent_goes_on_where_it_was() {
    // R-LIFE-10
    let stage = Stage::new();
    let mut first = stage.agent(&["--model", "deep:low", "--name", "Fix"]);
    first.run("fix the failing test");
    let stats = first.request("get_session_stats", json!({}))["data"].clone();
    first.close_stdin();
    first.wait_exit();
    let file = stage.session_file();
    let before = fs::read_to_string(&file).expect("session");

    let path = file.display().to_string();
    let mut again = stage.bare_agent(&["--session", &path]);
    let state = again.request("get_state", json!({}))["data"].clone();
    assert_eq!(state["sessionId"], "agent-1");
    assert_eq!(state["sessionName"], "Fix");
    assert_eq!(state["model"]["id"], "deep");
    assert_eq!(state["thinkingLevel"], "low");
    assert_eq!(again.request("get_session_stats", json!({}))["data"], stats);

    let run = again.run("now document it, please");
    assert!(
        !run.iter().any(|r| r["message"]["role"] == "system"),
        "only once"
    );
    let spoken: String = run
        .iter()
        .filter(|r| r["type"] == "message_end" && r["message"]["role"] == "assistant")
        .map(|record| message_text(&record["message"]))
        .collect();
    assert!(spoken.contains("“fix the failing test”"), "{spoken}");
    assert!(spoken.contains("All 24 tests pass"), "{spoken}");

    let after = fs::read_to_string(&file).expect("session");
    assert!(after.starts_with(&before), "it only appends");
    let chain = entries(&after);
    for pair in chain[1..].windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
}

#[test]
fn the_same_id_in_the_same_folder_is_the_same_session() {
    // get-or-create, pi-facts §5
    let stage = Stage::new();
    for messages in ["find it", "look again"] {
        let mut agent = stage.agent(&["--name", "same"]);
        agent.run(messages);
        agent.close_stdin();
        agent.wait_exit();
    }
    let saved = entries(&fs::read_to_string(stage.session_file()).expect("session"));
    let count = |kind: &str| saved.iter().filter(|entry| entry["type"] == kind).count();
    assert_eq!((count("session"), count("session_info")), (1, 1));
}

#[test]
fn an_agent_killed_in_the_middle_remembers_that() {
    let stage = Stage::slow();
    let mut agent = stage.agent(&[]);
    agent.prompt("find all dates");
    agent.wait_record("some text", |record| {
        record["assistantMessageEvent"]["type"] == "text_delta"
    });
    drop(agent);
    // As a crash in the middle of a write would leave it.
    let file = stage.session_file();
    let mut text = fs::read_to_string(&file).expect("session");
    text.push_str("{\"type\":\"message\",\"id\":\"torn");
    fs::write(&file, text).expect("write");

    let fast = Stage {
        pace: "0.02",
        ..stage
    };
    let mut again = fast.agent(&[]);
    let run = again.run("go on");
    let spoken: String = run
        .iter()
        .filter(|r| r["type"] == "message_end" && r["message"]["role"] == "assistant")
        .map(|record| message_text(&record["message"]))
        .collect();
    assert!(
        spoken.contains("was stopped before I could report"),
        "{spoken}"
    );
    assert_eq!(last_answer(&run)["stopReason"], "stop");
    let text = fs::read_to_string(&file).expect("session");
    let broken = text
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_err())
        .count();
    assert_eq!(broken, 1, "only the torn line");
}

#[test]
fn without_a_folder_nothing_is_written() {
    let stage = Stage::new();
    let mut agent = stage.bare_agent(&[]);
    assert!(agent.request("get_state", json!({}))["data"]["sessionFile"].is_null());
    agent.run("continue");
    for dir in [
        stage.sandbox.home(),
        stage.sandbox.agent_dir(),
        stage.sandbox.work(),
    ] {
        assert_eq!(
            fs::read_dir(&dir).expect("folder").count(),
            0,
            "{}",
            dir.display()
        );
    }
}

#[test]
fn a_session_that_cannot_be_read_is_an_error() {
    let stage = Stage::new();
    let work = stage.sandbox.work().display().to_string();
    let mut agent = stage.bare_agent(&["--session", &work]);
    assert_eq!(agent.wait_exit().code(), Some(1));
    assert!(agent.stderr().starts_with("Error: "), "{}", agent.stderr());
    assert!(agent.lines().is_empty(), "nothing on stdout");
}
