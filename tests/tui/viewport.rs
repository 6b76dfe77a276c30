//! Scrolling: what stays, what follows, what is counted, and that it costs nothing.

use jiff::tz::TimeZone;
use pi_agents::fleet::transcript::{EntryKind, TranscriptLog};
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pi_agents::tui::viewport::{ViewCtx, Viewport};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{sample, screen};

struct Scene {
    log: TranscriptLog,
    view: Viewport,
    theme: Theme,
    width: u16,
    height: u16,
}

impl Scene {
    fn new(log: TranscriptLog, width: u16, height: u16) -> Self {
        Self {
            log,
            view: Viewport::new(),
            theme: Theme::load(Ground::Dark, Depth::True),
            width,
            height,
        }
    }

    fn draw(&mut self) -> Vec<String> {
        let area = Rect::new(0, 0, self.width, self.height);
        let mut buf = Buffer::empty(area);
        let ctx = ViewCtx {
            theme: &self.theme,
            now_ms: sample::NOW,
            spinner: Some(0),
            zone: &TimeZone::UTC,
            cursor: None,
        };
        self.view.draw(&mut buf, area, &self.log, &ctx);
        screen::lines(&buf)
    }

    fn top(&mut self) -> String {
        self.draw()[0].trim().to_owned()
    }
}

/// A stream of numbered lines, as one growing answer.
fn stream(lines: usize) -> TranscriptLog {
    let mut log = TranscriptLog::new();
    log.push(0, sample::user("count"));
    let seq = log.push(
        0,
        EntryKind::Text {
            text: String::new(),
            done: false,
        },
    );
    for n in 0..lines {
        log.append(seq, &format!("line {n:04} of the stream\n"));
    }
    log
}

// B050, R-TUI-05
#[test]
fn the_top_line_stays_while_data_arrives_and_on_resize() {
    let mut s = Scene::new(stream(200), 60, 20);
    assert!(s.draw()[19].contains("line 0199"));
    assert!(s.view.following());
    s.view.scroll(-40);
    let top = s.top();
    assert_eq!(top, "line 0140 of the stream");
    assert!(!s.view.following());
    assert!(!s.view.below(&s.log).new);
    for n in 200..500 {
        s.log.append(1, &format!("line {n:04} of the stream\n"));
        if n % 7 == 0 {
            assert_eq!(s.top(), top);
        }
    }
    assert_eq!(s.top(), top);
    assert!(s.view.below(&s.log).new);
    // Narrow enough to wrap every line, then wide again.
    for width in [16, 40, 12, 100, 60] {
        s.width = width;
        let lines = s.draw();
        let start = format!("{} {}", lines[0].trim(), lines[1].trim());
        assert!(start.starts_with("line 0140"), "{width}: {start}");
    }
    for height in [5, 50, 20] {
        s.height = height;
        assert_eq!(s.top(), top);
    }
    s.log.push(0, sample::text("another"));
    assert_eq!(s.top(), top);
    assert_eq!(s.view.below(&s.log).entries, 1);
    s.view.end();
    assert_eq!(s.draw()[19].trim(), "another");
    assert!(s.view.following());
    s.log.push(0, sample::text("and more"));
    assert_eq!(s.draw()[19].trim(), "and more");
}

#[test]
fn reaching_the_end_follows_again() {
    let mut s = Scene::new(stream(100), 60, 10);
    s.draw();
    s.view.scroll(-5);
    s.draw();
    s.view.scroll(3);
    s.draw();
    assert!(!s.view.following());
    s.view.scroll(2);
    let lines = s.draw();
    assert!(s.view.following());
    assert!(lines[9].contains("line 0099"));
    // Beyond the end is the end.
    s.view.scroll(-3);
    s.view.scroll(1000);
    assert!(s.draw()[9].contains("line 0099"));
    assert!(s.view.following());
}

