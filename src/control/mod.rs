//! The control protocol: JSON-RPC 2.0 over a Unix socket. Serves one `FleetClient`, implements one.
//!
//! `framing` cuts lines, `rpc` is the envelope, `protocol` the methods, `bridge` those of Pi's extension; `server` and `connection`
//! serve, `client` asks; `socket` owns the file a core listens at, `discovery` finds it.
//! Knows nothing of processes and of how requests are fulfilled.

pub mod bridge;
pub mod client;
pub mod connection;
pub mod discovery;
pub mod framing;
pub mod host;
mod host_session;
pub mod outgoing;
mod progress;
pub mod protocol;
pub mod rpc;
pub mod server;
pub mod socket;
