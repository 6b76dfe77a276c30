//! Edits and new files: what changes, as lines with a sign.

use ratatui::style::Style;
use serde_json::Value;

use super::args::Args;
use super::diff::{Line, diff};
use super::tool::{Headline, line, output, path};
use super::{CardCtx, INDENT, MESSAGE_PREVIEW, hidden};
use crate::fleet::transcript::{ToolEntry, ToolState};
use crate::tui::numbers;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::wrap::Mode;

pub(super) fn render(tool: &ToolEntry, args: &Args<'_>, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let pairs = replacements(args);
    let hunks: Vec<Vec<Line<'_>>> = pairs.iter().map(|(old, new)| diff(old, new)).collect();
    let count = |test: fn(&Line<'_>) -> bool| -> u64 {
        hunks.iter().flatten().filter(|l| test(l)).count() as u64
    };
    let added = count(|l| matches!(l, Line::New(_)));
    let gone = count(|l| matches!(l, Line::Gone(_)));
    let mut facts = Vec::new();
    if added + gone > 0 {
        let mark = SafeText::from_static("+").with(&numbers::grouped(added));
        facts.push((mark, theme.tool_diff_added));
    }
    let about = path(args).unwrap_or_default();
    line(tool, Headline { about, facts }, ctx, out);
    if gone > 0
        && let Some(row) = out.last_mut()
    {
        row.push(" ", Style::new());
        let mark = SafeText::from_static("−").with(&numbers::grouped(gone));
        row.push(mark, theme.tool_diff_removed);
    }
    let from = out.len();
    for (i, hunk) in hunks.iter().enumerate() {
        if i > 0 {
            out.push(Row::new().indent(INDENT).put("⋯", theme.dim));
        }
        for line in hunk {
            let (sign, text, style) = match line {
                Line::Same(text) => ("  ", text, theme.tool_diff_context),
                Line::Gone(text) => ("- ", text, theme.tool_diff_removed),
                Line::New(text) => ("+ ", text, theme.tool_diff_added),
            };
            signed(sign, text, style, ctx, out);
        }
    }
    fold(from, ctx, out);
    if tool.state == ToolState::Failed {
        output(tool, &tool.output, ctx, out);
    }
}

pub(super) fn render_write(
    tool: &ToolEntry,
    args: &Args<'_>,
    ctx: &CardCtx<'_>,
    out: &mut Vec<Row>,
) {
    let theme = ctx.theme;
    let content = args.text(&["content"]).unwrap_or_default();
    let about = path(args).unwrap_or_default();
    let mut facts = Vec::new();
    // Cut arguments say nothing about the size of the file.
    if matches!(args, Args::Whole(_)) {
        facts.push((
            numbers::count(content.lines().count() as u64, "line"),
            theme.muted,
        ));
    }
    line(tool, Headline { about, facts }, ctx, out);
    if !ctx.folded {
        for text in content.lines() {
            signed("+ ", text, theme.tool_diff_added, ctx, out);
        }
    }
    if tool.state == ToolState::Failed {
        output(tool, &tool.output, ctx, out);
    }
}

fn signed(sign: &'static str, text: &str, style: Style, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let flow = Flow::plain(SafeText::block(text));
    let lines = flow.wrap(ctx.text_width().saturating_sub(2).max(1), Mode::Cells);
    let mut sign = sign;
    let start = || {
        let row = Row::new().indent(INDENT).put(sign, style);
        sign = "  ";
        row
    };
    flow.rows(&lines, style, start, out);
}

fn fold(from: usize, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let rows = out.len() - from;
    if ctx.folded && rows > MESSAGE_PREVIEW + 1 {
        out.truncate(from + MESSAGE_PREVIEW);
        out.push(hidden((rows - MESSAGE_PREVIEW) as u64, "more", false, ctx));
    }
}

/// Old and new texts: Pi's `edits` list, or a single pair.
fn replacements(args: &Args<'_>) -> Vec<(String, String)> {
    let pair = |value: &Value| {
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        Some((text("oldText")?, text("newText")?))
    };
    if let Some(edits) = args.value("edits").and_then(Value::as_array) {
        return edits.iter().filter_map(pair).collect();
    }
    match (args.text(&["oldText"]), args.text(&["newText"])) {
        (Some(old), Some(new)) => vec![(old, new)],
        _ => Vec::new(),
    }
}