#[test]
fn pages_home_end_and_prompts() {
    let mut log = TranscriptLog::new();
    for n in 0..30 {
        log.push(0, sample::user(&format!("prompt {n}")));
        log.push(0, sample::text(&"text\n".repeat(8)));
    }
    let mut s = Scene::new(log, 40, 11);
    s.draw();
    s.view.home();
    assert_eq!(s.top(), "» prompt 0");
    s.view.page(1);
    // One row of the old page stays: row 10 of 0-based rows.
    assert_eq!(s.view.position().top, 0);
    s.draw();
    assert_eq!(s.view.position().top, 10);
    s.view.half_page(1);
    s.draw();
    assert_eq!(s.view.position().top, 15);
    s.view.page(-1);
    s.draw();
    assert_eq!(s.view.position().top, 5);
    s.view.scroll(-100);
    assert_eq!(s.top(), "» prompt 0");
    s.view.next_prompt();
    s.draw();
    assert_eq!(s.view.hit(1, 1).map(|h| h.0), Some(2));
    s.view.next_prompt();
    s.draw();
    assert_eq!(s.view.visible().next(), Some(4));
    s.view.previous_prompt();
    s.draw();
    assert_eq!(s.view.visible().next(), Some(2));
    s.view.show(20);
    s.draw();
    assert_eq!(s.view.visible().next(), Some(20));
    s.view.end();
    s.draw();
    s.view.next_prompt();
    s.draw();
    assert!(s.view.following());
}

// R-TUI-04, R-TUI-14
#[test]
fn folds_say_how_much_they_hide_and_survive_updates() {
    let mut log = TranscriptLog::new();
    log.push(0, sample::user("go"));
    let output: String = (0..40).map(|n| format!("out {n}\n")).collect();
    let tool = sample::tool(
        "bash",
        r#"{"command":"seq 40"}"#,
        &output,
        pi_agents::fleet::transcript::ToolState::Done,
    );
    log.push(0, EntryKind::Tool(tool));
    log.push(0, sample::text("end"));
    let mut s = Scene::new(log, 60, 60);
    let folded = s.draw();
    assert!(
        folded
            .iter()
            .any(|l| l.trim() == "… 35 earlier lines (ctrl+o to expand)")
    );
    assert!(!folded.iter().any(|l| l.trim() == "out 34"));
    assert!(folded.iter().any(|l| l.trim() == "out 35"));
    let y = u16::try_from(folded.iter().position(|l| l.contains("seq 40")).unwrap()).unwrap();
    let (seq, _) = s.view.hit(5, y).unwrap();
    s.view.toggle(seq);
    let open = s.draw();
    assert!(open.iter().any(|l| l.trim() == "out 0"));
    assert!(open[usize::from(y)].contains("seq 40"));
    // An update of the entry and another width keep it open.
    s.log.update(seq, |kind| {
        if let EntryKind::Tool(tool) = kind {
            tool.took_ms = Some(2000);
        }
    });
    s.width = 50;
    assert!(s.draw().iter().any(|l| l.trim() == "out 0"));
    s.view.toggle_all();
    assert!(s.draw().iter().any(|l| l.trim() == "out 0"));
    s.view.toggle_all();
    assert!(!s.draw().iter().any(|l| l.trim() == "out 0"));
}

// R-TUI-14: the count is of wrapped rows, the same wrap that is drawn.
#[test]
fn hidden_lines_are_counted_in_the_drawn_wrap() {
    for width in [30, 44, 80] {
        let mut log = TranscriptLog::new();
        let output: String = (0..20)
            .map(|n| format!("{n} {}\n", "x".repeat(60)))
            .collect();
        let tool = sample::tool(
            "bash",
            r#"{"command":"x"}"#,
            &output,
            pi_agents::fleet::transcript::ToolState::Done,
        );
        log.push(0, EntryKind::Tool(tool));
        let mut s = Scene::new(log, width, 200);
        let rows = |lines: &[String]| lines.iter().filter(|l| !l.is_empty()).count();
        let folded = s.draw();
        let hidden: usize = folded
            .iter()
            .find_map(|l| l.trim().strip_prefix("… ")?.split(' ').next()?.parse().ok())
            .unwrap();
        s.view.toggle_all();
        let open = s.draw();
        assert_eq!(rows(&folded) - 1 + hidden, rows(&open));
    }
}

