//! Transcripts of recorded streams.

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::transcript::{
    Entry, EntryKind, Level, MAX_ARGS, MAX_OUTPUT, Outcome, Reducer, ToolEntry, ToolState,
    TranscriptLog,
};
use pi_agents::pi::event::Parser;
use pi_agents::pi::framing::Frame;
use serde_json::Value;

use crate::pi::traces::{case, cases, replay, traces};

fn reduce(bytes: &[u8], chunk: usize) -> TranscriptLog {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let mut at = 0;
    replay(bytes, chunk, |record| {
        at += 10;
        if let Ok(record) = record {
            reducer.feed(&mut log, &record, at);
        }
    });
    log
}

fn entries(log: &TranscriptLog) -> Vec<Entry> {
    log.iter().cloned().collect()
}

fn of_lines(lines: &[&str]) -> TranscriptLog {
    reduce(lines.join("\n").as_bytes(), 65_536)
}

fn tools(log: &TranscriptLog) -> Vec<&ToolEntry> {
    let mut all = Vec::new();
    for entry in log.iter() {
        if let EntryKind::Tool(tool) = &entry.kind {
            all.push(tool);
        }
    }
    all
}

fn notices(log: &TranscriptLog) -> Vec<(Level, &str)> {
    let mut all = Vec::new();
    for entry in log.iter() {
        if let EntryKind::Notice { level, text } = &entry.kind {
            all.push((*level, text.as_str()));
        }
    }
    all
}

fn texts(log: &TranscriptLog) -> Vec<&str> {
    let mut all = Vec::new();
    for entry in log.iter() {
        if let EntryKind::Text { text, .. } = &entry.kind {
            all.push(text.as_str());
        }
    }
    all
}

/// What a stream says in its complete messages, read without the code under test.
#[derive(Debug, Default, PartialEq)]
struct Said {
    users: Vec<String>,
    texts: Vec<String>,
    thoughts: Vec<String>,
    custom: Vec<String>,
    calls: Vec<(String, String)>,
    outputs: Vec<(String, String, bool)>,
}

