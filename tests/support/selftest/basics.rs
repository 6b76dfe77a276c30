//! Waiting, processes, sandboxes.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::hermetic_pi::{PERMITS, limit_pis};
use crate::support::sandbox::Sandbox;
use crate::support::{processes, wait};

#[test]
fn a_wait_ends_with_the_condition() {
    let start = Instant::now();
    let mut looks = 0;
    let found = wait::wait_for("three looks", || {
        looks += 1;
        (looks == 3).then_some("found")
    });
    assert_eq!(found, "found");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_a_sandbox_started_is_found_and_dies_with_it() {
    let sandbox = Sandbox::new();
    let root = sandbox.root();
    let mut child = Command::new("sh")
        .args(["-c", "sleep 600 & wait"])
        .env_clear()
        .envs(sandbox.env(None))
        .current_dir(sandbox.work())
        .spawn()
        .unwrap();
    wait::wait_until("shell and sleep run", || sandbox.processes().len() == 2);
    let found = sandbox.processes();
    assert!(found.iter().any(|process| process.pid == child.id()));
    assert_eq!(processes::descendants_of(child.id()).len(), 1);
    assert!(found.iter().all(processes::Process::alive));
    drop(sandbox);
    assert!(!found.iter().any(processes::Process::alive));
    // Killed but not reaped: a zombie counts as dead.
    assert!(!processes::alive(child.id()));
    child.wait().unwrap();
    assert!(!root.exists());
}

#[test]
fn a_runtime_folder_leaves_room_for_a_socket_path() {
    let sandbox = Sandbox::new();
    let socket = sandbox
        .runtime()
        .join("pi-agents/00000000-0000-0000-0000-000000000000.sock");
    assert!(socket.as_os_str().len() <= 107, "{}", socket.display());
}

#[test]
fn no_more_than_four_hold_a_permit() {
    let now = AtomicUsize::new(0);
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 * PERMITS {
            scope.spawn(|| {
                let permit = limit_pis();
                assert!(Arc::ptr_eq(&permit, &limit_pis()), "one per test");
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                now.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let most = most.into_inner();
    assert!((1..=PERMITS).contains(&most), "{most}");
}
