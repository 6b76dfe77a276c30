//! Reasoning: one line of it while folded, all of it when opened.

use ratatui::style::Modifier;

use super::{CardCtx, INDENT};
use crate::tui::paint::Row;
use crate::tui::render::markdown::{Look, render as markdown};
use crate::tui::text::{SafeStr, SafeText};

pub(super) fn render(text: &str, done: bool, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let style = theme.thinking_text.add_modifier(Modifier::ITALIC);
    let label = if done { "Thought" } else { "Thinking…" };
    if ctx.folded {
        let text = SafeText::block(text);
        let mut lines = text.as_safe().lines().map(bare).filter(|l| !l.is_empty());
        // The latest line while it thinks, the first one afterwards: it names the subject.
        let line = if done {
            lines.next()
        } else {
            lines.next_back()
        };
        let mut row = Row::new().indent(INDENT).put(label, theme.dim);
        if let Some(line) = line {
            row = row.put("  ", theme.dim).put(line, style);
        }
        row.push_right(" ", style);
        out.push(row);
        return;
    }
    out.push(Row::new().indent(INDENT).put(label, theme.dim));
    let look = Look {
        cols: ctx.text_width(),
        indent: INDENT,
        theme,
        base: style,
    };
    markdown(text.trim(), &look, out);
}

/// A line without the marks of Markdown at its ends.
fn bare(line: SafeStr<'_>) -> SafeStr<'_> {
    line.trim_matches(&['*', '#', '_', ' ', '`'])
}
