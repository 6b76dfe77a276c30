//! Markdown: what it looks like, and that streaming it gives the same rows as rendering it whole.

use pi_agents::tui::paint::Row;
use pi_agents::tui::render::markdown::{Look, Streaming, render};
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use ratatui::style::{Modifier, Style};

use super::{sample, screen};

fn rows(raw: &str, cols: usize) -> Vec<Row> {
    let theme = Theme::load(Ground::Dark, Depth::True);
    let look = Look {
        cols,
        indent: 0,
        theme: &theme,
        base: Style::new(),
    };
    let mut out = Vec::new();
    render(raw, &look, &mut out);
    out
}

fn lines(raw: &str, cols: u16) -> Vec<String> {
    let rows = rows(raw, cols.into());
    if rows.is_empty() {
        return Vec::new();
    }
    screen::plain(&rows, cols)
}

#[test]
fn blocks() {
    assert_eq!(lines("# A\ntext", 20), ["A", "text"]);
    assert_eq!(lines("a\n\nb", 20), ["a", "", "b"]);
    assert_eq!(lines("a\nb", 20), ["a", "b"]);
    assert_eq!(
        lines("- a\n- b\n  - c\n\nd", 20),
        ["• a", "• b", "  • c", "", "d"]
    );
    assert_eq!(
        lines("9. a\n10. b b bbb bb b", 14),
        ["9. a", "10. b b bbb bb", "    b"]
    );
    assert_eq!(
        lines("1. a\n\n   b\n2. c", 20),
        ["1. a", "", "   b", "2. c"]
    );
    assert_eq!(lines("- [x] a\n- [ ] b", 20), ["• [x] a", "• [ ] b"]);
    assert_eq!(lines("> a\n> b\n\nc", 20), ["▎ a", "▎ b", "", "c"]);
    assert_eq!(lines("> - a\n>   b", 20), ["▎ • a", "▎   b"]);
    assert_eq!(
        lines("```rs\nfn a() {\n\tb\n}\n```", 40),
        ["  fn a() {", "          b", "  }"]
    );
    assert_eq!(lines("a\n\n---\n\nb", 5), ["a", "", "─────", "", "b"]);
    assert_eq!(lines("-", 20), ["•"]);
    assert_eq!(
        lines("<div>\nx\n</div>", 30),
        ["  <div>", "  x", "  </div>"]
    );
    assert_eq!(lines("", 20), Vec::<String>::new());
}

#[test]
fn inlines() {
    assert_eq!(lines("a **b** *c* `d` ~~e~~", 40), ["a b c d e"]);
    assert_eq!(lines("[docs](https://x.org)", 40), ["docs (https://x.org)"]);
    assert_eq!(lines("<https://x.org>", 40), ["https://x.org"]);
    assert_eq!(lines("![plan](a.png)", 40), ["[image: plan]"]);
    assert_eq!(lines("&#27;[31mx &amp; y", 40), ["[31mx & y"]);
    let row = &rows("a **b** c", 40)[0];
    let styles: Vec<bool> = row
        .pieces()
        .iter()
        .map(|p| p.style().add_modifier.contains(Modifier::BOLD))
        .collect();
    assert_eq!(styles, [false, true, false]);
}

#[test]
fn tables() {
    let table = "|job|now|\n|:-|-:|\n|lint|4 s|\n|integration tests|96 s|";
    assert_eq!(
        lines(table, 40),
        [
            "job               │  now",
            "──────────────────┼─────",
            "lint              │  4 s",
            "integration tests │ 96 s",
        ]
    );
    assert_eq!(
        lines(table, 18),
        [
            "job         │  now",
            "────────────┼─────",
            "lint        │  4 s",
            "integration │ 96 s",
            "tests       │",
        ]
    );
    assert_eq!(
        lines("|a|b|\n|-|-|\n|1|2|\n|3|4|", 4),
        ["a: 1", "b: 2", "", "a: 3", "b: 4"]
    );
}

fn bits() -> impl Strategy<Value = Vec<&'static str>> {
    let bit = prop::sample::select(vec![
        "word ",
        "**",
        "*",
        "`",
        "\n",
        "\n\n",
        "- ",
        "  - ",
        "1. ",
        "# ",
        "> ",
        "```\n",
        "    ",
        "|a|b|\n",
        "|-|-|\n",
        "---\n",
        "===\n",
        "<b>",
        "[x](",
        ")",
        "\t",
        "\r\n",
        "\u{1b}[31m",
        "\u{1b}]0;x",
        "\u{7}",
        "中文",
        "<div>\n",
        "\u{2028}",
        "longer words here ",
    ]);
    prop::collection::vec(bit, 0..60)
}

proptest! {
    #[test]
    fn never_wider(parts in bits(), cols in 1usize..50) {
        for row in rows(&parts.concat(), cols) {
            prop_assert!(row.left_width() <= cols.max(2), "{} in {cols}", row.plain());
        }
    }

    // Finished blocks are frozen: the result is as if the whole were rendered.
    #[test]
    fn streaming_is_the_same_as_whole(parts in bits(), cols in 8usize..50) {
        let theme = Theme::load(Ground::Dark, Depth::True);
        let look = Look { cols, indent: 1, theme: &theme, base: Style::new() };
        let mut stream = Streaming::default();
        let mut raw = String::new();
        let mut out = Vec::new();
        for part in parts {
            raw.push_str(part);
            stream.update(&raw, &look, false, &mut out);
            let mut want = Vec::new();
            render(&raw, &look, &mut want);
            let text = |rows: &[Row]| rows.iter().map(Row::plain).collect::<Vec<_>>();
            prop_assert_eq!(text(&out), text(&want), "{:?}", raw);
        }
    }
}

#[test]
fn a_text_that_did_not_only_grow_starts_anew() {
    let theme = Theme::load(Ground::Dark, Depth::True);
    let look = Look {
        cols: 60,
        indent: 0,
        theme: &theme,
        base: Style::new(),
    };
    let mut stream = Streaming::default();
    let mut out = Vec::new();
    stream.update(sample::ANSWER, &look, false, &mut out);
    let other = sample::ANSWER.replacen("Slow", "Fast", 1) + "\n\nmore";
    stream.update(&other, &look, false, &mut out);
    assert_eq!(out, rows(&other, 60));
}
