//! Offers that do not fit what Pi is doing.

use std::time::Duration;

use serde_json::json;

use super::world::{Plan, World, deliveries};
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

// R-DELIV-02, R-DELIV-03: a wake that comes too late is refused, and taken at the boundary instead.
#[test]
fn a_parent_that_is_not_idle_any_more_is_not_woken() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let gate = Gate::new();
        world.model.on(
            "go",
            [Turn::say("done").gate(&gate), Turn::say("thank you")],
        );
        world.rpc.prompt("go");
        gate.wait_arrival("the first request");
        let told = core.told("host/state").len();
        core.offer(1, "wake", &["one:1"]);
        assert_eq!(core.outcome(1), "refused: busy");
        // What holds is said after the refusal, even if it was said before.
        wait::wait_until("the state", || core.told("host/state").len() > told);
        core.wait_state("busy");
        core.offer(2, "boundary", &["one:1"]);
        core.ask(70, "host/launch_event", json!({}));
        gate.open();
        world.rpc.wait_settled(0);
        let requests = world.model.requests();
        assert_eq!(deliveries(&requests[1], &["one:1"]), ["one:1"]);
        core.wait_state("idle");
        core.offer(3, "boundary", &["two:1"]);
        assert_eq!(core.outcome(3), "refused: idle");
    }
}

/// Holds every input back until a file appears.
const SLOW_INPUT: &str = r#"
import { existsSync } from "node:fs";
export default function (pi) {
    pi.on("input", async (event, ctx) => {
        while (event.text === "slowly" && !existsSync(`${ctx.cwd}/open`)) {
            await new Promise((resolve) => setTimeout(resolve, 5));
        }
    });
}
"#;

// R-DELIV-03: a run that is started while an input is on its way would push that input aside.
#[test]
fn an_input_on_its_way_is_not_pushed_aside() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("slow.ts", SLOW_INPUT).start();
        let core = world.core.joined(0);
        world.model.on("slowly", [Turn::say("done")]);
        world.rpc.send(
            "prompt",
            json!({"message": "slowly", "streamingBehavior": "steer"}),
        );
        core.wait_state("busy");
        core.offer(1, "wake", &["one:1"]);
        assert_eq!(core.outcome(1), "refused: prompt");
        std::fs::write(world.pi.work().join("open"), "").unwrap();
        world.rpc.wait_settled(0);
        assert_eq!(world.model.requests().len(), 1);
        assert_eq!(world.model.requests()[0].texts("user"), ["slowly"]);
        core.wait_state("idle");
    }
}

/// Takes an input for itself.
const TAKES_INPUT: &str = r#"
export default function (pi) {
    pi.on("input", (event) => event.text === "mine" ? { action: "handled" } : undefined);
}
"#;

// R-PI-12: an input that no run follows does not leave the parent busy for ever.
#[test]
fn an_input_that_somebody_else_takes_is_forgotten() {
    let mut world = Plan::new(Version::Newest)
        .source("takes.ts", TAKES_INPUT)
        .start();
    let core = world.core.joined(0);
    world.model.queue([Turn::say("thank you")]);
    let response = world.rpc.prompt("mine");
    assert_eq!(response["data"]["disposition"], "handled");
    core.wait_state("busy");
    core.offer(1, "boundary", &["one:1"]);
    // Held while the input may still lead to a run, given back when it did not.
    assert_eq!(core.outcome(1), "refused: idle");
    core.wait_state("idle");
    core.offer(2, "wake", &["one:1"]);
    assert_eq!(core.ack(2)["found"], json!(["one:1"]));
}

#[test]
fn what_is_not_meant_or_makes_no_sense_is_refused() {
    let (mut world, core) = World::joined(Version::Newest);
    let gate = Gate::new();
    world.model.on_last("go", Turn::say("done").gate(&gate));
    core.offer(1, "silent", &["one:1"]);
    assert_eq!(core.outcome(1), "taken");
    core.offer(2, "silent", &[]);
    assert_eq!(core.outcome(2), "refused: invalid");
    core.offer(3, "at once", &["two:1"]);
    assert_eq!(core.outcome(3), "refused: invalid");
    core.notify(
        "host/offer",
        json!({"generation": 99, "epoch": 4, "mode": "silent", "deliveries": []}),
    );
    assert_eq!(core.outcome(4), "refused: generation");
    // A number is used once.
    core.offer(1, "silent", &["two:1"]);
    let refused = core.wait_told("host/refused", |refused| refused["epoch"] == 1);
    assert_eq!(refused["why"], "invalid");
    world.rpc.prompt("go");
    gate.wait_arrival("the request");
    core.offer(5, "boundary", &["two:1"]);
    core.notify(
        "host/withdraw",
        json!({"generation": core.generation(), "epoch": 5}),
    );
    assert_eq!(core.outcome(5), "refused: withdrawn");
    // Nobody has to understand everything, and nothing of it ends Pi.
    core.notify("host/of_tomorrow", json!({"more": 1}));
    core.notify("host/offer", json!({}));
    let answer = core.ask(70, "host/of_tomorrow", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    let answer = core.ask(71, "host/launch_event", json!({}));
    assert_eq!(answer["result"], json!({"env": {}, "extensions": []}));
    gate.open();
    world.rpc.wait_settled(0);
    assert_eq!(world.model.requests().len(), 1);
    core.wait_state("idle");
}

// R-DELIV-04: what asks for nothing can go into a run that is going on, and adds no request.
#[test]
fn a_silent_offer_joins_a_run_without_prolonging_it() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let gate = Gate::new();
        world.model.on("go", [Turn::say("done").gate(&gate)]);
        world.rpc.prompt("go");
        gate.wait_arrival("the request");
        core.offer(1, "silent", &["one:1"]);
        core.ask(70, "host/launch_event", json!({}));
        assert!(core.told("host/taken").is_empty());
        gate.open();
        world.rpc.wait_settled(0);
        assert_eq!(core.ack(1)["found"], json!(["one:1"]));
        core.wait_state("idle");
        wait::stays("nothing starts", Duration::from_millis(200), || {
            world.model.requests().len() == 1
        });
    }
}
