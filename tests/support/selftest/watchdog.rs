//! The limit per test.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::sandbox::Sandbox;
use crate::support::{processes, wait, watchdog};

#[test]
fn a_test_that_hangs_ends_the_run_with_its_name() {
    let sandbox = Sandbox::new();
    let start = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .arg("support::selftest::watchdog::hangs")
        .env("PI_AGENTS_TEST_LIMIT", "1")
        .envs(sandbox.env(None))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("test support::selftest::watchdog::hangs passed its limit"),
        "{said}"
    );
    assert!(said.contains("sleep 600"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(60));
    wait::wait_until("what it started is gone", || {
        processes::with_env("PI_AGENTS_TEST_MARK", &mark(&sandbox)).is_empty()
    });
}

fn mark(sandbox: &Sandbox) -> String {
    let env = sandbox.env(None);
    let (_, mark) = env
        .iter()
        .find(|(name, _)| name == "PI_AGENTS_TEST_MARK")
        .unwrap();
    mark.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "hangs on purpose, for a_test_that_hangs_ends_the_run_with_its_name"]
fn hangs() {
    watchdog::arm();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_pause_does_not_count() {
    watchdog::arm_for(Duration::from_millis(400));
    let pause = watchdog::paused();
    std::thread::sleep(Duration::from_millis(700));
    drop(pause);
    // Still here: the run would have been aborted. What is left is enough for a moment.
    watchdog::arm_for(Duration::from_secs(60));
}
