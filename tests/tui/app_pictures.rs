//! Pictures of every screen at the sizes of screens.md, and that no size breaks anything.

use pi_agents::client::{ErrorCode, Request, RequestError};
use pi_agents::tui::update::client as news;
use pi_agents::tui::{StartCheck, StartProblem};

use super::desk::Desk;
use super::fake_client::{FakeClient, id};
use super::scripted_fleet as sample;

const SIZES: [(u16, u16); 4] = [(40, 10), (60, 20), (100, 30), (200, 50)];

fn picture(name: &str, desk: &Desk) {
    let (width, height) = desk.app.size;
    insta::assert_snapshot!(format!("{name}-{width}x{height}"), desk.text());
}

fn everywhere(name: &str, prepare: impl Fn(&mut Desk)) {
    for (width, height) in SIZES {
        let mut desk = Desk::new(sample::client(), width, height);
        prepare(&mut desk);
        picture(name, &desk);
    }
}

// R-TUI-01, R-TUI-02
#[test]
fn fleet() {
    everywhere("fleet", |desk| {
        desk.client.agent(id(4), |view| view.runs_ended = 2);
        desk.settle();
    });
}

// R-TUI-05, R-TUI-06
#[test]
fn agent_view() {
    everywhere("agent", |desk| {
        desk.client.agent(id(1), |view| {
            view.pending = vec![sample::pending("also check the lint job")];
            view.statuses = vec![("lint".into(), "clean".into())];
        });
        desk.settle();
        desk.press("enter");
        desk.type_text("and the docs");
    });
}

// R-TUI-07
#[test]
fn question() {
    everywhere("question", |desk| desk.press("down enter"));
}

#[test]
fn form() {
    everywhere("form", |desk| {
        desk.press("n");
        desk.type_text(
            "Find every place that parses dates by hand and list file, line and format.",
        );
        desk.press("tab tab tab tab tab right");
    });
}

#[test]
fn help() {
    everywhere("help", |desk| desk.press("?"));
}

#[test]
fn quit() {
    everywhere("quit", |desk| desk.press("q"));
}

#[test]
fn empty() {
    for (width, height) in SIZES {
        let desk = Desk::new(FakeClient::new(Vec::new()), width, height);
        picture("empty", &desk);
    }
}

#[test]
fn starting() {
    let desk = Desk::starting(FakeClient::new(Vec::new()), 100, 30);
    picture("starting", &desk);
}

#[test]
fn error() {
    everywhere("error", |desk| {
        desk.client.answer(|_, request| {
            matches!(request, Request::Spawn(_)).then(|| {
                Err(
                    RequestError::new(ErrorCode::StartFailed, "model not found: sonet")
                        .with_hint("did you mean sonnet?"),
                )
            })
        });
        desk.press("n");
        desk.type_text("do it");
        desk.press("enter");
    });
}

#[test]
fn lost() {
    everywhere("lost", |desk| {
        desk.client.end();
        desk.settle();
    });
}

fn no_pi() -> StartProblem {
    StartProblem {
        title: "Pi cannot be started here.".into(),
        checks: vec![
            StartCheck {
                ok: true,
                text: "Node 22.21.1".into(),
                commands: Vec::new(),
            },
            StartCheck {
                ok: false,
                text: "Pi is not installed: no `pi` on the PATH".into(),
                commands: vec!["  npm install -g @earendil-works/pi-coding-agent".into()],
            },
        ],
        demo: true,
        again: true,
    }
}

#[test]
fn first_run() {
    for (width, height) in SIZES {
        let mut desk = Desk::starting(FakeClient::new(Vec::new()), width, height);
        news::problem(&mut desk.app, no_pi(), desk.now);
        desk.settle();
        picture("first-run", &desk);
    }
}

#[test]
fn a_command_is_whole_on_every_screen_it_fits() {
    // screens.md: the exact way out, to be copied
    let command = "  npm install -g @earendil-works/pi-coding-agent@latest";
    for columns in 40..=100_u16 {
        let mut desk = Desk::starting(FakeClient::new(Vec::new()), columns, 20);
        let mut problem = no_pi();
        for check in problem.checks.iter_mut().filter(|check| !check.ok) {
            check.commands = vec![command.into()];
        }
        news::problem(&mut desk.app, problem, desk.now);
        desk.settle();
        let text = desk.text();
        let whole = text.lines().any(|line| line.contains(command.trim()));
        assert_eq!(
            whole,
            usize::from(columns) >= command.len(),
            "{columns}\n{text}"
        );
    }
}

// screens.md §7: what is said beside a command is read, not typed: it breaks between its words.
#[test]
fn advice_on_the_first_screen_keeps_its_words_and_its_place() {
    let advice = "Pi starts with only one of a name. Turn that one off, or remove it:";
    for columns in 40..=100_u16 {
        let mut desk = Desk::starting(FakeClient::new(Vec::new()), columns, 20);
        let mut problem = no_pi();
        for check in problem.checks.iter_mut().filter(|check| !check.ok) {
            check.commands = vec![advice.into(), "  pi config".into()];
        }
        news::problem(&mut desk.app, problem, desk.now);
        desk.settle();
        let text = desk.text();
        let lines = text.lines().skip_while(|line| !line.contains("Pi starts"));
        let told: Vec<&str> = lines
            .take_while(|line| !line.contains("pi config"))
            .collect();
        let words: Vec<&str> = told
            .iter()
            .flat_map(|line| line.split_whitespace())
            .collect();
        assert_eq!(words.join(" "), advice, "{columns}\n{text}");
        assert!(
            told.iter().all(|line| line.starts_with("      ")),
            "{columns}\n{text}"
        );
    }
}

