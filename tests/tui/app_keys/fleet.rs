//! Quit, help, a core that is gone; the fleet screen and its inbox.

use pi_agents::client::Request;
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::tui::ExitReason;
use pi_agents::tui::app::{Attempt, Focus, Screen};

use super::{desk, opened, spawn, two};
use crate::tui::desk::Desk;
use crate::tui::fake_client::{FakeClient, agent, ended, id};
use crate::tui::scripted_fleet as sample;

// Quit, help, core ----------------------------------------------------------------------------

#[test]
fn quitting_with_live_agents_asks_and_its_default_is_to_stay() {
    let mut desk = desk();
    desk.client.agent(id(2), |view| view.status = Status::Idle);
    desk.settle();
    desk.press("q");
    desk.sees("1 running, 1 idle.");
    desk.sees("keep running in the background");
    desk.sees("stop all and quit");
    desk.press("enter");
    assert_eq!(desk.exit, None);
    desk.press("ctrl+c ctrl+c");
    assert_eq!(desk.exit, None, "twice is stay");
    desk.misses("keep running");
    desk.press("q");
    desk.wait(300);
    desk.press("k");
    assert_eq!(desk.exit, Some(ExitReason::Keep));
    desk.press("q");
    desk.wait(300);
    desk.press("s");
    assert_eq!(desk.exit, Some(ExitReason::Quit { stopped: 2 }));
    assert_eq!(
        desk.client.asked(),
        [],
        "the stop itself comes after the screen"
    );
}

#[test]
fn quitting_without_live_agents_does_not_ask() {
    let done = ended(agent(1, "max", "x"), Status::Completed, 1);
    let mut desk = Desk::new(FakeClient::new(vec![done]), 100, 30);
    desk.press("q");
    assert_eq!(desk.exit, Some(ExitReason::Quit { stopped: 0 }));
}

// A core may be full of running agents before its first news are here.
#[test]
fn quitting_before_the_fleet_is_known_stops_nothing() {
    let mut desk = Desk::starting(two(), 100, 30);
    desk.press("q");
    assert_eq!(desk.exit, Some(ExitReason::NotStarted));
    pi_agents::tui::update::client::connected(&mut desk.app);
    let event = crossterm::event::KeyEvent::new(
        crossterm::event::KeyCode::Char('q'),
        crossterm::event::KeyModifiers::NONE,
    );
    let effects = pi_agents::tui::update::input::event(
        &mut desk.app,
        crossterm::event::Event::Key(event),
        desk.now,
    );
    assert_eq!(
        effects,
        [pi_agents::tui::app::Effect::Exit(ExitReason::Keep)]
    );
}

#[test]
fn ctrl_c_asks_from_a_text_field_too() {
    let mut desk = opened();
    desk.type_text("q");
    assert_eq!(desk.exit, None);
    desk.press("ctrl+c");
    desk.sees("stop all and quit");
    desk.press("esc");
    desk.sees("> q");
}

#[test]
fn the_help_is_searched_by_typing() {
    let mut desk = Desk::new(sample::client(), 100, 40);
    desk.press("?");
    desk.sees("type to search");
    desk.sees("Type a task for a new agent");
    desk.type_text("stop twice");
    desk.sees("Stop the agent: press twice");
    desk.misses("Type a task for a new agent");
    desk.press("esc");
    desk.misses("Stop the agent: press twice");
    // Its first section is where the person is.
    desk.press("n f1");
    let (_, task) = desk.find("Task line").unwrap();
    assert!(task < 5, "{}", desk.text());
}

#[test]
fn a_lost_core_keeps_the_rows_and_offers_to_reconnect() {
    let mut desk = desk();
    desk.client.end();
    desk.settle();
    desk.sees("core 4711 ended 12:00 · sessions kept");
    desk.sees("@max");
    assert!(desk.keys().contains("r reconnect"), "{}", desk.keys());
    assert!(!desk.keys().contains("stop"), "{}", desk.keys());
    assert_eq!(desk.app.next_wake(desk.now), None, "nothing moves any more");
    desk.press("r");
    assert_eq!(desk.connects, [Attempt::Reconnect]);
    desk.press("r");
    assert_eq!(desk.connects.len(), 1, "one at a time");
    desk.press("q");
    assert_eq!(desk.exit, Some(ExitReason::CoreLost));
}

