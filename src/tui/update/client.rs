//! What comes from the core: news, answers, the connection itself.

use crate::client::{ErrorCode, Reply, Request, RequestError, Update};
use crate::fleet::ids::AgentId;
use crate::tui::StartProblem;
use crate::tui::app::{App, Call, Effect, Effects, Expected, Focus, Link, Now, Place, Screen};
use crate::tui::frame::Urgency;

use super::fleet::Before;
use super::{agent, dialog, dispatch, fleet};

/// A core is there.
pub fn connected(app: &mut App) {
    app.link = Link::Live;
    app.streams.watched.clear();
    app.redraw(Urgency::Soon);
}

/// No core could be had.
pub fn problem(app: &mut App, problem: StartProblem, now: Now) {
    match app.link {
        // What was seen stays; the reason is said where the key was pressed.
        Link::Lost { at, .. } => {
            app.link = Link::Lost { at, again: false };
            let place = app.place();
            app.say(now, place, true, &problem.title, None);
        }
        Link::Starting | Link::Problem(_) | Link::Live => app.link = Link::Problem(problem),
    }
    app.redraw(Urgency::Soon);
}

/// The core is gone. Rows stay (screens.md §7).
pub fn lost(app: &mut App, now: Now) {
    app.link = Link::Lost {
        at: now.wall,
        again: false,
    };
    app.stop.disarm();
    app.abort.disarm();
    app.redraw(Urgency::Soon);
}

/// A batch of news.
pub fn updates(app: &mut App, batch: Vec<Update>, now: Now) -> Effects {
    let mut resync = false;
    for update in batch {
        match update {
            Update::Snapshot(snapshot) => {
                let first = app.fleet.is_none();
                let known: Vec<AgentId> = app.all().iter().map(|agent| agent.id).collect();
                let before: Vec<_> = app.all().iter().map(|a| (a.id, Before::of(a))).collect();
                app.fleet = Some(*snapshot);
                if first {
                    // What ended before this screen existed is no news.
                    for id in app.all().iter().map(|agent| agent.id).collect::<Vec<_>>() {
                        app.mark_seen(id);
                    }
                    if app.all().is_empty() && app.focus == Focus::Roster {
                        app.focus = Focus::Dispatch;
                    }
                } else {
                    for (id, before) in before {
                        app.no_news_of_a_stop(id, Some(&before));
                    }
                    follow_new(app, now, &known);
                }
            }
            Update::Delta(delta) => {
                let known: Vec<AgentId> = delta
                    .agents
                    .iter()
                    .map(|agent| agent.id)
                    .filter(|id| app.agent(*id).is_some())
                    .collect();
                let fresh: Vec<AgentId> = delta
                    .agents
                    .iter()
                    .map(|agent| agent.id)
                    .filter(|id| !known.contains(id))
                    .collect();
                let before: Vec<_> = delta
                    .agents
                    .iter()
                    .map(|agent| (agent.id, app.agent(agent.id).map(Before::of)))
                    .collect();
                let fits = app.fleet.as_mut().is_some_and(|fleet| fleet.apply(delta));
                resync |= !fits;
                for (id, before) in before {
                    app.no_news_of_a_stop(id, before.as_ref());
                }
                if let Some(id) = fresh.first() {
                    follow(app, now, *id);
                }
            }
            Update::Transcript { agent, patch } => {
                resync |= !app.streams.apply(agent, patch);
            }
        }
    }
    app.redraw(Urgency::Soon);
    if resync && !app.waiting().any(|call| *call == Call::Resync) {
        return vec![app.ask(Call::Resync, Request::Resync)];
    }
    Effects::new()
}

fn follow_new(app: &mut App, now: Now, known: &[AgentId]) {
    let fresh = app
        .all()
        .iter()
        .map(|agent| agent.id)
        .find(|id| !known.contains(id));
    if let Some(id) = fresh {
        follow(app, now, id);
    }
}

/// The selection goes to an agent just started here, if the person did nothing else since.
fn follow(app: &mut App, now: Now, id: AgentId) {
    let last = app.last_key;
    let ours = app
        .waiting()
        .any(|call| matches!(call, Call::Spawn { key, .. } if *key == last));
    if ours && app.screen == Screen::Fleet {
        fleet::select(app, now, Some(id));
    }
}

