//! The fleet screen: selection, panes, what is unread, what waits.

use crate::client::Request;
use crate::fleet::agent::{Status, StopCause};
use crate::fleet::ids::AgentId;
use crate::fleet::roster::AgentView;
use crate::tui::action::Context;
use crate::tui::app::{App, Attempt, Call, Effect, Effects, Focus, Link, Now, Screen};
use crate::tui::frame::Urgency;
use crate::tui::layout::{Class, class};

/// What was seen of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Runs ended.
    pub runs: u64,
    /// Since when it is failed, if it is.
    pub failed: Option<i64>,
}

impl Seen {
    fn of(agent: &AgentView) -> Self {
        Self {
            runs: agent.runs_ended,
            failed: matches!(agent.status, Status::Failed { .. }).then_some(agent.since_ms),
        }
    }
}

impl App {
    /// Ended something since it was last open.
    #[must_use]
    pub fn is_unread(&self, agent: &AgentView) -> bool {
        let seen = self.seen.get(&agent.id).copied().unwrap_or_default();
        let now = Seen::of(agent);
        now.runs > seen.runs || (now.failed.is_some() && now.failed != seen.failed)
    }

    /// The person stopped it, here or in a shell: the run that ended by it is no news. `before` = how
    /// it was before the change that is here now.
    pub fn no_news_of_a_stop(&mut self, id: AgentId, before: Option<&Before>) {
        let by_you = |status: &Status| *status == Status::Stopped { by: StopCause::You };
        let Some(agent) = self.agent(id).filter(|agent| by_you(&agent.status)) else {
            return;
        };
        let runs = agent.runs_ended;
        let (was, stopped) = before.map_or((0, false), |b| (b.runs_ended, by_you(&b.status)));
        if !stopped && runs > was {
            let seen = self.seen.entry(id).or_default();
            seen.runs = runs.min(seen.runs + 1);
        }
    }

    /// It is open now.
    pub fn mark_seen(&mut self, id: AgentId) {
        if let Some(seen) = self.agent(id).map(Seen::of) {
            self.seen.insert(id, seen);
        }
    }
}

/// What of an agent is compared with news of it.
#[derive(Clone, Debug)]
pub struct Before {
    /// Runs that had ended.
    pub runs_ended: u64,
    /// Its state.
    pub status: Status,
}

impl Before {
    /// As it is now.
    #[must_use]
    pub fn of(agent: &AgentView) -> Self {
        Self {
            runs_ended: agent.runs_ended,
            status: agent.status.clone(),
        }
    }
}

/// Why an agent is in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It asks.
    Asks,
    /// Its last run or its process failed, unseen.
    Failed,
    /// A run ended, unseen.
    Ended,
}

/// An entry of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Who.
    pub agent: AgentId,
    /// Why.
    pub why: Why,
    /// Since when, Unix milliseconds.
    pub since: i64,
}

/// What waits for the person: questions first (the longest waiting on top), then what ended
/// unseen, newest first.
#[must_use]
pub fn inbox(app: &App) -> Vec<Item> {
    let mut items: Vec<Item> = app
        .all()
        .iter()
        .filter_map(|agent| {
            let asks = agent.dialogs.first().filter(|_| agent.status.is_live());
            let (why, since) = match asks {
                Some(dialog) => (Why::Asks, dialog.since_ms),
                None if !app.is_unread(agent) => return None,
                None if matches!(agent.status, Status::Failed { .. }) => {
                    (Why::Failed, agent.since_ms)
                }
                None => (Why::Ended, agent.since_ms),
            };
            Some(Item {
                agent: agent.id,
                why,
                since,
            })
        })
        .collect();
    items.sort_by_key(|item| match item.why {
        Why::Asks => (0, item.since),
        Why::Failed | Why::Ended => (1, -item.since),
    });
    items
}

/// Lines the row of an agent takes in the list: a second one says what it does, asks or why it
/// failed (screens.md §2).
#[must_use]
pub fn row_height(app: &App, agent: &AgentView) -> usize {
    let slim = matches!(class(app.size.0, app.size.1), Class::Slim | Class::TooSmall);
    let says = crate::tui::rows::detail(agent).is_some();
    if says && !slim { 2 } else { 1 }
}

/// The agents in the list, by position, with the lines of each; and how many are folded away:
/// when the rows exceed the space, the oldest finished ones that are neither failed, unread nor
/// selected go first (R-TUI-02).
#[must_use]
pub fn listed(app: &App) -> (Vec<(usize, usize)>, usize) {
    let space = usize::from(app.shape.list_rows);
    let mut all: Vec<(usize, usize)> = app
        .all()
        .iter()
        .enumerate()
        .map(|(at, agent)| (at, row_height(app, agent)))
        .collect();
    let mut lines: usize = all.iter().map(|(_, height)| height).sum();
    if app.show_finished || lines <= space || space == 0 {
        return (all, 0);
    }
    let before = all.len();
    all.retain(|(at, height)| {
        // One line is for the number of those that went.
        if lines < space {
            return true;
        }
        let stays = app.all().get(*at).is_none_or(|agent| {
            agent.status.is_live()
                || matches!(agent.status, Status::Failed { .. })
                || app.selected == Some(agent.id)
                || app.is_unread(agent)
        });
        if !stays {
            lines -= height;
        }
        stays
    });
    let folded = before - all.len();
    (all, folded)
}

