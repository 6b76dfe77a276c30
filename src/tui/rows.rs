//! How an agent is named and shown in one or two rows (R-TUI-02, screens.md §2), and the words
//! and icons of its state everywhere else. Draws nothing itself.

use ratatui::style::Style;

use super::numbers;
use super::paint::Row;
use super::text::SafeText;
use super::theme::Theme;
use crate::fleet::agent::{Status, StopCause};
use crate::fleet::roster::AgentView;

/// State as a person sees it: the agent's status with what overlays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A dialog waits for an answer.
    Asks,
    /// Waits for a launch slot.
    Queued,
    /// Process started, task not yet accepted.
    Starting,
    /// A run is going on.
    Running,
    /// Waits before it asks its provider again.
    Retrying,
    /// Being stopped.
    Stopping,
    /// Waits for a message.
    Idle,
    /// Ended well.
    Done,
    /// Failed.
    Failed,
    /// Stopped on purpose.
    Stopped,
}

/// What a row shows of an agent.
#[must_use]
pub fn shown(view: &AgentView) -> Shown {
    if view.closing {
        return Shown::Stopping;
    }
    match &view.status {
        Status::Failed { .. } => Shown::Failed,
        Status::Stopped { .. } => Shown::Stopped,
        Status::Completed => Shown::Done,
        _ if !view.dialogs.is_empty() => Shown::Asks,
        Status::Queued => Shown::Queued,
        Status::Starting => Shown::Starting,
        Status::Running if view.retry.is_some() => Shown::Retrying,
        Status::Running => Shown::Running,
        Status::Idle => Shown::Idle,
    }
}

/// Icon and colour of a state.
#[must_use]
pub fn icon(shown: Shown, theme: &Theme, spinner: Option<usize>) -> (&'static str, Style) {
    let icons = &theme.icons;
    match shown {
        Shown::Asks => (icons.asks, theme.warning),
        Shown::Queued => (icons.queued, theme.dim),
        Shown::Starting => (icons.starting, theme.accent),
        Shown::Running => (icons.spinner(spinner), theme.accent),
        Shown::Retrying => (icons.spinner(spinner), theme.warning),
        Shown::Stopping => (icons.spinner(spinner), theme.warning),
        Shown::Idle => (icons.idle, theme.muted),
        Shown::Done => (icons.done, theme.success),
        Shown::Failed => (icons.failed, theme.error),
        Shown::Stopped => (icons.stopped, theme.warning),
    }
}

/// Colour of the words of a state.
#[must_use]
pub fn word_style(shown: Shown, theme: &Theme) -> Style {
    match shown {
        Shown::Asks | Shown::Retrying | Shown::Stopping | Shown::Stopped => theme.warning,
        Shown::Queued => theme.dim,
        Shown::Starting | Shown::Running | Shown::Idle | Shown::Done => theme.muted,
        Shown::Failed => theme.error,
    }
}

/// True when the row of this agent moves by itself (spinner, running time).
#[must_use]
pub fn moves(view: &AgentView) -> bool {
    matches!(
        shown(view),
        Shown::Running | Shown::Retrying | Shown::Stopping | Shown::Starting | Shown::Asks
    )
}

/// The state in words, whole: `running 42s`, `asks`, `failed: 401 invalid key`,
/// `stopped by you`, `retrying 2/3 in 4s`.
#[must_use]
pub fn status(view: &AgentView, now_ms: i64) -> SafeText {
    let words = SafeText::from_static;
    match (shown(view), &view.status) {
        (Shown::Asks, _) => words("asks"),
        (Shown::Queued, _) => words("queued"),
        (Shown::Starting, _) => words("starting"),
        (Shown::Running, _) => match elapsed(view, now_ms) {
            Some(time) => words("running ").with(&time),
            None => words("running"),
        },
        (Shown::Retrying, _) => retrying(view, now_ms),
        (Shown::Stopping, _) => words("stopping"),
        (Shown::Idle, _) => words("idle"),
        (Shown::Done, _) => words("completed"),
        (Shown::Failed, Status::Failed { reason }) => {
            words("failed: ").with(&SafeText::line(reason))
        }
        (Shown::Failed, _) => words("failed"),
        (Shown::Stopped, Status::Stopped { by }) => stopped(*by),
        (Shown::Stopped, _) => words("stopped"),
    }
}

fn stopped(by: StopCause) -> SafeText {
    SafeText::from_static("stopped ").with_static(by.words())
}

fn retrying(view: &AgentView, now_ms: i64) -> SafeText {
    let Some(retry) = &view.retry else {
        return SafeText::from_static("retrying");
    };
    let waited = numbers::since(now_ms, retry.since_ms);
    let left = retry.delay_ms.saturating_sub(waited);
    let mut text = SafeText::from_static("retrying ")
        .with(&numbers::plain(u64::from(retry.attempt)))
        .with_static("/")
        .with(&numbers::plain(u64::from(retry.max)));
    if left > 0 {
        text = text
            .with_static(" in ")
            .with(&numbers::short(left.div_ceil(1000) * 1000));
    }
    text
}

