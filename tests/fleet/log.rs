//! Patches make a receiver equal to the log, whenever they are taken.

use pi_agents::fleet::transcript::{
    EntryKind, Level, ToolEntry, ToolState, TranscriptLog, TranscriptPatch,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Text(String),
    Thinking(String),
    Notice,
    Tool,
    Append(usize, String),
    Update(usize, String),
    Evict(usize, usize),
    Patch(usize),
    Forget(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => "[a-z😀]{0,8}".prop_map(Op::Text),
        1 => "[a-z]{0,4}".prop_map(Op::Thinking),
        1 => Just(Op::Notice),
        1 => Just(Op::Tool),
        8 => (0usize..4, "[a-zä]{1,6}").prop_map(|(at, text)| Op::Append(at, text)),
        2 => (0usize..6, "[a-z]{0,9}").prop_map(|(at, text)| Op::Update(at, text)),
        1 => (0usize..900, 0usize..5).prop_map(|(bytes, keep)| Op::Evict(bytes, keep)),
        6 => (0usize..3).prop_map(Op::Patch),
        1 => (0usize..3).prop_map(Op::Forget),
    ]
}

#[derive(Default)]
struct Receiver {
    log: TranscriptLog,
    at: Option<u64>,
}

impl Receiver {
    fn take(&mut self, source: &mut TranscriptLog) {
        let Some(patch) = source.patch_since(self.at) else {
            assert_eq!(
                self.at,
                Some(source.rev()),
                "nothing to say only when equal"
            );
            return;
        };
        // Over the wire and back.
        let json = serde_json::to_string(&patch).unwrap();
        let patch: TranscriptPatch = serde_json::from_str(&json).unwrap();
        assert_eq!(patch.reset, self.at.is_none());
        self.at = Some(patch.rev);
        assert!(self.log.apply(patch), "the patch does not fit");
    }
}

fn same(a: &TranscriptLog, b: &TranscriptLog) -> bool {
    a.iter().eq(b.iter()) && a.first_seq() == b.first_seq() && a.next_seq() == b.next_seq()
}

fn kind(op: Op) -> EntryKind {
    match op {
        Op::Text(text) => EntryKind::Text { text, done: false },
        Op::Thinking(text) => EntryKind::Thinking { text, done: false },
        Op::Notice => EntryKind::Notice {
            level: Level::Info,
            text: "n".into(),
        },
        _ => EntryKind::Tool(ToolEntry {
            call_id: "c".into(),
            name: "bash".into(),
            args: "{}".into(),
            output: String::new(),
            hidden_lines: 0,
            state: ToolState::Running,
            started_ms: None,
            took_ms: None,
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn receivers_equal_the_source(ops in prop::collection::vec(op(), 0..80)) {
        let mut source = TranscriptLog::new();
        let mut receivers: [Receiver; 3] = Default::default();
        for op in ops {
            // From the end: streaming entries are the young ones.
            let back = |n: usize| source.next_seq().wrapping_sub(n as u64 + 1);
            match op {
                Op::Append(at, text) => {
                    let seq = back(at);
                    source.append(seq, &text);
                }
                Op::Update(at, new) => {
                    let seq = back(at);
                    source.update(seq, |kind| match kind {
                        EntryKind::Text { text, done } | EntryKind::Thinking { text, done } => {
                            *text = new;
                            *done = true;
                        }
                        EntryKind::Tool(tool) => tool.output = new,
                        EntryKind::Notice { text, .. } => *text = new,
                        _ => {}
                    });
                }
                Op::Evict(bytes, keep) => {
                    source.evict(bytes, keep);
                }
                Op::Patch(at) => {
                    receivers[at].take(&mut source);
                    prop_assert!(same(&receivers[at].log, &source));
                }
                Op::Forget(at) => receivers[at] = Receiver::default(),
                push => {
                    source.push(7, kind(push));
                }
            }
        }
        for receiver in &mut receivers {
            receiver.take(&mut source);
            prop_assert!(same(&receiver.log, &source));
        }
    }
}

#[test]
fn a_delta_costs_its_own_length_not_the_entrys() {
    let mut source = TranscriptLog::new();
    let mut receiver = Receiver::default();
    let text = "x".repeat(100_000);
    let seq = source.push(0, EntryKind::Text { text, done: false });
    receiver.take(&mut source);
    for _ in 0..100 {
        source.append(seq, "more");
        let patch = source.patch_since(receiver.at).unwrap();
        assert!(
            serde_json::to_string(&patch).unwrap().len() < 300,
            "{patch:?}"
        );
        receiver.at = Some(patch.rev);
        assert!(receiver.log.apply(patch));
    }
    assert!(same(&receiver.log, &source));
}

// Two blocks or an agent's tool beside its text: what streams in parallel stays cheap too.
#[test]
fn parallel_streams_stay_cheap() {
    let mut source = TranscriptLog::new();
    let mut receiver = Receiver::default();
    let text = "x".repeat(50_000);
    let a = source.push(
        0,
        EntryKind::Text {
            text: text.clone(),
            done: false,
        },
    );
    let b = source.push(0, EntryKind::Thinking { text, done: false });
    receiver.take(&mut source);
    for i in 0..100 {
        source.append(if i % 2 == 0 { a } else { b }, "more");
        let patch = source.patch_since(receiver.at).unwrap();
        assert!(serde_json::to_string(&patch).unwrap().len() < 300, "at {i}");
        receiver.at = Some(patch.rev);
        assert!(receiver.log.apply(patch));
    }
    assert!(same(&receiver.log, &source));
}

#[test]
fn a_patch_that_does_not_fit_is_refused() {
    let mut source = TranscriptLog::new();
    source.push(0, kind(Op::Notice));
    let mut late = TranscriptLog::new();
    let patch = source.patch_since(None).unwrap();
    assert!(late.apply(patch.clone()));
    source.push(0, kind(Op::Notice));
    let next = source.patch_since(Some(patch.rev)).unwrap();
    source.push(0, kind(Op::Notice));
    let last = source.patch_since(Some(next.rev)).unwrap();
    assert!(!late.apply(last), "a gap");
    assert!(late.apply(next));
}
