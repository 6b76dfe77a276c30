use pi_agents::pi::command::{Command, UiAnswer, UiResponse};
use serde_json::{Value, json};

fn sent(command: &Command) -> Value {
    let line = command.to_line("a-7");
    assert!(line.ends_with('\n'));
    assert_eq!(line.matches('\n').count(), 1, "one line: {line:?}");
    serde_json::from_str(&line).unwrap()
}

// R-PI-07
#[test]
fn a_prompt_always_steers() {
    assert_eq!(
        sent(&Command::prompt("two\nlines \u{2028} \"quoted\"")),
        json!({"id": "a-7", "type": "prompt", "message": "two\nlines \u{2028} \"quoted\"",
               "streamingBehavior": "steer"})
    );
}

// R-PI-08: nothing that writes the user's settings, R-PI-07: no bare steer or follow_up
#[test]
fn every_command_has_pis_shape() {
    let cases = [
        (Command::Abort, json!({"type": "abort"})),
        (Command::AbortRetry, json!({"type": "abort_retry"})),
        (Command::ClearQueue, json!({"type": "clear_queue"})),
        (Command::GetState, json!({"type": "get_state"})),
        (
            Command::GetSessionStats,
            json!({"type": "get_session_stats"}),
        ),
        (
            Command::GetAvailableModels,
            json!({"type": "get_available_models"}),
        ),
        (Command::GetCommands, json!({"type": "get_commands"})),
        (
            Command::GetEntries { since: None },
            json!({"type": "get_entries"}),
        ),
        (
            Command::GetEntries {
                since: Some("6f6bce94".into()),
            },
            json!({"type": "get_entries", "since": "6f6bce94"}),
        ),
        (
            Command::SetModel {
                provider: "scripted".into(),
                model_id: "s2".into(),
            },
            json!({"type": "set_model", "provider": "scripted", "modelId": "s2"}),
        ),
        (
            Command::SetThinkingLevel {
                level: "low".into(),
            },
            json!({"type": "set_thinking_level", "level": "low"}),
        ),
        (
            Command::SetSessionName { name: "x".into() },
            json!({"type": "set_session_name", "name": "x"}),
        ),
        (
            Command::Compact {
                custom_instructions: Some("Focus".into()),
            },
            json!({"type": "compact", "customInstructions": "Focus"}),
        ),
    ];
    for (command, mut want) in cases {
        want["id"] = json!("a-7");
        assert_eq!(sent(&command), want);
        assert!(command.is_answered());
    }
}

#[test]
fn a_dialog_is_answered_with_its_own_id() {
    let answer = |answer| {
        let command = Command::UiResponse(UiResponse {
            id: "u-1".into(),
            answer,
        });
        assert!(!command.is_answered());
        sent(&command)
    };
    let base = |key: &str, value: Value| {
        let mut want = json!({"type": "extension_ui_response", "id": "u-1"});
        want[key] = value;
        want
    };
    assert_eq!(
        answer(UiAnswer::Value("B".into())),
        base("value", json!("B"))
    );
    assert_eq!(
        answer(UiAnswer::Confirmed(false)),
        base("confirmed", json!(false))
    );
    assert_eq!(
        answer(UiAnswer::Cancelled(true)),
        base("cancelled", json!(true))
    );
}
