//! A fleet with something of everything, for pictures.
#![allow(dead_code, reason = "shared by several tests and an example")]

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::ids::MessageId;
use pi_agents::fleet::roster::{AgentView, MessageState, PendingMessage, RetryView};
use pi_agents::fleet::transcript::{
    EntryKind, Level, Outcome, ToolEntry, ToolState, TranscriptLog,
};
use uuid::Uuid;

use super::fake_client::{FakeClient, NOON, agent, ended, id, select};

pub fn agents() -> Vec<AgentView> {
    let max = agent(1, "max", "Check CI configuration");
    let mut zoe = agent(2, "zoe", "Research db schema");
    zoe.dialogs = vec![select(
        "d1",
        "Should the report also cover the archived tables?",
        &["Yes, all of them", "Only their row counts", "No"],
    )];
    let mut kai = ended(agent(3, "kai", "Resident research"), Status::Idle, 93_000);
    kai.usage.cost = 0.31;
    let leo = ended(
        agent(4, "leo", "Inspect auth module"),
        Status::Completed,
        27_500,
    );
    let ivy = ended(
        agent(5, "ivy", "Index photos"),
        Status::Failed {
            reason: "401 invalid api key".into(),
        },
        3_100,
    );
    let sam = ended(
        agent(6, "sam", "Port the tests"),
        Status::Stopped { by: StopCause::You },
        182_000,
    );
    let mut ana = agent(7, "ana", "Write fixtures for the importer");
    ana.activity = None;
    ana.retry = Some(RetryView {
        attempt: 2,
        max: 3,
        delay_ms: 8_000,
        since_ms: NOON - 4_000,
        error: "429 too many requests".into(),
    });
    vec![max, zoe, kai, leo, ivy, sam, ana]
}

fn tool(name: &str, args: &str, output: &str, state: ToolState, took: Option<u64>) -> EntryKind {
    EntryKind::Tool(ToolEntry {
        call_id: "c".into(),
        name: name.into(),
        args: args.into(),
        output: output.into(),
        hidden_lines: 0,
        state,
        started_ms: Some(NOON - 12_000),
        took_ms: took,
    })
}

pub fn conversation(log: &mut TranscriptLog) {
    let at = NOON - 42_000;
    log.push(
        at,
        EntryKind::User {
            text: "Check the CI configuration and report what is slow.".into(),
            images: 0,
        },
    );
    log.push(
        at,
        EntryKind::Thinking {
            text: "The config splits into three jobs.\nI will look at each of them.".into(),
            done: true,
        },
    );
    log.push(
        at,
        EntryKind::Text {
            text: "The config has **three jobs**. I will run the tests first.".into(),
            done: true,
        },
    );
    log.push(
        at,
        tool(
            "read",
            r#"{"path":".ci/config.yml"}"#,
            "jobs:\n  test:\n    run: npm install",
            ToolState::Done,
            Some(100),
        ),
    );
    log.push(
        at,
        tool(
            "edit",
            r#"{"path":".ci/config.yml","oldText":"  - run: npm install","newText":"  - run: npm ci --prefer-offline"}"#,
            "edited",
            ToolState::Done,
            Some(40),
        ),
    );
    log.push(
        at,
        EntryKind::Notice {
            level: Level::Warning,
            text: "retrying 1/3: 529 overloaded".into(),
        },
    );
    let output: String = (1..=14)
        .map(|n| format!("PASS src/part{n}.test.ts\n"))
        .collect();
    log.push(
        at,
        tool(
            "bash",
            r#"{"command":"npm test"}"#,
            &output,
            ToolState::Running,
            None,
        ),
    );
}

pub fn finished(log: &mut TranscriptLog) {
    let at = NOON - 60_000;
    log.push(
        at,
        EntryKind::User {
            text: "Inspect the auth module.".into(),
            images: 0,
        },
    );
    log.push(
        at,
        EntryKind::Text {
            text: "Found five files handling authentication:\n\n- `src/auth/login.ts`\n- `src/auth/token.ts`\n\nThe token check is **too late**: it runs after the body was read.".into(),
            done: true,
        },
    );
    log.push(
        at,
        EntryKind::RunEnd {
            outcome: Outcome::Completed { cut: false },
            took_ms: 27_500,
            tokens: 1_250,
            tool_uses: 3,
        },
    );
}

pub fn client() -> FakeClient {
    let client = FakeClient::new(agents());
    client.say(id(1), conversation);
    client.say(id(4), finished);
    client
}

pub fn pending(text: &str) -> PendingMessage {
    PendingMessage {
        id: MessageId(Uuid::from_u128(5)),
        text: text.into(),
        state: MessageState::Accepted,
    }
}
