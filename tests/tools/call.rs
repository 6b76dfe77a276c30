//! Arguments as models write them.

use pi_agents::tools::call::{ToolUse, read};
use pi_agents::tools::subagents::Position;
use serde_json::{Value, json};

fn limit(value: &Value) -> Result<Option<u64>, String> {
    let arguments = json!({"prompt": "x", "label": "x", "timeoutMs": value});
    match read(Position::Root, "agent_spawn", arguments) {
        Ok(ToolUse::Spawn(spawn)) => Ok(spawn.timeout_ms),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.message),
    }
}

#[test]
fn a_whole_number_may_be_written_with_a_point() {
    // R-TOOL-16: an integer of JSON Schema
    assert_eq!(limit(&json!(1000.0)), Ok(Some(1000)));
    assert_eq!(limit(&json!(1e3)), Ok(Some(1000)));
    assert_eq!(limit(&json!(1000)), Ok(Some(1000)));
    assert_eq!(limit(&Value::Null), Ok(None));
    for wrong in [
        json!(1.5),
        json!(-1.0),
        json!(-1),
        json!(1e300),
        json!("1000"),
        json!(true),
    ] {
        assert!(limit(&wrong).is_err(), "{wrong}");
    }
}
