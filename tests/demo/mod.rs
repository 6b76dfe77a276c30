//! Tests of `demo`: the scripted agent, driven over pipes as the supervisor drives Pi.

mod fleet;
mod like_pi;
mod process;
mod session;

use std::path::PathBuf;
use std::process::Command;

use crate::support::rpc::Rpc;
use crate::support::sandbox::Sandbox;

/// A world in which scripted agents run.
struct Stage {
    sandbox: Sandbox,
    pace: &'static str,
}

impl Stage {
    /// Everything fifty times as fast as for people.
    fn new() -> Self {
        Self {
            sandbox: Sandbox::new(),
            pace: "0.02",
        }
    }

    /// At a person's pace: whoever wants to interrupt has the time.
    fn slow() -> Self {
        Self {
            pace: "1",
            ..Self::new()
        }
    }

    fn sessions(&self) -> PathBuf {
        self.sandbox.data().join("sessions")
    }

    /// Starts an agent with a session, as the supervisor does.
    fn agent(&self, more: &[&str]) -> Rpc {
        let sessions = self.sessions().display().to_string();
        let mut args = vec!["--session-dir", &sessions, "--session-id", "agent-1"];
        args.extend(more);
        self.bare_agent(&args)
    }

    fn bare_agent(&self, args: &[&str]) -> Rpc {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pi-agents"));
        command
            .args(["demo-agent", "--mode", "rpc"])
            .args(args)
            .env_clear()
            .envs(self.sandbox.env(None))
            .env("PI_AGENTS_DEMO_PACE", self.pace)
            .current_dir(self.sandbox.work());
        Rpc::start(command)
    }

    fn session_file(&self) -> PathBuf {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.sessions())
            .expect("session folder")
            .map(|entry| entry.expect("entry").path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }
}
