//! A person beside a Pi session: side chats, answers handed on, stops and aborts of its agents, with
//! the shell verbs. What each model received is read from the model server.

use serde_json::{Value, json};

use super::{Parent, spawn};
use crate::support::core::verb;
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// Runs a verb in the folder of the session; its answer.
#[track_caller]
fn run(parent: &Parent, args: &[&str]) -> Value {
    let output = verb(&parent.pi, &[args, &["--json"]].concat());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(output.status.success(), "{args:?}: {said} {output:?}");
    said
}

/// Waits until the agent is as said after so many runs.
#[track_caller]
fn wait_agent(parent: &Parent, state: &str, runs: u64) {
    wait::wait_for_or(
        &format!("@max {state} after {runs} runs"),
        || {
            let list = run(parent, &["ps"]);
            let row = list["others"][0]["agents"].get(0)?.clone();
            let is = row["status"]["state"] == state && row["runs_ended"] == runs;
            (is && row["closing"] == false).then_some(())
        },
        || format!("{:#}", run(parent, &["ps"])),
    );
}

/// A session whose agent @max has given its first answer, and which has read it.
fn with_agent(version: Version, later: impl IntoIterator<Item = Turn>) -> Parent {
    let mut parent = Parent::start(version);
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true)),
            Turn::say("started"),
            Turn::say("thank you"),
            Turn::say("thank you again"),
            Turn::say("and again"),
        ],
    );
    let turns = [Turn::say("the report")].into_iter().chain(later);
    parent.model.on("part one", turns);
    parent.rpc.run("/skill:pi-subagents-workflow the whole");
    wait_replies(&parent, 1);
    wait_agent(&parent, "idle", 1);
    wait_idle(&mut parent);
    parent
}

fn wait_idle(parent: &mut Parent) {
    wait::wait_until("the session to be idle", || {
        parent.rpc.request("get_state", json!({}))["data"]["isStreaming"] == false
    });
}

/// Results among all that the session's model ever received.
fn replies(parent: &Parent) -> Vec<Value> {
    let requests = parent.asked("the whole");
    requests.last().map(Parent::replies).unwrap_or_default()
}

#[track_caller]
fn wait_replies(parent: &Parent, count: usize) -> Vec<Value> {
    wait::wait_for(&format!("{count} results"), || {
        let all = replies(parent);
        (all.len() >= count).then_some(all)
    })
}

/// The session's next request shows all that it was told: an answer of another agent comes last.
#[track_caller]
fn all_told(parent: &mut Parent) -> Vec<Value> {
    wait_idle(parent);
    parent.model.on_last("look here", Turn::say("nothing new"));
    let before = parent.asked("the whole").len();
    let from = parent.rpc.records().len();
    parent.rpc.prompt("look here");
    parent.rpc.wait_settled(from);
    assert_eq!(parent.asked("the whole").len(), before + 1);
    replies(parent)
}

#[test]
fn a_side_chat_stays_private_and_what_is_handed_on_arrives_once() {
    // R-DELIV-07, R-DELIV-08, R-DELIV-13, R-DELIV-14
    for version in Version::ALL {
        let later = [
            Turn::say("my secret"),
            Turn::say("the second secret"),
            Turn::say("the answer"),
        ];
        let mut parent = with_agent(version, later);
        run(&parent, &["send", "max", "--side-chat", "between", "us"]);
        wait_agent(&parent, "idle", 2);
        let child = |parent: &Parent| parent.asked("part one").pop().unwrap();
        assert_eq!(child(&parent).last_user_text(), "between us", "no prefix");
        // Also one that has to be brought back for it.
        run(&parent, &["stop", "max"]);
        run(&parent, &["send", "max", "--side-chat", "still between us"]);
        wait_agent(&parent, "idle", 3);
        let told = all_told(&mut parent);
        assert_eq!(told.len(), 1, "{version:?}: {told:?}");
        let said = |parent: &Parent, word: &str| {
            let requests = parent.asked("the whole");
            requests.iter().any(|r| r.body.to_string().contains(word))
        };
        assert!(!said(&parent, "secret") && !said(&parent, "between us"));

        run(&parent, &["send", "max", "--continue"]);
        wait_replies(&parent, 2);
        wait_agent(&parent, "idle", 4);
        assert_eq!(
            child(&parent).last_user_text(),
            "Continue the assigned task and return the result."
        );
        let told = all_told(&mut parent);
        assert_eq!(told.len(), 2, "{version:?}: {told:?}");
        assert_eq!(told[1]["result"], "the answer");
        assert_eq!(told[1]["status"], "completed");
        assert!(!said(&parent, "secret") && !said(&parent, "between us"));
    }
}

