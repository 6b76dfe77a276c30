use std::borrow::Cow;

use pi_agents::pi::event::{Change, ParseError, Parser, Record};
use pi_agents::pi::framing::Frame;
use pi_agents::pi::message::{Block, Message, StopReason};
use pi_agents::pi::response::Disposition;
use pi_agents::pi::ui_request::UiMethod;

/// Reads a line and shows the record.
fn shown(line: &[u8]) -> String {
    let mut parser = Parser::new();
    match parser.parse(line) {
        Ok(record) => format!("{record:?}"),
        Err(error) => format!("ERR {error}"),
    }
}

fn error(line: &[u8]) -> ParseError {
    Parser::new()
        .parse(line)
        .map(|r| format!("{r:?}"))
        .unwrap_err()
}

// R-Q-01, B003
#[test]
fn what_is_no_record_is_an_error_with_a_short_text() {
    for blank in ["", " ", "\t\r "] {
        assert_eq!(error(blank.as_bytes()), ParseError::Blank);
    }
    for value in ["null", "42", "\"just a string\"", "[1,2,3]", "true", "-1e3"] {
        assert_eq!(error(value.as_bytes()), ParseError::NotObject(value.into()));
    }
    for broken in [
        "added 265 packages",
        "{ not json at all }",
        "{\"type\":1",
        "[1,",
        "nul",
    ] {
        assert_eq!(error(broken.as_bytes()), ParseError::NotJson(broken.into()));
    }
    assert!(matches!(error(br#"{"id":"x1"}"#), ParseError::NoType(_)));
    assert!(matches!(error(br#"{"type":["a"]}"#), ParseError::NoType(_)));
    assert!(matches!(
        error(br#"{"type":"agent_start""#),
        ParseError::Shape { .. }
    ));
    assert!(matches!(
        error(br#"{"type":"agent_end","messages":[}"#),
        ParseError::Shape { .. }
    ));
    let ParseError::NotJson(text) = error(&[b"\x1b[31m".as_slice(), &[b'x'; 5000]].concat()) else {
        panic!("not the error")
    };
    assert!(
        text.chars().count() <= 121 && !text.contains('\x1b'),
        "{text:?}"
    );
}

#[test]
fn the_type_is_found_wherever_it_stands() {
    let line =
        br#" { "willRetry" : true , "messages":[{"type":"agent_start"}], "type" : "agent_end" } "#;
    assert_eq!(shown(line), "AgentEnd { will_retry: true }");
    assert_eq!(shown(br#"{"type":"agent\u005fstart"}"#), "AgentStart");
    assert_eq!(
        shown(br#"{"type":"novel_thing","x":[1]}"#),
        r#"Unknown { kind: "novel_thing" }"#
    );
}

// R-Q-01: one field of another type does not cost the record
#[test]
fn fields_of_the_wrong_type_read_as_absent() {
    let line = br#"{"type":"message_update","usage":7,"assistantMessageEvent":{"type":"text_end","contentIndex":-3.5,"content":[{"a":1}],"delta":null}}"#;
    let mut parser = Parser::new();
    let Ok(Record::MessageUpdate(update)) = parser.parse(line) else {
        panic!("no update")
    };
    assert_eq!((update.index, update.change), (0, Change::TextEnd(None)));
    assert_eq!(
        shown(br#"{"type":"agent_settled","aborted":"yes"}"#),
        "AgentSettled { aborted: None }"
    );
    assert_eq!(
        shown(br#"{"type":"queue_update","steering":["a",1,null,{"b":2}],"followUp":"x"}"#),
        r#"QueueUpdate(QueueUpdate { steering: ["a", "1"], follow_up: [] })"#
    );
    assert!(
        shown(br#"{"type":"auto_retry_start","attempt":"2","delayMs":1e300,"maxAttempts":[]}"#)
            .contains("attempt: 0, max_attempts: 0, delay_ms: 18446744073709551615")
    );
}

#[test]
fn deltas_borrow_from_the_line() {
    let line = br#"{"type":"message_update","usage":{"cost":{}},"assistantMessageEvent":{"type":"text_delta","contentIndex":2,"delta":"plain"}}"#;
    let mut parser = Parser::new();
    let Ok(Record::MessageUpdate(update)) = parser.parse(line) else {
        panic!("no update")
    };
    assert!(matches!(
        update.change,
        Change::TextDelta(Cow::Borrowed("plain"))
    ));
    assert_eq!(update.index, 2);
}

// R-Q-01
#[test]
fn lone_surrogates_and_bad_utf8_are_replaced_and_nothing_else() {
    let delta = |escape: &str| {
        let line = format!(
            r#"{{"type":"message_update","assistantMessageEvent":{{"type":"text_delta","delta":"{escape}"}}}}"#
        );
        let mut parser = Parser::new();
        match parser.parse(line.as_bytes()) {
            Ok(Record::MessageUpdate(u)) => match u.change {
                Change::TextDelta(text) => text.into_owned(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delta(r"a\ud83d"), "a\u{fffd}");
    assert_eq!(delta(r"\ude00b"), "\u{fffd}b");
    assert_eq!(delta(r"\ud83d\ude00"), "😀");
    assert_eq!(delta(r"\uD83D\uDE00\uDE00"), "😀\u{fffd}");
    assert_eq!(delta(r"\ud83d\ud83d\ude00"), "\u{fffd}😀");
    assert_eq!(delta(r"\\ud83d"), r"\ud83d");
    assert_eq!(delta(r"\\\ud83dx"), "\\\u{fffd}x");
    assert_eq!(delta(r"\ud83d\n"), "\u{fffd}\n");

    let line = b"{\"type\":\"thinking_level_changed\",\"level\":\"a\xff\xfeb\"}";
    assert_eq!(
        shown(line),
        "ThinkingLevelChanged { level: \"a\u{fffd}\u{fffd}b\" }"
    );

    // Also in parts that are handed on as JSON text.
    let line = br#"{"id":"1","type":"response","command":"get_state","success":true,"data":{"sessionName":"lone \ud83d end"}}"#;
    let mut parser = Parser::new();
    let Ok(Record::Response(response)) = parser.parse(line) else {
        panic!("no response")
    };
    assert_eq!(
        response.state().unwrap().session_name.as_deref(),
        Some("lone \u{fffd} end")
    );
}

// R-Q-01: deep nesting
#[test]
fn deep_nesting_neither_overflows_nor_costs_a_record_whose_deep_part_is_skipped() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for (line, want) in [
        (
            format!(r#"{{"type":"agent_end","messages":{deep},"willRetry":true}}"#),
            "AgentEnd",
        ),
        (
            format!(r#"{{"type":"turn_end","message":{deep}}}"#),
            "TurnEnd",
        ),
        (
            format!(r#"{{"type":"from_the_future","x":{deep}}}"#),
            "Unknown",
        ),
        (
            format!(r#"{{"x":{deep},"type":"agent_start"}}"#),
            "AgentStart",
        ),
        (
            format!(
                r#"{{"type":"tool_execution_start","toolCallId":"c","toolName":"t","args":{deep}}}"#
            ),
            "ToolStart",
        ),
        (
            format!(
                r#"{{"type":"tool_execution_end","toolCallId":"c","result":{{"details":{deep},"content":{deep}}}}}"#
            ),
            "ToolEnd",
        ),
        (
            format!(r#"{{"type":"message_end","message":{{"role":"user","content":{deep}}}}}"#),
            "MessageEnd",
        ),
        (deep.clone(), "ERR not a record"),
    ] {
        let got = shown(line.as_bytes());
        assert!(got.starts_with(want), "{}", &got[..got.len().min(200)]);
    }
}

#[test]
fn content_may_be_text_blocks_or_nonsense() {
    let user = |content: &str| {
        let line = format!(
            r#"{{"type":"message_start","message":{{"role":"user","content":{content}}}}}"#
        );
        let mut parser = Parser::new();
        match parser.parse(line.as_bytes()) {
            Ok(Record::MessageStart(Message::User { content, .. })) => {
                (content.text.into_owned(), content.images)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(user(r#""go""#), ("go".into(), 0));
    assert_eq!(
        user(
            r#"[{"type":"text","text":"a"},{"type":"image","data":"…"},{"type":"hologram"},{"text":"b","type":"text"}]"#
        ),
        ("ab".into(), 1)
    );
    assert_eq!(user("null"), (String::new(), 0));
    assert_eq!(user("42"), (String::new(), 0));
    assert_eq!(user(r#"{"content":"inner"}"#), ("inner".into(), 0));
}

// R-TOOL-13, R-DELIV-15
#[test]
fn an_assistant_message_gives_its_text_and_how_it_ended() {
    let line = br#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"A"},{"type":"toolCall","id":"c","name":"bash","arguments":{"command":"ls"}},{"type":"text","text":"B"},{"type":"novel"}],"provider":"p","model":"m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"total":0.5}},"stopReason":"error","errorMessage":"This operation was aborted"}}"#;
    let mut parser = Parser::new();
    let Ok(Record::MessageEnd(Message::Assistant(message))) = parser.parse(line) else {
        panic!("no message")
    };
    assert_eq!(message.text(), "AB");
    assert_eq!(message.stop, StopReason::Error);
    assert!(
        message.is_aborted(),
        "F2: an abort inside a tool reported as an error"
    );
    assert_eq!(
        (message.usage.context_tokens(), message.usage.cost.total),
        (10, 0.5)
    );
    assert!(
        matches!(&message.blocks[2], Block::ToolCall(call) if call.args == r#"{"command":"ls"}"#)
    );
    assert_eq!(message.blocks.len(), 5);
}

// R-Q-01: an oversize record still tells what decides over a run
#[test]
fn a_record_too_long_to_keep_is_read_from_its_ends() {
    let read = |head: &str, tail: &str| {
        let mut parser = Parser::new();
        let frame = Frame::Oversize {
            bytes: 99,
            head: head.as_bytes(),
            tail: tail.as_bytes(),
        };
        parser.read(frame).map(|r| format!("{r:?}"))
    };
    assert_eq!(
        read(
            r#"{"type":"agent_end","messages":[{"#,
            r#"…}],"willRetry":true}"#
        )
        .unwrap(),
        "AgentEnd { will_retry: true }"
    );
    assert_eq!(
        read(
            r#"{"type":"agent_end","messages":[{"#,
            r#" \"willRetry\":true}"}],"willRetry":false}"#
        )
        .unwrap(),
        "AgentEnd { will_retry: false }"
    );
    let end = read(
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"aaa"#,
        r#"aaa \"stopReason\":\"stop\" "}],"usage":{},"stopReason":"error","errorMessage":"a \"b\"","rawStopReason":"x"}}"#,
    )
    .unwrap();
    assert!(
        end.contains("stop: Error") && end.contains(r#"Some("a \"b\"")"#),
        "{end}"
    );
    assert!(end.contains("whole: false"), "{end}");
    let tool = read(
        r#"{"type":"tool_execution_end","toolCallId":"c9","toolName":"read","result":{"content":[{"text":"x"#,
        r#"x"}]},"isError":true,"durationMs":3}"#,
    )
    .unwrap();
    assert!(
        tool.contains(r#"call_id: "c9""#) && tool.contains("is_error: true"),
        "{tool}"
    );
    assert_eq!(
        read(r#"{"type":"message_start","message":{"#, "}}"),
        Err(ParseError::TooLong {
            kind: "message_start".into(),
            bytes: 99
        })
    );
    assert!(read("xxxx", "yyyy").is_err());
}

// R-LIFE-03, R-PI-07
#[test]
fn responses_carry_typed_data() {
    let mut parser = Parser::new();
    let mut read = |line: &str| match parser.parse(line.as_bytes()) {
        Ok(Record::Response(r)) => {
            let dropped = r.dropped();
            let id = r.id.as_deref().map(str::to_owned);
            (
                id,
                r.command.to_string(),
                r.success,
                r.disposition(),
                dropped,
                r.error.as_deref().map(str::to_owned),
            )
        }
        other => panic!("{other:?}"),
    };
    for (word, want) in [
        ("started", Disposition::Started),
        ("queued", Disposition::Queued),
        ("handled", Disposition::Handled),
        ("pondered", Disposition::Missing),
    ] {
        let line = format!(
            r#"{{"id":"1","type":"response","command":"prompt","success":true,"data":{{"disposition":"{word}"}}}}"#
        );
        assert_eq!(read(&line).3, want);
    }
    let bare = read(r#"{"id":7,"type":"response","command":"abort","success":true}"#);
    assert_eq!(
        (bare.0.as_deref(), bare.2, bare.3),
        (Some("7"), true, Disposition::Missing)
    );
    let queue = read(
        r#"{"id":"3","type":"response","command":"clear_queue","success":true,"data":{"steering":["a","b"],"followUp":["c"]}}"#,
    );
    assert_eq!(queue.4, ["a", "b", "c"]);
    let odd = read(
        r#"{"id":"x1","type":"response","success":false,"error":"Unknown command: undefined"}"#,
    );
    assert_eq!(
        (odd.1.as_str(), odd.2, odd.5.as_deref()),
        ("", false, Some("Unknown command: undefined"))
    );
    let parse = read(
        r#"{"type":"response","command":"parse","success":false,"error":"Failed to parse command: x"}"#,
    );
    assert_eq!(parse.0, None);
}

// B014
#[test]
fn every_dialog_method_is_told_apart() {
    let mut parser = Parser::new();
    let mut waits = |line: &str| match parser.parse(line.as_bytes()) {
        Ok(Record::UiRequest(r)) => (r.method.waits(), r.timeout_ms),
        other => panic!("{other:?}"),
    };
    let ask = |method: &str| {
        format!(r#"{{"type":"extension_ui_request","id":"u","method":"{method}","timeout":400}}"#)
    };
    for method in ["select", "confirm", "input", "editor"] {
        assert_eq!(waits(&ask(method)), (true, Some(400)), "{method}");
    }
    for method in [
        "notify",
        "setStatus",
        "setWidget",
        "setTitle",
        "set_editor_text",
        "holographicDialog",
    ] {
        assert!(!waits(&ask(method)).0, "{method}");
    }
    let line =
        br#"{"type":"extension_ui_request","id":"u","method":"holographicDialog","title":"T"}"#;
    let Ok(Record::UiRequest(request)) = parser.parse(line) else {
        panic!("no request")
    };
    assert_eq!(
        request.method,
        UiMethod::Other {
            method: "holographicDialog".into(),
            title: "T".into()
        }
    );
}
