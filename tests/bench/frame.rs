//! Cost of a frame at 200×50 (design §9): a transcript of 100,000 entries and a roster of 1,000
//! agents. Prints p50, p99 and the worst in microseconds. With `--smoke` it runs a few frames of
//! a smaller transcript and only proves that it works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use pi_agents::fleet::agent::{AgentSpec, Status, ToolChoice};
use pi_agents::fleet::ids::{AgentId, HostId};
use pi_agents::fleet::roster::{AgentView, UsageTotals};
use pi_agents::fleet::transcript::{EntryKind, ToolEntry, ToolState, TranscriptLog};
use pi_agents::tui::paint;
use pi_agents::tui::rows::{RowCtx, roster_row};
use pi_agents::tui::theme::{Depth, Ground, Theme};
use pi_agents::tui::viewport::{ViewCtx, Viewport};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const WIDTH: u16 = 200;
const HEIGHT: u16 = 50;

fn tool(n: usize) -> ToolEntry {
    ToolEntry {
        call_id: n.to_string(),
        name: "bash".into(),
        args: format!(r#"{{"command":"npm test -- --shard {n}"}}"#),
        output: "\x1b[32mPASS\x1b[0m src/cart.test.ts\n".repeat(12),
        hidden_lines: 0,
        state: ToolState::Done,
        started_ms: Some(0),
        took_ms: Some(1200),
    }
}

fn transcript(entries: usize) -> TranscriptLog {
    let mut log = TranscriptLog::new();
    for n in 0..entries {
        let kind = match n % 5 {
            0 => EntryKind::User {
                text: format!("Please look at part {n} and say what is slow about it."),
                images: 0,
            },
            1 => EntryKind::Thinking {
                text: "The part has three jobs.\nThey install everything again.".into(),
                done: true,
            },
            2 | 3 => EntryKind::Tool(tool(n)),
            _ => EntryKind::Text {
                text: format!(
                    "## Part {n}\n\nIt has **three** jobs, `a`, `b` and `c`:\n\n- one of them is slow\n- the others are not\n\nCaching would help there, as the install step takes most of the time in each of the jobs."
                ),
                done: true,
            },
        };
        log.push(0, kind);
    }
    log
}

struct Bench {
    theme: Theme,
    buf: Buffer,
    frames: usize,
}

impl Bench {
    fn run(&mut self, name: &str, mut frame: impl FnMut(usize, &Theme, &mut Buffer)) -> Duration {
        let mut times = Vec::with_capacity(self.frames);
        for n in 0..self.frames {
            self.buf.reset();
            let start = Instant::now();
            frame(n, &self.theme, &mut self.buf);
            times.push(start.elapsed());
            black_box(&self.buf);
        }
        times.sort_unstable();
        let at = |p: usize| times[(times.len() - 1) * p / 100];
        println!(
            "{name:<44} p50 {:>8.1} µs   p99 {:>8.1} µs   max {:>8.1} µs",
            at(50).as_secs_f64() * 1e6,
            at(99).as_secs_f64() * 1e6,
            at(100).as_secs_f64() * 1e6
        );
        at(99)
    }
}

fn view_ctx<'a>(theme: &'a Theme, zone: &'a TimeZone, n: usize) -> ViewCtx<'a> {
    ViewCtx {
        theme,
        now_ms: i64::try_from(n).unwrap() * 16,
        spinner: Some(n / 8),
        zone,
        cursor: None,
    }
}

fn main() {
    let smoke = std::env::args().any(|a| a == "--smoke" || a == "--test");
    let entries = if smoke { 500 } else { 100_000 };
    let mut bench = Bench {
        theme: Theme::load(Ground::Dark, Depth::True),
        buf: Buffer::empty(Rect::new(0, 0, WIDTH, HEIGHT)),
        frames: if smoke { 20 } else { 2000 },
    };
    let area = bench.buf.area;
    let zone = TimeZone::UTC;
    let mut log = transcript(entries);
    let mut view = Viewport::new();
    let mut worst = Duration::ZERO;

    let first = Instant::now();
    view.draw(
        &mut bench.buf,
        area,
        &log,
        &view_ctx(&bench.theme, &zone, 0),
    );
    println!("first frame {:.1} ms", first.elapsed().as_secs_f64() * 1e3);

    worst = worst.max(bench.run("nothing changed", |n, theme, buf| {
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    let stream = log.push(
        0,
        EntryKind::Text {
            text: String::new(),
            done: false,
        },
    );
    worst = worst.max(bench.run("an answer streams in", |n, theme, buf| {
        log.append(stream, "some words of an **answer** that goes on\n\n");
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    let code = log.push(
        0,
        EntryKind::Text {
            text: "```rust\n".into(),
            done: false,
        },
    );
    worst = worst.max(bench.run("a long code block streams in", |n, theme, buf| {
        log.append(code, "    let value = compute(the, next, part);\n");
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    let running = log.push(0, EntryKind::Tool(tool(0)));
    let flood = "a line of output of a build that says a lot\n".repeat(1400);
    worst = worst.max(bench.run("a tool prints, 60 KB kept", |n, theme, buf| {
        log.update(running, |kind| {
            if let EntryKind::Tool(tool) = kind {
                tool.state = ToolState::Running;
                tool.took_ms = None;
                tool.output.clear();
                tool.output.push_str(&flood[n % 40..]);
            }
        });
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    worst = worst.max(bench.run("new entries, following", |n, theme, buf| {
        log.push(0, EntryKind::Tool(tool(n)));
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    worst = worst.max(bench.run("paging back", |n, theme, buf| {
        view.page(-1);
        view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
    }));
    let away = Rect::new(0, 0, WIDTH - 1, HEIGHT);
    worst = worst.max(
        bench.run("another width with every frame", |n, theme, buf| {
            let area = if n % 2 == 0 { away } else { area };
            view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
        }),
    );
    worst = worst.max(
        bench.run("to the start and the end in turn", |n, theme, buf| {
            if n % 2 == 0 {
                view.home()
            } else {
                view.end()
            }
            view.draw(buf, area, &log, &view_ctx(theme, &zone, n));
        }),
    );

    let agents: Vec<AgentView> = (0..1000).map(agent).collect();
    worst = worst.max(bench.run("50 of 1,000 roster rows", |n, theme, buf| {
        for (i, view) in agents
            .iter()
            .skip(n % 900)
            .take(usize::from(HEIGHT))
            .enumerate()
        {
            let ctx = RowCtx {
                theme,
                now_ms: 60_000,
                spinner: Some(n),
                selected: i == 3,
                unread: i % 7 == 0,
                tree: "",
                name_cols: 6,
            };
            let (row, second) = roster_row(view, &ctx);
            let y = u16::try_from(i).unwrap();
            row.paint(buf, 0, y, WIDTH);
            black_box(second);
        }
        paint::ground(buf, area, Style::new());
    }));

    println!("worst p99 {:.2} ms of 2 ms", worst.as_secs_f64() * 1e3);
    if !smoke && worst > Duration::from_millis(2) {
        println!("over the budget");
        std::process::exit(1);
    }
}

fn agent(n: usize) -> AgentView {
    AgentView {
        id: AgentId::fresh(),
        name: format!("ag{n}"),
        host: HostId::fresh(),
        parent: None,
        depth: 1,
        key: format!("ag{n}"),
        waited_for: false,
        spec: AgentSpec {
            label: format!("Check part {n} of the configuration and report"),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: "/code".into(),
            persistent: true,
            timeout_ms: None,
            call: None,
        },
        model: None,
        thinking: None,
        status: if n.is_multiple_of(3) {
            Status::Idle
        } else {
            Status::Running
        },
        closing: false,
        since_ms: 0,
        run_started_ms: Some(0),
        run_took_ms: None,
        runs_ended: 0,
        usage: UsageTotals::default(),
        context: None,
        tool_uses: 0,
        activity: Some("bash: npm test".into()),
        retry: None,
        compacting: false,
        pending: Vec::new(),
        dialogs: Vec::new(),
        statuses: Vec::new(),
        session_path: None,
        pid: None,
        demo: false,
        rev: 0,
    }
}
