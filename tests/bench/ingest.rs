//! What it costs to take in a child's stream: nanoseconds of one core per byte, beside the floor
//! (finding the lines) and the naive way (a `Value` per line). Budget: 2.5 ns/byte into the
//! transcript (R-Q-04).
//!
//! Pi's own `RpcClient` is measured in the same run where the tests have installed Pi.
//!
//! `cargo bench --bench ingest` measures about 50 MB; `-- --smoke` a small stream, and fails when
//! the whole way into the transcript costs more than building a `Value` of each line.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod peers;

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use pi_agents::fleet::interpret::Interpreter;
use pi_agents::fleet::live::Live;
use pi_agents::fleet::transcript::{Reducer, TranscriptLog};
use pi_agents::pi::event::{Parser, Record};
use pi_agents::pi::framing::Decoder;
use serde_json::{Value, json};

/// What one read of a pipe gives at most.
const CHUNK: usize = 128 * 1024;
/// Text a core keeps per agent.
const KEPT: usize = 1024 * 1024;

/// Takes in a stream; the result keeps the work from being optimised away.
type Consumer = fn(&[u8]) -> u64;

fn main() -> ExitCode {
    let smoke = std::env::args().any(|arg| arg == "--smoke");
    let stream = generate(if smoke { 4_000_000 } else { 50_000_000 });
    let rounds = if smoke { 3 } else { 7 };
    let lines = stream.iter().filter(|b| **b == b'\n').count();
    println!(
        "{} bytes, {lines} records, median of {rounds}",
        stream.len()
    );

    let consumers: [(&str, Consumer); 6] = [
        ("find the lines", split),
        ("decoder", decode),
        ("typed parse", parse),
        ("into the transcript", reduce),
        ("with facts and live row", everything),
        ("serde_json::Value", value),
    ];
    // In turns, so that a busy moment of the machine does not hit one of them alone.
    let mut times = vec![Vec::new(); consumers.len()];
    for _ in 0..rounds {
        for (times, (_, consume)) in times.iter_mut().zip(&consumers) {
            let began = Instant::now();
            black_box(consume(black_box(&stream)));
            times.push(began.elapsed().as_secs_f64() * 1e9 / stream.len() as f64);
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|all| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        })
        .collect();
    for ((name, _), (ns, all)) in consumers.iter().zip(medians.iter().zip(&times)) {
        let (min, max) = (all[0], all[all.len() - 1]);
        println!("{name:<26} {ns:>6.2} ns/byte  ({min:.2}–{max:.2})");
    }
    if !smoke {
        match peers::rpc_client(&stream) {
            Ok(ns) => println!(
                "{:<26} {ns:>6.2} ns/byte  ({:.1} × ours into the transcript)",
                "Pi's RpcClient",
                ns / medians[3]
            ),
            Err(why) => println!("{:<26} not measured: {why}", "Pi's RpcClient"),
        }
    }
    let (ours, naive) = (medians[3], medians[5]);
    if ours > naive {
        println!("FAILED: into the transcript is slower than a Value of each line");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn split(stream: &[u8]) -> u64 {
    let mut count = 0;
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', stream) {
        count += black_box(&stream[from..end]).len() as u64;
        from = end + 1;
    }
    count
}

fn decode(stream: &[u8]) -> u64 {
    let mut decoder = Decoder::default();
    let mut count = 0;
    for chunk in stream.chunks(CHUNK) {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next() {
            black_box(frame);
            count += 1;
        }
    }
    count
}

/// Every record of the stream, and the end of every chunk.
fn each<T>(
    stream: &[u8],
    to: &mut T,
    mut record: impl FnMut(&mut T, &Record),
    chunk_done: fn(&mut T),
) {
    let mut decoder = Decoder::default();
    let mut parser = Parser::new();
    for chunk in stream.chunks(CHUNK) {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next() {
            record(to, &parser.read(frame).unwrap());
        }
        drop(frames);
        chunk_done(to);
    }
}

fn parse(stream: &[u8]) -> u64 {
    let mut count = 0;
    let count_one = |count: &mut u64, record: &Record| {
        black_box(record);
        *count += 1;
    };
    each(stream, &mut count, count_one, |_| {});
    count
}

fn reduce(stream: &[u8]) -> u64 {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let record = |log: &mut TranscriptLog, record: &Record| reducer.feed(log, record, 1);
    each(stream, &mut log, record, |log| {
        log.evict(KEPT, 100);
    });
    log.next_seq()
}

fn everything(stream: &[u8]) -> u64 {
    let mut log = TranscriptLog::new();
    let mut reducer = Reducer::new();
    let mut interpreter = Interpreter::new();
    let mut live = Live::new();
    let mut facts = Vec::new();
    let record = |log: &mut TranscriptLog, record: &Record| {
        interpreter.feed(record, 1, &mut facts);
        live.feed(record, 1);
        reducer.feed(log, record, 1);
    };
    each(stream, &mut log, record, |log| {
        log.evict(KEPT, 100);
    });
    log.next_seq() + facts.len() as u64
}

fn value(stream: &[u8]) -> u64 {
    let mut count = 0;
    for line in stream.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        black_box(serde_json::from_slice::<Value>(line).unwrap());
        count += 1;
    }
    count
}

