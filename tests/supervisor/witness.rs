//! What proves another writer of a session, and what does not.

use std::path::Path;

use pi_agents::pi::event::Parser;
use pi_agents::pi::session;
use pi_agents::supervisor::session_file::{Look, SessionMark};
use pi_agents::supervisor::witness::Witness;
use serde_json::{Value, json};

const PATH: &str = "/sessions/a.jsonl";

/// When the child answered first; everything below is later.
const START: i64 = 1000;

/// A session file in the making and the child that writes it.
struct Scene {
    file: String,
    ids: u32,
    /// Where our Pi goes on.
    tail: Option<String>,
    witness: Witness,
}

impl Scene {
    /// A conversation of an earlier process, and a child that has just taken it up.
    fn new() -> Self {
        let mut scene = Self {
            file: "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n".into(),
            ids: 0,
            tail: None,
            witness: Witness::new(None),
        };
        scene.write("user", 10);
        scene.write("assistant", 20);
        let before = scene.look().mark;
        scene.witness = Witness::new(Some((PATH.into(), before)));
        scene.hear(
            &json!({"type": "response", "id": "1", "command": "get_state", "success": true}),
            START,
        );
        scene
    }

    fn hear(&self, record: &Value, at_ms: i64) {
        let line = record.to_string();
        let mut parser = Parser::new();
        self.witness
            .hear(&parser.parse(line.as_bytes()).unwrap(), at_ms);
    }

    fn line(&mut self, kind: &str, parent: Value, more: Value) -> String {
        self.ids += 1;
        let id = format!("{:08x}", self.ids);
        let mut line = json!({"type": kind, "id": id, "parentId": parent});
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        self.file += &format!("{line}\n");
        id
    }

    fn message(role: &str, at_ms: i64) -> Value {
        json!({"message": {"role": role, "content": [], "timestamp": at_ms}})
    }

    /// Our Pi writes a message and says nothing of it.
    fn write(&mut self, role: &str, at_ms: i64) -> String {
        let id = self.line("message", json!(self.tail), Self::message(role, at_ms));
        self.tail = Some(id.clone());
        id
    }

    /// Our Pi announces a message and writes it.
    fn say(&mut self, role: &str, at_ms: i64) -> String {
        let mut record = Self::message(role, at_ms);
        record["type"] = "message_end".into();
        self.hear(&record, at_ms);
        self.write(role, at_ms)
    }

    /// Our Pi writes an entry of another sort.
    fn note(&mut self, kind: &str) -> String {
        let id = self.line(kind, json!(self.tail), json!({}));
        self.tail = Some(id.clone());
        id
    }

    /// Another Pi writes a message.
    fn foreign(&mut self, parent: &str, role: &str, at_ms: i64) -> String {
        self.line("message", json!(parent), Self::message(role, at_ms))
    }

    fn prompt(&self, at_ms: i64, disposition: &str) {
        self.witness.prompted();
        let data = json!({"disposition": disposition});
        self.hear(&json!({"type": "response", "id": "2", "command": "prompt", "success": true, "data": data}), at_ms);
    }

    fn settle(&self) {
        self.hear(&json!({"type": "agent_settled", "aborted": false}), START);
    }

    /// A whole run: a prompt, a call, its result, an answer.
    fn run(&mut self, at_ms: i64) {
        self.prompt(at_ms, "started");
        self.hear(&json!({"type": "agent_start"}), at_ms);
        for (n, role) in ["user", "assistant", "toolResult", "assistant"]
            .iter()
            .enumerate()
        {
            self.say(role, at_ms + i64::try_from(n).unwrap());
        }
        self.settle();
    }

    /// It is told to end, and all it said was read.
    fn end(&self, at_ms: i64) {
        self.witness.ending(at_ms);
        self.witness.heard_all();
    }

    fn look(&self) -> Look {
        let entries = session::entries(self.file.as_bytes(), true);
        Look {
            mark: SessionMark {
                size: self.file.len() as u64,
                modified_ns: 0,
                last_entry: entries.last().map(|e| e.id.clone()),
                end_hash: None,
                foreign: false,
            },
            entries,
            from: 0,
        }
    }

    fn proven(&self) -> bool {
        self.witness
            .proves_other_writer(Path::new(PATH), &self.look())
    }
}

#[test]
fn all_that_our_own_pi_writes_proves_nothing() {
    // R-LIFE-10
    let mut s = Scene::new();
    assert!(!s.proven());
    for kind in ["model_change", "thinking_level_change", "session_info"] {
        s.note(kind);
    }
    s.run(2000);
    for kind in [
        "label",
        "custom",
        "custom_message",
        "compaction",
        "context_edit",
        "usage",
    ] {
        s.note(kind);
    }
    s.run(3000);
    // Told to end in the middle of a run: Pi writes the rest without a word.
    s.prompt(4000, "started");
    s.hear(&json!({"type": "agent_start"}), 4000);
    s.say("user", 4000);
    s.say("assistant", 4001);
    s.end(9000);
    s.write("toolResult", 4500);
    s.write("assistant", 4501);
    assert!(!s.proven());
}

#[test]
fn a_prompt_on_its_way_at_the_end_proves_nothing() {
    let mut s = Scene::new();
    s.run(2000);
    s.witness.prompted();
    s.end(9000);
    s.write("user", 3000);
    assert!(!s.proven());
    // Answered, but the run not begun.
    let mut s = Scene::new();
    s.run(2000);
    s.prompt(3000, "started");
    s.end(9000);
    s.write("user", 3000);
    assert!(!s.proven());
}

