//! What keys do, pressed by a person at a desk: the rules of R-TUI-06, R-LIFE-15 and screens.md.

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request, RequestError, SpawnRequest};
use pi_agents::fleet::agent::{Status, StopCause, Thinking, ToolChoice};
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::roster::{DialogAnswer, DialogKind, DialogView};
use pi_agents::tui::ExitReason;
use pi_agents::tui::app::{Attempt, Focus, Screen};

use super::desk::Desk;
use super::fake_client::{FakeClient, NOON, agent, ended, id, select};
use super::scripted_fleet as sample;

fn two() -> FakeClient {
    FakeClient::new(vec![
        agent(1, "max", "Check CI configuration"),
        agent(2, "zoe", "Research db schema"),
    ])
}

fn desk() -> Desk {
    Desk::new(two(), 120, 30)
}

fn opened() -> Desk {
    let mut desk = desk();
    desk.press("enter");
    assert_eq!(desk.app.screen, Screen::Agent(id(1)));
    desk.now.mono += 5_000;
    desk
}

fn stop(n: u128) -> Request {
    Request::Stop {
        agent: AgentRef::Id(id(n)),
    }
}

fn abort(n: u128) -> Request {
    Request::Abort {
        agent: AgentRef::Id(id(n)),
    }
}

fn send(n: u128, text: &str) -> Request {
    Request::Send {
        agent: AgentRef::Id(id(n)),
        text: text.into(),
        env: Vec::new(),
    }
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
