//! Whole kinds of the cases that a stream of records can show: repetition, separators, attempts, aborts.

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::interpret::{Fact, RunEnd};
use pi_agents::fleet::live::Live;
use pi_agents::fleet::transcript::{EntryKind, Outcome, Reducer, TranscriptLog};
use pi_agents::pi::event::Parser;

use super::interpret::{ends, facts, of_lines, shape};
use crate::pi::traces::{case, replay, traces};

/// Parts of a stream that only add up: repeated, they are more text, and the end of the message corrects them.
fn is_delta(line: &[u8]) -> bool {
    [
        b"{\"type\":\"message_update\"".as_slice(),
        b"{\"type\":\"tool_execution_update\"",
    ]
    .iter()
    .any(|start| line.starts_with(start))
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes
        .split_inclusive(|b| *b == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .collect()
}

/// What a run ended with, as far as a repetition could change it.
fn results(bytes: &[u8]) -> Vec<RunEnd> {
    let facts = facts(bytes, 65_536);
    ends(&facts).into_iter().cloned().collect()
}

fn starts(facts: &[Fact]) -> usize {
    facts.iter().filter(|f| **f == Fact::RunStarted).count()
}

// B016: whichever record of whichever run comes twice, and all of them
#[test]
fn a_repeated_record_changes_no_run() {
    let mut all = traces();
    all.insert("B016".into(), case("B016"));
    let mut tried = 0;
    for (name, bytes) in all {
        let want = results(&bytes);
        let lines = lines(&bytes);
        let with_double = |double: &dyn Fn(usize) -> bool| -> Vec<u8> {
            let mut out = Vec::new();
            for (at, line) in lines.iter().enumerate() {
                out.extend_from_slice(line);
                if double(at) && !is_delta(line) {
                    out.extend_from_slice(line);
                }
            }
            out
        };
        let all_doubled = with_double(&|_| true);
        assert_eq!(results(&all_doubled), want, "{name}: every record twice");
        assert_eq!(
            starts(&facts(&all_doubled, 4095)),
            starts(&facts(&bytes, 4095)),
            "{name}"
        );
        if bytes.len() > 40_000 {
            continue;
        }
        for (at, line) in lines.iter().enumerate().filter(|(_, l)| !is_delta(l)) {
            let line = String::from_utf8_lossy(line);
            let got = results(&with_double(&|i| i == at));
            assert_eq!(got, want, "{name}: line {at} twice: {line}");
            tried += 1;
        }
    }
    assert!(tried > 1000, "{tried}");
}

/// Tool calls, tokens and entries that a viewer is shown.
fn shown(bytes: &[u8]) -> (u64, u64, u64, Vec<EntryKind>) {
    let mut live = Live::new();
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    replay(bytes, 65_536, |record| {
        if let Ok(record) = record {
            live.feed(&record, 5);
            reducer.feed(&mut log, &record, 5);
        }
    });
    let usage = (live.usage.input, live.usage.output);
    let kinds = log.iter().map(|e| e.kind.clone()).collect();
    (live.tool_uses, usage.0, usage.1, kinds)
}

// B016: what is shown counts once as well
#[test]
fn repeated_records_show_nothing_twice() {
    for (name, bytes) in traces() {
        let doubled: Vec<u8> = lines(&bytes)
            .into_iter()
            .flat_map(|line| line.repeat(if is_delta(line) { 1 } else { 2 }))
            .collect();
        let (tools, input, output, kinds) = shown(&doubled);
        let want = shown(&bytes);
        assert_eq!(
            (tools, input, output),
            (want.0, want.1, want.2),
            "{name}: counts"
        );
        assert_eq!(kinds, want.3, "{name}: entries");
    }
}

// B001: wherever a separator stands in a string, it ends no record
#[test]
fn separators_anywhere_cut_no_record() {
    fn kinds(bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        replay(bytes, 4095, |record| {
            let text = format!("{:?}", record.expect("a record"));
            all.push(text.split(['(', ' ']).next().unwrap().to_owned());
        });
        all
    }
    // Pi writes no space outside strings. Control characters need their escape there.
    let separators = [
        "\u{2028}", "\u{2029}", "\u{85}", "\\u000b", "\\f", "\\u2028",
    ];
    let mut replaced = 0;
    for (name, bytes) in traces() {
        let text = String::from_utf8_lossy(&bytes);
        let want = kinds(text.as_bytes());
        for separator in separators {
            let with: String = text.replace(' ', separator);
            replaced += usize::from(with != *text);
            assert_eq!(kinds(with.as_bytes()), want, "{name} with {separator:?}");
            let with_cr = with.replace('\n', "\r\n");
            assert_eq!(kinds(with_cr.as_bytes()), want, "{name}, CRLF");
        }
    }
    assert!(replaced > 300, "{replaced}");
}

// B007: the text that is shown while it comes in is the text of its end, at every cut
#[test]
fn streamed_text_is_whole_before_its_end_is_said() {
    let bytes = case("B007");
    let whole = lines(&bytes)
        .into_iter()
        .find_map(|line| {
            let value: serde_json::Value = serde_json::from_slice(line).ok()?;
            let event = &value["assistantMessageEvent"];
            (event["type"] == "text_end").then(|| event["content"].as_str().unwrap().to_owned())
        })
        .expect("an end of the text");
    for size in (1..=8).chain([4095, 65_536]) {
        let mut log = TranscriptLog::new();
        let mut reducer = Reducer::new();
        let mut live = Vec::new();
        replay(&bytes, size, |record| {
            reducer.feed(&mut log, &record.unwrap(), 5);
            if let Some(EntryKind::Text { text, done }) = log.iter().last().map(|e| &e.kind) {
                assert!(whole.starts_with(text.as_str()), "chunks of {size}: {text}");
                live.push((text.clone(), *done));
            }
        });
        assert!(
            live.iter().any(|(text, done)| *text == whole && !done),
            "chunks of {size}: whole before its end"
        );
        assert_eq!(live.last().unwrap(), &(whole.clone(), true));
    }
}

fn said(text: &str, stop: &str, error: &str) -> String {
    let error = match error {
        "" => String::new(),
        error => format!(r#","errorMessage":"{error}""#),
    };
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"stopReason":"{stop}"{error}}}}}"#
    )
}

