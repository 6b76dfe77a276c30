//! The task line and the form.

use pi_agents::client::{ErrorCode, Reply, Request, RequestError, SpawnRequest};
use pi_agents::fleet::agent::{Thinking, ToolChoice};
use pi_agents::tui::app::{Focus, Screen};

use super::{desk, send, spawn};
use crate::tui::desk::Desk;
use crate::tui::fake_client::{FakeClient, agent, id};

// The task line -------------------------------------------------------------------------------

#[test]
fn a_task_and_enter_is_enough() {
    let mut desk = Desk::new(FakeClient::new(Vec::new()), 100, 30);
    desk.sees("No agents yet");
    desk.type_text("find every place that parses dates by hand");
    desk.press("enter");
    assert_eq!(
        desk.client.asked(),
        [Request::Spawn(spawn(
            "find every place that parses dates by hand"
        ))]
    );
    assert_eq!(desk.app.dispatch.line.text(), "");
}

#[test]
fn the_new_agent_is_selected_and_alt_enter_opens_it() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("go");
    desk.client.hold();
    desk.press("enter");
    desk.client
        .change(|fleet| fleet.agents.push(agent(9, "kai", "go")));
    desk.settle();
    assert_eq!(desk.app.selected, Some(id(9)), "as soon as it is there");

    let mut desk = self::desk();
    desk.press("n");
    desk.type_text("go");
    desk.client.hold();
    desk.press("alt+enter");
    desk.client
        .change(|fleet| fleet.agents.push(agent(9, "kai", "go")));
    desk.client.let_go(Ok(Reply::Spawned {
        agent: id(9),
        name: "kai".into(),
        session_path: None,
    }));
    desk.settle();
    assert_eq!(desk.app.screen, Screen::Agent(id(9)));
}

#[test]
fn the_selection_does_not_follow_somebody_who_went_on() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("go");
    desk.client.hold();
    desk.press("enter esc down");
    desk.client
        .change(|fleet| fleet.agents.push(agent(9, "kai", "go")));
    desk.settle();
    assert_eq!(desk.app.selected, Some(id(2)));
}

#[test]
fn a_task_that_did_not_start_comes_back_with_the_reason() {
    let mut desk = desk();
    desk.client.answer(|_, request| {
        matches!(request, Request::Spawn(_)).then(|| {
            Err(
                RequestError::new(ErrorCode::StartFailed, "model not found: sonet")
                    .with_hint("did you mean sonnet?"),
            )
        })
    });
    desk.press("n");
    desk.type_text("do it");
    desk.press("enter");
    desk.sees("not started: model not found: sonet");
    desk.sees("did you mean sonnet?");
    desk.sees("› do it");
    assert_eq!(desk.app.focus, Focus::Dispatch);
}

#[test]
fn at_name_messages_that_agent() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("@zoe only the row counts");
    desk.sees("message @zoe");
    desk.press("enter");
    assert_eq!(desk.client.asked(), [send(2, "only the row counts")]);
    assert_eq!(desk.app.selected, Some(id(2)));
}

#[test]
fn the_key_line_says_what_enter_does_with_the_line() {
    // screens.md §2
    let mut desk = desk();
    desk.press("n");
    desk.type_text("look at @zoe");
    assert!(desk.keys().contains("⏎ start"), "{}", desk.keys());
    desk.press("ctrl+u");
    desk.type_text("@zoe only the row counts");
    let keys = desk.keys();
    assert!(keys.contains("⏎ send") && !keys.contains("start"), "{keys}");
    desk.press("enter");
    assert!(desk.keys().contains("⏎ start"), "{}", desk.keys());
}

#[test]
fn names_complete() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("@z");
    desk.sees("@zoe  Research db schema");
    desk.press("tab");
    assert_eq!(desk.app.dispatch.line.text(), "@zoe ");
    desk.press("ctrl+u");
    desk.type_text("@");
    desk.press("down tab");
    assert_eq!(desk.app.dispatch.line.text(), "@zoe ", "the second one");
}

#[test]
fn an_unknown_name_says_who_is_known_and_keeps_the_text() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("@max2 hello");
    desk.press("enter");
    desk.sees("no agent @max2");
    desk.sees("known here: @max, @zoe");
    desk.sees("› @max2 hello");
    assert_eq!(desk.client.asked(), []);
    desk.press("home");
    desk.type_text(" ");
    desk.press("enter");
    assert_eq!(
        desk.client.asked(),
        [Request::Spawn(spawn("@max2 hello"))],
        "a blank before makes it a task"
    );
}

