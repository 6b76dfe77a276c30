//! The scripted agent as a process: it ends when told to, and takes its tool with it.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Stage;
use crate::support::processes::{self, Process};
use crate::support::rpc::Rpc;
use crate::support::wait;

/// Starts a run and waits until its tool is a shell in a session of its own.
fn with_tool(stage: &Stage) -> (Rpc, Process) {
    let mut agent = stage.agent(&["--thinking", "off"]);
    agent.prompt("run the tests");
    let pid = agent.pid();
    let shell = wait::wait_for("the shell of the tool", || {
        processes::descendants_of(pid)
            .into_iter()
            .find(|process| process.args.first().is_some_and(|arg| arg == "sh"))
    });
    (agent, shell)
}

#[test]
fn its_tool_leads_a_session_of_its_own() {
    // As Pi's bash tool: a stop that only knows the agent's group would miss it (R-LIFE-07).
    let stage = Stage::slow();
    let (agent, shell) = with_tool(&stage);
    assert_eq!((shell.session, shell.group), (shell.pid, shell.pid));
    let own = processes::find(agent.pid()).expect("the agent");
    assert_ne!(own.session, shell.session);
}

#[test]
fn the_end_of_stdin_ends_it_and_its_tool() {
    // pi-facts §1 and §4: exit 0, no further records.
    let stage = Stage::slow();
    let (mut agent, shell) = with_tool(&stage);
    let begun = Instant::now();
    agent.close_stdin();
    let status = agent.wait_exit();
    let took = begun.elapsed();
    assert_eq!(status.code(), Some(0));
    // 100 ms on an idle machine; a busy one gets more.
    assert!(took < Duration::from_secs(2), "{took:?}");
    wait::wait_until("the tool to be gone", || !shell.alive());
    wait::wait_until("nothing to be left", || {
        stage.sandbox.processes().is_empty()
    });
    let records = agent.records();
    assert!(
        !records
            .iter()
            .any(|record| record["type"] == "agent_settled")
    );
    let saved = std::fs::read_to_string(stage.session_file()).expect("session");
    let last: Vec<&str> = saved.lines().rev().take(2).collect();
    assert!(
        last[0].contains("\"stopReason\":\"aborted\""),
        "{}",
        last[0]
    );
    assert!(last[1].contains("Command aborted"), "{}", last[1]);
}

#[test]
fn signals_end_it_with_pis_exit_codes() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let stage = Stage::slow();
        let (mut agent, shell) = with_tool(&stage);
        processes::signal(agent.pid(), signal);
        assert_eq!(agent.wait_exit().code(), Some(code));
        wait::wait_until("the tool to be gone", || !shell.alive());
    }
}

#[test]
fn a_kill_leaves_its_tool_as_pis_does() {
    // The supervisor must find what is left (R-LIFE-07): the demo does not make it easier.
    let stage = Stage::slow();
    let (mut agent, shell) = with_tool(&stage);
    processes::signal(agent.pid(), Signal::KILL);
    assert_eq!(
        wait::wait_for("its end", || agent.exited()).signal(),
        Some(9)
    );
    assert!(shell.alive());
}

#[test]
fn it_ends_idle_and_while_it_asks() {
    let stage = Stage::new();
    let mut idle = stage.bare_agent(&["--no-session"]);
    idle.request("get_state", serde_json::json!({}));
    idle.close_stdin();
    assert_eq!(idle.wait_exit().code(), Some(0));

    let mut asking = stage.bare_agent(&["--no-session"]);
    asking.prompt("refactor it");
    asking.wait_record("the question", |r| r["type"] == "extension_ui_request");
    asking.close_stdin();
    assert_eq!(asking.wait_exit().code(), Some(0));
    wait::wait_until("nothing to be left", || {
        stage.sandbox.processes().is_empty()
    });
}

#[test]
fn nobody_reading_ends_it() {
    // Its supervisor is gone: exit 1, as Pi at a broken pipe.
    let stage = Stage::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3<&0; { \"$0\" demo-agent --mode rpc --no-session <&3; echo $? >&2; } | head -n 1"])
        .arg(env!("CARGO_BIN_EXE_pi-agents"))
        .env_clear()
        .envs(stage.sandbox.env(None))
        .env("PI_AGENTS_DEMO_PACE", "0.02");
    let mut shell = Rpc::start(command);
    shell
        .write(b"{\"type\":\"prompt\",\"message\":\"port everything\"}\n")
        .expect("write");
    wait::wait_until("its exit code", || shell.stderr().trim() == "1");
    shell.wait_exit();
}

#[test]
fn it_names_the_pi_it_plays() {
    let output = Command::new(env!("CARGO_BIN_EXE_pi-agents"))
        .args(["demo-agent", "--version"])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1.6.0\n");
    assert!(output.status.success());
}

#[test]
fn it_is_found_as_a_pi() {
    // With `--pi 'pi-agents demo-agent'` it passes for a Pi and needs no Node.
    let command = format!("'{}' demo-agent", env!("CARGO_BIN_EXE_pi-agents"));
    let stage = Stage::new();
    let found = pi_agents::supervisor::find_pi::find(Some(&command), &stage.sandbox.env(None))
        .expect("found");
    assert_eq!(found.version.to_string(), "1.6.0");
    assert_eq!(found.path_prefix, None);
    assert_eq!(found.argv.len(), 2);
}
