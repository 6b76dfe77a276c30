//! Starts that go wrong, starts that are refused, and many starts at once.

use pi_agents::client::{ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::{Status, ToolChoice};
use pi_agents::fleet::transcript::Level;

use super::{FAST_LADDER, agents_alive, is_failed, notices, pids, reason};
use crate::support::core::Core;
use crate::support::fake::FakePi;

fn refused(core: &Core, prompt: &str) -> RequestError {
    core.ask(Request::Spawn(core.spawn_request(prompt)))
        .expect_err("refused")
}

/// The name of the only agent there is.
fn only_name(core: &Core) -> String {
    let fleet = core.wait_fleet("one agent", |f| f.agents.len() == 1);
    core.watch_all();
    fleet.agents[0].name.clone()
}

/// An agent that dies at its start: one error with the cause, one notice, no second attempt.
fn dies_at_start(options: &str, words: &str) {
    // B033, R-LIFE-09, R-DELIV-09
    let pi = FakePi::new().options(options);
    let core = Core::start(&pi);
    let error = refused(&core, "task");
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains(words), "{error}");
    let name = only_name(&core);
    let row = core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none() && !a.closing
    });
    assert!(reason(&row).contains(words), "{row:?}");
    assert_eq!(row.runs_ended, 0);
    core.wait_entries(&name, "the reason, once", |e| (e.len() == 1).then_some(()));
    assert_eq!(notices(&core, &name, Level::Error).len(), 1);
    assert_eq!(pi.events("start").len(), 1, "not tried again");
    // The core is well.
    core.ask(Request::Snapshot).unwrap();
}

#[test]
fn exit_code_1_with_its_last_words() {
    dies_at_start(
        "--exit 1",
        "exit code 1: Error: fake pi was told to fail at its start",
    );
}

#[test]
fn exit_code_127() {
    dies_at_start("--exit 127", "exit code 127");
}

#[test]
fn killed_by_a_signal() {
    dies_at_start("--exit-signal KILL", "killed by signal 9");
}

#[test]
fn death_at_the_first_command() {
    dies_at_start(
        "--exit-on-command 4",
        "exit code 4: Error: fake pi was told",
    );
}

#[test]
fn a_silent_child_is_given_up_and_ended() {
    // R-LIFE-09: within a bounded time
    let pi = FakePi::new().options("--silence");
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_START_TIMEOUT_MS", "300")]);
    let error = refused(&core, "task");
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("no answer within 300 ms"), "{error}");
    let name = only_name(&core);
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
}

#[test]
fn a_prompt_that_is_never_answered_is_given_up() {
    // R-PI-07: a held prompt has a deadline
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_PROMPT_TIMEOUT_MS", "300")]);
    let error = refused(&core, "fake:handled 60000");
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("no answer to the prompt"), "{error}");
    let name = only_name(&core);
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
}

#[test]
fn a_later_prompt_that_is_never_answered_leaves_the_agent_usable() {
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_PROMPT_TIMEOUT_MS", "300")]);
    let name = core.spawn("task");
    super::wait_idle(&core, &name, 1);
    let error = core
        .ask(core.send_request(&name, "fake:handled 60000"))
        .expect_err("given up");
    assert_eq!(error.code, ErrorCode::Conflict);
    core.send(&name, "and on");
    super::wait_idle(&core, &name, 2);
    assert_eq!(pi.events("start").len(), 1, "the same process");
}

#[test]
fn a_handled_task_is_an_error_and_no_run() {
    // R-LIFE-03, R-DELIV-09
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let error = refused(&core, "fake:handled 10");
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("handled as a command"), "{error}");
    let name = only_name(&core);
    let row = core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    assert_eq!(row.runs_ended, 0);
}

#[test]
fn a_handled_message_is_no_run_either() {
    // R-LIFE-03
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    super::wait_idle(&core, &name, 1);
    assert!(matches!(
        core.send(&name, "fake:handled 10"),
        Reply::Sent { steered: false, .. }
    ));
    // The next one is the second run.
    core.send(&name, "a real one");
    let row = super::wait_idle(&core, &name, 2);
    assert!(row.pending.is_empty());
    assert_eq!(core.run_ends(&name), 2);
}