fn text_of(content: &Value) -> String {
    match content {
        Value::Array(blocks) => blocks.iter().filter_map(|b| b["text"].as_str()).collect(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    }
}

fn said(bytes: &[u8]) -> Said {
    let mut said = Said::default();
    for line in bytes.split(|b| *b == b'\n') {
        let line = String::from_utf8_lossy(line).replace("\\ud83d end", "\\ufffd end");
        let line = line.replace("lone \\ud83d", "lone \\ufffd");
        let Ok(v) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let message = &v["message"];
        match (
            v["type"].as_str().unwrap_or(""),
            message["role"].as_str().unwrap_or(""),
        ) {
            ("message_end", "user") => said.users.push(text_of(&message["content"])),
            ("message_end", "custom") if message["display"] != false => {
                said.custom.push(text_of(&message["content"]));
            }
            ("entry_appended", _) => {
                let entry = &v["entry"];
                if entry["type"] == "custom_message" && entry["display"] != false {
                    said.custom.push(text_of(&entry["content"]));
                }
            }
            ("message_end", "assistant") => {
                for block in message["content"].as_array().unwrap() {
                    let own = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                    match block["type"].as_str().unwrap() {
                        "text" if block["text"] != "" => said.texts.push(own("text")),
                        "thinking" => said.thoughts.push(own("thinking")),
                        "toolCall" => said.calls.push((own("id"), own("name"))),
                        _ => {}
                    }
                }
            }
            ("tool_execution_end", _) => {
                let result = &v["result"];
                let text = text_of(if result.is_string() {
                    result
                } else {
                    &result["content"]
                });
                let id = v["toolCallId"].as_str().unwrap().to_owned();
                said.outputs.push((id, text, v["isError"] == true));
            }
            _ => {}
        }
    }
    said.outputs.sort();
    said
}

fn shown(log: &TranscriptLog) -> Said {
    let mut said = Said::default();
    for entry in log.iter() {
        match &entry.kind {
            EntryKind::User { text, .. } => said.users.push(text.clone()),
            EntryKind::Text { text, done } => {
                assert!(done, "open text {text:?}");
                said.texts.push(text.clone());
            }
            EntryKind::Thinking { text, done } => {
                assert!(done, "open thinking {text:?}");
                said.thoughts.push(text.clone());
            }
            EntryKind::Custom { text, .. } => said.custom.push(text.clone()),
            EntryKind::Tool(tool) => {
                said.calls.push((tool.call_id.clone(), tool.name.clone()));
                if matches!(tool.state, ToolState::Done | ToolState::Failed) {
                    let failed = tool.state == ToolState::Failed;
                    said.outputs
                        .push((tool.call_id.clone(), tool.output.clone(), failed));
                }
            }
            EntryKind::Notice { .. } | EntryKind::RunEnd { .. } => {}
        }
    }
    said.outputs.sort();
    said
}

#[test]
fn every_recording_is_shown_as_it_was_said() {
    let mut seen = 0;
    for (name, bytes) in traces() {
        // Streams cut off in the middle of a message have no complete messages to compare with.
        if name.starts_with("stdin_close_during") {
            continue;
        }
        let log = reduce(&bytes, 65_536);
        pretty_assertions::assert_eq!(shown(&log), said(&bytes), "{name}");
        seen += usize::from(!log.is_empty());
        for tool in tools(&log) {
            assert!(
                serde_json::from_str::<Value>(&tool.args).is_ok(),
                "{name}: {}",
                tool.args
            );
        }
        let seqs: Vec<u64> = log.iter().map(|e| e.seq).collect();
        assert_eq!(seqs, (0..log.next_seq()).collect::<Vec<_>>(), "{name}");
    }
    assert!(seen > 55, "{seen}");
}

// B001, B007
#[test]
fn transcripts_do_not_depend_on_the_chunks() {
    let mut all = cases();
    for name in ["u2028", "emoji_split", "lone_surrogate", "parallel_tools"] {
        all.insert(name.into(), traces().remove(name).unwrap());
    }
    for (name, bytes) in all {
        let whole = reduce(&bytes, usize::MAX);
        for size in (1..=8).chain([4095]) {
            assert!(reduce(&bytes, size) == whole, "{name} in chunks of {size}");
        }
    }
}

#[test]
fn b001_separators_stay_in_the_text() {
    let log = reduce(&case("B001"), 65_536);
    let text = "first\u{2028}second\u{2029}third\u{85}fourth done";
    assert_eq!(texts(&log), [text]);
    assert_eq!(
        tools(&log)[0]
            .output
            .chars()
            .filter(|c| !c.is_ascii())
            .count(),
        2
    );
}

#[test]
fn b007_no_replacement_characters() {
    let bytes = case("B007");
    let want = said(&bytes).texts;
    for size in (1..=8).chain([4095, 65_536]) {
        let log = reduce(&bytes, size);
        assert_eq!(texts(&log), want);
        assert!(!texts(&log)[0].contains('\u{fffd}'));
    }
}

#[test]
fn b004_failed_attempts_stay_and_the_retries_are_told() {
    let log = reduce(&case("B004"), 65_536);
    assert_eq!(texts(&log), ["half an answer", "the real final answer"]);
    assert_eq!(
        notices(&log),
        [
            (Level::Warning, "retrying 1/3 in 2s: 529 overloaded"),
            (Level::Warning, "retrying 2/3 in 1s: connection reset"),
        ]
    );
}

#[test]
fn b014_notifications_and_unknown_methods_are_told() {
    let log = reduce(&case("B014"), 65_536);
    assert_eq!(
        notices(&log),
        [
            (Level::Warning, "guard finished"),
            (
                Level::Warning,
                "an extension asks in an unknown way: holographicDialog method from the future"
            ),
        ]
    );
}

#[test]
fn b016_repeated_events_change_nothing() {
    let log = reduce(&case("B016"), 65_536);
    let kinds: Vec<_> = entries(&log).into_iter().map(|e| e.kind).collect();
    assert!(matches!(&kinds[0], EntryKind::User { text, .. } if text == "go"));
    assert!(
        matches!(&kinds[1], EntryKind::Tool(t) if t.state == ToolState::Done && t.output == "ok" && t.took_ms == Some(12))
    );
    assert!(matches!(&kinds[2], EntryKind::Text { text, done: true } if text == "only once"));
    assert_eq!(kinds.len(), 3, "{kinds:#?}");
}

#[test]
fn b025_the_partial_text_of_an_aborted_turn_stays() {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    replay(&case("B025"), 65_536, |r| {
        reducer.feed(&mut log, &r.unwrap(), 5)
    });
    reducer.run_ended(
        &mut log,
        Outcome::Stopped {
            by: StopCause::Child,
        },
        1234,
        120,
        0,
        6,
    );
    assert_eq!(texts(&log), ["partial thou"]);
    assert_eq!(notices(&log), [], "an abort is no provider error");
    assert!(matches!(
        log.iter().last().unwrap().kind,
        EntryKind::RunEnd {
            outcome: Outcome::Stopped {
                by: StopCause::Child
            },
            took_ms: 1234,
            tokens: 120,
            tool_uses: 0
        }
    ));
}

#[test]
fn b043_tabs_are_kept_for_the_screen_to_expand() {
    let log = reduce(&case("B043"), 65_536);
    assert!(tools(&log)[0].output.starts_with("   780\t#[test]\n"));
    assert!(texts(&log)[0].contains("12345678\tstop at 16"));
}

#[test]
fn a_bash_call_goes_through_its_states() {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let mut states = Vec::new();
    let mut at = 0;
    replay(&traces()["bash_many_updates"], 65_536, |record| {
        at += 10;
        reducer.feed(&mut log, &record.unwrap(), at);
        if let Some(tool) = tools(&log).first() {
            let now = (tool.state, !tool.args.is_empty(), tool.output.is_empty());
            if states.last() != Some(&now) {
                states.push(now);
            }
        }
    });
    use ToolState::{Done, Preparing, Running};
    assert_eq!(
        states,
        [
            (Preparing, false, true),
            (Preparing, true, true),
            (Running, true, true),
            (Running, true, false),
            (Done, true, false),
        ]
    );
    let tool = tools(&log)[0];
    assert!(tool.started_ms.is_some() && tool.took_ms.is_some());
}

#[test]
fn aborts_retries_and_compactions_of_recordings() {
    let of = |name: &str| reduce(&traces()[name], 65_536);
    let aborted = of("abort_bash_tool");
    let tool = tools(&aborted)[0].clone();
    assert_eq!(tool.state, ToolState::Failed);
    assert!(tool.output.ends_with("Command aborted"));
    assert_eq!(notices(&aborted), []);
    assert_eq!(
        notices(&of("provider_401")),
        [],
        "the end of the run says it"
    );
    let failed = of("provider_500_forever");
    let lines: Vec<_> = notices(&failed)
        .iter()
        .map(|(_, t)| t.split(':').next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "retrying 1/3 in 1s",
            "retrying 2/3 in 1s",
            "retrying 3/3 in 1s",
            "gave up after 3 retries"
        ]
    );
    let broken = of("midstream_disconnect");
    assert_eq!(texts(&broken).len(), 2, "the partial text stays");
    let overflow = of("compact_overflow");
    let lines: Vec<_> = notices(&overflow).into_iter().collect();
    assert!(
        lines[0].0 == Level::Error && lines[0].1.starts_with("provider: "),
        "{lines:?}"
    );
    assert!(lines[1].1.starts_with("context compacted: "), "{lines:?}");
    assert_eq!(lines.len(), 2);
    let manual = of("compact_manual");
    assert_eq!(notices(&manual).len(), 1);
    let thrown = of("ext_settle_continue_noentry");
    assert!(
        notices(&thrown)[0]
            .1
            .starts_with("extension <boundary> failed in agent_before_settle: ")
    );
}

