//! What is told, and the sentence made of it.

use std::time::Duration;

use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::answer::ErrorCode;
use pi_agents::fleet::history::{CallKind, Did, HistoryEntry, What};
use pi_agents::fleet::ids::CallId;
use pi_agents::fleet::interpret::{Disposition, Fact, RunEnd};
use pi_agents::fleet::machine::table::State;
use pi_agents::fleet::machine::{Input, MachineConfig, Timer};
use pi_agents::pi::message::StopReason;

use super::super::machine::world::{Played, World};

fn failed_run(w: &mut World, played: &Played, error: &str) {
    w.fact(
        played,
        Fact::RunEnded(RunEnd {
            stop: StopReason::Error,
            error: Some(error.to_owned()),
            ..RunEnd::default()
        }),
    );
}

fn answered(entries: &[HistoryEntry], kind: CallKind) -> Vec<Option<ErrorCode>> {
    let did = entries.iter().flat_map(|e| &e.did);
    did.filter_map(|d| match d {
        Did::Answered { call, code, .. } if *call == kind => Some(*code),
        _ => None,
    })
    .collect()
}

#[test]
fn a_first_run_is_told_from_its_wish_to_its_end() {
    // R-OPS-01, R-LIFE-02: every change of status, with the table's reason
    let mut w = World::new();
    let a = w.idle();
    let told = w.explain(a.agent);
    let changes: Vec<(Option<State>, State)> = told
        .entries
        .iter()
        .rev()
        .filter_map(|e| e.change.as_ref())
        .map(|c| (c.from, State::of(&c.to)))
        .collect();
    assert_eq!(
        changes,
        [
            (None, State::Starting),
            (Some(State::Starting), State::Running),
            (Some(State::Running), State::Idle),
        ]
    );
    let last = told.entries[0].change.as_ref().unwrap();
    assert_eq!(
        last.when.as_deref(),
        Some("the run settled, the agent stays")
    );
    assert!(
        matches!(&told.entries.last().unwrap().what, What::SpawnAsked { task } if task.text == "task")
    );
    assert!(
        told.entries
            .iter()
            .any(|e| e.what == What::Started { pid: 4711 } && e.process == Some(1))
    );
    assert_eq!(answered(&told.entries, CallKind::Spawn), [None]);
    // Newest first, on both clocks.
    assert!(
        told.entries
            .windows(2)
            .all(|e| e[0].mono_ms >= e[1].mono_ms && e[0].at_ms >= e[1].at_ms)
    );
    assert!(
        told.answer()
            .starts_with("max is idle: its run completed and it stays"),
        "{}",
        told.answer()
    );
}

#[test]
fn a_provider_that_refuses_the_key_is_the_answer() {
    let mut w = World::new();
    let a = w.running();
    failed_run(&mut w, &a, "401 invalid key\nand more");
    w.pass(Duration::from_secs(12));
    let told = w.explain(a.agent);
    assert_eq!(
        told.answer(),
        "max failed 12 s ago: the provider refused the key (401): 401 invalid key"
    );
    // Its process ends in order after that, and that does not become the answer.
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let told = w.explain(a.agent);
    assert!(
        told.answer().contains("refused the key (401)"),
        "{}",
        told.answer()
    );
    assert_eq!(
        told.way_out().as_deref(),
        Some("a message starts it again: `pi-agents send max MESSAGE`")
    );
}

#[test]
fn a_process_that_was_killed_is_the_answer() {
    // R-LIFE-09
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, None, Some(9));
    let answer = w.explain(a.agent).answer();
    assert_eq!(
        answer,
        "max failed just now: its process was killed by signal 9 (SIGKILL) in the middle of a run, \
         not by pi-agents: Error: it broke"
    );
}

#[test]
fn a_process_that_went_deaf_fails_for_that() {
    let mut w = World::new();
    let a = w.running();
    w.input(Input::OutputEnded {
        instance: a.instance,
    });
    w.timer(Timer::Ladder(a.instance));
    w.exit(&a, None, Some(15));
    let told = w.explain(a.agent);
    assert_eq!(
        told.answer(),
        "max failed just now: the process closed its output and went on, in the middle of a run"
    );
    let signals: Vec<&Did> = told
        .entries
        .iter()
        .flat_map(|e| &e.did)
        .filter(|d| matches!(d, Did::Signalled { .. }))
        .collect();
    assert_eq!(
        signals,
        [&Did::Signalled {
            signal: "SIGTERM".into()
        }]
    );
}

