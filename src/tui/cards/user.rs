//! A prompt: what the model was told, on its own ground, with the time it was given.

use jiff::Timestamp;
use ratatui::style::Style;

use super::{CardCtx, INDENT, Keep, MESSAGE_PREVIEW, head, preview};
use crate::tui::numbers;
use crate::tui::paint::Row;
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::wrap::Mode;

pub(super) fn render(text: &str, images: u32, at_ms: i64, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let base = theme.user_message_text;
    let flow = Flow::plain(SafeText::block(text.trim_end()));
    // The first row ends where the time begins.
    let clock = (ctx.width >= 60).then(|| time_of_day(at_ms, ctx)).flatten();
    let cols = ctx.text_width() - clock.as_ref().map_or(0, |_| 6);
    let lines = flow.wrap(cols, Mode::Words);
    let first = out.len();
    let keep = ctx.folded.then_some(Keep::First(MESSAGE_PREVIEW));
    preview(&flow, &lines, keep, 0, base, ctx, out);
    if images > 0 {
        let text = numbers::count(u64::from(images), "image");
        out.push(Row::new().indent(INDENT).put(text, theme.muted));
    }
    if let Some(row) = out.get_mut(first) {
        let mut marked = head(theme.icons.prompt, theme.accent);
        for piece in row.pieces().iter().skip(1) {
            marked.push_piece(piece.clone());
        }
        if let Some(clock) = clock {
            marked = marked
                .put_right(clock, theme.dim)
                .put_right(" ", Style::new());
        }
        *row = marked;
    }
    for row in out.iter_mut().skip(first) {
        row.set_ground(theme.user_message_bg);
    }
}

/// `12:03` in the viewer's zone.
fn time_of_day(at_ms: i64, ctx: &CardCtx<'_>) -> Option<SafeText> {
    let at = Timestamp::from_millisecond(at_ms).ok()?;
    let at = ctx.zone.to_datetime(at);
    Some(numbers::clock(at.hour(), at.minute()))
}
