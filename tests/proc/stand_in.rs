//! What the tests here start: shells that say who they are, and a guard around a stand-in core.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pi_agents::sys::process::{self, ProcessId, Signal};

use crate::support::example::ensure_example;
use crate::support::wait::{wait_for, wait_until};

/// A shell script that leaves its pid in `dir/name` and then sleeps for ten minutes.
pub fn sleeper(dir: &Path, name: &str) -> String {
    format!("{}; exec sleep 600", sign_in(dir, name))
}

/// The part that leaves the pid: by the shell itself, so that no helper process is in the way.
pub fn sign_in(dir: &Path, name: &str) -> String {
    format!("echo $$ > {}/{name}", dir.display())
}

/// `script` as one word for a shell. Scripts here have no quotes of their own kind inside.
pub fn quoted(script: &str) -> String {
    format!("'{}'", script.replace('\'', "'\\''"))
}

/// Processes that are killed when the test ends, however it ends.
#[derive(Default)]
pub struct Killed(pub Vec<ProcessId>);

impl Killed {
    /// Waits until the script signed in under `name`.
    pub fn signed_in(&mut self, dir: &Path, name: &str) -> ProcessId {
        let id = wait_for(name, || {
            let pid = std::fs::read_to_string(dir.join(name)).ok()?;
            ProcessId::of(pid.strip_suffix('\n')?.parse().ok()?)
        });
        self.0.push(id);
        id
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        for id in &self.0 {
            let _ = process::signal(*id, Signal::KILL);
        }
    }
}

/// A child that is killed and reaped when the test ends.
pub struct Reaped(pub Child);

impl Reaped {
    /// Starts a script in its own group, with nothing on its standard streams.
    pub fn sh(script: &str) -> Reaped {
        let env = std::env::vars_os();
        let mut command = pi_agents::sys::spawn::command(
            "sh".as_ref(),
            ["-c".into(), script.into()],
            env,
            Path::new("/"),
        );
        Reaped::start(&mut command)
    }

    /// Starts a command with nothing on its standard streams.
    pub fn start(command: &mut Command) -> Reaped {
        let null = Stdio::null;
        Reaped(
            command
                .stdin(null())
                .stdout(null())
                .stderr(null())
                .spawn()
                .unwrap(),
        )
    }

    pub fn id(&self) -> ProcessId {
        ProcessId::of(self.0.id()).unwrap()
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guard with a stand-in core.
pub struct Guarded {
    pub guard: Child,
    pub core: ProcessId,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Guarded {
    /// Starts both and waits until the core is ready.
    pub fn start(dir: &Path, grace_ms: u32, limit_ms: u32) -> Guarded {
        let harness = ensure_example("proc-harness");
        let mut guard = Command::new(&harness)
            .args(["guard", &grace_ms.to_string(), &limit_ms.to_string()])
            .arg(dir.join("guard.log"))
            .arg(&harness)
            .arg("core")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = guard.stdin.take();
        let stdout = BufReader::new(guard.stdout.take().unwrap());
        let mut started = Guarded {
            core: ProcessId::of(guard.id()).unwrap(),
            guard,
            stdin,
            stdout,
        };
        assert_eq!(started.line(), format!("ready {}", started.guard.id()));
        let core = process::list()
            .into_iter()
            .find(|row| row.ppid == started.guard.id());
        started.core = core.unwrap().id();
        started
    }

    /// Tells the core to do something.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Ends the core's stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line the core says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads until the core's stdout ends.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }

    /// The guard's end, or `None` when it did not end within ten seconds: for a test that has to tidy up first.
    pub fn ended_or_none(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.guard.try_wait().unwrap() {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                ended => return ended,
            }
        }
    }

    /// Waits for the guard's end.
    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the end of the guard", || self.guard.try_wait().unwrap())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = process::signal(self.core, Signal::KILL);
        // With the core dead the guard cleans up by itself; a guard that does not is killed.
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.guard.try_wait(), Ok(None)) {
            let _ = cut_grace_short(self.guard.id());
            if Instant::now() > deadline {
                let _ = self.guard.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.guard.wait();
    }
}

/// SIGTERM to a guard whose core is dead cuts its grace short.
fn cut_grace_short(pid: u32) -> Option<bool> {
    process::signal(ProcessId::of(pid)?, Signal::TERM).ok()
}

/// Waits until none of them is alive.
pub fn all_dead(ids: &[ProcessId]) {
    wait_until("the death of all", || {
        ids.iter().all(|id| !process::is_alive(*id))
    });
}
