//! The stop key and Esc (R-TUI-06, R-LIFE-15).

use pi_agents::client::{ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::Status;
use pi_agents::tui::app::Screen;

use super::{abort, desk, opened, send, stop};
use crate::tui::fake_client::id;

// R-TUI-06: the stop key --------------------------------------------------------------------

#[test]
fn one_press_stops_nothing_and_says_what_a_second_one_would() {
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.sees("press ctrl+x again to stop @max (2s)");
    desk.wait(10_000);
    assert_eq!(desk.client.asked(), []);
    desk.misses("press ctrl+x again");
}

#[test]
fn a_second_press_within_two_seconds_stops_where_releases_are_reported() {
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.release("ctrl+x");
    desk.wait(1_900);
    desk.press("ctrl+x");
    assert_eq!(desk.client.asked(), [stop(1)]);
    desk.wait(5_000);
    assert_eq!(desk.client.asked(), [], "once");
}

#[test]
fn a_second_press_after_two_seconds_arms_again() {
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.release("ctrl+x");
    desk.wait(2_001);
    desk.press("ctrl+x");
    assert_eq!(desk.client.asked(), []);
    desk.sees("press ctrl+x again to stop @max");
}

// B057
#[test]
fn repeats_and_releases_never_count() {
    let mut desk = desk();
    desk.press("ctrl+x");
    for _ in 0..50 {
        desk.now.mono += 30;
        desk.repeat("ctrl+x");
    }
    desk.release("ctrl+x");
    desk.wait(5_000);
    assert_eq!(desk.client.asked(), []);
    // Enter pressed and released sends one message.
    let mut desk = opened();
    desk.type_text("hello");
    desk.press("enter");
    desk.release("enter");
    assert_eq!(desk.client.asked(), [send(1, "hello")]);
}

#[test]
fn without_releases_the_stop_comes_120_ms_after_the_second_press() {
    let mut desk = desk();
    desk.press("ctrl+x ctrl+x");
    assert_eq!(desk.client.asked(), []);
    desk.wait(110);
    assert_eq!(desk.client.asked(), []);
    desk.wait(10);
    assert_eq!(desk.client.asked(), [stop(1)]);
    desk.wait(5_000);
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn without_releases_a_held_key_stops_nothing() {
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.wait(500);
    for _ in 0..60 {
        desk.press("ctrl+x");
        desk.wait(33);
    }
    desk.wait(5_000);
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn another_key_a_selection_or_losing_the_window_disarms() {
    for between in ["f1 esc", "w", "down up", "tab", "n esc"] {
        let mut desk = desk();
        desk.press("ctrl+x");
        desk.release("ctrl+x");
        desk.press(between);
        desk.press("ctrl+x");
        desk.wait(1_000);
        assert_eq!(desk.client.asked(), [], "{between}");
    }
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.release("ctrl+x");
    desk.event(crossterm::event::Event::FocusLost);
    desk.press("ctrl+x");
    desk.wait(1_000);
    assert_eq!(desk.client.asked(), [], "focus lost");

    let mut desk = self::desk();
    desk.press("ctrl+x");
    desk.release("ctrl+x");
    desk.click("@zoe");
    desk.press("ctrl+x");
    desk.wait(1_000);
    assert_eq!(desk.client.asked(), [], "a click on another row");

    // In the last moment before a stop that is due.
    let mut desk = self::desk();
    desk.press("ctrl+x ctrl+x down");
    desk.wait(1_000);
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn an_agent_that_ended_by_itself_is_not_armed_any_more() {
    let mut desk = desk();
    desk.press("ctrl+x");
    desk.client
        .agent(id(1), |view| view.status = Status::Completed);
    desk.settle();
    desk.misses("press ctrl+x again");
    desk.press("ctrl+x ctrl+x");
    desk.wait(1_000);
    assert_eq!(desk.client.asked(), []);
    assert!(!desk.keys().contains("^X"), "{}", desk.keys());
}

#[test]
fn the_stop_key_works_in_the_agent_view_also_while_typing() {
    let mut desk = opened();
    desk.type_text("half a mess");
    desk.press("ctrl+x");
    desk.sees("press ctrl+x again to stop @max");
    desk.press("ctrl+x");
    desk.wait(200);
    assert_eq!(desk.client.asked(), [stop(1)]);
    desk.sees("half a mess");
}

#[test]
fn a_stop_that_failed_says_why_until_the_next_key() {
    let mut desk = desk();
    desk.client.answer(|_, request| {
        matches!(request, Request::Stop { .. }).then(|| {
            Err(
                RequestError::new(ErrorCode::Internal, "still alive after kill")
                    .with_hint("pi-agents doctor"),
            )
        })
    });
    desk.press("ctrl+x ctrl+x");
    desk.wait(200);
    desk.sees("@max stop failed: still alive after kill");
    desk.sees("pi-agents doctor");
    desk.wait(60_000);
    desk.sees("@max stop failed");
    desk.press("down");
    desk.misses("@max stop failed");
}

// R-LIFE-15: Esc ------------------------------------------------------------------------------

#[test]
fn esc_arms_then_aborts_the_run_and_gives_the_queued_messages_back() {
    let mut desk = opened();
    desk.client.answer(|_, request| {
        matches!(request, Request::Abort { .. }).then(|| {
            Ok(Reply::Aborted {
                returned: vec!["also check the lint job".into(), "and the docs".into()],
            })
        })
    });
    desk.press("esc");
    desk.sees("press esc again to abort the run of @max");
    assert_eq!(desk.client.asked(), []);
    desk.press("esc");
    assert_eq!(desk.client.asked(), [abort(1)]);
    assert_eq!(
        desk.app.screen,
        Screen::Agent(id(1)),
        "it never leaves by that"
    );
    desk.sees("also check the lint job");
    desk.sees("and the docs");
}

#[test]
fn what_was_typed_meanwhile_stays_behind_what_comes_back() {
    let mut desk = opened();
    desk.type_text("mine");
    desk.client.hold();
    desk.press("esc esc");
    desk.client.let_go(Ok(Reply::Aborted {
        returned: vec!["theirs".into()],
    }));
    desk.settle();
    let draft = &desk.app.agents[&id(1)].draft;
    assert_eq!(draft.text(), "theirs\n\nmine");
}

#[test]
fn esc_is_disarmed_by_any_other_key_and_by_time() {
    let mut desk = opened();
    desk.press("esc");
    desk.type_text("x");
    desk.press("esc");
    assert_eq!(desk.client.asked(), []);
    desk.wait(2_500);
    desk.press("esc");
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn esc_goes_back_when_nothing_runs_and_never_stops_the_agent() {
    let mut desk = opened();
    desk.client.agent(id(1), |view| view.status = Status::Idle);
    desk.settle();
    desk.press("esc");
    assert_eq!(desk.app.screen, Screen::Fleet);
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn a_held_esc_aborts_nothing_where_repeats_are_reported() {
    let mut desk = opened();
    desk.press("esc");
    desk.repeat("esc");
    desk.repeat("esc");
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn left_goes_back_only_from_an_empty_message() {
    let mut desk = opened();
    desk.type_text("ab");
    desk.press("left left left");
    assert_eq!(desk.app.screen, Screen::Agent(id(1)));
    desk.press("ctrl+u ctrl+k left");
    assert_eq!(desk.app.screen, Screen::Fleet);
}
