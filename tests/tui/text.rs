//! The sanitiser and the width function against a VT emulator.

use pi_agents::tui::paint::Row;
use pi_agents::tui::text::SafeText;
use pi_agents::tui::width::{truncate, truncate_start, width};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use ratatui::style::{Color, Modifier, Style};

use super::screen;

fn line(raw: &str) -> String {
    SafeText::line(raw).as_str().to_owned()
}

fn block(raw: &str) -> String {
    SafeText::block(raw).as_str().to_owned()
}

fn no_controls(text: &str) -> bool {
    !text.chars().any(|c| {
        (c.is_control() && c != '\n')
            || matches!(u32::from(c), 0x200b | 0x200e..=0x200f | 0x202a..=0x202e | 0x2028..=0x2029
                | 0x2060..=0x206f | 0xfe00..=0xfe0f | 0xfeff | 0xe0000..=0xe0fff | 0x061c)
    })
}

// R-TUI-10
#[test]
fn sequences_go_and_text_stays() {
    for (raw, want) in [
        ("plain", "plain"),
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://x.invalid\x07click\x1b]8;;\x07", "click"),
        (
            "\x1b]8;;https://x.invalid\x1b\\click\x1b]8;;\x1b\\",
            "click",
        ),
        (
            "\x1b]unterminated osc swallows the rest",
            "unterminated osc swallows the rest",
        ),
        ("\x1bPtmux;\x1b\x1b]52;c;QUJD\x07\x1b\\x", "tmux;x"),
        ("\x1b_Gf=100;AAAA\x1b\\x", "x"),
        ("\x1b[10A\x1b[2KApproved", "Approved"),
        ("\x1bc\x1b#8x", "x"),
        ("\u{9b}31mC1", "C1"),
        ("\u{9d}0;c1 osc\u{9c}x", "x"),
        ("\u{90}c1 dcs\u{9c}x", "x"),
        ("\x1b", ""),
        ("\x1b[", ""),
        ("\x1b[31", ""),
        ("\x1b[31é", "é"),
        ("bell\x07 nul\0 del\x7f", "bell nul del"),
        ("a\u{202e}gnp.exe\u{202c}b", "agnp.exeb"),
        ("a\tb\nc\r\nd\u{2028}e\u{85}f", "a b c d e f"),
    ] {
        assert_eq!(line(raw), want, "{raw:?}");
    }
    // An unterminated sequence ends with its line.
    assert_eq!(block("\x1b]0;open\nnext\x07 line"), "0;open\nnext line");
    assert_eq!(block("a\r\nb\rc\u{2029}d"), "a\nb\nc\nd");
}

// B043
#[test]
fn tabs_go_to_the_next_stop_of_the_text_column() {
    assert_eq!(block("   780\t#[test]"), "   780  #[test]");
    assert_eq!(block("12345678\tx"), "12345678        x");
    assert_eq!(block("中\tx"), "中      x");
    assert_eq!(block("\ta\n\tb"), "        a\n        b");
    assert_eq!(block("a\tb\tc"), "a       b       c");
    assert_eq!(block("\x1b[31ma\t\x1b[0mb"), "a       b");
}

#[test]
fn clusters_terminals_disagree_about_are_taken_apart() {
    assert_eq!(line("👩‍🔬"), "👩🔬");
    assert_eq!(line("❤️"), "❤");
    assert_eq!(line("🇺🇳🇪🇺🇺"), "UNEUU");
    assert_eq!(line("👍🏽"), "👍");
    assert_eq!(line("🏽"), "□");
    assert_eq!(line("1️⃣"), "1⃣");
    assert_eq!(line("\u{1100}\u{1161}\u{11a8}"), "각");
    assert_eq!(line("\u{ac00}\u{11a8}"), "각");
    assert_eq!(line("e\u{301}"), "e\u{301}");
    assert_eq!(line("\u{301}"), "◌\u{301}");
    assert_eq!(
        line("soft\u{ad}hyphen a\u{2060}b \u{feff}c"),
        "softhyphen ab c"
    );
    // Joiners that shape letters stay.
    assert_eq!(line("می\u{200c}خواهم"), "می\u{200c}خواهم");
}

#[test]
fn colours_of_output_become_styles() {
    let text = SafeText::ansi("a\x1b[1;31mb\x1b[0mc\x1b[38;2;1;2;3md\x1b[8m hidden\x1b[39me");
    assert_eq!(text.text().as_str(), "abcd hiddene");
    assert_eq!(
        text.runs(),
        [
            (
                1,
                Style::new()
                    .fg(Color::Indexed(1))
                    .add_modifier(Modifier::BOLD)
            ),
            (2, Style::new()),
            (3, Style::new().fg(Color::Rgb(1, 2, 3))),
            (4, Style::new().fg(Color::Rgb(1, 2, 3))),
            (11, Style::new()),
        ]
    );
}

/// Draws one text and a mark behind it, and asks the emulator in which column the mark is.
fn column_after(text: &SafeText) -> (usize, usize) {
    let cols = width(text.as_str());
    let row = Row::new().put(text, Style::new()).put("|", Style::new());
    let buf = screen::buffer(&[row], u16::try_from(cols + 8).unwrap());
    let term = screen::terminal(&buf);
    let found = (0..u16::try_from(cols + 8).unwrap())
        .rfind(|x| {
            term.screen()
                .cell(0, *x)
                .is_some_and(|c| c.contents() == "|")
        })
        .expect("the mark is on the screen");
    (cols, usize::from(found))
}

