//! A person's shell verbs on the agents of a Pi session: what the agent is given, and what the
//! session is told of it.

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::which::{FIRST, json_of, run};
use crate::support::fake::FakePi;
use crate::support::wait;

/// What was offered so far.
fn told(bridge: &Bridge) -> Vec<Value> {
    let offers = bridge.offers();
    let all = offers.iter().filter_map(|o| o["deliveries"].as_array());
    all.flatten()
        .map(|d| serde_json::from_str(d["content"].as_str().unwrap()).unwrap())
        .collect()
}

/// All that was ever offered: whatever comes later than this marker is not of before.
#[track_caller]
fn all_told(bridge: &mut Bridge) -> Vec<Value> {
    bridge.spawn("fake:say marker");
    bridge.wait("the marker", |seen| {
        let text = serde_json::to_string(seen).unwrap();
        text.contains("\\\"marker\\\"").then_some(())
    });
    let mut all = told(bridge);
    all.retain(|reply| reply["result"] != "marker");
    all
}

/// Waits until the agent is as said; its row.
#[track_caller]
fn wait_state(pi: &FakePi, name: &str, state: &str, runs: u64) -> Value {
    wait::wait_for(&format!("@{name} {state} after {runs} runs"), || {
        let (_, list) = json_of(pi, &["ps"]);
        let rows = list["others"][0]["agents"].as_array()?;
        let row = rows.iter().find(|r| r["name"] == name)?;
        let is = row["status"]["state"] == state && row["runs_ended"] == runs;
        (is && row["closing"] == false).then(|| row.clone())
    })
}

/// A session that is busy, so that what is told comes as it is.
fn session(pi: &FakePi) -> Bridge {
    let mut bridge = Bridge::start(pi, FIRST);
    bridge.state("busy");
    bridge
}

#[track_caller]
fn send(pi: &FakePi, args: &[&str]) -> Value {
    let (code, said) = json_of(pi, &[&["send"], args].concat());
    assert_eq!(code, 0, "{args:?}: {said}");
    said
}

/// The same while the session answers what it is asked about launches.
#[track_caller]
fn send_back(pi: &FakePi, bridge: &mut Bridge, args: &[&str]) -> (i32, Value) {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| json_of(pi, &[&["send"], args].concat()));
        bridge.wait("the verb to end", |_| sending.is_finished().then_some(()));
        sending.join().unwrap()
    })
}

