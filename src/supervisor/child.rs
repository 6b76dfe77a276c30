//! One child process: its pipes, its reader, its end. stdout and stderr are drained until their
//! end, also while it is being stopped (R-PI-09: a stalled reader makes Pi hang on EOF and
//! SIGTERM). The reader never waits for a viewer.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::Event;
use super::extras::Hidden;
use super::find_pi;
use super::leftovers::Tracks;
use super::live::AgentLive;
use super::pipe::{Hurry, Pipe};
use super::shared::Shared;
use super::witness::Witness;
use crate::fleet::ids::{CoreId, InstanceId};
use crate::fleet::interpret::{Fact, Interpreter};
use crate::fleet::machine::{Exit, Input};
use crate::fleet::transcript::{EntryKind, Level};
use crate::pi::event::{ParseError, Parser, Record};
use crate::pi::framing::{Decoder, Frame};
use crate::pi::message::Message;
use crate::sys::process::{self, ProcessId, Signal};
use crate::sys::spawn;

/// Commands that may wait for a child that does not read. The machine has at most a handful under
/// way; when this is full the child counts as deaf.
const WRITER_QUEUE: usize = 64;
/// One read of stdout.
const READ_BUFFER: usize = 128 * 1024;
/// Asked of the kernel for the stdout pipe, so that a burst does not stall the child.
const PIPE_SIZE: usize = 1 << 20;
/// A child that streamed is looked at this often in vain before it is waited for.
const QUIET_TICKS: u8 = 1;
/// stderr lines kept.
const STDERR_LINES: usize = 40;
/// Longest kept stderr line, in bytes.
const STDERR_LINE: usize = 2000;
/// A child whose output ended has this long to end as well.
const MUTE: Duration = Duration::from_secs(2);
/// The end of its output and its death are one event if they are no further apart than this.
const TOGETHER: Duration = Duration::from_millis(500);
/// After its death, how long what is still in the pipes is read: a grandchild may hold them open.
const DRAIN: Duration = Duration::from_millis(300);

/// What the actor holds of a running child.
pub struct ChildHandle {
    /// Identity of the process.
    pub process: ProcessId,
    /// What it says of its session file.
    pub witness: Arc<Witness>,
    writer: mpsc::Sender<Vec<u8>>,
    close: CancellationToken,
    tracks: Arc<Tracks>,
    hurry: Arc<Hurry>,
}

impl ChildHandle {
    /// Queues a command line. `false` = the child is deaf.
    #[must_use]
    pub fn write(&self, line: Vec<u8>) -> bool {
        self.hurry.begin();
        self.writer.try_send(line).is_ok()
    }

    /// Records the process tree and then closes stdin: in this order, since what leaves the tree on
    /// EOF must be found later.
    pub fn close_stdin(&self) {
        self.hurry.begin();
        self.witness.ending(wall_ms());
        let (tracks, close, pid) = (
            Arc::clone(&self.tracks),
            self.close.clone(),
            self.process.pid,
        );
        tokio::task::spawn_blocking(move || {
            tracks.record(pid);
            close.cancel();
        });
    }

    /// Signals the whole process group.
    pub fn signal_group(&self, signal: Signal) {
        self.hurry.begin();
        self.witness.ending(wall_ms());
        let (process, tracks) = (self.process, Arc::clone(&self.tracks));
        tokio::task::spawn_blocking(move || {
            tracks.record(process.pid);
            if let Err(error) = process::signal_group(process, signal) {
                tracing::warn!(pid = process.pid, %error, "signal not sent");
            }
        });
    }
}

/// What a child is started with.
pub struct ChildSetup {
    /// Its identity.
    pub instance: InstanceId,
    /// The core's.
    pub core: CoreId,
    /// Longest record, in bytes.
    pub record_limit: usize,
    /// Text kept of the transcript, in bytes.
    pub transcript_limit: usize,
    /// Where its records go.
    pub live: Arc<AgentLive>,
    /// The bell of the viewers.
    pub shared: Arc<Shared>,
    /// Where its facts go.
    pub events: mpsc::Sender<Event>,
    /// What it says of its session file.
    pub witness: Arc<Witness>,
    /// What is not repeated of what it says.
    pub hidden: Hidden,
    /// Tools it was asked for by name.
    pub tools: Vec<String>,
    /// The bridge it was given.
    pub bridge: Option<PathBuf>,
    /// Pid of the guard, if there is one.
    pub guard: Option<u32>,
    /// Children that are not swept yet.
    pub alive: Arc<AtomicUsize>,
    /// Held until nothing of the process is left.
    pub lock: Option<crate::sys::lock::FileLock>,
}