#[test]
fn a_foreign_message_between_ours_is_proven() {
    let mut s = Scene::new();
    s.run(2000);
    let tail = s.tail.clone().unwrap();
    s.foreign(&tail, "user", 3000);
    assert!(!s.proven(), "still nothing of ours behind it");
    s.run(4000);
    assert!(s.proven());
}

#[test]
fn a_foreign_conversation_at_rest_is_proven() {
    let mut s = Scene::new();
    s.run(2000);
    let tail = s.tail.clone().unwrap();
    let user = s.foreign(&tail, "user", 3000);
    s.foreign(&user, "assistant", 3001);
    s.end(9000);
    assert!(s.proven());
    // Written as the end began: an extension of our own Pi may have.
    let mut s = Scene::new();
    s.run(2000);
    s.end(9000);
    s.write("user", 8500);
    s.write("assistant", 9500);
    assert!(!s.proven());
    // It died by itself: nobody knows when its end began.
    let mut s = Scene::new();
    s.run(2000);
    s.write("user", 3000);
    s.witness.heard_all();
    assert!(!s.proven());
}

#[test]
fn a_foreign_entry_within_a_run_is_proven_by_the_branch() {
    let mut s = Scene::new();
    s.prompt(2000, "started");
    s.say("user", 2000);
    let call = s.say("assistant", 2001);
    s.line("session_info", json!(call), json!({}));
    s.say("toolResult", 2002);
    assert!(s.proven());
    // Between runs a command of an extension may have gone back.
    let mut s = Scene::new();
    s.run(2000);
    let tail = s.tail.clone();
    s.note("label");
    s.tail = tail;
    s.run(3000);
    assert!(!s.proven());
}

#[test]
fn an_entry_that_does_not_say_what_it_follows_is_not_pis() {
    let mut s = Scene::new();
    s.run(2000);
    s.file += "{\"type\":\"session_info\",\"id\":\"x\",\"name\":\"n\"}\n";
    assert!(s.proven());
}

#[test]
fn what_could_not_be_read_or_was_moved_by_a_command_takes_the_proof_away() {
    let scene = || {
        let mut s = Scene::new();
        s.run(2000);
        let tail = s.tail.clone().unwrap();
        s.foreign(&tail, "user", 3000);
        s
    };
    let mut s = scene();
    s.witness.missed();
    s.run(4000);
    assert!(!s.proven());
    let mut s = scene();
    s.prompt(3500, "handled");
    s.run(4000);
    assert!(!s.proven());
    // An announcement too long to say when it was.
    let mut s = scene();
    s.hear(
        &json!({"type": "message_end", "message": {"role": "assistant", "content": []}}),
        3500,
    );
    s.run(4000);
    assert!(!s.proven());
    let mut s = scene();
    s.run(4000);
    assert!(s.proven(), "without any of it");
}

#[test]
fn before_its_first_answer_pi_writes_unannounced() {
    let mut s = Scene::new();
    s.write("user", START - 1);
    s.run(2000);
    assert!(!s.proven());
}

#[test]
fn a_file_that_pi_wrote_anew_is_no_proof() {
    // A newer Pi gives an old file its own shape: nothing lies where it lay.
    let mut s = Scene::new();
    let old = "{\"type\":\"message\",\"id\":\"zz\",\"parentId\":null,\"message\":{\"role\":\"user\",\"timestamp\":1500}}\n";
    s.file
        .insert_str(s.file.find('\n').unwrap() + 1, &old.repeat(4));
    assert!(!s.proven());
    s.run(2000);
    assert!(!s.proven());
    // Behind what it announced, all is new.
    let tail = s.tail.clone().unwrap();
    s.foreign(&tail, "user", 3000);
    s.run(4000);
    assert!(s.proven());
}

#[test]
fn a_torn_or_broken_line_is_a_gap_and_no_proof() {
    let mut s = Scene::new();
    s.prompt(2000, "started");
    s.say("user", 2000);
    s.file += "{\"type\":\"custom\",\"id\":\"to\n\n\r\n";
    s.line("custom", json!("to"), json!({}));
    s.tail = Some("somewhere".into());
    s.file += "garbage\n";
    s.say("assistant", 2001);
    s.file += "{\"type\":\"message\",\"id\":\"half";
    assert!(!s.proven());
}

#[test]
fn two_interleaved_writers_are_proven_from_either_side() {
    // B079
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases");
    let text = std::fs::read_to_string(fixtures.join("B079-two-writers.session.jsonl")).unwrap();
    let head = text.match_indices('\n').nth(2).unwrap().0 + 1;
    for writer in ["A", "B"] {
        let mut s = Scene::new();
        s.file = text[..head].to_owned();
        let before = s.look().mark;
        s.witness = Witness::new(Some((PATH.into(), before)));
        s.hear(
            &json!({"type": "response", "id": "1", "command": "get_state", "success": true}),
            START,
        );
        for line in text[head..]
            .lines()
            .filter(|l| l.contains(&format!("{writer} ")))
        {
            let mut record: Value = serde_json::from_str(line).unwrap();
            record["type"] = "message_end".into();
            s.hear(&record, START);
        }
        assert!(!s.proven());
        s.file = text.clone();
        assert!(s.proven(), "seen by writer {writer}");
    }
}
