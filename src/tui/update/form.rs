//! The form for a new agent (screens.md §5).

use std::path::PathBuf;

use crate::client::{Request, SpawnRequest};
use crate::fleet::agent::{Thinking, ToolChoice};
use crate::tui::app::{App, Call, Effects, Focus, Now, Overlay, Place};
use crate::tui::composer::Composer;

/// The fields, in the order of Tab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    #[default]
    Task,
    Name,
    Model,
    Folder,
    Thinking,
    Tools,
    Stay,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Task,
        Self::Name,
        Self::Model,
        Self::Folder,
        Self::Thinking,
        Self::Tools,
        Self::Stay,
    ];
}

/// What is filled in. Kept when the form is closed.
#[derive(Clone, Debug)]
pub struct Form {
    /// The task.
    pub task: Composer,
    /// Title; empty = made from the task.
    pub name: Composer,
    /// Model; empty = the default.
    pub model: Composer,
    /// Folder; empty = the core's.
    pub folder: Composer,
    /// Thinking level; `None` = the default.
    pub thinking: Option<Thinking>,
    /// Tools; empty = all.
    pub tools: Composer,
    /// Stay idle when done.
    pub stay: bool,
    /// Focused field.
    pub at: Field,
    /// The request is on its way.
    pub waiting: bool,
}

impl Default for Form {
    fn default() -> Self {
        Self {
            task: Composer::default(),
            name: Composer::default(),
            model: Composer::default(),
            folder: Composer::default(),
            thinking: None,
            tools: Composer::default(),
            stay: true,
            at: Field::Task,
            waiting: false,
        }
    }
}

impl Form {
    /// The text field that has the focus.
    pub fn field(&mut self) -> Option<&mut Composer> {
        match self.at {
            Field::Task => Some(&mut self.task),
            Field::Name => Some(&mut self.name),
            Field::Model => Some(&mut self.model),
            Field::Folder => Some(&mut self.folder),
            Field::Tools => Some(&mut self.tools),
            Field::Thinking | Field::Stay => None,
        }
    }

    /// The task has the focus.
    #[must_use]
    pub fn on_task(&self) -> bool {
        self.at == Field::Task
    }
}

/// Opens the form with a task.
pub fn open(app: &mut App, _: Now, task: &str) -> Effects {
    if !task.is_empty() {
        app.form.task.set(task);
    }
    app.form.at = Field::Task;
    app.overlay = Some(Overlay::Form);
    Effects::new()
}

/// Closes the form: the task goes back to the line, the rest stays.
pub fn close(app: &mut App, _: Now) -> Effects {
    let task = app.form.task.text();
    app.dispatch.line.set(&task);
    app.overlay = None;
    app.notice = None;
    app.focus = Focus::Dispatch;
    Effects::new()
}

/// Another field.
pub fn step(app: &mut App, _: Now, by: isize) -> Effects {
    let len = Field::ALL.len();
    let at = Field::ALL
        .iter()
        .position(|field| *field == app.form.at)
        .unwrap_or(0);
    let next = (at + len).saturating_add_signed(by) % len;
    app.form.at = Field::ALL.get(next).copied().unwrap_or_default();
    Effects::new()
}

/// Down leaves the field.
#[must_use]
pub fn at_bottom(app: &App) -> bool {
    !app.form.on_task() || app.form.task.at_bottom()
}

/// Up leaves the field.
#[must_use]
pub fn at_top(app: &App) -> bool {
    !app.form.on_task() || app.form.task.at_top()
}

/// The focused field is a choice.
#[must_use]
pub fn on_choice(app: &App) -> bool {
    matches!(app.form.at, Field::Thinking | Field::Stay)
}

/// The focused field is the task.
#[must_use]
pub fn on_task(app: &App) -> bool {
    app.form.on_task()
}

/// Another choice.
pub fn change(app: &mut App, _: Now, by: isize) -> Effects {
    match app.form.at {
        Field::Stay => app.form.stay = !app.form.stay,
        Field::Thinking => {
            let len = Thinking::ALL.len() + 1;
            let at = app.form.thinking.map_or(0, |level| {
                Thinking::ALL
                    .iter()
                    .position(|other| *other == level)
                    .map_or(0, |at| at + 1)
            });
            let next = (at + len).saturating_add_signed(by) % len;
            app.form.thinking = next
                .checked_sub(1)
                .and_then(|at| Thinking::ALL.get(at))
                .copied();
        }
        Field::Task | Field::Name | Field::Model | Field::Folder | Field::Tools => {}
    }
    Effects::new()
}

/// New line in the task.
pub fn newline(app: &mut App, _: Now) -> Effects {
    app.form.task.newline();
    Effects::new()
}

/// `all`, nothing = Pi's defaults; `none` = no tool; else names separated by commas or blanks.
#[must_use]
pub fn tools(text: &str) -> ToolChoice {
    let names: Vec<String> = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    match names.as_slice() {
        [] => ToolChoice::All,
        [all] if all == "all" => ToolChoice::All,
        [none] if none == "none" => ToolChoice::Only(Vec::new()),
        _ => ToolChoice::Only(names),
    }
}

fn folder(app: &App) -> Option<PathBuf> {
    let text = app.form.folder.text();
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let home = app.settings.home.as_ref();
    Some(match (text.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.clone(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(text),
    })
}

fn filled(field: &Composer) -> Option<String> {
    let text = field.text();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Starts the agent. The form stays until it started, so that an error finds it as it was.
pub fn start(app: &mut App, now: Now) -> Effects {
    if app.form.waiting || !super::dispatch::reachable(app, now) {
        return Effects::new();
    }
    if app.form.task.is_blank() {
        app.form.at = Field::Task;
        app.say(now, Place::Form, true, "a task is needed", None);
        return Effects::new();
    }
    let draft = app.form.task.text();
    let request = SpawnRequest {
        prompt: draft.trim().to_owned(),
        label: filled(&app.form.name),
        model: filled(&app.form.model).or_else(|| app.settings.model.clone()),
        thinking: app.form.thinking,
        tools: tools(&app.form.tools.text()),
        cwd: folder(app),
        persistent: Some(app.form.stay),
        timeout_ms: None,
        env: app.settings.env.clone(),
    };
    app.form.waiting = true;
    let call = Call::Spawn {
        draft,
        open: false,
        key: app.last_key,
        from: Place::Form,
    };
    vec![app.ask(call, Request::Spawn(request))]
}
