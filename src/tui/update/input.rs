//! Keys, pastes, mouse and focus: finds out what an event means and calls who does it.

use crossterm::event::{Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};

use crate::tui::app::{App, Effects, Focus, NOTICE_MIN_MS, Now, Overlay, Screen};
use crate::tui::frame::Urgency;
use crate::tui::keymap::Chord;
use crate::tui::layout::Spot;

use super::{agent, dispatch, fleet, stream};

/// Lines one turn of the wheel scrolls.
const WHEEL_LINES: isize = 3;

/// One event of the terminal.
pub fn event(app: &mut App, event: Event, now: Now) -> Effects {
    match event {
        Event::Key(event) => key(app, event, now),
        Event::Paste(text) => paste(app, &text, now),
        Event::Mouse(event) => mouse(app, event, now),
        Event::Resize(width, height) => {
            app.size = (width, height);
            app.repaint = true;
            app.redraw(Urgency::Now);
            Effects::new()
        }
        Event::FocusGained => {
            app.window_focus = true;
            app.selected_at = now.mono;
            app.redraw(Urgency::Soon);
            Effects::new()
        }
        Event::FocusLost => {
            app.window_focus = false;
            disarm(app);
            Effects::new()
        }
    }
}

fn disarm(app: &mut App) {
    app.stop.disarm();
    if app.abort.armed().is_some() {
        app.abort.disarm();
        app.redraw(Urgency::Soon);
    }
    if app.stop.changed() {
        app.redraw(Urgency::Soon);
    }
}

/// A key. Releases never act; a repeat acts only where a held key may (B057).
fn key(app: &mut App, event: KeyEvent, now: Now) -> Effects {
    if event.kind != KeyEventKind::Press {
        // Seen once, known for ever: this terminal reports them.
        app.releases = true;
    }
    if event.kind == KeyEventKind::Release {
        return Effects::new();
    }
    let repeat = event.kind == KeyEventKind::Repeat;
    let chord = Chord::of(&event);
    let stack = app.contexts();
    let action = find(app, &stack, chord);
    if repeat && action.is_some_and(|action| !action.repeats) {
        return Effects::new();
    }
    app.redraw(Urgency::Now);
    app.last_key = now.mono;
    let shown = app.notice.as_ref().map(|notice| notice.since);
    if shown.is_some_and(|since| now.mono.saturating_sub(since) >= NOTICE_MIN_MS) {
        app.notice = None;
    }
    let id = action.map(|action| action.id);
    if id != Some("stop") {
        app.stop.disarm();
        app.stop.changed();
    }
    if id != Some("abort") {
        app.abort.disarm();
    }
    let too_soon = super::overlay::too_soon(app, now);
    if too_soon && matches!(id, Some("quit-keep" | "quit-stop")) {
        return Effects::new();
    }
    if let Some(action) = action {
        return (action.run)(app, now);
    }
    type_key(app, chord);
    Effects::new()
}

/// The action of a chord now. In a text field its own keys come first, then what can be typed
/// or edits, then everything outside.
fn find(
    app: &mut App,
    stack: &[crate::tui::action::Context],
    chord: Chord,
) -> Option<&'static crate::tui::action::Action> {
    let (inner, outer) = stack.split_first()?;
    let offered = |app: &App, at: &[crate::tui::action::Context]| {
        at.iter().find_map(|context| {
            app.keymap
                .lookup(&[*context], chord)
                .filter(|action| (action.offered)(app))
        })
    };
    if let Some(action) = offered(app, &[*inner]) {
        return Some(action);
    }
    if inner.is_text() && edits(app, chord) {
        return None;
    }
    offered(app, outer)
}

/// Would the field use this key?
fn edits(app: &mut App, chord: Chord) -> bool {
    app.field().is_some_and(|field| field.uses(chord))
}

fn type_key(app: &mut App, chord: Chord) {
    if app.field().is_some_and(|field| field.key(chord)) {
        after_typing(app);
    }
}

fn after_typing(app: &mut App) {
    if let Some(Overlay::Help { scroll, .. }) = &mut app.overlay {
        *scroll = 0;
    } else if app.overlay.is_none() && app.focus == Focus::Dispatch && app.screen == Screen::Fleet {
        dispatch::typed(app);
    }
}

