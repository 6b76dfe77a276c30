//! A tool call: its line (icon, name, what it is about, time), then its output. Bash and edits
//! have bodies of their own; every other tool is drawn here.

use std::borrow::Cow;

use ratatui::style::{Modifier, Style};

use super::args::Args;
use super::{CardCtx, DOT, INDENT, Keep, OUTPUT_PREVIEW, head, preview, tool_bash, tool_edit};
use crate::fleet::transcript::{ToolEntry, ToolState};
use crate::tui::numbers;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::wrap::Mode;

/// What a tool's line says beside its name.
pub(super) struct Headline {
    /// What it is about: a command, a path, a pattern.
    pub about: SafeText,
    /// Metadata behind it, for example `84 lines`.
    pub facts: Vec<(SafeText, Style)>,
}

pub(super) fn render(tool: &ToolEntry, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let args = Args::parse(&tool.args);
    let first = out.len();
    let name = tool.name.as_str();
    match name {
        "bash" => tool_bash::render(tool, &args, ctx, out),
        "edit" => tool_edit::render(tool, &args, ctx, out),
        "write" => tool_edit::render_write(tool, &args, ctx, out),
        "read" | "grep" | "find" | "ls" => {
            let about = match name {
                "grep" | "find" => searched(&args),
                _ => path(&args),
            };
            let facts = size(tool, name).map(|s| (s, ctx.theme.muted));
            let about = about.unwrap_or_else(|| compact(&tool.args));
            line(
                tool,
                Headline {
                    about,
                    facts: facts.into_iter().collect(),
                },
                ctx,
                out,
            );
            // What a tool read is for the model: shown when asked for, or when it went wrong.
            if !ctx.folded || tool.state == ToolState::Failed {
                output(tool, &tool.output, ctx, out);
            }
        }
        _ => {
            let about = compact(&tool.args);
            line(
                tool,
                Headline {
                    about,
                    facts: Vec::new(),
                },
                ctx,
                out,
            );
            output(tool, &tool.output, ctx, out);
        }
    }
    let ground = match tool.state {
        ToolState::Preparing | ToolState::Running => ctx.theme.tool_pending_bg,
        ToolState::Done => ctx.theme.tool_success_bg,
        ToolState::Failed => ctx.theme.tool_error_bg,
        ToolState::Lost => Style::new(),
    };
    for row in out.iter_mut().skip(first) {
        row.set_ground(ground);
    }
}

/// The line of the tool.
pub(super) fn line(tool: &ToolEntry, headline: Headline, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let (icon, style) = match tool.state {
        ToolState::Preparing => (theme.icons.starting, theme.muted),
        ToolState::Running => (theme.icons.spinner(ctx.spinner), theme.accent),
        ToolState::Done => (theme.icons.done, theme.success),
        ToolState::Failed => (theme.icons.failed, theme.error),
        ToolState::Lost => (theme.icons.stopped, theme.warning),
    };
    let mut row = head(icon, style)
        .put(
            SafeText::line(&tool.name),
            theme.tool_title.add_modifier(Modifier::BOLD),
        )
        .put(" ", Style::new())
        .put(headline.about, theme.tool_title)
        .shrink_last();
    for (fact, style) in headline.facts {
        row.push(DOT, theme.dim);
        row.push(fact, style);
    }
    if tool.state == ToolState::Lost {
        row.push(DOT, theme.dim);
        row.push("the run ended first", theme.warning);
    }
    if let Some(time) = time(tool, ctx) {
        row.push_right(time, theme.muted);
    }
    row.push_right(" ", Style::new());
    out.push(row);
}

/// How long it took, or takes so far; nothing in its first second.
fn time(tool: &ToolEntry, ctx: &CardCtx<'_>) -> Option<SafeText> {
    if let Some(ms) = tool.took_ms {
        return Some(numbers::brief(ms));
    }
    if tool.state != ToolState::Running {
        return None;
    }
    let ms = numbers::since(ctx.now_ms, tool.started_ms?);
    (ms >= 1000).then(|| numbers::short(ms))
}

/// Output with its colours: the end of it when folded.
pub(super) fn output(tool: &ToolEntry, text: &str, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let text = text.trim_end();
    if text.is_empty() && tool.hidden_lines == 0 {
        return;
    }
    let flow = Flow::ansi(&SafeText::ansi(text), ctx.theme);
    let lines = flow.wrap(ctx.text_width(), Mode::Cells);
    let keep = ctx.folded.then_some(Keep::Last(OUTPUT_PREVIEW));
    let base = ctx.theme.tool_output;
    preview(&flow, &lines, keep, tool.hidden_lines, base, ctx, out);
}

/// A dim remark in place of what is missing.
pub(super) fn absent(words: &'static str, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    out.push(Row::new().indent(INDENT).put(words, ctx.theme.dim));
}

pub(super) fn path(args: &Args<'_>) -> Option<SafeText> {
    args.text(&["path", "file_path", "file"])
        .map(|p| SafeText::line(&p))
}

/// `pattern in path`.
fn searched(args: &Args<'_>) -> Option<SafeText> {
    let pattern = SafeText::line(&args.text(&["pattern", "query", "glob"])?);
    Some(match path(args) {
        Some(path) => pattern.with_static(" in ").with(&path),
        None => pattern,
    })
}

/// How much it gave: lines, matches or entries.
fn size(tool: &ToolEntry, name: &str) -> Option<SafeText> {
    if tool.state != ToolState::Done {
        return None;
    }
    let lines = tool.output.trim_end().lines().count() as u64 + tool.hidden_lines;
    Some(match name {
        "read" => numbers::count(lines, "line"),
        "grep" if lines == 1 => SafeText::from_static("1 match"),
        "grep" => numbers::grouped(lines).with_static(" matches"),
        "find" => numbers::count(lines, "file"),
        _ if lines == 1 => SafeText::from_static("1 entry"),
        _ => numbers::grouped(lines).with_static(" entries"),
    })
}

/// Arguments as they are, on one line.
fn compact(args: &str) -> SafeText {
    // Beyond this nothing is ever on one line.
    const MOST: usize = 2000;
    let mut raw = Cow::Borrowed(args.trim());
    if raw == "{}" || raw == "null" {
        return SafeText::default();
    }
    if raw.len() > MOST {
        let cut = raw.floor_char_boundary(MOST);
        raw = Cow::Owned(raw.get(..cut).unwrap_or_default().to_owned());
    }
    SafeText::line(&raw)
}
