//! How the account reads in a terminal.

use jiff::tz::TimeZone;
use pi_agents::cli::explain_page;
use pi_agents::fleet::history::{Asked, Beginning, Explanation};
use pi_agents::fleet::interpret::{Fact, RunEnd};
use pi_agents::pi::message::StopReason;
use pi_agents::tui::width::width;
use proptest::prelude::*;
use std::time::Duration;

use super::super::machine::world::World;

fn failed(error: &str) -> Explanation {
    let mut w = World::new();
    let a = w.running();
    w.history.asked(
        a.agent,
        Asked {
            task: Beginning::of("task"),
            cwd: Some("sub/folder".into()),
            ..Asked::default()
        },
    );
    w.pass(Duration::from_millis(2500));
    w.fact(
        &a,
        Fact::RunEnded(RunEnd {
            stop: StopReason::Error,
            error: Some(error.to_owned()),
            ..RunEnd::default()
        }),
    );
    w.pass(Duration::from_secs(12));
    w.explain(a.agent)
}

fn text(told: &Explanation, columns: usize) -> String {
    explain_page(told, columns, 20, &TimeZone::UTC).join("\n")
}

#[test]
fn it_reads_at_80_and_at_100_columns() {
    let told = failed("401 invalid key");
    insta::assert_snapshot!("explain_80", text(&told, 80));
    insta::assert_snapshot!("explain_100", text(&told, 100));
}

#[test]
fn it_begins_with_the_answer() {
    let page = text(&failed("401 invalid key"), 80);
    assert_eq!(
        page.lines().next(),
        Some("max failed 12 s ago: the provider refused the key (401): 401 invalid key")
    );
}

#[test]
fn only_the_newest_are_shown_and_the_rest_is_counted() {
    let told = failed("500");
    let page = explain_page(&told, 80, 2, &TimeZone::UTC).join("\n");
    let hidden = told.entries.len() - 2;
    assert!(
        page.contains(&format!("{hidden} older: `--all` shows them")),
        "{page}"
    );
}

proptest! {
    /// R-TUI-10, R-Q-01: whatever a provider says, no line is too wide and none acts on the terminal.
    #[test]
    fn nothing_acts_on_the_terminal(error in any::<String>(), columns in 40_usize..130) {
        let hostile = format!("401 \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}{error}漢字漢字");
        let mut told = failed(&hostile);
        told.name = hostile.clone();
        told.effective.label = hostile.clone();
        told.effective.cwd = hostile.clone().into();
        told.model = Some(hostile.clone());
        told.session_path = Some(hostile.into());
        for line in explain_page(&told, columns, usize::MAX, &TimeZone::UTC) {
            prop_assert!(width(&line) <= columns, "{}: {line:?}", width(&line));
            let bad = |c: char| c.is_control() || c == '\u{202e}';
            prop_assert!(!line.contains(bad), "{line:?}");
        }
    }
}
