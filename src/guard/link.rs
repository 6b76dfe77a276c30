//! The line between guard and core: a socket pair whose end of stream is the death of the other.
//!
//! Protocol, one line per message, core asks, guard answers, in order:
//!
//! ```text
//! core → guard   orphans
//! guard → core   orphans PID:START PID:START …      (no words when there are none)
//! ```
//!
//! An unknown question is answered with `?` and its first word, so that a newer core learns that an older
//! guard cannot answer. The guard reads no further question before it has got rid of the last answer.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "no guard without a subreaper")
)]

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::sys::process::ProcessId;
use crate::sys::spawn;

/// The variable that tells the core its end of the link: `FD:PID`, descriptor number and pid of the guard.
pub const LINK_VARIABLE: &str = "PI_AGENTS_GUARD";

const ORPHANS: &str = "orphans";

/// The longest question a guard accepts, in bytes. A longer one is no question of ours: the link is closed.
const LONGEST_QUESTION: usize = 256;

/// The longest answer a core accepts, in bytes: some 50,000 orphans.
const LONGEST_ANSWER: usize = 1 << 20;

/// How long a core waits for an answer. The guard answers in milliseconds unless it was stopped.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The value of [`LINK_VARIABLE`].
pub(super) fn variable(fd: i32, guard: u32) -> String {
    format!("{fd}:{guard}")
}

/// The guard's end. Never blocks.
pub(super) struct GuardEnd {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl GuardEnd {
    pub(super) fn new(stream: UnixStream) -> GuardEnd {
        GuardEnd {
            stream,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Does what can be done without waiting. False when the link has ended.
    pub(super) fn serve(&mut self, orphans: impl Fn() -> Vec<ProcessId>) -> bool {
        loop {
            if !self.output.is_empty() {
                match self.stream.write(&self.output) {
                    Ok(count) => {
                        self.output.drain(..count.min(self.output.len()));
                        continue;
                    }
                    Err(error) => return may_go_on(&error),
                }
            }
            if let Some(end) = memchr::memchr(b'\n', &self.input) {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                self.output = answer(&line, &orphans);
                continue;
            }
            if self.input.len() > LONGEST_QUESTION {
                return false;
            }
            let mut chunk = [0_u8; LONGEST_QUESTION];
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.input.extend(chunk.iter().take(count)),
                Err(error) => return may_go_on(&error),
            }
        }
    }
}

impl AsFd for GuardEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn may_go_on(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn answer(line: &[u8], orphans: impl Fn() -> Vec<ProcessId>) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let question = line.split_ascii_whitespace().next().unwrap_or_default();
    let mut answer = if question == ORPHANS {
        let ids: String = orphans().iter().map(|id| format!(" {id}")).collect();
        format!("{ORPHANS}{ids}")
    } else {
        format!("? {question}")
    };
    answer.push('\n');
    answer.into_bytes()
}

/// The core's end, as inherited.
#[derive(Debug)]
pub struct GuardLink {
    stream: UnixStream,
    guard: u32,
}

impl GuardLink {
    /// Takes the link that the guard of this process left, and removes its variable, so that no child inherits
    /// either. `None`: there is no guard, or it is dead already.
    ///
    /// To be called in `main` before any thread exists.
    pub fn from_env() -> Option<GuardLink> {
        let value = spawn::take_env(LINK_VARIABLE)?;
        let (fd, guard) = value.to_str()?.split_once(':')?;
        let guard: u32 = guard.parse().ok()?;
        // A value that came down from somebody else's guard must not make us grab a descriptor.
        let parent = rustix::process::getppid()?.as_raw_nonzero().get();
        if u32::try_from(parent) != Ok(guard) {
            return None;
        }
        let stream = UnixStream::from(spawn::adopt_socket(fd.parse().ok()?)?);
        stream.set_nonblocking(true).ok()?;
        Some(GuardLink { stream, guard })
    }

    /// The pid of the guard.
    pub fn pid(&self) -> u32 {
        self.guard
    }

    /// The bare descriptor: non-blocking, close-on-exec, end of stream when the guard dies.
    pub fn into_fd(self) -> OwnedFd {
        self.stream.into()
    }

    /// Serves the link from a task of the current tokio runtime.
    ///
    /// # Errors
    /// The runtime does not take the descriptor.
    pub fn into_tokio(self) -> io::Result<GuardHandle> {
        let stream = tokio::net::UnixStream::from_std(self.stream)?;
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let (dead, died) = watch::channel(false);
        tokio::spawn(serve_core(stream, asked, dead));
        Ok(GuardHandle {
            guard: self.guard,
            questions,
            died,
        })
    }
}

/// Questions that may wait; whoever asks further waits for room.
const QUESTIONS: usize = 8;

type Question = oneshot::Sender<Vec<ProcessId>>;

/// The core's handle on its guard. Cheap to clone. The link lives as long as one handle does.
#[derive(Clone, Debug)]
pub struct GuardHandle {
    guard: u32,
    questions: mpsc::Sender<Question>,
    died: watch::Receiver<bool>,
}

impl GuardHandle {
    /// The pid of the guard.
    pub fn pid(&self) -> u32 {
        self.guard
    }

