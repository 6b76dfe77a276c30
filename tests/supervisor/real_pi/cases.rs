//! The cases that depend on what Pi itself does, with the oldest and the newest.

use pi_agents::client::{Reply, Request};
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::transcript::{EntryKind, Level, Outcome};
use rustix::process::Signal;
use serde_json::json;

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::processes;
use crate::support::versions::Version;
use crate::support::wait;

const SEPARATORS: &str = "eins\u{2028}zwei\u{2029}drei\u{85}vier 日本 😀";

fn both(test: impl Fn(Version)) {
    for version in [Version::Oldest, Version::Newest] {
        test(version);
    }
}

#[test]
fn separators_pass_in_both_directions() {
    // B001, B007
    both(|version| {
        let model = ModelServer::start();
        model.on(
            "eins",
            [
                Turn::call(
                    "bash",
                    json!({"command": format!("printf '%s' '{SEPARATORS}'")}),
                ),
                Turn::say(&format!("answer {SEPARATORS}")),
            ],
        );
        let pi = HermeticPi::new(version, &model);
        let core = Core::start(&pi);
        let mut request = core.spawn_request(SEPARATORS);
        request.label = Some(SEPARATORS.to_owned());
        let name = core.spawn_as(request);
        core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
        assert_eq!(core.texts(&name), [format!("answer {SEPARATORS}")]);
        let first = model.wait_request("the first", |r| r.first().cloned());
        assert_eq!(first.last_user_text(), SEPARATORS, "whole at the model");
        let second = model.wait_request("the second", |r| r.get(1).cloned());
        assert_eq!(second.tool_results(), [SEPARATORS]);
        assert_eq!(core.run_ends(&name), 1);
        let warnings = core.entries(&name).into_iter().filter(|e| {
            matches!(
                e.kind,
                EntryKind::Notice {
                    level: Level::Warning,
                    ..
                }
            )
        });
        assert_eq!(warnings.count(), 0);
    });
}

#[test]
fn a_message_starts_a_run_of_an_idle_agent() {
    // B010, R-LIFE-06: a bare `steer` would be accepted and lie there
    both(|version| {
        let model = ModelServer::start();
        model.on("first", [Turn::say("one"), Turn::say("two")]);
        let pi = HermeticPi::new(version, &model);
        let core = Core::start(&pi);
        let name = core.spawn("first");
        core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
        let reply = core.send(&name, "second");
        assert!(matches!(
            reply,
            Reply::Sent {
                steered: false,
                revived: false,
                ..
            }
        ));
        core.wait_agent(&name, "idle again", |a| {
            a.status == Status::Idle && a.runs_ended == 2 && a.pending.is_empty()
        });
        wait::wait_until("both answers", || core.texts(&name) == ["one", "two"]);
    });
}

#[test]
fn a_message_in_the_pause_before_another_attempt_ends_nothing() {
    // B004, R-LIFE-04, R-PI-07
    both(|version| {
        let model = ModelServer::start();
        model.on(
            "task",
            [
                Turn::error(429, "slow down"),
                Turn::say("there you are"),
                Turn::say("and this as well"),
                Turn::say("and that"),
            ],
        );
        let pi = HermeticPi::new(version, &model);
        let mut settings = pi.settings();
        settings["retry"]["baseDelayMs"] = json!(2000);
        pi.write_settings(&settings);
        let core = Core::start(&pi);
        let name = core.spawn("task");
        core.wait_agent(&name, "it pauses", |a| a.retry.is_some());
        let calls: Vec<_> = ["also", "and more"]
            .map(|text| core.ask_later(core.send_request(&name, text)))
            .into();
        for call in calls {
            assert!(core.fetch(call).is_ok());
        }
        assert_eq!(core.run_ends(&name), 0, "the pause is no end");
        let row = core.wait_agent(&name, "idle, all delivered", |a| {
            a.status == Status::Idle && a.pending.is_empty()
        });
        let history = core.history(&name);
        let first = history.iter().position(|a| a.status == Status::Running);
        let running = history[first.unwrap()..]
            .iter()
            .take_while(|a| a.status != Status::Idle);
        for seen in running {
            assert!(seen.status == Status::Running, "{seen:?}");
        }
        assert_eq!(row.runs_ended, 1, "one run");
        assert_eq!(core.texts(&name)[0], "there you are");
    });
}

#[test]
fn an_abort_is_told_as_stopped_and_stays_so() {
    // B025, R-DELIV-16
    both(|version| {
        let model = ModelServer::start();
        model.on(
            "long",
            [Turn::call("bash", json!({"command": "sleep 300"}))],
        );
        let pi = HermeticPi::new(version, &model);
        let core = Core::start(&pi);
        let name = core.spawn("long");
        core.wait_entries(&name, "the call runs", |e| {
            e.iter()
                .any(|e| matches!(e.kind, EntryKind::Tool(_)))
                .then_some(())
        });
        let row = core.agent(&name);
        core.ask(Request::Abort {
            agent: pi_agents::client::AgentRef::Id(row.id),
        })
        .unwrap();
        let by = StopCause::You;
        let ends = core.wait_entries(&name, "its run ends", |entries| {
            let ends: Vec<Outcome> = entries
                .iter()
                .filter_map(|e| match &e.kind {
                    EntryKind::RunEnd { outcome, .. } => Some(outcome.clone()),
                    _ => None,
                })
                .collect();
            (!ends.is_empty()).then_some(ends)
        });
        assert_eq!(ends, [Outcome::Stopped { by }]);
        let row = core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
        processes::signal(row.pid.unwrap(), Signal::KILL);
        core.wait_agent(&name, "stopped", |a| a.status == Status::Stopped { by });
        assert_eq!(core.run_ends(&name), 1);
    });
}

#[test]
fn a_pi_that_does_not_start_is_told_with_its_own_words() {
    // B033, R-DELIV-09
    both(|version| {
        let model = ModelServer::start();
        let pi = HermeticPi::new(version, &model);
        let core = Core::start(&pi);
        let mut request = core.spawn_request("task");
        request.model = Some("no-such-model-anywhere".to_owned());
        let error = core.ask(Request::Spawn(request)).unwrap_err();
        assert!(error.message.contains("no-such-model-anywhere"), "{error}");
        let fleet = core.wait_fleet("failed and gone", |f| {
            f.agents
                .first()
                .is_some_and(|a| matches!(a.status, Status::Failed { .. }) && a.pid.is_none())
        });
        assert_eq!(fleet.agents.len(), 1);
        assert_eq!(fleet.agents[0].runs_ended, 0);
        assert!(
            model.requests().is_empty(),
            "nothing was asked of the model"
        );
    });
}
