//! The built-in scripted agent: a child process that speaks Pi's RPC.
