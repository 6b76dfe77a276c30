//! R-LIFE-07: what left its parent is still found.

use std::time::{Duration, Instant};

use pi_agents::sys::process::{self, ProcessId, Signal};
use pi_agents::sys::tree::TreeSnapshot;

use super::stand_in::{Killed, Reaped, all_dead, quoted, sign_in, sleeper};
use crate::support::wait::wait_until;

fn ids(rows: &[process::Proc]) -> Vec<ProcessId> {
    let mut ids: Vec<_> = rows.iter().map(process::Proc::id).collect();
    ids.sort();
    ids
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// As with Pi: the root starts a shell in its own session, is killed, and the shell lives on elsewhere.
#[test]
fn survivors_of_a_killed_root_are_found_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let leaf = quoted(&format!(
        "{}; kill -STOP $$; exec sleep 600",
        sign_in(dir.path(), "leaf")
    ));
    let tool = quoted(&format!(
        "{}; sh -c {leaf} & wait",
        sign_in(dir.path(), "tool")
    ));
    let bare = quoted(&sleeper(dir.path(), "bare"));
    let mut root = Reaped::sh(&format!(
        "setsid sh -c {tool} & env -i setsid sh -c {bare} & wait"
    ));
    let mut expected = ["tool", "leaf", "bare"].map(|name| killed.signed_in(dir.path(), name));
    expected.sort();
    let bystander = Reaped::sh("exec sleep 600");

    let mut snapshot = TreeSnapshot::take(root.0.id());
    let mut recorded: Vec<_> = snapshot.recorded().collect();
    recorded.sort();
    assert_eq!(recorded, expected);
    root.0.kill().unwrap();
    root.0.wait().unwrap();
    assert_eq!(ids(&snapshot.survivors()), expected);

    let report = snapshot.kill_survivors_in_rounds(soon());
    assert_eq!(
        (ids(&report.killed), report.left),
        (expected.to_vec(), vec![])
    );
    all_dead(&expected);
    assert_eq!(snapshot.survivors(), []);
    assert!(process::is_alive(bystander.id()));
}

/// What is started after the snapshot is found by its session: the recorded shell leads it.
#[test]
fn later_members_of_a_recorded_session_belong_to_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let late = quoted(&sleeper(dir.path(), "late"));
    let go = dir.path().join("go");
    let tool = quoted(&format!(
        "{}; while ! [ -e {} ]; do sleep 0.02; done; sh -c {late} & exit",
        sign_in(dir.path(), "tool"),
        go.display()
    ));
    let mut root = Reaped::sh(&format!("setsid sh -c {tool} & wait"));
    let tool = killed.signed_in(dir.path(), "tool");
    let mut snapshot = TreeSnapshot::take(root.0.id());
    root.0.kill().unwrap();
    root.0.wait().unwrap();
    std::fs::write(&go, "").unwrap();
    let late = killed.signed_in(dir.path(), "late");
    wait_until("its parent is gone", || !process::is_alive(tool));
    // Neither a descendant of anything recorded alive nor recorded itself.
    assert!(!snapshot.recorded().any(|id| id == late));
    assert_eq!(ids(&snapshot.survivors()), [late]);
    snapshot.kill_survivors_in_rounds(soon());
    all_dead(&[late]);
}

/// The session of the caller contains the root's group; that must not make the caller or its other children
/// members.
#[test]
fn the_session_of_the_caller_is_not_the_trees() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let below = quoted(&sleeper(dir.path(), "below"));
    let root = Reaped::sh(&format!("sh -c {below} & wait"));
    let below = killed.signed_in(dir.path(), "below");
    let sibling = Reaped::sh("exec sleep 600");
    let mine = process::read(std::process::id()).unwrap().sid;
    assert_eq!(process::read(root.0.id()).unwrap().sid, mine);
    assert_eq!(process::read(sibling.0.id()).unwrap().sid, mine);
    let mut snapshot = TreeSnapshot::take(root.0.id());
    assert_eq!(ids(&snapshot.survivors()), [below]);
    // The root itself is for whoever started it.
    snapshot.kill_survivors_in_rounds(soon());
    assert!(process::is_alive(sibling.id()));
    assert!(process::read(root.0.id()).is_some());
}

/// Time up is reported, not waited out: here nothing may be killed because everybody is gone by then.
#[test]
fn a_tree_of_nobody_is_empty() {
    let mut child = Reaped::sh("exit");
    let pid = child.0.id();
    child.0.wait().unwrap();
    let mut snapshot = TreeSnapshot::take(pid);
    assert_eq!(snapshot.recorded().count(), 0);
    let report = snapshot.kill_survivors_in_rounds(Instant::now());
    assert_eq!((report.killed, report.left), (vec![], vec![]));
}

/// Several rounds: a process that starts another one for each that dies is outrun.
#[test]
fn rounds_outrun_a_process_that_replaces_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let again = quoted(&format!(
        "{}; while :; do setsid sleep 600 & wait $!; done",
        sign_in(dir.path(), "again")
    ));
    let root = Reaped::sh(&format!("setsid sh -c {again} & wait"));
    killed.signed_in(dir.path(), "again");
    let mut snapshot = TreeSnapshot::take(root.0.id());
    wait_until("its child is there", || snapshot.survivors().len() == 2);
    let report = snapshot.kill_survivors_in_rounds(soon());
    assert!(
        report.killed.len() >= 2 && report.left.is_empty(),
        "{report:?}"
    );
    assert_eq!(snapshot.survivors(), []);
    assert!(process::signal(root.id(), Signal::KILL).unwrap());
}
