//! Every recorded stream is read without loss, whatever the chunk size.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pi_agents::pi::event::{Parser, Record};
use pi_agents::pi::framing::Decoder;

/// Recorded streams of the real Pi, by name.
pub fn traces() -> BTreeMap<String, Vec<u8>> {
    folder("pi-traces")
}

/// Streams that have broken programs like this one, by name.
pub fn cases() -> BTreeMap<String, Vec<u8>> {
    folder("cases")
}

fn folder(name: &str) -> BTreeMap<String, Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let mut all = BTreeMap::new();
    for file in fs::read_dir(path).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains(".rpc.") || name.ends_with(".jsonl") && !name.contains(".session.") {
            let name = name.split('.').next().unwrap().to_owned();
            all.insert(name, fs::read(&path).unwrap());
        }
    }
    all
}

/// One case, by its number.
pub fn case(number: &str) -> Vec<u8> {
    let found = cases()
        .into_iter()
        .find(|(name, _)| name.starts_with(number));
    found.unwrap_or_else(|| panic!("no case {number}")).1
}

/// Runs a stream, cut into chunks, through decoder and parser.
pub fn replay(bytes: &[u8], chunk: usize, mut each: impl FnMut(Result<Record, String>)) {
    let mut decoder = Decoder::default();
    let mut parser = Parser::new();
    for chunk in bytes.chunks(chunk) {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next() {
            each(parser.read(frame).map_err(|e| e.to_string()));
        }
    }
    if let Some(frame) = decoder.finish() {
        each(parser.read(frame).map_err(|e| e.to_string()));
    }
}

fn all(bytes: &[u8], chunk: usize) -> Vec<String> {
    let mut got = Vec::new();
    replay(bytes, chunk, |r| got.push(format!("{r:?}")));
    got
}

#[test]
fn every_recorded_line_is_a_known_record() {
    let traces = traces();
    assert!(traces.len() > 70, "{}", traces.len());
    let mut kinds = BTreeMap::<String, usize>::new();
    for (name, bytes) in &traces {
        replay(bytes, 65_536, |record| {
            let record = record.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                !matches!(record, Record::Unknown { .. }),
                "{name}: {record:?}"
            );
            let text = format!("{record:?}");
            let kind = text.split(['(', ' ']).next().unwrap().to_owned();
            *kinds.entry(kind).or_default() += 1;
        });
    }
    // Every family of the wire format occurs in them but the unknown one.
    for kind in [
        "Response",
        "AgentStart",
        "TurnStart",
        "TurnEnd",
        "AgentEnd",
        "AgentSettled",
        "MessageStart",
        "MessageUpdate",
        "MessageEnd",
        "ToolStart",
        "ToolUpdate",
        "ToolEnd",
        "QueueUpdate",
        "AutoRetryStart",
        "AutoRetryEnd",
        "EntryAppended",
        "CompactionStart",
        "CompactionEnd",
        "SessionInfoChanged",
        "ThinkingLevelChanged",
        "BashExecutionUpdate",
        "ExtensionError",
        "UiRequest",
    ] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
}

// B001, B007: the cuts of the pipe do not matter
#[test]
fn chunk_sizes_do_not_matter() {
    let mut streams = cases();
    for name in [
        "u2028",
        "lone_surrogate",
        "emoji_split",
        "simple_text",
        "malformed_json",
    ] {
        streams.insert(name.into(), traces().remove(name).unwrap());
    }
    for (name, bytes) in streams {
        let whole = all(&bytes, usize::MAX);
        for size in (1..=8).chain([4095]) {
            assert_eq!(all(&bytes, size), whole, "{name} in chunks of {size}");
        }
    }
}

// B001
#[test]
fn b001_fourteen_records_and_no_error() {
    let got = all(&case("B001"), 65_536);
    let (unknown, known): (Vec<_>, Vec<_>) = got.iter().partition(|r| r.contains("Unknown"));
    assert_eq!((unknown.len(), known.len()), (1, 14), "{got:#?}");
    assert!(got.iter().all(|r| r.starts_with("Ok")));
}

// B003
#[test]
fn b003_chatter_is_told_from_records() {
    let got = all(&case("B003"), 65_536);
    let wrong = got.iter().filter(|r| r.starts_with("Err")).count();
    assert_eq!(wrong, 9, "{got:#?}");
    assert!(got.iter().any(|r| r.contains("clean answer after chatter")));
}
