//! The account as lines for a terminal: no line is wider than asked, and nothing in it can act on
//! the terminal (R-TUI-10).

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::fleet::agent::{AgentSpec, ToolChoice};
use crate::fleet::history::{Asked, Explanation, HistoryEntry, ago, state_word};
use crate::fleet::machine::table::State;
use crate::tui::text::SafeText;
use crate::tui::width::width;
use crate::tui::wrap::{Mode, wrap};

/// `18:12:03.220`
const TIME: usize = 12;
/// Room between columns.
const GAP: usize = 2;
/// The longest name of an argument.
const NAMES: usize = 8;
/// What is shown where nothing was given.
const NOTHING: &str = "–";

/// The page: the answer first, then the `most` newest entries, the arguments, and what is known at
/// all. `columns` is the room; times are shown in `zone`.
#[must_use]
pub fn page(of: &Explanation, columns: usize, most: usize, zone: &TimeZone) -> Vec<String> {
    let mut page = Page {
        lines: Vec::new(),
        columns,
        zone,
    };
    page.put("", &of.answer());
    if let Some(way) = of.way_out() {
        for line in way.lines() {
            page.put("  ", line);
        }
    }
    page.blank();
    page.entries(of, most);
    page.blank();
    page.arguments(of.asked.as_ref(), &of.effective);
    page.blank();
    page.known(of);
    page.lines
}

struct Page<'a> {
    lines: Vec<String>,
    columns: usize,
    zone: &'a TimeZone,
}

impl Page<'_> {
    fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A text behind a first column; lines after the first are indented to it.
    fn put(&mut self, first: &str, text: &str) {
        let indent = width(first);
        let mut first = Some(first);
        for line in wrapped(text, self.columns.saturating_sub(indent)) {
            let before = match first.take() {
                Some(first) => first.to_owned(),
                None => " ".repeat(indent),
            };
            self.lines
                .push(format!("{before}{line}").trim_end().to_owned());
        }
    }

    fn entries(&mut self, of: &Explanation, most: usize) {
        let shown: Vec<&HistoryEntry> = of.entries.iter().take(most).collect();
        if shown.is_empty() {
            self.put("", "nothing happened to it since the core started");
            return;
        }
        let process = shown
            .iter()
            .map(|e| process(e).len())
            .max()
            .unwrap_or_default();
        let mut day = self.day(of.now_ms);
        for entry in &shown {
            let here = self.day(entry.at_ms);
            if here != day {
                self.lines.push(here.clone());
                day = here;
            }
            let time = self.time(entry.at_ms, "%H:%M:%S%.3f");
            let first = format!(
                "{time:TIME$}{:GAP$}{:process$}{:between$}",
                "",
                self::process(entry),
                "",
                between = if process > 0 { GAP } else { 0 },
            );
            let mut what = entry.what_words();
            if entry.count > 1 {
                let since = self.time(entry.first_ms, "%H:%M:%S%.3f");
                what.push_str(&format!(" ({} times since {since})", entry.count));
            }
            self.put(&first, &what);
            let indent = " ".repeat(width(&first));
            if let Some(change) = entry.change_words() {
                self.put(&indent, &change);
            }
            let did = entry.did_words();
            if !did.is_empty() {
                self.put(&indent, &did.join(" · "));
            }
        }
        let hidden = of.entries.len() - shown.len();
        if hidden > 0 {
            self.put("", &format!("{hidden} older: `--all` shows them"));
        }
        if of.left_out > 0 {
            self.put(
                "",
                &format!(
                    "{} more were dropped to keep this short, the least telling first",
                    of.left_out
                ),
            );
        }
    }

    fn arguments(&mut self, asked: Option<&Asked>, became: &AgentSpec) {
        let room = self.columns.saturating_sub(NAMES + 2 * GAP);
        let rows = rows(asked, became);
        let widest = rows.iter().map(|(_, asked, _)| width(asked)).max();
        let left = widest
            .unwrap_or_default()
            .clamp(NAMES + 1, (room / 2).max(1));
        let head = if asked.is_some() { "asked for" } else { "" };
        self.row("", head, "became", left);
        for (name, asked, became) in &rows {
            self.row(name, asked, became, left);
        }
    }

    fn row(&mut self, name: &str, asked: &str, became: &str, left: usize) {
        let right = self.columns.saturating_sub(NAMES + 2 * GAP + left);
        let (asked, became) = (wrapped(asked, left), wrapped(became, right));
        for at in 0..asked.len().max(became.len()) {
            let name = if at == 0 { name } else { "" };
            let cell = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let asked = cell(&asked);
            let pad = " ".repeat(left.saturating_sub(width(&asked)));
            let line = format!(
                "{name:NAMES$}{:GAP$}{asked}{pad}{:GAP$}{}",
                "",
                "",
                cell(&became)
            );
            self.lines.push(line.trim_end().to_owned());
        }
    }

    fn known(&mut self, of: &Explanation) {
        if of.model.is_some() || of.thinking.is_some() {
            let model = of.model.as_deref().unwrap_or(NOTHING);
            let thinking = of.thinking.as_deref().unwrap_or(NOTHING);
            let text = format!("model {model} · thinking {thinking}, as the child says");
            self.put("in use    ", &text);
        }
        if let Some(path) = &of.session_path {
            self.put("session   ", &path.to_string_lossy());
        }
        let since = u64::try_from(of.now_ms.saturating_sub(of.known_since_ms)).unwrap_or(0);
        let mut text = format!(
            "since the core started at {} ({}); what was before is lost with the core before it",
            self.moment(of.known_since_ms, of.now_ms),
            ago(since)
        );
        if let Some(recorded) = &of.recorded {
            text.push_str(&format!(
                ", but its record says {} since {}, {} ended",
                state_word(State::of(&recorded.status)),
                self.moment(recorded.since_ms, of.now_ms),
                match of.runs_ended {
                    1 => "1 run".to_owned(),
                    n => format!("{n} runs"),
                }
            ));
        }
        self.put("known     ", &text);
    }

    fn time(&self, at_ms: i64, format: &str) -> String {
        Timestamp::from_millisecond(at_ms).map_or_else(
            |_| String::new(),
            |at| self.zone.to_datetime(at).strftime(format).to_string(),
        )
    }

    fn day(&self, at_ms: i64) -> String {
        self.time(at_ms, "%Y-%m-%d")
    }

    /// The time, with its day when that is another one.
    fn moment(&self, at_ms: i64, now_ms: i64) -> String {
        if self.day(at_ms) == self.day(now_ms) {
            self.time(at_ms, "%H:%M:%S")
        } else {
            self.time(at_ms, "%Y-%m-%d %H:%M:%S")
        }
    }
}