/// A bracketed paste: text, never keys. Without a field it opens the task line, so that nothing
/// that was pasted is lost (B059, B064).
fn paste(app: &mut App, text: &str, now: Now) -> Effects {
    disarm(app);
    app.redraw(Urgency::Now);
    app.last_key = now.mono;
    let mut effects = Effects::new();
    if app.field().is_none() {
        match (app.screen, &app.overlay) {
            (_, Some(_)) => return effects,
            (Screen::Fleet, None) => effects.extend(dispatch::focus(app, now)),
            (Screen::Agent(id), None) => {
                app.agents.entry(id).or_default().focus = agent::AgentFocus::Composer;
            }
        }
    }
    let one_line = matches!(app.overlay, Some(Overlay::Help { .. }))
        || matches!(app.overlay, Some(Overlay::Form)) && !app.form.on_task()
        || app.dialog().is_some_and(|dialog| dialog.is_one_line())
            && app.contexts().first() == Some(&crate::tui::action::Context::DialogText);
    if let Some(field) = app.field() {
        if one_line {
            field.insert_line(text);
        } else {
            field.insert(text);
        }
        after_typing(app);
    }
    effects
}

fn mouse(app: &mut App, event: MouseEvent, now: Now) -> Effects {
    let spot = app.shape.at(event.column, event.row);
    match event.kind {
        MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
            let down = event.kind == MouseEventKind::ScrollDown;
            let step = if down { 1 } else { -1 };
            if let Some(Overlay::Help { .. }) = app.overlay {
                return super::overlay::scroll(app, step * WHEEL_LINES);
            }
            if app.overlay.is_some() {
                return Effects::new();
            }
            match spot {
                Some(Spot::Stream) => stream::lines(app, now, step * WHEEL_LINES),
                Some(Spot::Agent(_) | Spot::Roster) => fleet::scroll(app, step),
                _ => Effects::new(),
            }
        }
        MouseEventKind::Down(MouseButton::Left) => {
            disarm(app);
            if app.overlay.is_some() {
                return Effects::new();
            }
            app.redraw(Urgency::Now);
            click(app, spot, event.column, event.row, now)
        }
        MouseEventKind::Down(_)
        | MouseEventKind::Up(_)
        | MouseEventKind::Drag(_)
        | MouseEventKind::Moved
        | MouseEventKind::ScrollLeft
        | MouseEventKind::ScrollRight => Effects::new(),
    }
}

fn click(app: &mut App, spot: Option<Spot>, x: u16, y: u16, now: Now) -> Effects {
    match spot {
        Some(Spot::Agent(id)) => {
            // A click on the selected row opens it, as a second click does elsewhere.
            if app.selected == Some(id) && app.focus == Focus::Roster {
                return fleet::open_agent(app, now, id);
            }
            app.focus = Focus::Roster;
            fleet::select(app, now, Some(id))
        }
        Some(Spot::Inbox(at)) => {
            app.focus = Focus::Inbox;
            app.inbox_at = at;
            match fleet::inbox(app).get(at).map(|item| item.agent) {
                Some(id) => fleet::select(app, now, Some(id)),
                None => Effects::new(),
            }
        }
        Some(Spot::Stream) => {
            if app.screen == Screen::Fleet {
                app.focus = Focus::Stream;
            }
            stream::click(app, now, x, y)
        }
        Some(Spot::Dispatch) => dispatch::focus(app, now),
        Some(Spot::Composer) => {
            if let Screen::Agent(id) = app.screen {
                app.agents.entry(id).or_default().focus = agent::AgentFocus::Composer;
            }
            Effects::new()
        }
        Some(Spot::Dialog(choice)) => {
            if let Screen::Agent(id) = app.screen {
                app.agents.entry(id).or_default().focus = agent::AgentFocus::Dialog;
            }
            match choice {
                Some(choice) => super::dialog::number(app, now, choice),
                None => Effects::new(),
            }
        }
        Some(Spot::Roster) => {
            app.focus = Focus::Roster;
            Effects::new()
        }
        None => Effects::new(),
    }
}
