//! Tables: columns as wide as their content, narrowed from the widest on when there is no room.

use pulldown_cmark::Alignment;
use ratatui::style::Style;

use crate::tui::paint::{Row, blanks};
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::theme::Theme;
use crate::tui::width::width;
use crate::tui::wrap::Mode;

/// Columns between two cells: ` │ `.
const GAP: usize = 3;
/// A column is not made narrower than this.
const LEAST: usize = 4;

pub(super) struct Table {
    align: Vec<Alignment>,
    rows: Vec<Vec<Flow>>,
}

impl Table {
    pub(super) fn new(align: Vec<Alignment>) -> Self {
        Self {
            align,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(Flow::new());
        }
    }

    pub(super) fn push(&mut self, text: &str, style: Style) {
        if let Some(cell) = self.rows.last_mut().and_then(|r| r.last_mut()) {
            cell.push(&SafeText::line(text), style);
        }
    }

    pub(super) fn lines(&self, cols: usize, theme: &Theme) -> Vec<Row> {
        if self.align.is_empty() {
            return Vec::new();
        }
        let Some(widths) = self.widths(cols) else {
            return self.list(cols, theme);
        };
        let mut out = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            self.row_lines(row, &widths, theme, &mut out);
            if at == 0 {
                let mut rule = Row::new();
                for (i, w) in widths.iter().enumerate() {
                    if i > 0 {
                        rule.push("─┼─", theme.md_hr);
                    }
                    rule.push(SafeText::repeat('─', *w), theme.md_hr);
                }
                out.push(rule);
            }
        }
        out
    }

    /// Widths that fit, or `None` when the columns would be too narrow to read.
    fn widths(&self, cols: usize) -> Option<Vec<usize>> {
        let n = self.align.len();
        let room = cols.checked_sub(GAP * (n - 1))?;
        let mut widths = vec![1; n];
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(cell.width());
            }
        }
        if widths.iter().sum::<usize>() <= room {
            return Some(widths);
        }
        if room < n * LEAST {
            return None;
        }
        // The widest give way: the highest limit under which all fit.
        let mut limit = LEAST;
        while widths.iter().map(|w| (*w).min(limit + 1)).sum::<usize>() <= room {
            limit += 1;
        }
        let mut spare = room - widths.iter().map(|w| (*w).min(limit)).sum::<usize>();
        for w in &mut widths {
            let cut = (*w).min(limit);
            let more = (*w - cut).min(spare).min(1);
            *w = cut + more;
            spare -= more;
        }
        Some(widths)
    }

    fn row_lines(&self, row: &[Flow], widths: &[usize], theme: &Theme, out: &mut Vec<Row>) {
        let empty = Flow::new();
        let cells: Vec<_> = widths
            .iter()
            .enumerate()
            .map(|(i, w)| {
                let flow = row.get(i).unwrap_or(&empty);
                (flow, flow.wrap(*w, Mode::Words), *w)
            })
            .collect();
        let height = cells.iter().map(|c| c.1.len()).max().unwrap_or(1);
        for y in 0..height {
            let mut line = Row::new();
            for (i, (flow, ranges, w)) in cells.iter().enumerate() {
                if i > 0 {
                    line.push(" │ ", theme.md_hr);
                }
                let range = ranges.get(y).cloned().unwrap_or(0..0);
                let used = width(flow.text().slice(range.clone()).as_str());
                let free = w.saturating_sub(used);
                let before = match self.align.get(i) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    _ => 0,
                };
                line.push(blanks(before), Style::new());
                flow.put(&mut line, range, Style::new());
                if i + 1 < cells.len() {
                    line.push(blanks(free - before), Style::new());
                }
            }
            out.push(line);
        }
    }

    /// Too narrow for columns: every cell on lines of its own behind its heading.
    fn list(&self, cols: usize, theme: &Theme) -> Vec<Row> {
        let mut out = Vec::new();
        let head = self.rows.first();
        for row in self.rows.iter().skip(1) {
            for (i, cell) in row.iter().enumerate() {
                let mut flow = Flow::new();
                if let Some(name) = head.and_then(|h| h.get(i)) {
                    flow.push(name.text(), theme.muted);
                    flow.push_static(": ", theme.muted);
                }
                flow.append(cell);
                let ranges = flow.wrap(cols, Mode::Words);
                flow.rows(&ranges, Style::new(), Row::new, &mut out);
            }
            out.push(Row::new());
        }
        out.pop();
        out
    }
}
