//! Sessions that another program wrote: noticed before a revival, reported after (R-LIFE-10).

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::AgentView;
use pi_agents::fleet::transcript::Level;
use serde_json::{Value, json};

use super::{case, find_file, notices, wait_idle, wait_mark, wait_notice, wait_run_ends};
use crate::support::core::Core;
use crate::support::fake::FakePi;
use crate::support::wait;

/// What a session another program wrote meanwhile is called.
const TWO_WRITERS: &str = "another program wrote this session while the agent ran";

/// Starts an agent and stops it again; its session was looked at when this returns.
fn stopped(pi: &FakePi, core: &Core) -> (String, AgentView, PathBuf) {
    let name = core.spawn("task");
    let row = wait_idle(core, &name, 1);
    core.stop(&name);
    wait_mark(pi, &row);
    let session = row.session_path.clone().unwrap();
    (name, row, session)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What another Pi on that file would write now: a question and its answer.
fn append_conversation(path: &Path) {
    let mut parent = lines(path).last().unwrap()["id"].clone();
    for (id, role) in [("f0000001", "user"), ("f0000002", "assistant")] {
        let at = jiff::Timestamp::now();
        let content = json!([{"type": "text", "text": format!("from elsewhere: {role}")}]);
        let message = json!({"role": role, "content": content, "timestamp": at.as_millisecond()});
        let entry = json!({"type": "message", "id": id, "parentId": parent, "timestamp": at.to_string(), "message": message});
        append(path, &format!("{entry}\n"));
        parent = id.into();
    }
}

/// An agent in the middle of a run, with a message of it in its session; it goes on once the file exists.
fn in_a_run(pi: &FakePi, core: &Core) -> (String, PathBuf, PathBuf) {
    let go = pi.work().join("go");
    let name = core.spawn(&format!("fake:say first ;; wait {}", go.display()));
    let row = core.wait_agent(&name, "running", |a| a.status == Status::Running);
    let session = row.session_path.unwrap();
    core.wait_entries(&name, "its first answer", |_| {
        let answered = session.exists()
            && lines(&session)
                .iter()
                .any(|l| l["message"]["role"] == "assistant");
        answered.then_some(())
    });
    (name, session, go)
}

/// Brings it back and waits for the end of that run in the transcript, behind all that is said before.
fn back(core: &Core, name: &str) {
    let ends = core.run_ends(name);
    core.send(name, "on");
    wait_run_ends(core, name, ends + 1);
    core.wait_agent(name, "idle", |a| a.status == Status::Idle);
}

/// Brings it back twice; then there are so many warnings in all.
#[track_caller]
fn assert_warnings(core: &Core, name: &str, warnings: usize) {
    back(core, name);
    core.stop(name);
    back(core, name);
    let found = notices(core, name, Level::Warning);
    assert_eq!(found.len(), warnings, "{found:#?}");
}

/// A core for agents that are on record.
fn next_core(pi: &FakePi) -> Core {
    let core = Core::start(pi);
    core.watch_all();
    core
}

#[test]
fn a_session_another_program_changed_is_pointed_out() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, row, session) = stopped(&pi, &core);
    // An untouched one is revived without a word.
    core.send(&name, "two");
    wait_idle(&core, &name, 2);
    assert!(notices(&core, &name, Level::Warning).is_empty());
    core.stop(&name);
    wait_mark(&pi, &row);
    append_conversation(&session);
    core.send(&name, "three");
    let text = wait_notice(&core, &name, "changed by another program");
    assert!(text.contains(session.to_str().unwrap()), "{text}");
    wait_idle(&core, &name, 3);
    core.stop(&name);
    // Said once, and no second writer is seen where there was none.
    assert_warnings(&core, &name, 1);
}

#[test]
fn another_last_entry_is_noticed_also_with_the_same_size_and_time() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, _, session) = stopped(&pi, &core);
    let modified = fs::metadata(&session).unwrap().modified().unwrap();
    let text = fs::read_to_string(&session).unwrap();
    let last = lines(&session).last().unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = text.replace(&last, "0ther1d0");
    assert!(other.len() == text.len() && other != text);
    fs::write(&session, other).unwrap();
    let file = File::options().write(true).open(&session).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    core.send(&name, "two");
    wait_notice(&core, &name, "changed by another program");
    wait_idle(&core, &name, 2);
}

#[test]
fn a_session_file_that_is_gone_is_pointed_out() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, _, session) = stopped(&pi, &core);
    fs::remove_file(&session).unwrap();
    core.send(&name, "two");
    wait_notice(&core, &name, "session file is gone");
    wait_idle(&core, &name, 2);
}

