//! `docs/lifecycle.md` is made from the table of status changes (R-LIFE-02), and what it says of
//! messages, stops and time limits is played on the machine before it is written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pi_agents::fleet::agent::StopCause;
use pi_agents::fleet::history::state_word;
use pi_agents::fleet::interpret::Disposition;
use pi_agents::fleet::machine::table::{State, TRANSITIONS};
use pi_agents::fleet::machine::{Input, MachineConfig, Timer};
use pi_agents::pi::message::StopReason;
use pi_agents::tui::rows;
use pi_agents::tui::theme::{Depth, Ground, Theme};

use super::machine::world::{Played, World};

/// What a state means.
fn meaning(state: State) -> &'static str {
    match state {
        State::Queued => {
            "It has no process and waits for a launch slot: only a few may start at the same time."
        }
        State::Starting => {
            "Its process is being started. It is not ready before Pi accepted the first prompt."
        }
        State::Running => {
            "Pi accepted a prompt, and the run that it began is not over. Retries, shortening of the conversation and open questions are part of the run."
        }
        State::Idle => "The process lives and has no run. It costs no tokens and can be messaged.",
        State::Completed => {
            "There is no process, and the last run ended well; or the process ended while it was idle."
        }
        State::Failed => {
            "The last run failed, or the process was lost or could not be started. The row has the reason; the process ends in order if it still lives."
        }
        State::Stopped => "It was ended on purpose. The row says by whom or what.",
    }
}

/// What each cause of a stop means.
fn cause(by: StopCause) -> &'static str {
    match by {
        StopCause::You => "a person asked for it, on a screen or in a shell",
        StopCause::Timeout => "the time limit of a run passed; the agent closes",
        StopCause::Shutdown => "the core was asked to end",
        StopCause::Parent => "its parent asked for it with `agent_stop`",
        StopCause::Cancelled => "the tool call that waited for it was cancelled",
        StopCause::HostGone => {
            "the Pi session it works for was left, replaced or reloaded, or the agent above it ended"
        }
        StopCause::Child => "the child ended its run as aborted, and nobody here asked for that",
    }
}

const CAUSES: [StopCause; 7] = [
    StopCause::You,
    StopCause::Parent,
    StopCause::Cancelled,
    StopCause::HostGone,
    StopCause::Timeout,
    StopCause::Shutdown,
    StopCause::Child,
];

/// What comes of something in a state: in words, and the state when it is over.
struct Comes {
    words: &'static str,
    state: State,
}

struct Acts {
    message: Comes,
    stop: Comes,
    limit: Comes,
}

fn acts(state: State) -> Acts {
    let comes = |words, state| Comes { words, state };
    let no_run = |state| comes("there is no run to limit", state);
    let revived = || {
        comes(
            "it is started again on its saved session, once nothing of the process before is left",
            State::Starting,
        )
    };
    let ended = |state| comes("nothing: it was not running", state);
    match state {
        State::Queued => Acts {
            message: comes("waits behind the task", state),
            stop: comes("it is never started", State::Stopped),
            limit: no_run(state),
        },
        State::Starting => Acts {
            message: comes("waits behind the task", state),
            stop: comes(
                "the start is called off and the process ended",
                State::Stopped,
            ),
            limit: comes(
                "no run yet; a start that takes too long fails by its own deadline",
                State::Failed,
            ),
        },
        State::Running => Acts {
            message: comes(
                "steers the run: the model reads it after the tools it is at",
                state,
            ),
            stop: comes("the run and the process are ended", State::Stopped),
            limit: comes("the run and the process are ended", State::Stopped),
        },
        State::Idle => Acts {
            message: comes("begins a run", State::Running),
            stop: comes("the process is ended", State::Stopped),
            limit: no_run(state),
        },
        State::Completed | State::Failed | State::Stopped => Acts {
            message: revived(),
            stop: ended(state),
            limit: no_run(state),
        },
    }
}

/// An agent in that state, its process gone if it has ended.
fn agent_in(state: State) -> (World, Played) {
    let mut w = World::with(MachineConfig {
        launch_slots: 1,
        ..MachineConfig::default()
    });
    let limit = Some(30_000);
    let a = match state {
        State::Queued => {
            w.spawn("another one, that takes the slot");
            w.spawn_with("task", true, limit)
        }
        State::Starting => w.spawn_with("task", true, limit),
        State::Running | State::Failed => {
            let a = w.spawn_with("task", true, limit);
            w.begin(&a);
            if state == State::Failed {
                w.settle(&a, StopReason::Error);
            }
            a
        }
        State::Idle => w.idle(),
        State::Completed => {
            let a = w.spawn_with("task", false, None);
            w.begin(&a);
            w.settle(&a, StopReason::Stop);
            a
        }
        State::Stopped => {
            let a = w.running();
            w.stop(a.agent);
            a
        }
    };
    if matches!(state, State::Completed | State::Failed | State::Stopped) {
        w.exit(&a, Some(0), None);
        w.swept(&a);
    }
    assert_eq!(State::of(&w.status(a.agent)), state);
    (w, a)
}

