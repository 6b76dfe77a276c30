//! What broke the screen when people typed fast, started much or lost their core.

use pi_agents::client::{ErrorCode, Request, RequestError, SpawnRequest};
use pi_agents::fleet::agent::ToolChoice;
use pi_agents::fleet::transcript::{EntryKind, ToolEntry, ToolState};
use pi_agents::tui::ExitReason;
use pi_agents::tui::app::{Focus, Screen};

use super::desk::Desk;
use super::fake_client::{FakeClient, agent, id};

fn desk() -> Desk {
    Desk::new(FakeClient::new(vec![agent(1, "max", "Check CI")]), 120, 30)
}

fn spawn(prompt: &str) -> SpawnRequest {
    SpawnRequest {
        prompt: prompt.into(),
        label: None,
        model: None,
        thinking: None,
        tools: ToolChoice::All,
        cwd: None,
        persistent: None,
        timeout_ms: None,
        env: Vec::new(),
    }
}

#[test]
fn a_second_task_can_be_typed_right_after_the_first() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("one");
    desk.press("enter");
    desk.type_text("queries are slow");
    desk.press("enter");
    assert_eq!(
        desk.client.asked(),
        [
            Request::Spawn(spawn("one")),
            Request::Spawn(spawn("queries are slow"))
        ]
    );
    assert!(desk.app.overlay.is_none());
    assert_eq!(desk.app.focus, Focus::Dispatch);
    assert_eq!(desk.app.dispatch.line.text(), "");
    assert!(desk.keys().contains("esc leave"), "{}", desk.keys());
    desk.press("up");
    assert_eq!(desk.app.dispatch.line.text(), "queries are slow");
    desk.press("esc");
    assert_eq!(desk.app.focus, Focus::Roster);
}

// R-TUI-06
#[test]
fn the_stop_key_works_from_the_task_line() {
    let mut desk = desk();
    desk.press("n ctrl+x");
    desk.sees("press ctrl+x again to stop @max");
    desk.press("ctrl+x");
    desk.wait(200);
    assert_eq!(desk.client.asked().len(), 1);
}

// R-LIFE-08
#[test]
fn fast_typing_does_not_choose_in_the_quit_question() {
    let mut desk = desk();
    for key in ["q", "u", "e", "r", "i", "e", "s", "k", "s"] {
        desk.wait(150);
        desk.press(key);
    }
    assert_eq!(desk.exit, None);
    desk.sees("stop all and quit");
    desk.wait(300);
    desk.press("s");
    assert_eq!(desk.exit, Some(ExitReason::Quit { stopped: 1 }));
}

#[test]
fn a_start_that_was_stopped_gives_no_draft_back() {
    let mut desk = desk();
    desk.client.hold();
    desk.press("n");
    desk.type_text("one");
    desk.press("enter esc");
    let why = "not started: the agent was stopped first";
    desk.client
        .let_go(Err(RequestError::new(ErrorCode::Gone, why)));
    desk.settle();
    assert_eq!(desk.app.dispatch.line.text(), "");
    assert_eq!(desk.app.focus, Focus::Roster);
    desk.sees(why);
    desk.misses("not started: not started");
    desk.press("n up");
    assert_eq!(desk.app.dispatch.line.text(), "one", "still recalled");
}

#[test]
fn a_failed_start_never_moves_the_focus_or_touches_what_is_typed() {
    for typed in ["", "two"] {
        let mut desk = desk();
        desk.client.hold();
        desk.press("n");
        desk.type_text("one");
        desk.press("enter");
        desk.type_text(typed);
        desk.press("esc");
        desk.client.let_go(Err(RequestError::new(
            ErrorCode::StartFailed,
            "not started: no such model",
        )));
        desk.settle();
        assert_eq!(desk.app.focus, Focus::Roster);
        let kept = if typed.is_empty() { "one" } else { "two" };
        assert_eq!(desk.app.dispatch.line.text(), kept);
        desk.sees("not started: no such model");
        desk.misses("not started: not started");
    }
}

#[test]
fn the_view_of_an_agent_says_that_the_core_is_gone_and_keeps_the_message() {
    let mut desk = desk();
    desk.press("enter");
    assert_eq!(desk.app.screen, Screen::Agent(id(1)));
    desk.type_text("hello");
    desk.client.end();
    desk.settle();
    desk.sees("core 4711 ended 12:00");
    desk.sees("esc, then r to reconnect");
    desk.press("enter");
    desk.sees("the core is gone; nothing can be sent");
    desk.sees("> hello");
    assert_eq!(desk.client.asked(), []);
    desk.press("esc r");
    assert_eq!(desk.connects.len(), 1);
}

#[test]
fn the_form_of_the_next_task_is_empty() {
    let mut desk = desk();
    desk.press("n tab");
    desk.type_text("one");
    desk.press("tab");
    desk.sees("Title");
    desk.press("tab");
    desk.type_text("opus");
    desk.press("tab");
    desk.type_text("/other");
    desk.press("enter");
    desk.misses("New agent");
    desk.press("tab");
    desk.type_text("two");
    desk.press("enter");
    let asked = desk.client.asked();
    assert_eq!(asked.len(), 2);
    let second = SpawnRequest {
        persistent: Some(true),
        ..spawn("two")
    };
    assert_eq!(asked[1], Request::Spawn(second));

    // Filled in and left for another task that is started from the line.
    desk.press("tab tab tab");
    desk.type_text("opus");
    desk.press("esc");
    desk.type_text("three");
    desk.press("enter");
    assert_eq!(desk.client.asked(), [Request::Spawn(spawn("three"))]);
    assert_eq!(desk.app.form.model.text(), "");
}

// screens.md §3: on opening, a rule marks what is new
#[test]
fn what_came_since_an_agent_was_left_is_ruled_off_when_it_is_opened_again() {
    let text = |text: &str| EntryKind::Text {
        text: text.into(),
        done: true,
    };
    let mut desk = desk();
    desk.client.entry(id(1), text("the first answer"));
    desk.settle();
    desk.press("enter");
    desk.sees("the first answer");
    desk.misses("new since");
    desk.press("left");
    desk.client.entry(
        id(1),
        EntryKind::Tool(ToolEntry {
            call_id: "c".into(),
            name: "bash".into(),
            args: r#"{"command":"ls"}"#.into(),
            output: "a".into(),
            hidden_lines: 0,
            state: ToolState::Done,
            started_ms: None,
            took_ms: Some(3),
        }),
    );
    desk.client.entry(id(1), text("the second answer"));
    desk.settle();
    desk.press("enter");
    desk.sees("── new since 12:00 · 1 tool, 1 answer ──");
    let lines = desk.lines();
    let at = |text: &str| lines.iter().position(|l| l.contains(text)).unwrap();
    assert!(at("the first answer") < at("new since") && at("new since") < at("bash"));
    // What comes while one looks is not new, and the rule goes with the view.
    desk.client.entry(id(1), text("the third answer"));
    desk.settle();
    desk.sees("1 tool, 1 answer");
    desk.press("left enter");
    desk.misses("new since");
}