#[test]
fn a_run_of_a_side_chat_that_is_handed_on_while_it_goes_on_arrives_once() {
    // R-DELIV-14
    for version in Version::ALL {
        let gate = Gate::new();
        let later = [Turn::new().gate(&gate).text("half"), Turn::say("all of it")];
        let mut parent = with_agent(version, later);
        run(&parent, &["send", "max", "--side-chat", "between us"]);
        gate.wait_arrival("the side chat's request");
        let said = run(&parent, &["send", "max", "--continue", "for the session"]);
        assert_eq!(said["steered"], true);
        gate.open();
        wait_replies(&parent, 2);
        wait_agent(&parent, "idle", 2);
        let told = all_told(&mut parent);
        assert_eq!(told.len(), 2, "{version:?}: {told:?}");
        assert_eq!(told[1]["result"], "all of it");
    }
}

#[test]
fn a_command_the_agent_does_not_have_never_reaches_its_model() {
    // R-DELIV-14
    for version in Version::ALL {
        let parent = with_agent(version, [Turn::say("fine")]);
        for how in ["--side-chat", "--continue"] {
            let output = verb(&parent.pi, &["send", "max", how, "/deploy", "now"]);
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{words}");
            assert!(words.contains("has no command /deploy"), "{words}");
        }
        // With a space before it, it is text.
        run(&parent, &["send", "max", "--side-chat", " /deploy now"]);
        wait_agent(&parent, "idle", 2);
        let asked = parent.asked("part one");
        assert_eq!(asked.len(), 2, "{version:?}");
        assert_eq!(asked[1].last_user_text().trim(), "/deploy now");
    }
}

#[test]
fn a_stop_of_the_person_is_told_once_and_only_if_an_answer_is_owed() {
    // R-DELIV-06
    for version in Version::ALL {
        let gate = Gate::new();
        let later = [Turn::hang(), Turn::new().gate(&gate).text("late")];
        let mut parent = with_agent(version, later);
        // In a side chat nothing is owed.
        run(&parent, &["send", "max", "--side-chat", "between us"]);
        wait_agent(&parent, "running", 1);
        run(&parent, &["stop", "max"]);
        assert_eq!(all_told(&mut parent).len(), 1, "{version:?}");
        // Owed: the session is told once.
        run(&parent, &["send", "max", "--continue"]);
        gate.wait_arrival("the owed request");
        run(&parent, &["stop", "max"]);
        run(&parent, &["stop", "max"]);
        let told = wait_replies(&parent, 2);
        assert_eq!(told[1]["status"], "stopped", "{told:?}");
        let told = all_told(&mut parent);
        assert_eq!(told.len(), 2, "{version:?}: {told:?}");
        gate.open();
    }
}

#[test]
fn an_abort_of_the_person_keeps_the_agent_and_is_told_once() {
    // R-DELIV-16, R-LIFE-15
    for version in Version::ALL {
        let mut parent = with_agent(version, [Turn::hang(), Turn::say("again")]);
        run(&parent, &["send", "max", "--continue"]);
        parent.model.wait_request("the owed request", |requests| {
            let of_child = requests
                .iter()
                .filter(|r| r.first_user_text().contains("part one"));
            (of_child.count() == 2).then_some(())
        });
        let pid = |parent: &Parent| run(parent, &["ps"])["others"][0]["agents"][0]["pid"].clone();
        let before = pid(&parent);
        abort(&parent);
        let told = wait_replies(&parent, 2);
        assert_eq!(
            (&told[1]["status"], &told[1]["idle"]),
            (&json!("stopped"), &json!(true))
        );
        assert!(
            told[1]["result"]
                .as_str()
                .unwrap()
                .starts_with("stopped by the user")
        );
        wait_agent(&parent, "idle", 2);
        assert_eq!(pid(&parent), before, "its process stays");
        let told = all_told(&mut parent);
        assert_eq!(told.len(), 2, "{version:?}: {told:?}");
        // It goes on.
        run(&parent, &["send", "max", "--side-chat", "go on"]);
        wait_agent(&parent, "idle", 3);
    }
}

/// No verb aborts: the request of a screen does.
fn abort(parent: &Parent) {
    use pi_agents::client::{AgentRef, FleetClient, Reply, Request};
    use pi_agents::control::client::connect;
    use pi_agents::control::protocol::Role;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = parent.pi.sandbox.runtime().join("pi-agents");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let socket = files
            .map(|f| f.path())
            .find(|path| path.extension().is_some_and(|e| e == "sock"));
        let socket = socket.expect("the session's socket");
        let client = connect(&socket, Role::Cli).await.unwrap();
        let agent = AgentRef::Name("max".to_owned());
        let reply = client.request(Request::Abort { agent }).await;
        assert!(matches!(reply, Ok(Reply::Aborted { .. })), "{reply:?}");
    });
}
