//! The first start on a machine: what is missing, how to mend it, and the demo.

use std::process::Command;

use crate::support::core::PROGRAM;
use crate::support::pty::{Setup, Terminal};
use crate::support::sandbox::Sandbox;

use super::world::{choose, wait_nothing_runs};

/// A machine whose PATH has only what is put into `bin`.
fn bare(sandbox: &Sandbox) -> Command {
    let bin = sandbox.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .envs(sandbox.env(None))
        .env("PATH", &bin)
        .env("PI_AGENTS_DEMO_PACE", "0.05")
        .current_dir(sandbox.work());
    command
}

fn script(sandbox: &Sandbox, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = sandbox.root().join("bin").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn start(sandbox: &Sandbox) -> Terminal {
    Setup::new().size(100, 30).start(&bare(sandbox))
}

#[test]
fn without_pi_it_says_so_gives_the_command_and_offers_the_demo() {
    // issue 2 point 7
    let sandbox = Sandbox::new();
    let mut t = start(&sandbox);
    t.wait_text("Pi is not installed");
    t.wait_text("npm install -g @earendil-works/pi-coding-agent");
    t.wait_text("d demo");
    t.keys("q");
    assert!(t.exit_status().success());
    wait_nothing_runs(&sandbox);
}

#[test]
fn the_demo_is_a_fleet_like_any_other() {
    // R-OPS-03: answered, steered, stopped, revived
    let sandbox = Sandbox::new();
    let mut t = start(&sandbox);
    t.wait_text("d demo");
    t.keys("d");
    t.wait_text("type a task for a new agent");
    t.keys("run the tests<enter>");
    t.wait_text("@max");
    t.wait_until("done", |s| s.contains("‖ @max"));
    t.keys("<esc>");
    t.wait_text("n new");
    t.keys("<enter>");
    t.wait_text("message @max");
    t.keys("and now the linter<enter>");
    t.wait_until("another run", |s| s.contains("and now the linter"));
    t.keys("<ctrl-x><ctrl-x>");
    t.wait_text("stopped");
    t.keys("<esc>");
    t.wait_text("■ @max");
    t.keys("q");
    t.wait_until("ended or asked", |s| {
        s.contains("keep running") || !s.alternate()
    });
    if t.screen(|s| s.contains("keep running")) {
        choose(&mut t, "s");
    }
    assert!(t.exit_status().success());
    wait_nothing_runs(&sandbox);
}

#[test]
fn an_old_pi_is_named_with_the_version_that_is_needed() {
    // R-PI-06
    let sandbox = Sandbox::new();
    script(&sandbox, "pi", "#!/bin/sh\necho 1.2.0\n");
    let mut t = start(&sandbox);
    t.wait_text("Pi 1.2.0 is too old");
    t.wait_text("1.4.0");
}

#[test]
fn another_program_called_pi_is_not_believed_and_not_shown() {
    // B100
    let sandbox = Sandbox::new();
    script(
        &sandbox,
        "pi",
        "#!/bin/sh\nprintf '3.14159\\033[31m26535 digits\\n'\n",
    );
    let mut t = start(&sandbox);
    t.wait_text("is not Pi");
    t.wait_text("bin/pi");
}

#[test]
fn an_old_node_is_named() {
    let sandbox = Sandbox::new();
    script(&sandbox, "node", "#!/bin/sh\necho v20.1.0\n");
    script(
        &sandbox,
        "pi",
        "#!/usr/bin/env node\nconsole.log('1.6.0')\n",
    );
    let mut t = start(&sandbox);
    t.wait_text("Node 20.1.0 is too old");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_named() {
    // B101; holds for root too: a file is where the folder should be
    let sandbox = Sandbox::new();
    std::fs::remove_dir_all(sandbox.data()).unwrap();
    std::fs::write(sandbox.data(), "not a folder").unwrap();
    script(&sandbox, "pi", "#!/bin/sh\necho 1.6.0\n");
    let mut t = start(&sandbox);
    t.wait_text("saved sessions");
    let path = sandbox.data().display().to_string();
    t.wait_until("the real path", |s| s.contains(&path));
}

#[test]
fn r_checks_again() {
    let sandbox = Sandbox::new();
    let mut t = start(&sandbox);
    t.wait_text("Pi is not installed");
    script(&sandbox, "pi", "#!/bin/sh\necho 1.6.0\n");
    t.keys("r");
    t.wait_text("Pi has no model configured");
    std::fs::write(
        sandbox.agent_dir().join("auth.json"),
        r#"{"anthropic":{"type":"api_key","key":"dummy"}}"#,
    )
    .unwrap();
    t.keys("r");
    t.wait_text("type a task for a new agent");
    t.keys("<esc>q");
    assert!(t.exit_status().success());
    wait_nothing_runs(&sandbox);
}
