//! Scripted agents under the real supervisor: a core that plays the demo, driven from a shell. R-OPS-03: they
//! answer, are steered, stopped and revived like any other, and are labelled as what they are.

use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::Stage;
use crate::support::processes;
use crate::support::wait;

/// A core of the sandbox's work folder that plays the demo.
struct Fleet {
    stage: Stage,
    serve: Child,
}

impl Fleet {
    fn start() -> Self {
        let stage = Stage {
            pace: "0.15",
            ..Stage::new()
        };
        let serve = command(&stage, &["serve", "--demo"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the core starts");
        let fleet = Self { stage, serve };
        wait::wait_until("the core to answer", || {
            fleet.run(&["ps", "--json"]).status.success()
        });
        fleet
    }

    fn run(&self, args: &[&str]) -> Output {
        command(&self.stage, args).output().expect("it runs")
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "{args:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn agent(&self, name: &str) -> Value {
        let fleet = self.json(&["ps", "--json"]);
        let agents = fleet["agents"].as_array().expect("a list").clone();
        let found = agents.into_iter().find(|agent| agent["name"] == name);
        found.expect("the agent")
    }

    #[track_caller]
    fn wait_state(&self, name: &str, state: &str) -> Value {
        wait::wait_for(&format!("{name} to be {state}"), || {
            Some(self.agent(name)).filter(|agent| agent["status"]["state"] == state)
        })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The sandbox ends whatever it was; here only the zombie is taken away.
        processes::kill(&self.stage.sandbox.processes());
        let _ = self.serve.wait();
    }
}

fn command(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pi-agents"));
    command
        .args(args)
        .env_clear()
        .envs(stage.sandbox.env(None))
        .env("PI_AGENTS_DEMO_PACE", stage.pace)
        .current_dir(stage.sandbox.work());
    command
}

#[test]
fn agents_work_are_steered_stopped_and_revived() {
    let mut fleet = Fleet::start();
    let spawned = fleet.json(&["spawn", "--json", "fix the failing tests"]);
    let name = spawned["name"].as_str().expect("a name").to_owned();
    let row = fleet.agent(&name);
    assert_eq!(row["demo"], true, "labelled");
    assert_eq!(row["status"]["state"], "running");
    fleet.json(&["send", "--json", &name, "use tabs"]);
    let row = fleet.wait_state(&name, "idle");
    assert_eq!(row["model"], "demo/swift");
    assert!(row["tool_uses"].as_u64().expect("a number") >= 4);
    assert!(row["usage"]["cost"].as_f64().expect("money") > 0.0);
    let session = row["session_path"].as_str().expect("a session").to_owned();
    let saved = std::fs::read_to_string(&session).expect("session");
    assert!(saved.contains("Understood: “use tabs”"), "{saved}");

    // Stopped in the middle of a tool, and nothing of it is left.
    fleet.json(&["send", "--json", &name, "run the tests again"]);
    fleet.wait_state(&name, "running");
    fleet.json(&["stop", "--json", &name]);
    assert_eq!(fleet.agent(&name)["status"]["by"], "you");
    let left = fleet.stage.sandbox.processes();
    let tools = left.iter().filter(|process| {
        let is = |word: &str| process.args.iter().any(|arg| arg == word);
        is("demo-agent") || is("-c")
    });
    assert_eq!(tools.count(), 0, "{left:?}");

    fleet.json(&["send", "--json", &name, "continue"]);
    let row = fleet.wait_state(&name, "idle");
    assert_eq!(row["session_path"], session, "R-LIFE-10: the same session");
    let saved = std::fs::read_to_string(&session).expect("session");
    assert!(
        saved.contains("was stopped before I could report"),
        "{saved}"
    );

    fleet.json(&["shutdown", "--json"]);
    wait::wait_until("the core to end", || {
        fleet.serve.try_wait().expect("own child").is_some()
    });
    wait::wait_until("nothing to be left", || {
        fleet.stage.sandbox.processes().is_empty()
    });
}

#[test]
fn an_outage_fails_the_row_with_its_reason() {
    let fleet = Fleet::start();
    let spawned = fleet.json(&["spawn", "--json", "see what the provider says"]);
    let name = spawned["name"].as_str().expect("a name");
    wait::wait_until("a retry on the row", || {
        fleet.agent(name)["retry"]["attempt"].as_u64() >= Some(2)
    });
    let row = fleet.wait_state(name, "failed");
    let reason = row["status"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("503"), "{reason}");
    assert_eq!(row["runs_ended"], 1, "one end");
}

#[test]
fn a_question_shows_on_the_row() {
    let fleet = Fleet::start();
    let spawned = fleet.json(&["spawn", "--json", "refactor the stock module"]);
    let name = spawned["name"].as_str().expect("a name");
    let dialogs = wait::wait_for("the question", || {
        let dialogs = fleet.agent(name)["dialogs"].as_array().cloned();
        dialogs.filter(|dialogs| !dialogs.is_empty())
    });
    assert_eq!(dialogs[0]["method"], "select");
    assert_eq!(dialogs[0]["options"].as_array().expect("choices").len(), 3);
}
