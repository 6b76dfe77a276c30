//! Nothing a child says acts on the terminal (R-TUI-10, B044): hostile texts through every text
//! path of every screen, and a look at the bytes the real backend writes.

use pi_agents::client::{ErrorCode, Request, RequestError};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::{
    AgentView, Badge, DialogKind, DialogView, MessageState, PendingMessage, RetryView,
};
use pi_agents::fleet::transcript::{EntryKind, Level, Outcome, ToolEntry, ToolState};
use pi_agents::tui::panes;
use pi_agents::tui::update::client as news;
use pi_agents::tui::{StartCheck, StartProblem};

use super::desk::Desk;
use super::fake_client::{FakeClient, NOON, agent, id};
use super::screen;

/// What a terminal would obey, each with text around it that must stay readable.
fn hostile() -> Vec<String> {
    let mut all: Vec<String> = [
        "\x1b]52;c;ZWNobyBwd25lZA==\x07",
        "\x1b]0;you are root now\x07",
        "\x1b]8;;https://evil.example.invalid\x07click\x1b]8;;\x07",
        "\x1bPtmux;\x1b\x1b]52;c;QUJD\x07\x1b\\",
        "\x1b_Gf=100;AAAA\x1b\\",
        "\x1b[10A\x1b[2KApproved by user",
        "\x1b[2J\x1b[H",
        "\x1b[6n\x1b[c\x1b[>q",
        "\x1bc",
        "\x1b[?1049l\x1b[?1003h",
        "\x1b[8m invisible \x1b[0m",
        "\x1b[201~/continue",
        "\x1b]1337;File=inline=1:AAAA\x07",
        "\x1b[21t",
        "\x1b#8",
        "\u{9b}31mC1 csi",
        "\u{9d}0;c1 osc\u{9c}",
        "\u{90}c1 dcs\u{9c}",
        "\x1b]unterminated",
        "\x1b[38;2;1;2;3;4;5;6;7;8;9m",
        "\u{202e}desrever\u{2066}\u{200b}\u{feff}",
        "\x1b",
    ]
    .iter()
    .map(|text| format!("A{text}Z"))
    .collect();
    let controls: String = (0..0x20_u8)
        .chain([0x7f])
        .map(char::from)
        .chain('\u{80}'..='\u{9f}')
        .collect();
    all.push(format!("A{controls}Z"));
    all
}

/// Fails when the bytes hold anything but text, cursor placement and colours.
#[track_caller]
fn only_ours(bytes: &[u8], what: &str) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_control() || ('\u{80}'..='\u{9f}').contains(&c)) {
        let tail = &rest[at..];
        let sequence = tail.strip_prefix("\x1b[").and_then(|body| {
            let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
            matches!(&body[end..=end], "m" | "H").then(|| &body[end + 1..])
        });
        rest = sequence.unwrap_or_else(|| {
            let shown: String = tail.chars().take(24).collect();
            panic!("{what}: {shown:?} reached the terminal");
        });
    }
    for c in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}'] {
        assert!(!text.contains(c), "{what}: {c:?} reached the terminal");
    }
}

#[track_caller]
fn check(desk: &Desk, what: &str) {
    only_ours(&screen::bytes(desk.buffer()), what);
    let title = panes::title(&desk.app);
    assert!(
        !title.as_str().contains(|c: char| c.is_control()),
        "title: {title:?}"
    );
    let theme_changes = desk
        .buffer()
        .content()
        .iter()
        .any(|cell| cell.modifier.contains(ratatui::style::Modifier::HIDDEN));
    assert!(!theme_changes, "{what}: text is hidden");
}

fn evil_agent(text: &str) -> AgentView {
    let mut view = agent(1, text, text);
    view.model = Some(text.into());
    view.thinking = Some(text.into());
    view.activity = Some(text.into());
    view.spec.cwd = text.into();
    view.statuses = vec![(text.into(), text.into())];
    view.pending = [
        MessageState::Queued,
        MessageState::Sent,
        MessageState::Accepted,
    ]
    .map(|state| PendingMessage {
        id: pi_agents::fleet::ids::MessageId(uuid::Uuid::from_u128(3)),
        text: text.into(),
        state,
    })
    .into();
    view
}

fn entries(text: &str) -> Vec<EntryKind> {
    let tool = |name: &str, args: String| {
        EntryKind::Tool(ToolEntry {
            call_id: text.into(),
            name: name.into(),
            args,
            output: format!("{text}\n{text}"),
            hidden_lines: 3,
            state: ToolState::Failed,
            started_ms: Some(NOON),
            took_ms: Some(5),
        })
    };
    let json = serde_json::to_string(text).unwrap();
    vec![
        EntryKind::User {
            text: text.into(),
            images: 1,
        },
        EntryKind::Thinking {
            text: text.into(),
            done: true,
        },
        EntryKind::Text {
            text: format!(
                "{text}\n\n`{text}`\n\n```{text}\n{text}\n```\n\n[{text}]({text})\n\n| {text} |\n|---|\n| {text} |"
            ),
            done: true,
        },
        tool(text, text.to_owned()),
        tool("bash", format!("{{\"command\":{json}}}")),
        tool("read", format!("{{\"path\":{json}}}")),
        tool(
            "edit",
            format!("{{\"path\":{json},\"oldText\":{json},\"newText\":{json}}}"),
        ),
        tool("write", format!("{{\"path\":{json},\"content\":{json}}}")),
        tool("other", format!("{{{json}:{json}}}")),
        EntryKind::Notice {
            level: Level::Error,
            text: text.into(),
        },
        EntryKind::Custom {
            custom_type: text.into(),
            text: text.into(),
        },
        EntryKind::RunEnd {
            outcome: Outcome::Failed {
                reason: text.into(),
            },
            took_ms: 1,
            tokens: 1,
            tool_uses: 1,
        },
    ]
}

