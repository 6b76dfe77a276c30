//! Signals, as Pi treats them: SIGTERM ends with 143, SIGHUP with 129, the tool's processes die.

use std::sync::Arc;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::engine::Engine;
use crate::log;

/// Starts the thread that waits for signals.
pub(crate) fn watch(engine: &Arc<Engine>) {
    let engine = Arc::clone(engine);
    let (ready, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for signals");
        runtime.block_on(async move {
            let mut term = signal(SignalKind::terminate()).expect("SIGTERM");
            let mut hangup = signal(SignalKind::hangup()).expect("SIGHUP");
            let _ = ready.send(());
            loop {
                let (name, code) = tokio::select! {
                    _ = term.recv() => ("SIGTERM", 143),
                    _ = hangup.recv() => ("SIGHUP", 129),
                };
                log::event("signal", serde_json::json!({"signal": name}));
                if !engine.options.ignore_term {
                    engine.exit(name, code);
                }
            }
        });
    });
    let _ = wait.recv();
}

/// Ends by a signal; a name it does not know ends it with code 70.
pub(crate) fn kill_self(name: &str) {
    let signal = match name {
        "KILL" => Signal::KILL,
        "SEGV" => Signal::SEGV,
        "ABRT" => Signal::ABORT,
        "INT" => Signal::INT,
        _ => {
            log::end("unknown signal name", 70);
            std::process::exit(70);
        }
    };
    // More than once: the first SIGSEGV only removes the handler Rust puts there for itself.
    loop {
        let _ = kill_process(getpid(), signal);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