#[test]
fn what_the_page_says_of_each_state_is_so() {
    // R-LIFE-02, R-LIFE-10, R-LIFE-13, R-TOOL-03
    for state in State::ALL {
        let acts = acts(state);
        let (mut w, a) = agent_in(state);
        w.send(a.agent, "a message");
        if state == State::Idle {
            w.accept_next(&a, Disposition::Started);
        }
        assert_eq!(
            State::of(&w.status(a.agent)),
            acts.message.state,
            "message in {state:?}"
        );
        let revived = matches!(state, State::Completed | State::Failed | State::Stopped);
        assert_eq!(
            w.launches(a.agent).len() > 1,
            revived,
            "message in {state:?}"
        );

        let (mut w, a) = agent_in(state);
        w.stop(a.agent);
        w.input(Input::Launched {
            instance: a.instance,
            pid: 1,
        });
        w.exit(&a, Some(0), None);
        w.swept(&a);
        assert_eq!(
            State::of(&w.status(a.agent)),
            acts.stop.state,
            "stop in {state:?}"
        );

        // The timer of a run, and the deadline of a start, whether they are armed or not.
        let (mut w, a) = agent_in(state);
        w.timer(Timer::Run(a.instance, 1));
        w.timer(Timer::Start(a.instance));
        if acts.limit.state != state {
            w.exit(&a, Some(0), None);
        }
        assert_eq!(
            State::of(&w.status(a.agent)),
            acts.limit.state,
            "limit in {state:?}"
        );
    }
}

fn row(w: &World, a: &Played) -> String {
    let view = w.view(a.agent);
    let (icon, _) = rows::icon(
        rows::shown(&view),
        &Theme::load(Ground::Dark, Depth::None),
        None,
    );
    // The time that a run takes is left out: it moves.
    let words = rows::status(&view, view.run_started_ms.unwrap_or_default());
    let words = words.as_str().trim_end_matches(" 0s");
    format!("`{icon} {words}`")
}

/// The row of an agent in that state.
fn row_of(state: State) -> String {
    match state {
        State::Failed => {
            let mut w = World::new();
            let a = w.running();
            w.exit(&a, Some(1), None);
            row(&w, &a)
        }
        _ => {
            let (w, a) = agent_in(state);
            row(&w, &a)
        }
    }
}

fn page() -> String {
    let mut page = String::from(
        "# The life of an agent\n\n\
         <!-- Generated by tests/fleet/lifecycle_page.rs from src/fleet/machine/table.rs; `UPDATE_GENERATED=1 cargo test \
         --test it fleet::lifecycle_page` writes it again. -->\n\n\
         The status of an agent changes in the ways below and in no other: the machine refuses a change that is not in\n\
         the table, so nothing that comes late can overwrite an end. `pi-agents explain NAME` shows which of them an\n\
         agent went through, and why.\n\n\
         ## States\n\n| state | what it means | the row shows |\n|---|---|---|\n",
    );
    for state in State::ALL {
        let _ = writeln!(
            page,
            "| **{}** | {} | {} |",
            state_word(state),
            meaning(state),
            row_of(state)
        );
    }
    page.push_str(
        "\nA row says more than the state where there is more to say: `asks` while a question waits, `retrying 2/3` before\n\
         the provider is asked again, `stopping` from the wish to end it until nothing of its process is left.\n\n\
         ## Changes\n\n| from | to | when |\n|---|---|---|\n",
    );
    for (from, to, when) in TRANSITIONS {
        let _ = writeln!(
            page,
            "| {} | {} | {when} |",
            state_word(*from),
            state_word(*to)
        );
    }
    page.push_str("\n```mermaid\nstateDiagram-v2\n    [*] --> queued: spawn\n");
    for (from, to, when) in TRANSITIONS {
        // A colon or semicolon would end the label.
        let when = when.replace([':', ';'], ",");
        let _ = writeln!(
            page,
            "    {} --> {}: {when}",
            state_word(*from),
            state_word(*to)
        );
    }
    page.push_str(
        "```\n\n## Causes\n\nThe cause is kept apart from the status. **stopped** says by whom or what:\n\n\
         | the row shows | what it means |\n|---|---|\n",
    );
    for by in CAUSES {
        let _ = writeln!(page, "| `stopped {}` | {} |", by.words(), cause(by));
    }
    page.push_str(
        "\n**failed** says why, in one line: the provider's words when a run failed, the exit code or signal and the last\n\
         words on stderr when the process was lost, what is missing when it could not be started, and `supervisor lost`\n\
         when the core that ran it ended without ending it.\n\n\
         ## What a message, a stop and a time limit do\n\n\
         | state | message | stop | time limit of a run |\n|---|---|---|---|\n",
    );
    for state in State::ALL {
        let acts = acts(state);
        let cell = |comes: &Comes| {
            if comes.state == state {
                comes.words.to_owned()
            } else {
                format!("{} → **{}**", comes.words, state_word(comes.state))
            }
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} |",
            state_word(state),
            cell(&acts.message),
            cell(&acts.stop),
            cell(&acts.limit)
        );
    }
    page.push_str(
        "\nA stop is answered when the process is proven gone with everything it started. Messages to an agent that is being\n\
         stopped are refused if the stop came after them; one that comes after the stop starts it again. One start at a\n\
         time: messages that come meanwhile share it, in order.\n",
    );
    page
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lifecycle.md");
    let page = page();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    pretty_assertions::assert_eq!(there, page, "UPDATE_GENERATED=1 writes it again");
}

#[test]
fn every_state_can_be_reached_and_left() {
    // R-LIFE-02: an end is left by a message only
    let to: BTreeSet<&str> = TRANSITIONS.iter().map(|t| state_word(t.1)).collect();
    let from: BTreeSet<&str> = TRANSITIONS.iter().map(|t| state_word(t.0)).collect();
    let all: BTreeSet<&str> = State::ALL.into_iter().map(state_word).collect();
    assert_eq!((&to, &from), (&all, &all));
    for (from, _, when) in TRANSITIONS {
        if matches!(from, State::Completed | State::Failed | State::Stopped) {
            assert_eq!(*when, "revived by a message");
        }
    }
}
