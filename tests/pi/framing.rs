use pi_agents::pi::framing::{Decoder, Frame, HEAD, REPEATED_LIMIT, TAIL};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
enum Got {
    Line(Vec<u8>),
    Oversize(u64, Vec<u8>, Vec<u8>),
}

fn own(frame: Frame) -> Got {
    match frame {
        Frame::Line(line) => Got::Line(line.to_vec()),
        Frame::Oversize { bytes, head, tail } => Got::Oversize(bytes, head.to_vec(), tail.to_vec()),
    }
}

fn decode(limit: usize, chunks: &[&[u8]]) -> Vec<Got> {
    let mut decoder = Decoder::new(limit);
    let mut got = Vec::new();
    for chunk in chunks {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next() {
            got.push(own(frame));
        }
    }
    got.extend(decoder.finish().map(own));
    assert!(decoder.finish().is_none(), "the end comes once");
    got
}

fn by(limit: usize, bytes: &[u8], size: usize) -> Vec<Got> {
    decode(limit, &bytes.chunks(size).collect::<Vec<_>>())
}

fn lines(all: &[&str]) -> Vec<Got> {
    all.iter()
        .map(|l| Got::Line(l.as_bytes().to_vec()))
        .collect()
}

// R-Q-01: LF only; B001
#[test]
fn only_lf_ends_a_line_and_one_cr_goes() {
    let bytes = "a\u{2028}b\u{2029}c\u{85}d\u{b}\u{c}\r\n\n\r\r\nlast\rone";
    let want = lines(&[
        "a\u{2028}b\u{2029}c\u{85}d\u{b}\u{c}",
        "",
        "\r",
        "last\rone",
    ]);
    for size in 1..40 {
        assert_eq!(by(1000, bytes.as_bytes(), size), want, "chunks of {size}");
    }
}

#[test]
fn a_line_within_one_chunk_is_lent_from_it() {
    let chunk = b"one\ntwo\n".as_slice();
    let mut decoder = Decoder::default();
    let mut frames = decoder.feed(chunk);
    let Some(Frame::Line(line)) = frames.next() else {
        panic!("no line")
    };
    assert!(chunk.as_ptr_range().contains(&line.as_ptr()), "copied");
}

// R-Q-01: bounded, resumes behind it
#[test]
fn an_endless_line_keeps_its_ends_and_the_next_one_is_whole() {
    let long: Vec<u8> = (0..30_000_u32).map(|i| b'a' + (i % 26) as u8).collect();
    let mut bytes = b"before\n".to_vec();
    bytes.extend_from_slice(&long);
    bytes.extend_from_slice(b"\r\nafter\n");
    let want = vec![
        Got::Line(b"before".to_vec()),
        Got::Oversize(
            30_000,
            long[..HEAD].to_vec(),
            long[30_000 - TAIL + 1..].to_vec(),
        ),
        Got::Line(b"after".to_vec()),
    ];
    for size in [1, 7, 4095, 8192, 100_000] {
        assert_eq!(by(20_000, &bytes, size), want, "chunks of {size}");
    }
    let unfinished = by(20_000, &bytes[..25_007], 999);
    assert!(
        matches!(&unfinished[1], Got::Oversize(25_000, _, _)),
        "{unfinished:?}"
    );
}

// R-Q-01: bodies of agent_end and turn_end skipped
#[test]
fn long_records_that_only_repeat_are_not_kept() {
    for (kind, kept) in [
        ("agent_end", false),
        ("turn_end", false),
        ("message_end", true),
    ] {
        let mut line = format!(r#"{{"type":"{kind}","messages":["#);
        line.push_str(&"1,".repeat(REPEATED_LIMIT));
        line.push_str(r#"1],"willRetry":true}"#);
        line.push('\n');
        for size in [1000, 65_536, 10_000_000] {
            let got = by(usize::MAX, line.as_bytes(), size);
            assert_eq!(got.len(), 1);
            assert_eq!(matches!(&got[0], Got::Line(_)), kept, "{kind} {size}");
            if let Got::Oversize(bytes, head, tail) = &got[0] {
                assert_eq!(*bytes as usize, line.len() - 1);
                assert!(
                    head.starts_with(br#"{"type":"#) && tail.ends_with(br#""willRetry":true}"#)
                );
            }
        }
    }
}

#[test]
fn lines_not_asked_for_are_dropped_and_the_stream_goes_on() {
    let mut decoder = Decoder::new(100);
    drop(decoder.feed(b"one\ntwo\nthr"));
    let mut frames = decoder.feed(b"ee\n");
    assert_eq!(frames.next().map(own), Some(Got::Line(b"three".to_vec())));
}

proptest! {
    // Whatever the cuts, the lines are those of the whole.
    #[test]
    fn cuts_do_not_matter(
        lines in prop::collection::vec("[a-c\r]{0,12}", 0..12),
        sizes in prop::collection::vec(1usize..9, 1..20),
        limit in 1usize..12,
    ) {
        let bytes = lines.join("\n").into_bytes();
        let whole = by(limit, &bytes, bytes.len().max(1));
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        let mut i = 0;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(sizes[i % sizes.len()].min(rest.len()));
            chunks.push(chunk);
            rest = after;
            i += 1;
        }
        prop_assert_eq!(decode(limit, &chunks), whole);
    }
}
