//! A history of records that a number determines, so that two processes can agree on it.

use std::collections::BTreeMap;

use pi_agents::fleet::completion::{
    Completion, CompletionId, CompletionStatus, DeliveryId, Question,
};
use pi_agents::fleet::ids::{InstanceId, MessageId};
use pi_agents::fleet::outbox::{Ending, JournalRecord, OwedRun};
use uuid::Uuid;

pub fn id(run: u64) -> CompletionId {
    CompletionId {
        instance: InstanceId(Uuid::from_u128(0x0192_f0c1_2b3c_7d4e_8f50_6172_8394_a5b6)),
        run,
    }
}

/// Record `seq`, counted from 1: three per run, of which most end and some stay owed.
pub fn record(seq: u64) -> JournalRecord {
    let run = (seq - 1) / 3;
    let stays = run % 9 == 4;
    match (seq - 1) % 3 {
        0 => JournalRecord::Opened {
            run: OwedRun {
                id: id(run),
                agent: "max".to_owned(),
                session_path: Some("/s/max.jsonl".into()),
            },
            foreground: run % 5 == 1,
            quiet: run % 7 == 4,
        },
        1 => settled(run, &"Result.\n\"é\" ".repeat((run * 31 % 97) as usize)),
        2 if stays => JournalRecord::Asked {
            question: Question {
                id: MessageId(Uuid::from_u128(u128::from(run) + 1)),
                agent: "zoe".to_owned(),
                question: "Archived tables, too?".to_owned(),
            },
        },
        _ => JournalRecord::Ended {
            id: id(run).into(),
            how: Ending::Acked,
        },
    }
}

pub fn settled(run: u64, result: &str) -> JournalRecord {
    JournalRecord::Settled {
        completion: Completion {
            id: id(run),
            agent: "max".to_owned(),
            status: CompletionStatus::Completed,
            result: result.to_owned(),
            session_path: Some("/s/max.jsonl".into()),
            idle: true,
        },
        quiet: false,
    }
}

/// What is still owed after these records.
pub type Owed = BTreeMap<DeliveryId, JournalRecord>;

pub fn add(owed: &mut Owed, record: JournalRecord) {
    if record.is_ending() {
        owed.remove(&record.id());
    } else {
        owed.insert(record.id(), record);
    }
}

pub fn owed(records: impl IntoIterator<Item = JournalRecord>) -> Owed {
    let mut owed = Owed::new();
    for record in records {
        add(&mut owed, record);
    }
    owed
}