const BEGIN: &str = r#"{"type":"message_start","message":{"role":"assistant","content":[],"stopReason":"pending","timestamp":1}}"#;

fn delta(kind: &str, index: u32, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        r#"{{"type":"message_update","assistantMessageEvent":{{"type":"{kind}","contentIndex":{index},"delta":{text}}}}}"#
    )
}

fn end(content: &str) -> String {
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":{content},"stopReason":"stop","timestamp":1}}}}"#
    )
}

#[test]
fn several_blocks_can_be_open_at_once() {
    let log = of_lines(&[
        BEGIN,
        &delta("thinking_delta", 0, "hm"),
        &delta("text_delta", 1, "A"),
        &delta("thinking_delta", 0, "m"),
        &delta("text_delta", 2, "C"),
        &delta("text_delta", 1, "B"),
        &end(
            r#"[{"type":"thinking","thinking":"hmm"},{"type":"text","text":"AB"},{"type":"text","text":"C"}]"#,
        ),
    ]);
    let kinds: Vec<_> = entries(&log).into_iter().map(|e| e.kind).collect();
    let text = |text: &str| EntryKind::Text {
        text: text.into(),
        done: true,
    };
    assert_eq!(
        kinds,
        [
            EntryKind::Thinking {
                text: "hmm".into(),
                done: true
            },
            text("AB"),
            text("C")
        ]
    );
}