/// A stream of the shape of recorded ones: per turn an answer of 300 deltas, one bash call of 12
/// argument deltas, 25 growing outputs of 0.3 to 4 KB, its end, its result, the end of the turn.
fn generate(bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 17] = [
        "the",
        "fleet",
        "agent",
        "reads",
        "file",
        "src/main.rs",
        "and",
        "edits",
        "line",
        "42",
        "—",
        "résumé",
        "😀",
        "`code`",
        "\"quoted\"",
        "path\\to",
        "tab\t",
    ];
    const COMMAND: &str = "cargo test --workspace -- --nocapture 2>&1 | tail -n 200";
    let mut out = String::with_capacity(bytes + 200_000);
    let mut random = 7_u64;
    let mut word = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        WORDS[(random >> 33) as usize % WORDS.len()]
    };
    let text_of = |text: &str| serde_json::to_string(text).unwrap();
    out.push_str("{\"type\":\"agent_start\"}\n");
    for k in 0.. {
        if out.len() >= bytes {
            break;
        }
        let usage = format!(
            r#"{{"input":{},"output":20,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":{},"cost":{{"input":0.00303,"output":0.0003,"cacheRead":0,"cacheWrite":0,"total":0.00333,"totalFromProvider":false}}}}"#,
            1000 + k,
            1020 + k
        );
        let update = |out: &mut String, event: &str| {
            writeln!(
                out,
                r#"{{"type":"message_update","usage":{usage},"assistantMessageEvent":{event}}}"#
            )
            .unwrap();
        };
        let message = |content: &str, stop: &str| {
            format!(
                r#"{{"role":"assistant","content":{content},"api":"openai-completions","provider":"scripted","model":"s1","usage":{usage},"stopReason":"{stop}","timestamp":{}}}"#,
                1_796_040_000_000_u64 + k
            )
        };
        writeln!(out, r#"{{"type":"turn_start"}}"#).unwrap();
        writeln!(
            out,
            r#"{{"type":"message_start","message":{}}}"#,
            message("[]", "pending")
        )
        .unwrap();
        update(&mut out, r#"{"type":"text_start","contentIndex":0}"#);
        let mut text = String::new();
        for i in 0..300 {
            let delta = format!("{}{}", word(), if i % 12 == 0 { "\n" } else { " " });
            text.push_str(&delta);
            update(
                &mut out,
                &format!(
                    r#"{{"type":"text_delta","contentIndex":0,"delta":{}}}"#,
                    text_of(&delta)
                ),
            );
        }
        let quoted = text_of(&text);
        update(
            &mut out,
            &format!(r#"{{"type":"text_end","contentIndex":0,"content":{quoted}}}"#),
        );
        update(
            &mut out,
            &format!(
                r#"{{"type":"toolcall_start","contentIndex":1,"id":"call_{k}","toolName":"bash"}}"#
            ),
        );
        for at in (0..COMMAND.len()).step_by(5) {
            let piece = text_of(&COMMAND[at..COMMAND.len().min(at + 5)]);
            update(
                &mut out,
                &format!(r#"{{"type":"toolcall_delta","contentIndex":1,"delta":{piece}}}"#),
            );
        }
        let call = json!({"type": "toolCall", "id": format!("call_{k}"), "name": "bash", "arguments": {"command": COMMAND}});
        update(
            &mut out,
            &format!(r#"{{"type":"toolcall_end","contentIndex":1,"toolCall":{call}}}"#),
        );
        let whole = message(
            &format!(r#"[{{"type":"text","text":{quoted}}},{call}]"#),
            "toolUse",
        );
        writeln!(out, r#"{{"type":"message_end","message":{whole}}}"#).unwrap();
        let head = format!(r#""toolCallId":"call_{k}","toolName":"bash""#);
        let args = format!(r#""args":{{"command":{}}}"#, text_of(COMMAND));
        writeln!(out, r#"{{"type":"tool_execution_start",{head},{args}}}"#).unwrap();
        let mut output = String::new();
        for i in 0..25 {
            for j in 0..4 {
                writeln!(output, "test module::case_{k}_{i}_{j} ... ok").unwrap();
            }
            let output = text_of(&output);
            writeln!(out, r#"{{"type":"tool_execution_update",{head},{args},"partialResult":{{"content":[{{"type":"text","text":{output}}}]}}}}"#).unwrap();
        }
        let output = text_of(&output);
        let content = format!(r#""content":[{{"type":"text","text":{output}}}]"#);
        writeln!(out, r#"{{"type":"tool_execution_end",{head},"result":{{{content},"structuredContent":{{"output":{output},"truncated":false,"exit_code":0}}}},"isError":false,"durationMs":814}}"#).unwrap();
        let result = format!(
            r#"{{"role":"toolResult",{head},{content},"isError":false,"timestamp":{}}}"#,
            1_796_040_000_000_u64 + k
        );
        writeln!(out, r#"{{"type":"message_start","message":{result}}}"#).unwrap();
        writeln!(out, r#"{{"type":"message_end","message":{result}}}"#).unwrap();
        writeln!(
            out,
            r#"{{"type":"turn_end","message":{whole},"toolResults":[{result}]}}"#
        )
        .unwrap();
    }
    out.push_str("{\"type\":\"agent_end\",\"messages\":[],\"willRetry\":false}\n");
    out.push_str("{\"type\":\"agent_settled\",\"aborted\":false}\n");
    out.into_bytes()
}