#[test]
fn tasks_are_kept_while_there_is_no_core() {
    let mut desk = Desk::starting(FakeClient::new(Vec::new()), 100, 30);
    desk.sees("starting…");
    desk.press("n");
    desk.type_text("early");
    desk.press("enter");
    desk.sees("still starting");
    desk.sees("› early");
    desk.connect();
    desk.wait(1_000);
    desk.press("enter");
    assert_eq!(desk.client.asked(), [Request::Spawn(spawn("early"))]);
}

// Fleet ---------------------------------------------------------------------------------------

// R-TUI-02
#[test]
fn the_selection_is_an_agent_not_a_place() {
    let mut desk = desk();
    desk.press("j");
    assert_eq!(desk.app.selected, Some(id(2)));
    desk.client
        .change(|fleet| fleet.agents.insert(0, agent(9, "kai", "new")));
    desk.settle();
    assert_eq!(desk.app.selected, Some(id(2)));
    desk.press("end k home");
    desk.press("up");
    assert_eq!(desk.app.selected, desk.app.all().first().map(|a| a.id));
}

// R-TUI-02
#[test]
fn older_finished_rows_fold_first_and_their_number_is_shown() {
    let mut agents = Vec::new();
    for n in 1..=30 {
        let view = agent(n, &format!("a{n}"), "x");
        agents.push(match n {
            5 => ended(
                view,
                Status::Failed {
                    reason: "broken".into(),
                },
                1,
            ),
            1..=25 => ended(view, Status::Completed, 1),
            _ => view,
        });
    }
    let mut desk = Desk::new(FakeClient::new(agents), 120, 24);
    desk.press("end");
    desk.sees("finished · a to show");
    for kept in ["@a5 ", "@a25", "@a26", "@a30"] {
        desk.sees(kept);
    }
    desk.misses("@a2 ");
    desk.press("a home");
    desk.sees("@a2 ");
    desk.misses("a to show");
}

// R-TUI-03
#[test]
fn what_ended_unseen_is_unread_until_it_is_opened() {
    let mut desk = desk();
    desk.misses("Inbox");
    desk.client.agent(id(2), |view| {
        view.runs_ended = 1;
        view.status = Status::Idle;
        view.activity = None;
    });
    desk.settle();
    desk.sees("Inbox · 1");
    desk.sees("@zoe completed");
    desk.sees("●");
    desk.press("w");
    assert_eq!(desk.app.selected, Some(id(2)));
    desk.wait(1_000);
    desk.sees("●");
    desk.wait(1_000);
    desk.misses("●");
    desk.misses("Inbox");
    assert!(!desk.keys().contains("next waiting"), "{}", desk.keys());
}

#[test]
fn a_stop_the_person_asked_for_in_a_shell_is_no_news() {
    // R-TUI-03
    let stopped_by = |by: StopCause| {
        let mut desk = desk();
        for n in [1, 2] {
            desk.client.agent(id(n), |view| {
                view.runs_ended = 1;
                view.status = Status::Stopped { by };
            });
        }
        desk.settle();
        desk
    };
    let desk = stopped_by(StopCause::You);
    desk.misses("Inbox");
    desk.misses("●");
    assert!(!desk.keys().contains("next waiting"), "{}", desk.keys());
    // What others stopped is.
    let desk = stopped_by(StopCause::Timeout);
    desk.sees("Inbox · 2");
    desk.sees("@max stopped");
}

#[test]
fn a_stop_hides_no_result_that_nobody_saw() {
    let mut desk = desk();
    desk.client.agent(id(2), |view| {
        view.runs_ended = 1;
        view.status = Status::Idle;
    });
    desk.settle();
    desk.sees("Inbox · 1");
    // A second run is stopped in a shell; then nothing but the process.
    for runs in [2, 2] {
        desk.client.agent(id(2), |view| {
            view.runs_ended = runs;
            view.status = Status::Stopped { by: StopCause::You };
        });
        desk.settle();
        desk.sees("Inbox · 1");
    }
    desk.press("w");
    desk.wait(2_000);
    desk.misses("Inbox");
}

#[test]
fn a_long_folder_name_leaves_the_counts_in_the_header() {
    for (name, cols) in [
        ("n".repeat(255), 80),
        ("ü漢".repeat(60), 120),
        ("long-".repeat(9), 80),
    ] {
        let client = two();
        client.change(|fleet| fleet.core.folder = format!("/home/you/{name}").into());
        let desk = Desk::new(client, cols, 30);
        desk.sees("2 running");
        desk.sees("…");
        desk.sees("pi-agents");
    }
    // A short one stands whole.
    let desk = Desk::new(two(), 80, 30);
    desk.sees("pi-agents · shop");
}

