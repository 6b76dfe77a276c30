//! The exact text a parent's model reads, and the text of ids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pi_agents::fleet::completion::{
    Completion, CompletionId, CompletionStatus, Delivery, DeliveryId, Question,
};
use pi_agents::fleet::ids::{InstanceId, MessageId};
use uuid::Uuid;

const INSTANCE: &str = "0192f0c1-2b3c-7d4e-8f50-61728394a5b6";

fn a_completion() -> Completion {
    Completion {
        id: CompletionId {
            instance: INSTANCE.parse().unwrap(),
            run: 3,
        },
        agent: "max".to_owned(),
        status: CompletionStatus::Completed,
        result: "All \"green\".\nTwo files.".to_owned(),
        session_path: Some("/home/p/sessions/max.jsonl".into()),
        idle: true,
    }
}

#[test]
fn a_final_reply_is_exactly_the_contract() {
    // R-DELIV-01, R-DELIV-13
    assert_eq!(
        Delivery::from(a_completion()).content(),
        r#"{"kind":"final_reply","completion_id":"0192f0c1-2b3c-7d4e-8f50-61728394a5b6:3","status":"completed","agent_id":"max","result":"All \"green\".\nTwo files.","session_path":"/home/p/sessions/max.jsonl","idle":true}"#
    );
    let failed = Completion {
        status: CompletionStatus::Failed,
        idle: false,
        session_path: None,
        ..a_completion()
    };
    assert_eq!(
        Delivery::from(failed).content(),
        r#"{"kind":"final_reply","completion_id":"0192f0c1-2b3c-7d4e-8f50-61728394a5b6:3","status":"failed","agent_id":"max","result":"All \"green\".\nTwo files.","session_path":null}"#
    );
    let stopped = Completion {
        status: CompletionStatus::Stopped,
        session_path: Some(OsStr::from_bytes(b"/s/\xff.jsonl").into()),
        ..a_completion()
    };
    let content = Delivery::from(stopped).content();
    assert!(content.contains(r#""status":"stopped""#), "{content}");
    assert!(content.contains("\"/s/\u{fffd}.jsonl\""), "{content}");
}

#[test]
fn a_question_is_exactly_the_contract() {
    // R-DELIV-10
    let question = Question {
        id: MessageId(Uuid::from_u128(9)),
        agent: "zoe".to_owned(),
        question: "Archived tables, too?".to_owned(),
    };
    assert_eq!(
        Delivery::from(question).content(),
        r#"{"kind":"non_blocking_question","agent_id":"zoe","question":"Archived tables, too?"}"#
    );
}

#[test]
fn content_is_one_line_whatever_the_result_holds() {
    // R-DELIV-01
    for result in ["a\nb\r\u{2028}c", "\0\u{1b}[2J", "😀 \\ \" /", ""] {
        let completion = Completion {
            result: result.to_owned(),
            ..a_completion()
        };
        let content = Delivery::from(completion).content();
        assert!(
            !content.contains('\n') && !content.contains('\r'),
            "{content}"
        );
        let read: serde_json::Value = serde_json::from_str(&content).unwrap();
        assert_eq!(read["result"], result);
    }
}

#[test]
fn ids_are_one_text_and_come_back_from_it() {
    // R-DELIV-01
    let id = a_completion().id;
    assert_eq!(id.to_string(), format!("{INSTANCE}:3"));
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(
        serde_json::to_string(&id).unwrap(),
        format!("\"{INSTANCE}:3\"")
    );
    let largest = CompletionId {
        instance: InstanceId(Uuid::max()),
        run: u64::MAX,
    };
    let question = MessageId(Uuid::from_u128(9));
    for id in [id.into(), largest.into(), DeliveryId::from(question)] {
        assert_eq!(id.to_string().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<DeliveryId>(&json).unwrap(), id);
    }
}

#[test]
fn only_our_own_spelling_is_an_id() {
    // R-DELIV-01: one id has one text, so that a search in a session finds it
    for text in [
        "",
        ":",
        "3",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:",
        ":3",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:03",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:+3",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:-3",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:3 ",
        "0192f0c1-2b3c-7d4e-8f50-61728394a5b6:18446744073709551616",
        "0192F0C1-2B3C-7D4E-8F50-61728394A5B6:3",
        "0192f0c12b3c7d4e8f5061728394a5b6:3",
        "{0192f0c1-2b3c-7d4e-8f50-61728394a5b6}:3",
        "urn:uuid:0192f0c1-2b3c-7d4e-8f50-61728394a5b6",
        "0192F0C1-2b3c-7d4e-8f50-61728394a5b6",
        "é192f0c1-2b3c-7d4e-8f50-61728394a5b6:3",
    ] {
        assert!(text.parse::<CompletionId>().is_err(), "{text}");
        assert!(text.parse::<DeliveryId>().is_err(), "{text}");
    }
}

#[test]
fn deliveries_survive_being_written_and_read() {
    let odd = Completion {
        session_path: Some(OsStr::from_bytes(b"/s/\xff.jsonl").into()),
        ..a_completion()
    };
    for completion in [a_completion(), odd] {
        let delivery = Delivery::from(completion);
        let json = serde_json::to_string(&delivery).unwrap();
        assert_eq!(serde_json::from_str::<Delivery>(&json).unwrap(), delivery);
    }
}
