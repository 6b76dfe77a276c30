//! Asks a program for its version, bounded in time and output, and leaves no process behind.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::pi::compat::Version;
use crate::sys::limits;

/// Bound on `CMD --version` (measured on a busy machine: up to 5.6 s for real Pi).
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Bound on `node --version`.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Output beyond this is not read: whatever prints so much is not answering `--version`.
const MAX_OUTPUT: usize = 4096;

/// The same for what a program says on stderr.
const MAX_LAST_WORDS: usize = 256 * 1024;

/// How often the end of the process is looked for while its output stays open.
const LOOK_MS: i64 = 20;

/// How often a program that is busy being written is tried again, `LOOK_MS` apart.
const BUSY_TRIES: usize = 25;

/// Longest excerpt of a stranger's output.
const MAX_EXCERPT: usize = 80;

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A version.
    Version(Version),
    /// Something else: a short cleaned excerpt.
    Said(String),
    /// Nothing at all.
    Silent,
    /// No answer in time.
    Slow,
    /// It could not be started.
    CannotRun(String),
    /// Nothing could be started now: no fault of the program, and no answer about it.
    NotNow {
        /// What the system says.
        why: String,
        /// What to do about it.
        way_out: &'static str,
    },
}

/// Pi could not be asked something, or gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAsked(pub String);

/// Runs a command with its stderr piped in its own process group, waits at most `timeout`, kills what
/// is left of the group, and gives what it wrote to stderr.
///
/// # Errors
/// It could not be started, or did not end in time.
pub fn last_words(command: &mut Command, timeout: Duration) -> Result<String, NotAsked> {
    let mut child = spawn(command.process_group(0)).map_err(|e| NotAsked(e.to_string()))?;
    let pipe = child.stderr.take();
    let output = pipe.and_then(|pipe| {
        let deadline = Instant::now() + timeout;
        collect(&mut child, pipe, MAX_LAST_WORDS, deadline)
    });
    end(&mut child);
    match output {
        Some(output) => Ok(String::from_utf8_lossy(&output).into_owned()),
        None => Err(NotAsked(format!("it did not end within {timeout:?}"))),
    }
}

/// Kills what is left of a child's group, and reaps it.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may be gone already; then there is nothing to kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Killed or ended: cannot block for long, and leaves no zombie.
    let _ = child.wait();
}

/// Runs `argv --version` in its own process group with nothing on stdin, waits at most `timeout`, and kills
/// what is left of the group.
pub fn probe_version(argv: &[OsString], env: &[(OsString, OsString)], timeout: Duration) -> Probe {
    let Some((program, words)) = argv.split_first() else {
        return Probe::CannotRun("no program".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .arg("--version")
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        // An update check or telemetry of a real Pi has no place in a probe.
        .env("PI_OFFLINE", "1")
        .env("PI_SKIP_VERSION_CHECK", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mut child = match spawn(&mut command) {
        Ok(child) => child,
        Err(error) => {
            let why = error.to_string();
            return match limits::way_out(&error) {
                Some(way_out) => Probe::NotNow { why, way_out },
                None => Probe::CannotRun(why),
            };
        }
    };
    let pipe = child.stdout.take();
    let output =
        pipe.and_then(|pipe| collect(&mut child, pipe, MAX_OUTPUT, Instant::now() + timeout));
    end(&mut child);
    match output {
        Some(output) => read_answer(&output),
        None => Probe::Slow,
    }
}

/// Starts it; a program that is being written at this moment (an update) gets a second chance.
fn spawn(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(LOOK_MS.unsigned_abs()));
            }
            done => return done,
        }
    }
    command.spawn()
}

/// Output until the process ended; `None` = not in time. A grandchild that keeps the pipe open does not count.
fn collect(
    child: &mut Child,
    mut pipe: impl Read + AsFd,
    most: usize,
    deadline: Instant,
) -> Option<Vec<u8>> {
    let mut output = Vec::new();
    let mut open = true;
    loop {
        let ended = child.try_wait().map_or(true, |status| status.is_some());
        // After the end one more round reads what is still in the pipe.
        while open && readable(&pipe, if ended { 0 } else { LOOK_MS }) {
            let mut chunk = [0_u8; 1024];
            match pipe.read(&mut chunk) {
                Ok(0) | Err(_) => open = false,
                Ok(read) => output.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            }
            if output.len() > most || Instant::now() >= deadline {
                break;
            }
        }
        if ended || output.len() > most {
            return Some(output);
        }
        if Instant::now() >= deadline {
            return None;
        }
        if !open {
            std::thread::sleep(Duration::from_millis(LOOK_MS.unsigned_abs()));
        }
    }
}

fn readable(pipe: &impl AsFd, wait_ms: i64) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: wait_ms * 1_000_000,
    };
    poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0)
}

/// A version is a line that holds nothing else, but for the program's name before it.
fn read_answer(output: &[u8]) -> Probe {
    let text = String::from_utf8_lossy(output);
    let version = text.lines().take(20).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next()?, words.next());
        match (second, words.next()) {
            (None, _) => exact_version(first),
            (Some(second), None) if first.ends_with("pi") => exact_version(second),
            _ => None,
        }
    });
    if let Some(version) = version {
        return Probe::Version(version);
    }
    let said = excerpt(&text);
    if said.is_empty() {
        Probe::Silent
    } else {
        Probe::Said(said)
    }
}

/// A version with all its three numbers: `3.14159` is some other program's idea of pi.
pub fn exact_version(word: &str) -> Option<Version> {
    let numbers = word.split(['-', '+']).next()?;
    (numbers.matches('.').count() == 2)
        .then(|| word.parse().ok())
        .flatten()
}

/// First printable ASCII of a stranger's output: enough to recognise it, harmless anywhere.
pub fn excerpt(text: &str) -> String {
    let clean: String = text
        .chars()
        .take(4 * MAX_EXCERPT)
        .map(|c| if c.is_ascii_graphic() { c } else { ' ' })
        .collect();
    let mut words = clean.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    if words.len() > MAX_EXCERPT {
        words.truncate(MAX_EXCERPT);
        words.push_str("...");
    }
    words
}