fn process(entry: &HistoryEntry) -> String {
    entry.process.map_or(String::new(), |n| format!("#{n}"))
}

/// A text of others, cleaned, in lines of that many columns.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let text = SafeText::line(text);
    let text = text.as_safe();
    wrap(text, columns.max(1), Mode::Words)
        .into_iter()
        .map(|range| text.slice(range).as_str().to_owned())
        .collect()
}

/// Every argument: its name, as it was given, and what it became.
fn rows(asked: Option<&Asked>, became: &AgentSpec) -> Vec<(&'static str, String, String)> {
    let given = |value: Option<String>| match asked {
        Some(_) => value.unwrap_or_else(|| NOTHING.to_owned()),
        None => String::new(),
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let limit = |ms: u64| {
        if ms.is_multiple_of(1000) {
            format!("{} s", ms / 1000)
        } else {
            format!("{ms} ms")
        }
    };
    let tools = |tools: &ToolChoice| match tools {
        ToolChoice::All => None,
        ToolChoice::Only(names) if names.is_empty() => Some("none".to_owned()),
        ToolChoice::Only(names) => Some(names.join(", ")),
    };
    let own = || "as Pi has it".to_owned();
    let thinking = became.thinking.map(|t| t.as_str().to_owned());
    let mut rows = vec![
        (
            "label",
            given(asked.and_then(|a| a.label.clone())),
            became.label.clone(),
        ),
        (
            "model",
            given(asked.and_then(|a| a.model.clone())),
            became.model.clone().unwrap_or_else(own),
        ),
        (
            "thinking",
            given(asked.and_then(|a| Some(a.thinking?.as_str().to_owned()))),
            thinking.unwrap_or_else(own),
        ),
        (
            "tools",
            given(asked.and_then(|a| tools(&a.tools))),
            tools(&became.tools).unwrap_or_else(own),
        ),
        (
            "folder",
            given(asked.and_then(|a| Some(a.cwd.as_ref()?.to_string_lossy().into_owned()))),
            became.cwd.to_string_lossy().into_owned(),
        ),
        (
            "stays",
            given(asked.and_then(|a| a.persistent.map(yes))),
            yes(became.persistent),
        ),
        (
            "limit",
            given(asked.and_then(|a| a.timeout_ms.map(limit))),
            became.timeout_ms.map_or_else(|| "none".to_owned(), limit),
        ),
    ];
    // Only a tool has one.
    if let Some(call) = &became.call {
        rows.push(("call", String::new(), call.clone()));
    }
    rows
}
