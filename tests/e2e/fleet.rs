//! Working with agents on the screen, with a fake Pi.

use std::time::{Duration, Instant};

use crate::support::fake::FakePi;
use crate::support::pty::Setup;
use crate::support::wait;

use super::world::{fake_process, open, open_in, start_agent, wait_nothing_runs};

#[test]
fn a_task_and_enter_start_an_agent_and_its_answer_appears() {
    // R-TUI-01, R-TUI-05
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(
        &mut t,
        "fake:think let me see ;; tool echo out-of-the-tool ;; say all is well",
        "max",
    );
    t.wait_text("out-of-the-tool");
    t.wait_text("all is well");
    t.wait_until("idle", |s| s.contains("‖ @max") && s.contains("‖ 1 idle"));
}

#[test]
fn ctrl_x_twice_stops_and_once_does_nothing() {
    // R-TUI-06
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    let pi = fake_process(&world);
    t.keys("<ctrl-x>");
    t.wait_text("press ctrl+x again to stop @max");
    t.keys("<down>");
    t.wait_until("disarmed", |s| !s.contains("press ctrl+x again"));
    t.keys("<ctrl-x>");
    t.wait_text("press ctrl+x again to stop @max");
    // Not within two seconds: the first press is forgotten.
    t.wait_until("the time is over", |s| !s.contains("press ctrl+x again"));
    t.keys("<ctrl-x>");
    t.wait_text("press ctrl+x again to stop @max");
    wait::stays(
        "one press stops nothing",
        Duration::from_millis(300),
        || pi.alive(),
    );
    t.keys("<ctrl-x>");
    t.wait_until("stopped", |s| s.contains("■ @max"));
    assert!(!pi.alive());
}

#[test]
fn ctrl_x_twice_ends_a_child_that_ignores_everything_with_what_it_started() {
    // B021, R-TUI-06, R-LIFE-07
    let world = FakePi::new().options("--ignore-eof --ignore-term --grandchild stubborn");
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    let pi = fake_process(&world);
    let grandchild = world.wait_events("grandchild", 1)[0]["pid"]
        .as_u64()
        .unwrap();
    let grandchild = u32::try_from(grandchild).unwrap();
    t.keys("<ctrl-x><ctrl-x>");
    t.wait_until("stopped", |s| s.contains("■ @max"));
    wait::wait_until("nothing of it is left", || {
        !pi.alive() && !crate::support::processes::alive(grandchild)
    });
}

#[test]
fn with_the_kitty_protocol_a_held_key_and_releases_do_not_count() {
    // R-TUI-06, B057
    let world = FakePi::new();
    let mut t = open_in(&world, Setup::new().size(100, 30).kitty());
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    let pi = fake_process(&world);
    t.keys("<ctrl-x:press><ctrl-x:repeat><ctrl-x:repeat><ctrl-x:release>");
    t.wait_text("press ctrl+x again to stop @max");
    wait::stays(
        "one held key stops nothing",
        Duration::from_millis(400),
        || pi.alive(),
    );
    t.keys("<ctrl-x:press><ctrl-x:release>");
    t.wait_until("stopped", |s| s.contains("■ @max"));
    assert!(!pi.alive());
}

#[test]
fn a_message_from_the_agent_view_steers_and_a_stopped_agent_comes_back() {
    // R-TUI-06, R-LIFE-10
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    t.keys("<enter>");
    t.wait_text("message @max");
    t.keys("look at the tests<enter>");
    t.wait_text("look at the tests");
    wait::wait_until("two prompts reached the child", || {
        world.commands("prompt").len() == 2
    });
    assert!(
        world
            .commands("prompt")
            .iter()
            .all(|p| p["streamingBehavior"] == "steer"),
        "R-PI-07"
    );
    t.keys("<ctrl-x><ctrl-x>");
    t.wait_text("stopped by you");
    t.keys("come back<enter>");
    t.wait_text("ack: come back");
    assert_eq!(world.wait_events("start", 2).len(), 2);
}

#[test]
fn escape_twice_aborts_the_run_and_gives_queued_messages_back() {
    // R-LIFE-15, R-TUI-06
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "fake:hang", "max");
    t.wait_text("1 running");
    t.keys("<enter>");
    t.wait_text("message @max");
    t.keys("remember this<enter>");
    t.wait_text("queued");
    wait::wait_until("the child has it", || world.commands("prompt").len() == 2);
    t.keys("<esc>");
    t.wait_text("esc again");
    t.keys("<esc>");
    t.wait_until("the text is in the composer again", |s| {
        s.contains("> remember this")
    });
    t.wait_text("stopped by you");
    let kinds: Vec<String> = world
        .events("command")
        .iter()
        .map(|c| c["command"]["type"].as_str().unwrap().to_owned())
        .collect();
    let clear = kinds.iter().position(|k| k == "clear_queue").unwrap();
    let abort = kinds.iter().position(|k| k == "abort").unwrap();
    assert!(clear < abort, "{kinds:?}");
}

#[test]
fn a_dialog_shows_as_asks_and_is_answered_from_the_agent_view() {
    // R-TUI-07, R-TUI-03, B014
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(
        &mut t,
        "fake:ask confirm Delete-the-branch ;; say done asking",
        "max",
    );
    t.wait_text("1 asks");
    t.keys("<enter>");
    t.wait_text("Delete-the-branch");
    t.keys("y");
    t.wait_text("done asking");
    assert_eq!(world.events("dialog not answered").len(), 0);
}

#[test]
fn a_failed_start_says_why_where_the_act_was_and_keeps_the_draft() {
    // R-TUI-01 bad input: nothing is lost
    let world = FakePi::new().options("--exit 3");
    let mut t = open(&world);
    t.keys("try this<enter>");
    t.wait_text("exit code 3");
    t.wait_text("✗ @max");
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    // B052, design §9: idle is idle
    let world = FakePi::new();
    let mut t = open(&world);
    start_agent(&mut t, "hello", "max");
    t.wait_text("ack: hello");
    t.wait_until("idle", |s| s.contains("‖ 1 idle"));
    t.wait_drained();
    // News is marked as seen after a moment; then nothing is left to draw, and no clock ticks.
    let mut before = t.output_len();
    let mut since = Instant::now();
    wait::wait_until("two seconds without a byte", || {
        let now = t.output_len();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(2)
    });
}

#[test]
fn closing_the_screen_by_quit_without_agents_leaves_nothing() {
    // R-LIFE-08
    let world = FakePi::new();
    let mut t = open(&world);
    t.keys("<esc>q");
    assert!(t.exit_status().success());
    wait_nothing_runs(&world.sandbox);
}
