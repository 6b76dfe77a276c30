//! Facts of the recorded streams.

use pi_agents::fleet::interpret::{Disposition, Fact, Interpreter, ResponseData, RunEnd};
use pi_agents::fleet::transcript::Outcome;
use pi_agents::pi::event::Parser;
use serde_json::Value;

use crate::pi::traces::{case, cases, replay, traces};

pub fn facts(bytes: &[u8], chunk: usize) -> Vec<Fact> {
    let mut interpreter = Interpreter::new();
    let mut out = Vec::new();
    replay(bytes, chunk, |record| {
        if let Ok(record) = record {
            interpreter.feed(&record, 1000, &mut out);
        }
    });
    out.extend(interpreter.process_gone().map(|mut end| {
        end.stop = pi_agents::pi::message::StopReason::Other("process gone".into());
        Fact::RunEnded(end)
    }));
    out
}

pub fn of_lines(lines: &[&str]) -> Vec<Fact> {
    facts(lines.join("\n").as_bytes(), 65_536)
}

pub fn ends(facts: &[Fact]) -> Vec<&RunEnd> {
    let mut all = Vec::new();
    for fact in facts {
        if let Fact::RunEnded(end) = fact {
            all.push(end);
        }
    }
    all
}

fn is_gone(end: &RunEnd) -> bool {
    end.stop == pi_agents::pi::message::StopReason::Other("process gone".into())
}

/// One letter per thing that matters: `(` run started, then how it ended: `c`ompleted, cut at the
/// `l`imit, `f`ailed, `s`topped, `?` process gone; `x` = a stray settlement.
pub fn shape(facts: &[Fact]) -> String {
    let letter = |f: &Fact| match f {
        Fact::RunStarted => Some('('),
        Fact::StraySettled => Some('x'),
        Fact::RunEnded(end) if is_gone(end) => Some('?'),
        Fact::RunEnded(end) => Some(match end.outcome() {
            Outcome::Completed { cut: false } => 'c',
            Outcome::Completed { cut: true } => 'l',
            Outcome::Failed { .. } => 'f',
            Outcome::Stopped { .. } => 's',
        }),
        _ => None,
    };
    facts.iter().filter_map(letter).collect()
}

