//! The file as a person, or another version, finds it.

use std::path::Path;

use super::history::{record, settled};
use super::{HOST, found, open, try_open, written};

/// CRC-32 by its definition, written apart from ours.
fn crc(bytes: &[u8]) -> String {
    let mut crc = !0_u32;
    for byte in bytes {
        for bit in 0..8 {
            let carry = (crc ^ u32::from(byte >> bit)) & 1;
            crc = (crc >> 1) ^ if carry == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    format!("{:08x}", !crc)
}

fn header(version: u32, host: &str) -> String {
    let mut summed = b"pi-agents".to_vec();
    summed.extend(version.to_le_bytes());
    summed.extend(host.as_bytes());
    let sum = crc(&summed);
    format!(r#"{{"journal":"pi-agents","version":{version},"host":"{host}","sum":"{sum}"}}"#) + "\n"
}

fn line(host: &str, json: &str) -> String {
    let sum = crc(&[host.as_bytes(), &[0], json.as_bytes()].concat());
    format!(r#"{{"len":{},"sum":"{sum}","record":{json}}}"#, json.len()) + "\n"
}

fn path(dir: &Path) -> std::path::PathBuf {
    dir.join(format!("{HOST}.jsonl"))
}

#[test]
fn the_file_is_what_the_document_says() {
    // R-DELIV-05
    let dir = super::temp();
    let dir = dir.path().join("journals");
    written(&dir, &[1, 2, 3, 4, 13, 14, 15].map(record));
    let text = std::fs::read_to_string(path(&dir)).unwrap();
    let max = "0192f0c1-2b3c-7d4e-8f50-61728394a5b6";
    let opened = |run: u64, rest: &str| {
        format!(
            r#"{{"record":"opened","run":{{"id":"{max}:{run}","agent":"max","session_path":"/s/max.jsonl"}},"foreground":{rest}}}"#
        )
    };
    let settled = |run: u64, result: &str| {
        format!(
            r#"{{"record":"settled","completion":{{"id":"{max}:{run}","agent":"max","status":"completed","result":"{result}","session_path":"/s/max.jsonl","idle":true}}}}"#
        )
    };
    let records = [
        opened(0, "false"),
        settled(0, ""),
        format!(r#"{{"record":"ended","id":"{max}:0","how":"acked"}}"#),
        opened(1, "true"),
        opened(4, r#"false,"quiet":true"#),
        settled(4, &r#"Result.\n\"é\" "#.repeat(4 * 31 % 97)),
        r#"{"record":"asked","question":{"id":"00000000-0000-0000-0000-000000000005","agent":"zoe","question":"Archived tables, too?"}}"#.to_owned(),
    ];
    let lines: String = records.iter().map(|json| line(HOST, json)).collect();
    assert_eq!(text, header(1, HOST) + &lines);
    let document = include_str!("../../../docs/journal.md");
    for word in [
        "opened",
        "settled",
        "asked",
        "ended",
        "foreground",
        "quiet",
        "len",
        "sum",
    ] {
        assert!(document.contains(&format!("`{word}`")), "{word}");
    }
    for text in [header(1, HOST), line(HOST, &records[2])] {
        assert!(document.contains(text.trim_end()), "the example {text}");
    }
}

#[test]
fn a_file_of_another_session_is_refused_and_left_alone() {
    // R-DELIV-05: never to another session
    let dir = super::temp();
    let text = header(1, "another")
        + &line(
            "another",
            r#"{"record":"ended","id":"00000000-0000-0000-0000-000000000005","how":"acked"}"#,
        );
    std::fs::create_dir_all(dir.path()).unwrap();
    std::fs::write(path(dir.path()), &text).unwrap();
    let error = try_open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("another session") && error.contains("move it away"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), text);
}

#[test]
fn records_of_another_session_are_not_ours_whatever_the_header_says() {
    // R-DELIV-05: never to another session
    let dir = super::temp();
    let foreign = serde_json::to_string(&settled(7, "secret of another")).unwrap();
    let own = serde_json::to_string(&settled(8, "ours")).unwrap();
    let text = header(1, HOST) + &line("another", &foreign) + &line(HOST, &own);
    std::fs::write(path(dir.path()), text).unwrap();
    assert_eq!(found(dir.path()), [settled(8, "ours")]);
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    // R-DELIV-05
    let dir = super::temp();
    let text = header(2, HOST) + "who knows\n";
    std::fs::write(path(dir.path()), &text).unwrap();
    let error = try_open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("newer pi-agents (journal version 2)"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(path(dir.path())).unwrap(), text);
}

#[test]
fn fields_of_a_later_edition_are_passed_over() {
    // fields are only ever added
    let dir = super::temp();
    let mut value = serde_json::to_value(settled(1, "x")).unwrap();
    value["completion"]["shoe_size"] = 43.into();
    value["more"] = "x".into();
    let text = header(1, HOST) + &line(HOST, &value.to_string());
    std::fs::write(path(dir.path()), text).unwrap();
    assert_eq!(found(dir.path()), [settled(1, "x")]);
}

#[test]
fn a_file_that_is_no_journal_is_kept_aside() {
    // nothing of it is lost
    for text in [
        "my diary\n",
        "{}\n",
        "\0\0\0\0",
        "{\"len\":",
        "{\"len\":99999999999999999999,",
    ] {
        let dir = super::temp();
        std::fs::write(path(dir.path()), text).unwrap();
        let mut opened = open(dir.path());
        assert_eq!(opened.failed, None);
        assert!(opened.records.is_empty());
        let note = opened.note.clone().unwrap();
        assert!(note.contains("is not a journal"), "{note}");
        let aside = dir.path().join(format!("{HOST}.damaged"));
        assert!(note.contains(&aside.display().to_string()), "{note}");
        assert_eq!(std::fs::read_to_string(aside).unwrap(), text);
        super::append(&mut opened, 1, record(1));
        opened.journal.close(opened.events);
        assert_eq!(found(dir.path()), [record(1)]);
    }
}
