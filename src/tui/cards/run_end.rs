//! The end of a run: how it ended and what it took (R-DELIV-15).

use super::{CardCtx, DOT, INDENT, head};
use crate::fleet::transcript::Outcome;
use crate::tui::numbers;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::width::width;
use crate::tui::wrap::Mode;

pub(super) fn render(
    outcome: &Outcome,
    took_ms: u64,
    tokens: u64,
    tool_uses: u64,
    ctx: &CardCtx<'_>,
    out: &mut Vec<Row>,
) {
    let theme = ctx.theme;
    let mut row = match outcome {
        Outcome::Completed { cut: false } => {
            head(theme.icons.done, theme.success).put("completed", theme.muted)
        }
        Outcome::Completed { cut: true } => head(theme.icons.done, theme.success)
            .put("completed", theme.muted)
            .put(", cut at the output limit", theme.warning),
        Outcome::Failed { .. } => head(theme.icons.failed, theme.error).put("failed", theme.error),
        Outcome::Stopped { by } => head(theme.icons.stopped, theme.warning)
            .put("stopped ", theme.warning)
            .put(by.words(), theme.warning),
    };
    row.push(DOT, theme.dim);
    row.push("Took ", theme.muted);
    row.push(numbers::exact(took_ms), theme.muted);
    for (n, noun) in [(tokens, "token"), (tool_uses, "tool use")] {
        let fact = numbers::count(n, noun);
        // Whole or not at all: half a number says something else.
        let room = row.left_width() + width(DOT) + width(fact.as_str()) < ctx.width;
        if n > 0 && room {
            row.push(DOT, theme.dim);
            row.push(fact, theme.muted);
        }
    }
    row.set_ground(theme.custom_message_bg);
    out.push(row);
    // The reason is never cut: it is what one needs to act.
    if let Outcome::Failed { reason } = outcome {
        let flow = Flow::plain(SafeText::block(reason.trim()));
        let lines = flow.wrap(ctx.text_width(), Mode::Words);
        let start = || Row::new().indent(INDENT).on(theme.custom_message_bg);
        flow.rows(&lines, theme.error, start, out);
    }
}
