//! What happens when this program has a bug.
//!
//! The terminal is given back first, then the backtrace goes to the log, then one line on stderr names the log.
//! (R-TUI-12, R-OPS-05) The hook runs for every panic in the process, also one that a runtime catches in a
//! task: a screen treats [`count`] above zero as its end.

use std::backtrace::Backtrace;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::logging;

type Restore = Arc<dyn Fn() + Send + Sync>;

static RESTORE: Mutex<Option<Restore>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Registers what gives the terminal back. Called on the panicking thread, possibly in the middle of a draw:
/// it must not panic and must not wait for a lock that drawing holds. Replaces the one before.
pub fn set_restore(restore: impl Fn() + Send + Sync + 'static) {
    *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(restore));
}

/// Forgets it, once the terminal is given back in order.
pub fn clear_restore() {
    *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// How many panics this process has had.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Installs the hook. `log` is the file that gets the backtrace; without one it goes to stderr.
pub fn install(log: Option<PathBuf>) {
    std::panic::set_hook(Box::new(move |info| report(info, log.as_deref())));
}

fn report(info: &PanicHookInfo<'_>, log: Option<&Path>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    // Cloned out of the lock, so that a panic inside the closure cannot deadlock the hook.
    let restore = RESTORE.try_lock().ok().and_then(|restore| restore.clone());
    if let Some(restore) = restore {
        restore();
    }
    logging::restore_stderr();
    let thread = std::thread::current();
    let details = format!(
        "panic in thread '{}': {info}\n{}\n",
        thread.name().unwrap_or("unnamed"),
        Backtrace::force_capture()
    );
    // Written past the logger: the panicking thread may be inside it.
    let written = log.filter(|path| {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(details.as_bytes()))
            .is_ok()
    });
    let line = match written {
        Some(path) => format!(
            "pi-agents: internal error; details are in {}\n",
            path.display()
        ),
        None => format!("pi-agents: internal error\n{details}"),
    };
    let _ = std::io::stderr().write_all(line.as_bytes());
}
