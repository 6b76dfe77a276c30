//! Lines out of a byte stream: one message per LF, bounded, whatever the pieces it arrives in.
//!
//! A line that grows past the limit is dropped while it streams by and reported once; the lines
//! behind it are read as usual. Blank lines are skipped. Never holds more than one line and one
//! piece of input.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line in either direction, in bytes, without its LF (design §4).
pub const MAX_LINE: usize = 16 << 20;
/// Bytes asked for at a time.
const PIECE: usize = 64 * 1024;

/// What a stream of bytes holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line without LF.
    Whole(Vec<u8>),
    /// A line longer than the limit ended here; its bytes are gone.
    Oversize {
        /// Its length.
        bytes: u64,
    },
}

/// The splitting alone, without I/O.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    /// Bytes that came in and were not looked at yet; read from `at`.
    input: Vec<u8>,
    at: usize,
    /// The line so far.
    line: Vec<u8>,
    /// Length of the line so far, kept or not.
    length: u64,
}

impl Splitter {
    /// A splitter for lines of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            input: Vec::new(),
            at: 0,
            line: Vec::new(),
            length: 0,
        }
    }

    /// Takes a piece of input. Call [`Self::next_line`] until it says `None` before the next one.
    pub fn push(&mut self, piece: &[u8]) {
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        }
        self.input.extend_from_slice(piece);
    }

    /// The next line of what came in; `None` = more input is needed.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let rest = self.input.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                return None;
            }
            let end = memchr::memchr(b'\n', rest);
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            self.length += part.len() as u64;
            if self.length <= self.limit as u64 {
                self.line.extend_from_slice(part);
            } else {
                // Give the memory back at once: the line is of no use any more.
                self.line = Vec::new();
            }
            self.at += part.len() + usize::from(end.is_some());
            if end.is_none() {
                continue;
            }
            let bytes = std::mem::take(&mut self.length);
            let line = std::mem::take(&mut self.line);
            if bytes > self.limit as u64 {
                return Some(Line::Oversize { bytes });
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(Line::Whole(line));
        }
    }

    /// Bytes of an unfinished line.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.length
    }
}

/// Lines of a reader.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    splitter: Splitter,
    piece: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            splitter: Splitter::new(limit),
            piece: vec![0; PIECE],
        }
    }

    /// The next line; `None` = the other end closed. An unfinished last line is dropped: whoever
    /// wrote it did not finish saying it. Cancel-safe.
    ///
    /// # Errors
    /// What the reader says.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.splitter.next_line() {
                return Ok(Some(line));
            }
            let n = self.reader.read(&mut self.piece).await?;
            if n == 0 {
                return Ok(None);
            }
            self.splitter.push(self.piece.get(..n).unwrap_or_default());
        }
    }
}