#[test]
fn starts_that_fail_say_how() {
    // R-DELIV-09, B033
    let mut w = World::new();
    let a = w.spawn("task");
    w.input(Input::LaunchFailed {
        instance: a.instance,
        reason: "Pi is not installed".into(),
        hint: Some("install it with `npm i`".into()),
    });
    let told = w.explain(a.agent);
    assert_eq!(
        told.answer(),
        "max failed just now: its process could not be started: Pi is not installed"
    );
    assert_eq!(told.way_out().as_deref(), Some("install it with `npm i`"));
    assert_eq!(
        answered(&told.entries, CallKind::Spawn),
        [Some(ErrorCode::StartFailed)]
    );

    let b = w.spawn("task");
    w.input(Input::Launched {
        instance: b.instance,
        pid: 1,
    });
    w.exit(&b, Some(3), None);
    let answer = w.explain(b.agent).answer();
    assert!(
        answer.ends_with(
            "its process ended by itself while it was starting: exit code 3: Error: it broke"
        ),
        "{answer}"
    );

    let c = w.spawn("task");
    w.input(Input::Launched {
        instance: c.instance,
        pid: 1,
    });
    w.timer(Timer::Start(c.instance));
    let answer = w.explain(c.agent).answer();
    assert!(
        answer.contains("its start did not succeed: no answer within 60 s"),
        "{answer}"
    );

    let d = w.spawn("/help");
    w.ready(&d);
    w.accept_next(&d, Disposition::Handled);
    let answer = w.explain(d.agent).answer();
    assert!(
        answer.contains("it did not take its first prompt: the task was handled as a command"),
        "{answer}"
    );
}

#[test]
fn a_stop_says_who_asked_and_how_the_process_went() {
    // R-TOOL-03, R-LIFE-07
    let mut w = World::new();
    let a = w.running();
    w.stop(a.agent);
    assert!(
        w.explain(a.agent)
            .answer()
            .starts_with("max is ending: its process is not gone yet")
    );
    w.pass(Duration::from_millis(1500));
    w.timer(Timer::Ladder(a.instance));
    w.timer(Timer::Ladder(a.instance));
    w.exit(&a, None, Some(9));
    w.swept(&a);
    w.pass(Duration::from_secs(3));
    let told = w.explain(a.agent);
    assert_eq!(
        told.answer(),
        "max was stopped 3 s ago by you: asked for 4 s ago, its process needed SIGKILL and was gone 1.5 s later"
    );
    assert_eq!(answered(&told.entries, CallKind::Stop), [None]);
}

#[test]
fn the_time_limit_and_the_end_of_the_core_are_named() {
    // R-LIFE-13
    let mut w = World::new();
    let a = w.spawn_with("task", true, Some(30_000));
    w.ready(&a);
    w.accept_next(&a, Disposition::Started);
    w.fact(&a, Fact::RunStarted);
    w.timer(Timer::Run(a.instance, 1));
    w.exit(&a, Some(0), None);
    assert_eq!(
        w.explain(a.agent).answer(),
        "max was stopped just now by its time limit of 30 s: the run was not over by then"
    );
    let b = w.running();
    w.input(Input::Shutdown { call: None });
    w.exit(&b, Some(0), None);
    let told = w.explain(b.agent);
    assert!(
        told.answer().contains("on quit: the core was asked to end"),
        "{}",
        told.answer()
    );
    assert!(told.entries.iter().any(|e| e.what == What::ShutdownAsked));
    // An agent that had ended already has no part in it.
    assert!(
        w.explain(a.agent)
            .entries
            .iter()
            .all(|e| e.what != What::ShutdownAsked)
    );
}

#[test]
fn an_idle_process_that_ends_and_a_run_that_was_not_to_stay_are_told_apart() {
    // R-LIFE-09, R-LIFE-16
    let mut w = World::new();
    let a = w.idle();
    w.exit(&a, None, Some(9));
    let answer = w.explain(a.agent).answer();
    assert!(
        answer.contains("its idle process ended by itself (killed by signal 9"),
        "{answer}"
    );
    let b = w.spawn_with("task", false, None);
    w.ready(&b);
    w.accept_next(&b, Disposition::Started);
    w.fact(&b, Fact::RunStarted);
    w.settle(&b, StopReason::Stop);
    let answer = w.explain(b.agent).answer();
    assert!(
        answer.contains("its run completed and it was not to stay"),
        "{answer}"
    );
}