#[test]
fn what_ends_while_it_is_open_is_no_news() {
    let mut desk = opened();
    desk.client.agent(id(1), |view| {
        view.runs_ended = 1;
        view.status = Status::Idle;
    });
    desk.settle();
    desk.press("esc");
    desk.misses("Inbox");
}

#[test]
fn questions_are_on_top_of_the_inbox_and_w_goes_round() {
    let mut desk = Desk::new(sample::client(), 120, 40);
    desk.client.agent(id(4), |view| view.runs_ended = 2);
    desk.client.agent(id(6), |view| {
        view.runs_ended = 2;
        view.status = Status::Stopped { by: StopCause::You };
    });
    desk.settle();
    desk.sees("Inbox · 3");
    desk.press("w");
    assert_eq!(desk.app.selected, Some(id(2)), "the question first");
    desk.press("w");
    let second = desk.app.selected;
    desk.press("w");
    let third = desk.app.selected;
    assert_ne!(second, third);
    desk.press("w");
    assert_eq!(desk.app.selected, Some(id(2)));
    desk.press("tab tab");
    assert_eq!(desk.app.focus, Focus::Inbox);
    desk.press("down enter");
    assert!(matches!(desk.app.screen, Screen::Agent(_)));
}

#[test]
fn only_the_conversation_on_the_screen_is_watched() {
    let watched = |desk: &Desk| desk.app.streams.watched.clone();
    let mut desk = Desk::new(sample::client(), 120, 30);
    assert_eq!(watched(&desk), [id(1)]);
    desk.sees("three jobs");
    desk.press("down down down");
    assert_eq!(watched(&desk), [id(4)]);
    desk.sees("Found five files");
    desk.resize(80, 24);
    assert!(watched(&desk).is_empty());
    desk.press("enter");
    assert_eq!(watched(&desk), [id(4)]);
}

#[test]
fn a_gap_in_the_news_asks_for_all_of_it() {
    let mut desk = desk();
    desk.client.push(pi_agents::client::Update::Delta(
        pi_agents::fleet::roster::FleetDelta {
            since: 77,
            rev: 78,
            core: None,
            agents: Vec::new(),
        },
    ));
    desk.settle();
    assert_eq!(desk.client.asked(), [Request::Resync]);
    desk.sees("@max");
}

#[test]
fn footers_name_only_keys_that_do_something() {
    let mut desk = Desk::new(FakeClient::new(Vec::new()), 100, 30);
    desk.press("esc");
    let keys = desk.keys();
    for absent in ["open", "stop", "send", "waiting", "panes", "fold"] {
        assert!(!keys.contains(absent), "{absent}: {keys}");
    }
    assert!(keys.contains("n new") && keys.contains("? help"), "{keys}");
}

// R-TUI-09
#[test]
fn the_mouse_selects_opens_scrolls_and_folds() {
    let mut desk = Desk::new(sample::client(), 120, 40);
    desk.click("‖ @kai");
    assert_eq!(desk.app.selected, Some(id(3)));
    desk.click("‖ @kai");
    assert_eq!(desk.app.screen, Screen::Agent(id(3)));
    let mut desk = Desk::new(sample::client(), 120, 40);
    desk.sees("9 earlier lines");
    desk.click("PASS src/part12");
    desk.sees("9 earlier lines");
    desk.click("PASS src/part12");
    desk.misses("9 earlier lines");
    desk.sees("PASS src/part1.test");
    desk.press("ctrl+o ctrl+o");
    desk.sees("9 earlier lines");
}

// B062
#[test]
fn the_real_cursor_is_at_the_caret_and_hidden_without_a_field() {
    let mut desk = desk();
    assert_eq!(desk.cursor(), None);
    desk.press("n");
    desk.type_text("日本x");
    let (x, y) = desk.cursor().unwrap();
    assert_eq!((x, y), (3 + 5, 28));
    desk.press("left");
    assert_eq!(desk.cursor(), Some((7, 28)));
    desk.press("esc");
    assert_eq!(desk.cursor(), None);
    desk.press("enter");
    let (_, y) = desk.cursor().unwrap();
    assert_eq!(y, 27);
    desk.press("?");
    assert!(desk.cursor().is_some(), "in the search of the help");
}
