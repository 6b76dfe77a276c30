//! R-LIFE-07, R-LIFE-08 and case B039: only what is proven ours is swept.

use std::path::Path;
use std::process::Command;

use pi_agents::sys::lock::FileLock;
use pi_agents::sys::process;
use pi_agents::sys::sweep::{lock_path, sweep_dead_cores};
use uuid::Uuid;

use super::stand_in::{Killed, Reaped, all_dead, quoted, sleeper};

/// Each test has its own marker, since they run at the same time.
const MARKERS: [&str; 4] = [
    "PROC_TEST_SWEEP_A",
    "PROC_TEST_SWEEP_B",
    "PROC_TEST_SWEEP_C",
    "PROC_TEST_SWEEP_D",
];

fn marked(marker: &str, value: &str) -> Reaped {
    Reaped::start(Command::new("sleep").arg("600").env(marker, value))
}

fn core_id() -> String {
    Uuid::now_v7().to_string()
}

/// The lock file of a core that is dead.
fn dead(dir: &Path, core: &str) {
    drop(
        FileLock::try_acquire(&lock_path(dir, core))
            .unwrap()
            .unwrap(),
    );
}

#[test]
fn what_a_dead_core_left_is_killed_and_its_lock_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = Killed::default();
    let core = core_id();
    dead(dir.path(), &core);
    let value = format!("{core}:{}", core_id());
    // Marks are inherited, also into another session.
    let tool = quoted(&sleeper(dir.path(), "tool"));
    let child = Reaped::start(
        Command::new("sh")
            .args(["-c", &format!("setsid sh -c {tool} & wait")])
            .env(MARKERS[0], &value),
    );
    let tool = killed.signed_in(dir.path(), "tool");
    let unmarked = Reaped::sh("exec sleep 600");

    let swept = sweep_dead_cores(dir.path(), MARKERS[0]).unwrap();
    assert_eq!(swept.len(), 1);
    assert_eq!(
        (swept[0].core.as_str(), swept[0].left.len()),
        (core.as_str(), 0)
    );
    let hit: Vec<_> = swept[0].killed.iter().map(process::Proc::id).collect();
    assert!(hit.contains(&tool) && hit.contains(&child.id()), "{hit:?}");
    all_dead(&[tool]);
    assert!(process::is_alive(unmarked.id()));
    assert!(!lock_path(dir.path(), &core).exists());
    assert_eq!(sweep_dead_cores(dir.path(), MARKERS[0]).unwrap(), []);
}

/// Two instances on one account: the start of the second leaves the first alone.
#[test]
fn a_living_core_and_an_unknown_core_are_never_touched() {
    let dir = tempfile::tempdir().unwrap();
    let living = core_id();
    let held = FileLock::try_acquire(&lock_path(dir.path(), &living))
        .unwrap()
        .unwrap();
    let unknown = core_id();
    let bystanders = [
        marked(MARKERS[1], &format!("{living}:{}", core_id())),
        marked(MARKERS[1], &format!("{unknown}:{}", core_id())),
        // Values that are none.
        marked(MARKERS[1], ""),
        marked(MARKERS[1], &living),
        marked(MARKERS[1], "../x:y"),
        marked(MARKERS[1], ":"),
    ];
    // A dead core beside them, so that the sweep does look at processes.
    let core = core_id();
    dead(dir.path(), &core);
    let left = marked(MARKERS[1], &format!("{core}:{}", core_id()));
    let swept = sweep_dead_cores(dir.path(), MARKERS[1]).unwrap();
    let hit: Vec<_> = swept
        .iter()
        .flat_map(|swept| &swept.killed)
        .map(process::Proc::id)
        .collect();
    assert_eq!(hit, [left.id()]);
    for bystander in &bystanders {
        assert!(process::is_alive(bystander.id()));
    }
    assert!(lock_path(dir.path(), &living).exists());

    // The proof is the lock: once the first core is dead, its leftovers are.
    drop(held);
    let swept = sweep_dead_cores(dir.path(), MARKERS[1]).unwrap();
    assert_eq!(swept.len(), 1);
    assert!(!process::is_alive(bystanders[0].id()));
    for bystander in &bystanders[1..] {
        assert!(process::is_alive(bystander.id()));
    }
}

/// A failed look is no proof. Holds for root too: the obstacles are no permissions.
#[test]
fn what_cannot_be_read_protects() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        sweep_dead_cores(&dir.path().join("missing"), MARKERS[2]).unwrap(),
        []
    );
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(sweep_dead_cores(&file, MARKERS[2]).is_err());

    // A folder in place of the lock, an empty file (a core that is just taking it), a dangling link, a lock of
    // something else.
    let [folder, empty, link] = [core_id(), core_id(), core_id()];
    std::fs::create_dir(lock_path(dir.path(), &folder)).unwrap();
    std::fs::write(lock_path(dir.path(), &empty), "").unwrap();
    std::os::unix::fs::symlink("nowhere", lock_path(dir.path(), &link)).unwrap();
    std::fs::write(dir.path().join("startup.lock"), "1\n").unwrap();
    let bystanders: Vec<Reaped> = [folder, empty, link, "startup".to_owned()]
        .iter()
        .map(|core| marked(MARKERS[2], &format!("{core}:{}", core_id())))
        .collect();
    assert_eq!(sweep_dead_cores(dir.path(), MARKERS[2]).unwrap(), []);
    for bystander in &bystanders {
        assert!(process::is_alive(bystander.id()));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5);
}

/// A core that left nothing but its lock file is cleaned up too.
#[test]
fn a_lock_file_alone_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let core = core_id();
    dead(dir.path(), &core);
    let swept = sweep_dead_cores(dir.path(), MARKERS[3]).unwrap();
    assert_eq!((swept.len(), swept[0].killed.len()), (1, 0));
    assert!(!lock_path(dir.path(), &core).exists());
}
