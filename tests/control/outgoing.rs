//! News longer than a line arrive in parts and lead to the same state. R-Q-02.

use pi_agents::client::Update;
use pi_agents::control::outgoing;
use pi_agents::control::protocol;
use pi_agents::control::rpc::{self, Message};
use pi_agents::fleet::ids::AgentId;
use pi_agents::fleet::roster::{FleetDelta, FleetSnapshot};
use pi_agents::fleet::transcript::{EntryKind, TranscriptLog};
use uuid::Uuid;

use super::fake_core::{agent_view, core_view};

const LIMIT: usize = 400_000;

fn received(update: Update) -> Vec<Update> {
    let lines = outgoing::lines(update, LIMIT);
    assert!(lines.len() > 1, "it was meant to be too long");
    lines
        .iter()
        .map(|line| {
            assert!(line.len() <= LIMIT + 1, "{} bytes", line.len());
            let Ok(Message::Notice { method, params }) = rpc::parse(line) else {
                panic!("no notice");
            };
            protocol::update_of(&method, params.as_deref())
                .unwrap()
                .unwrap()
        })
        .collect()
}

#[test]
fn a_large_fleet() {
    let agents = (0..2000).map(|i| agent_view(i, &format!("task {i}")));
    let fleet = FleetSnapshot {
        rev: 77,
        core: core_view(),
        agents: agents.collect(),
    };
    let mut back: Option<FleetSnapshot> = None;
    for update in received(Update::Snapshot(Box::new(fleet.clone()))) {
        match update {
            Update::Snapshot(all) => back = Some(*all),
            Update::Delta(delta) => assert!(back.as_mut().unwrap().apply(delta)),
            Update::Transcript { .. } => panic!("not asked for"),
        }
    }
    assert_eq!(back, Some(fleet.clone()));

    let mut back = FleetSnapshot {
        rev: 70,
        core: core_view(),
        agents: vec![],
    };
    for update in received(Update::Delta(FleetDelta {
        since: 70,
        rev: 77,
        core: None,
        agents: fleet.agents.clone(),
    })) {
        let Update::Delta(delta) = update else {
            panic!("no delta");
        };
        assert!(back.apply(delta));
    }
    assert_eq!(back, fleet);
}

#[test]
fn a_long_transcript_and_one_long_entry() {
    let agent = AgentId(Uuid::from_u128(5));
    let mut log = TranscriptLog::new();
    let mut back = TranscriptLog::new();
    let take = |log: &mut TranscriptLog, back: &mut TranscriptLog, since: Option<u64>| {
        let patch = log.patch_since(since).unwrap();
        for update in received(Update::Transcript { agent, patch }) {
            let Update::Transcript { patch, .. } = update else {
                panic!("no patch");
            };
            assert!(back.apply(patch));
        }
        assert!(back.iter().eq(log.iter()));
        assert_eq!(back.rev(), log.rev());
    };
    for i in 0..500 {
        log.push(
            i,
            EntryKind::User {
                text: format!("{i} {}", "é\n".repeat(500)),
                images: 0,
            },
        );
    }
    log.push(
        501,
        EntryKind::Text {
            text: "€\u{1}".repeat(300_000),
            done: true,
        },
    );
    take(&mut log, &mut back, None);
    let since = log.rev();
    let seq = log.push(
        502,
        EntryKind::Thinking {
            text: "begin ".into(),
            done: false,
        },
    );
    log.append(seq, &"🙂\\".repeat(300_000));
    take(&mut log, &mut back, Some(since));
}

#[test]
fn what_has_no_parts_is_cut_and_says_so() {
    let mut agent = agent_view(1, "x");
    agent.activity = Some("y".repeat(2 * LIMIT));
    let lines = outgoing::lines(
        Update::Delta(FleetDelta {
            since: 1,
            rev: 2,
            core: None,
            agents: vec![agent],
        }),
        LIMIT,
    );
    assert_eq!(lines.len(), 1);
    let text = String::from_utf8(lines[0].clone()).unwrap();
    assert!(text.len() < LIMIT && text.contains("too long to be sent"));
}