    /// The processes that lost their parent below the guard and are alive: leftovers of children, which the
    /// guard would kill at the core's end. Adoption raises no signal, so somebody has to ask.
    ///
    /// # Errors
    /// The guard is dead, or did not answer within two seconds.
    pub async fn orphans(&self) -> io::Result<Vec<ProcessId>> {
        let asked = async {
            let (answer, answered) = oneshot::channel();
            self.questions
                .send(answer)
                .await
                .map_err(|_| guard_is_dead())?;
            answered.await.map_err(|_| guard_is_dead())
        };
        tokio::time::timeout(ANSWER_TIME, asked)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the guard does not answer"))?
    }

    /// Returns once the guard is dead, and at once when it is dead already.
    pub async fn died(&self) {
        // An error means that the task is gone, which it is only after the end of the stream.
        let _ = self.died.clone().wait_for(|dead| *dead).await;
    }

    /// Whether the guard is known to be dead.
    pub fn is_dead(&self) -> bool {
        *self.died.borrow()
    }
}

fn guard_is_dead() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the guard is dead")
}

/// Writes one question at a time and reads its answer, until the stream ends or nobody is left to ask.
async fn serve_core(
    stream: tokio::net::UnixStream,
    mut asked: mpsc::Receiver<Question>,
    dead: watch::Sender<bool>,
) {
    use tokio::io::AsyncWriteExt;
    let (mut read, mut write) = stream.into_split();
    let mut waiting: Option<Question> = None;
    let mut input = Vec::new();
    loop {
        tokio::select! {
            question = asked.recv(), if waiting.is_none() => {
                let Some(question) = question else {
                    return;
                };
                if write.write_all(format!("{ORPHANS}\n").as_bytes()).await.is_err() {
                    break;
                }
                waiting = Some(question);
            }
            more = read_some(&mut read, &mut input) => {
                if !more || input.len() > LONGEST_ANSWER {
                    break;
                }
                while let Some(end) = memchr::memchr(b'\n', &input) {
                    let line: Vec<u8> = input.drain(..=end).collect();
                    // Whoever asked may have given up; the answer is then nobody's, but still the answer to it.
                    if let (Some(question), Some(orphans)) = (waiting.take(), parse_orphans(&line)) {
                        let _ = question.send(orphans);
                    }
                }
            }
        }
    }
    dead.send_replace(true);
}

/// Appends what has arrived. False at the end of the stream. May be cancelled at any point.
async fn read_some(read: &mut tokio::net::unix::OwnedReadHalf, input: &mut Vec<u8>) -> bool {
    use tokio::io::AsyncReadExt;
    let mut chunk = [0_u8; 4096];
    match read.read(&mut chunk).await {
        Ok(count) => {
            input.extend(chunk.iter().take(count));
            count > 0
        }
        Err(_) => false,
    }
}

fn parse_orphans(line: &[u8]) -> Option<Vec<ProcessId>> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    if words.next()? != ORPHANS {
        return None;
    }
    words.map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start_time: 7 }
    }

    #[test]
    fn an_answer_says_what_was_asked() {
        let line = answer(b"orphans\n", || vec![id(12), id(13)]);
        assert_eq!(line, b"orphans 12:7 13:7\n");
        assert_eq!(parse_orphans(&line), Some(vec![id(12), id(13)]));
        assert_eq!(
            parse_orphans(&answer(b"orphans\n", Vec::new)),
            Some(Vec::new())
        );
        let unknown = answer(b"weather today\n", Vec::new);
        assert_eq!(unknown, b"? weather\n");
        assert_eq!(parse_orphans(&unknown), None);
    }

    #[test]
    fn a_core_that_does_not_read_cannot_block_the_guard() {
        let (guard, core) = UnixStream::pair().unwrap();
        guard.set_nonblocking(true).unwrap();
        core.set_nonblocking(true).unwrap();
        let mut end = GuardEnd::new(guard);
        let mut asked = 0;
        // As many questions as fit: the answers (to nobody) fill the other direction, and then the guard stops
        // reading instead of waiting or hoarding.
        while asked < 100_000 && (&core).write(b"orphans\n").is_ok() {
            asked += 1;
            assert!(end.serve(|| (1000..1100).map(id).collect()));
        }
        assert!(asked < 100_000 && end.has_output());
        assert!(end.input.len() <= 2 * LONGEST_QUESTION && end.output.len() < 4096);
    }

    #[test]
    fn nonsense_without_end_closes_the_link() {
        let (guard, core) = UnixStream::pair().unwrap();
        guard.set_nonblocking(true).unwrap();
        let mut end = GuardEnd::new(guard);
        (&core).write_all(&[b'x'; 4 * LONGEST_QUESTION]).unwrap();
        assert!(!end.serve(Vec::new));
    }
}
