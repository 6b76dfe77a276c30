//! Splits a child's byte stream into lines.
//!
//! Owns: where a line ends (LF only, one CR before it dropped: U+2028 and its kin are data, R-Q-01)
//! and how much of an endless line is kept. Knows nothing of JSON but the first bytes of the records
//! whose bodies nobody wants.
//!
//! Invariant: what comes out does not depend on how the bytes were cut into chunks. Memory held
//! between chunks is at most the limit plus one chunk.

use memchr::memchr;

/// Longest line kept whole, in bytes, unless configured otherwise (R-Q-01).
pub const DEFAULT_LIMIT: usize = 64 * 1024 * 1024;
/// Bytes kept of the beginning of a longer line: enough to tell what it was.
pub const HEAD: usize = 4 * 1024;
/// Bytes kept of the end of a longer line: Pi writes `willRetry`, `stopReason` and usage last.
pub const TAIL: usize = 4 * 1024;
/// Records that repeat what was already said are not kept once they are longer than this.
pub const REPEATED_LIMIT: usize = 256 * 1024;
/// Beginnings of those records.
const REPEATED: [&[u8]; 2] = [br#"{"type":"agent_end","#, br#"{"type":"turn_end","#];

/// One line of the stream, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole line.
    Line(&'a [u8]),
    /// A line too long to keep.
    Oversize {
        /// Its length in bytes.
        bytes: u64,
        /// Its first bytes, at most [`HEAD`].
        head: &'a [u8],
        /// Its last bytes, at most [`TAIL`]; may overlap `head`.
        tail: &'a [u8],
    },
}

/// Turns chunks into lines. One per stream.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Bytes of the unfinished line; the head only once `skipped` began.
    held: Vec<u8>,
    /// Length of the unfinished line when it is too long to keep.
    skipped: Option<u64>,
    /// Last bytes of a line that is being skipped.
    tail: Vec<u8>,
    /// The frame handed out last lay in `held`: drop it on the next call.
    spent: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder that keeps lines of up to `limit` bytes whole.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            held: Vec::new(),
            skipped: None,
            tail: Vec::new(),
            spent: false,
        }
    }

    /// Takes the next bytes of the stream. Frames are read from the result until it has no more;
    /// dropping it early drops the lines that were not read, not the stream.
    pub fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Frames<'a> {
        Frames {
            decoder: self,
            rest: chunk,
        }
    }

    /// The stream ended: the last line, if it had no line end.
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        self.forget_spent();
        if self.held.is_empty() && self.skipped.is_none() {
            return None;
        }
        Some(self.close_held())
    }

    fn forget_spent(&mut self) {
        if self.spent {
            self.spent = false;
            self.skipped = None;
            self.tail.clear();
            self.held.clear();
            // One long line must not pin its memory for the life of the child.
            if self.held.capacity() > 64 * 1024 {
                self.held = Vec::new();
            }
        }
    }

    /// Adds bytes (without LF) to the unfinished line.
    fn hold(&mut self, bytes: &[u8]) {
        if let Some(length) = &mut self.skipped {
            *length += bytes.len() as u64;
            push_tail(&mut self.tail, bytes);
            let more = HEAD.saturating_sub(self.held.len());
            let more = bytes.get(..more).unwrap_or(bytes);
            self.held.extend_from_slice(more);
            return;
        }
        let longer = self.held.len() + bytes.len();
        let limit = if longer > REPEATED_LIMIT && self.is_repeated(bytes) {
            self.limit.min(REPEATED_LIMIT)
        } else {
            self.limit
        };
        if longer <= limit {
            self.held.extend_from_slice(bytes);
            return;
        }
        self.skipped = Some(longer as u64);
        let from = self.held.len().saturating_sub(TAIL);
        self.tail
            .extend_from_slice(self.held.get(from..).unwrap_or_default());
        push_tail(&mut self.tail, bytes);
        if self.held.len() < HEAD {
            let more = HEAD - self.held.len();
            self.held
                .extend_from_slice(bytes.get(..more).unwrap_or(bytes));
        }
        self.held.truncate(HEAD);
        self.held.shrink_to(HEAD);
    }

    fn is_repeated(&self, next: &[u8]) -> bool {
        REPEATED.iter().any(|mark| {
            let have = self.held.len().min(mark.len());
            let (a, b) = mark.split_at(have);
            self.held.starts_with(a) && next.starts_with(b)
        })
    }

    /// The unfinished line is finished.
    fn close_held(&mut self) -> Frame<'_> {
        self.spent = true;
        match self.skipped {
            Some(bytes) => {
                let cr = usize::from(self.tail.last() == Some(&b'\r'));
                let tail = self.tail.get(..self.tail.len() - cr).unwrap_or_default();
                let bytes = bytes - cr as u64;
                let whole = usize::try_from(bytes).unwrap_or(usize::MAX);
                Frame::Oversize {
                    bytes,
                    head: self.held.get(..whole).unwrap_or(&self.held),
                    tail,
                }
            }
            None => Frame::Line(without_cr(&self.held)),
        }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Keeps the last `TAIL` bytes, letting the buffer grow to twice that between moves.
fn push_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let from = bytes.len().saturating_sub(TAIL);
    let bytes = bytes.get(from..).unwrap_or_default();
    let keep = TAIL - bytes.len();
    if tail.len() > keep {
        tail.drain(..tail.len() - keep);
    }
    tail.extend_from_slice(bytes);
}

/// The frames that end in one chunk. Not an `Iterator`: a frame borrows from it until the next
/// call.
#[derive(Debug)]
pub struct Frames<'a> {
    decoder: &'a mut Decoder,
    rest: &'a [u8],
}

impl Frames<'_> {
    /// The next frame; `None` = the chunk is used up.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Frame<'_>> {
        self.decoder.forget_spent();
        let rest = self.rest;
        let Some(end) = memchr(b'\n', rest) else {
            self.rest = &[];
            if !rest.is_empty() {
                self.decoder.hold(rest);
            }
            return None;
        };
        let (line, after) = rest.split_at(end);
        self.rest = after.get(1..).unwrap_or_default();
        let decoder = &mut *self.decoder;
        let fits = line.len() <= decoder.limit
            && (line.len() <= REPEATED_LIMIT || !decoder.is_repeated(line));
        if decoder.held.is_empty() && decoder.skipped.is_none() && fits {
            return Some(Frame::Line(without_cr(line)));
        }
        decoder.hold(line);
        Some(decoder.close_held())
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}