/// Starts the process and its tasks.
///
/// # Errors
/// The program could not be started.
pub fn start(mut command: Command, setup: ChildSetup) -> io::Result<ChildHandle> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn()?;
    let gone = || io::Error::other("the process ended at once");
    let pid = child.id().ok_or_else(gone)?;
    let process = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 });
    let stdin = child.stdin.take().ok_or_else(gone)?;
    let stdout = child.stdout.take().ok_or_else(gone)?;
    let stderr = child.stderr.take().ok_or_else(gone)?;
    spawn::set_pipe_size(&stdout, PIPE_SIZE);

    setup.alive.fetch_add(1, Ordering::AcqRel);
    let close = CancellationToken::new();
    let (writer, lines) = mpsc::channel(WRITER_QUEUE);
    let tracks = Arc::new(Tracks::default());
    tokio::spawn(write(
        stdin,
        lines,
        close.clone(),
        setup.instance,
        setup.events.clone(),
    ));
    let hurry = Arc::new(Hurry::default());
    let witness = Arc::clone(&setup.witness);
    let watch = Watch {
        tracks: Arc::clone(&tracks),
        hurry: Arc::clone(&hurry),
        pid,
    };
    tokio::spawn(run(child, stdout, stderr, setup, watch));
    Ok(ChildHandle {
        process,
        witness,
        writer,
        close,
        tracks,
        hurry,
    })
}

/// What the tasks of a child share with its handle.
#[derive(Clone)]
struct Watch {
    tracks: Arc<Tracks>,
    hurry: Arc<Hurry>,
    pid: u32,
}

/// Writes command lines until stdin is to be closed. A child that does not read blocks only this
/// task.
async fn write(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    close: CancellationToken,
    instance: InstanceId,
    events: mpsc::Sender<Event>,
) {
    loop {
        let line = tokio::select! {
            biased;
            () = close.cancelled() => return,
            line = lines.recv() => match line {
                Some(line) => line,
                None => return,
            },
        };
        let written = tokio::select! {
            biased;
            () = close.cancelled() => return,
            written = async {
                stdin.write_all(&line).await?;
                stdin.flush().await
            } => written,
        };
        if written.is_err() {
            let _ = events
                .send(Event::Input(Input::WriteFailed { instance }))
                .await;
            return;
        }
    }
}

/// The child's life: reads, waits, drains, sweeps, reports.
async fn run(
    mut child: Child,
    stdout: ChildStdout,
    stderr: ChildStderr,
    mut setup: ChildSetup,
    watch: Watch,
) {
    let instance = setup.instance;
    let core = setup.core;
    let events = setup.events.clone();
    let lock = setup.lock.take();
    let bridge = setup.bridge.take();
    let (guard, alive) = (setup.guard, Arc::clone(&setup.alive));
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let mut err_task = tokio::spawn(drain_stderr(
        stderr,
        Arc::clone(&tail),
        setup.hidden.clone(),
    ));
    let mut out_task = tokio::spawn(read_stdout(stdout, setup, watch.clone()));

    // Death is the wait status, never the end of a pipe (case B023).
    let mut drained = false;
    // It could do something that was not heard: its output was not read to the end, or ended before it.
    let mut unheard = false;
    let status = tokio::select! {
        status = child.wait() => status,
        _ = &mut out_task => {
            drained = true;
            let ended = Instant::now();
            let status = match tokio::time::timeout(MUTE, child.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    let _ = events.send(Event::Input(Input::OutputEnded { instance })).await;
                    child.wait().await
                }
            };
            unheard = ended.elapsed() > TOGETHER;
            status
        }
    };
    watch.hurry.begin();
    if !drained {
        unheard = !finish(&mut out_task).await;
    }
    finish(&mut err_task).await;
    let exit = Exit {
        unheard,
        ..exit_of(status, &tail, bridge.as_deref())
    };
    let _ = events
        .send(Event::Input(Input::Exited { instance, exit }))
        .await;

    // Counted until the sweep is over: two that end together both leave the orphans alone.
    let guard = guard.filter(|_| alive.load(Ordering::Acquire) == 1);
    let swept =
        tokio::task::spawn_blocking(move || watch.tracks.sweep(core, instance, guard)).await;
    alive.fetch_sub(1, Ordering::AcqRel);
    out_task.abort();
    err_task.abort();
    let (killed, left) = swept.map_or((0, 0), |r| (r.killed.len(), r.left.len()));
    drop(lock);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let _ = events
        .send(Event::Input(Input::Swept {
            instance,
            killed: count(killed),
            left: count(left),
        }))
        .await;
}