#[test]
fn first_run_offers_only_what_there_is() {
    use pi_agents::tui::ExitReason;
    use pi_agents::tui::app::Attempt;
    let mut desk = Desk::starting(FakeClient::new(Vec::new()), 100, 30);
    let problem = StartProblem {
        demo: false,
        ..no_pi()
    };
    news::problem(&mut desk.app, problem, desk.now);
    desk.settle();
    assert!(!desk.keys().contains("demo"), "{}", desk.keys());
    desk.press("d");
    assert!(desk.connects.is_empty());
    desk.press("r");
    assert_eq!(desk.connects, [Attempt::Again]);
    desk.sees("starting…");
    news::problem(&mut desk.app, no_pi(), desk.now);
    desk.settle();
    desk.press("d");
    assert_eq!(desk.connects, [Attempt::Again, Attempt::Demo]);
    desk.press("q");
    assert_eq!(desk.exit, Some(ExitReason::NotStarted));
}

#[test]
fn too_small_says_what_is_needed() {
    for (width, height) in [(39, 10), (40, 9), (20, 3), (13, 1)] {
        let desk = Desk::new(sample::client(), width, height);
        desk.sees("needs 40×10");
    }
}

/// Every way a screen can look, one after the other.
const TOUR: &[&str] = &[
    "", "tab", "tab", "tab", "j", "j", "enter", "tab", "up", "ctrl+o", "esc", "left", "k", "enter",
    "1", "left", "n", "tab", "tab", "tab", "tab", "tab", "right", "esc", "esc", "?", "down", "esc",
    "ctrl+x", "q", "esc", "end", "a",
];

#[test]
fn every_size_from_nothing_on_is_drawn() {
    let mut sizes = vec![(0, 0), (0, 5), (5, 0), (1, 1), (1, 40), (300, 1)];
    for width in (2..=130).step_by(7) {
        for height in (1..=34).step_by(5) {
            sizes.push((width, height));
        }
    }
    let mut desk = Desk::new(sample::client(), 100, 30);
    let mut tour = TOUR.iter().cycle();
    for (width, height) in sizes {
        desk.resize(width, height);
        for _ in 0..5 {
            desk.press(tour.next().unwrap());
        }
        desk.draw();
    }
    desk.resize(100, 30);
    desk.draw();
}

// R-TUI-09, B057: whatever is pressed, nothing is stopped that was not asked for twice.
mod any_keys {
    use super::*;
    use proptest::prelude::*;

    const KEYS: &[&str] = &[
        "enter",
        "esc",
        "tab",
        "shift+tab",
        "up",
        "down",
        "left",
        "right",
        "home",
        "end",
        "pgup",
        "pgdn",
        "ctrl+x",
        "ctrl+o",
        "ctrl+c",
        "alt+enter",
        "ctrl+j",
        "backspace",
        "n",
        "s",
        "w",
        "q",
        "a",
        "?",
        "k",
        "1",
        "2",
        "y",
        "@",
        "x",
        "space",
        "ctrl+up",
        "ctrl+end",
        "ctrl+u",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
        #[test]
        fn never_break_anything(
            keys in proptest::collection::vec((0..KEYS.len(), 0..900_u64), 1..80),
            width in 0..130_u16,
            height in 0..40_u16,
        ) {
            let mut desk = Desk::new(sample::client(), 110, 32);
            let mut pressed = 0;
            for (n, (key, pause)) in keys.iter().enumerate() {
                if n == 40 {
                    desk.resize(width, height);
                }
                let key = KEYS[*key];
                pressed += usize::from(key == "ctrl+x");
                desk.press(key);
                desk.wait(*pause);
            }
            let stops = desk
                .client
                .asked()
                .iter()
                .filter(|request| matches!(request, Request::Stop { .. }))
                .count();
            prop_assert!(stops <= pressed / 2);
        }
    }
}

// design §9: a frame does not depend on how many agents there are.
#[test]
fn only_rows_in_sight_are_built() {
    use super::fake_client::agent;
    use std::time::Instant;
    let time = |count: u128| {
        let agents = (1..=count)
            .map(|n| agent(n, &format!("a{n}"), "work"))
            .collect();
        let mut desk = Desk::new(FakeClient::new(agents), 200, 50);
        desk.press("end");
        let mut best = u128::MAX;
        for _ in 0..7 {
            let start = Instant::now();
            desk.draw();
            best = best.min(start.elapsed().as_micros());
        }
        best
    };
    let (few, many) = (time(50), time(1_000));
    assert!(
        many < few * 4,
        "{few} µs with 50 agents, {many} µs with 1,000"
    );
}
