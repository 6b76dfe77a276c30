//! Locks and records.

use std::fs;

use pi_agents::client::ErrorCode;
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::Badge;
use pi_agents::sys::lock::FileLock;

use super::{find_file, pids, wait_idle};
use crate::support::core::Core;
use crate::support::fake::FakePi;

#[test]
fn a_session_that_another_core_holds_is_not_revived() {
    // R-LIFE-17
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = wait_idle(&core, &name, 1);
    core.stop(&name);
    let lock = find_file(&pi.sandbox.state(), &format!("{}.lock", row.id)).expect("its lock file");
    let held = FileLock::try_acquire(&lock)
        .unwrap()
        .expect("free while it is stopped");
    let error = core.ask(core.send_request(&name, "back")).unwrap_err();
    assert_eq!(error.code, ErrorCode::StartFailed);
    assert!(error.message.contains("in use by another"), "{error}");
    assert!(error.hint.is_some());
    assert_eq!(pids(&pi).len(), 1, "nothing was started");
    drop(held);
    core.send(&name, "back");
    wait_idle(&core, &name, 2);
    // While it runs the core holds the lock.
    assert!(FileLock::try_acquire(&lock).unwrap().is_none());
}

#[test]
fn records_that_cannot_be_written_are_a_badge_and_no_end() {
    // B101
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let row = wait_idle(&core, &name, 1);
    let record = find_file(&pi.sandbox.state(), &format!("{}.json", row.id)).unwrap();
    let dir = record.parent().unwrap().to_owned();
    // As root no permission stops a write; a file in the place of the folder does.
    let aside = dir.with_extension("aside");
    fs::rename(&dir, &aside).unwrap();
    fs::write(&dir, "").unwrap();
    core.send(&name, "two");
    core.wait_fleet("the badge", |f| f.core.badges.contains(&Badge::NotSaved));
    wait_idle(&core, &name, 2);
    // The log names the file and the cause.
    let logs = pi.sandbox.state().join("pi-agents/logs");
    let text: String = fs::read_dir(logs)
        .unwrap()
        .flatten()
        .map(|e| fs::read_to_string(e.path()).unwrap())
        .collect();
    assert!(
        text.contains("agent record not written") && text.contains(&format!("{}.json", row.id)),
        "{text}"
    );
    // Room again: the next change is written and the badge goes.
    fs::remove_file(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    core.send(&name, "three");
    core.wait_fleet("no badge", |f| f.core.badges.is_empty());
    wait_idle(&core, &name, 3);
    let written: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(written["name"], name.as_str());
}

#[test]
fn a_broken_record_hides_no_other() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let (first, second) = (core.spawn("one"), core.spawn("two"));
    let broken = wait_idle(&core, &first, 1);
    wait_idle(&core, &second, 1);
    let record = find_file(&pi.sandbox.state(), &format!("{}.json", broken.id)).unwrap();
    core.shutdown();
    let whole = fs::read(&record).unwrap();
    fs::write(&record, "{\"version\":1,").unwrap();
    let next = Core::start(&pi);
    let fleet = next.fleet();
    let names: Vec<_> = fleet.agents.iter().map(|a| a.name.clone()).collect();
    assert_eq!(names, [second.as_str()]);
    // The person sees that there is one.
    assert_eq!(fleet.core.badges, [Badge::Unreadable]);
    assert_eq!(
        fs::read_to_string(&record).unwrap(),
        "{\"version\":1,",
        "left alone"
    );
    next.send(&second, "and on");
    next.wait_agent(&second, "idle", |a| {
        a.status == Status::Idle && a.runs_ended == 2
    });
    next.shutdown();
    // Put right, it is back and the warning is gone.
    fs::write(&record, whole).unwrap();
    let fleet = Core::start(&pi).fleet();
    assert_eq!((fleet.agents.len(), fleet.core.badges.len()), (2, 0));
}
