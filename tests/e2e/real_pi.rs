//! The screen with the real Pi behind it.

use std::time::Instant;

use serde_json::json;

use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Gate, ModelServer, Turn};
use crate::support::processes;
use crate::support::versions::Version;
use crate::support::wait;

use super::world::{choose, open, start_agent};

#[test]
fn a_person_starts_watches_redirects_stops_and_brings_back() {
    // the purpose of it all, in one sitting
    let model = ModelServer::start();
    let gate = Gate::new();
    model.on(
        "which dates",
        [
            Turn::new().thinking("grep first").tool(
                "bash",
                json!({"command": "echo src/date.ts:12; while [ ! -e go ]; do sleep 0.02; done"}),
            ),
            Turn::new()
                .text("Found **one** place: ")
                .gate(&gate)
                .text("src/date.ts line 12."),
            Turn::call("bash", json!({"command": "sleep 300"})),
            Turn::say("I am back and remember src/date.ts."),
        ],
    );
    let pi = HermeticPi::new(Version::Newest, &model);
    let mut t = open(&pi);
    start_agent(&mut t, "which dates are parsed by hand", "max");
    t.wait_text("src/date.ts:12");
    t.wait_text("1 running");
    t.keys("s");
    t.wait_text("message");
    t.keys("skip the tests folder<enter>");
    t.wait_text("skip the tests folder");
    t.keys("<esc>");
    model.wait_request("the task", |r| (!r.is_empty()).then_some(()));
    t.wait_until("Pi holds the message", |s| s.contains("queued"));
    std::fs::write(pi.work().join("go"), "").unwrap();
    t.wait_text("Found one place:");
    gate.open();
    t.wait_text("src/date.ts line 12.");
    t.wait_until("idle", |s| s.contains("‖ @max"));
    let second = model.wait_request("the second request", |r| r.get(1).cloned());
    assert_eq!(second.last_user_text(), "skip the tests folder");

    // The view of the agent: a new run, stopped in the middle of a tool.
    if !t.screen(|s| s.contains("message @max")) {
        t.keys("<enter>");
    }
    t.wait_text("message @max");
    t.keys("go on<enter>");
    t.wait_until("the tool runs", |s| s.contains("sleep 300"));
    let sleeping = wait::wait_for("sleep runs", || {
        let found = pi.sandbox.processes();
        let sleep = found
            .iter()
            .find(|p| p.args.iter().any(|a| a == "300"))
            .cloned()?;
        Some((
            sleep,
            found
                .into_iter()
                .find(|p| p.args.first().is_some_and(|a| a == "pi"))?,
        ))
    });
    let began = Instant::now();
    t.keys("<ctrl-x><ctrl-x>");
    wait::wait_until("Pi and its tool are gone", || {
        !sleeping.0.alive() && !sleeping.1.alive()
    });
    assert!(began.elapsed().as_secs_f32() < 3.0, "{:?}", began.elapsed());
    t.wait_text("stopped by you");
    t.keys("are you there?<enter>");
    t.wait_text("I am back and remember src/date.ts.");
    // While it runs, the key would ask for its end.
    t.wait_text("‖ idle");
    let last = model.wait_request("the revived request", |r| r.get(3).cloned());
    assert!(
        last.texts("user")
            .contains(&"which dates are parsed by hand".to_owned()),
        "with its history"
    );
    // While it runs, Esc would arm an abort.
    t.wait_until("idle again", |s| s.row(0).contains("idle"));
    t.keys("<esc>");
    t.wait_text("Agents");
    t.keys("q");
    t.wait_text("stop all");
    choose(&mut t, "s");
    assert!(t.exit_status().success());
    wait::wait_until("nothing runs", || pi.sandbox.processes().is_empty());
    assert!(processes::with_arg("mark-that-is-nowhere").is_empty());
}
