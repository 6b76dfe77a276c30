//! The walk over a parsed text: containers give prefixes, blocks give rows, inlines give styles.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Tag, TagEnd};
use ratatui::style::{Modifier, Style};

use super::Look;
use super::table::Table;
use crate::tui::numbers;
use crate::tui::paint::{Row, blanks};
use crate::tui::render::flow::Flow;
use crate::tui::text::SafeText;
use crate::tui::width::width;
use crate::tui::wrap::Mode;

/// Where the last top-level block began.
pub(super) struct LastBlock {
    /// Bytes of the source before it.
    pub source: usize,
    /// Rows of the output before it and before the blank row that leads to it.
    pub rows: usize,
    /// A blank row leads to it.
    pub gap: bool,
}

/// How many containers inside each other are indented; deeper ones share the last place.
const MAX_DEPTH: usize = 12;

/// A list item or quote around the present block.
struct Container {
    /// Before its first row (a bullet), until used.
    first: Option<(SafeText, Style)>,
    /// Before every other row.
    rest: (SafeText, Style),
    cols: usize,
}

struct Walk<'a, 'b> {
    look: &'a Look<'a>,
    out: &'b mut Vec<Row>,
    containers: Vec<Container>,
    /// Next number of each open list; `None` = bullets.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    flow: Flow,
    gap: bool,
    /// Something stands above the first row.
    lead: bool,
    code: Option<String>,
    /// Target of the open link and where its text begins; `None` there = an image.
    link: Option<(String, Option<usize>)>,
    table: Option<Table>,
    last: Option<LastBlock>,
    settled: usize,
    depth: usize,
}

/// Renders events; `gap` = a blank row is due before the first block. Returns the last top-level
/// block that begins before `settled`, a byte offset of the source.
pub(super) fn render<'e>(
    events: impl Iterator<Item = (Event<'e>, Range<usize>)>,
    look: &Look<'_>,
    gap: bool,
    settled: usize,
    out: &mut Vec<Row>,
) -> Option<LastBlock> {
    let mut walk = Walk {
        look,
        out,
        containers: Vec::new(),
        lists: Vec::new(),
        styles: Vec::new(),
        flow: Flow::new(),
        gap,
        lead: gap,
        code: None,
        link: None,
        table: None,
        last: None,
        settled,
        depth: 0,
    };
    for (event, range) in events {
        walk.event(event, range.start);
    }
    walk.flush();
    walk.last
}

