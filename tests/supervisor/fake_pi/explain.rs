//! `explain` of a real core: each way a row gets failed, stopped or over is told as what it was
//! (R-OPS-01), in the core's answer and in what the shell prints.

use pi_agents::client::{AgentRef, Reply, Request};
use pi_agents::fleet::agent::{Status, ToolChoice};
use pi_agents::fleet::history::{Explanation, What};

use super::{FAST_LADDER, is_failed, pids, wait_idle};
use crate::support::core::{Core, verb};
use crate::support::fake::FakePi;
use crate::support::processes;

fn explain(core: &Core, name: &str) -> Explanation {
    let agent = AgentRef::Name(name.to_owned());
    match core.ask(Request::Explain { agent }) {
        Ok(Reply::Explained { explanation }) => *explanation,
        other => panic!("not explained: {other:?}"),
    }
}

/// What the shell prints: exit code and text.
fn printed(pi: &FakePi, args: &[&str]) -> (i32, String) {
    let output = verb(pi, &[&["explain"], args].concat());
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

/// The shell's first line is the answer, and it says these words.
#[track_caller]
fn answers(pi: &FakePi, core: &Core, name: &str, words: &[&str]) {
    let told = explain(core, name);
    let answer = told.answer();
    for word in words {
        assert!(answer.contains(word), "{word:?} in {answer}\n{told:#?}");
    }
    let (code, page) = printed(pi, &[name]);
    assert_eq!(code, 0, "{page}");
    let first = page.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.starts_with(name), "{page}");
    assert!(first.contains(words[0]), "{page}");
    assert!(page.lines().all(|l| l.chars().count() <= 100), "{page}");
}

#[test]
fn a_provider_error() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:error 401 invalid key");
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    answers(
        &pi,
        &core,
        &name,
        &["failed", "401 invalid key", "refused the key (401)"],
    );
}

#[test]
fn a_process_that_was_killed() {
    // R-LIFE-09
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:hang");
    core.wait_agent(&name, "running", |a| a.run_started_ms.is_some());
    processes::signal(pids(&pi)[0], rustix::process::Signal::KILL);
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    answers(
        &pi,
        &core,
        &name,
        &["failed", "signal 9 (SIGKILL)", "not by pi-agents"],
    );
}

#[test]
fn a_start_that_failed() {
    // B033
    let pi = FakePi::new().options("--exit 3");
    let core = Core::start(&pi);
    let request = Request::Spawn(core.spawn_request("task"));
    core.ask(request).expect_err("refused");
    let row = core.wait_fleet("failed and gone", |f| {
        f.agents
            .first()
            .is_some_and(|a| is_failed(a) && a.pid.is_none())
    });
    let name = row.agents[0].name.clone();
    answers(
        &pi,
        &core,
        &name,
        &["failed", "while it was starting", "exit code 3"],
    );
}

#[test]
fn a_time_limit() {
    // R-LIFE-13
    let pi = FakePi::new();
    let core = Core::start_with(&pi, FAST_LADDER);
    let mut request = core.spawn_request("fake:hang");
    request.timeout_ms = Some(200);
    let name = core.spawn_as(request);
    core.wait_agent(&name, "stopped and gone", |a| {
        matches!(a.status, Status::Stopped { .. }) && a.pid.is_none()
    });
    answers(&pi, &core, &name, &["was stopped", "time limit of 200 ms"]);
}

#[test]
fn a_stop_by_a_person() {
    // R-TOOL-03
    let pi = FakePi::new().options("--ignore-eof");
    let core = Core::start_with(&pi, FAST_LADDER);
    let name = core.spawn("fake:hang");
    core.stop(&name);
    answers(
        &pi,
        &core,
        &name,
        &["was stopped", "by you", "needed SIGTERM"],
    );
}

