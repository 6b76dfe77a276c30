//! The control protocol: JSON-RPC 2.0 over a Unix socket. Serves one `FleetClient`, implements one.
