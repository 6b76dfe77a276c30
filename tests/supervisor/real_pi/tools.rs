//! Tools by name: what was asked for is what the model gets, and a typo is said aloud (R-TOOL-05,
//! R-PI-10).

use pi_agents::fleet::agent::{Status, ToolChoice};
use pi_agents::fleet::transcript::{EntryKind, Level};

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::versions::Version;

/// Runs one task with these tools: what the model was offered, and the warnings in the transcript.
fn offered(version: Version, tools: &[&str]) -> (Vec<String>, Vec<String>) {
    let model = ModelServer::start();
    model.on("task", [Turn::say("done")]);
    let pi = HermeticPi::new(version, &model);
    let core = Core::start(&pi);
    let mut request = core.spawn_request("task");
    request.tools = ToolChoice::Only(tools.iter().map(|&t| t.to_owned()).collect());
    let name = core.spawn_as(request);
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    let warnings = core.wait_entries(&name, "the end of the run", |entries| {
        let ended = entries
            .iter()
            .any(|e| matches!(e.kind, EntryKind::RunEnd { .. }));
        ended.then(|| {
            let warnings = entries.iter().filter_map(|e| match &e.kind {
                EntryKind::Notice {
                    level: Level::Warning,
                    text,
                } => Some(text.clone()),
                _ => None,
            });
            warnings.collect()
        })
    });
    (model.wait_first("task").tools(), warnings)
}

#[test]
fn a_tool_name_that_pi_does_not_know_is_warned_about() {
    let (tools, warnings) = offered(Version::Newest, &["read", "nonexistent"]);
    assert_eq!(tools, ["read", "agent_send"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("nonexistent") && !warnings[0].contains("read"),
        "{warnings:?}"
    );
}

#[test]
fn known_tools_are_not_warned_about() {
    let (mut tools, warnings) = offered(Version::Newest, &["read", "grep"]);
    tools.sort();
    assert_eq!(tools, ["agent_send", "grep", "read"]);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn an_empty_list_means_no_tools_but_the_way_to_the_parent() {
    // R-TOOL-05
    let (tools, warnings) = offered(Version::Newest, &[]);
    assert_eq!(tools, ["agent_send"]);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn the_oldest_pi_is_compared_too() {
    let (tools, warnings) = offered(Version::Oldest, &["read", "nonexistent"]);
    assert_eq!(tools, ["read", "agent_send"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
