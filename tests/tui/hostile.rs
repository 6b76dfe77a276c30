//! Hostile texts through every way a text can take to the screen (R-TUI-10, B044).

use jiff::tz::TimeZone;
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::roster::{AgentView, RetryView};
use pi_agents::fleet::transcript::{Entry, EntryKind, Level, Outcome, ToolEntry, ToolState};
use pi_agents::tui::cards::{self, CardCtx, Memo, Sort};
use pi_agents::tui::paint::Row;
use pi_agents::tui::rows::{self, RowCtx};
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pi_agents::tui::width::width;
use proptest::prelude::*;
use ratatui::style::Style;

use super::{sample, screen};

/// Every text of the recorded session: names, arguments, outputs, errors.
fn strings() -> Vec<String> {
    fn walk(value: &serde_json::Value, out: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) => {
                out.push(text.clone());
                out.extend(text.lines().map(str::to_owned));
            }
            serde_json::Value::Array(all) => all.iter().for_each(|v| walk(v, out)),
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    out.push(key.clone());
                    walk(value, out);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    for line in include_str!("../fixtures/render/B044-escape-injection.session.jsonl").lines() {
        walk(&serde_json::from_str(line).unwrap(), &mut out);
    }
    // A sequence that only Markdown puts together.
    out.push(
        "&#27;]0;owned&#7; &#x1b;[2J &#155;31m `\u{1b}`]0;x\u{7} [a](\u{1b}]52;c;QUJD\u{7})".into(),
    );
    out.push("\u{1b}\n[31mred\u{1b}".into());
    out
}

/// All kinds of entries with this text in every place that takes one.
fn entries(evil: &str) -> Vec<EntryKind> {
    let text = evil.to_owned();
    let json = serde_json::json!({ "command": evil, "path": evil, "pattern": evil,
        "content": evil, "oldText": evil, "newText": format!("x{evil}"), evil: evil });
    let mut out = vec![
        EntryKind::User {
            text: text.clone(),
            images: 1,
        },
        EntryKind::Thinking {
            text: text.clone(),
            done: true,
        },
        EntryKind::Thinking {
            text: text.clone(),
            done: false,
        },
        EntryKind::Text {
            text: text.clone(),
            done: true,
        },
        EntryKind::Text {
            text: text.clone(),
            done: false,
        },
        EntryKind::Text {
            text: format!(
                "# {evil}\n- {evil}\n\n> {evil}\n\n```{evil}\n{evil}\n```\n\n|{evil}|b|\n|-|-|\n|{evil}|[{evil}]({evil})|\n\n<b>{evil}</b>"
            ),
            done: true,
        },
        EntryKind::Custom {
            custom_type: text.clone(),
            text: text.clone(),
        },
        EntryKind::RunEnd {
            outcome: Outcome::Failed {
                reason: text.clone(),
            },
            took_ms: 1,
            tokens: 1,
            tool_uses: 1,
        },
    ];
    for level in [Level::Info, Level::Warning, Level::Error] {
        out.push(EntryKind::Notice {
            level,
            text: text.clone(),
        });
    }
    for name in [
        "bash", "read", "edit", "write", "grep", "find", "ls", "other", evil,
    ] {
        for state in [
            ToolState::Preparing,
            ToolState::Running,
            ToolState::Done,
            ToolState::Failed,
            ToolState::Lost,
        ] {
            for args in [
                json.to_string(),
                evil.to_owned(),
                json.to_string()[..json.to_string().floor_char_boundary(30)].to_owned(),
            ] {
                out.push(EntryKind::Tool(ToolEntry {
                    call_id: text.clone(),
                    hidden_lines: 3,
                    ..sample::tool(name, &args, evil, state)
                }));
            }
        }
    }
    out
}

fn agents(evil: &str) -> Vec<AgentView> {
    let text = evil.to_owned();
    let base = sample::agent(evil, evil, Status::Running);
    let mut active = base.clone();
    active.activity = Some(text.clone());
    let mut asks = base.clone();
    asks.dialogs = vec![sample::dialog(evil)];
    let mut retry = base.clone();
    retry.retry = Some(RetryView {
        attempt: 1,
        max: 3,
        delay_ms: 1,
        since_ms: 0,
        error: text.clone(),
    });
    let mut failed = base.clone();
    failed.status = Status::Failed { reason: text };
    let mut stopped = base.clone();
    stopped.status = Status::Stopped { by: StopCause::You };
    vec![base, active, asks, retry, failed, stopped]
}