#[test]
fn the_end_of_a_message_repairs_what_was_streamed() {
    // A delta was lost, another block never streamed.
    let whole = end(
        r#"[{"type":"text","text":"one two"},{"type":"text","text":"three"},{"type":"toolCall","id":"c","name":"ls","arguments":{"path":"."}}]"#,
    );
    let log = of_lines(&[BEGIN, &delta("text_delta", 0, "one"), &whole, &whole]);
    assert_eq!(texts(&log), ["one two", "three"]);
    assert_eq!(tools(&log).len(), 1);
    assert_eq!(
        (tools(&log)[0].name.as_str(), tools(&log)[0].args.as_str()),
        ("ls", r#"{"path":"."}"#)
    );
}

// R-Q-01
#[test]
fn an_oversize_end_leaves_the_streamed_text() {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let mut parser = Parser::new();
    for line in [BEGIN, &delta("text_delta", 0, "streamed")] {
        reducer.feed(&mut log, &parser.parse(line.as_bytes()).unwrap(), 0);
    }
    let frame = Frame::Oversize {
        bytes: 1 << 30,
        head: br#"{"type":"message_end","message":{"role":"assistant","content":["#,
        tail: br#""}],"stopReason":"stop"}}"#,
    };
    reducer.feed(&mut log, &parser.read(frame).unwrap(), 0);
    assert_eq!(
        entries(&log)[0].kind,
        EntryKind::Text {
            text: "streamed".into(),
            done: true
        }
    );
}

#[test]
fn what_a_run_leaves_open_is_lost() {
    let start = r#"{"type":"tool_execution_start","toolCallId":"c1","toolName":"bash","args":{"command":"sleep 9"}}"#;
    let update = r#"{"type":"tool_execution_update","toolCallId":"c1","toolName":"bash","partialResult":{"content":[{"type":"text","text":"so far"}]}}"#;
    let late = r#"{"type":"tool_execution_end","toolCallId":"c1","toolName":"bash","result":{"content":[{"type":"text","text":"late"}]},"isError":false}"#;
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let mut parser = Parser::new();
    for line in [start, update, BEGIN, &delta("text_delta", 0, "half")] {
        reducer.feed(&mut log, &parser.parse(line.as_bytes()).unwrap(), 0);
    }
    reducer.run_ended(
        &mut log,
        Outcome::Failed {
            reason: "gone".into(),
        },
        0,
        0,
        1,
        9,
    );
    let tool = tools(&log)[0].clone();
    assert_eq!(
        (tool.state, tool.output.as_str()),
        (ToolState::Lost, "so far")
    );
    assert!(matches!(
        entries(&log)[1].kind,
        EntryKind::Text { done: true, .. }
    ));
    let before = entries(&log);
    reducer.feed(&mut log, &parser.parse(late.as_bytes()).unwrap(), 10);
    assert_eq!(
        entries(&log)[..before.len()],
        before,
        "what has ended stays as it is"
    );
}

#[test]
fn a_call_id_used_again_is_another_call() {
    let call = |id: &str| {
        format!(
            r#"{{"type":"message_update","assistantMessageEvent":{{"type":"toolcall_start","contentIndex":0,"id":"{id}","toolName":"bash"}}}}"#
        )
    };
    let start = r#"{"type":"tool_execution_start","toolCallId":"c0","toolName":"bash","args":{"command":"a"}}"#;
    let done = |text: &str| {
        format!(
            r#"{{"type":"tool_execution_end","toolCallId":"c0","toolName":"bash","result":{{"content":[{{"type":"text","text":"{text}"}}]}},"isError":false}}"#
        )
    };
    let whole = end(r#"[{"type":"toolCall","id":"c0","name":"bash","arguments":{"command":"a"}}]"#);
    let log = of_lines(&[
        BEGIN,
        &call("c0"),
        &call("c0"),
        &whole,
        start,
        &done("one"),
        BEGIN,
        &call("c0"),
        &whole,
        start,
        &done("two"),
        &done("three"),
    ]);
    let outputs: Vec<_> = tools(&log).iter().map(|t| t.output.as_str()).collect();
    assert_eq!(outputs, ["one", "two"]);
}

#[test]
fn outputs_keep_their_tail_and_arguments_their_head() {
    let lines: String = (0..20_000).map(|i| format!("line {i} ä\\n")).collect();
    let long = "x".repeat(3 * MAX_ARGS);
    let start = format!(
        r#"{{"type":"tool_execution_start","toolCallId":"c","toolName":"w","args":{{"content":"{long}"}}}}"#
    );
    let update = format!(
        r#"{{"type":"tool_execution_update","toolCallId":"c","toolName":"w","partialResult":{{"content":[{{"type":"text","text":"{lines}"}}]}}}}"#
    );
    let log = of_lines(&[&start, &update]);
    let tool = tools(&log)[0];
    assert!(tool.args.len() <= MAX_ARGS + 4 && tool.args.ends_with('…'));
    assert!(tool.output.len() <= MAX_OUTPUT && tool.output.len() > MAX_OUTPUT - 100);
    assert!(tool.output.starts_with("line ") && tool.output.ends_with("line 19999 ä\n"));
    let shown = tool.output.lines().count() as u64;
    assert_eq!(tool.hidden_lines + shown, 20_000);

    // One endless line of wide characters is cut between two of them.
    let wide = format!(
        r#"{{"type":"tool_execution_update","toolCallId":"c","toolName":"w","partialResult":{{"content":[{{"type":"text","text":"y{}"}}]}}}}"#,
        "合".repeat(MAX_OUTPUT)
    );
    let log = of_lines(&[&start, &wide]);
    let tool = tools(&log)[0];
    assert!(tool.output.len() <= MAX_OUTPUT && tool.output.starts_with('合'));
    assert_eq!(tool.hidden_lines, 0);
}

#[test]
fn hidden_custom_messages_and_the_system_prompt_are_not_shown() {
    let custom = |display: &str| {
        format!(
            r#"{{"type":"message_start","message":{{"role":"custom","customType":"t","content":"m","display":{display}}}}}"#
        )
    };
    let system = r#"{"type":"message_start","message":{"role":"system","content":"","sections":{"preamble":"You"},"toolsAdded":[{"name":"x"}]}}"#;
    let log = of_lines(&[&custom("false"), &custom("true"), system]);
    let kinds: Vec<_> = entries(&log).into_iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds,
        [EntryKind::Custom {
            custom_type: "t".into(),
            text: "m".into()
        }]
    );
}
