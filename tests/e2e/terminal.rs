//! The terminal itself: restored on every way out, and never written to without need.

use std::process::Command;

use rustix::process::Signal;

use crate::support::core::PROGRAM;
use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::pty::{Setup, Terminal};
use crate::support::wait;

use super::world::{dashboard, open};

fn in_shell(world: &FakePi) -> Terminal {
    let mut t = Setup::new()
        .size(100, 30)
        .in_shell()
        .start(&dashboard(world));
    t.wait_text("type a task for a new agent");
    t
}

fn screen_process(world: &FakePi) -> u32 {
    let is_screen = |p: &processes::Process| {
        let first = p.args.first().map(|a| a.to_string_lossy().into_owned());
        first.is_some_and(|a| a.ends_with("pi-agents")) && !p.args.iter().any(|a| a == "serve")
    };
    let found = world.sandbox.processes().into_iter().find(is_screen);
    found.expect("the dashboard runs").pid
}

#[test]
fn signals_restore_the_terminal_and_tell_their_number() {
    // R-TUI-12, B066
    for (signal, code) in [
        (Signal::TERM, "143"),
        (Signal::HUP, "129"),
        (Signal::INT, "130"),
    ] {
        let world = FakePi::new();
        let mut t = in_shell(&world);
        processes::signal(screen_process(&world), signal);
        let report = t.shell_report();
        assert_eq!(report.before, report.after, "{signal:?}");
        assert_eq!(report.code.trim(), code, "{signal:?}");
        t.screen(|s| assert!(!s.alternate()));
        assert_eq!(t.keyboard_flags(), 0);
    }
}

#[test]
fn suspend_and_continue_give_the_terminal_back_and_take_it_again() {
    // R-TUI-12: in a shell with job control, as a person has it
    let world = FakePi::new();
    let inner = dashboard(&world);
    let mut shell = world_shell(&world);
    shell.arg(inner.get_program()).args(inner.get_args());
    let mut t = Setup::new().size(100, 30).start(&shell);
    t.wait_text("type a task for a new agent");
    let pid = screen_process(&world);
    t.keys("<esc>");
    t.wait_text("n new");
    t.keys("<ctrl-z>");
    wait::wait_until("it is stopped", || {
        processes::find(pid).is_some_and(|p| p.state == 'T')
    });
    t.wait_until("the shell's screen", |s| {
        !s.alternate() && s.contains("back in the shell")
    });
    t.keys("<enter>");
    t.wait_until("drawn again", |s| s.alternate() && s.contains("Agents"));
    t.keys("n");
    t.wait_text("type a task for a new agent");
    t.keys("<esc>q");
    t.wait_text("ended 0");
}

/// A shell with job control that runs its arguments, and brings them back after a line of input.
fn world_shell(world: &FakePi) -> Command {
    let mut shell = world.command("bash");
    shell.env("ANTHROPIC_API_KEY", "dummy").args([
        "-mc",
        r#""$@"; echo back in the shell; read -r line; fg >/dev/null; echo ended $?"#,
        "shell",
    ]);
    shell
}

#[test]
fn without_a_terminal_there_is_a_message_a_code_and_no_escape_byte() {
    // B102
    let world = FakePi::new();
    let mut no_tty = dashboard(&world);
    let output = no_tty.stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !text.contains('\x1b') && text.contains("terminal"),
        "{text}"
    );
    assert!(
        text.contains("pi-agents ps"),
        "says what works without: {text}"
    );

    let mut command: Command = dashboard(&world);
    command.env("TERM", "dumb");
    let mut t = Setup::new().start(&command);
    assert_eq!(t.exit_status().code(), Some(7));
    assert!(!t.output().contains(&0x1b), "no garbage on a dumb terminal");
    assert!(world.sandbox.processes().is_empty(), "nothing was started");
}

#[test]
fn help_and_version_always_work() {
    // B102
    for flag in ["--help", "--version"] {
        let output = Command::new(PROGRAM)
            .arg(flag)
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .contains("pi-agents")
        );
    }
}

#[test]
fn sizes_down_to_nothing_do_no_harm() {
    // R-TUI-09, traps: 0×0 occurs on hang-up
    let world = FakePi::new();
    let mut t = open(&world);
    for (cols, rows) in [
        (40, 10),
        (39, 9),
        (1, 1),
        (0, 0),
        (200, 50),
        (60, 20),
        (100, 30),
    ] {
        t.resize(cols, rows);
        t.wait_drained();
    }
    t.wait_text("type a task for a new agent");
    t.resize(39, 9);
    t.wait_until("a plain notice", |s| {
        s.contains("40×10") || s.contains("40x10")
    });
}

#[test]
fn odd_environment_does_not_change_the_real_size() {
    // B098
    let world = FakePi::new()
        .with_env("COLUMNS", "7")
        .with_env("LINES", "notanumber");
    let mut t = open(&world);
    t.wait_until("as wide as the terminal", |s| {
        s.row(1).chars().count() == 100
    });
}
