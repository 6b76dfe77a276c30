//! A dashboard in a terminal, in a world with a Pi.

use std::process::Command;
use std::time::Duration;

use crate::support::core::{PROGRAM, World};
use crate::support::fake::FakePi;
use crate::support::processes::{self, Process};
use crate::support::pty::{Setup, Terminal};
use crate::support::sandbox::Sandbox;
use crate::support::wait;

/// The command of the dashboard in that world.
pub fn dashboard(world: &impl World) -> Command {
    let mut command = world.command(PROGRAM);
    // A key, so that the start does not ask for a model first.
    command
        .args(["--pi", &world.pi()])
        .env("ANTHROPIC_API_KEY", "dummy");
    command
}

/// A dashboard of the usual size, with the task line waiting.
#[track_caller]
pub fn open(world: &impl World) -> Terminal {
    open_in(world, Setup::new().size(100, 30))
}

#[track_caller]
pub fn open_in(world: &impl World, setup: Setup) -> Terminal {
    let mut terminal = setup.start(&dashboard(world));
    terminal.wait_text("type a task for a new agent");
    terminal
}

/// Types a task, waits until the row is there and leaves the task line.
#[track_caller]
pub fn start_agent(terminal: &mut Terminal, task: &str, name: &str) {
    terminal.keys(&format!("{task}<enter>"));
    terminal.wait_text(&format!("@{name}"));
    terminal.keys("<esc>");
    terminal.wait_until("the line is left", |s| {
        !s.contains("type a task for a new agent")
    });
}

/// Chooses in the quit question, which is on the screen: after the pause that it asks for.
#[track_caller]
pub fn choose(terminal: &mut Terminal, key: &str) {
    wait::stays("the question waits", Duration::from_millis(350), || {
        terminal.exited().is_none()
    });
    terminal.keys(key);
}

/// Waits until nothing of the sandbox runs.
#[track_caller]
pub fn wait_nothing_runs(sandbox: &Sandbox) {
    wait::wait_for_or(
        "nothing is running any more",
        || sandbox.processes().is_empty().then_some(()),
        || {
            sandbox
                .processes()
                .iter()
                .map(|p| format!("{p}\n"))
                .collect()
        },
    );
}

/// The one process that plays Pi.
#[track_caller]
pub fn fake_process(world: &FakePi) -> Process {
    let start = &world.wait_events("start", 1)[0];
    let pid = u32::try_from(start["pid"].as_u64().unwrap()).unwrap();
    processes::find(pid).expect("it runs")
}
