//! The agent view and questions (R-TUI-07).

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::roster::{DialogAnswer, DialogKind, DialogView};
use pi_agents::tui::app::{Focus, Screen};

use super::{desk, opened, send};
use crate::tui::desk::Desk;
use crate::tui::fake_client::{FakeClient, NOON, agent, id, select};
use crate::tui::scripted_fleet as sample;

// The agent view ------------------------------------------------------------------------------

#[test]
fn enter_sends_and_other_enters_break_the_line() {
    let mut desk = opened();
    desk.type_text("one");
    desk.press("alt+enter");
    desk.type_text("two");
    desk.press("shift+enter");
    desk.type_text("three");
    desk.press("enter");
    assert_eq!(desk.client.asked(), [send(1, "one\ntwo\nthree")]);
    desk.press("enter");
    assert_eq!(desk.client.asked(), [], "nothing typed, nothing sent");
    desk.type_text("   ");
    desk.press("enter");
    assert_eq!(desk.client.asked(), []);
}

#[test]
fn a_message_is_seen_as_sending_then_as_queued() {
    let mut desk = opened();
    desk.client.hold();
    desk.type_text("also check the lint job");
    desk.press("enter");
    desk.sees("⧗ sending  \"also check the lint job\"");
    desk.client.agent(id(1), |view| {
        view.pending = vec![sample::pending("also check the lint job")];
    });
    desk.settle();
    desk.sees("⧗ queued  \"also check the lint job\"");
    desk.misses("⧗ sending");
    desk.client.let_go(Ok(Reply::Sent {
        message: MessageId(uuid::Uuid::from_u128(5)),
        revived: false,
        steered: true,
    }));
    desk.client.agent(id(1), |view| view.pending.clear());
    desk.settle();
    desk.misses("⧗");
}

#[test]
fn a_message_that_was_not_delivered_comes_back_with_the_reason() {
    let mut desk = opened();
    desk.client.hold();
    desk.type_text("hello");
    desk.press("enter");
    desk.client.let_go(Err(RequestError::new(
        ErrorCode::Gone,
        "the agent ended first",
    )
    .with_hint("enter sends it again and brings the agent back")));
    desk.settle();
    desk.sees("@max not delivered: the agent ended first");
    desk.sees("enter sends it again");
    desk.sees("> hello");
    // A key that was already on its way does not take the error away.
    desk.type_text("x");
    desk.sees("@max not delivered");
    desk.wait(1_000);
    desk.type_text("y");
    desk.misses("@max not delivered");
    desk.sees("> helloxy");
}

#[test]
fn drafts_are_kept_for_each_agent() {
    let mut desk = opened();
    desk.type_text("for max");
    desk.client.agent(id(1), |view| view.status = Status::Idle);
    desk.settle();
    desk.press("esc down enter");
    assert_eq!(desk.app.screen, Screen::Agent(id(2)));
    desk.misses("for max");
    desk.client.agent(id(2), |view| view.status = Status::Idle);
    desk.settle();
    desk.press("esc up enter");
    desk.sees("> for max");
}

// B059
#[test]
fn a_paste_of_several_lines_is_text_and_sends_nothing() {
    let mut desk = opened();
    desk.paste("# Heading\r\n\r\nparagraph one — ünïcödé 界\r\n\r\n/continue not a command\r\n@max not a mention");
    assert_eq!(desk.client.asked(), []);
    assert_eq!(desk.app.agents[&id(1)].draft.line_count(), 6);
    desk.press("enter");
    assert_eq!(
        desk.client.asked(),
        [send(
            1,
            "# Heading\n\nparagraph one — ünïcödé 界\n\n/continue not a command\n@max not a mention"
        )]
    );
}

// B064
#[test]
fn control_bytes_in_a_paste_are_no_keys() {
    let mut desk = opened();
    desk.paste("safe \x1b]52;c;QUJD\x07 \x1b[31mred\x1b[0m \x03 \x18\x18 \x1a \0 tail");
    desk.wait(1_000);
    assert_eq!(desk.client.asked(), []);
    assert_eq!((desk.exit, desk.suspended), (None, 0));
    desk.sees("safe  red     tail");
}

#[test]
fn a_paste_where_no_field_has_the_focus_goes_to_the_task_line() {
    let mut desk = desk();
    desk.paste("q\nctrl");
    assert_eq!(desk.exit, None);
    assert_eq!(desk.app.focus, Focus::Dispatch);
    assert_eq!(desk.app.dispatch.line.text(), "q\nctrl");
}

// Questions (R-TUI-07) ------------------------------------------------------------------------

