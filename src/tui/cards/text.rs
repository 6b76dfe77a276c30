//! An answer of the model: Markdown, never folded, laid out anew only at its end while it grows.

use super::{CardCtx, INDENT, Memo, Sort};
use crate::tui::paint::Row;
use crate::tui::render::markdown::Look;

pub(super) fn render(text: &str, ctx: &CardCtx<'_>, memo: &mut Memo, out: &mut Vec<Row>) {
    let look = Look {
        cols: ctx.text_width(),
        indent: INDENT,
        theme: ctx.theme,
        base: ctx.theme.text,
    };
    let gap = matches!(ctx.above, Some(Sort::Speech | Sort::Work));
    memo.markdown.update(text, &look, gap, out);
}
