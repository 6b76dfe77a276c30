//! What is generated from the action table, and what must hold of the table itself.

use std::collections::BTreeMap;
use std::path::Path;

use pi_agents::tui::action::{self, Context, TABLE};
use pi_agents::tui::keymap::{Chord, Keymap, KeymapProblem};

fn compare(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, made).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == made,
        "{path} is not what the action table says; UPDATE_GENERATED=1 cargo test writes it again"
    );
}

// R-TUI-09
#[test]
fn the_documents_are_what_the_table_says() {
    compare("docs/keys.md", &action::keys_document());
    compare("assets/keymap.toml", &action::keymap_reference());
}

#[test]
fn the_reference_reads_as_a_configuration_and_changes_nothing() {
    let parsed: BTreeMap<String, Vec<String>> =
        toml::from_str(&action::keymap_reference()).expect("TOML");
    assert_eq!(parsed.len(), TABLE.len(), "every action once");
    let same = Keymap::new(&parsed).expect("the defaults are sound");
    let plain = Keymap::new(&BTreeMap::new()).expect("the defaults are sound");
    for action in TABLE {
        assert_eq!(same.keys(action.id), plain.keys(action.id), "{}", action.id);
    }
}

#[test]
fn every_action_says_what_it_does_and_where() {
    let mut ids: Vec<&str> = TABLE.iter().map(|action| action.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TABLE.len(), "ids are unique");
    for action in TABLE {
        assert!(!action.doc.is_empty(), "{}", action.id);
        assert!(!action.contexts.is_empty(), "{}", action.id);
        for key in action.keys {
            let chord: Chord = key.parse().unwrap_or_else(|e| panic!("{}: {e}", action.id));
            assert_eq!(chord.to_string(), *key, "the normal spelling");
            let text = action.contexts.iter().any(|context| context.is_text());
            assert!(
                !(text && chord.typed().is_some()),
                "{}: {key} is text where it works",
                action.id
            );
        }
    }
    // design §5: no Ctrl+Q.
    assert!(TABLE.iter().all(|action| !action.keys.contains(&"ctrl+q")));
}

#[test]
fn wrong_keys_are_all_named() {
    let mut wrong = BTreeMap::new();
    wrong.insert("open".to_owned(), vec!["n".to_owned()]);
    wrong.insert("new-agent".to_owned(), vec!["hyper+n".to_owned()]);
    wrong.insert("fly".to_owned(), vec!["f".to_owned()]);
    wrong.insert("message".to_owned(), vec!["a".to_owned()]);
    let problems = Keymap::new(&wrong).unwrap_err();
    let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        problems.contains(&KeymapProblem::UnknownAction("fly".to_owned())),
        "{text:?}"
    );
    assert!(text.iter().any(|t| t.contains("hyper+n")), "{text:?}");
    assert!(
        text.iter()
            .any(|t| t.contains("`message`") && t.contains("`show-finished`")),
        "{text:?}"
    );
}

#[test]
fn a_key_can_be_taken_away_or_moved() {
    let mut own = BTreeMap::new();
    own.insert("quit".to_owned(), vec!["ctrl+c".to_owned()]);
    let keymap = Keymap::new(&own).unwrap();
    let q: Chord = "q".parse().unwrap();
    let stack = [Context::Roster, Context::Fleet, Context::Everywhere];
    assert!(keymap.lookup(&stack, q).is_none());
    let c: Chord = "ctrl+c".parse().unwrap();
    assert_eq!(keymap.lookup(&stack, c).unwrap().id, "quit");
}