fn asking(kind: DialogKind) -> Desk {
    let mut zoe = agent(2, "zoe", "Research db schema");
    zoe.dialogs = vec![DialogView {
        id: "d1".into(),
        title: "Allow dangerous command?".into(),
        kind,
        since_ms: NOON,
        timeout_ms: Some(20_000),
    }];
    let mut desk = Desk::new(FakeClient::new(vec![zoe]), 100, 24);
    desk.press("enter");
    desk.wait(500);
    desk
}

fn answers(desk: &Desk) -> Vec<DialogAnswer> {
    desk.client
        .asked()
        .into_iter()
        .map(|request| match request {
            Request::Answer {
                agent,
                dialog,
                answer,
            } => {
                assert_eq!(agent, AgentRef::Id(id(2)));
                assert_eq!(dialog, "d1");
                answer
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_choice_is_answered_by_its_number_or_by_marking_it() {
    let options = || DialogKind::Select {
        options: vec![
            "Allow".into(),
            "Allow for this session".into(),
            "Block".into(),
        ],
    };
    let mut desk = asking(options());
    desk.sees("needs an answer");
    desk.sees("Allow dangerous command?");
    desk.sees("3  Block");
    desk.sees("20s left");
    desk.wait(1_000);
    desk.sees("19s left");
    desk.press("3");
    assert_eq!(answers(&desk), [DialogAnswer::Value("Block".into())]);
    let mut desk = asking(options());
    desk.press("down enter");
    assert_eq!(
        answers(&desk),
        [DialogAnswer::Value("Allow for this session".into())]
    );
    let mut desk = asking(options());
    desk.press("9");
    assert_eq!(answers(&desk), []);
    desk.press("esc");
    assert_eq!(answers(&desk), [DialogAnswer::Cancelled]);
    let mut desk = asking(options());
    desk.click("2  Allow");
    assert_eq!(
        answers(&desk),
        [DialogAnswer::Value("Allow for this session".into())]
    );
}

// B014
#[test]
fn a_question_is_answered_once() {
    let mut desk = asking(DialogKind::Confirm {
        message: "rm -rf build/".into(),
    });
    desk.sees("rm -rf build/");
    desk.client.hold();
    desk.press("y y n enter esc");
    assert_eq!(answers(&desk), [DialogAnswer::Confirmed(true)]);
}

#[test]
fn a_refused_answer_can_be_given_again() {
    let mut desk = asking(DialogKind::Confirm {
        message: String::new(),
    });
    desk.client.hold();
    desk.press("n");
    assert_eq!(answers(&desk), [DialogAnswer::Confirmed(false)]);
    desk.client
        .let_go(Err(RequestError::new(ErrorCode::Conflict, "busy")));
    desk.settle();
    desk.sees("@zoe did not get the answer: busy");
    desk.wait(1_000);
    desk.press("tab tab tab");
    desk.wait(1_000);
    desk.press("n");
    assert_eq!(answers(&desk), [DialogAnswer::Confirmed(false)]);
}

#[test]
fn text_answers_are_typed() {
    let mut desk = asking(DialogKind::Input {
        placeholder: Some("a number".into()),
    });
    desk.sees("a number");
    desk.type_text("42 q");
    desk.paste("x\ny");
    desk.press("enter");
    assert_eq!(answers(&desk), [DialogAnswer::Value("42 qx y".into())]);
    let mut desk = asking(DialogKind::Editor {
        prefill: Some("line one".into()),
    });
    desk.sees("line one");
    desk.press("alt+enter");
    desk.type_text("two");
    desk.press("enter");
    assert_eq!(
        answers(&desk),
        [DialogAnswer::Value("line one\ntwo".into())]
    );
}

#[test]
fn a_question_does_not_take_the_keys_from_somebody_who_types() {
    let mut desk = opened();
    desk.type_text("1");
    desk.client.agent(id(1), |view| {
        view.dialogs = vec![select("d9", "Which?", &["A", "B"])]
    });
    desk.settle();
    desk.sees("Which?");
    desk.type_text("2");
    desk.sees("> 12");
    assert_eq!(desk.client.asked(), []);
    desk.press("tab");
    desk.press("2");
    assert_eq!(desk.client.asked(), [], "a key on its way does not answer");
    desk.wait(400);
    desk.press("2");
    assert_eq!(
        desk.client.asked(),
        [Request::Answer {
            agent: AgentRef::Id(id(1)),
            dialog: "d9".into(),
            answer: DialogAnswer::Value("B".into()),
        }]
    );
}

#[test]
fn a_question_that_ended_by_itself_goes() {
    let mut desk = asking(DialogKind::Confirm {
        message: "rm -rf build/".into(),
    });
    desk.client.agent(id(2), |view| view.dialogs.clear());
    desk.settle();
    desk.misses("needs an answer");
    desk.type_text("y");
    desk.sees("> y");
    assert_eq!(desk.client.asked(), []);
}
