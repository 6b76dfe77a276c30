//! A shell command and its output.

use super::args::Args;
use super::tool::{Headline, absent, line, output};
use super::{CardCtx, INDENT};
use crate::fleet::transcript::{ToolEntry, ToolState};
use crate::tui::numbers;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::wrap::Mode;

/// The line Pi's bash tool ends an output with when the command failed.
const EXITED: &str = "Command exited with code ";

pub(super) fn render(tool: &ToolEntry, args: &Args<'_>, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let command = args.text(&["command"]).unwrap_or_default();
    let command = command.trim();
    let (first, rest) = command.split_once('\n').unwrap_or((command, ""));
    let more = rest.lines().count() as u64;
    let mut facts = Vec::new();
    if more > 0 && ctx.folded {
        facts.push((
            SafeText::from_static("+").with(&numbers::count(more, "line")),
            theme.dim,
        ));
    }
    let (text, code) = exit_code(tool);
    if let Some(code) = code {
        let words = SafeText::from_static("exit ").with(&SafeText::line(code));
        facts.push((words, theme.error));
    }
    line(
        tool,
        Headline {
            about: SafeText::line(first),
            facts,
        },
        ctx,
        out,
    );
    if !ctx.folded && (more > 0 || first.len() > ctx.width / 2) {
        let flow = Flow::plain(SafeText::block(command));
        let lines = flow.wrap(ctx.text_width().saturating_sub(2).max(1), Mode::Cells);
        let mut mark = "$ ";
        let start = || {
            let row = Row::new().indent(INDENT).put(mark, theme.dim);
            mark = "  ";
            row
        };
        flow.rows(&lines, theme.tool_title, start, out);
    }
    if !text.trim().is_empty() || tool.hidden_lines > 0 {
        return output(tool, text, ctx, out);
    }
    match tool.state {
        ToolState::Running => absent("(no output yet)", ctx, out),
        ToolState::Done | ToolState::Failed => absent("(no output)", ctx, out),
        ToolState::Preparing | ToolState::Lost => {}
    }
}

/// Takes Pi's closing line off a failed output.
fn exit_code(tool: &ToolEntry) -> (&str, Option<&str>) {
    let text = tool.output.trim_end();
    if tool.state != ToolState::Failed {
        return (text, None);
    }
    let start = text.rfind('\n').map_or(0, |at| at + 1);
    let code = text
        .get(start..)
        .and_then(|last| last.strip_prefix(EXITED))
        .filter(|code| code.len() < 8);
    match code {
        Some(code) => (text.get(..start).unwrap_or_default().trim_end(), Some(code)),
        None => (text, None),
    }
}