#[test]
fn inputs_of_an_earlier_process_are_told_as_ignored() {
    // R-LIFE-12
    let mut w = World::new();
    let a = w.running();
    w.exit(&a, Some(1), None);
    w.swept(&a);
    let (_, second) = w.send(a.agent, "again");
    w.fact(&a, Fact::RunStarted);
    w.exit(&a, Some(7), None);
    let told = w.explain(a.agent);
    let late: Vec<&HistoryEntry> = told.entries.iter().filter(|e| e.ignored).collect();
    assert_eq!(late.len(), 2, "{told:#?}");
    assert!(
        late.iter()
            .all(|e| e.process == Some(1) && e.change.is_none())
    );
    assert!(late[0].what_words().contains("ignored"));
    w.ready(&a.in_process(second));
    let started = w.explain(a.agent);
    assert!(
        started
            .entries
            .iter()
            .any(|e| matches!(e.what, What::Started { .. }) && e.process == Some(2) && !e.ignored)
    );
}

#[test]
fn an_agent_that_waits_for_its_turn_says_so_and_when_it_came() {
    // R-PI-11
    let mut w = World::with(MachineConfig {
        launch_slots: 1,
        ..MachineConfig::default()
    });
    let a = w.spawn("task");
    let b = w.spawn("task");
    assert_eq!(
        w.explain(b.agent).answer(),
        "zoe waits to be started: others are starting first".replace("zoe", &w.view(b.agent).name)
    );
    w.ready(&a);
    let told = w.explain(b.agent);
    assert_eq!(told.entries[0].what, What::SlotFree);
    assert_eq!(
        told.entries[0].did,
        [Did::Launched {
            process: 1,
            resumes: false
        }]
    );
    assert_eq!(
        told.entries[0].change.as_ref().unwrap().when.as_deref(),
        Some("a launch slot is free")
    );
}

#[test]
fn what_the_machine_refuses_is_no_agent_and_leaves_no_account() {
    let mut w = World::new();
    let a = w.spawn("  ");
    assert!(w.machine.status_of(a.agent).is_none());
    let other = w.running();
    let mut view = w.view(other.agent);
    view.id = a.agent;
    assert!(w.history.explain(view, 0, 0).entries.is_empty());
}

#[test]
fn an_agent_of_an_earlier_core_says_what_its_record_says() {
    // design §2: supervisor lost
    use pi_agents::fleet::history::{History, Recorded};
    let mut w = World::new();
    let a = w.running();
    let mut history = History::default();
    for (recorded, shown, words) in [
        (
            Status::Running,
            Status::Failed {
                reason: "supervisor lost".into(),
            },
            "an earlier core ended without ending it (supervisor lost)",
        ),
        (
            Status::Idle,
            Status::Completed,
            "it was idle when an earlier core ended",
        ),
        (
            Status::Failed {
                reason: "500".into(),
            },
            Status::Failed {
                reason: "500".into(),
            },
            "500; that was under an earlier core",
        ),
        (
            Status::Stopped { by: StopCause::You },
            Status::Stopped { by: StopCause::You },
            "by you; that was under an earlier core",
        ),
    ] {
        let mut view = w.view(a.agent);
        view.status = shown.clone();
        let recorded = Recorded {
            status: recorded,
            since_ms: 0,
        };
        history.restored(a.agent, recorded.clone(), shown);
        let told = history.explain(view, 10_000, 5000);
        assert!(told.answer().contains(words), "{}", told.answer());
        assert_eq!(told.recorded, Some(recorded));
        assert!(told.entries.is_empty() && told.asked.is_none());
    }
}

#[test]
fn an_abort_by_a_person_is_told() {
    // R-LIFE-15
    let mut w = World::new();
    let a = w.running();
    let call = CallId::fresh();
    w.input(Input::Abort {
        call,
        agent: a.agent,
    });
    w.respond(
        &a,
        "clear",
        Ok(pi_agents::fleet::interpret::ResponseData::Dropped(vec![])),
    );
    w.settle(&a, StopReason::Aborted);
    let told = w.explain(a.agent);
    assert!(
        told.answer()
            .contains("its run was stopped by you and it stays"),
        "{}",
        told.answer()
    );
    assert!(told.entries.iter().any(|e| e.what == What::AbortAsked));
}

#[test]
fn the_way_out_is_one_that_works_for_whose_agent_it_is() {
    let mut w = World::new();
    let a = w.idle();
    w.stop(a.agent);
    w.exit(&a, Some(0), None);
    w.swept(&a);
    let mut told = w.explain(a.agent);
    assert!(told.way_out().unwrap().contains("max MESSAGE"));
    // `send` wants to know there who gets the answer (R-DELIV-14).
    told.hosted = true;
    assert!(told.way_out().unwrap().contains("max --continue"));
}
