//! A message that an extension put into the conversation.

use ratatui::style::{Modifier, Style};

use super::{CardCtx, INDENT, MESSAGE_PREVIEW, head, hidden};
use crate::tui::paint::Row;
use crate::tui::render::markdown::{Look, render as markdown};
use crate::tui::text::SafeText;

pub(super) fn render(custom_type: &str, text: &str, ctx: &CardCtx<'_>, out: &mut Vec<Row>) {
    let theme = ctx.theme;
    let first = out.len();
    out.push(head(theme.icons.info, theme.custom_message_label).put(
        SafeText::line(custom_type),
        theme.custom_message_label.add_modifier(Modifier::BOLD),
    ));
    let look = Look {
        cols: ctx.text_width(),
        indent: INDENT,
        theme,
        base: theme.custom_message_text,
    };
    let from = out.len();
    markdown(text.trim_end(), &look, out);
    let rows = out.len() - from;
    if ctx.folded && rows > MESSAGE_PREVIEW + 1 {
        out.truncate(from + MESSAGE_PREVIEW);
        out.push(hidden((rows - MESSAGE_PREVIEW) as u64, "more", false, ctx));
    }
    for row in out.iter_mut().skip(first) {
        if theme.custom_message_bg != Style::new() {
            row.set_ground(theme.custom_message_bg);
        }
    }
}