/// An answer.
pub fn reply(app: &mut App, number: u64, reply: Result<Reply, RequestError>, now: Now) -> Effects {
    let Some(call) = app.answered(number) else {
        return Effects::new();
    };
    app.redraw(Urgency::Soon);
    match (call, reply) {
        (
            Call::Spawn {
                open, key, from, ..
            },
            Ok(Reply::Spawned { agent, .. }),
        ) => {
            if from == Place::Form {
                let draft = app.form.task.take();
                app.dispatch.history.push(draft);
                // The next task is a different one: nothing of this one is kept.
                app.form = super::form::Form::default();
                app.dispatch.line.take();
                if dispatch::in_form(app) {
                    app.overlay = None;
                    app.focus = Focus::Dispatch;
                }
            }
            // Its row may still be on its way; `fleet::hold` goes on when it is there.
            app.expected = Some(Expected { agent, open, key });
            Effects::new()
        }
        // Stopped before it started: nothing to give back; the line's history has the task.
        (Call::Spawn { from, .. }, Err(error)) if error.code == ErrorCode::Gone => {
            if from == Place::Form {
                app.form.waiting = false;
            }
            fail(app, now, app.place(), "not started", &error);
            Effects::new()
        }
        (Call::Spawn { draft, from, .. }, Err(error)) => {
            if from == Place::Form {
                app.form.waiting = false;
                if !dispatch::in_form(app) {
                    dispatch::give_back(app, &draft);
                }
            } else {
                dispatch::give_back(app, &draft);
            }
            let place = if from == Place::Form && dispatch::in_form(app) {
                Place::Form
            } else {
                Place::Fleet
            };
            fail(app, now, place, "not started", &error);
            Effects::new()
        }
        (Call::Send { agent, text, from }, Err(error)) => {
            match from {
                Place::Fleet => {
                    let name = name(app, agent);
                    dispatch::give_back(app, &format!("@{name} {text}"));
                }
                Place::Agent(_) | Place::Form => agent::give_back(app, agent, &text),
            }
            let what = format!("@{} not delivered", name(app, agent));
            fail(app, now, from, &what, &error);
            Effects::new()
        }
        (Call::Abort(id), Ok(Reply::Aborted { returned })) => {
            if !returned.is_empty() {
                agent::give_back(app, id, &returned.join("\n\n"));
            }
            Effects::new()
        }
        (Call::Stop(id), Err(error)) => {
            let what = format!("@{} stop failed", name(app, id));
            let place = app.place();
            fail(app, now, place, &what, &error);
            Effects::new()
        }
        (Call::Abort(id), Err(error)) => {
            let what = format!("@{} not aborted", name(app, id));
            fail(app, now, Place::Agent(id), &what, &error);
            Effects::new()
        }
        (Call::Answer(id, dialog), Err(error)) => {
            // The question may still be open: it can be answered again.
            if let Some(form) = app.agents.get_mut(&id).and_then(|a| a.dialog.as_mut())
                && form.id == dialog
            {
                form.sent = false;
            }
            let what = format!("@{} did not get the answer", name(app, id));
            fail(app, now, Place::Agent(id), &what, &error);
            Effects::new()
        }
        (Call::Watch, Err(error)) => {
            tracing::debug!(%error, "watch refused");
            Effects::new()
        }
        (Call::Resync, Err(error)) => {
            tracing::warn!(%error, "resync refused");
            Effects::new()
        }
        (_, Ok(_)) => Effects::new(),
    }
}

fn name(app: &App, id: AgentId) -> String {
    app.agent(id)
        .map_or_else(|| "?".to_owned(), |agent| agent.name.clone())
}

fn fail(app: &mut App, now: Now, place: Place, what: &str, error: &RequestError) {
    let text = match error.code {
        ErrorCode::Disconnected => {
            format!("{what}: the connection was lost, whether it was done is unknown")
        }
        ErrorCode::Invalid
        | ErrorCode::NotFound
        | ErrorCode::Conflict
        | ErrorCode::StartFailed
        | ErrorCode::Gone
        | ErrorCode::Cancelled
        | ErrorCode::Unsupported
        | ErrorCode::Internal => {
            // The core may say the same words first: they are said once.
            let said = ["not started: ", "not delivered: "]
                .iter()
                .find_map(|words| error.message.strip_prefix(words));
            format!("{what}: {}", said.unwrap_or(&error.message))
        }
    };
    // Where the act was may not be on the screen any more; then it is said where the person is.
    let here = app.place();
    let place = if place == here { place } else { here };
    app.say(now, place, true, &text, error.hint.as_deref());
}

/// After every event: what follows from the new state.
pub fn settle(app: &mut App, now: Now) -> Vec<Effect> {
    fleet::hold(app, now);
    dialog::sync(app, now, false);
    fleet::watch(app)
}
