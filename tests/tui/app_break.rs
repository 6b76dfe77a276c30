//! What broke the screen when people typed fast, started much or lost their core.

use pi_agents::client::{Request, SpawnRequest};
use pi_agents::fleet::agent::ToolChoice;
use pi_agents::tui::ExitReason;
use pi_agents::tui::app::Focus;

use super::desk::Desk;
use super::fake_client::{FakeClient, agent};

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