/// `a` would change something.
#[must_use]
pub fn folds_finished(app: &App) -> bool {
    app.show_finished || listed(app).1 > 0
}

/// Shows the older finished agents, or folds them away.
pub fn toggle_finished(app: &mut App, _: Now) -> Effects {
    app.show_finished = !app.show_finished;
    Effects::new()
}

/// Selects an agent. Disarms what was armed for another one.
pub fn select(app: &mut App, now: Now, id: Option<AgentId>) -> Effects {
    app.list_pinned = true;
    if app.selected != id {
        app.selected = id;
        app.selected_at = now.mono;
        app.stop.disarm();
        app.abort.disarm();
        app.redraw(Urgency::Now);
    }
    Effects::new()
}

/// There is an agent to act on.
#[must_use]
pub fn has_target(app: &App) -> bool {
    target(app).is_some()
}

fn target(app: &App) -> Option<AgentId> {
    if app.screen == Screen::Fleet && app.focus == Focus::Inbox {
        return inbox(app).get(app.inbox_at).map(|item| item.agent);
    }
    app.current()
}

/// Opens the view of the selected agent.
pub fn open(app: &mut App, now: Now) -> Effects {
    match target(app) {
        Some(id) => open_agent(app, now, id),
        None => Effects::new(),
    }
}

/// Opens the view of an agent.
pub fn open_agent(app: &mut App, now: Now, id: AgentId) -> Effects {
    if app.agent(id).is_none() {
        return Effects::new();
    }
    select(app, now, Some(id));
    app.stop.disarm();
    app.abort.disarm();
    app.screen = Screen::Agent(id);
    app.overlay = None;
    app.mark_seen(id);
    app.streams.enter(id);
    super::dialog::sync(app, now, true);
    app.redraw(Urgency::Now);
    Effects::new()
}

/// Puts `@name ` into the task line.
pub fn message(app: &mut App, now: Now) -> Effects {
    let name = target(app).and_then(|id| app.agent(id).map(|agent| agent.name.clone()));
    match name {
        Some(name) => super::dispatch::address(app, now, &name),
        None => Effects::new(),
    }
}

/// The next row of the pane, or the previous one.
pub fn step(app: &mut App, now: Now, by: isize) -> Effects {
    if app.focus == Focus::Inbox {
        let items = inbox(app);
        app.inbox_at = shift(app.inbox_at, by, items.len());
        let id = items.get(app.inbox_at).map(|item| item.agent);
        return select(app, now, id.or(app.selected));
    }
    let (rows, _) = listed(app);
    let id = |row: usize| {
        let (at, _) = rows.get(row)?;
        app.all().get(*at).map(|agent| agent.id)
    };
    let here = (0..rows.len()).find(|row| id(*row) == app.selected);
    let next = match here {
        Some(row) => id(shift(row, by, rows.len())),
        None => id(0),
    };
    select(app, now, next.or(app.selected))
}

fn shift(at: usize, by: isize, len: usize) -> usize {
    at.saturating_add_signed(by).min(len.saturating_sub(1))
}

/// A page of rows.
pub fn page(app: &mut App, now: Now, by: isize) -> Effects {
    let rows = isize::try_from(app.shape.list_rows.max(2) / 2).unwrap_or(1);
    step(app, now, by * rows)
}

/// The first or the last row.
pub fn edge(app: &mut App, now: Now, last: bool) -> Effects {
    step(app, now, if last { isize::MAX } else { isize::MIN })
}

/// The wheel over the list.
pub fn scroll(app: &mut App, by: isize) -> Effects {
    let lines = listed(app).0.iter().map(|(_, height)| height).sum();
    app.list_top = shift(app.list_top, by, lines);
    app.list_pinned = false;
    app.redraw(Urgency::Now);
    Effects::new()
}

/// Panes on the screen, in the order of Tab.
fn panes(app: &App) -> Vec<Focus> {
    let mut panes = vec![Focus::Roster];
    if app.shape.stream_visible() {
        panes.push(Focus::Stream);
    }
    if app.shape.inbox {
        panes.push(Focus::Inbox);
    }
    panes
}

/// Tab would go somewhere.
#[must_use]
pub fn has_panes(app: &App) -> bool {
    panes(app).len() > 1
}