fn check(rows: &[Row], cols: u16, what: &str) {
    let buf = screen::buffer(rows, cols);
    for cell in buf.content() {
        assert!(
            !cell.symbol().chars().any(char::is_control),
            "{what}: {:?}",
            cell.symbol()
        );
    }
    let written = screen::bytes(&buf);
    assert!(screen::foreign_controls(&written).is_empty(), "{what}");
    for row in rows {
        let line = row.fit(usize::from(cols));
        let used: usize = line.spans.iter().map(|s| width(&s.content)).sum();
        assert!(used <= usize::from(cols));
        assert!(
            !line
                .spans
                .iter()
                .any(|s| s.content.chars().any(char::is_control)),
            "{what}"
        );
    }
    let term = screen::terminal(&buf);
    let screen = term.screen();
    assert!(!screen.alternate_screen() && !screen.bracketed_paste());
    assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
}

fn everything(evil: &str, cols: u16) {
    let theme = Theme::load(Ground::Dark, Depth::True);
    for kind in entries(evil) {
        for folded in [true, false] {
            let ctx = CardCtx {
                width: usize::from(cols),
                theme: &theme,
                folded,
                now_ms: sample::NOW,
                spinner: Some(1),
                zone: &TimeZone::UTC,
                above: Some(Sort::Work),
            };
            let entry = Entry {
                seq: 1,
                at_ms: sample::NOW,
                kind: kind.clone(),
            };
            let mut out = Vec::new();
            cards::render(&entry, &ctx, &mut Memo::default(), &mut out);
            check(&out, cols, &format!("{kind:?}"));
        }
    }
    for view in agents(evil) {
        let ctx = RowCtx {
            theme: &theme,
            now_ms: sample::NOW,
            spinner: None,
            selected: true,
            unread: true,
            tree: "├ ",
            name_cols: 4,
        };
        let (row, second) = rows::roster_row(&view, &ctx);
        let title = Row::new().put(rows::title(&view), Style::new());
        let status = Row::new().put(rows::status(&view, sample::NOW), Style::new());
        let all: Vec<Row> = [Some(row), second, Some(title), Some(status)]
            .into_iter()
            .flatten()
            .collect();
        check(&all, cols, &view.name);
        for text in [
            rows::title(&view),
            rows::status(&view, 0),
            rows::name(&view),
            rows::label(&view),
        ] {
            assert!(
                !text.as_str().chars().any(char::is_control),
                "one line: {text}"
            );
        }
    }
}

#[test]
fn recorded_strings_through_every_card_and_row() {
    for evil in strings() {
        everything(&evil, 50);
    }
}

#[test]
fn visible_text_is_kept() {
    let theme = Theme::load(Ground::Dark, Depth::True);
    let ctx = CardCtx {
        width: 80,
        theme: &theme,
        folded: false,
        now_ms: sample::NOW,
        spinner: None,
        zone: &TimeZone::UTC,
        above: None,
    };
    let all: String = strings().join("\n");
    for kind in [
        sample::text(&all),
        sample::user(&all),
        EntryKind::Tool(sample::tool("bash", "{}", &all, ToolState::Done)),
    ] {
        let mut out = Vec::new();
        let entry = Entry {
            seq: 0,
            at_ms: 0,
            kind,
        };
        cards::render(&entry, &ctx, &mut Memo::default(), &mut out);
        let text: String = out.iter().map(|r| r.plain() + "\n").collect();
        for word in [
            "VISIBLE-SENTINEL",
            "swallows the rest",
            "Approved by user",
            "invisible",
            "long sgr",
            "C1 csi",
        ] {
            assert!(text.contains(word), "{word} in\n{text}");
        }
        assert!(
            !text.contains("ZWNobyBwd25lZC1ieS1wYXN0ZQ"),
            "a payload is not text"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn anything_through_everything(evil in "(\u{1b}|\u{9b}|\u{9d}|\\[|\\]|;|m|[0-9]|\n|\r|\t|`|\\*|#|\\||-|>|&#27;|👩|\u{200d}|中|\\PC|\u{7}|\u{0}){0,40}", cols in 1u16..60) {
        everything(&evil, cols);
    }
}