fn dialogs(text: &str) -> Vec<DialogKind> {
    vec![
        DialogKind::Select {
            options: vec![text.into(), text.into()],
        },
        DialogKind::Confirm {
            message: text.into(),
        },
        DialogKind::Input {
            placeholder: Some(text.into()),
        },
        DialogKind::Editor {
            prefill: Some(text.into()),
        },
    ]
}

fn evil_desk(text: &str, width: u16, height: u16) -> Desk {
    let client = FakeClient::new(vec![evil_agent(text)]);
    client.change(|fleet| {
        fleet.core.folder = format!("/{text}").into();
        fleet.core.version = text.into();
        fleet.core.pi = text.into();
        fleet.core.badges = vec![Badge::Unguarded, Badge::NotSaved];
    });
    for entry in entries(text) {
        client.entry(id(1), entry);
    }
    let mut desk = Desk::starting(client, width, height);
    desk.app.settings.model = Some(text.to_owned());
    desk.connect();
    desk
}

const SIZES: [(u16, u16); 3] = [(40, 10), (60, 20), (120, 60)];

#[test]
fn roster_stream_and_agent_view() {
    for text in hostile() {
        for (width, height) in SIZES {
            let mut desk = evil_desk(&text, width, height);
            check(&desk, "fleet");
            desk.client.agent(id(1), |view| {
                view.retry = Some(RetryView {
                    attempt: 1,
                    max: 3,
                    delay_ms: 1,
                    since_ms: NOON,
                    error: text.clone(),
                });
            });
            desk.settle();
            check(&desk, "retry");
            desk.client.agent(id(1), |view| {
                view.retry = None;
                view.status = Status::Failed {
                    reason: text.clone(),
                };
            });
            desk.settle();
            check(&desk, "failed");
            desk.press("enter");
            check(&desk, "agent view");
            desk.press("ctrl+o ctrl+home");
            check(&desk, "unfolded");
            for _ in 0..if height > 30 { 5 } else { 25 } {
                desk.press("pgdn");
                check(&desk, "scrolled");
            }
            desk.press("left s");
            check(&desk, "addressed");
            desk.client.end();
            desk.settle();
            check(&desk, "lost");
        }
    }
}

#[test]
fn questions() {
    for text in hostile() {
        for kind in dialogs(&text) {
            for (width, height) in SIZES {
                let mut desk = evil_desk(&text, width, height);
                let kind = kind.clone();
                desk.client.agent(id(1), |view| {
                    view.dialogs = vec![DialogView {
                        id: text.clone(),
                        title: text.clone(),
                        kind,
                        since_ms: NOON,
                        timeout_ms: Some(5_000),
                    }];
                });
                desk.settle();
                check(&desk, "asking row");
                desk.press("enter");
                check(&desk, "question");
            }
        }
    }
}

#[test]
fn errors_forms_and_first_run() {
    for text in hostile() {
        for (width, height) in SIZES {
            let mut desk = evil_desk(&text, width, height);
            let said = text.clone();
            desk.client.answer(move |_, request| {
                (!matches!(request, Request::Watch { .. })).then(|| {
                    Err(RequestError::new(ErrorCode::Internal, said.clone())
                        .with_hint(said.clone()))
                })
            });
            desk.press("n");
            desk.paste(&text);
            check(&desk, "pasted task");
            desk.press("enter");
            check(&desk, "error in the fleet");
            desk.press("tab");
            desk.paste(&text);
            desk.press("tab");
            desk.paste(&text);
            desk.press("enter");
            check(&desk, "error in the form");
            desk.press("esc esc");
            desk.press("ctrl+x ctrl+x");
            desk.wait(500);
            check(&desk, "error of a stop");
            desk.press("?");
            desk.paste(&text);
            check(&desk, "help");

            let mut desk = evil_desk(&text, width, height);
            news::problem(
                &mut desk.app,
                StartProblem {
                    title: text.clone(),
                    checks: vec![StartCheck {
                        ok: false,
                        text: text.clone(),
                        commands: vec![text.clone()],
                    }],
                    demo: true,
                    again: true,
                },
                desk.now,
            );
            desk.settle();
            check(&desk, "first run");
        }
    }
}

#[test]
fn what_can_be_read_stays_readable() {
    let text = "before \x1b]0;x\x07\x1b[31mred\x1b[0m \x1b]never ended, VISIBLE-SENTINEL";
    let mut desk = evil_desk(text, 120, 60);
    desk.sees("VISIBLE-SENTINEL");
    desk.press("enter");
    desk.sees("before red");
    desk.sees("VISIBLE-SENTINEL");
}

/// The check itself sees what it is for.
#[test]
fn the_check_finds_what_must_not_be() {
    only_ours(b"\x1b[3;4H\x1b[38;2;1;2;3mtext\x1b[0m", "ours");
    for bad in [
        "\x1b]0;t\x07",
        "\x1b[2J",
        "a\x07",
        "\u{9b}31m",
        "\x1b[?25h",
        "a\nb",
    ] {
        let found = std::panic::catch_unwind(|| only_ours(bad.as_bytes(), "bad"));
        assert!(found.is_err(), "{bad:?}");
    }
}