#[test]
fn what_another_program_wrote_during_a_run_is_reported_once_the_process_is_gone() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, session, go) = in_a_run(&pi, &core);
    append_conversation(&session);
    fs::write(go, "").unwrap();
    wait_idle(&core, &name, 1);
    let before = fs::read(&session).unwrap();
    assert!(notices(&core, &name, Level::Warning).is_empty(), "not yet");
    core.stop(&name);
    let text = wait_notice(&core, &name, TWO_WRITERS);
    assert!(text.contains(session.to_str().unwrap()), "{text}");
    assert!(text.contains("/tree"), "what to do: {text}");
    assert_eq!(notices(&core, &name, Level::Warning), [text]);
    assert_eq!(
        fs::read(&session).unwrap(),
        before,
        "nothing of ours wrote it"
    );
    // The next process finds the file as the last one left it.
    assert_warnings(&core, &name, 1);
}

#[test]
fn what_another_program_wrote_while_the_agent_rested_is_reported_too() {
    // The usual way: somebody opens the session of an idle agent in another Pi.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let session = wait_idle(&core, &name, 1).session_path.unwrap();
    append_conversation(&session);
    let written = Instant::now();
    // What is younger might be our own Pi's, under way as it is told to end.
    wait::wait_until("it is not young any more", || {
        written.elapsed() > Duration::from_millis(2100)
    });
    core.stop(&name);
    wait_notice(&core, &name, TWO_WRITERS);
    assert_warnings(&core, &name, 1);
}

#[test]
fn two_interleaved_conversations_are_reported() {
    // B079
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, session, go) = in_a_run(&pi, &core);
    // Another Pi's branch, interleaved with a third one's.
    let foreign = case("B079-two-writers.session.jsonl");
    append(&session, foreign.split_once('\n').unwrap().1);
    fs::write(go, "").unwrap();
    wait_idle(&core, &name, 1);
    core.stop(&name);
    wait_notice(&core, &name, TWO_WRITERS);
}

#[test]
fn a_foreign_entry_between_two_messages_of_a_run_is_reported() {
    // Neither a message nor with a parent of ours: only its place tells.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, session, go) = in_a_run(&pi, &core);
    append(
        &session,
        "{\"type\":\"label\",\"id\":\"f0000001\",\"parentId\":null,\"targetId\":\"x\"}\r\n\n",
    );
    fs::write(go, "").unwrap();
    wait_idle(&core, &name, 1);
    core.stop(&name);
    wait_notice(&core, &name, TWO_WRITERS);
}

#[test]
fn a_child_that_is_stopped_killed_or_dies_in_a_run_proves_nothing() {
    for script in [
        "hang",
        "tool sleep 300",
        "say a ;; signal KILL",
        "say a ;; exit 3",
    ] {
        let pi = FakePi::new();
        let core = Core::start(&pi);
        let name = core.spawn(&format!("fake:{script}"));
        let row = core.wait_agent(&name, "at work or over", |a| {
            a.tool_uses > 0
                || !a.status.is_live()
                || script == "hang" && a.status == Status::Running
        });
        if row.status.is_live() {
            core.stop(&name);
        }
        core.wait_agent(&name, "gone", |a| a.pid.is_none());
        wait_mark(&pi, &row);
        assert_warnings(&core, &name, 0);
    }
}

#[test]
fn a_report_that_nobody_saw_is_given_by_the_next_core() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, session, go) = in_a_run(&pi, &core);
    append_conversation(&session);
    fs::write(go, "").unwrap();
    let row = wait_idle(&core, &name, 1);
    core.shutdown();
    assert_eq!(wait_mark(&pi, &row)["foreign"], true);
    let next = next_core(&pi);
    wait_notice(&next, &name, TWO_WRITERS);
    assert_warnings(&next, &name, 1);
}

#[test]
fn what_a_child_wrote_before_its_core_was_killed_is_no_change_of_another() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, _, _) = stopped(&pi, &core);
    core.send(&name, "two");
    wait_idle(&core, &name, 2);
    drop(core);
    assert_warnings(&next_core(&pi), &name, 0);
}

#[test]
fn a_record_of_an_older_version_still_tells() {
    // Fields of a record are only ever added.
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (name, row, session) = stopped(&pi, &core);
    core.shutdown();
    let path = find_file(&pi.sandbox.state(), &format!("{}.json", row.id)).unwrap();
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mark = record["session_mark"].as_object_mut().unwrap();
    mark.retain(|key, _| key == "size" || key == "modified_ns");
    assert_eq!(mark.len(), 2);
    fs::write(&path, record.to_string()).unwrap();

    let core = next_core(&pi);
    assert_warnings(&core, &name, 0);
    core.shutdown();
    // And one from before there were marks.
    record.as_object_mut().unwrap().remove("session_mark");
    fs::write(&path, record.to_string()).unwrap();
    append_conversation(&session);
    assert_warnings(&next_core(&pi), &name, 0);
}
