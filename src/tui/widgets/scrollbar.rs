//! A scrollbar of one column: a thumb on a quiet track.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::paint::Row;
use crate::tui::theme::Theme;

/// Paints it into the last column of `area`. Nothing is drawn when everything is visible.
/// `top` = rows above the view, `total` = all rows.
pub fn paint(buf: &mut Buffer, area: Rect, top: u64, total: u64, theme: &Theme) {
    let rows = u64::from(area.height);
    if area.width == 0 || rows == 0 || total <= rows {
        return;
    }
    let thumb = (rows * rows / total).clamp(1, rows);
    let span = total - rows;
    // At either end only when the view is really there.
    let mut at = top.min(span) * (rows - thumb) / span;
    if at == 0 && top > 0 && rows > thumb {
        at = 1;
    }
    for (i, y) in (0..rows).zip(area.top()..) {
        let (mark, style) = if i >= at && i < at + thumb {
            ("┃", theme.border)
        } else {
            ("│", theme.border_muted)
        };
        Row::new()
            .put(mark, style)
            .paint(buf, area.right() - 1, y, 1);
    }
}
