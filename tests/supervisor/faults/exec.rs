//! Programs that cannot be started: one clear error each, nothing half started, and the next in the
//! queue goes on. (R-DELIV-09, R-PI-11)

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use pi_agents::client::{ErrorCode, Request, RequestError, SpawnRequest};
use pi_agents::fleet::agent::Status;

use super::super::fake_pi::{is_failed, pids, reason, var, wait_idle};
use super::{wait_alone, with_options};
use crate::support::core::{Core, World, verb};
use crate::support::fake::FakePi;
use crate::support::wait;

/// A world whose Pi is a link, so that it can be taken away and replaced.
struct Linked {
    pi: FakePi,
    link: PathBuf,
}

impl Linked {
    fn new() -> Self {
        let pi = FakePi::new();
        let link = pi.sandbox.root().join("pi");
        symlink(pi.pi_command(), &link).unwrap();
        Self { pi, link }
    }

    /// Puts something else in its place.
    fn replace(&self, by: &[u8], mode: u32) {
        std::fs::remove_file(&self.link).unwrap();
        std::fs::write(&self.link, by).unwrap();
        std::fs::set_permissions(&self.link, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mend(&self) {
        let _ = std::fs::remove_file(&self.link);
        symlink(self.pi.pi_command(), &self.link).unwrap();
    }
}

impl World for Linked {
    fn command(&self, program: &str) -> std::process::Command {
        self.pi.command(program)
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        self.pi.env()
    }
    fn pi(&self) -> String {
        self.link.to_str().unwrap().to_owned()
    }
}

#[track_caller]
fn refused(core: &Core, request: SpawnRequest) -> RequestError {
    let error = core.ask(Request::Spawn(request)).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed, "{error}");
    error
}

/// What a person reads in a shell: the same, with the exit code of a failed start.
#[track_caller]
fn says_in_a_shell(world: &Linked, words: &str) {
    let out = verb(world, &["spawn", "--json", "task"]);
    assert_eq!(out.status.code(), Some(6), "{out:?}");
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let message = line["error"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{line}");
}

#[test]
fn a_pi_that_cannot_be_run_any_more_is_a_clear_error_and_works_again_when_mended() {
    for (by, mode, words) in [
        (&b"#!/bin/sh\nexit 0\n"[..], 0o644, "does not start"),
        (
            b"\x7fELF no program of this machine",
            0o755,
            "does not start",
        ),
        (b"#!/no/such/interpreter\n", 0o755, "does not start"),
        (b"", 0o755, "/pi "),
    ] {
        let world = Linked::new();
        let core = Core::start(&world);
        let name = core.spawn("task");
        wait_idle(&core, &name, 1);
        core.stop(&name);
        world.replace(by, mode);
        // Found before, so it is the start that fails. (What is no program is given to a shell, as
        // `execvp` does.)
        let error = core.ask(core.send_request(&name, "back")).unwrap_err();
        assert_eq!(error.code, ErrorCode::StartFailed, "{error}");
        let row = core.wait_agent(&name, "failed", is_failed);
        assert_eq!(row.pid, None);
        refused(&core, core.spawn_request("new"));
        let fresh = Core::start(&Elsewhere(&world));
        let error = refused(&fresh, fresh.spawn_request("new"));
        assert!(error.message.contains(words), "{by:?}: {error}");
        assert!(
            error.message.contains(world.link.to_str().unwrap()),
            "{error}"
        );
        assert!(error.hint.is_some());
        world.mend();
        core.send(&name, "back");
        wait_idle(&core, &name, 2);
        let late = fresh.spawn("late");
        wait_idle(&fresh, &late, 1);
    }
}

/// The same world in another folder, so that a second core can work in it.
struct Elsewhere<'a>(&'a Linked);

impl World for Elsewhere<'_> {
    fn command(&self, program: &str) -> std::process::Command {
        let folder = self.0.pi.sandbox.root().join("elsewhere");
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = self.0.command(program);
        command.current_dir(folder);
        command
    }
    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        self.0.env()
    }
    fn pi(&self) -> String {
        self.0.pi()
    }
}

