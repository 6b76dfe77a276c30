//! The end of a session file.

use pi_agents::pi::session::{Entry, MessageKey, Parent, Role, entries};

fn case(name: &str) -> Vec<u8> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases");
    std::fs::read(dir.join(name)).unwrap()
}

/// Each follows the one before, and all are messages.
#[track_caller]
fn assert_chain(found: &[Entry]) {
    for pair in found.windows(2) {
        assert_eq!(
            pair[1].parent,
            Parent::Entry(pair[0].id.clone()),
            "{pair:#?}"
        );
        assert!(!pair[1].after_gap);
    }
    assert!(found.iter().all(|e| e.message.is_some()), "{found:#?}");
}

#[test]
fn lines_end_at_lf_only() {
    // B073, B075
    let raw = entries(&case("B073-raw-u2028.session.jsonl"), true);
    assert_eq!(raw.len(), 4);
    assert_chain(&raw);
    let crlf = entries(&case("B075-crlf.session.jsonl"), true);
    assert_eq!(crlf.len(), 6);
    assert_chain(&crlf);
}

#[test]
fn a_torn_tail_is_no_entry_until_it_is_whole() {
    // B076
    let mut text = case("B076-partial-tail.session.jsonl");
    let found = entries(&text, true);
    assert_eq!(found.len(), 6);
    assert_chain(&found);
    // Written on by a Pi that was started since: it ends the torn line first.
    text.extend_from_slice(b"\n\r\n{\"type\":\"label\",\"id\":\"next\",\"parentId\":\"x\"}\n");
    let found = entries(&text, true);
    let last = found.last().unwrap();
    assert_eq!((last.id.as_str(), last.after_gap), ("next", true));
}

#[test]
fn a_piece_from_the_middle_of_a_file_begins_with_its_second_line() {
    let text = case("B073-raw-u2028.session.jsonl");
    let all = entries(&text, true);
    let cut = all[1].start + 10;
    let found = entries(&text[cut..], false);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].id, all[2].id);
    assert!(found[0].after_gap, "what stands before it is not known");
    assert_eq!(found[0].start, all[2].start - cut);
    // One line longer than the piece.
    assert!(entries(&vec![b'x'; 4096], false).is_empty());
    assert!(entries(b"", true).is_empty());
}

#[test]
fn an_entry_says_its_place_and_its_message() {
    let text = concat!(
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n",
        "{\"type\":\"model_change\",\"id\":\"a\",\"parentId\":null}\n",
        "{\"type\":\"message\",\"id\":\"b\",\"parentId\":\"a\",\"message\":{\"role\":\"user\",\"content\":\"\\ud83d\",\"timestamp\":7}}\n",
        "{\"type\":\"message\",\"id\":\"c\",\"parentId\":\"b\",\"message\":{\"role\":\"toolResult\",\"timestamp\":8}}\n",
        "{\"type\":\"message\",\"id\":\"d\",\"parentId\":\"c\",\"message\":{\"role\":\"bashExecution\",\"timestamp\":9}}\n",
        "{\"type\":\"message\",\"id\":\"e\",\"parentId\":\"d\",\"message\":{\"role\":\"assistant\"}}\n",
        "{\"type\":\"custom\",\"id\":\"f\",\"message\":{\"role\":\"user\",\"timestamp\":9}}\n",
        "{\"type\":\"custom\",\"parentId\":\"f\"}\n",
        "null\n",
        "{\"type\":\"custom\",\"id\":\"g\",\"parentId\":\"f\"}",
    );
    let found = entries(text.as_bytes(), true);
    let ids: Vec<&str> = found.iter().map(|e| e.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(found[0].parent, Parent::Root);
    assert_eq!(found[5].parent, Parent::Unsaid);
    let key = |role, at_ms| Some(MessageKey { role, at_ms });
    let messages: Vec<_> = found.iter().map(|e| e.message).collect();
    let (user, tool) = (key(Role::User, 7), key(Role::ToolResult, 8));
    assert_eq!(messages, [None, user, tool, None, None, None, None]);
    let gaps: Vec<&str> = found
        .iter()
        .filter(|e| e.after_gap)
        .map(|e| e.id.as_str())
        .collect();
    assert_eq!(gaps, ["g"]);
}