/// Runs of every recorded stream, read off the streams by hand.
const SHAPES: &str = "
abort_bash_tool (s            abort_during_retry (s         abort_midstream (s(c
abort_with_queue (s(c         bare_followup_idle (c         bare_steer_idle (c
bash_many_updates (c          bash_tool (c                  clear_queue_then_abort (s
compact_manual (c(c(c         compact_overflow (c(c(c       compact_threshold (c(c
emoji_split (c                ext_abort (s                  ext_abort_ignored (s
ext_abort_with_custom_queue (s(c  ext_modes (c              ext_send_from_tool (c
ext_send_hidden (c            ext_send_idle_nextturn (c     ext_send_idle_notrigger (c
ext_send_idle_trigger (c      ext_send_idle_trigger_x3 (c   ext_send_on_start (c
ext_send_race_prompt (c       ext_send_streaming_followUp (c  ext_send_streaming_nextTurn (c
ext_send_streaming_notrigger (c  ext_session_reasons (c     ext_settle_aborted (s
ext_settle_continue (c        ext_settle_continue_noentry (c  ext_settle_error (c
ext_tools (c                  ext_turn_end_continue (c      ext_usermsg_idle (c
ext_usermsg_streaming_noopts (c  extension_command (c       extension_tool_dialog_abort (s
lone_surrogate (c(c           malformed_json (c             midstream_disconnect (c
parallel_tools (c             prompt_abort_burst (c         prompt_at_settle (c(c
prompt_double_steer (xxxc     prompt_followup_running (c    prompt_serial_await_response (c
prompt_steer_idle (c          prompt_steer_running (c       prompt_then_bare_steer_burst (c
provider_401 (f               provider_429_then_ok (c       provider_500_forever (f
resume_after_sigkill (?       resume_session (c             server_down (f
sigkill_during_bash (?        simple_text (c                state_queries (c(c
stdin_close_during_stream (?  stream_ends_no_finish (c      thinking_text (c
u2028 (c
";

// R-LIFE-04, R-DELIV-15
#[test]
fn every_run_of_every_recording_ends_exactly_once() {
    let mut want: Vec<&str> = SHAPES.split_whitespace().collect();
    for (name, bytes) in traces() {
        let got = shape(&facts(&bytes, 65_536));
        match want.iter().position(|w| *w == name) {
            Some(at) => {
                assert_eq!(got, want[at + 1], "{name}");
                want.drain(at..at + 2);
            }
            None => assert_eq!(got, "", "{name}"),
        }
    }
    assert_eq!(want, Vec::<&str>::new(), "recordings that are missing");
}

/// Text and usage of the assistant messages of a recording, read without the code under test.
fn messages(bytes: &[u8]) -> Vec<(String, [u64; 2])> {
    let mut all = Vec::new();
    for line in bytes.split(|b| *b == b'\n') {
        let line = String::from_utf8_lossy(line).replace("\\ud83d end", "\\ufffd end");
        let Ok(v) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if v["type"] == "message_end" && v["message"]["role"] == "assistant" {
            let blocks = v["message"]["content"].as_array().unwrap();
            let text = blocks.iter().filter(|b| b["type"] == "text");
            let text: String = text.map(|b| b["text"].as_str().unwrap()).collect();
            let usage = &v["message"]["usage"];
            let usage = ["input", "output"].map(|k| usage[k].as_u64().unwrap());
            all.push((text, usage));
        }
    }
    all
}

// R-TOOL-13
#[test]
fn a_run_gives_the_text_of_its_last_message_and_the_usage_of_all() {
    let mut seen = 0;
    for (name, bytes) in traces() {
        let facts = facts(&bytes, 65_536);
        let ends: Vec<_> = ends(&facts).into_iter().filter(|e| !is_gone(e)).collect();
        let messages = messages(&bytes);
        let compacts = facts.contains(&Fact::CompactionEnded);
        if let Some(last) = ends.last()
            && !name.starts_with("stdin_close")
        {
            assert_eq!(last.text, messages.last().unwrap().0, "{name}");
            seen += 1;
        }
        let sum = ends
            .iter()
            .fold([0, 0], |[i, o], e| [i + e.usage.input, o + e.usage.output]);
        let want = messages
            .iter()
            .fold([0, 0], |[i, o], (_, u)| [i + u[0], o + u[1]]);
        if !compacts && shape(&facts).chars().all(|c| c != '?') {
            assert_eq!(sum, want, "{name}");
        }
    }
    assert!(seen > 55, "{seen}");
}

// B001, B007: cuts do not matter
#[test]
fn facts_do_not_depend_on_the_chunks() {
    for (name, bytes) in cases() {
        let whole = facts(&bytes, usize::MAX);
        for size in (1..=8).chain([4095]) {
            assert_eq!(facts(&bytes, size), whole, "{name} in chunks of {size}");
        }
    }
}

#[test]
fn cases_end_as_expected() {
    for (number, want, text) in [
        (
            "B001",
            "(c",
            "first\u{2028}second\u{2029}third\u{85}fourth done",
        ),
        ("B003", "(c", "clean answer after chatter"),
        ("B004", "(c", "the real final answer"),
        ("B014", "(c", "guarded work done"),
        ("B016", "(cx", "only once"),
        ("B025", "(s", "partial thou"),
    ] {
        let facts = facts(&case(number), 4095);
        assert_eq!(shape(&facts), want, "{number}");
        assert_eq!(ends(&facts)[0].text, text, "{number}");
    }
}

// B004: nothing that looks like an end before the last settlement
#[test]
fn b004_retries_are_one_run_with_the_text_of_the_last_attempt() {
    let facts = facts(&case("B004"), 65_536);
    let retrying: Vec<_> = facts
        .iter()
        .filter_map(|f| match f {
            Fact::Retrying(r) => Some((r.attempt, r.max, r.delay_ms, r.error.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(
        retrying,
        [
            (1, 3, 2000, "529 overloaded"),
            (2, 3, 500, "connection reset")
        ]
    );
    assert!(matches!(facts.last(), Some(Fact::RunEnded(_))));
}

// B016
#[test]
fn b016_repeated_events_count_once() {
    let facts = facts(&case("B016"), 65_536);
    let users = facts
        .iter()
        .filter(|f| matches!(f, Fact::UserMessage { .. }));
    assert_eq!(users.count(), 1);
    let end = ends(&facts)[0];
    assert_eq!(
        (end.tool_uses, end.usage.input, end.usage.output),
        (1, 100, 20)
    );
}

// R-LIFE-03, R-PI-07
#[test]
fn answers_are_typed_and_keep_their_ids() {
    let all = |name: &str| {
        let facts = facts(&traces()[name], 65_536);
        let answer = |f| match f {
            Fact::Response {
                id,
                command,
                result,
            } => Some((id, command, result)),
            _ => None,
        };
        facts.into_iter().filter_map(answer).collect::<Vec<_>>()
    };
    let dropped = all("clear_queue_then_abort");
    let texts = vec!["queued steer".to_owned(), "queued fu".to_owned()];
    assert!(
        dropped
            .iter()
            .any(|(_, _, r)| *r == Ok(ResponseData::Dropped(texts.clone())))
    );
    let prompts = all("prompt_serial_await_response");
    let dispositions: Vec<_> = prompts
        .iter()
        .filter_map(|(_, _, r)| match r {
            Ok(ResponseData::Disposition(d)) => Some(*d),
            _ => None,
        })
        .collect();
    use Disposition::{Queued, Started};
    assert_eq!(dispositions, [Started, Queued, Queued]);
    let refused = all("compact_manual");
    let error = refused
        .iter()
        .find_map(|(_, c, r)| r.as_ref().err().filter(|_| c == "prompt"));
    assert!(
        error
            .unwrap()
            .starts_with("Cannot submit a prompt while compaction")
    );
    let (_, _, state) = &all("simple_text")[0];
    let Ok(ResponseData::State(state)) = state else {
        panic!("{state:?}")
    };
    assert_eq!(state.model.as_deref(), Some("scripted/s1"));
    assert_eq!(
        (state.context_window, state.streaming, state.pending),
        (128_000, false, 0)
    );
    assert!(state.session_path.as_ref().unwrap().extension().unwrap() == "jsonl");
    let models = all("state_queries")
        .into_iter()
        .find_map(|(id, _, r)| match r {
            Ok(ResponseData::Models(models)) => Some((id, models)),
            _ => None,
        });
    let (id, models) = models.unwrap();
    assert_eq!(id, "m0");
    let ids: Vec<_> = models.iter().map(|m| m.full_id()).collect();
    assert_eq!(ids, ["scripted/s1", "scripted/s2"]);
}

// R-DELIV-11
#[test]
fn consumed_messages_come_in_order() {
    let facts = facts(&traces()["prompt_serial_await_response"], 65_536);
    let text = |f: &Fact| match f {
        Fact::UserMessage { text } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<_> = facts.iter().filter_map(text).collect();
    assert_eq!(texts, ["first", "second", "third"]);
}

const START: &str = r#"{"type":"agent_start"}"#;
const END: &str = r#"{"type":"agent_end","messages":[],"willRetry":false}"#;
const SETTLED: &str = r#"{"type":"agent_settled","aborted":false}"#;
const ANSWER: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"A"}],"stopReason":"stop"}}"#;

// R-LIFE-04: rule F1, case by case
#[test]
fn a_settlement_counts_only_when_nothing_is_open() {
    let compact = r#"{"type":"compaction_start","reason":"threshold"}"#;
    let compacted =
        r#"{"type":"compaction_end","reason":"threshold","aborted":false,"willRetry":false}"#;
    let turn = r#"{"type":"turn_start"}"#;
    let assistant = r#"{"type":"message_start","message":{"role":"assistant","content":[],"stopReason":"pending"}}"#;
    let idle = r#"{"id":"state","type":"response","command":"get_state","success":true,"data":{"isStreaming":false,"isCompacting":false}}"#;
    let busy = r#"{"id":"state","type":"response","command":"get_state","success":true,"data":{"isStreaming":true,"isCompacting":false}}"#;
    let replaced = r#"{"id":"1","type":"response","command":"new_session","success":true,"data":{"cancelled":false}}"#;
    let kept = r#"{"id":"1","type":"response","command":"new_session","success":true,"data":{"cancelled":true}}"#;
    for (lines, want) in [
        (vec![START, ANSWER, END, SETTLED], "(c"),
        (vec![START, SETTLED, ANSWER, END, SETTLED], "(xc"),
        (vec![turn, SETTLED, ANSWER, END, SETTLED], "(xc"),
        (vec![assistant, SETTLED, ANSWER, END, SETTLED], "(xc"),
        (vec![SETTLED], "x"),
        (vec![START, ANSWER, END, SETTLED, SETTLED], "(cx"),
        // A second loop within one run does not split it.
        (
            vec![START, START, ANSWER, END, START, ANSWER, END, SETTLED],
            "(c",
        ),
        // During a compaction it counts at its end, unless something opened again.
        (vec![START, ANSWER, END, compact, SETTLED, compacted], "(c"),
        (
            vec![
                START, ANSWER, END, compact, SETTLED, START, compacted, ANSWER, END, SETTLED,
            ],
            "(c",
        ),
        (
            vec![START, compact, SETTLED, compacted, ANSWER, END, SETTLED],
            "(xc",
        ),
        // What the child says of itself makes good a lost end.
        (vec![START, SETTLED, ANSWER, idle], "(xc"),
        (vec![START, SETTLED, busy, ANSWER, END, SETTLED], "(xc"),
        (
            vec![START, ANSWER, replaced, START, ANSWER, END, SETTLED],
            "(s(c",
        ),
        (vec![START, ANSWER, kept, END, SETTLED], "(c"),
        (vec![START, ANSWER], "(?"),
    ] {
        assert_eq!(shape(&of_lines(&lines)), want, "{lines:#?}");
    }
}

// R-DELIV-15
#[test]
fn outcomes_follow_the_last_message() {
    let run = |fields: &str, settled: &str| {
        let message = format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"T"}}],{fields}}}}}"#
        );
        let facts = of_lines(&[START, &message, END, settled]);
        ends(&facts)[0].outcome()
    };
    let aborted = r#"{"type":"agent_settled","aborted":true}"#;
    let child = pi_agents::fleet::agent::StopCause::Child;
    let stopped = Outcome::Stopped { by: child };
    assert_eq!(
        run(r#""stopReason":"stop""#, SETTLED),
        Outcome::Completed { cut: false }
    );
    assert_eq!(
        run(r#""stopReason":"length""#, SETTLED),
        Outcome::Completed { cut: true }
    );
    assert_eq!(
        run(r#""stopReason":"toolUse""#, SETTLED),
        Outcome::Completed { cut: false }
    );
    assert_eq!(run(r#""stopReason":"aborted""#, SETTLED), stopped);
    assert_eq!(run(r#""stopReason":"stop""#, aborted), stopped);
    assert_eq!(
        run(
            r#""stopReason":"error","errorMessage":"\n 529 overloaded \nmore""#,
            SETTLED
        ),
        Outcome::Failed {
            reason: "529 overloaded".into()
        }
    );
    for text in [
        "This operation was aborted",
        "Request was aborted",
        "Request was aborted.",
    ] {
        let fields = format!(r#""stopReason":"error","errorMessage":"{text}""#);
        assert_eq!(run(&fields, SETTLED), stopped, "F2: {text}");
    }
    assert!(matches!(
        run(r#""stopReason":"error""#, SETTLED),
        Outcome::Failed { .. }
    ));
    assert_eq!(
        run(r#""stopReason":"from_the_future""#, SETTLED),
        Outcome::Completed { cut: false }
    );
    let none = of_lines(&[START, END, SETTLED]);
    assert!(matches!(ends(&none)[0].outcome(), Outcome::Failed { .. }));
    assert!(matches!(
        RunEnd::vanished().outcome(),
        Outcome::Failed { .. }
    ));
}

// R-Q-01: the end of a message that was too long to keep, or lost
#[test]
fn a_lost_message_end_leaves_the_streamed_text() {
    let begin = r#"{"type":"message_start","message":{"role":"assistant","content":[],"stopReason":"pending"}}"#;
    let delta = r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"so far"}}"#;
    let facts = of_lines(&[START, begin, delta, delta, END, SETTLED]);
    assert_eq!(ends(&facts)[0].text, "so farso far");
    assert_eq!(shape(&facts), "(c");

    let mut interpreter = Interpreter::new();
    let mut parser = Parser::new();
    let mut out = Vec::new();
    for line in [START, begin, delta] {
        interpreter.feed(&parser.parse(line.as_bytes()).unwrap(), 0, &mut out);
    }
    let frame = pi_agents::pi::framing::Frame::Oversize {
        bytes: 1 << 30,
        head: br#"{"type":"message_end","message":{"role":"assistant","content":[{"text":"xx"#,
        tail: br#"xx"}],"stopReason":"length"}}"#,
    };
    interpreter.feed(&parser.read(frame).unwrap(), 0, &mut out);
    for line in [END, SETTLED] {
        interpreter.feed(&parser.parse(line.as_bytes()).unwrap(), 0, &mut out);
    }
    assert_eq!(ends(&out)[0].text, "so far");
    assert_eq!(ends(&out)[0].outcome(), Outcome::Completed { cut: true });
}

// R-DELIV-15: the partial text of a run that was aborted in a later, empty message
#[test]
fn an_empty_aborted_message_keeps_what_was_said_before() {
    let empty = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"aborted","timestamp":9}}"#;
    let facts = of_lines(&[START, ANSWER, empty, END, SETTLED]);
    assert_eq!(
        (ends(&facts)[0].text.as_str(), shape(&facts).as_str()),
        ("A", "(s")
    );
}
