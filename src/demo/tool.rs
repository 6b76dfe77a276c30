//! The shell of a tool call: a real process in a session of its own, as Pi's bash tool starts it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;

use rustix::process::{Pid, Signal, kill_process_group, setsid};

use super::TOOL_SHELL;
use super::agent::Input;

/// Leads a new session and becomes `sh -c script`. Returns only if that fails.
pub fn become_shell(script: OsString) -> ExitCode {
    // Fails only for a leader of a group; then the group is its own already.
    let _ = setsid();
    let error = Command::new("sh").arg("-c").arg(script).exec();
    let _ = writeln!(std::io::stderr(), "sh: {error}");
    ExitCode::from(127)
}

/// A shell script that prints lines, each after a pause.
pub fn printing_script(lines: &[(f64, String)], exit: u8, pace: f64) -> String {
    let mut script = String::new();
    for (pause, line) in lines {
        if *pause > 0.0 {
            script.push_str(&format!("sleep {:.3}; ", pause * pace));
        }
        let quoted = line.replace('\'', r"'\''");
        script.push_str(&format!("printf '%s\\n' '{quoted}'\n"));
    }
    script.push_str(&format!("exit {exit}"));
    script
}

/// A running shell. Dropping it kills its session's group.
pub struct Shell {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Shell {
    /// Starts a script. Its output, both streams in one, comes into `inbox` marked with `run`.
    pub fn start(
        script: &str,
        run: u64,
        env: &[(&str, String)],
        inbox: SyncSender<Input>,
    ) -> std::io::Result<Self> {
        let (mut read, write) = std::io::pipe()?;
        let child = Command::new(this_program()?)
            .args(["demo-agent", TOOL_SHELL, script])
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(write.try_clone()?)
            .stderr(write)
            .spawn()?;
        std::thread::spawn(move || {
            let mut chunk = [0_u8; 8192];
            loop {
                let input = match read.read(&mut chunk) {
                    Ok(0) | Err(_) => Input::ToolEnd { run },
                    Ok(read) => Input::Tool {
                        run,
                        bytes: chunk.get(..read).unwrap_or_default().to_vec(),
                    },
                };
                let end = matches!(input, Input::ToolEnd { .. });
                if inbox.send(input).is_err() || end {
                    return;
                }
            }
        });
        Ok(Self { child, ended: None })
    }

    /// Exit code once it ended; 128 + n for a signal.
    pub fn exit_code(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
            .map(|status| status.code().unwrap_or(128 + status.signal().unwrap_or(0)))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if self.exit_code().is_some() {
            return;
        }
        // Not reaped yet, so the number is still its own. The group first, then itself, in case it had not come
        // so far as to lead one.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program, also when its file was replaced since the start.
fn this_program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}
