//! The look at the end of a session file.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use pi_agents::supervisor::session_file::{LOOK, SessionMark, look};

use crate::support::sandbox::Sandbox;

fn entry(id: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"{id}\",\"parentId\":null,\"timestamp\":\"t\",\"message\":\
         {{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":5}}}}\n"
    )
}

/// Writes it with a modification time that never changes.
fn write(path: &Path, text: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(text).unwrap();
    let then = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000));
    file.set_times(then).unwrap();
}

fn mark(path: &Path) -> SessionMark {
    look(path).unwrap().unwrap().mark
}

fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("session.jsonl")
}

#[test]
fn another_last_entry_is_another_file_also_with_the_same_size_and_time() {
    // R-LIFE-10
    let sandbox = Sandbox::new();
    let path = file(&sandbox);
    let first = entry("aaaaaaaa", "one");
    write(
        &path,
        (first.clone() + &entry("bbbbbbbb", "two")).as_bytes(),
    );
    let then = mark(&path);
    assert_eq!(then.last_entry.as_deref(), Some("bbbbbbbb"));
    assert!(!then.differs(&mark(&path)));
    for other in [entry("bbbbbbbc", "two"), entry("bbbbbbbb", "own")] {
        write(&path, (first.clone() + &other).as_bytes());
        let now = mark(&path);
        assert_eq!((now.size, now.modified_ns), (then.size, then.modified_ns));
        assert!(then.differs(&now), "{other}");
    }
}

#[test]
fn a_huge_file_is_looked_at_only_at_its_end() {
    let sandbox = Sandbox::new();
    let path = file(&sandbox);
    let huge = "x".repeat(usize::try_from(LOOK).unwrap() + 10);
    write(&path, (entry("a", &huge) + &entry("b", "two")).as_bytes());
    let seen = look(&path).unwrap().unwrap();
    assert_eq!(seen.entries.len(), 1);
    assert_eq!(seen.mark.last_entry.as_deref(), Some("b"));
    // A last line longer than the look, whole or torn.
    for cut in [0, 30] {
        let text = entry("a", "one") + &entry("b", &huge);
        write(&path, &text.as_bytes()[..text.len() - cut]);
        let seen = look(&path).unwrap().unwrap();
        assert!(seen.entries.is_empty());
        assert_eq!(seen.mark.last_entry, None);
        let then = seen.mark;
        let other = text.replace("xxx\"", "xxy\"").replace("xxxxx", "xxxxy");
        write(&path, &other.as_bytes()[..text.len() - cut]);
        assert!(then.differs(&mark(&path)));
    }
}

#[test]
fn what_is_no_file_is_never_waited_for() {
    let sandbox = Sandbox::new();
    let path = file(&sandbox);
    assert!(look(&path).unwrap().is_none());
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    look(&path).unwrap_err();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    look(&path).unwrap_err();
}

#[test]
fn a_mark_of_an_older_version_compares_what_it_knows() {
    let then: SessionMark = serde_json::from_str(r#"{"size":10,"modified_ns":7}"#).unwrap();
    let mut now = then.clone();
    now.last_entry = Some("a".into());
    now.end_hash = Some(u64::MAX);
    assert!(!then.foreign && !then.differs(&now));
    now.size = 11;
    assert!(then.differs(&now));
    let text = serde_json::to_string(&now).unwrap();
    assert_eq!(serde_json::from_str::<SessionMark>(&text).unwrap(), now);
}
