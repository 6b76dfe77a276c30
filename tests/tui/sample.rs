//! Agents and transcripts to draw.

use pi_agents::fleet::agent::{AgentSpec, Status, StopCause, ToolChoice};
use pi_agents::fleet::ids::{AgentId, HostId};
use pi_agents::fleet::roster::{AgentView, DialogKind, DialogView, RetryView, UsageTotals};
use pi_agents::fleet::transcript::{
    EntryKind, Level, Outcome, ToolEntry, ToolState, TranscriptLog,
};

/// The moment of every sample: 12:03:20 UTC.
pub const NOW: i64 = 1_796_040_200_000;

pub fn agent(name: &str, label: &str, status: Status) -> AgentView {
    AgentView {
        id: AgentId(uuid::Uuid::nil()),
        name: name.into(),
        host: HostId(uuid::Uuid::nil()),
        parent: None,
        depth: 1,
        key: name.into(),
        waited_for: false,
        spec: AgentSpec {
            label: label.into(),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: "/code/shop".into(),
            persistent: true,
            timeout_ms: None,
            call: None,
        },
        model: Some("anthropic/sonnet".into()),
        thinking: Some("high".into()),
        status,
        closing: false,
        since_ms: NOW - 42_000,
        run_started_ms: Some(NOW - 42_000),
        run_took_ms: None,
        runs_ended: 0,
        usage: UsageTotals::default(),
        context: None,
        tool_uses: 3,
        activity: None,
        retry: None,
        compacting: false,
        pending: Vec::new(),
        dialogs: Vec::new(),
        statuses: Vec::new(),
        session_path: None,
        pid: Some(4711),
        demo: false,
        rev: 1,
    }
}

pub fn dialog(title: &str) -> DialogView {
    DialogView {
        id: "u1".into(),
        title: title.into(),
        kind: DialogKind::Confirm {
            message: String::new(),
        },
        since_ms: NOW - 65_000,
        timeout_ms: None,
    }
}

/// One agent in every state.
pub fn fleet() -> Vec<AgentView> {
    let mut max = agent("max", "Check CI configuration", Status::Running);
    max.activity = Some("bash: npm test".into());
    let mut zoe = agent("zoe", "Research db schema", Status::Running);
    zoe.dialogs = vec![dialog("Should the report also cover the archived tables?")];
    let kai = agent("kai", "Resident research", Status::Idle);
    let mut leo = agent("leo", "Inspect auth module", Status::Completed);
    leo.run_took_ms = Some(27_500);
    let mut sam = agent("sam", "Port the tests", Status::Running);
    sam.retry = Some(RetryView {
        attempt: 2,
        max: 3,
        delay_ms: 8000,
        since_ms: NOW - 4000,
        error: "529 overloaded_error".into(),
    });
    let ivy = agent(
        "ivy",
        "Index photos",
        Status::Failed {
            reason: "401 invalid api key".into(),
        },
    );
    let mut bob = agent(
        "bob",
        "Matrix of supported versions",
        Status::Stopped { by: StopCause::You },
    );
    bob.run_took_ms = Some(31_000);
    let ana = agent("ana", "Fixtures", Status::Queued);
    let eva = agent(
        "eva",
        "日本語のとても長いタスク名を切り詰める",
        Status::Starting,
    );
    let mut tom = agent("tom", "Write the changelog", Status::Running);
    tom.closing = true;
    vec![max, zoe, kai, leo, sam, ivy, bob, ana, eva, tom]
}

pub fn tool(name: &str, args: &str, output: &str, state: ToolState) -> ToolEntry {
    let ended = !matches!(state, ToolState::Running | ToolState::Preparing);
    ToolEntry {
        call_id: "c1".into(),
        name: name.into(),
        args: args.into(),
        output: output.into(),
        hidden_lines: 0,
        state,
        started_ms: Some(NOW - 12_000),
        took_ms: ended.then_some(100),
    }
}

pub fn user(text: &str) -> EntryKind {
    EntryKind::User {
        text: text.into(),
        images: 0,
    }
}

pub fn text(text: &str) -> EntryKind {
    EntryKind::Text {
        text: text.into(),
        done: true,
    }
}

