//! Texts of others for readers that are no screen of ours.

use pi_agents::fleet::plain::plain;
use proptest::prelude::*;

// R-TUI-10, R-Q-01
#[test]
fn nothing_that_acts_or_hides_is_left() {
    for (raw, clean) in [
        ("one\ntwo\tthree", "one\ntwo\tthree"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}]0;title\u{7}shown", "shown"),
        ("\u{1b}]52;c;aGk=\u{1b}\\shown", "shown"),
        ("\u{9b}2Jshown", "shown"),
        // Not terminated on its line: only the introducer goes.
        ("\u{1b}]0;never\nends", "0;never\nends"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\u{8}b\u{0}c\u{7f}d\u{85}e", "abcd\ne"),
        ("abc\u{202e}def\u{2066}ghi\u{200b}", "abcdefghi"),
        ("naïve 日本 👩‍🔬", "naïve 日本 👩‍🔬"),
    ] {
        assert_eq!(plain(raw), clean, "{raw:?}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_cleaning_twice_is_cleaning_once(raw in "(\\PC|\u{1b}|\\[|\\]|m|\u{7}|\n|\r|\u{9b}|\u{202e}){0,60}") {
        let clean = plain(&raw).into_owned();
        let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        prop_assert!(!clean.contains(acts), "{clean:?}");
        prop_assert!(clean.len() <= raw.len());
        prop_assert_eq!(plain(&clean).into_owned(), clean.clone());
    }
}
