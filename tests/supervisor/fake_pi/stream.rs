//! What a child writes: broken, huge, slow, or no record at all.

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::transcript::{EntryKind, Level};

use super::{case, notices, wait_idle, wait_run_ends};
use crate::support::core::Core;
use crate::support::fake::FakePi;

#[test]
fn chatter_on_stdout_is_skipped_and_noted_once() {
    // B003
    let pi = FakePi::new().replay_lines(case("B003-stdout-chatter.rpc.txt").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("go");
    wait_idle(&core, &name, 1);
    assert_eq!(core.texts(&name), ["clean answer after chatter"]);
    let notes = notices(&core, &name, Level::Warning);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        !notes[0].contains("npm") && notes[0].len() < 200,
        "{notes:?}"
    );
}

#[test]
fn broken_text_in_the_middle_of_a_run_does_not_end_it() {
    // R-Q-01
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name =
        core.spawn("fake:junk {half a ;; bad-utf8 ;; surrogate ;; junk null ;; say all well");
    wait_idle(&core, &name, 1);
    assert_eq!(core.texts(&name).last().unwrap(), "all well");
    assert_eq!(notices(&core, &name, Level::Warning).len(), 1);
    assert_eq!(wait_run_ends(&core, &name, 1).len(), 1);
}

#[test]
fn a_line_of_20_mib_is_passed_over() {
    // R-Q-01
    let pi = FakePi::new();
    let core = Core::start_with(&pi, &[("PI_AGENTS_LIMITS_RECORD_BYTES", "4194304")]);
    let name = core.spawn("fake:big-line 20971520 ;; say after the long line");
    wait_idle(&core, &name, 1);
    assert_eq!(core.texts(&name), ["after the long line"]);
    assert_eq!(
        notices(&core, &name, Level::Warning).len(),
        1,
        "it was too long"
    );
}

#[test]
fn a_long_line_within_the_limit_is_taken() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:big-line 20971520 ;; say after the long line");
    wait_idle(&core, &name, 1);
    assert_eq!(core.texts(&name), ["after the long line"]);
    assert!(notices(&core, &name, Level::Warning).is_empty());
}

#[test]
fn one_byte_at_a_time_is_the_same_text() {
    // B007
    let pi = FakePi::new().options("--chunk 1");
    let core = Core::start(&pi);
    let name = core.spawn("fake:say zwölf Boxkämpfer 日本語 😀 in einzelnen Bytes");
    wait_idle(&core, &name, 1);
    assert_eq!(
        core.texts(&name),
        ["zwölf Boxkämpfer 日本語 😀 in einzelnen Bytes"]
    );
}

#[test]
fn a_child_that_reads_slowly_gets_every_message() {
    let pi = FakePi::new().options("--read-delay 40");
    let core = Core::start(&pi);
    let name = core.spawn("fake:hang");
    let calls: Vec<_> = (0..5)
        .map(|i| core.ask_later(core.send_request(&name, &format!("message {i}"))))
        .collect();
    for call in calls {
        core.fetch(call).unwrap();
    }
    let prompts = pi.commands("prompt");
    assert_eq!(prompts.len(), 6);
    // R-PI-07: never two unanswered prompts, always as steering.
    assert!(prompts.iter().all(|p| p["streamingBehavior"] == "steer"));
    core.stop(&name);
}

#[test]
fn prompts_in_a_burst_are_not_lost() {
    // R-PI-07: the fake loses, like Pi, what comes while a prompt is in preflight; only its run
    // begins late, its response does not.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    wait_idle(&core, &name, 1);
    let calls: Vec<_> = (0..4)
        .map(|i| core.ask_later(core.send_request(&name, &format!("burst {i}"))))
        .collect();
    for call in calls {
        core.fetch(call).unwrap();
    }
    let mut seen = core.wait_entries(&name, "all four", |entries| {
        let burst = entries.iter().filter_map(|e| match &e.kind {
            EntryKind::User { text, .. } if text.starts_with("burst") => Some(text.clone()),
            _ => None,
        });
        let seen: Vec<String> = burst.collect();
        (seen.len() >= 4).then_some(seen)
    });
    core.wait_agent(&name, "idle, nothing pending", |a| {
        a.status == Status::Idle && a.pending.is_empty()
    });
    assert!(pi.events("prompt lost").is_empty());
    seen.sort();
    assert_eq!(
        seen,
        ["burst 0", "burst 1", "burst 2", "burst 3"],
        "each once"
    );
}

#[test]
fn settings_of_the_user_are_never_written() {
    // R-PI-08, R-PI-07
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:stray ;; say one");
    wait_idle(&core, &name, 1);
    core.send(&name, "two");
    wait_idle(&core, &name, 2);
    core.stop(&name);
    let mut kinds: Vec<String> = pi
        .events("command")
        .iter()
        .map(|e| e["command"]["type"].as_str().unwrap().to_owned())
        .collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, ["get_state", "prompt"]);
}
