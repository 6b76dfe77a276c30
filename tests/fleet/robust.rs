//! Recorded streams, damaged: whatever a child writes, nothing panics and the facts keep their
//! order (R-Q-01).

use std::sync::LazyLock;

use pi_agents::fleet::interpret::{Fact, Interpreter};
use pi_agents::fleet::live::Live;
use pi_agents::fleet::transcript::{EntryKind, MAX_OUTPUT, Reducer, TranscriptLog};
use proptest::prelude::*;

use crate::pi::traces::{cases, replay, traces};

static STREAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    traces()
        .into_values()
        .chain(cases().into_values())
        .collect()
});

#[derive(Clone, Debug)]
enum Damage {
    Drop(usize),
    Repeat(usize),
    Swap(usize, usize),
    Flip(usize, u8),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<usize>().prop_map(Damage::Drop),
        any::<usize>().prop_map(Damage::Repeat),
        any::<(usize, usize)>().prop_map(|(a, b)| Damage::Swap(a, b)),
        any::<(usize, u8)>().prop_map(|(at, byte)| Damage::Flip(at, byte)),
        any::<usize>().prop_map(Damage::Cut),
    ]
}

fn damaged(stream: &[u8], all: &[Damage]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = stream.split_inclusive(|b| *b == b'\n').collect();
    for damage in all {
        let n = lines.len().max(1);
        match *damage {
            Damage::Drop(at) if !lines.is_empty() => drop(lines.remove(at % n)),
            Damage::Repeat(at) if !lines.is_empty() => lines.insert(at % n, lines[at % n]),
            Damage::Swap(a, b) if !lines.is_empty() => lines.swap(a % n, b % n),
            _ => {}
        }
    }
    let mut bytes = lines.concat();
    for damage in all {
        match *damage {
            Damage::Flip(at, byte) if !bytes.is_empty() => {
                let n = bytes.len();
                bytes[at % n] = byte;
            }
            Damage::Cut(at) => bytes.truncate(bytes.len().saturating_sub(at % 5000)),
            _ => {}
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn damage_costs_no_more_than_itself(
        stream in any::<prop::sample::Index>(),
        all in prop::collection::vec(damage(), 1..12),
        chunk in 1usize..5000,
    ) {
        let stream: &Vec<u8> = stream.get(STREAMS.as_slice());
        let bytes = damaged(stream, &all);
        let mut interpreter = Interpreter::new();
        let mut reducer = Reducer::new();
        let mut log = TranscriptLog::new();
        let mut live = Live::new();
        let mut facts = Vec::new();
        replay(&bytes, chunk, |record| {
            if let Ok(record) = record {
                interpreter.feed(&record, 1, &mut facts);
                reducer.feed(&mut log, &record, 1);
                live.feed(&record, 1);
            }
        });
        let mut running = false;
        for fact in &facts {
            match fact {
                Fact::RunStarted => prop_assert!(!std::mem::replace(&mut running, true)),
                Fact::RunEnded(_) => prop_assert!(std::mem::replace(&mut running, false)),
                _ => {}
            }
        }
        prop_assert_eq!(running, interpreter.is_running());
        prop_assert_eq!(interpreter.process_gone().is_some(), running);
        reducer.close(&mut log);
        for entry in log.iter() {
            match &entry.kind {
                EntryKind::Text { done, .. } | EntryKind::Thinking { done, .. } => prop_assert!(done),
                EntryKind::Tool(tool) => prop_assert!(tool.output.len() <= MAX_OUTPUT),
                _ => {}
            }
        }
    }
}
