//! The screen shown when nothing could be started: what is missing and the exact way out
//! (screens.md §7).

use ratatui::layout::Rect;

use crate::tui::app::{App, Link};
use crate::tui::layout::{take_bottom, take_top};
use crate::tui::paint::{self, Row};
use crate::tui::text::SafeText;
use crate::tui::width::width;
use crate::tui::wrap::{Mode, wrap};

use super::{Canvas, footer, header};

/// Before what is to be done. A line that begins with two spaces is a command to type, any other says
/// something of it.
const INDENT: &str = "      ";

/// Draws it.
pub fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    let mut area = area;
    let top = take_top(&mut area, 1);
    header::fleet(app, canvas, top);
    let keys = take_bottom(&mut area, 1);
    footer::keys(app, canvas, keys);
    footer::notice(app, canvas, &mut area);
    let Link::Problem(problem) = &app.link else {
        return;
    };
    let theme = &app.theme;
    let cols = usize::from(area.width.saturating_sub(4)).max(1);
    let mut rows = vec![
        Row::new(),
        Row::new()
            .put("  ", theme.text)
            .put(SafeText::line(&problem.title), theme.warning),
        Row::new(),
    ];
    for check in &problem.checks {
        let (icon, style, text_style) = if check.ok {
            (theme.icons.done, theme.success, theme.muted)
        } else {
            (theme.icons.failed, theme.error, theme.text)
        };
        let text = SafeText::block(&check.text);
        let lines = wrap(text.as_safe(), cols.saturating_sub(2).max(1), Mode::Words);
        for (n, range) in lines.into_iter().enumerate() {
            let mut row = Row::new().put("  ", style);
            row.push(if n == 0 { icon } else { " " }, style);
            row.push(" ", style);
            row.push(text.as_safe().slice(range), text_style);
            rows.push(row);
        }
        for line in &check.commands {
            let text = SafeText::block(line);
            let all = usize::from(area.width);
            let is_command = line.starts_with("  ");
            // A command can be copied when it is whole: it gives up its indent before it is broken.
            let indent = if is_command {
                all.saturating_sub(width(text.as_str())).min(INDENT.len())
            } else {
                INDENT.len()
            };
            let indent = INDENT.get(..indent).unwrap_or_default();
            let (mode, style) = if is_command {
                (Mode::Cells, theme.accent)
            } else {
                (Mode::Words, theme.text)
            };
            for range in wrap(
                text.as_safe(),
                all.saturating_sub(indent.len()).max(1),
                mode,
            ) {
                rows.push(
                    Row::new()
                        .put(indent, theme.text)
                        .put(text.as_safe().slice(range), style),
                );
            }
        }
    }
    paint::rows(canvas.buf, area, &rows);
}
