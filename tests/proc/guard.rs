//! The kill matrix at the level of guard and core, and what the guard must not do.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pi_agents::sys::process::{self, ProcessId, Signal};

use super::stand_in::{Guarded, Killed, all_dead, quoted, sign_in, sleeper};
use crate::support::wait::{stays, wait_for, wait_until};

/// So long that no test waits it out: whoever ends earlier did not need the grace.
const LONG: u32 = 60_000;

/// Starts a child of the core that has descendants in every hiding place; returns all of them.
fn start_all_kinds(guarded: &mut Guarded, dir: &Path, killed: &mut Killed) -> Vec<ProcessId> {
    let plain = quoted(&sleeper(dir, "plain"));
    let setsid = quoted(&sleeper(dir, "setsid"));
    let bare = quoted(&sleeper(dir, "bare"));
    let twice = quoted(&sleeper(dir, "twice"));
    let deep = quoted(&sleeper(dir, "deep"));
    let stopped = quoted(&format!(
        "{}; kill -STOP $$; exec sleep 600",
        sign_in(dir, "stopped")
    ));
    // Their parents end at once: the second has also cleared its environment before it forked.
    let double = quoted(&format!("env -i setsid sh -c {twice} & exit"));
    let deep = quoted(&format!("setsid sh -c {deep} & exit"));
    guarded.tell(&format!(
        "sh {}; sh -c {plain} & setsid sh -c {setsid} & env -i setsid sh -c {bare} & sh -c {double} & \
         env -i setsid sh -c {deep} & setsid sh -c {stopped} & exec sleep 600",
        sign_in(dir, "child"),
    ));
    let ids = [
        "child", "plain", "setsid", "bare", "twice", "deep", "stopped",
    ]
    .map(|name| killed.signed_in(dir, name));
    wait_until("the stopped one has stopped", || {
        process::read(ids[6].pid).is_some_and(|row| row.state == 'T')
    });
    ids.to_vec()
}

/// R-LIFE-08: SIGKILL of the core leaves nothing alive within five seconds, wherever it hides.
#[test]
fn nothing_survives_a_killed_core() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), 1000, 4000);
    let ids = start_all_kinds(&mut guarded, dir.path(), &mut killed);
    // The double-forked one has left the tree of the core: only the guard can know it.
    let tree: Vec<u32> = process::descendants_of(&[guarded.core.pid])
        .iter()
        .map(|row| row.pid)
        .collect();
    assert!(tree.contains(&ids[1].pid) && !tree.contains(&ids[4].pid));

    let killed_at = Instant::now();
    assert!(process::signal(guarded.core, Signal::KILL).unwrap());
    all_dead(&ids);
    assert!(killed_at.elapsed() < Duration::from_secs(5));
    assert_eq!(guarded.ended().code(), Some(137));
    let log = std::fs::read_to_string(dir.path().join("guard.log")).unwrap();
    assert!(log.contains("the core ended (SIGKILL); killed "), "{log}");
}

/// R-LIFE-08: also when the core ends in order but leaves something behind.
#[test]
fn nothing_survives_a_core_that_exits() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), 100, 4000);
    let ids = start_all_kinds(&mut guarded, dir.path(), &mut killed);
    guarded.tell("exit 3");
    assert_eq!(guarded.ended().code(), Some(3));
    all_dead(&ids);
}

/// R-LIFE-08: a process that starts others as fast as it can is outrun by the rounds.
#[test]
fn a_process_that_keeps_starting_others_dies_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), 0, 4000);
    let mark = "PROC_TEST_SPAWNED";
    guarded.tell(&format!(
        "sh {}; while :; do {mark}=1 setsid sleep 600 & sleep 0.01; done",
        sign_in(dir.path(), "spawner")
    ));
    let spawner = killed.signed_in(dir.path(), "spawner");
    wait_until("some are there", || process::find_marked(mark).len() > 5);
    process::signal(guarded.core, Signal::KILL).unwrap();
    let ended = guarded.ended_or_none();
    let left: Vec<ProcessId> = process::find_marked(mark)
        .iter()
        .map(|(row, _)| row.id())
        .collect();
    killed.0.extend(&left);
    assert_eq!(ended.and_then(|status| status.code()), Some(137));
    assert_eq!(left, []);
    assert!(!process::is_alive(spawner));
}

/// R-LIFE-08: children that end at the end of their stdin, as Pi does, are not killed; with nothing left the
/// guard does not wait out its grace.
#[test]
fn the_grace_ends_when_the_last_child_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    let path = dir.path().display();
    guarded.tell(&format!(
        "sh {}; cat > /dev/null; sleep 0.2; echo bye > {path}/farewell",
        sign_in(dir.path(), "polite")
    ));
    let polite = killed.signed_in(dir.path(), "polite");
    process::signal(guarded.core, Signal::KILL).unwrap();
    assert_eq!(guarded.ended().code(), Some(137));
    assert!(!process::is_alive(polite));
    let farewell = std::fs::read_to_string(dir.path().join("farewell")).unwrap();
    assert_eq!(farewell, "bye\n");
    // Nothing was killed, so there is nothing to tell.
    assert!(!dir.path().join("guard.log").exists());
}

/// An end in order with nothing left ends the guard at once, with the core's exit code.
#[test]
fn an_orderly_end_is_an_immediate_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.tell("exit 42");
    assert_eq!(guarded.ended().code(), Some(42));

    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.close_stdin();
    assert_eq!(guarded.ended().code(), Some(0));
}

