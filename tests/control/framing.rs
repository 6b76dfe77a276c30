//! Lines out of bytes, in whatever pieces they come. R-Q-01, R-Q-02.

use pi_agents::control::framing::{Line, LineReader, Splitter};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

const LIMIT: usize = 40;

fn split(pieces: &[&[u8]]) -> (Vec<Line>, u64) {
    let mut splitter = Splitter::new(LIMIT);
    let mut lines = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            lines.push(line);
        }
    }
    (lines, splitter.unfinished())
}

/// What the bytes say, worked out the simple way.
fn expected(bytes: &[u8]) -> Vec<Line> {
    let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    lines.pop();
    lines
        .into_iter()
        .filter(|line| line.len() > LIMIT || !line.iter().all(u8::is_ascii_whitespace))
        .map(|line| {
            if line.len() > LIMIT {
                Line::Oversize {
                    bytes: line.len() as u64,
                }
            } else {
                Line::Whole(line.to_vec())
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in prop::collection::vec(
            prop_oneof![4 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b' '), 1 => any::<u8>()],
            0..600,
        ),
        cuts in prop::collection::vec(0usize..600, 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let (lines, unfinished) = split(&pieces);
        prop_assert_eq!(lines, expected(&bytes));
        let tail = bytes.iter().rev().take_while(|b| **b != b'\n').count() as u64;
        prop_assert_eq!(unfinished, tail);
    }
}

#[test]
fn a_line_of_exactly_the_limit_passes() {
    let mut line = vec![b'x'; LIMIT];
    line.push(b'\n');
    assert_eq!(split(&[&line]).0, [Line::Whole(vec![b'x'; LIMIT])]);
    line.insert(0, b'x');
    assert_eq!(split(&[&line]).0, [Line::Oversize { bytes: 41 }]);
}

#[tokio::test]
async fn an_unfinished_last_line_is_not_a_line() {
    let (mut ours, theirs) = tokio::io::duplex(64);
    let mut lines = LineReader::new(theirs, LIMIT);
    ours.write_all(b"{\"whole\":1}\n{\"half").await.unwrap();
    drop(ours);
    assert_eq!(
        lines.next().await.unwrap(),
        Some(Line::Whole(b"{\"whole\":1}".to_vec()))
    );
    assert_eq!(lines.next().await.unwrap(), None);
}
