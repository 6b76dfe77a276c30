//! How each card looks at three widths, and what cards promise.

use jiff::tz::TimeZone;
use pi_agents::fleet::transcript::{Entry, EntryKind, ToolEntry, ToolState};
use pi_agents::tui::cards::{self, CardCtx, Memo};
use pi_agents::tui::paint::Row;
use pi_agents::tui::rows::{self, RowCtx};
use pi_agents::tui::theme::{Depth, Ground, Icons, Theme};
use pretty_assertions::assert_eq;

use super::{sample, screen};

fn card(kind: EntryKind, width: usize, folded: bool) -> Vec<Row> {
    let theme = Theme::load(Ground::Dark, Depth::True);
    let ctx = CardCtx {
        width,
        theme: &theme,
        folded,
        now_ms: sample::NOW,
        spinner: Some(0),
        zone: &TimeZone::UTC,
        above: None,
    };
    let entry = Entry {
        seq: 0,
        at_ms: sample::NOW,
        kind,
    };
    let mut out = Vec::new();
    cards::render(&entry, &ctx, &mut Memo::default(), &mut out);
    out
}

fn lines(kind: EntryKind, width: u16, folded: bool) -> Vec<String> {
    screen::plain(&card(kind, width.into(), folded), width)
}

#[test]
fn every_card_at_three_widths() {
    let log = sample::transcript();
    for width in [40_u16, 80, 120] {
        let mut text = String::new();
        for entry in log.iter() {
            for folded in [true, false] {
                let all = lines(entry.kind.clone(), width, folded);
                if !folded && (all.len() > 30 || all == lines(entry.kind.clone(), width, true)) {
                    continue;
                }
                text += if folded {
                    "── folded\n"
                } else {
                    "── open\n"
                };
                text += &(all.join("\n") + "\n");
            }
        }
        insta::assert_snapshot!(format!("cards_{width}"), text);
    }
}

#[test]
fn roster_rows_at_three_widths() {
    let theme = Theme::load(Ground::Dark, Depth::True);
    for width in [30_u16, 43, 80] {
        let mut all = Vec::new();
        for (i, view) in sample::fleet().iter().enumerate() {
            let ctx = RowCtx {
                theme: &theme,
                now_ms: sample::NOW,
                spinner: Some(0),
                selected: i == 0,
                unread: view.name == "leo",
                tree: if i > 7 { "└ " } else { "" },
                name_cols: 4,
            };
            let (row, second) = rows::roster_row(view, &ctx);
            all.push(row);
            all.extend(second);
        }
        insta::assert_snapshot!(
            format!("roster_{width}"),
            screen::plain(&all, width).join("\n")
        );
    }
}

// R-TUI-02: the words of every state.
#[test]
fn states_in_words() {
    let words: Vec<String> = sample::fleet()
        .iter()
        .map(|v| rows::status(v, sample::NOW).to_string())
        .collect();
    assert_eq!(
        words,
        [
            "running 42s",
            "asks",
            "idle",
            "completed",
            "retrying 2/3 in 4s",
            "failed: 401 invalid api key",
            "stopped by you",
            "queued",
            "starting",
            "stopping",
        ]
    );
}

#[test]
fn icons_differ_without_colour_and_take_one_column() {
    for icons in [Icons::unicode(), Icons::ascii()] {
        let theme = Theme::load(Ground::Dark, Depth::None).with_icons(icons);
        let mut seen = std::collections::HashSet::new();
        for view in sample::fleet()
            .iter()
            .filter(|v| !v.closing && v.retry.is_none())
        {
            let (icon, _) = rows::icon(rows::shown(view), &theme, Some(0));
            assert_eq!(pi_agents::tui::width::width(icon), 1);
            assert!(seen.insert(icon), "{icon}");
        }
        assert!(seen.len() >= 8);
    }
}

// R-TUI-14
#[test]
fn messages_show_their_first_ten_rows() {
    let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let folded = lines(sample::user(&text), 80, true);
    assert_eq!(folded.len(), 11);
    assert_eq!(folded[9].trim(), "line 10");
    assert_eq!(folded[10].trim(), "… 20 more lines (ctrl+o to expand)");
    assert_eq!(lines(sample::user(&text), 80, false).len(), 30);
    // Nothing is folded to hide a single row.
    let text: String = (1..=11).map(|n| format!("line {n}\n")).collect();
    assert_eq!(lines(sample::user(&text), 80, true).len(), 11);
}

#[test]
fn lines_no_longer_in_memory_are_counted() {
    let tool = ToolEntry {
        hidden_lines: 100,
        ..sample::tool(
            "bash",
            r#"{"command":"x"}"#,
            "a\nb\nc\nd\ne\nf",
            ToolState::Done,
        )
    };
    let folded = lines(EntryKind::Tool(tool.clone()), 80, true);
    assert_eq!(folded[1].trim(), "… 101 earlier lines (ctrl+o to expand)");
    let open = lines(EntryKind::Tool(tool), 80, false);
    assert_eq!(open[1].trim(), "… 100 earlier lines (no longer in memory)");
}

#[test]
fn missing_output_is_said() {
    let running = sample::tool("bash", r#"{"command":"x"}"#, "", ToolState::Running);
    assert_eq!(
        lines(EntryKind::Tool(running), 80, true)[1].trim(),
        "(no output yet)"
    );
}

// B043
#[test]
fn tabs_in_outputs_and_answers() {
    let output = "   780\t#[test]\n   781\tfn t() {\n   782\t\tassert!(true);\n   783\t}\n";
    let read = sample::tool("read", r#"{"path":"Makefile"}"#, output, ToolState::Done);
    let rows = lines(EntryKind::Tool(read), 80, false);
    assert_eq!(rows[1], "      780  #[test]");
    assert_eq!(rows[3], "      782          assert!(true);");
    let answer = sample::text("a\tb\tc\n12345678\tstop at 16\n中\twide before tab\nend\t");
    let rows = lines(answer, 80, true);
    assert_eq!(rows[0], "   a       b       c");
    assert_eq!(rows[1], "   12345678        stop at 16");
    assert_eq!(rows[2], "   中      wide before tab");
}

// B046
#[test]
fn long_tokens_in_every_card_at_every_width() {
    let source = include_str!("../fixtures/render/B046-long-tokens.session.jsonl");
    let long: Vec<String> = source
        .lines()
        .flat_map(|l| {
            let v: serde_json::Value = serde_json::from_str(l).unwrap();
            let content = &v["message"]["content"];
            let mut out: Vec<String> = content.as_str().map(str::to_owned).into_iter().collect();
            for block in content.as_array().into_iter().flatten() {
                out.extend(block["text"].as_str().map(str::to_owned));
                out.extend(block["arguments"]["command"].as_str().map(str::to_owned));
            }
            out
        })
        .collect();
    assert!(long.len() >= 4);
    for text in &long {
        for width in (1..=130).step_by(3) {
            let args = serde_json::json!({ "command": text }).to_string();
            for kind in [
                sample::user(text),
                sample::text(text),
                EntryKind::Tool(sample::tool("bash", &args, text, ToolState::Done)),
            ] {
                for row in card(kind, width, false) {
                    assert!(row.fit(width).width() <= width);
                    // Nothing is cut: every row fits before it is fitted (the narrowest ones
                    // cannot hold the indent).
                    if width > 8 && !row.plain().contains("bash") {
                        assert!(row.left_width() <= width, "{width}: {}", row.plain());
                    }
                }
            }
        }
    }
}
