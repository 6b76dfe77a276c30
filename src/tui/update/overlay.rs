//! Help, quitting, first run, and what concerns the whole screen.

use crate::tui::ExitReason;
use crate::tui::app::{App, Attempt, Effect, Effects, Link, Now, Overlay};
use crate::tui::frame::Urgency;

/// Opens the help.
pub fn help(app: &mut App, _: Now) -> Effects {
    app.overlay = Some(Overlay::Help {
        query: Box::default(),
        scroll: 0,
    });
    Effects::new()
}

/// Closes what is over the screen.
pub fn close(app: &mut App, _: Now) -> Effects {
    app.overlay = None;
    Effects::new()
}

/// Scrolls the help.
pub fn scroll(app: &mut App, by: isize) -> Effects {
    if let Some(Overlay::Help { scroll, .. }) = &mut app.overlay {
        *scroll = scroll.saturating_add_signed(by);
        app.redraw(Urgency::Now);
    }
    Effects::new()
}

/// Quits, or asks first when agents are alive (design §1).
pub fn quit(app: &mut App, now: Now) -> Effects {
    match app.link {
        Link::Problem(_) | Link::Starting => vec![Effect::Exit(ExitReason::NotStarted)],
        Link::Lost { .. } => vec![Effect::Exit(ExitReason::CoreLost)],
        // Not ours, or not known yet what lives in it: nothing may be stopped.
        Link::Live if !app.settings.owner || app.fleet.is_none() => {
            vec![Effect::Exit(ExitReason::Keep)]
        }
        // Nothing lives in it, but others look at it: it is theirs now.
        Link::Live if app.counts().live() == 0 && app.is_shared() => {
            vec![Effect::Exit(ExitReason::Shared)]
        }
        Link::Live if app.counts().live() == 0 => {
            vec![Effect::Exit(ExitReason::Quit { stopped: 0 })]
        }
        Link::Live => {
            app.overlay = Some(Overlay::Quit { since: now.mono });
            Effects::new()
        }
    }
}

/// A key chooses in the quit question only after this long without one, in milliseconds: text
/// that is typed fast into the list must not choose (R-LIFE-08).
pub const QUIT_PAUSE_MS: u64 = 300;

/// A key came while the quit question is open. `true` = too soon to choose with it.
pub fn too_soon(app: &mut App, now: Now) -> bool {
    let Some(Overlay::Quit { since }) = &mut app.overlay else {
        return false;
    };
    now.mono.saturating_sub(std::mem::replace(since, now.mono)) < QUIT_PAUSE_MS
}

/// Quits, the agents go on.
pub fn quit_keep(_: &mut App, _: Now) -> Effects {
    vec![Effect::Exit(ExitReason::Keep)]
}

/// Quits and stops every agent.
pub fn quit_stop(app: &mut App, _: Now) -> Effects {
    let stopped = app.counts().live();
    vec![Effect::Exit(ExitReason::Quit { stopped })]
}

/// Back to the shell for a while.
pub fn suspend(_: &mut App, _: Now) -> Effects {
    vec![Effect::Suspend]
}

/// Writes the whole screen again.
pub fn redraw(_: &mut App, _: Now) -> Effects {
    vec![Effect::Redraw]
}

/// The first-run screen offers the demo.
#[must_use]
pub fn demo_offered(app: &App) -> bool {
    matches!(&app.link, Link::Problem(problem) if problem.demo)
}

/// The first-run screen offers to check again.
#[must_use]
pub fn again_offered(app: &App) -> bool {
    matches!(&app.link, Link::Problem(problem) if problem.again)
}

/// Plays the demo.
pub fn start_demo(app: &mut App, _: Now) -> Effects {
    app.link = Link::Starting;
    vec![Effect::Connect(Attempt::Demo)]
}

/// Looks again.
pub fn start_again(app: &mut App, _: Now) -> Effects {
    app.link = Link::Starting;
    vec![Effect::Connect(Attempt::Again)]
}
