//! Conversations: the copies of the transcripts, where each is scrolled to, what is folded, which
//! entry is marked.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleet::ids::AgentId;
use crate::fleet::transcript::{EntryKind, TranscriptLog, TranscriptPatch};
use crate::tui::app::{App, Effects, Now, Screen};
use crate::tui::cards;
use crate::tui::frame::Urgency;
use crate::tui::numbers;
use crate::tui::text::SafeText;
use crate::tui::theme::Theme;
use crate::tui::viewport::{Below, Mark, ViewCtx, Viewport};
use crate::tui::widgets::scrollbar;

/// How many conversations are kept after they left the screen: going back shows them at once.
const KEEP: usize = 8;

/// One conversation.
#[derive(Debug)]
struct Stream {
    log: TranscriptLog,
    view: Viewport,
    cursor: Option<u64>,
    /// Where its reader left it, and when: first entry that was not seen, time of day.
    left: Option<(u64, SafeText)>,
    /// It was opened, and the news since are not here yet.
    opening: bool,
    /// When it was last on the screen, as a count of drawings.
    used: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            log: TranscriptLog::new(),
            view: Viewport::new(),
            cursor: None,
            left: None,
            opening: false,
            used: 0,
        }
    }
}

impl Stream {
    /// Puts the rule above what is new; nothing new, or never left = no rule.
    fn rule_off(&mut self) {
        let Some((seq, clock)) = self.left.take() else {
            return;
        };
        if self.log.next_seq() <= seq || seq <= self.log.first_seq() {
            return;
        }
        let (mut tools, mut answers) = (0, 0);
        for entry in self.log.iter().filter(|e| e.seq >= seq) {
            match entry.kind {
                EntryKind::Tool(_) => tools += 1,
                EntryKind::Text { .. } => answers += 1,
                EntryKind::User { .. }
                | EntryKind::Thinking { .. }
                | EntryKind::Notice { .. }
                | EntryKind::Custom { .. }
                | EntryKind::RunEnd { .. } => {}
            }
        }
        let mut text = SafeText::from_static("new since ").with(&clock);
        let mut before = " · ";
        for (n, noun) in [(tools, "tool"), (answers, "answer")] {
            if n > 0 {
                text.push_static(before);
                text.push(&numbers::count(n, noun));
                before = ", ";
            }
        }
        self.view.set_mark(Some(Mark { seq, text }));
    }
}

/// All conversations that are known.
#[derive(Debug, Default)]
pub struct Streams {
    by: HashMap<AgentId, Stream>,
    drawings: u64,
    /// The agents asked for last.
    pub watched: Vec<AgentId>,
}

/// How a conversation is to be shown.
#[derive(Clone, Copy, Debug)]
pub struct Show<'a> {
    /// Colours and icons.
    pub theme: &'a Theme,
    /// Zone for times of day.
    pub zone: &'a TimeZone,
    /// Wall clock.
    pub now_ms: i64,
    /// Spinner frame.
    pub spinner: Option<usize>,
    /// The marked entry is shown.
    pub marked: bool,
}

/// What was shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// Something on the screen changes with time.
    pub moves: bool,
    /// There was nothing to show.
    pub empty: bool,
}

/// Where a conversation is scrolled to.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// It follows its end.
    pub following: bool,
    /// What came below meanwhile.
    pub below: Below,
    /// Entries of the whole conversation.
    pub entries: u64,
}

impl Streams {
    /// Takes news of a conversation. `false` = they do not fit.
    pub fn apply(&mut self, id: AgentId, patch: TranscriptPatch) -> bool {
        if !self.watched.contains(&id) && !self.by.contains_key(&id) {
            // News of an agent nobody looks at any more.
            return true;
        }
        let stream = self.by.entry(id).or_default();
        if !self.watched.contains(&id) && !patch.reset && patch.since != stream.log.rev() {
            return true;
        }
        let fits = stream.log.apply(patch);
        if std::mem::take(&mut stream.opening) {
            stream.rule_off();
        }
        self.evict();
        fits
    }

    fn evict(&mut self) {
        while self.by.len() > KEEP {
            let oldest = self
                .by
                .iter()
                .filter(|(id, _)| !self.watched.contains(id))
                .min_by_key(|(_, stream)| stream.used)
                .map(|(id, _)| *id);
            match oldest {
                Some(id) => self.by.remove(&id),
                None => return,
            };
        }
    }

    /// Draws a conversation.
    pub fn draw(&mut self, id: AgentId, buf: &mut Buffer, area: Rect, show: Show<'_>) -> Shown {
        self.drawings += 1;
        let Some(stream) = self.by.get_mut(&id) else {
            return Shown {
                moves: false,
                empty: true,
            };
        };
        stream.used = self.drawings;
        let inner = Rect {
            width: area.width.saturating_sub(1),
            ..area
        };
        let ctx = ViewCtx {
            theme: show.theme,
            now_ms: show.now_ms,
            spinner: show.spinner,
            zone: show.zone,
            cursor: stream.cursor.filter(|_| show.marked),
        };
        stream.view.draw(buf, inner, &stream.log, &ctx);
        let place = stream.view.position();
        scrollbar::paint(buf, area, place.top, place.total, show.theme);
        Shown {
            moves: stream.view.moving(&stream.log),
            empty: stream.log.is_empty(),
        }
    }