/// The other end of the core's stdout learns of its death at once, not when the guard is done.
#[test]
fn the_guard_holds_no_stream_of_the_core() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.tell(&format!("sh {}", sleeper(dir.path(), "left")));
    let left = killed.signed_in(dir.path(), "left");
    process::signal(guarded.core, Signal::KILL).unwrap();
    assert_eq!(guarded.rest(), "");
    assert!(guarded.guard.try_wait().unwrap().is_none());
    assert!(process::is_alive(left));
    let core = guarded.core;
    wait_until("the core is reaped", || process::read(core.pid).is_none());
    // Asked to end now, the guard does not wait any longer, and still leaves nothing.
    let guard = ProcessId::of(guarded.guard.id()).unwrap();
    process::signal(guard, Signal::TERM).unwrap();
    assert_eq!(guarded.ended().code(), Some(137));
    assert!(!process::is_alive(left));
}

/// SIGTERM, SIGINT and SIGQUIT to the guard are one SIGTERM to the core; SIGHUP and the stop keys are nothing.
#[test]
fn signals_reach_the_core_as_a_wish_to_end() {
    for wish in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let dir = tempfile::tempdir().unwrap();
        let mut guarded = Guarded::start(dir.path(), LONG, LONG);
        let guard = ProcessId::of(guarded.guard.id()).unwrap();
        for nothing in [Signal::HUP, Signal::TSTP, Signal::TTIN, Signal::USR1] {
            assert!(process::signal(guard, nothing).unwrap());
        }
        // Answering shows that it neither ended nor stopped.
        guarded.tell("orphans");
        assert_eq!(guarded.line(), "orphans");
        process::signal(guard, wish).unwrap();
        assert_eq!(guarded.ended().code(), Some(7), "{wish:?}");
    }
}

/// Guard and core are not in the session of whoever started them, nor in each other's.
#[test]
fn the_core_has_its_own_session() {
    let dir = tempfile::tempdir().unwrap();
    let guarded = Guarded::start(dir.path(), LONG, LONG);
    let guard = process::read(guarded.guard.id()).unwrap();
    let core = process::read(guarded.core.pid).unwrap();
    assert_eq!((guard.sid, core.sid), (guard.pid, core.pid));
}

/// A lost guard stops nothing: the core learns of it and goes on, and so do its children.
#[test]
fn a_killed_guard_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.tell(&format!("sh {}", sleeper(dir.path(), "working")));
    let working = killed.signed_in(dir.path(), "working");
    guarded.guard.kill().unwrap();
    assert_eq!(guarded.line(), "guard died");
    assert_eq!(guarded.ended().signal(), Some(9));
    guarded.tell("orphans");
    assert_eq!(guarded.line(), "error BrokenPipe");
    assert!(process::is_alive(guarded.core) && process::is_alive(working));
}

/// R-LIFE-07: the guard names what was orphaned, and only that.
#[test]
fn the_guard_tells_who_is_orphaned() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    let lost = quoted(&sleeper(dir.path(), "lost"));
    guarded.tell(&format!(
        "sh {}; (env -i setsid sh -c {lost} &); exec sleep 600",
        sign_in(dir.path(), "kept")
    ));
    killed.signed_in(dir.path(), "kept");
    let lost = killed.signed_in(dir.path(), "lost");
    wait_until("it is told", || {
        guarded.tell("orphans");
        guarded.line() == format!("orphans {lost}")
    });
    process::signal(lost, Signal::KILL).unwrap();
    // Dead, reaped by the guard and so gone from the table.
    wait_until("it is reaped", || process::read(lost.pid).is_none());
    guarded.tell("orphans");
    assert_eq!(guarded.line(), "orphans");
}

/// An idle guard does nothing at all: no processor time, no wake-up. And a dead orphan is reaped all the same.
#[test]
fn an_idle_guard_sleeps() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.tell(&format!("sh {}", sleeper(dir.path(), "working")));
    killed.signed_in(dir.path(), "working");
    let pid = guarded.guard.id();
    let activity = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mut lines: Vec<&str> = status.lines().collect();
        lines.retain(|line| line.contains("ctxt_switches") || line.starts_with("Threads"));
        lines.join(" ")
    };
    let asleep = wait_for("the guard sleeps", || {
        let before = activity();
        std::thread::sleep(Duration::from_millis(50));
        (before == activity()).then_some(before)
    });
    assert!(asleep.contains("Threads:\t1"), "{asleep}");
    stays("asleep", Duration::from_millis(1500), || {
        activity() == asleep
    });
}

/// The link is the core's alone: its children inherit neither the descriptor nor the variable.
#[test]
fn children_of_the_core_do_not_inherit_the_link() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let mut guarded = Guarded::start(dir.path(), LONG, LONG);
    guarded.tell(&format!("sh {}", sleeper(dir.path(), "child")));
    let child = killed.signed_in(dir.path(), "child");
    assert_eq!(process::environ_has(child.pid, "PI_AGENTS_GUARD"), None);
    assert!(process::environ_has(guarded.core.pid, "PI_AGENTS_GUARD").is_some());
    let sockets = |pid: u32| {
        let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        links
            .filter_map(|link| std::fs::read_link(link.unwrap().path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    assert_eq!(sockets(child.pid), 0);
    assert!(sockets(guarded.core.pid) > 0);
}

/// A core that cannot be started is an error with its own exit code, not a hang.
#[test]
fn a_core_that_cannot_start_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        std::process::Command::new(crate::support::example::ensure_example("proc-harness"))
            .args(["guard", "0", "0"])
            .arg(dir.path().join("guard.log"))
            .arg(dir.path().join("no-such-core"))
            .output()
            .unwrap();
    assert_eq!(output.status.code(), Some(126));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot start the core"), "{error}");
}
