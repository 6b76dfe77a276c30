//! The task line: starts agents and messages them by name.

use crate::client::{Request, SpawnRequest};
use crate::fleet::agent::ToolChoice;
use crate::tui::app::{App, Call, Effects, Focus, Now, Overlay, Place, Screen};
use crate::tui::composer::Composer;

/// How many tasks are remembered.
const HISTORY: usize = 100;

/// The task line.
#[derive(Clone, Debug, Default)]
pub struct Dispatch {
    /// What is typed.
    pub line: Composer,
    /// What was sent, oldest first.
    pub history: Vec<String>,
    /// Which of it is shown, and what was typed before.
    recall: Option<(usize, String)>,
    /// Marked completion.
    pub choice: usize,
}

/// Focus to the line.
pub fn focus(app: &mut App, _: Now) -> Effects {
    app.screen = Screen::Fleet;
    app.focus = Focus::Dispatch;
    Effects::new()
}

/// Focus to the line with `@name ` before what is typed.
pub fn address(app: &mut App, now: Now, name: &str) -> Effects {
    let text = app.dispatch.line.text();
    let rest = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).map_or("", |(_, r)| r),
        None => &text,
    };
    let line = format!("@{name} {rest}");
    app.dispatch.line.set(&line);
    focus(app, now)
}

/// Something was typed: recalling is over, completion begins anew.
pub fn typed(app: &mut App) {
    app.dispatch.recall = None;
    app.dispatch.choice = 0;
}

/// Names that complete what is typed: `@` and the start of a name, nothing behind it.
#[must_use]
pub fn completions(app: &App) -> Vec<String> {
    let text = app.dispatch.line.text();
    let Some(start) = text.strip_prefix('@') else {
        return Vec::new();
    };
    if start.contains(char::is_whitespace) {
        return Vec::new();
    }
    let mut names: Vec<String> = app
        .all()
        .iter()
        .filter(|agent| agent.name.starts_with(start) && agent.name != start)
        .map(|agent| agent.name.clone())
        .collect();
    names.dedup();
    names
}

/// Tab: completes a name, or opens the form with what is typed.
pub fn options(app: &mut App, now: Now) -> Effects {
    let names = completions(app);
    if let Some(name) = names.get(app.dispatch.choice % names.len().max(1)) {
        app.dispatch.line.set(&format!("@{name} "));
        app.dispatch.choice = 0;
        return Effects::new();
    }
    if app.dispatch.line.text().starts_with('@') {
        return Effects::new();
    }
    let text = app.dispatch.line.text();
    super::form::open(app, now, &text)
}

/// Leaves the line; what is typed stays.
pub fn leave(app: &mut App, _: Now) -> Effects {
    app.focus = Focus::Roster;
    Effects::new()
}

/// No task is being typed: the key line then also names what is done to the selected agent.
#[must_use]
pub fn is_not_typed(app: &App) -> bool {
    app.screen != Screen::Fleet || app.focus != Focus::Dispatch || app.dispatch.line.is_blank()
}

/// What is typed is a message to an agent, no task.
#[must_use]
pub fn is_message(app: &App) -> bool {
    app.dispatch.line.text().starts_with('@')
}

/// New line in the task.
pub fn newline(app: &mut App, _: Now) -> Effects {
    app.dispatch.line.newline();
    Effects::new()
}

/// The caret is where Up recalls.
#[must_use]
pub fn at_top(app: &App) -> bool {
    !completions(app).is_empty() || app.dispatch.line.at_top()
}

/// Down goes back to newer tasks.
#[must_use]
pub fn recalling(app: &App) -> bool {
    !completions(app).is_empty() || app.dispatch.recall.is_some() && app.dispatch.line.at_bottom()
}

/// The task before, or the completion above.
pub fn older(app: &mut App, _: Now) -> Effects {
    let names = completions(app).len();
    if names > 0 {
        app.dispatch.choice = (app.dispatch.choice + names - 1) % names;
        return Effects::new();
    }
    let dispatch = &mut app.dispatch;
    let (at, typed) = match dispatch.recall.take() {
        Some((at, typed)) => (at.saturating_sub(1), typed),
        None => match dispatch.history.len().checked_sub(1) {
            Some(last) => (last, dispatch.line.text()),
            None => return Effects::new(),
        },
    };
    if let Some(text) = dispatch.history.get(at) {
        dispatch.line.set(text);
    }
    dispatch.recall = Some((at, typed));
    Effects::new()
}