#[test]
fn eviction_and_resets_leave_no_hole() {
    let mut s = Scene::new(TranscriptLog::new(), 40, 10);
    assert_eq!(s.top(), "");
    for n in 0..3000 {
        s.log.push(0, sample::text(&format!("entry {n}")));
    }
    s.draw();
    s.view.home();
    assert_eq!(s.top(), "entry 0");
    s.log.evict(64 * 1000, 10);
    assert!(s.log.first_seq() > 1000);
    let first = s.log.first_seq();
    let lines = s.draw();
    assert!(
        lines.iter().any(|l| l.trim() == format!("entry {first}")),
        "{lines:?}"
    );
    s.log = stream(5);
    let lines = s.draw();
    assert!(lines.iter().any(|l| l.contains("line 0004")), "{lines:?}");
    s.log = TranscriptLog::new();
    assert_eq!(s.top(), "");
    s.log = sample::transcript();
    s.view.end();
    assert!(s.draw().iter().any(|l| l.contains("Thinking")));
}

#[test]
fn a_scroll_down_and_up_gives_the_same_screen() {
    // B041
    let mut s = Scene::new(sample::transcript(), 80, 20);
    s.draw();
    s.view.home();
    let before = s.draw();
    for _ in 0..3 {
        s.view.page(1);
        s.draw();
    }
    for _ in 0..3 {
        s.view.page(-1);
        s.draw();
    }
    assert_eq!(s.draw(), before);
}

#[derive(Clone, Debug)]
enum Act {
    Scroll(i64),
    Page(i64),
    Home,
    End,
    Prompt(bool),
    Toggle(u64),
    ToggleAll,
    Width(u16),
    Height(u16),
    Push,
    Append,
    Evict,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (-30i64..30).prop_map(Act::Scroll),
        (-2i64..3).prop_map(Act::Page),
        Just(Act::Home),
        Just(Act::End),
        any::<bool>().prop_map(Act::Prompt),
        (0u64..40).prop_map(Act::Toggle),
        Just(Act::ToggleAll),
        prop_oneof![Just(0u16), 14u16..90].prop_map(Act::Width),
        (0u16..30).prop_map(Act::Height),
        Just(Act::Push),
        Just(Act::Append),
        Just(Act::Evict),
    ];
    prop::collection::vec(act, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    // Whatever happens: no panic, no hole on the screen while there are rows to fill it, and
    // what is drawn is a part of the whole transcript drawn at once.
    #[test]
    fn the_screen_is_always_a_part_of_the_whole(acts in acts()) {
        let mut s = Scene::new(sample::transcript(), 60, 15);
        let stream = s.log.push(0, EntryKind::Text { text: String::new(), done: false });
        for act in acts {
            match act {
                Act::Scroll(n) => s.view.scroll(n),
                Act::Page(n) => s.view.page(n),
                Act::Home => s.view.home(),
                Act::End => s.view.end(),
                Act::Prompt(true) => s.view.next_prompt(),
                Act::Prompt(false) => s.view.previous_prompt(),
                Act::Toggle(seq) => s.view.toggle(seq),
                Act::ToggleAll => s.view.toggle_all(),
                Act::Width(w) => s.width = w,
                Act::Height(h) => s.height = h,
                Act::Push => { s.log.push(0, sample::text("pushed\n\n- a\n- b")); }
                Act::Append => s.log.append(stream, "more *text* of the stream\n\n"),
                Act::Evict => { s.log.evict(2000, 5); }
            }
            let part = s.draw();
            if s.width == 0 || s.height == 0 {
                continue;
            }
            let mut whole = Scene::new(s.log.clone(), s.width, 1200);
            for seq in s.log.first_seq()..s.log.next_seq() {
                if whole.view.is_folded(seq) != s.view.is_folded(seq) {
                    whole.view.toggle(seq);
                }
            }
            let all = whole.draw();
            let used = all.iter().rposition(|l| !l.is_empty()).map_or(0, |n| n + 1);
            let text = all[..used].join("\n");
            let shown = part.iter().rposition(|l| !l.is_empty()).map_or(0, |n| n + 1);
            let shown = part[..shown].join("\n");
            prop_assert!(text.contains(&shown), "{shown}\n---- is not in ----\n{text}");
            let full = usize::from(s.height).min(used);
            let blank = part.iter().rev().take_while(|l| l.is_empty()).count();
            // At most the blank rows between cards are empty at the end.
            prop_assert!(part.len() - blank + 2 >= full, "{part:?}");
            if s.view.following() {
                prop_assert!(part.iter().rev().find(|l| !l.is_empty()) == all[..used].last());
            }
        }
    }
}
