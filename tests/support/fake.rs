//! The fake Pi from a test's side: built on first use, started in a [`Sandbox`], its log read.
//! What it can do is written at the top of `fake_pi/verbs.rs`, `options.rs` and `replay.rs`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::example::ensure_example;
use super::rpc::Rpc;
use super::sandbox::Sandbox;
use super::wait;

/// The fake's program, built when it is missing or older than its source.
///
/// # Panics
/// When it does not build.
pub fn fake_pi() -> PathBuf {
    ensure_example("fake-pi")
}

/// A world in which Pi is the fake. Set it up before the first start.
pub struct FakePi {
    /// Its folders and mark.
    pub sandbox: Sandbox,
    program: PathBuf,
    more: Vec<(OsString, OsString)>,
}

impl FakePi {
    /// One that behaves.
    pub fn new() -> Self {
        Self {
            program: fake_pi(),
            sandbox: Sandbox::new(),
            more: Vec::new(),
        }
    }

    /// Sets an environment variable of everything started here.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.more.push((name.into(), value.into()));
        self
    }

    /// Faults of the process, as in `FAKE_PI_OPTS`.
    #[must_use]
    pub fn options(self, options: &str) -> Self {
        self.with_env("FAKE_PI_OPTS", options)
    }

    /// Plays that recording.
    #[must_use]
    pub fn replay(self, path: &Path) -> Self {
        self.with_env("FAKE_PI_FILE", path)
    }

    /// Plays these lines.
    #[must_use]
    pub fn replay_lines(self, lines: &[u8]) -> Self {
        let path = self.sandbox.root().join("replay.jsonl");
        std::fs::write(&path, lines).expect("the sandbox can be written");
        self.replay(&path)
    }

    /// What `--version` says.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        self.with_env("FAKE_PI_VERSION", version)
    }

    /// The whole environment. Use after `env_clear`.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = self.sandbox.env(None);
        env.push(("FAKE_PI_LOG".into(), self.log_path().into()));
        env.extend(self.more.iter().cloned());
        env
    }

    /// What to give to `--pi`.
    pub fn pi_command(&self) -> String {
        let program = self.program.to_str();
        program.expect("target folder is UTF-8").to_owned()
    }

    /// Where agents work.
    pub fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// A command of this world: nothing inherited, in the work folder.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.work());
        command
    }

    /// Starts `fake-pi --mode rpc` with more arguments, over pipes.
    pub fn rpc(&self, args: &[&str]) -> Rpc {
        let mut command = self.command(&self.program);
        command.args(["--mode", "rpc"]).args(args);
        Rpc::start(command)
    }

    fn log_path(&self) -> PathBuf {
        self.sandbox.root().join("fake.log")
    }

    /// All that the fakes of this world logged, in order.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("the log is JSON"))
            .collect()
    }

    /// Logged events of one kind: `start`, `command`, `bad command`, `stdin ended`, `signal`,
    /// `grandchild`, `prompt lost`, `dialog not answered`, `end`.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|event| event["event"] == kind);
        log
    }

    /// Commands of one type that arrived, from all fakes of this world.
    pub fn commands(&self, kind: &str) -> Vec<Value> {
        let commands = self.events("command").into_iter();
        commands
            .map(|mut event| event["command"].take())
            .filter(|command| command["type"] == kind)
            .collect()
    }

    /// Waits until `found` picks something from the log.
    #[track_caller]
    pub fn wait_log<T>(&self, what: &str, found: impl Fn(&[Value]) -> Option<T>) -> T {
        wait::wait_for_or(
            what,
            || found(&self.log()),
            || {
                let lines: Vec<String> = self.log().iter().map(Value::to_string).collect();
                format!("the fake's log:\n{}", lines.join("\n"))
            },
        )
    }

    /// Waits until that many events of one kind were logged and gives them.
    #[track_caller]
    pub fn wait_events(&self, kind: &str, count: usize) -> Vec<Value> {
        self.wait_log(&format!("{count} of {kind:?} in the log"), |log| {
            let of_kind = log.iter().filter(|event| event["event"] == kind);
            let found: Vec<Value> = of_kind.cloned().collect();
            (found.len() >= count).then_some(found)
        })
    }
}