fn texts(pi: &FakePi) -> Vec<String> {
    let prompts = pi.commands("prompt");
    prompts
        .iter()
        .map(|p| p["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn who_gets_the_answer_has_to_be_said() {
    // R-DELIV-07, R-DELIV-14: a wrong guess costs a run, or an answer
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    let (code, out, err) = run(&pi, &["send", &name, "hello"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("--side-chat") && err.contains("--continue") && err.contains(FIRST),
        "{err}"
    );
    let (code, _, err) = run(&pi, &["send", &name]);
    assert_eq!(code, 2, "{err}");
    let both = ["send", &name, "--side-chat", "--continue", "hello"];
    assert_eq!(run(&pi, &both).0, 2);
    assert_eq!(run(&pi, &["send", &name, "--side-chat"]).0, 2, "no text");
    assert_eq!(texts(&pi), ["fake:say report"]);
}

#[test]
fn a_side_chat_stays_between_the_person_and_the_agent() {
    // R-DELIV-07, R-DELIV-13, R-LIFE-10
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    wait_state(&pi, &name, "idle", 1);
    let said = send(&pi, &[&name, "--side-chat", "fake:say", "secret"]);
    assert_eq!(
        (&said["revived"], &said["steered"]),
        (&json!(false), &json!(false))
    );
    wait_state(&pi, &name, "idle", 2);
    assert_eq!(texts(&pi)[1], "fake:say secret", "no prefix");
    // Also when it has to be brought back for it.
    assert_eq!(run(&pi, &["stop", &name]).0, 0);
    let args = [name.as_str(), "fake:say secret two", "--side-chat"];
    let (_, said) = send_back(&pi, &mut bridge, &args);
    assert_eq!(said["revived"], true, "{said}");
    wait_state(&pi, &name, "idle", 3);
    let told = all_told(&mut bridge);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["result"], "report");
}

#[test]
fn a_side_chat_within_an_owed_run_keeps_the_answer_owed() {
    // R-DELIV-07
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let file = pi.sandbox.root().join("go");
    let name = bridge.spawn(&format!("fake:wait {} ;; say report", file.display()));
    let said = send(&pi, &[&name, "--side-chat", "and", "hello"]);
    assert_eq!(said["steered"], true);
    std::fs::write(&file, "").unwrap();
    bridge.wait_deliveries(1);
    let told = all_told(&mut bridge);
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Brings an agent into a state, then hands its next answer on: exactly one completion more.
#[track_caller]
fn handed_on(prepare: impl Fn(&FakePi, &mut Bridge) -> (String, u64), text: Option<&str>) {
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let (name, runs) = prepare(&pi, &mut bridge);
    let before = all_told(&mut bridge).len();
    let mut args = vec![name.as_str(), "--continue"];
    args.extend(text);
    let (code, said) = send_back(&pi, &mut bridge, &args);
    assert_eq!(code, 0, "{said}");
    wait_state(&pi, &name, "idle", runs + 1);
    let told = all_told(&mut bridge);
    assert_eq!(told.len(), before + 1, "{told:?}");
    let last = told.last().unwrap();
    assert_eq!(last["agent_id"], name.as_str());
    assert_eq!(last["status"], "completed", "{last}");
    let written = texts(&pi);
    let wanted = text.unwrap_or("Continue the assigned task and return the result.");
    assert!(written.iter().any(|t| t == wanted), "{written:?}");
}

#[test]
fn continue_hands_the_answer_of_an_idle_agent_to_the_session_once() {
    // R-DELIV-14
    let idle = |pi: &FakePi, bridge: &mut Bridge| {
        let name = bridge.spawn("fake:say report");
        wait_state(pi, &name, "idle", 1);
        send(pi, &[&name, "--side-chat", "fake:say secret"]);
        wait_state(pi, &name, "idle", 2);
        (name, 2)
    };
    handed_on(idle, None);
    handed_on(idle, Some("fake:say the answer"));
}

#[test]
fn continue_hands_on_the_run_of_a_side_chat_that_is_going_on() {
    // R-DELIV-14: it joins the run, and the run is owed from then on
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    wait_state(&pi, &name, "idle", 1);
    let file = pi.sandbox.root().join("go");
    let text = format!("fake:wait {}", file.display());
    send(&pi, &[&name, "--side-chat", &text]);
    wait_state(&pi, &name, "running", 1);
    let said = send(&pi, &[&name, "--continue", "go on"]);
    assert_eq!(said["steered"], true);
    std::fs::write(&file, "").unwrap();
    wait_state(&pi, &name, "idle", 2);
    let told = all_told(&mut bridge);
    let told: Vec<_> = told.iter().map(|t| &t["result"]).collect();
    assert_eq!(told, ["report", "ack: go on"]);
}

#[test]
fn continue_brings_a_failed_and_a_stopped_agent_back() {
    // R-DELIV-14, R-LIFE-10
    handed_on(
        |pi, bridge| {
            let name = bridge.spawn("fake:error broken");
            wait_state(pi, &name, "failed", 1);
            (name, 1)
        },
        None,
    );
    handed_on(
        |pi, bridge| {
            let name = bridge.spawn("fake:say report");
            wait_state(pi, &name, "idle", 1);
            assert_eq!(run(pi, &["stop", &name]).0, 0);
            (name, 1)
        },
        None,
    );
}

#[test]
fn continue_brings_a_saved_agent_of_the_session_back() {
    // R-DELIV-14: one of an earlier core
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    wait_state(&pi, &name, "idle", 1);
    let offers = bridge.wait_deliveries(1);
    bridge.take(&offers[0]);
    bridge.hang_up();
    bridge.wait_exit();
    let mut bridge = session(&pi);
    let args = [name.as_str(), "--continue", "fake:say the answer"];
    let (_, said) = send_back(&pi, &mut bridge, &args);
    assert_eq!(said["revived"], true, "{said}");
    bridge.wait_deliveries(1);
    let told = all_told(&mut bridge);
    let told: Vec<_> = told.iter().map(|t| &t["result"]).collect();
    assert_eq!(told, ["the answer"]);
}

#[test]
fn a_command_the_agent_does_not_have_is_refused_and_not_sent_as_text() {
    // R-DELIV-14
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    wait_state(&pi, &name, "idle", 1);
    for how in ["--side-chat", "--continue"] {
        for text in ["/unknown fake:say x", "/continue", "/knowne"] {
            let (code, said) = json_of(&pi, &["send", &name, how, text]);
            assert_eq!(code, 2, "{said}");
            let (what, way) = (&said["error"]["message"], &said["error"]["hint"]);
            let what = what.as_str().unwrap();
            assert!(what.contains("has no command /"), "{what}");
            assert!(way.as_str().unwrap().contains("/known"), "{way}");
        }
    }
    assert_eq!(texts(&pi).len(), 1, "nothing was written");
    // What it has is run, a path is text, and so is what begins with a space.
    let sent = ["/known fake:handled 1", "/etc/hosts is wrong", " /unknown"];
    for text in sent {
        send(&pi, &[&name, "--side-chat", text]);
    }
    assert_eq!(texts(&pi)[1..], sent);
    wait_state(&pi, &name, "idle", 3);
    // One that is brought back for it is idle afterwards.
    assert_eq!(run(&pi, &["stop", &name]).0, 0);
    let args = [name.as_str(), "--side-chat", "/unknown"];
    let (code, said) = send_back(&pi, &mut bridge, &args);
    assert_eq!(code, 2, "{said}");
    wait_state(&pi, &name, "idle", 3);
    // The parent's words always carry its name, so that they are never a command.
    let result = bridge.tool("agent_send", json!({"to": name, "message": "/unknown"}));
    assert_eq!(result["isError"], false, "{result}");
}

#[test]
fn a_stop_of_the_person_is_told_once_and_only_if_an_answer_is_owed() {
    // R-DELIV-06
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let owed = bridge.spawn("fake:hang");
    assert_eq!(run(&pi, &["stop", &owed]).0, 0);
    bridge.wait_deliveries(1);
    assert_eq!(run(&pi, &["stop", &owed]).0, 0, "a second one does nothing");
    // An idle one stops silently, and so does one in a side chat.
    let idle = bridge.spawn("fake:say report");
    wait_state(&pi, &idle, "idle", 1);
    send(&pi, &[&idle, "--side-chat", "fake:hang"]);
    wait_state(&pi, &idle, "running", 1);
    assert_eq!(run(&pi, &["stop", &idle]).0, 0);
    let told = all_told(&mut bridge);
    let told: Vec<_> = told
        .iter()
        .map(|t| (&t["agent_id"], &t["status"]))
        .collect();
    let one = (&json!(owed), &json!("stopped"));
    let two = (&json!(idle), &json!("completed"));
    assert_eq!(told, [one, two]);
}

#[test]
fn an_abort_of_the_person_keeps_the_agent_and_is_told_once() {
    // R-DELIV-16, R-LIFE-15
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:hang");
    let aborted = bridge.request("agent/abort", json!({"agent": name}));
    assert!(aborted.get("result").is_some(), "{aborted}");
    let row = wait_state(&pi, &name, "idle", 1);
    assert!(row["pid"].is_number(), "its process stays");
    // The run of a side chat is nobody's.
    send(&pi, &[&name, "--side-chat", "fake:hang"]);
    wait_state(&pi, &name, "running", 1);
    bridge.request("agent/abort", json!({"agent": name}));
    wait_state(&pi, &name, "idle", 2);
    let told = all_told(&mut bridge);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["status"], "stopped");
    assert_eq!(told[0]["idle"], true);
    let result = told[0]["result"].as_str().unwrap();
    assert!(result.starts_with("stopped by the user"), "{result}");
}

#[test]
fn after_a_side_chat_what_the_agent_does_by_itself_is_private_until_the_session_asks() {
    // R-DELIV-08
    let pi = FakePi::new();
    let mut bridge = session(&pi);
    let name = bridge.spawn("fake:say report");
    wait_state(&pi, &name, "idle", 1);
    // An extension's command counts as input of the person.
    send(&pi, &[&name, "--side-chat", "/known fake:handled 1"]);
    send(&pi, &[&name, "--side-chat", "fake:say secret"]);
    wait_state(&pi, &name, "idle", 2);
    let result = bridge.tool(
        "agent_send",
        json!({"to": name, "message": "fake:say again"}),
    );
    assert_eq!(result["isError"], false, "{result}");
    wait_state(&pi, &name, "idle", 3);
    let told = all_told(&mut bridge);
    let told: Vec<_> = told.iter().map(|t| &t["result"]).collect();
    assert_eq!(told, ["report", "again"]);
}

#[test]
fn to_an_agent_of_ones_own_both_are_a_plain_message() {
    // For the person as host nothing is private
    let pi = FakePi::new();
    let core = crate::support::core::Core::start(&pi);
    let name = core.spawn("fake:say report");
    for args in [
        &["one", "--side-chat"][..],
        &["two", "--continue"],
        &["three"],
        &["--continue"],
    ] {
        send(&pi, &[&[name.as_str()], args].concat());
    }
    let last = "Continue the assigned task and return the result.";
    assert_eq!(texts(&pi)[1..], ["one", "two", "three", last]);
}
