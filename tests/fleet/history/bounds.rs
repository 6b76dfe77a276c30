//! Whatever a child does, the account stays small and keeps what matters.

use pi_agents::fleet::agent::ToolChoice;
use pi_agents::fleet::history::{Asked, Beginning, Explanation, MAX_BYTES, MAX_ENTRIES, What};
use pi_agents::fleet::interpret::{Disposition, Fact};
use pi_agents::fleet::machine::{ChildEnv, Input};
use pi_agents::fleet::roster::RetryView;
use pi_agents::pi::message::StopReason;
use proptest::prelude::*;
use std::sync::Arc;

use super::super::machine::world::World;

fn bytes(told: &Explanation) -> usize {
    let entries = told.entries.iter();
    entries
        .map(|e| serde_json::to_string(e).unwrap().len())
        .sum()
}

fn bounded(told: &Explanation) {
    assert!(told.entries.len() <= MAX_ENTRIES, "{}", told.entries.len());
    assert!(bytes(told) <= MAX_BYTES, "{}", bytes(told));
}

#[test]
fn repeated_chatter_is_one_entry_with_a_count() {
    let mut w = World::new();
    let a = w.running();
    let before = w.explain(a.agent).entries.len();
    // In turns: neither kind follows itself.
    for n in 0..1000_u64 {
        w.fact(
            &a,
            Fact::QueueChanged {
                steering: vec![],
                follow_up: vec![],
            },
        );
        w.fact(
            &a,
            Fact::Retrying(RetryView {
                attempt: 1,
                max: 3,
                delay_ms: n,
                since_ms: 0,
                error: "slow down".into(),
            }),
        );
        w.fact(
            &a,
            Fact::ExtensionFailed {
                error: format!("number {n}"),
            },
        );
    }
    let told = w.explain(a.agent);
    assert_eq!(told.entries.len(), before + 3);
    let newest = &told.entries[0];
    assert_eq!(newest.count, 1000);
    assert_eq!(
        newest.what,
        What::ExtensionFailed {
            error: "number 999".into()
        }
    );
    assert!(newest.first_ms < newest.at_ms);
    assert_eq!(told.left_out, 0, "nothing was lost");
}

#[test]
fn a_chatty_child_cannot_push_the_interesting_ones_out() {
    let mut w = World::new();
    let a = w.running();
    let long = "é\u{1b}[31m".repeat(5000);
    for n in 0..400 {
        // Runs without end, one after the other by itself (R-LIFE-14), and much talk in each.
        w.fact(
            &a,
            Fact::ExtensionFailed {
                error: long.clone(),
            },
        );
        w.fact(
            &a,
            Fact::DialogOpened(pi_agents::fleet::roster::DialogView {
                id: n.to_string(),
                title: long.clone(),
                kind: pi_agents::fleet::roster::DialogKind::Confirm {
                    message: long.clone(),
                },
                since_ms: 0,
                timeout_ms: None,
            }),
        );
        w.settle(&a, StopReason::Other(long.clone()));
        w.fact(&a, Fact::RunStarted);
    }
    let told = w.explain(a.agent);
    bounded(&told);
    assert!(told.left_out > 500, "{}", told.left_out);
    assert!(
        matches!(told.entries.last().unwrap().what, What::SpawnAsked { .. }),
        "the wish is still there"
    );
    assert_eq!(told.entries[0].what, What::RunBegan, "and so is the newest");
}

#[test]
fn requests_without_end_are_bounded_too() {
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, Some(1), None);
    w.swept(&a);
    for _ in 0..500 {
        w.stop(a.agent);
        w.send(a.agent, &"x".repeat(10_000));
        w.stop(a.agent);
    }
    bounded(&w.explain(a.agent));
}

#[test]
fn neither_whole_prompts_nor_environments_are_kept() {
    // R-OPS-05, R-LIFE-18
    let mut w = World::new();
    let secret = "the-rest-is-nobodys-business";
    let prompt = format!("{}{secret}", "fix it ".repeat(40));
    let a = w.spawn(&prompt);
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.fact(
        &a,
        Fact::UserMessage {
            text: prompt.clone(),
        },
    );
    let env = ChildEnv(Arc::new(vec![(
        b"API_KEY".to_vec(),
        secret.as_bytes().to_vec(),
    )]));
    w.input(Input::Send {
        call: pi_agents::fleet::ids::CallId::fresh(),
        agent: a.agent,
        by: pi_agents::fleet::host::Sender::User,
        message: pi_agents::fleet::ids::MessageId::fresh(),
        instance: pi_agents::fleet::ids::InstanceId::fresh(),
        text: prompt.clone(),
        env,
    });
    // Texts that come back in notices and refusals.
    w.fact(
        &a,
        Fact::QueueChanged {
            steering: vec![prompt.clone()],
            follow_up: vec![],
        },
    );
    w.stop(a.agent);
    let asked = Asked {
        task: Beginning {
            text: prompt.clone(),
            chars: 1,
        },
        ..Asked::default()
    };
    w.history.asked(a.agent, asked);
    let told = w.explain(a.agent);
    let text = format!("{}{:?}", serde_json::to_string(&told).unwrap(), w.history);
    assert!(text.contains("fix it fix it"));
    assert!(!text.contains(secret), "{text}");
    assert!(!text.contains("API_KEY"));
}