/// Waits for a reader to reach the end of its pipe, for a bounded time. Whether it did.
async fn finish(task: &mut JoinHandle<()>) -> bool {
    tokio::time::timeout(DRAIN, task).await.is_ok()
}

fn exit_of(
    status: io::Result<ExitStatus>,
    tail: &Mutex<VecDeque<String>>,
    bridge: Option<&Path>,
) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    let lines = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let stderr_tail: Vec<String> = lines.iter().cloned().collect();
    let known = bridge.and_then(|bridge| find_pi::same_tool(&stderr_tail, bridge));
    let known = known.map(|problem| problem.one_line());
    match status {
        Ok(status) => Exit {
            code: status.code(),
            signal: status.signal(),
            stderr_tail,
            known,
            unheard: false,
        },
        Err(_) => Exit {
            stderr_tail,
            ..Exit::default()
        },
    }
}

async fn drain_stderr(mut stderr: ChildStderr, tail: Arc<Mutex<VecDeque<String>>>, hidden: Hidden) {
    let mut buffer = vec![0_u8; 16 * 1024];
    let mut line: Vec<u8> = Vec::new();
    loop {
        let n = match stderr.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        for byte in buffer.iter().take(n) {
            if *byte == b'\n' {
                keep(&tail, &mut line, &hidden);
            } else if line.len() < STDERR_LINE {
                line.push(*byte);
            }
        }
    }
    keep(&tail, &mut line, &hidden);
}

fn keep(tail: &Mutex<VecDeque<String>>, line: &mut Vec<u8>, hidden: &Hidden) {
    // Cut at the bound it may end within a character (case B007).
    if line.len() == STDERR_LINE
        && let Err(error) = std::str::from_utf8(line)
        && error.error_len().is_none()
    {
        line.truncate(error.valid_up_to());
    }
    let text = hidden
        .hide(String::from_utf8_lossy(line).trim_end())
        .into_owned();
    line.clear();
    if text.trim().is_empty() {
        return;
    }
    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    if tail.len() == STDERR_LINES {
        tail.pop_front();
    }
    tail.push_back(text);
}

/// Reads records until the end of the pipe.
async fn read_stdout(stdout: ChildStdout, setup: ChildSetup, watch: Watch) {
    let Watch { tracks, hurry, pid } = watch;
    let mut pipe = match Pipe::new(stdout) {
        Ok(pipe) => pipe,
        Err(error) => {
            tracing::error!(pid, %error, "the output of a child cannot be read");
            return;
        }
    };
    let mut decoder = Decoder::new(setup.record_limit);
    let mut reader = Reader {
        interpreter: Interpreter::new(),
        facts: Vec::new(),
        parser: Parser::new(),
        bad_lines: 0,
        bad_told: 0,
        bad_note: None,
        tool_started: false,
        wanted_tools: setup.tools.clone(),
    };
    let mut buffer = vec![0_u8; READ_BUFFER];
    // Ticks it was looked at in vain.
    let mut quiet = QUIET_TICKS;
    loop {
        let n = match pipe.read(&mut buffer) {
            Ok(Some(0)) => {
                setup.witness.heard_all();
                break;
            }
            Err(_) => break,
            Ok(Some(n)) => n,
            Ok(None) if quiet < QUIET_TICKS && !hurry.is_on() => {
                quiet += 1;
                hurry.tick().await;
                continue;
            }
            Ok(None) => {
                if wait_for_more(&mut pipe, &setup).await.is_err() {
                    break;
                }
                continue;
            }
        };
        let chunk = buffer.get(..n).unwrap_or_default();
        {
            let mut inner = setup.live.lock();
            let at_ms = wall_ms();
            let mut frames = decoder.feed(chunk);
            while let Some(frame) = frames.next() {
                reader.frame(frame, &mut inner, &setup, at_ms);
            }
            reader.report_bad(&mut inner, at_ms);
            inner.bound(setup.transcript_limit);
        }
        setup.live.touch();
        if std::mem::take(&mut reader.tool_started) {
            let tracks = Arc::clone(&tracks);
            tokio::task::spawn_blocking(move || tracks.record(pid));
        }
        let told = !reader.facts.is_empty();
        if told {
            setup.shared.ring();
        } else {
            setup.shared.ring_later();
        }
        for fact in reader.facts.drain(..) {
            let instance = setup.instance;
            if setup
                .events
                .send(Event::Input(Input::Fact { instance, fact }))
                .await
                .is_err()
            {
                return;
            }
        }
        if told {
            hurry.end();
        }
        // Deltas can wait for the next tick; anything that decides something cannot.
        if told || hurry.is_on() || n >= READ_BUFFER / 2 {
            quiet = QUIET_TICKS;
            tokio::task::yield_now().await;
        } else {
            quiet = 0;
            hurry.tick().await;
        }
    } // What there is of a run that did not end: its text is not lost with the process.
    if let Some(end) = reader.interpreter.process_gone() {
        let (instance, fact) = (setup.instance, Fact::Unfinished(end));
        let _ = setup
            .events
            .send(Event::Input(Input::Fact { instance, fact }))
            .await;
    }
}

