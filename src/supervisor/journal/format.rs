//! The text of a journal: lines of JSON that prove themselves. No files here. For people: `docs/journal.md`.
//!
//! Every record carries its length and a checksum over the host's id and its own bytes: a record of another host, or
//! one with a flipped bit, is recognised by itself, whatever happened to the rest of the file.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fleet::outbox::JournalRecord;

/// Version of the format. The header line keeps its form for ever; all else may change with the version.
pub const VERSION: u32 = 1;

/// What the header calls the file.
const NAME: &str = "pi-agents";

/// How every record begins. Quotes inside a record's texts are escaped, so this stands nowhere else.
const BEGIN: &[u8] = b"{\"len\":";

/// A longer record is not one of ours.
const MAX_RECORD: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Header {
    journal: String,
    version: u32,
    host: String,
    #[serde(default)]
    sum: String,
}

#[derive(Serialize)]
struct Line<'a> {
    len: usize,
    sum: String,
    record: &'a RawValue,
}

/// The first line, with its end.
pub(super) fn header(host: &str) -> Vec<u8> {
    let mut header = Header {
        journal: NAME.to_owned(),
        version: VERSION,
        host: host.to_owned(),
        sum: String::new(),
    };
    header.sum = header_sum(&header);
    line(&header)
}

fn header_sum(header: &Header) -> String {
    sum(&[
        header.journal.as_bytes(),
        &header.version.to_le_bytes(),
        header.host.as_bytes(),
    ])
}

/// One record as a line, with its end.
pub(super) fn encode(host: &str, record: &JournalRecord) -> Vec<u8> {
    // Texts, numbers and paths that have a form of their own: nothing here can fail.
    let Ok(record) = serde_json::value::to_raw_value(record) else {
        return Vec::new();
    };
    line(&Line {
        len: record.get().len(),
        sum: record_sum(host, record.get().as_bytes()),
        record: &record,
    })
}

fn record_sum(host: &str, record: &[u8]) -> String {
    sum(&[host.as_bytes(), &[0], record])
}

fn line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// What a file is.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A journal of this host.
    Ours(Found),
    /// The journal of another one.
    Foreign(String),
    /// Written by a newer version of the program.
    Newer(u32),
    /// Something else.
    Unknown,
}

/// What a journal holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Every record that proves itself, in order.
    pub(super) records: Vec<JournalRecord>,
    /// The file ends in the middle of something: the mark of a crash, nothing more.
    pub(super) torn: bool,
    /// Something in the midst of it cannot be read; records around it are good.
    pub(super) damaged: bool,
}

/// Reads a whole file.
pub(super) fn parse(bytes: &[u8], host: &str) -> Parsed {
    let mut found = Found::default();
    let rest = match read_header(bytes) {
        Some((header, rest)) => {
            if header.version > VERSION {
                return Parsed::Newer(header.version);
            }
            if header.host != host {
                return Parsed::Foreign(header.host);
            }
            rest
        }
        None if self::header(host).starts_with(bytes) => {
            found.torn = !bytes.is_empty();
            return Parsed::Ours(found);
        }
        None => {
            found.damaged = true;
            bytes
        }
    };
    read_records(rest, host, &mut found);
    if found.damaged && found.records.is_empty() && rest.len() == bytes.len() {
        return Parsed::Unknown;
    }
    Parsed::Ours(found)
}

/// A whole header that proves itself, and what follows it.
fn read_header(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let (line, rest) = bytes.split_at_checked(end + 1)?;
    let header: Header = serde_json::from_slice(line).ok()?;
    (header.journal == NAME && header.sum == header_sum(&header)).then_some((header, rest))
}

fn read_records(bytes: &[u8], host: &str, found: &mut Found) {
    let mut rest = bytes;
    let mut bad = false;
    while !rest.is_empty() {
        if let Some((record, after)) = read_record(rest, host) {
            found.records.push(record);
            found.damaged |= std::mem::take(&mut bad);
            rest = match after.split_first() {
                Some((b'\n', after)) => after,
                Some(_) => {
                    bad = true;
                    after
                }
                None => {
                    found.torn = true;
                    after
                }
            };
            continue;
        }
        bad = true;
        // What follows may be good: from the next place that looks like a beginning.
        let next = rest
            .split_first()
            .and_then(|(_, after)| memchr::memmem::find(after, BEGIN))
            .and_then(|at| rest.split_at_checked(at + 1));
        rest = next.map_or(&[], |(_, from)| from);
    }
    found.torn |= bad;
}

/// The record at the start of these bytes, if it proves itself, and what follows it but for the line end.
fn read_record<'a>(bytes: &'a [u8], host: &str) -> Option<(JournalRecord, &'a [u8])> {
    let rest = bytes.strip_prefix(BEGIN)?;
    let digits = rest
        .iter()
        .take(9)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let (len, rest) = rest.split_at_checked(digits)?;
    let len: usize = std::str::from_utf8(len).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(b",\"sum\":\"")?;
    let (sum, rest) = rest.split_at_checked(8)?;
    let rest = rest.strip_prefix(b"\",\"record\":")?;
    if len > MAX_RECORD {
        return None;
    }
    let (record, rest) = rest.split_at_checked(len)?;
    if record_sum(host, record).as_bytes() != sum {
        return None;
    }
    let after = rest.strip_prefix(b"}").unwrap_or(rest);
    Some((serde_json::from_slice(record).ok()?, after))
}

/// CRC-32 (the one of zip and Ethernet) of these bytes one after another, in hexadecimal.
fn sum(parts: &[&[u8]]) -> String {
    let mut crc = u32::MAX;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    format!("{:08x}", !crc)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_common_one() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(super::sum(&[b"12345", b"6789"]), "cbf43926");
    }
}
