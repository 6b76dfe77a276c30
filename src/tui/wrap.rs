//! Wrapping. Owns where a text is broken into screen lines; the result is byte ranges of the
//! text, so that styles and hit tests can be laid over them.
//!
//! Invariants: no line is wider than asked (only a cluster that is wider than the whole width
//! stands alone and is cut by the painter); only blanks at a break are left out; every
//! width comes from [`super::width`].

use std::ops::Range;

use super::text::SafeStr;
use super::width::{clusters, width};

/// How a text is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Between words and between wide characters; longer words anywhere.
    Words,
    /// Anywhere, as a terminal does; nothing is left out.
    Cells,
}

/// Breaks a block into lines of at most `cols` columns. An empty text is one empty line.
#[must_use]
pub fn wrap(text: SafeStr<'_>, cols: usize, mode: Mode) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    wrap_into(text.as_str(), 0, cols, mode, &mut out);
    out
}

/// Number of lines `wrap` would give.
#[must_use]
pub fn height(text: SafeStr<'_>, cols: usize, mode: Mode) -> usize {
    wrap(text, cols, mode).len()
}

fn wrap_into(text: &str, base: usize, cols: usize, mode: Mode, out: &mut Vec<Range<usize>>) {
    let mut start = 0;
    loop {
        let rest = text.get(start..).unwrap_or_default();
        let len = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        hard_line(
            rest.get(..len).unwrap_or_default(),
            base + start,
            cols.max(1),
            mode,
            out,
        );
        start += len + 1;
        if start > text.len() {
            return;
        }
    }
}

fn hard_line(line: &str, base: usize, cols: usize, mode: Mode, out: &mut Vec<Range<usize>>) {
    if line.len() <= cols && line.is_ascii() || width(line) <= cols {
        out.push(base..base + line.len());
        return;
    }
    // `from` = start of the present row, `used` its columns. `gap` = the last place to break:
    // (end of the row, start of the next one, columns before that start).
    let mut from = 0;
    let mut used = 0;
    let mut gap: Option<(usize, usize, usize)> = None;
    let mut word_end = 0;
    let mut last_blank = false;
    let mut last_wide = false;
    for (at, cluster, w) in clusters(line) {
        let blank = mode == Mode::Words && cluster == " ";
        let wide = w >= 2;
        if mode == Mode::Words && at > from && !blank {
            if last_blank && word_end > from {
                gap = Some((word_end, at, used));
            } else if wide || last_wide {
                gap = Some((at, at, used));
            }
        }
        if used + w > cols && at > from {
            if blank && word_end > from {
                // Blanks at a break hang: they end the row and are not drawn.
                last_blank = true;
                last_wide = false;
                used += w;
                continue;
            }
            let (end, next, before) = match gap.take() {
                Some(gap) if mode == Mode::Words => gap,
                _ => (at, at, used),
            };
            out.push(base + from..base + end);
            from = next;
            used -= before;
            // The rest of a long word that moved down may itself be too long: it is not, as it
            // was shorter than the row it came from.
        }
        used += w;
        if !blank {
            word_end = at + cluster.len();
        }
        last_blank = blank;
        last_wide = wide;
    }
    if from < line.len() || from == 0 {
        let end = if mode == Mode::Words && used > cols {
            word_end.max(from)
        } else {
            line.len()
        };
        out.push(base + from..base + end);
    }
}

/// The lines of a text that grows at its end: only what follows the last line break is wrapped
/// again.
#[derive(Clone, Debug)]
pub struct Wrapped {
    cols: usize,
    mode: Mode,
    rows: Vec<Range<usize>>,
    /// Rows and bytes before the last hard line.
    stable: (usize, usize),
    len: usize,
}

impl Wrapped {
    /// Nothing wrapped yet.
    #[must_use]
    pub fn new(cols: usize, mode: Mode) -> Self {
        Self {
            cols,
            mode,
            rows: Vec::new(),
            stable: (0, 0),
            len: 0,
        }
    }

    /// Brings the lines up to date. `text` must begin with what was given before; a shorter one
    /// or another width starts anew.
    pub fn update(&mut self, text: SafeStr<'_>, cols: usize) -> &[Range<usize>] {
        if cols != self.cols || text.as_str().len() < self.len {
            *self = Self::new(cols, self.mode);
        }
        if text.as_str().len() == self.len && !self.rows.is_empty() {
            return &self.rows;
        }
        let (rows, bytes) = self.stable;
        self.rows.truncate(rows);
        let tail = text.as_str().get(bytes..).unwrap_or_default();
        let last = memchr::memrchr(b'\n', tail.as_bytes()).map_or(0, |at| at + 1);
        if last > 0 {
            let done = tail.get(..last - 1).unwrap_or_default();
            wrap_into(done, bytes, cols, self.mode, &mut self.rows);
            self.stable = (self.rows.len(), bytes + last);
        }
        let open = tail.get(last..).unwrap_or_default();
        wrap_into(open, bytes + last, cols, self.mode, &mut self.rows);
        self.len = text.as_str().len();
        &self.rows
    }

    /// The lines of the last update.
    #[must_use]
    pub fn rows(&self) -> &[Range<usize>] {
        &self.rows
    }
}
