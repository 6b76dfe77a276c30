//! The same faults with a real Pi, as far as the fake could be wrong about it.

use std::time::{Duration, Instant};

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{EntryKind, ToolState};
use rustix::process::Signal;
use serde_json::json;

use super::super::fake_pi::{FAST_LADDER, is_failed, reason, stopped_by_you};
use super::disk::SmallDisk;
use super::files::NoFiles;
use super::{Rng, with_seeds};
use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Gate, ModelServer, Turn};
use crate::support::processes::{self, signal};
use crate::support::versions::Version;
use crate::support::wait;

struct Scene {
    core: Core,
    pi: HermeticPi,
    model: ModelServer,
    name: String,
    child: u32,
}

impl Scene {
    /// An agent whose run goes on for a second: a tool, then text in pieces.
    fn new() -> Self {
        let model = ModelServer::start();
        let mut text = Turn::new();
        for _ in 0..10 {
            text = text.text("piece ").pause(Duration::from_millis(20));
        }
        model.on(
            "work",
            [
                Turn::call("bash", json!({"command": "sleep 0.3; echo of the tool"})),
                text,
                Turn::say("of the third turn"),
            ],
        );
        let pi = HermeticPi::new(Version::Newest, &model);
        let core = Core::start_with(&pi, FAST_LADDER);
        let name = core.spawn("work");
        let child = core
            .wait_agent(&name, "it runs", |a| a.pid.is_some())
            .pid
            .unwrap();
        Self {
            core,
            pi,
            model,
            name,
            child,
        }
    }

    /// What the model is asked after a revival begins with the task: the session was kept whole.
    #[track_caller]
    fn comes_back(&self, core: &Core) {
        let runs = core.agent(&self.name).runs_ended;
        assert!(matches!(
            core.send(&self.name, "go on"),
            Reply::Sent { revived: true, .. }
        ));
        core.wait_agent(&self.name, "back", |a| {
            a.runs_ended == runs + 1 && !a.status.is_working()
        });
        let asked = self.model.wait_request("asked again", |all| {
            all.iter().rfind(|r| r.last_user_text() == "go on").cloned()
        });
        assert_eq!(asked.first_user_text(), "work");
    }

    #[track_caller]
    fn nothing_left(&self) {
        wait::wait_until("nothing is left", || {
            let mut all = self.pi.sandbox.processes();
            all.retain(|p| !p.args.iter().any(|a| a == "serve"));
            all.is_empty()
        });
    }
}

#[test]
fn a_pi_killed_at_any_moment_fails_once_and_goes_on_from_its_session() {
    // R-LIFE-09, R-LIFE-10
    with_seeds(|rng: &mut Rng| {
        let s = Scene::new();
        rng.pass(450);
        signal(s.child, Signal::KILL);
        let row = s.core.wait_agent(&s.name, "gone", |a| a.pid.is_none());
        if is_failed(&row) {
            assert!(reason(&row).contains("signal 9"), "{row:#?}");
        } else {
            assert_eq!(row.status, Status::Completed);
        }
        assert_eq!(row.runs_ended, 1);
        assert_eq!(s.core.run_ends(&s.name), 1);
        s.nothing_left();
        s.comes_back(&s.core);
    });
}

#[test]
fn a_real_pi_that_is_stopped_in_a_tool_is_ended_in_time() {
    // R-LIFE-07
    let s = Scene::new();
    s.core.wait_entries(&s.name, "its tool runs", |e| {
        let runs = |k: &EntryKind| matches!(k, EntryKind::Tool(t) if t.state == ToolState::Running);
        e.iter().any(|e| runs(&e.kind)).then_some(())
    });
    let below = processes::descendants_of(s.child);
    for process in &below {
        signal(process.pid, Signal::STOP);
    }
    signal(s.child, Signal::STOP);
    let sent = s
        .core
        .ask_later(s.core.send_request(&s.name, "while stopped"));
    s.core
        .wait_agent(&s.name, "it waits", |a| a.pending.len() == 1);
    let began = Instant::now();
    let stopped = s.core.ask(Request::Stop {
        agent: AgentRef::Name(s.name.clone()),
    });
    assert_eq!(stopped, Ok(Reply::Stopped { was_live: true }));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2) || wait::crowded(), "{took:?}");
    assert_eq!(s.core.fetch(sent).unwrap_err().code, ErrorCode::Gone);
    let row = s.core.wait_agent(&s.name, "stopped", stopped_by_you);
    assert_eq!(row.runs_ended, 1);
    s.nothing_left();
    s.comes_back(&s.core);
}

