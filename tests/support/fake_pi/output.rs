//! Writing: whole records, in one piece or in small ones, and stderr.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::log;
use crate::wire;

/// Stdout without a buffer between. One writer at a time.
pub(crate) struct Output {
    file: Mutex<File>,
    chunk: usize,
}

impl Output {
    /// `chunk` bytes per write, 0 for all at once.
    pub(crate) fn new(chunk: usize) -> Self {
        let own = std::io::stdout().as_fd().try_clone_to_owned();
        Self {
            file: Mutex::new(own.expect("stdout is open").into()),
            chunk,
        }
    }

    /// A record.
    pub(crate) fn record(&self, record: &Value) {
        self.raw(wire::line(record).as_bytes());
    }

    /// Bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let size = if self.chunk == 0 {
            bytes.len().max(1)
        } else {
            self.chunk
        };
        for part in bytes.chunks(size) {
            if let Err(error) = file.write_all(part) {
                eprintln!("Error: write {error}");
                log::end("stdout is gone", 1);
                std::process::exit(1);
            }
        }
    }

    /// The other end sees the end of the stream, although this process goes on.
    pub(crate) fn close(&self) {
        let null = File::options().write(true).open("/dev/null");
        let null = null.expect("/dev/null can be opened");
        let _ = rustix::stdio::dup2_stdout(&null);
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = null;
    }
}

/// So many bytes to stderr, in lines.
pub(crate) fn complain(bytes: usize) {
    let mut text: Vec<u8> = Vec::with_capacity(bytes);
    while text.len() < bytes {
        let end = if text.len() % 80 == 79 { b'\n' } else { b'e' };
        text.push(end);
    }
    let _ = std::io::stderr().write_all(&text);
}
