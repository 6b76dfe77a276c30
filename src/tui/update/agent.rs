//! The view of one agent: message field, stop, abort.

use crate::client::{AgentRef, Request};
use crate::fleet::agent::Status;
use crate::fleet::ids::AgentId;
use crate::tui::app::{App, Call, Effects, Focus, Now, Place, Screen};
use crate::tui::composer::Composer;
use crate::tui::frame::Urgency;
use crate::tui::numbers;
use crate::tui::text::SafeText;

use super::dialog::DialogForm;

/// Which part of the view takes the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentFocus {
    /// The message field.
    #[default]
    Composer,
    /// The open question.
    Dialog,
    /// The conversation.
    Stream,
}

/// What the view of one agent keeps while it is closed.
#[derive(Clone, Debug, Default)]
pub struct AgentScreen {
    /// The message being typed.
    pub draft: Composer,
    /// Focus.
    pub focus: AgentFocus,
    /// The open question, with what was typed into it.
    pub dialog: Option<DialogForm>,
}

fn viewed(app: &App) -> Option<AgentId> {
    match app.screen {
        Screen::Agent(id) => Some(id),
        Screen::Fleet => None,
    }
}

fn screen(app: &App) -> Option<&AgentScreen> {
    app.agents.get(&viewed(app)?)
}

/// Something to send is typed.
#[must_use]
pub fn has_text(app: &App) -> bool {
    screen(app).is_some_and(|agent| !agent.draft.is_blank())
}

/// The viewed agent has a run that can be aborted.
#[must_use]
pub fn is_running(app: &App) -> bool {
    !app.is_lost()
        && viewed(app)
            .and_then(|id| app.agent(id))
            .is_some_and(|agent| agent.status == Status::Running && !agent.closing)
}

/// Sends the typed message: steers the run, starts one, or revives the agent.
pub fn send(app: &mut App, now: Now) -> Effects {
    let Some(id) = viewed(app) else {
        return Effects::new();
    };
    if !super::dispatch::reachable(app, now) {
        return Effects::new();
    }
    let text = app.agents.entry(id).or_default().draft.take();
    app.streams.follow(id);
    vec![send_text(app, id, text, Place::Agent(id))]
}

/// The request of a message.
pub fn send_text(app: &mut App, id: AgentId, text: String, from: Place) -> crate::tui::app::Effect {
    let request = Request::Send {
        agent: AgentRef::Id(id),
        text: text.clone(),
        env: app.settings.env.clone(),
    };
    let call = Call::Send {
        agent: id,
        text,
        from,
    };
    app.ask(call, request)
}

/// New line in the message.
pub fn newline(app: &mut App, _: Now) -> Effects {
    if let Some(field) = app.field() {
        field.newline();
    }
    Effects::new()
}

/// Puts text back into the message field, before what is typed there.
pub fn give_back(app: &mut App, id: AgentId, text: &str) {
    let draft = &mut app.agents.entry(id).or_default().draft;
    if draft.is_blank() {
        draft.set(text);
    } else {
        let typed = draft.text();
        draft.set(&format!("{text}\n\n{typed}"));
    }
}

/// The stop key would stop somebody.
#[must_use]
pub fn can_stop(app: &App) -> bool {
    !app.is_lost()
        && app
            .current()
            .and_then(|id| app.agent(id))
            .is_some_and(|agent| agent.status.is_live() && !agent.closing)
        && !app
            .waiting()
            .any(|call| app.current().is_some_and(|id| *call == Call::Stop(id)))
}

/// A press of the stop key.
pub fn stop_key(app: &mut App, now: Now) -> Effects {
    let Some(id) = app.current() else {
        return Effects::new();
    };
    match app.stop.press(id, now.mono, app.releases) {
        Some(id) => stop(app, now, id),
        None => Effects::new(),
    }
}

/// Stops an agent.
pub fn stop(app: &mut App, _: Now, id: AgentId) -> Effects {
    app.redraw(Urgency::Now);
    let request = Request::Stop {
        agent: AgentRef::Id(id),
    };
    vec![app.ask(Call::Stop(id), request)]
}

/// Esc in the view: closes the topmost thing; with a run going on it arms, then aborts the run;
/// else it goes back. It never stops the agent.
pub fn escape(app: &mut App, now: Now) -> Effects {
    let Some(id) = viewed(app) else {
        return Effects::new();
    };
    let state = app.agents.entry(id).or_default();
    if state.focus == AgentFocus::Stream {
        state.focus = AgentFocus::Composer;
        app.abort.disarm();
        return Effects::new();
    }
    if !is_running(app) {
        return back(app, now);
    }
    if !app.abort.press(id, now.mono) {
        return Effects::new();
    }
    let request = Request::Abort {
        agent: AgentRef::Id(id),
    };
    vec![app.ask(Call::Abort(id), request)]
}

/// `12:03`.
fn time_of_day(zone: &jiff::tz::TimeZone, wall_ms: i64) -> SafeText {
    match jiff::Timestamp::from_millisecond(wall_ms) {
        Ok(at) => {
            let at = zone.to_datetime(at);
            numbers::clock(at.hour(), at.minute())
        }
        Err(_) => SafeText::from_static("before"),
    }
}

/// Back to the fleet. What is typed stays.
pub fn back(app: &mut App, now: Now) -> Effects {
    if let Some(id) = viewed(app) {
        app.mark_seen(id);
        let clock = time_of_day(&app.settings.zone, now.wall);
        app.streams.leave(id, clock);
        app.agents.entry(id).or_default().focus = AgentFocus::Composer;
    }
    app.screen = Screen::Fleet;
    app.selected_at = now.mono;
    app.stop.disarm();
    app.abort.disarm();
    if app.focus == Focus::Dispatch {
        app.focus = Focus::Roster;
    }
    app.redraw(Urgency::Now);
    Effects::new()
}

/// Between message, question and conversation.
pub fn next_focus(app: &mut App, now: Now) -> Effects {
    let Some(id) = viewed(app) else {
        return Effects::new();
    };
    let state = app.agents.entry(id).or_default();
    state.focus = match (state.focus, &state.dialog) {
        (AgentFocus::Composer, Some(_)) => AgentFocus::Dialog,
        (AgentFocus::Composer | AgentFocus::Dialog, _) => AgentFocus::Stream,
        (AgentFocus::Stream, _) => AgentFocus::Composer,
    };
    if let Some(dialog) = &mut state.dialog {
        dialog.since = now.mono;
    }
    Effects::new()
}