#[test]
fn a_core_killed_at_any_moment_of_a_real_run_is_lost_and_no_more() {
    // R-LIFE-08, design §2
    with_seeds(|rng: &mut Rng| {
        let mut s = Scene::new();
        rng.pass(450);
        let session = s.core.agent(&s.name).session_path;
        signal(s.core.pid, Signal::KILL);
        s.core.wait_lost();
        s.nothing_left();
        wait::wait_for("its guard ends", || s.core.guard.try_wait().unwrap());
        let next = Core::start_with(&s.pi, FAST_LADDER);
        let row = next.agent(&s.name);
        if is_failed(&row) {
            assert_eq!(reason(&row), "supervisor lost");
        } else {
            assert_eq!((&row.status, row.runs_ended), (&Status::Completed, 1));
        }
        assert_eq!(row.pid, None, "nothing revived");
        s.comes_back(&next);
        assert_eq!(next.agent(&s.name).session_path, session);
    });
}

#[test]
fn a_real_pi_of_a_stranger_on_the_same_session_loses_nothing() {
    // R-LIFE-10
    let s = Scene::new();
    s.model
        .on_last("of the stranger", Turn::say("to the stranger"));
    let row = s
        .core
        .wait_agent(&s.name, "idle", |a| a.status == Status::Idle);
    let session = row.session_path.unwrap();
    let mut stranger = s.pi.rpc(&["--session", session.to_str().unwrap()]);
    let ours = s.core.ask_later(s.core.send_request(&s.name, "of ours"));
    stranger.run("of the stranger");
    assert!(s.core.fetch(ours).is_ok());
    s.core.wait_agent(&s.name, "both are done", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    let text = std::fs::read_to_string(&session).unwrap();
    for line in text.lines() {
        let entry: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(entry.is_ok(), "half a line: {line:?}");
    }
    for said in [
        "work",
        "of ours",
        "of the third turn",
        "of the stranger",
        "to the stranger",
    ] {
        assert!(text.contains(said), "{said:?} is lost");
    }
    let of_core = processes::descendants_of(s.core.pid);
    assert_eq!(of_core.len(), 1, "{of_core:#?}");
    assert!(stranger.exited().is_none());
}

#[test]
fn a_real_pi_on_a_full_disk_says_why_and_goes_on_when_there_is_room() {
    // R-LIFE-18: its session cannot be written
    let model = ModelServer::start();
    model.on("work", [Turn::say("first"), Turn::say("second")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let (work, data) = (pi.work(), pi.sandbox.data());
    let Some(disk) = SmallDisk::around(pi, work, data) else {
        return;
    };
    let core = Core::start_with(&disk, FAST_LADDER);
    let name = core.spawn("work");
    let row = core.wait_agent(&name, "idle", |a| {
        a.runs_ended == 1 && !a.status.is_working()
    });
    let session = disk.inside(&row.session_path.unwrap());
    let before = std::fs::read_to_string(&session).unwrap();
    disk.fill();
    core.send(&name, "go on");
    let row = core.wait_agent(&name, "over", |a| a.runs_ended == 2 && a.pid.is_none());
    assert!(is_failed(&row), "{row:#?}");
    assert!(reason(&row).contains("no space left"), "{row:#?}");
    assert_eq!(core.run_ends(&name), 2);
    let whole = std::fs::read_to_string(&session).unwrap();
    assert!(whole.starts_with(&before), "what was saved is kept");
    disk.empty();
    model.on_last("once more", Turn::say("third"));
    core.send(&name, "once more");
    let row = core.wait_agent(&name, "back", |a| {
        a.runs_ended == 3 && !a.status.is_working()
    });
    assert_eq!(row.status, Status::Idle, "{row:#?}");
}

#[test]
fn a_real_pi_without_files_fails_its_tool_and_goes_on() {
    // R-Q-02: what one process lacks harms no other, and nothing is left of it
    let model = ModelServer::start();
    let held = Gate::new();
    model.on(
        "work",
        [
            Turn::new()
                .gate(&held)
                .tool("bash", json!({"command": "echo of the tool"})),
            Turn::say("the tool failed"),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("work");
    held.wait_arrival("its first request");
    let child = core.wait_agent(&name, "it runs", |a| a.pid.is_some()).pid;
    let none = NoFiles::of(child.unwrap());
    held.open();
    let row = core.wait_agent(&name, "over", |a| !a.status.is_working());
    drop(none);
    assert_eq!(core.run_ends(&name), 1);
    let failed = core.wait_entries(&name, "the tool's end", |e| {
        let failed =
            |k: &EntryKind| matches!(k, EntryKind::Tool(t) if t.state == ToolState::Failed);
        e.iter().any(|e| failed(&e.kind)).then(|| format!("{e:?}"))
    });
    assert!(
        failed.contains("EMFILE") || failed.contains("too many"),
        "{failed}"
    );
    assert!(row.status == Status::Idle || is_failed(&row), "{row:#?}");
}