    /// Its reader opens a conversation: what came since it was left is ruled off.
    pub fn enter(&mut self, id: AgentId) {
        let watched = self.watched.contains(&id);
        if let Some(stream) = self.by.get_mut(&id) {
            if watched {
                stream.rule_off();
            } else {
                stream.opening = true;
            }
        }
    }

    /// Its reader leaves it, at that time of day.
    pub fn leave(&mut self, id: AgentId, clock: SafeText) {
        if let Some(stream) = self.by.get_mut(&id) {
            stream.left = Some((stream.log.next_seq(), clock));
            stream.opening = false;
            stream.view.set_mark(None);
        }
    }

    /// Where a conversation is scrolled to; `None` = nothing is known of it.
    #[must_use]
    pub fn place(&self, id: AgentId) -> Option<Position> {
        let stream = self.by.get(&id).filter(|stream| !stream.log.is_empty())?;
        Some(Position {
            following: stream.view.following(),
            below: stream.view.below(&stream.log),
            entries: stream.log.next_seq(),
        })
    }

    /// It was asked for and has not come yet.
    #[must_use]
    pub fn is_waiting(&self, id: AgentId) -> bool {
        self.watched.contains(&id) && !self.by.contains_key(&id)
    }

    /// Follows the end of a conversation.
    pub fn follow(&mut self, id: AgentId) {
        if let Some(stream) = self.by.get_mut(&id) {
            stream.view.end();
        }
    }

    /// Throws the drawings away: the theme changed.
    pub fn forget_drawings(&mut self) {
        for stream in self.by.values_mut() {
            stream.view.invalidate();
        }
    }
}

fn current(app: &mut App) -> Option<&mut Stream> {
    let id = app.current()?;
    if !matches!(app.screen, Screen::Agent(_)) && !app.shape.stream_visible() {
        return None;
    }
    app.redraw(Urgency::Now);
    app.streams.by.get_mut(&id)
}

/// A conversation is on the screen.
#[must_use]
pub fn has_stream(app: &App) -> bool {
    app.shape.stream_visible()
        && app
            .current()
            .is_some_and(|id| app.streams.by.contains_key(&id))
}

/// Folds or unfolds everything.
pub fn fold_all(app: &mut App, _: Now) -> Effects {
    if let Some(stream) = current(app) {
        stream.view.toggle_all();
    }
    Effects::new()
}

/// Folds or unfolds the marked entry; marks the last one first when none is.
pub fn fold(app: &mut App, _: Now) -> Effects {
    if let Some(stream) = current(app) {
        match stream.cursor {
            Some(seq) if stream.log.get(seq).is_some_and(|e| cards::folds(&e.kind)) => {
                stream.view.toggle(seq);
            }
            Some(_) => {}
            None => stream.cursor = stream.view.visible().last(),
        }
    }
    Effects::new()
}

/// Marks the next entry, or the previous one.
pub fn select(app: &mut App, _: Now, by: isize) -> Effects {
    if let Some(stream) = current(app) {
        let (first, next) = (stream.log.first_seq(), stream.log.next_seq());
        if first == next {
            return Effects::new();
        }
        let visible: Vec<u64> = stream.view.visible().collect();
        let seq = match stream.cursor.filter(|seq| *seq >= first && *seq < next) {
            Some(seq) => {
                let step = u64::try_from(by.unsigned_abs()).unwrap_or(1);
                if by > 0 {
                    (seq + step).min(next - 1)
                } else {
                    seq.saturating_sub(step).max(first)
                }
            }
            None => visible.last().copied().unwrap_or(next - 1),
        };
        stream.cursor = Some(seq);
        if seq + 1 == next {
            stream.view.end();
        } else if !visible.contains(&seq) || visible.first() == Some(&seq) {
            stream.view.show(seq);
        }
    }
    Effects::new()
}

/// Scrolls by pages.
pub fn page(app: &mut App, _: Now, by: isize) -> Effects {
    if let Some(stream) = current(app) {
        stream.view.page(i64::try_from(by).unwrap_or(0));
    }
    Effects::new()
}

/// Scrolls by lines.
pub fn lines(app: &mut App, _: Now, by: isize) -> Effects {
    if let Some(stream) = current(app) {
        stream.view.scroll(i64::try_from(by).unwrap_or(0));
    }
    Effects::new()
}

/// To the start, or to the end and follows it.
pub fn edge(app: &mut App, _: Now, end: bool) -> Effects {
    if let Some(stream) = current(app) {
        if end {
            stream.view.end();
            stream.cursor = None;
        } else {
            stream.view.home();
            stream.cursor = Some(stream.log.first_seq());
        }
    }
    Effects::new()
}

/// Opens the view of the agent whose conversation has the focus.
pub fn open(app: &mut App, now: Now) -> Effects {
    super::fleet::open(app, now)
}

/// A click: marks the entry; on the marked one it folds or unfolds.
pub fn click(app: &mut App, _: Now, x: u16, y: u16) -> Effects {
    if let Some(stream) = current(app)
        && let Some((seq, _)) = stream.view.hit(x, y)
    {
        let folds = stream.log.get(seq).is_some_and(|e| cards::folds(&e.kind));
        if stream.cursor == Some(seq) && folds {
            stream.view.toggle(seq);
        }
        stream.cursor = Some(seq);
    }
    Effects::new()
}