// B041
#[test]
fn every_sample_keeps_its_frame_in_one_column() {
    let source = include_str!("../fixtures/render/B041-emoji-widths.session.jsonl");
    let text = source
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .find_map(|v| {
            v["message"]["content"][0]["text"]
                .as_str()
                .map(str::to_owned)
        })
        .unwrap();
    let samples: Vec<&str> = text.lines().collect();
    assert!(samples.len() > 25);
    for sample in samples {
        let (want, got) = column_after(&SafeText::line(sample));
        assert_eq!(want, got, "{sample:?}");
    }
}

// B041: not only the samples. Every character there is, between two letters and alone. The
// emulator is asked without our help: the text is written to it as one run.
#[test]
fn every_character_is_as_wide_as_the_terminal_says() {
    let mut wrong = Vec::new();
    let mut term = vt100::Parser::new(1.try_into().unwrap(), 60.try_into().unwrap(), 0);
    for c in ('\0'..=char::MAX).filter(|c| *c != '\u{17d8}') {
        let raw = format!("a{c}b");
        let text = SafeText::line(&raw);
        assert!(no_controls(text.as_str()), "{c:?}");
        // These are drawn beside the letter by terminals and by ratatui, not by the emulator.
        if matches!(c, '\u{ff9e}' | '\u{ff9f}') {
            continue;
        }
        term.process(b"\r\x1b[2K");
        term.process(text.as_str().as_bytes());
        let (_, col) = term.screen().cursor_position();
        if usize::from(col) != width(text.as_str()) {
            wrong.push(format!(
                "U+{:04X} {} {}",
                u32::from(c),
                col,
                width(text.as_str())
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong: {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(40)]
    );
}

// B048
#[test]
fn labels_are_cut_at_clusters_at_every_width() {
    let source = include_str!("../fixtures/render/B048-labels.json");
    let file: serde_json::Value = serde_json::from_str(source).unwrap();
    for label in file["labels"].as_array().unwrap() {
        let text = SafeText::line(label.as_str().unwrap());
        for cols in 0..=120 {
            let cut = truncate(&text, cols);
            assert!(width(cut.as_str()) <= cols);
            if width(text.as_str()) > cols && cols > 0 {
                assert!(cut.as_str().ends_with('…'));
            } else if cols > 0 {
                assert_eq!(cut, text);
            }
            assert!(width(truncate_start(&text, cols).as_str()) <= cols);
        }
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1bP",
        "\x1b_",
        "\x1b^",
        "\x1bX",
        "\x07",
        "\x1b\\",
        "\u{9b}",
        "\u{9d}",
        "\u{90}",
        "\u{9c}",
        "31m",
        "52;c;QUJD",
        "\n",
        "\r",
        "\t",
        "\0",
        "\u{200d}",
        "\u{fe0f}",
        "👩",
        "🔬",
        "🏽",
        "🇺",
        "中",
        "e\u{301}",
        "\u{202e}",
        " ",
        "x",
        "\u{2028}",
        "\u{1100}",
        "\u{1161}",
        "\u{11a8}",
        "\u{e0061}",
        "ำ",
        "क्षि",
        "ﾞ",
        "[201~",
    ])
    .prop_map(str::to_owned);
    prop::collection::vec(
        prop_oneof![4 => bits, 1 => any::<char>().prop_map(String::from)],
        0..60,
    )
    .prop_map(|v| v.concat())
}

proptest! {
    // R-TUI-10, R-Q-01
    #[test]
    fn nothing_that_acts_on_a_terminal_remains(raw in hostile()) {
        for text in [SafeText::line(&raw), SafeText::block(&raw), SafeText::ansi(&raw).text().to_text()] {
            prop_assert!(no_controls(text.as_str()), "{:?}", text);
        }
        prop_assert!(!line(&raw).contains('\n'));
        prop_assert_eq!(SafeText::ansi(&raw).text().to_text(), SafeText::block(&raw));
        // Doing it twice changes nothing.
        prop_assert_eq!(block(&block(&raw)), block(&raw));
        prop_assert_eq!(line(&line(&raw)), line(&raw));
    }

    // A streaming text is sanitised again from its last line break on.
    #[test]
    fn lines_are_independent(a in hostile(), b in hostile()) {
        let a = a.trim_end_matches('\r');
        prop_assert_eq!(block(&format!("{a}\n{b}")), format!("{}\n{}", block(a), block(&b)));
    }

    #[test]
    fn visible_ascii_words_are_never_swallowed(words in prop::collection::vec("[a-z]{3,8}", 1..5)) {
        // Behind any introducer that is never terminated, the words stay.
        for intro in ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\u{9d}", "\u{90}"] {
            let text = words.join(" ");
            prop_assert_eq!(line(&format!("{intro}{text}")), text);
        }
    }

    #[test]
    fn drawn_width_is_the_emulators(raw in hostile()) {
        let text = SafeText::line(&raw);
        let (want, got) = column_after(&text);
        prop_assert_eq!(want, got, "{:?}", text);
        let row = Row::new().put(&text, Style::new());
        let written = screen::bytes(&screen::buffer(&[row], 80));
        prop_assert_eq!(screen::foreign_controls(&written), Vec::<char>::new());
    }

    #[test]
    fn cutting_never_exceeds(raw in hostile(), cols in 0usize..40) {
        let text = SafeText::line(&raw);
        let cut = truncate(&text, cols);
        prop_assert!(width(cut.as_str()) <= cols);
        if width(text.as_str()) <= cols {
            prop_assert_eq!(&cut, &text);
        } else if let Some(kept) = cut.as_str().strip_suffix('…') {
            prop_assert!(text.as_str().starts_with(kept));
        }
    }
}
