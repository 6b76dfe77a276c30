//! News of the run: retries, compaction, errors of extensions, the process.

use super::{CardCtx, Keep, MESSAGE_PREVIEW, head, preview};
use crate::fleet::transcript::Level;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::wrap::Mode;

pub(super) fn render(level: Level, text: &str, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let (icon, style, base) = match level {
        Level::Info => (theme.icons.info, theme.muted, theme.muted),
        Level::Warning => (theme.icons.warning, theme.warning, theme.muted),
        Level::Error => (theme.icons.failed, theme.error, theme.error),
    };
    let flow = Flow::plain(SafeText::block(text.trim_end()));
    let lines = flow.wrap(ctx.text_width(), Mode::Words);
    let keep = ctx.folded.then_some(Keep::First(MESSAGE_PREVIEW));
    preview(&flow, &lines, keep, 0, base, ctx, out);
    if let Some(row) = out.first_mut() {
        let mut marked = head(icon, style);
        for piece in row.pieces().iter().skip(1) {
            marked.push_piece(piece.clone());
        }
        *row = marked;
    }
}
