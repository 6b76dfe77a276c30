//! A limit per test, because libtest has none: a test that hangs ends the whole run with its
//! name instead of the time limit of the machine.
//!
//! Every helper that can wait calls [`arm`]; the first call on a test's thread starts its clock,
//! the end of that thread stops it. When the clock runs out, everything this process started is
//! killed and the process aborts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use super::processes;

/// Seconds a test may take: `PI_AGENTS_TEST_LIMIT`, else 120.
fn default_limit() -> Duration {
    let seconds = std::env::var("PI_AGENTS_TEST_LIMIT")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(120);
    Duration::from_secs(seconds)
}

struct Watched {
    test: String,
    limit: Duration,
    deadline: Instant,
    paused: Option<Instant>,
}

static WATCHED: Mutex<Option<HashMap<u64, Watched>>> = Mutex::new(None);

fn watched() -> MutexGuard<'static, Option<HashMap<u64, Watched>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stops the clock of a thread when that thread ends.
struct Clock(u64);

impl Drop for Clock {
    fn drop(&mut self) {
        if let Some(map) = watched().as_mut() {
            map.remove(&self.0);
        }
    }
}

thread_local! {
    static CLOCK: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Starts the clock of the test on this thread, if it does not run yet.
pub fn arm() {
    let running = CLOCK.with_borrow(Option::is_some);
    if !running {
        arm_for(default_limit());
    }
}

/// Starts the clock anew with a limit of the test's own.
pub fn arm_for(limit: Duration) {
    let thread = std::thread::current();
    // libtest names the thread after the test, `area::test`. Helper threads and a run with one
    // test thread (which is the main one and never ends between tests) have no clock.
    let Some(test) = thread.name().filter(|name| name.contains("::")) else {
        return;
    };
    let id = next_id();
    watched().get_or_insert_default().insert(
        id,
        Watched {
            test: test.to_owned(),
            limit,
            deadline: Instant::now() + limit,
            paused: None,
        },
    );
    CLOCK.with_borrow_mut(|clock| *clock = Some(Clock(id)));
    start_watching();
}

/// Holds the clock of this thread while something shared is prepared (an installation, a build):
/// that time belongs to no test. It has limits of its own.
pub fn paused() -> Pause {
    arm();
    let id = CLOCK.with_borrow(|clock| clock.as_ref().map(|clock| clock.0));
    if let Some(id) = id
        && let Some(map) = watched().as_mut()
        && let Some(entry) = map.get_mut(&id)
    {
        entry.paused.get_or_insert_with(Instant::now);
    }
    Pause(id)
}

/// See [`paused`].
pub struct Pause(Option<u64>);

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(id) = self.0
            && let Some(map) = watched().as_mut()
            && let Some(entry) = map.get_mut(&id)
            && let Some(since) = entry.paused.take()
        {
            entry.deadline += since.elapsed();
        }
    }
}

fn next_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn start_watching() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(100));
                if let Some(text) = overdue() {
                    give_up(&text);
                }
            }
        });
    });
}

fn overdue() -> Option<String> {
    let now = Instant::now();
    let guard = watched();
    let late = guard
        .as_ref()?
        .values()
        .find(|entry| entry.paused.is_none() && entry.deadline < now)?;
    Some(format!(
        "test {} passed its limit of {:?}; the run is aborted",
        late.test, late.limit
    ))
}

fn give_up(text: &str) -> ! {
    let children = processes::descendants_of(std::process::id());
    let mut message = format!("\n*** {text}\n*** processes it leaves (killed now):\n");
    for process in &children {
        message.push_str(&format!("***   {process}\n"));
    }
    // Straight to the descriptor: libtest captures only the print macros.
    let _ = std::io::stderr().write_all(message.as_bytes());
    // They die a moment after this process: were they first, the test that waits for one of them
    // would go on and the run could still pass.
    let _ = Command::new("sh")
        .args(["-c", "sleep 0.1; kill -9 \"$@\"", "sh"])
        .args(children.iter().map(|process| process.pid.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    std::process::abort();
}