impl Walk<'_, '_> {
    fn event(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => {
                if self.depth == 0 {
                    self.top_level(at);
                }
                self.depth += 1;
                self.start(tag);
            }
            Event::End(tag) => {
                self.depth = self.depth.saturating_sub(1);
                self.end(tag);
            }
            Event::Text(text) | Event::Html(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.inline(&text, Style::new()),
            },
            Event::InlineHtml(text) => self.inline(&text, self.look.theme.muted),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.inline(&text, self.look.theme.md_code);
            }
            Event::FootnoteReference(name) => {
                self.inline("[^", Style::new());
                self.inline(&name, Style::new());
                self.inline("]", Style::new());
            }
            Event::SoftBreak | Event::HardBreak => self.inline("\n", Style::new()),
            Event::Rule => {
                if self.depth == 0 {
                    self.top_level(at);
                }
                self.open();
                let cols = self.cols().min(40);
                let mut row = self.prefix();
                row.push(SafeText::repeat('─', cols), self.look.theme.md_hr);
                self.out.push(row);
                self.gap = true;
            }
            Event::TaskListMarker(true) => self.inline("[x] ", self.look.theme.success),
            Event::TaskListMarker(false) => self.inline("[ ] ", self.look.theme.muted),
        }
    }

    fn top_level(&mut self, at: usize) {
        self.flush();
        if at < self.settled {
            self.last = Some(LastBlock {
                source: at,
                rows: self.out.len(),
                gap: self.gap_due(),
            });
        }
    }

    fn style(&self) -> Style {
        self.styles
            .iter()
            .fold(self.look.base, |all, s| all.patch(*s))
    }

    fn inline(&mut self, text: &str, style: Style) {
        let style = self.style().patch(style);
        match &mut self.table {
            Some(table) => table.push(text, style),
            None => self.flow.push_raw(text, style),
        }
    }

    fn cols(&self) -> usize {
        let used: usize = self.containers.iter().map(|c| c.cols).sum();
        self.look.cols.saturating_sub(used).max(1)
    }

    /// A row with everything that stands before its text.
    fn prefix(&mut self) -> Row {
        let mut row = Row::new().indent(self.look.indent);
        for container in &mut self.containers {
            let (text, style) = container
                .first
                .take()
                .unwrap_or_else(|| container.rest.clone());
            row.push(text, style);
        }
        row
    }

    /// A blank row separates: before the very first row there is nothing to separate from.
    fn gap_due(&self) -> bool {
        self.gap && (self.lead || !self.out.is_empty())
    }

    /// Before a block: what is open is written, and a blank row if one is due.
    fn open(&mut self) {
        self.flush();
        if self.gap_due() {
            let first: Vec<_> = self.containers.iter_mut().map(|c| c.first.take()).collect();
            let row = self.prefix();
            for (container, first) in self.containers.iter_mut().zip(first) {
                container.first = first;
            }
            self.out.push(row);
        }
        self.gap = false;
    }

    fn flush(&mut self) {
        if self.flow.is_empty() {
            return;
        }
        let flow = std::mem::take(&mut self.flow);
        for range in flow.wrap(self.cols(), Mode::Words) {
            let mut row = self.prefix();
            flow.put(&mut row, range, self.look.base);
            self.out.push(row);
        }
    }

    fn push_container(&mut self, first: Option<(SafeText, Style)>, rest: (SafeText, Style)) {
        let cols = width(rest.0.as_str());
        if self.cols() > cols + 8 && self.containers.len() < MAX_DEPTH {
            self.containers.push(Container { first, rest, cols });
            return;
        }
        // No room to indent any further: the mark stands in the text instead.
        if let Some((text, style)) = first {
            self.flow.push(&text, style);
        }
        self.containers.push(Container {
            first: None,
            rest: (SafeText::default(), Style::new()),
            cols: 0,
        });
    }

    fn start(&mut self, tag: Tag<'_>) {
        let theme = self.look.theme;
        let with = |modifier| Style::new().add_modifier(modifier);
        match tag {
            Tag::Paragraph => self.open(),
            Tag::Heading { level, .. } => {
                self.open();
                let style = theme.md_heading;
                self.styles.push(if level == HeadingLevel::H1 {
                    style.add_modifier(Modifier::UNDERLINED)
                } else {
                    style
                });
            }
            Tag::BlockQuote(_) => {
                self.open();
                let bar = SafeText::from_static("▎ ");
                self.push_container(None, (bar, theme.md_quote_border));
                self.styles.push(theme.md_quote);
            }
            // HTML is shown as the source it is.
            Tag::CodeBlock(_) | Tag::HtmlBlock => {
                self.open();
                self.code = Some(String::new());
            }
            Tag::List(start) => {
                if self.lists.is_empty() {
                    self.open();
                } else {
                    self.flush();
                    self.gap = false;
                }
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush();
                self.gap = false;
                let mark = match self.lists.last_mut() {
                    Some(Some(n)) => {
                        let mark = numbers::plain(*n).with_static(". ");
                        *n = n.saturating_add(1);
                        mark
                    }
                    _ => SafeText::from_static("• "),
                };
                let rest = blanks(width(mark.as_str()));
                self.push_container(Some((mark, theme.md_list_bullet)), (rest, Style::new()));
            }
            Tag::Table(align) => {
                self.open();
                self.table = Some(Table::new(align));
            }
            Tag::TableHead => {
                self.styles.push(with(Modifier::BOLD));
                self.table_row();
            }
            Tag::TableRow => self.table_row(),
            Tag::TableCell => {
                if let Some(table) = &mut self.table {
                    table.cell();
                }
            }
            Tag::Emphasis => self.styles.push(with(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(with(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(with(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } => {
                let at = self.flow.text().as_str().len();
                self.link = Some((dest_url.into_string(), Some(at)));
                self.styles.push(theme.md_link);
            }
            Tag::Image { dest_url, .. } => {
                self.inline("[image: ", theme.dim);
                self.link = Some((dest_url.into_string(), None));
                self.styles.push(theme.muted);
            }
            Tag::FootnoteDefinition(name) => {
                self.open();
                let mark = SafeText::line(&name).with_static(": ");
                self.flow.push(&mark, theme.dim);
                self.push_container(None, (SafeText::from_static("  "), Style::new()));
            }
            Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => self.flush(),
        }
    }

    fn table_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.row();
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.gap = false;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.styles.pop();
                self.containers.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => {
                self.code_block();
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.gap = true;
            }
            TagEnd::Item | TagEnd::FootnoteDefinition => {
                self.flush();
                if self.containers.last().is_some_and(|c| c.first.is_some()) {
                    let row = self.prefix();
                    self.out.push(row);
                }
                self.containers.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let cols = self.cols();
                    for line in table.lines(cols, self.look.theme) {
                        let mut row = self.prefix();
                        row.append(&line);
                        self.out.push(row);
                    }
                }
                self.gap = true;
            }
            TagEnd::TableHead | TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableRow
            | TagEnd::TableCell
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// A link shows where it goes: text from outside may say one thing and lead elsewhere.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((url, at)) = self.link.take() else {
            return;
        };
        let Some(at) = at else {
            return self.inline("]", self.look.theme.dim);
        };
        let text = self.flow.text().as_str().get(at..).unwrap_or_default();
        let same = self.table.is_none()
            && (text == url || url.strip_prefix("mailto:").is_some_and(|u| u == text));
        if !same && !url.is_empty() {
            let style = self.look.theme.md_link_url;
            self.inline(" (", style);
            self.inline(&url, style);
            self.inline(")", style);
        }
    }

    fn code_block(&mut self) {
        let Some(code) = self.code.take() else {
            return;
        };
        let flow = Flow::plain(SafeText::block(code.trim_end_matches(['\n', '\r'])));
        let inset = usize::from(self.cols() > 20) * 2;
        let base = self.look.base.patch(self.look.theme.md_code_block);
        for range in flow.wrap(self.cols().saturating_sub(inset).max(1), Mode::Cells) {
            let mut row = self.prefix().indent(inset);
            flow.put(&mut row, range, base);
            self.out.push(row);
        }
    }
}
