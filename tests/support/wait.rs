//! Waiting for a condition with a deadline. No test sleeps a fixed time to "let it happen".

use std::time::{Duration, Instant};

use super::watchdog;

/// How long a wait may take: `PI_AGENTS_TEST_TIMEOUT` in seconds, 20 s without it. Generous,
/// because a small machine runs many tests at once; a passing test never waits it out.
pub fn limit() -> Duration {
    let seconds = std::env::var("PI_AGENTS_TEST_TIMEOUT")
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
        .unwrap_or(20.0);
    Duration::from_secs_f64(seconds)
}

/// Time between two looks: short at first, so that fast things are seen at once.
fn pause_after(looks: u32) -> Duration {
    Duration::from_millis(u64::from(looks.min(20)).max(1))
}

/// Waits until `condition` holds; panics with `what` at the deadline.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_or(what, || condition().then_some(()), String::new);
}

/// Waits until `probe` gives something and returns it.
#[track_caller]
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_for_or(what, probe, String::new)
}

/// As [`wait_for`]; `detail` is shown when the deadline passes.
#[track_caller]
pub fn wait_for_or<T>(
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
    detail: impl FnOnce() -> String,
) -> T {
    watchdog::arm();
    let limit = limit();
    let deadline = Instant::now() + limit;
    let mut looks = 0;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        if Instant::now() >= deadline {
            let detail = detail();
            panic!("waited {limit:?} in vain for: {what}\n{detail}");
        }
        looks += 1;
        std::thread::sleep(pause_after(looks));
    }
}

/// As [`wait_until`], for async tests: lets the runtime go on meanwhile.
pub async fn wait_until_async(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for_async(what, || condition().then_some(())).await;
}

/// As [`wait_for`], for async tests.
pub async fn wait_for_async<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    watchdog::arm();
    let limit = limit();
    let deadline = Instant::now() + limit;
    let mut looks = 0;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited {limit:?} in vain for: {what}"
        );
        looks += 1;
        tokio::time::sleep(pause_after(looks)).await;
    }
}

/// Asserts that `condition` holds all through `window`: for "this must not happen".
#[track_caller]
pub fn stays(what: &str, window: Duration, mut condition: impl FnMut() -> bool) {
    watchdog::arm();
    let end = Instant::now() + window;
    while Instant::now() < end {
        assert!(condition(), "did not stay so for {window:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The machine has more to do than processors: times say nothing about the program.
pub fn crowded() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let last_minute = load.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    last_minute.is_none_or(|n| n > processors as f64)
}