#[test]
fn a_pi_that_vanishes_between_two_starts_is_named_and_the_queue_goes_on() {
    let world = Linked::new();
    let core = Core::start_with(&world, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]);
    let slow = with_options(core.spawn_request("slow"), "--start-delay 300");
    let first = core.ask_later(Request::Spawn(slow));
    world.pi.wait_events("start", 1);
    // They are checked and wait for their turn; then their program goes.
    let waiting: Vec<_> = (0..3)
        .map(|_| core.ask_later(Request::Spawn(core.spawn_request("task"))))
        .collect();
    core.wait_fleet("three wait", |f| {
        f.agents
            .iter()
            .filter(|a| a.status == Status::Queued)
            .count()
            == 3
    });
    std::fs::remove_file(&world.link).unwrap();
    assert!(core.fetch(first).is_ok());
    for call in waiting {
        let error = core.fetch(call).unwrap_err();
        assert_eq!(error.code, ErrorCode::StartFailed);
        let link = world.link.to_str().unwrap();
        assert!(error.message.contains(link), "{error}");
        assert!(error.hint.is_some(), "{error:?}");
    }
    says_in_a_shell(&world, world.link.to_str().unwrap());
    let fleet = core.wait_fleet("nothing is starting", |f| {
        f.agents.iter().filter(|a| is_failed(a)).count() == 3
    });
    assert!(
        fleet
            .agents
            .iter()
            .all(|a| !is_failed(a) || a.pid.is_none())
    );
    world.mend();
    let late = core.spawn("late");
    wait_idle(&core, &late, 1);
    assert_eq!(pids(&world.pi).len(), 2);
}

#[test]
fn a_folder_that_goes_while_an_agent_waits_refuses_it_alone() {
    let world = Linked::new();
    let core = Core::start_with(&world, &[("PI_AGENTS_LAUNCH_SLOTS", "1")]);
    let folder = world.pi.work().join("sub");
    std::fs::create_dir(&folder).unwrap();
    let slow = with_options(core.spawn_request("slow"), "--start-delay 300");
    let first = core.ask_later(Request::Spawn(slow));
    world.pi.wait_events("start", 1);
    let mut request = core.spawn_request("in the folder");
    request.cwd = Some(folder.clone());
    let second = core.ask_later(Request::Spawn(request));
    core.wait_fleet("it waits", |f| {
        f.agents.iter().any(|a| a.status == Status::Queued)
    });
    let third = core.ask_later(Request::Spawn(core.spawn_request("elsewhere")));
    core.wait_fleet("both wait", |f| {
        f.agents
            .iter()
            .filter(|a| a.status == Status::Queued)
            .count()
            == 2
    });
    std::fs::remove_dir(&folder).unwrap();
    assert!(core.fetch(first).is_ok());
    let error = core.fetch(second).unwrap_err();
    assert!(error.message.contains("not there any more"), "{error}");
    assert!(error.message.contains(folder.to_str().unwrap()), "{error}");
    assert!(core.fetch(third).is_ok());
    assert_eq!(pids(&world.pi).len(), 2);
}

#[test]
fn an_environment_that_is_too_large_is_refused_with_the_way_out() {
    // E2BIG: one value beyond 128 KiB, or all of them together beyond a quarter of the stack
    let world = Linked::new();
    let core = Core::start(&world);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let mut one = core.spawn_request("new");
    one.env.push(var("HUGE", &"x".repeat(200_000)));
    let mut many = core.spawn_request("new");
    for number in 0..100 {
        many.env
            .push(var(&format!("LARGE{number}"), &"x".repeat(100_000)));
    }
    for request in [one, many] {
        let error = refused(&core, request);
        assert!(error.message.contains("Argument list too long"), "{error}");
        let hint = error.hint.unwrap_or_default();
        assert!(hint.contains("environment"), "{hint}");
    }
    // A fresh core, which looks for Pi with that environment first.
    let fresh = Core::start(&Elsewhere(&world));
    let mut request = fresh.spawn_request("new");
    request.env.push(var("HUGE", &"x".repeat(200_000)));
    let error = refused(&fresh, request);
    assert!(error.message.contains("Argument list too long"), "{error}");
    let hint = error.hint.unwrap_or_default();
    assert!(hint.contains("environment"), "{hint}");
    core.send(&name, "still there?");
    wait_idle(&core, &name, 2);
    let late = core.spawn("late");
    wait_idle(&core, &late, 1);
    assert_eq!(pids(&world.pi).len(), 2);
}

#[test]
fn an_interpreter_that_is_gone_leaves_no_process_and_no_lock() {
    // Whatever failed, its session can be started by the next core at once.
    let world = Linked::new();
    let core = Core::start(&world);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    core.stop(&name);
    world.replace(b"#!/no/such/interpreter\n", 0o755);
    for _ in 0..3 {
        core.ask(core.send_request(&name, "back")).unwrap_err();
        let row = core.wait_agent(&name, "failed", is_failed);
        assert!(!reason(&row).is_empty());
    }
    wait_alone(&world.pi, &[]);
    core.shutdown();
    world.mend();
    let next = Core::start(&world);
    next.send(&name, "back");
    next.wait_agent(&name, "back", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    let path = Path::new("/proc").join(next.pid.to_string());
    wait::wait_until("it lives", || path.exists());
}
