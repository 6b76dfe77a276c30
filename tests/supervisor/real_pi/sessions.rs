//! Session files: what our own Pi writes is never taken for another's, and another's is (R-LIFE-10).

use std::path::{Path, PathBuf};

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{EntryKind, Level, ToolState};
use serde_json::{Value, json};

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// An extension that writes whatever Pi lets it write, whenever it can.
const WRITER: &str = r#"
export default function (pi) {
  const note = (when, ctx) => {
    pi.appendEntry("writer", { when });
    const leaf = ctx.sessionManager.getLeafId();
    if (leaf) pi.setLabel(leaf, when);
  };
  const say = (when) =>
    pi.sendMessage({ customType: "writer", content: when, display: true }, { triggerTurn: false });
  pi.on("session_start", async (_event, ctx) => { note("start", ctx); say("start"); });
  pi.on("turn_end", async (_event, ctx) => note("turn", ctx));
  pi.on("agent_end", async (_event, ctx) => { note("end", ctx); pi.setSessionName("named"); });
  pi.on("agent_settled", async (_event, ctx) => { note("settled", ctx); say("settled"); });
  pi.on("session_shutdown", async (_event, ctx) => {
    note("shutdown", ctx);
    say("shutdown");
    // What is written from here on is announced to nobody.
    pi.sendUserMessage("last words");
    await new Promise((done) => setTimeout(done, 150));
  });
}
"#;

/// What is said of its session.
fn warnings(core: &Core, name: &str) -> Vec<String> {
    let entries = core.entries(name).into_iter();
    entries
        .filter_map(|e| match e.kind {
            EntryKind::Notice { level, text }
                if level == Level::Warning && text.contains("session") =>
            {
                Some(text)
            }
            _ => None,
        })
        .collect()
}

/// Kinds of the entries in a session file, a message's role instead.
fn kinds(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines
        .map(|l| {
            let kind = l["message"]["role"].as_str().or_else(|| l["type"].as_str());
            kind.unwrap().to_owned()
        })
        .collect()
}

fn idle(core: &Core, name: &str, runs: u64) -> PathBuf {
    let row = core.wait_agent(name, &format!("idle after {runs} run(s)"), |a| {
        a.status == Status::Idle && a.runs_ended == runs
    });
    row.session_path.unwrap()
}

/// Runs, stops at rest and in a run, and revivals, with an extension that writes a lot.
fn our_own_writing(version: Version) {
    let model = ModelServer::start();
    model.on_last("fail", Turn::error(429, "slow down"));
    model.answer(|request| {
        let text = request.last_user_text();
        if text.contains("long") {
            return Some(Turn::call("bash", json!({"command": "sleep 300"})));
        }
        let called = request
            .messages()
            .last()
            .is_some_and(|m| m["role"] == "tool");
        Some(if called || !text.contains("tool") {
            Turn::say("done")
        } else {
            Turn::call("bash", json!({"command": "echo one"}))
        })
    });
    let pi = HermeticPi::new(version, &model);
    let extensions = pi.sandbox.agent_dir().join("extensions");
    std::fs::create_dir_all(&extensions).unwrap();
    std::fs::write(extensions.join("writer.ts"), WRITER).unwrap();
    let core = Core::start(&pi);
    let name = core.spawn("a tool");
    let session = idle(&core, &name, 1);
    core.send(&name, "another tool");
    idle(&core, &name, 2);
    core.stop(&name);
    core.send(&name, "a tool again");
    idle(&core, &name, 3);
    // In the middle of a call.
    core.send(&name, "long");
    core.wait_entries(&name, "the call runs", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Tool(t) if t.state == ToolState::Running))
            .then_some(())
    });
    core.stop(&name);
    core.send(&name, "back");
    let row = core.wait_agent(&name, "idle again", |a| a.status == Status::Idle);
    core.stop(&name);
    core.send(&name, "and back");
    idle(&core, &name, row.runs_ended + 1);
    // A run that fails after several attempts: its process is replaced.
    core.send(&name, "fail");
    core.wait_agent(&name, "failed and gone", |a| {
        matches!(a.status, Status::Failed { .. }) && a.pid.is_none()
    });
    core.send(&name, "a tool after all");
    idle(&core, &name, row.runs_ended + 3);
    assert_eq!(
        warnings(&core, &name),
        Vec::<String>::new(),
        "{:#?}",
        kinds(&session)
    );
    // It did write all that.
    let kinds = kinds(&session);
    for kind in [
        "custom",
        "custom_message",
        "label",
        "session_info",
        "model_change",
        "toolResult",
    ] {
        assert!(kinds.iter().any(|k| k == kind), "no {kind} in {kinds:?}");
    }
    let text = std::fs::read_to_string(&session).unwrap();
    assert!(text.contains("last words"), "written and never announced");
    assert!(
        text.contains("\"when\":\"shutdown\""),
        "the end was written"
    );
}

#[test]
fn what_our_own_pi_and_its_extensions_write_is_no_other_writer() {
    our_own_writing(Version::Newest);
}

#[test]
fn nor_what_the_oldest_pi_writes() {
    // R-PI-06
    our_own_writing(Version::Oldest);
}

/// Another Pi takes up the session of an agent that rests.
fn another_pi(version: Version) {
    let model = ModelServer::start();
    model.on_last("from the agent", Turn::say("mine"));
    model.on_last("from elsewhere", Turn::say("theirs"));
    let pi = HermeticPi::new(version, &model);
    let core = Core::start(&pi);
    let name = core.spawn("one from the agent");
    let session = idle(&core, &name, 1);
    let mut other = pi.rpc(&["--session", session.to_str().unwrap()]);
    other.run("one from elsewhere");
    core.send(&name, "two from the agent");
    idle(&core, &name, 2);
    other.run("two from elsewhere");
    other.close_stdin();
    other.wait_exit();
    let before = std::fs::read(&session).unwrap();
    core.stop(&name);
    let text = wait::wait_for("the report", || warnings(&core, &name).pop());
    assert!(
        text.contains("another program wrote this session")
            && text.contains(session.to_str().unwrap()),
        "{text}"
    );
    assert_eq!(std::fs::read(&session).unwrap(), before, "never repaired");
}

#[test]
fn another_pi_on_the_same_session_is_reported() {
    another_pi(Version::Newest);
}

#[test]
fn another_pi_of_the_oldest_version_is_reported_too() {
    // R-PI-06
    another_pi(Version::Oldest);
}