/// Waits for output, or for a dialog to close: Pi closes one with a time limit without a word
/// (pi-facts §3).
async fn wait_for_more(pipe: &mut Pipe, setup: &ChildSetup) -> io::Result<()> {
    let expiry = setup.live.lock().live.next_expiry();
    tokio::select! {
        readable = pipe.readable() => readable,
        () = sleep_until_wall(expiry), if expiry.is_some() => {
            setup.live.lock().live.expire(wall_ms());
            setup.live.touch();
            setup.shared.ring();
            Ok(())
        }
    }
}

fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

async fn sleep_until_wall(at_ms: Option<i64>) {
    if let Some(at_ms) = at_ms {
        let wait = u64::try_from(at_ms - wall_ms()).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// An extension that was added to the launch is not named when it fails (R-PI-04).
fn without<'a>(hidden: &Hidden, record: Record<'a>) -> Record<'a> {
    match record {
        Record::ExtensionError(mut error) => {
            let part = |text: &mut Cow<'a, str>| {
                let plain = hidden.hide(text).into_owned();
                *text = Cow::Owned(plain);
            };
            part(&mut error.path);
            part(&mut error.error);
            Record::ExtensionError(error)
        }
        record => record,
    }
}

struct Reader {
    interpreter: Interpreter,
    facts: Vec<Fact>,
    parser: Parser,
    bad_lines: u64,
    /// How many of them the note counts.
    bad_told: u64,
    /// The entry of that note.
    bad_note: Option<u64>,
    tool_started: bool,
    /// Tools asked for by name; empty once they were compared.
    wanted_tools: Vec<String>,
}

impl Reader {
    fn frame(
        &mut self,
        frame: Frame<'_>,
        inner: &mut super::live::Inner,
        setup: &ChildSetup,
        at_ms: i64,
    ) {
        // The parser is taken out, so that what it lends can go through `self`.
        let mut parser = std::mem::take(&mut self.parser);
        match parser.read(frame) {
            Ok(record) => {
                setup.witness.hear(&record, at_ms);
                let record = without(&setup.hidden, record);
                self.record(&record, inner, at_ms);
            }
            Err(error) => {
                if error != ParseError::Blank {
                    self.bad_lines += 1;
                    setup.witness.missed();
                    tracing::debug!(instance = %setup.instance, %error, "unreadable line");
                }
            }
        }
        self.parser = parser;
    }

    fn record(&mut self, record: &Record<'_>, inner: &mut super::live::Inner, at_ms: i64) {
        if matches!(record, Record::ToolUpdate(_)) {
            self.tool_started = true;
        }
        if let Record::MessageStart(Message::System { tools_added }) = record {
            self.compare_tools(tools_added, inner, at_ms);
        }
        self.interpreter.feed(record, at_ms, &mut self.facts);
        inner.feed(record, at_ms);
    }

    /// Pi drops a tool name it does not know without a word (R-PI-10): the first list of tools tells.
    fn compare_tools(
        &mut self,
        given: &[Cow<'_, str>],
        inner: &mut super::live::Inner,
        at_ms: i64,
    ) {
        let mut missing = std::mem::take(&mut self.wanted_tools);
        missing.retain(|name| !given.iter().any(|g| g == name));
        if !missing.is_empty() {
            let names = missing.join(", ");
            let text = format!("Pi does not know these tools, it works without them: {names}");
            inner.notice(Level::Warning, text, at_ms);
        }
    }

    /// One short note per process that counts them; the log has the rest (case B003).
    fn report_bad(&mut self, inner: &mut super::live::Inner, at_ms: i64) {
        if self.bad_told == self.bad_lines {
            return;
        }
        self.bad_told = self.bad_lines;
        let text = match self.bad_lines {
            1 => "1 line of its output was no record and was skipped".to_owned(),
            n => format!("{n} lines of its output were no records and were skipped"),
        };
        let kind = EntryKind::Notice {
            level: Level::Warning,
            text,
        };
        match self.bad_note {
            Some(seq) => inner.log.update(seq, |note| *note = kind),
            None => self.bad_note = Some(inner.log.push(at_ms, kind)),
        }
    }
}