/// Length of the present run.
fn elapsed(view: &AgentView, now_ms: i64) -> Option<SafeText> {
    let started = view.run_started_ms?;
    Some(numbers::short(numbers::since(now_ms, started)))
}

/// The right end of a row: a time where it says enough, else a word.
fn short_status(view: &AgentView, now_ms: i64) -> SafeText {
    let words = SafeText::from_static;
    match shown(view) {
        Shown::Running => elapsed(view, now_ms).unwrap_or_else(|| words("running")),
        Shown::Asks => match view.dialogs.first() {
            Some(dialog) => {
                let waits = numbers::since(now_ms, dialog.since_ms);
                words("waits ").with(&numbers::coarse(waits))
            }
            None => words("asks"),
        },
        Shown::Done => view
            .run_took_ms
            .map_or_else(|| words("done"), numbers::short),
        Shown::Failed => words("failed"),
        Shown::Stopped
        | Shown::Retrying
        | Shown::Queued
        | Shown::Starting
        | Shown::Stopping
        | Shown::Idle => status(view, now_ms),
    }
}

/// `@name`.
#[must_use]
pub fn name(view: &AgentView) -> SafeText {
    SafeText::from_static("@").with(&SafeText::line(&view.name))
}

/// Label of the task, on one line; one without visible text is named as such.
#[must_use]
pub fn label(view: &AgentView) -> SafeText {
    let label = SafeText::line(view.spec.label.trim());
    if label.as_safe().trim().is_empty() {
        SafeText::from_static("(no label)")
    } else {
        label
    }
}

/// `@name — label`, the title of a pane or of the terminal.
#[must_use]
pub fn title(view: &AgentView) -> SafeText {
    name(view).with_static(" — ").with(&label(view))
}

/// What an agent is doing, wants or died of: the second line of its row.
#[must_use]
pub fn detail(view: &AgentView) -> Option<(SafeText, Shown)> {
    let state = shown(view);
    let text = match state {
        Shown::Asks => SafeText::line(view.dialogs.first()?.title.trim()),
        Shown::Running if view.compacting => SafeText::from_static("compacting its context"),
        Shown::Running => match view.activity.as_deref().map(str::trim) {
            Some(activity) if !activity.is_empty() => SafeText::line(activity),
            _ => SafeText::from_static("working…"),
        },
        Shown::Retrying => SafeText::line(view.retry.as_ref()?.error.trim()),
        Shown::Failed => match &view.status {
            Status::Failed { reason } => SafeText::line(reason.trim()),
            _ => return None,
        },
        Shown::Queued
        | Shown::Starting
        | Shown::Stopping
        | Shown::Idle
        | Shown::Done
        | Shown::Stopped => return None,
    };
    (!text.is_empty()).then_some((text, state))
}

/// What a row is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct RowCtx<'a> {
    /// Colours and icons.
    pub theme: &'a Theme,
    /// Wall clock, Unix milliseconds.
    pub now_ms: i64,
    /// Frame of the spinner; `None` = reduced motion.
    pub spinner: Option<usize>,
    /// The cursor is on it.
    pub selected: bool,
    /// It ended something nobody looked at yet.
    pub unread: bool,
    /// Lines of the tree before the icon (`├ `), or nothing.
    pub tree: &'static str,
    /// Columns the names of all rows share, so that labels stand under each other; 0 = none.
    pub name_cols: usize,
}

/// The row of an agent and, when there is something to say, its second line.
#[must_use]
pub fn roster_row(view: &AgentView, ctx: &RowCtx<'_>) -> (Row, Option<Row>) {
    let theme = ctx.theme;
    let state = shown(view);
    let (mark, mark_style) = icon(state, theme, ctx.spinner);
    let bar = if ctx.selected {
        theme.icons.selected
    } else {
        " "
    };
    let quiet = matches!(state, Shown::Done | Shown::Stopped) && !ctx.unread;
    let name = name(view);
    let pad = ctx
        .name_cols
        .saturating_sub(super::width::width(name.as_str()));
    let mut row = Row::new()
        .put(bar, theme.accent)
        .put(ctx.tree, theme.border_muted)
        .put(mark, mark_style)
        .put(" ", Style::new())
        .put(name, theme.accent)
        .put(super::paint::blanks(pad + 2), Style::new())
        .put(label(view), if quiet { theme.muted } else { theme.text })
        .shrink_last();
    if ctx.unread {
        row.push("  ", Style::new());
        row.push(theme.icons.unread, theme.accent);
    }
    row = row
        .put_right(short_status(view, ctx.now_ms), word_style(state, theme))
        .put_right(" ", Style::new());
    let second = detail(view).map(|(text, state)| {
        let style = match state {
            Shown::Asks => theme.warning,
            Shown::Failed => theme.error,
            _ => theme.muted,
        };
        Row::new()
            .put(bar, theme.accent)
            .indent(ctx.tree.chars().count() + 5)
            .put(text, style)
            .put_right(" ", Style::new())
    });
    if ctx.selected {
        let ground = theme.selected_bg;
        return (row.on(ground), second.map(|r| r.on(ground)));
    }
    (row, second)
}
