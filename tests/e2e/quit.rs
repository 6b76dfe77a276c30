//! Leaving: quit, keep, lost screens, lost cores.

use rustix::process::Signal;

use crate::support::core::verb;
use crate::support::fake::FakePi;
use crate::support::processes;
use crate::support::pty::Setup;
use crate::support::wait;

use super::world::{choose, dashboard, fake_process, open, start_agent, wait_nothing_runs};

#[test]
fn stop_all_leaves_nothing_and_the_terminal_as_it_was() {
    // R-LIFE-08, R-TUI-12
    let world = FakePi::new();
    let mut t = Setup::new()
        .size(100, 30)
        .in_shell()
        .start(&dashboard(&world));
    t.wait_text("type a task for a new agent");
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    t.keys("q");
    t.wait_text("1 running.");
    choose(&mut t, "s");
    let report = t.shell_report();
    assert_eq!(report.code.trim(), "0");
    assert_eq!(report.before, report.after);
    wait_nothing_runs(&world.sandbox);
}

#[test]
fn keep_gives_the_prompt_back_and_the_next_dashboard_shows_the_same_fleet() {
    // R-LIFE-19, R-TUI-01
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    let pi = fake_process(&world);
    t.keys("q");
    t.wait_text("keep running in the background");
    choose(&mut t, "k");
    assert!(t.exit_status().success());
    assert!(pi.alive());
    let mut again = Setup::new().size(100, 30).start(&dashboard(&world));
    again.wait_until("the same agent, running", |s| {
        s.contains("@max") && s.contains("1 running")
    });
    assert!(pi.alive());
    again.keys("q");
    again.wait_text("stop all");
    choose(&mut again, "s");
    assert!(again.exit_status().success());
    wait_nothing_runs(&world.sandbox);
}

#[test]
fn stay_is_the_default_of_the_quit_question() {
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    t.keys("<ctrl-c>");
    t.wait_text("keep running in the background");
    t.keys("<esc>");
    t.wait_until("the question is gone", |s| {
        !s.contains("keep running in the background")
    });
    assert!(t.exited().is_none());
}

#[test]
fn a_screen_that_is_killed_or_hung_up_stops_nothing() {
    // R-LIFE-19, kill matrix, B019
    for how in ["kill", "hang up"] {
        let world = FakePi::new();
        let mut t = open(&world);
        start_agent(&mut t, "fake:hang", "max");
        t.wait_text("1 running");
        let pi = fake_process(&world);
        if how == "kill" {
            processes::signal(t.pid(), Signal::KILL);
        } else {
            t.hang_up();
        }
        wait::wait_until("the screen is gone", || t.exited().is_some());
        assert!(pi.alive(), "{how}");
        let mut again = Setup::new().size(100, 30).start(&dashboard(&world));
        again.wait_until("the same agent", |s| {
            s.contains("@max") && s.contains("1 running")
        });
        assert!(verb(&world, &["shutdown"]).status.success());
        wait::wait_until("the agent is gone", || !pi.alive());
    }
}

#[test]
fn a_signal_to_the_screen_ends_the_screen_and_leaves_nobody_without_an_owner() {
    // B019, R-LIFE-19: two at work and one idle, and each way a terminal or a system has to end it
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        let world = FakePi::new();
        let mut t = open(&world);
        start_agent(&mut t, "fake:hang", "max");
        for (task, state) in [("fake:hang", "2 running"), ("hello", "1 idle")] {
            t.keys(&format!("n{task}<enter>"));
            t.wait_text(state);
            t.keys("<esc>");
        }
        let children: Vec<u32> = world
            .wait_events("start", 3)
            .iter()
            .map(|e| u32::try_from(e["pid"].as_u64().unwrap()).unwrap())
            .collect();
        let core = processes::find(children[0]).expect("it runs").parent;
        processes::signal(t.pid(), signal);
        assert_eq!(t.exit_status().code(), Some(code), "{signal:?}");
        for child in &children {
            let child = processes::find(*child).expect("it works on");
            assert_eq!(child.parent, core, "{signal:?}: owned by the core");
        }
        assert!(verb(&world, &["shutdown"]).status.success());
        wait_nothing_runs(&world.sandbox);
    }
}

#[test]
fn a_terminal_that_goes_while_somebody_types_ends_the_screen() {
    // B019, B066: at its end a terminal reads as empty for ever, and whoever reads it there spins
    let world = FakePi::new();
    for round in 0..6 {
        let mut t = open(&world);
        t.keys("<esc>");
        t.send(&b"j".repeat(2000 * (round + 1)));
        t.hang_up();
        wait::wait_until("the screen is gone", || t.exited().is_some());
        assert_eq!(t.exit_status().code(), Some(129));
    }
    assert!(verb(&world, &["shutdown"]).status.success());
    wait_nothing_runs(&world.sandbox);
}

#[test]
fn a_core_that_dies_is_shown_and_can_be_started_again() {
    // design §2: a lost person's core; nothing is revived unasked
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("» fake:hang");
    let pi = fake_process(&world);
    let core = processes::all()
        .into_iter()
        .find(|p| p.args.iter().any(|a| a == "--core") && world.sandbox.processes().contains(p))
        .expect("the core runs");
    processes::signal(core.pid, Signal::KILL);
    t.wait_text("sessions kept");
    wait::wait_until("nothing of the agent is left", || !pi.alive());
    t.keys("r");
    t.wait_until("the agent as it ended", |s| {
        s.contains("✗ @max") && s.contains("supervisor lost")
    });
}

#[test]
fn several_dashboards_started_at_once_share_one_core() {
    // design §1: one core per folder; whoever comes second joins
    let world = FakePi::new();
    let mut screens: Vec<_> = (0..4)
        .map(|_| Setup::new().size(100, 30).start(&dashboard(&world)))
        .collect();
    for screen in &mut screens {
        screen.wait_text("type a task for a new agent");
    }
    let cores = world.sandbox.processes();
    let cores = cores
        .iter()
        .filter(|p| p.args.iter().any(|a| a == "--core"))
        .count();
    assert_eq!(cores, 1);
}

#[test]
fn a_screen_that_is_not_alone_leaves_the_core_to_the_others() {
    // R-TUI-01: quitting one of two must not end the other's core
    let world = FakePi::new();
    let mut one = open(&world);
    let mut two = open(&world);
    one.keys("<esc>q");
    assert!(one.exit_status().success());
    two.keys("still here<enter>");
    two.wait_text("ack: still here");
    two.keys("<esc>q");
    two.wait_text("stop all");
    two.keys("<esc>");
}