#[test]
fn an_idle_process_that_died() {
    // R-LIFE-09
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    answers(&pi, &core, &name, &["is idle", "its run completed"]);
    processes::signal(pids(&pi)[0], rustix::process::Signal::KILL);
    core.wait_agent(&name, "completed and gone", |a| {
        a.status == Status::Completed && a.pid.is_none()
    });
    answers(
        &pi,
        &core,
        &name,
        &["completed", "idle process ended by itself", "signal 9"],
    );
}

#[test]
fn arguments_as_they_were_given_and_what_they_became() {
    // R-TOOL-16, R-OPS-05: and neither the whole task nor the environment
    let pi = FakePi::new().with_env("SOME_API_KEY", "a-secret-value");
    let core = Core::start(&pi);
    std::fs::create_dir(pi.work().join("sub")).unwrap();
    let task = format!("first words {}the-end-of-it", "and more ".repeat(30));
    let mut request = core.spawn_request(&task);
    request.cwd = Some("sub".into());
    request.tools = ToolChoice::Only(vec!["read".into()]);
    let name = core.spawn_as(request);
    let told = explain(&core, &name);
    let asked = told.asked.clone().expect("this core was asked");
    assert_eq!((asked.label, asked.persistent), (None, None));
    assert_eq!(asked.cwd.as_deref(), Some("sub".as_ref()));
    assert!(asked.task.text.starts_with("first words"));
    assert_eq!(asked.task.chars, task.chars().count() as u64);
    assert!(told.effective.label.starts_with("first words"));
    assert!(told.effective.persistent);
    assert_eq!(
        told.effective.cwd,
        pi.work().join("sub").canonicalize().unwrap()
    );
    let (code, json) = printed(&pi, &[&name, "--json"]);
    assert_eq!(code, 0);
    let (_, page) = printed(&pi, &[&name, "--all"]);
    for text in [json, page] {
        assert!(
            text.contains("first words") && text.contains("sub"),
            "{text}"
        );
        assert!(!text.contains("the-end-of-it"), "{text}");
        assert!(
            !text.contains("a-secret-value") && !text.contains("SOME_API_KEY"),
            "{text}"
        );
    }
}

#[test]
fn after_a_new_core_only_the_record_speaks() {
    // design §2
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:error 500 out of order");
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    core.shutdown();
    let core = Core::start(&pi);
    let told = explain(&core, &name);
    assert!(told.entries.is_empty() && told.asked.is_none());
    assert!(matches!(
        told.recorded.as_ref().unwrap().status,
        Status::Failed { .. }
    ));
    answers(
        &pi,
        &core,
        &name,
        &["500 out of order", "only its record is left"],
    );
    let (_, page) = printed(&pi, &[&name]);
    assert!(
        page.contains("since the core started at") && page.contains("its record says failed"),
        "{page}"
    );
    // What this core sees of it is told from here on.
    core.send(&name, "again");
    let told = explain(&core, &name);
    assert!(
        told.entries.iter().any(
            |e| matches!(&e.what, What::MessageAsked { message, .. } if message.text == "again")
        )
    );
}

#[test]
fn an_unknown_name_is_code_4_and_the_known_ones_are_named() {
    // R-TOOL-02
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let (code, text) = printed(&pi, &["nobody"]);
    assert_eq!(code, 4, "{text}");
    assert!(
        text.contains("@nobody") && text.contains(&format!("@{name}")),
        "{text}"
    );
    let (code, text) = printed(&pi, &[&format!("@{name}")]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn nothing_a_provider_says_acts_on_the_terminal() {
    // B044, R-TUI-10
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:error \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31mred\u{202e}why");
    core.wait_agent(&name, "failed and gone", |a| {
        is_failed(a) && a.pid.is_none()
    });
    let (_, page) = printed(&pi, &[&name, "--all"]);
    assert!(page.contains("why"), "{page:?}");
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!page.contains(bad), "{page:?}");
    let (_, json) = printed(&pi, &[&name, "--json"]);
    assert!(!json.contains(['\u{1b}', '\u{7}']), "{json:?}");
}