/// The task after, or the completion below.
pub fn newer(app: &mut App, _: Now) -> Effects {
    let names = completions(app).len();
    if names > 0 {
        app.dispatch.choice = (app.dispatch.choice + 1) % names;
        return Effects::new();
    }
    let dispatch = &mut app.dispatch;
    if let Some((at, typed)) = dispatch.recall.take() {
        match dispatch.history.get(at + 1) {
            Some(text) => {
                dispatch.line.set(text);
                dispatch.recall = Some((at + 1, typed));
            }
            None => dispatch.line.set(&typed),
        }
    }
    Effects::new()
}

/// Starts an agent on the task, or sends the message.
pub fn start(app: &mut App, now: Now) -> Effects {
    begin(app, now, false)
}

/// The same, and opens the agent.
pub fn start_and_open(app: &mut App, now: Now) -> Effects {
    begin(app, now, true)
}

fn begin(app: &mut App, now: Now, open: bool) -> Effects {
    if app.dispatch.line.is_blank() || !reachable(app, now) {
        return Effects::new();
    }
    let text = app.dispatch.line.text();
    if let Some(rest) = text.strip_prefix('@') {
        return message(app, now, rest, open);
    }
    // The focus stays: a second task can be typed at once, and its letters are never commands.
    let draft = app.dispatch.line.take();
    remember(app, &draft);
    if !app.form.waiting {
        // What was filled in belonged to another task.
        app.form = super::form::Form::default();
    }
    let request = SpawnRequest {
        prompt: draft.trim().to_owned(),
        label: None,
        model: app.settings.model.clone(),
        thinking: None,
        tools: ToolChoice::All,
        cwd: None,
        persistent: None,
        timeout_ms: None,
        env: app.settings.env.clone(),
    };
    let call = Call::Spawn {
        draft,
        open,
        key: app.last_key,
        from: Place::Fleet,
    };
    vec![app.ask(call, Request::Spawn(request))]
}

/// There is a core to ask; says so when there is none.
pub fn reachable(app: &mut App, now: Now) -> bool {
    match app.link {
        crate::tui::app::Link::Live => true,
        crate::tui::app::Link::Starting | crate::tui::app::Link::Problem(_) => {
            let place = app.place();
            app.say(
                now,
                place,
                true,
                "still starting; press enter again in a moment",
                None,
            );
            false
        }
        crate::tui::app::Link::Lost { .. } => {
            let place = app.place();
            let hint = app
                .settings
                .reconnects
                .then_some("esc, then r to reconnect");
            app.say(
                now,
                place,
                true,
                match place {
                    Place::Agent(_) => "the core is gone; nothing can be sent",
                    Place::Fleet | Place::Form => "the core is gone; nothing can be started",
                },
                hint,
            );
            false
        }
    }
}

fn remember(app: &mut App, text: &str) {
    let dispatch = &mut app.dispatch;
    dispatch.recall = None;
    dispatch.choice = 0;
    dispatch.history.retain(|old| old != text);
    if dispatch.history.len() == HISTORY {
        dispatch.history.remove(0);
    }
    dispatch.history.push(text.to_owned());
}

/// `@name text`. A task that begins with `@` is written with a blank before it.
fn message(app: &mut App, now: Now, rest: &str, open: bool) -> Effects {
    let (name, body) = rest
        .split_once(char::is_whitespace)
        .map_or((rest, ""), |(name, body)| (name, body.trim()));
    let Some(id) = app
        .all()
        .iter()
        .find(|agent| agent.name == name)
        .map(|agent| agent.id)
    else {
        let known: Vec<String> = app
            .all()
            .iter()
            .map(|agent| format!("@{}", agent.name))
            .collect();
        let known = if known.is_empty() {
            "a blank before @ makes it a task".to_owned()
        } else {
            format!(
                "known here: {} · a blank before @ makes it a task",
                known.join(", ")
            )
        };
        app.say(
            now,
            Place::Fleet,
            true,
            &format!("no agent @{name}"),
            Some(&known),
        );
        return Effects::new();
    };
    if body.is_empty() {
        return super::fleet::open_agent(app, now, id);
    }
    let body = body.to_owned();
    let draft = app.dispatch.line.take();
    remember(app, &draft);
    super::fleet::select(app, now, Some(id));
    if open {
        super::fleet::open_agent(app, now, id);
    }
    vec![super::agent::send_text(app, id, body, Place::Fleet)]
}

/// Puts a text back into the line, unless something else is typed there. The focus stays where
/// the person is: this comes by itself.
pub fn give_back(app: &mut App, text: &str) {
    if app.dispatch.line.is_blank() {
        app.dispatch.line.set(text);
    }
}

/// The form is open.
#[must_use]
pub fn in_form(app: &App) -> bool {
    matches!(app.overlay, Some(Overlay::Form))
}
