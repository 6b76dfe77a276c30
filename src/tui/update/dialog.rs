//! Questions of children (R-TUI-07): which one is open in the view, and answering it.

use crate::client::{AgentRef, Request};
use crate::fleet::ids::AgentId;
use crate::fleet::roster::{DialogAnswer, DialogKind};
use crate::tui::app::{App, Call, Effects, Now, Screen};
use crate::tui::composer::Composer;
use crate::tui::frame::Urgency;

use super::agent::AgentFocus;

/// A question on the screen, with what was chosen and typed so far.
#[derive(Clone, Debug)]
pub struct DialogForm {
    /// Whose.
    pub agent: AgentId,
    /// Pi's id of it.
    pub id: String,
    /// What it wants.
    pub kind: DialogKind,
    /// Marked choice.
    pub choice: usize,
    /// Typed text.
    pub field: Composer,
    /// When it got the keys, monotonic.
    pub since: u64,
    /// The answer is on its way: exactly one is sent (B014).
    pub sent: bool,
}

/// Keys that were on their way when the question appeared do not answer it.
const SETTLE_MS: u64 = 300;
/// A person who pressed a key this lately is typing: a question does not take the keys away.
const TYPING_MS: u64 = 1000;

impl DialogForm {
    /// It is answered by typing.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(
            self.kind,
            DialogKind::Input { .. } | DialogKind::Editor { .. }
        )
    }

    /// It takes one line.
    #[must_use]
    pub fn is_one_line(&self) -> bool {
        matches!(self.kind, DialogKind::Input { .. })
    }

    /// Number of choices.
    #[must_use]
    pub fn choices(&self) -> usize {
        match &self.kind {
            DialogKind::Select { options } => options.len(),
            DialogKind::Confirm { .. } => 2,
            DialogKind::Input { .. } | DialogKind::Editor { .. } => 0,
        }
    }
}

/// Brings the open question of the viewed agent up to date: the oldest one. It stays while its
/// answer is on the way, so that no further key reaches what is under it. `opened` = the person
/// just opened the view.
pub fn sync(app: &mut App, now: Now, opened: bool) {
    let Screen::Agent(id) = app.screen else {
        return;
    };
    let typing = now.mono.saturating_sub(app.last_key) < TYPING_MS;
    let Some(agent) = app.agent(id) else {
        return;
    };
    let live = agent.status.is_live();
    let open = agent
        .dialogs
        .first()
        .filter(|_| live)
        .map(|dialog| (dialog.id.clone(), dialog.kind.clone()));
    let state = app.agents.entry(id).or_default();
    let Some((dialog, kind)) = open else {
        if state.dialog.take().is_some() || state.focus == AgentFocus::Dialog {
            if state.focus == AgentFocus::Dialog {
                state.focus = AgentFocus::Composer;
            }
            app.redraw(Urgency::Soon);
        }
        return;
    };
    let known = state.dialog.as_ref().is_some_and(|form| form.id == dialog);
    if !known {
        let prefill = match &kind {
            DialogKind::Editor { prefill } => prefill.clone().unwrap_or_default(),
            DialogKind::Select { .. } | DialogKind::Confirm { .. } | DialogKind::Input { .. } => {
                String::new()
            }
        };
        state.dialog = Some(DialogForm {
            agent: id,
            id: dialog,
            kind,
            choice: 0,
            field: Composer::from_text(&prefill),
            since: now.mono,
            sent: false,
        });
    }
    let free = state.draft.is_blank() && state.focus == AgentFocus::Composer;
    if opened && free || !known && free && !typing {
        state.focus = AgentFocus::Dialog;
        if let Some(form) = &mut state.dialog {
            form.since = now.mono;
        }
    }
    if !known {
        app.redraw(Urgency::Soon);
    }
}

fn answer(app: &mut App, now: Now, answer: DialogAnswer) -> Effects {
    let Some(form) = app.dialog_mut() else {
        return Effects::new();
    };
    if form.sent || now.mono.saturating_sub(form.since) < SETTLE_MS {
        return Effects::new();
    }
    form.sent = true;
    let (agent, dialog) = (form.agent, form.id.clone());
    let request = Request::Answer {
        agent: AgentRef::Id(agent),
        dialog: dialog.clone(),
        answer,
    };
    vec![app.ask(Call::Answer(agent, dialog), request)]
}

/// Answers with a choice.
pub fn number(app: &mut App, now: Now, choice: usize) -> Effects {
    let Some(form) = app.dialog_mut() else {
        return Effects::new();
    };
    let said = match &form.kind {
        DialogKind::Select { options } => options.get(choice).cloned().map(DialogAnswer::Value),
        DialogKind::Confirm { .. } => (choice < 2).then_some(DialogAnswer::Confirmed(choice == 0)),
        DialogKind::Input { .. } | DialogKind::Editor { .. } => None,
    };
    match said {
        Some(said) => {
            form.choice = choice;
            answer(app, now, said)
        }
        None => Effects::new(),
    }
}

/// Answers with the marked choice.
pub fn choose(app: &mut App, now: Now) -> Effects {
    match app.dialog().map(|form| form.choice) {
        Some(choice) => number(app, now, choice),
        None => Effects::new(),
    }
}

/// Answers yes.
pub fn yes(app: &mut App, now: Now) -> Effects {
    answer(app, now, DialogAnswer::Confirmed(true))
}

/// Answers no.
pub fn no(app: &mut App, now: Now) -> Effects {
    answer(app, now, DialogAnswer::Confirmed(false))
}

/// The question is one of yes or no.
#[must_use]
pub fn is_confirm(app: &App) -> bool {
    app.dialog()
        .is_some_and(|form| matches!(form.kind, DialogKind::Confirm { .. }))
}

/// The question takes several lines.
#[must_use]
pub fn is_editor(app: &App) -> bool {
    app.dialog()
        .is_some_and(|form| matches!(form.kind, DialogKind::Editor { .. }))
}

/// Marks another choice.
pub fn mark(app: &mut App, by: isize) -> Effects {
    if let Some(form) = app.dialog_mut() {
        let last = form.choices().saturating_sub(1);
        form.choice = form.choice.saturating_add_signed(by).min(last);
    }
    Effects::new()
}

/// Answers with the typed text.
pub fn send_text(app: &mut App, now: Now) -> Effects {
    match app.dialog().map(|form| form.field.text()) {
        Some(text) => answer(app, now, DialogAnswer::Value(text)),
        None => Effects::new(),
    }
}

/// New line in the answer.
pub fn newline(app: &mut App, _: Now) -> Effects {
    if let Some(form) = app.dialog_mut() {
        form.field.newline();
    }
    Effects::new()
}

/// Closes the question without an answer.
pub fn cancel(app: &mut App, now: Now) -> Effects {
    answer(app, now, DialogAnswer::Cancelled)
}