fn go(app: &mut App, now: Now, by: isize) -> Effects {
    let panes = panes(app);
    let len = panes.len();
    let at = panes
        .iter()
        .position(|pane| *pane == app.focus)
        .unwrap_or(0);
    let next = (at + len).saturating_add_signed(by) % len.max(1);
    app.focus = panes.get(next).copied().unwrap_or(Focus::Roster);
    match app.focus {
        Focus::Inbox => return step(app, now, 0),
        Focus::Stream => {
            if let Some(id) = app.selected {
                app.mark_seen(id);
            }
        }
        Focus::Roster | Focus::Dispatch => {}
    }
    Effects::new()
}

/// Focus to the next pane.
pub fn next_pane(app: &mut App, now: Now) -> Effects {
    go(app, now, 1)
}

/// Focus to the previous pane.
pub fn previous_pane(app: &mut App, now: Now) -> Effects {
    go(app, now, -1)
}

/// Focus to the list.
pub fn focus_roster(app: &mut App, _: Now) -> Effects {
    app.focus = Focus::Roster;
    Effects::new()
}

/// The fleet screen is shown.
#[must_use]
pub fn on_fleet(app: &App) -> bool {
    app.screen == Screen::Fleet
}

/// Somebody waits.
#[must_use]
pub fn anything_waits(app: &App) -> bool {
    !inbox(app).is_empty()
}

/// Goes to the next agent that waits: after the present one, else to the first.
pub fn next_waiting(app: &mut App, now: Now) -> Effects {
    let items = inbox(app);
    let at = app
        .current()
        .and_then(|id| items.iter().position(|item| item.agent == id));
    let next = at.map_or(0, |at| (at + 1) % items.len().max(1));
    let Some(item) = items.get(next).copied() else {
        return Effects::new();
    };
    if let Screen::Agent(_) = app.screen {
        return open_agent(app, now, item.agent);
    }
    if app.focus == Focus::Inbox {
        app.inbox_at = next;
    }
    select(app, now, Some(item.agent))
}

/// The core is lost and can be joined again.
#[must_use]
pub fn can_reconnect(app: &App) -> bool {
    app.settings.reconnects && matches!(app.link, Link::Lost { again: false, .. })
}

/// Joins the core again.
pub fn reconnect(app: &mut App, _: Now) -> Effects {
    if let Link::Lost { again, .. } = &mut app.link {
        *again = true;
    }
    vec![Effect::Connect(Attempt::Reconnect)]
}

/// Which conversations are on the screen.
fn wanted(app: &App) -> Vec<AgentId> {
    match app.screen {
        Screen::Agent(id) => vec![id],
        Screen::Fleet if class(app.size.0, app.size.1) == Class::Wide => {
            app.selected.into_iter().collect()
        }
        Screen::Fleet => Vec::new(),
    }
}

/// Asks for the conversations on the screen, one request at a time.
pub fn watch(app: &mut App) -> Effects {
    if app.link != Link::Live || app.waiting().any(|call| *call == Call::Watch) {
        return Effects::new();
    }
    let wanted = wanted(app);
    if app.streams.watched == wanted {
        return Effects::new();
    }
    app.streams.watched.clone_from(&wanted);
    vec![app.ask(Call::Watch, Request::Watch { agents: wanted })]
}

/// Keeps the selection on an agent that exists, and the focus on a pane that exists.
pub fn hold(app: &mut App, now: Now) {
    if app.fleet.is_none() {
        return;
    }
    if app.selected.is_none_or(|id| app.agent(id).is_none()) {
        let first = app.all().first().map(|agent| agent.id);
        select(app, now, first);
    }
    if let Some(new) = app.expected.filter(|new| app.agent(new.agent).is_some()) {
        app.expected = None;
        // Only while the person did nothing else since.
        if new.key == app.last_key && app.screen == Screen::Fleet && app.overlay.is_none() {
            select(app, now, Some(new.agent));
            if new.open {
                open_agent(app, now, new.agent);
            }
        }
    }
    if let Screen::Agent(id) = app.screen {
        if app.agent(id).is_none() {
            app.screen = Screen::Fleet;
        } else {
            app.mark_seen(id);
        }
    }
    if app.screen == Screen::Fleet && app.contexts().first() == Some(&Context::Inbox) {
        let items = inbox(app).len();
        if items == 0 {
            app.focus = Focus::Roster;
        }
        app.inbox_at = app.inbox_at.min(items.saturating_sub(1));
    }
    let armed = app.stop.armed();
    if armed.is_some_and(|id| {
        app.agent(id)
            .is_none_or(|agent| !agent.status.is_live() || agent.closing)
    }) {
        app.stop.disarm();
    }
    if app.abort.armed().is_some_and(|id| {
        app.agent(id)
            .is_none_or(|agent| agent.status != Status::Running)
    }) {
        app.abort.disarm();
    }
}
