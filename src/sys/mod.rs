//! The edge to the operating system: the only place for `unsafe`.
//!
//! Owns files that must not be torn, locks, the process table, how children are started, limits
//! of this process, signals, the log file, the panic hook and user ids. Knows nothing of Pi, agents or the protocol: names of
//! variables and directories come in as parameters.
//!
//! Linux comes first. On macOS everything here compiles, with these gaps: there is no `/proc`, so the
//! process table is empty, nothing is found by marker or tree and [`process::signal`] cannot prove who
//! a pid is and sends nothing; there is no subreaper, so the guard is a plain parent. Process groups,
//! locks, files, logs and peer ids work.

pub mod atomic_file;
pub mod limits;
pub mod lock;
pub mod logging;
pub mod panic;
pub mod process;
pub mod signals;
pub mod spawn;
pub mod sweep;
pub mod tree;
pub mod user;