pub const ANSWER: &str = "\
## Slow parts

The config has **three jobs**. Two of them install *everything* again:

1. `lint` – 41 s, of which 38 s are `npm install`
2. `test` – 96 s
   - unit tests are fast
   - the browser download is not cached
3. `build` – fine

```yaml
- run: npm ci --prefer-offline
  env: { CI: \"true\" }
```

| job | now | then |
|:--|--:|--:|
| lint | 41 s | 4 s |
| test | 96 s | 55 s |

> Caching saves about 40 s per run, see [the docs](https://docs.example.org/cache).
";

/// A conversation with every sort of entry.
pub fn transcript() -> TranscriptLog {
    let mut log = TranscriptLog::new();
    let bash: String = (1..=140)
        .map(|n| format!("\x1b[32mPASS\x1b[0m src/cart{n}.test.ts\n"))
        .chain(["\x1b[1mTests:\x1b[0m \x1b[32m212 passed\x1b[0m, 212 total\n".to_owned()])
        .collect();
    let mut kinds = vec![
        user("Check the CI configuration and report what is slow."),
        EntryKind::Thinking {
            text: "**Splitting the work**\n\nThe config splits into three jobs.".into(),
            done: true,
        },
        text("The config has three jobs. I will run the tests first."),
        EntryKind::Tool(tool(
            "read",
            r#"{"path":".ci/config.yml"}"#,
            &"line\n".repeat(84),
            ToolState::Done,
        )),
        EntryKind::Tool(ToolEntry {
            took_ms: Some(31_000),
            ..tool("bash", r#"{"command":"npm test"}"#, &bash, ToolState::Done)
        }),
        EntryKind::Tool(tool(
            "grep",
            r#"{"pattern":"npm install","path":".ci"}"#,
            "a\nb\n",
            ToolState::Done,
        )),
        EntryKind::Tool(tool(
            "bash",
            r#"{"command":"cd web\nnpm run lint"}"#,
            "error: 2 problems\n\nCommand exited with code 3",
            ToolState::Failed,
        )),
        EntryKind::Notice {
            level: Level::Warning,
            text: "529 overloaded, retrying 1/3 in 2s".into(),
        },
        EntryKind::Tool(tool(
            "edit",
            r#"{"path":".ci/config.yml","edits":[{"oldText":"steps:\n  - run: npm install\n  - run: npm test\n","newText":"steps:\n  - run: npm ci --prefer-offline\n  - run: npm test\n"}]}"#,
            "done",
            ToolState::Done,
        )),
        EntryKind::Tool(tool(
            "write",
            r#"{"path":"notes.md","content":"a\nb\nc\n"}"#,
            "ok",
            ToolState::Done,
        )),
        text(ANSWER),
        EntryKind::RunEnd {
            outcome: Outcome::Completed { cut: false },
            took_ms: 27_560,
            tokens: 1250,
            tool_uses: 3,
        },
        EntryKind::Custom {
            custom_type: "lint-bot".into(),
            text: "Two **warnings** in `web/`".into(),
        },
        user("Also check the lint job.\nAnd keep it short."),
        EntryKind::RunEnd {
            outcome: Outcome::Failed {
                reason: "401 invalid api key".into(),
            },
            took_ms: 3100,
            tokens: 0,
            tool_uses: 0,
        },
        EntryKind::RunEnd {
            outcome: Outcome::Stopped { by: StopCause::You },
            took_ms: 182_000,
            tokens: 12_000,
            tool_uses: 12,
        },
        EntryKind::Tool(tool(
            "fetch_issue",
            r#"{"repo":"shop","number":42}"#,
            "",
            ToolState::Running,
        )),
        EntryKind::Tool(tool(
            "bash",
            r#"{"command":"sleep 30"}"#,
            "",
            ToolState::Running,
        )),
        EntryKind::Thinking {
            text: "Waiting for the\nlong command".into(),
            done: false,
        },
    ];
    for (n, kind) in kinds.drain(..).enumerate() {
        log.push(NOW - 60_000 + i64::try_from(n).unwrap() * 1000, kind);
    }
    log
}