const START: &str = r#"{"type":"agent_start"}"#;
const END: &str = r#"{"type":"agent_end","messages":[],"willRetry":false}"#;
const WILL_RETRY: &str = r#"{"type":"agent_end","messages":[],"willRetry":true}"#;
const PAUSE: &str =
    r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":9,"errorMessage":"529"}"#;
const PAUSE_OVER: &str = r#"{"type":"auto_retry_end","success":true,"attempt":1}"#;
const GAVE_UP: &str =
    r#"{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"529 overloaded"}"#;
const SETTLED: &str = r#"{"type":"agent_settled","aborted":false}"#;
const OLD_SETTLED: &str = r#"{"type":"agent_settled"}"#;
const ABORTED: &str = r#"{"type":"agent_settled","aborted":true}"#;

// B004: whatever comes in the pause, the run ends once, with the text of its last attempt
#[test]
fn a_pause_before_another_attempt_is_no_end() {
    let half = said("half", "error", "529 overloaded");
    let none = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"529 overloaded"}}"#;
    let whole = said("whole", "stop", "");
    let busy = r#"{"id":"state","type":"response","command":"get_state","success":true,"data":{"isStreaming":true,"isCompacting":false}}"#;
    let idle = busy.replace("true,\"isCom", "false,\"isCom");
    let first = [START, &half, WILL_RETRY, PAUSE];
    for (what, rest, shapes, text) in [
        (
            "plain",
            vec![START, &whole, PAUSE_OVER, END, SETTLED],
            "(c",
            "whole",
        ),
        (
            "the state is asked",
            vec![busy, START, &whole, END, SETTLED],
            "(c",
            "whole",
        ),
        // A burst of prompts makes Pi settle what was never begun.
        (
            "a stray settlement",
            vec![SETTLED, START, &whole, END, SETTLED],
            "(xc",
            "whole",
        ),
        (
            "a stray one of an old Pi",
            vec![OLD_SETTLED, START, &whole, END, OLD_SETTLED],
            "(xc",
            "whole",
        ),
        (
            "an end without its own end record",
            vec![SETTLED, &idle],
            "(xf",
            "half",
        ),
        (
            "the next attempt says nothing",
            vec![START, none, PAUSE_OVER, END, SETTLED],
            "(f",
            "",
        ),
        (
            "two pauses",
            vec![START, &half, WILL_RETRY, PAUSE, START, &whole, END, SETTLED],
            "(c",
            "whole",
        ),
        (
            "it gives up",
            vec![START, &half, END, GAVE_UP, SETTLED],
            "(f",
            "half",
        ),
        ("aborted in the pause", vec![GAVE_UP, ABORTED], "(s", "half"),
        ("aborted without a word", vec![ABORTED], "(s", "half"),
        ("it dies in the pause", vec![], "(?", "half"),
    ] {
        let facts = of_lines(&[first.as_slice(), &rest].concat());
        assert_eq!(shape(&facts), shapes, "{what}");
        assert_eq!(ends(&facts)[0].text, text, "{what}");
        assert_eq!(starts(&facts), 1, "{what}");
    }
}