/// Each is refused before anything is started, recorded or named (R-TOOL-07).
#[test]
fn what_is_refused_leaves_nothing() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let refuse = |what: &str, change: &dyn Fn(&mut pi_agents::client::SpawnRequest)| {
        let mut request = core.spawn_request("task");
        change(&mut request);
        let error = core.ask(Request::Spawn(request)).expect_err(what);
        assert_eq!(error.code, ErrorCode::Invalid, "{what}: {error}");
        error.message
    };
    let only = |names: &[&str]| ToolChoice::Only(names.iter().map(|&n| n.to_owned()).collect());
    let gone = refuse("a folder that is not there", &|r| {
        r.cwd = Some("not/there".into());
    });
    assert!(
        gone.contains("not/there") && gone.contains("does not exist"),
        "{gone}"
    );
    let file = pi.work().join("file");
    std::fs::write(&file, "").unwrap();
    refuse("a file as folder", &|r| r.cwd = Some(file.clone()));
    refuse("an empty task", &|r| r.prompt = String::new());
    refuse("a blank task", &|r| {
        r.prompt = " \n\t".into();
        r.label = Some("label".into());
    });
    refuse("NUL in the task", &|r| r.prompt = "a\0b".into());
    refuse("NUL in the label", &|r| {
        r.label = Some("name with \0 nul".into())
    });
    refuse("a tool list in one name", &|r| {
        r.tools = only(&["read,bash"])
    });
    refuse("an empty tool name", &|r| r.tools = only(&[""]));
    refuse("a tool that is an option", &|r| r.tools = only(&["--mode"]));
    refuse("no time at all", &|r| r.timeout_ms = Some(0));
    refuse("more time than a timer has", &|r| {
        r.timeout_ms = Some(1 << 31)
    });
    refuse("an empty model", &|r| r.model = Some("  ".into()));

    assert!(core.fleet().agents.is_empty());
    assert!(pi.events("start").is_empty(), "nothing was started");
    let records =
        super::find_file(&pi.sandbox.state(), ".json").filter(|p| !p.ends_with("host.json"));
    assert!(
        records
            .as_ref()
            .is_none_or(|p| !p.to_string_lossy().contains("/agents/")),
        "{records:?}"
    );
    // The first name of the pool is still free.
    let first = core.spawn("task");
    let other = FakePi::new();
    let fresh = Core::start(&other);
    assert_eq!(first, fresh.spawn("task"), "no name was used up");
}

#[test]
fn starts_are_paced_and_those_that_wait_say_so() {
    // R-PI-11
    let pi = FakePi::new().options("--start-delay 150");
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]);
    let calls: Vec<_> = (0..4)
        .map(|i| core.ask_later(Request::Spawn(core.spawn_request(&format!("task {i}")))))
        .collect();
    core.wait_fleet("one starting, others queued", |f| {
        let count = |s: Status| f.agents.iter().filter(|a| a.status == s).count();
        count(Status::Starting) == 1 && count(Status::Queued) >= 1
    });
    for call in calls {
        assert!(matches!(core.fetch(call), Ok(Reply::Spawned { .. })));
    }
    let fleet = core.wait_fleet("all idle", |f| {
        f.agents.len() == 4 && f.agents.iter().all(|a| a.status == Status::Idle)
    });
    for agent in &fleet.agents {
        let history = core.history(&agent.name);
        assert!(history.iter().any(|a| a.status == Status::Starting));
    }
}

#[test]
fn running_children_do_not_hold_a_slot() {
    // R-PI-11: start-up only
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]);
    let names: Vec<String> = (0..3).map(|_| core.spawn("fake:hang")).collect();
    for name in &names {
        core.wait_agent(name, "running", |a| a.status == Status::Running);
    }
}

#[test]
fn twenty_at_once_all_start_and_each_call_is_answered() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let calls: Vec<_> = (0..20)
        .map(|i| core.ask_later(Request::Spawn(core.spawn_request(&format!("task {i}")))))
        .collect();
    let mut names = std::collections::HashSet::new();
    for call in calls {
        let Ok(Reply::Spawned { name, .. }) = core.fetch(call) else {
            panic!("not started");
        };
        assert!(names.insert(name), "names are unique (R-ID-01)");
    }
    core.wait_fleet("all idle", |f| {
        f.agents.len() == 20 && f.agents.iter().all(|a| a.status == Status::Idle)
    });
    assert_eq!(pids(&pi).len(), 20);
    core.shutdown();
    assert_eq!(agents_alive(&pi), Vec::<String>::new());
}

#[test]
fn stderr_without_end_does_not_stop_a_start() {
    // R-PI-09
    let pi = FakePi::new().options("--stderr-bytes 3000000");
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("task");
    super::wait_idle(&core, &name, 1);
}
