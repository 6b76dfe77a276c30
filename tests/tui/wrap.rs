//! Wrapping: nothing wider than asked, nothing lost, growing texts the same as whole ones.

use pi_agents::tui::text::SafeText;
use pi_agents::tui::width::{clusters, width};
use pi_agents::tui::wrap::{Mode, Wrapped, wrap};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn rows(raw: &str, cols: usize, mode: Mode) -> Vec<String> {
    let text = SafeText::block(raw);
    wrap(text.as_safe(), cols, mode)
        .into_iter()
        .map(|r| text.as_str()[r].to_owned())
        .collect()
}

#[test]
fn words_go_to_the_next_line_whole() {
    assert_eq!(rows("one two three", 8, Mode::Words), ["one two", "three"]);
    assert_eq!(rows("one two", 3, Mode::Words), ["one", "two"]);
    assert_eq!(
        rows("abcdefghij kl", 4, Mode::Words),
        ["abcd", "efgh", "ij", "kl"]
    );
    assert_eq!(rows("ab cdefghij", 4, Mode::Words), ["ab", "cdef", "ghij"]);
    assert_eq!(
        rows("  indented text", 10, Mode::Words),
        ["  indented", "text"]
    );
    assert_eq!(rows("a\n\nb", 4, Mode::Words), ["a", "", "b"]);
    assert_eq!(rows("", 4, Mode::Words), [""]);
    assert_eq!(rows("全角文字列", 4, Mode::Words), ["全角", "文字", "列"]);
    assert_eq!(rows("ab全角", 3, Mode::Words), ["ab", "全", "角"]);
    assert_eq!(rows("one  two ", 4, Mode::Words), ["one", "two "]);
    assert_eq!(rows("one two   ", 7, Mode::Words), ["one two"]);
}

#[test]
fn cells_keep_every_blank() {
    assert_eq!(rows("ab  cd", 3, Mode::Cells), ["ab ", " cd"]);
}

// B046
#[test]
fn long_tokens_at_every_width() {
    let source = include_str!("../fixtures/render/B046-long-tokens.session.jsonl");
    for line in source.lines() {
        let text = SafeText::block(line);
        for cols in 1..=130 {
            for range in wrap(text.as_safe(), cols, Mode::Words) {
                let row = &text.as_str()[range];
                assert!(width(row) <= cols || clusters(row).count() == 1);
            }
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        " ",
        "  ",
        "\n",
        "a",
        "word",
        "longer-word",
        "中",
        "全角",
        "e\u{301}",
        "👩",
        "क्षि",
        "\t",
    ]);
    prop::collection::vec(bits, 0..50).prop_map(|v| v.concat())
}

fn solid(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn bounded_and_complete(raw in any_text(), cols in 1usize..30) {
        let text = SafeText::block(&raw);
        for mode in [Mode::Words, Mode::Cells] {
            let ranges = wrap(text.as_safe(), cols, mode);
            let mut last = 0;
            let mut all = String::new();
            for range in &ranges {
                prop_assert!(range.start >= last);
                // What is between two lines is blank.
                prop_assert!(text.as_str()[last..range.start].trim().is_empty());
                last = range.end;
                let row = &text.as_str()[range.clone()];
                prop_assert!(!row.contains('\n'));
                prop_assert!(width(row) <= cols || clusters(row).count() == 1, "{row:?} in {cols}");
                all.push_str(row);
            }
            prop_assert_eq!(solid(&all), solid(text.as_str()));
            if mode == Mode::Cells {
                prop_assert_eq!(all, text.as_str().replace('\n', ""));
            }
            prop_assert!(ranges.len() > text.as_str().matches('\n').count());
        }
    }

    #[test]
    fn growing_is_the_same_as_whole(parts in prop::collection::vec(any_text(), 1..6), cols in 1usize..30) {
        for mode in [Mode::Words, Mode::Cells] {
            let mut grown = Wrapped::new(cols, mode);
            let mut raw = String::new();
            for part in &parts {
                raw.push_str(part);
                let text = SafeText::block(&raw);
                let want = wrap(text.as_safe(), cols, mode);
                prop_assert_eq!(grown.update(text.as_safe(), cols), &want[..]);
            }
        }
    }
}