#[test]
fn what_was_asked_for_is_bounded() {
    let mut w = World::new();
    let a = w.spawn("task");
    let long = "w".repeat(100_000);
    w.history.asked(
        a.agent,
        Asked {
            task: Beginning::of(&long),
            label: Some(long.clone()),
            model: Some(long.clone()),
            tools: ToolChoice::Only(vec![long.clone(); 1000]),
            ..Asked::default()
        },
    );
    let asked = w.explain(a.agent).asked.unwrap();
    assert_eq!(asked.task.chars, 100_000);
    assert!(serde_json::to_string(&asked).unwrap().len() < 16 * 1024);
}

#[test]
fn a_task_of_several_lines_shows_that_there_is_more() {
    let told = |task: &str| {
        let mut w = World::new();
        let a = w.spawn("task");
        let task = Beginning::of(task);
        w.history.asked(
            a.agent,
            Asked {
                task,
                ..Asked::default()
            },
        );
        w.explain(a.agent).asked.unwrap().task.text
    };
    assert_eq!(told("one line"), "one line");
    assert_eq!(told("one line\n \n"), "one line");
    assert_eq!(told("\n\nfirst\nsecond"), "first …");
}

#[test]
fn processes_without_end_leave_no_trail_of_ids() {
    // Every revival is a process; only the last ones are told apart.
    let mut w = World::new();
    let a = w.running();
    let mut played = a;
    for _ in 0..50 {
        w.exit(&played, Some(1), None);
        w.swept(&played);
        let (_, next) = w.send(a.agent, "again");
        played = a.in_process(next);
        w.ready(&played);
        w.accept_next(&played, Disposition::Started);
        w.fact(&played, Fact::RunStarted);
    }
    let told = w.explain(a.agent);
    assert_eq!(told.entries[0].process, Some(51));
    let size = format!("{:?}", w.history).len();
    // A first process is so long ago that what it says is not even noted.
    w.fact(&a, Fact::RunStarted);
    assert_eq!(format!("{:?}", w.history).len(), size);
}

fn fact() -> impl Strategy<Value = Fact> {
    let text = prop_oneof![any::<String>(), Just("\u{1b}[2J\u{0}\u{202e}".repeat(400))];
    prop_oneof![
        Just(Fact::RunStarted),
        Just(Fact::StraySettled),
        Just(Fact::CompactionStarted),
        Just(Fact::CompactionEnded),
        Just(Fact::RetryOver),
        text.clone().prop_map(|text| Fact::UserMessage { text }),
        text.clone()
            .prop_map(|error| Fact::ExtensionFailed { error }),
        (text.clone(), text).prop_map(|(command, error)| Fact::Response {
            id: "state".into(),
            command,
            result: Err(error)
        }),
    ]
}

proptest! {
    /// Any order of anything: bounded, newest first, survives the wire, and says one sentence.
    #[test]
    fn any_story_is_bounded_and_can_be_told(facts in prop::collection::vec(fact(), 0..300), end in any::<bool>()) {
        let mut w = World::new();
        let a = w.running();
        for fact in facts {
            w.fact(&a, fact);
        }
        if end {
            w.exit(&a, Some(1), None);
        }
        let told = w.explain(a.agent);
        bounded(&told);
        prop_assert!(told.entries.windows(2).all(|e| e[0].mono_ms >= e[1].mono_ms));
        let wire = serde_json::to_string(&told).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Explanation>(&wire).unwrap(), &told);
        prop_assert!(!told.answer().is_empty());
    }
}

#[test]
fn kinds_of_a_newer_core_are_read_as_unknown() {
    let mut w = World::new();
    let a = w.running();
    w.stop(a.agent);
    let text = serde_json::to_string(&w.explain(a.agent)).unwrap();
    let newer = text
        .replace("\"stop_asked\"", "\"moved_to_the_moon\"")
        .replace("\"closed_input\"", "\"sang_a_song\"");
    assert_ne!(text, newer);
    let told: Explanation = serde_json::from_str(&newer).unwrap();
    assert!(told.entries.iter().any(|e| e.what == What::Unknown));
}