#[test]
fn a_message_from_the_line_that_failed_comes_back_with_its_name() {
    let mut desk = desk();
    desk.client.hold();
    desk.press("n");
    desk.type_text("@zoe hello");
    desk.press("enter");
    desk.client
        .let_go(Err(RequestError::new(ErrorCode::Gone, "it ended first")));
    desk.settle();
    desk.sees("› @zoe hello");
    desk.sees("@zoe not delivered: it ended first");
}

#[test]
fn the_draft_of_the_line_stays_and_letters_are_text_in_it() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("q w ? k");
    desk.press("esc");
    assert_eq!(desk.exit, None);
    assert_eq!(desk.app.focus, Focus::Roster);
    desk.sees("› q w ? k");
    desk.press("n");
    assert_eq!(desk.app.dispatch.line.text(), "q w ? k");
}

#[test]
fn up_recalls_what_was_sent_and_down_goes_back_to_the_draft() {
    let mut desk = desk();
    desk.press("n");
    for task in ["one", "two"] {
        desk.type_text(task);
        desk.press("enter");
    }
    desk.type_text("three");
    desk.press("up");
    assert_eq!(desk.app.dispatch.line.text(), "two");
    desk.press("up up");
    assert_eq!(desk.app.dispatch.line.text(), "one");
    desk.press("down down");
    assert_eq!(desk.app.dispatch.line.text(), "three");
}

#[test]
fn s_writes_to_the_selected_agent() {
    let mut desk = desk();
    desk.press("down s");
    assert_eq!(desk.app.dispatch.line.text(), "@zoe ");
    assert_eq!(desk.app.focus, Focus::Dispatch);
}

// The form ------------------------------------------------------------------------------------

#[test]
fn the_form_starts_an_agent_with_everything() {
    let mut desk = desk();
    desk.press("n");
    desk.type_text("find dates");
    desk.press("tab");
    desk.sees("New agent");
    desk.sees("find dates");
    desk.press("tab");
    desk.type_text("dates");
    desk.press("tab");
    desk.type_text("opus");
    desk.press("tab");
    desk.type_text("~/other");
    desk.press("tab right right");
    desk.sees("‹ minimal ›");
    desk.press("tab");
    desk.type_text("read, bash");
    desk.press("tab right");
    desk.sees("no, ends when done");
    desk.press("enter");
    assert_eq!(
        desk.client.asked(),
        [Request::Spawn(SpawnRequest {
            label: Some("dates".into()),
            model: Some("opus".into()),
            thinking: Some(Thinking::Minimal),
            tools: ToolChoice::Only(vec!["read".into(), "bash".into()]),
            cwd: Some("/home/you/other".into()),
            persistent: Some(false),
            ..spawn("find dates")
        })]
    );
    desk.misses("New agent");
    assert_eq!(desk.app.dispatch.line.text(), "");
}

#[test]
fn the_form_stays_as_it_was_when_the_start_failed() {
    let mut desk = desk();
    desk.client.answer(|_, request| {
        matches!(request, Request::Spawn(_)).then(|| {
            Err(
                RequestError::new(ErrorCode::StartFailed, "model not found: sonet")
                    .with_hint("did you mean sonnet?"),
            )
        })
    });
    desk.press("n tab");
    desk.type_text("find dates");
    desk.press("tab tab");
    desk.type_text("sonet");
    desk.press("enter");
    desk.sees("New agent");
    desk.sees("model not found: sonet");
    desk.sees("did you mean sonnet?");
    desk.sees("find dates");
    assert_eq!(desk.client.asked().len(), 1);
    desk.wait(1_000);
    desk.press("backspace");
    desk.misses("model not found");
}

#[test]
fn the_form_closes_into_the_line_and_needs_a_task() {
    let mut desk = desk();
    desk.press("n tab enter");
    desk.sees("a task is needed");
    assert_eq!(desk.client.asked(), []);
    desk.type_text("later");
    desk.press("alt+enter");
    desk.type_text("more");
    desk.press("esc");
    desk.misses("New agent");
    assert_eq!(desk.app.dispatch.line.text(), "later\nmore");
    assert_eq!(desk.app.focus, Focus::Dispatch);
}