// B025: however an abort is told, the run is no success, and what was said stays
#[test]
fn an_abort_is_never_a_success_however_it_is_told() {
    let part = said("part", "aborted", "");
    let tool = said("part", "toolUse", "");
    let as_error = said("part", "error", "Request was aborted.");
    let empty = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"aborted"}}"#;
    let done = said("part", "stop", "");
    for (what, lines) in [
        ("by both", vec![START, &part, END, ABORTED]),
        ("by the message alone", vec![START, &part, END, SETTLED]),
        (
            "by the message of an old Pi",
            vec![START, &part, END, OLD_SETTLED],
        ),
        (
            "by the settlement, in a tool",
            vec![START, &tool, END, ABORTED],
        ),
        (
            "by the settlement, after the answer",
            vec![START, &done, END, ABORTED],
        ),
        ("as an error", vec![START, &as_error, END, OLD_SETTLED]),
        (
            "by a message without text",
            vec![START, &tool, empty, END, SETTLED],
        ),
        ("twice", vec![START, &part, &part, END, ABORTED, ABORTED]),
    ] {
        let facts = of_lines(&lines);
        assert_eq!(shape(&facts).trim_end_matches('x'), "(s", "{what}");
        let end = ends(&facts)[0];
        assert_eq!(end.text, "part", "{what}");
        let by = StopCause::Child;
        assert_eq!(end.outcome(), Outcome::Stopped { by }, "{what}");
    }
}

fn feed(live: &mut Live, line: &str) {
    live.feed(&Parser::new().parse(line.as_bytes()).unwrap(), 1000);
}

fn ask(id: &str) -> String {
    format!(r#"{{"type":"extension_ui_request","id":"{id}","method":"confirm","title":"T"}}"#)
}

fn open(live: &Live) -> Vec<&str> {
    live.dialogs.iter().map(|d| d.id.as_str()).collect()
}

// B014: what is open stays open until it is answered, wherever it was asked
#[test]
fn a_dialog_outlives_the_run_it_was_not_part_of() {
    let mut live = Live::new();
    // A command asks while nothing runs; then a run comes and goes.
    feed(&mut live, &ask("idle"));
    for line in [START, &ask("run"), END, SETTLED] {
        feed(&mut live, line);
    }
    live.run_ended();
    assert_eq!(open(&live), ["idle", "run"], "both still wait");
    assert!(live.answered("run"));
    // The abort of a run closes its own dialogs and no other.
    for line in [START, &ask("second"), END, ABORTED] {
        feed(&mut live, line);
    }
    assert_eq!(open(&live), ["idle"]);
    // A stray settlement closes nothing, and the run goes on to own what it asks.
    for line in [START, &ask("third"), ABORTED, &ask("fourth"), END, ABORTED] {
        feed(&mut live, line);
    }
    assert_eq!(open(&live), ["idle"]);
    live.process_gone();
    assert_eq!(open(&live), [""; 0], "nobody waits any more");
}

// B014, B016: a repeated request is asked once, also after its answer
#[test]
fn a_repeated_request_is_asked_once() {
    let mut live = Live::new();
    for _ in 0..3 {
        feed(&mut live, &ask("u"));
    }
    assert_eq!(open(&live), ["u"]);
    assert!(live.answered("u"));
    feed(&mut live, &ask("u"));
    assert_eq!(open(&live), [""; 0]);
    // Memory of it is bounded, and belongs to the process.
    live.process_gone();
    feed(&mut live, &ask("u"));
    assert_eq!(open(&live), ["u"]);
}
