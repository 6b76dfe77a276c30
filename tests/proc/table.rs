//! The process table and signals to exactly one process or group.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use pi_agents::sys::process::{self, ProcessId, Signal};

use super::stand_in::{Killed, Reaped, all_dead, quoted, sign_in, sleeper};
use crate::support::wait::wait_until;

#[test]
fn a_row_says_what_the_kernel_says() {
    let child = Reaped::sh("exec sleep 600");
    wait_until("exec", || {
        process::read(child.0.id()).unwrap().comm == "sleep"
    });
    let row = process::read(child.0.id()).unwrap();
    assert_eq!(
        (row.pid, row.ppid, row.pgid),
        (child.0.id(), std::process::id(), child.0.id())
    );
    let me = process::read(std::process::id()).unwrap();
    assert_eq!(row.sid, me.sid);
    assert!(row.start_time >= me.start_time && me.start_time > 0);
    assert!(process::list().iter().any(|other| other.id() == row.id()));
    assert_eq!(row.id().to_string().parse::<ProcessId>(), Ok(row.id()));
    assert_eq!(process::read(u32::MAX), None);
}

/// A zombie is dead, whoever may have failed to reap it.
#[test]
fn a_zombie_is_dead() {
    let child = Reaped::sh("exec sleep 600");
    let id = child.id();
    assert!(process::is_alive(id));
    assert!(process::signal(id, Signal::KILL).unwrap());
    wait_until("it is a zombie", || {
        process::read(id.pid).unwrap().is_zombie()
    });
    assert!(!process::is_alive(id));
}

/// R-LIFE-07: whoever has the pid now is not hit when the start time is another's.
#[test]
fn a_reused_pid_is_never_signalled() {
    let mut child = Reaped::sh("exec sleep 600");
    let id = child.id();
    for start_time in [id.start_time - 1, id.start_time + 1, 0] {
        let before = ProcessId { start_time, ..id };
        assert!(!process::is_alive(before));
        assert!(!process::signal(before, Signal::KILL).unwrap());
        assert!(!process::signal_group(before, Signal::KILL).unwrap());
    }
    assert!(child.0.try_wait().unwrap().is_none());
    assert!(process::signal(id, Signal::TERM).unwrap());
    assert_eq!(child.0.wait().unwrap().signal(), Some(15));
    // Now nobody has it.
    assert!(!process::signal(id, Signal::KILL).unwrap());
    assert!(!process::signal_group(id, Signal::KILL).unwrap());
}

#[test]
fn the_own_group_and_init_are_never_meant() {
    for pid in [0, 1] {
        let id = ProcessId { pid, start_time: 0 };
        assert!(!process::signal(id, Signal::KILL).unwrap());
        assert!(!process::signal_group(id, Signal::KILL).unwrap());
    }
}

#[test]
fn a_group_is_signalled_whole_also_after_its_leader_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let member = quoted(&sleeper(dir.path(), "member"));
    let outside = quoted(&sleeper(dir.path(), "outside"));
    let script = format!("sh -c {member} & setsid sh -c {outside} & read line; exit");
    let mut command = pi_agents::sys::spawn::command(
        "sh".as_ref(),
        ["-c".into(), script.into()],
        std::env::vars_os(),
        dir.path(),
    );
    let mut leader = Reaped(command.stdin(std::process::Stdio::piped()).spawn().unwrap());
    let id = leader.id();
    let member = killed.signed_in(dir.path(), "member");
    let outside = killed.signed_in(dir.path(), "outside");
    leader.0.stdin = None;
    leader.0.wait().unwrap();
    assert!(process::is_alive(member));
    assert!(process::signal_group(id, Signal::KILL).unwrap());
    all_dead(&[member]);
    assert!(process::is_alive(outside));
}

/// A process that leads no group is meant alone: its group may be ours.
#[test]
fn a_leader_without_a_group_is_signalled_alone() {
    let mut child = Reaped::start(Command::new("sleep").arg("600"));
    let id = child.id();
    assert_ne!(process::read(id.pid).unwrap().pgid, id.pid);
    assert!(process::signal_group(id, Signal::TERM).unwrap());
    assert_eq!(child.0.wait().unwrap().signal(), Some(15));
}

#[test]
fn descendants_are_all_below_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let leaf = quoted(&sleeper(dir.path(), "leaf"));
    let middle = quoted(&format!(
        "{}; sh -c {leaf} & wait",
        sign_in(dir.path(), "middle")
    ));
    let root = Reaped::sh(&format!("setsid sh -c {middle} & wait"));
    let other = Reaped::sh("exec sleep 600");
    let middle = killed.signed_in(dir.path(), "middle");
    let leaf = killed.signed_in(dir.path(), "leaf");
    let below: Vec<ProcessId> = process::descendants_of(&[root.0.id()])
        .iter()
        .map(|row| row.id())
        .collect();
    assert_eq!(below, [middle, leaf]);
    assert!(!below.contains(&other.id()) && !below.contains(&root.id()));
}

#[test]
fn marks_are_read_from_the_environment_of_the_start() {
    let name = "PROC_TEST_MARK_TABLE";
    let marked = Reaped::start(
        Command::new("sleep")
            .arg("600")
            .env(name, "value=with:signs"),
    );
    let similar = Reaped::start(
        Command::new("sleep")
            .arg("600")
            .env("X_PROC_TEST_MARK_TABLE", "no")
            .env("PROC_TEST_MARK_TABLE_X", "no"),
    );
    assert_eq!(
        process::environ_has(marked.0.id(), name).unwrap(),
        b"value=with:signs"
    );
    assert_eq!(process::environ_has(similar.0.id(), name), None);
    let found = process::find_marked(name);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].0.id(), found[0].1.as_slice()),
        (marked.id(), &b"value=with:signs"[..])
    );
}

/// Looking while hundreds of processes come and go neither fails nor invents anything.
#[test]
fn vanishing_processes_do_not_disturb_a_scan() {
    let child = Reaped::sh("exec sleep 600");
    let mut storm = Reaped::sh("i=0; while [ $i -lt 300 ]; do sh -c : & i=$((i+1)); done; wait");
    let mut scans = 0;
    while storm.0.try_wait().unwrap().is_none() {
        assert!(process::list().iter().any(|row| row.id() == child.id()));
        assert!(process::find_marked("PROC_TEST_NOBODY_HAS_THIS").is_empty());
        scans += 1;
    }
    assert!(scans > 0);
}
