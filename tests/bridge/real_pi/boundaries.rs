//! Offers at the boundaries of a run, to an idle Pi, and to one whose run was aborted.

use serde_json::json;

use super::world::{World, deliveries};
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

const THREE: [&str; 3] = ["one:1", "two:1", "three:1"];

// R-DELIV-02, R-DELIV-05: three results that are ready while the parent works are in the next
// request to the model together, and are acknowledged when they are in the file.
#[test]
fn a_busy_parent_gets_all_that_is_ready_before_its_next_request() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let gate = Gate::new();
        world.model.on(
            "go",
            [
                Turn::call("bash", json!({"command": "true"})).gate(&gate),
                Turn::say("thank you"),
            ],
        );
        world.rpc.prompt("go");
        gate.wait_arrival("the first request");
        core.wait_state("busy");
        core.offer(1, "boundary", &THREE[..2]);
        core.offer(2, "boundary", &THREE[2..]);
        // The offers are in the bridge's memory when it has answered what came behind them.
        core.ask(70, "host/launch_event", json!({}));
        assert!(core.told("host/taken").is_empty());
        gate.open();
        world.rpc.wait_settled(0);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2, "one continuation");
        assert_eq!(deliveries(&requests[1], &THREE), THREE);
        assert_eq!(requests[1].tool_results().len(), 1);
        for (epoch, ids) in [(1, &THREE[..2]), (2, &THREE[2..])] {
            assert_eq!(core.outcome(epoch), "taken");
            let ack = core.ack(epoch);
            assert_eq!(ack["found"], json!(ids));
            assert_eq!(ack["missing"], json!([]));
            assert_eq!(ack["durable"], true);
        }
        core.wait_state("idle");
        let saved = world.saved();
        let ours = saved.iter().filter(|e| e["type"] == "custom_message");
        assert_eq!(ours.count(), 3);
    }
}

// R-DELIV-02: an answer without a tool call is a boundary too; the run goes on once.
#[test]
fn a_last_answer_is_a_boundary() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let gate = Gate::new();
        world.model.on(
            "go",
            [Turn::say("done").gate(&gate), Turn::say("thank you")],
        );
        world.rpc.prompt("go");
        gate.wait_arrival("the first request");
        core.wait_state("busy");
        core.offer(1, "boundary", &THREE);
        core.ask(70, "host/launch_event", json!({}));
        gate.open();
        let records = world.rpc.wait_settled(0);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2, "one continuation");
        assert_eq!(deliveries(&requests[1], &THREE), THREE);
        let starts = records.iter().filter(|r| r["type"] == "agent_start");
        assert_eq!(starts.count(), 1, "it is the same run");
        assert_eq!(core.ack(1)["found"], json!(THREE));
    }
}

// R-DELIV-03: three results for an idle parent start one run.
#[test]
fn an_idle_parent_is_woken_once() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        world
            .model
            .queue([Turn::say("hello"), Turn::say("thank you")]);
        world.rpc.run("hi");
        core.wait_state("idle");
        let before = world.rpc.records().len();
        core.offer(1, "wake", &THREE);
        let records = world.rpc.wait_settled(before);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2, "one wake");
        assert_eq!(deliveries(&requests[1], &THREE), THREE);
        let starts = records.iter().filter(|r| r["type"] == "agent_start");
        assert_eq!(starts.count(), 1);
        assert_eq!(core.outcome(1), "taken");
        let ack = core.ack(1);
        assert_eq!(ack["found"], json!(THREE));
        assert_eq!(ack["durable"], true);
        assert_eq!(core.told("host/ack").len(), 1, "one for the whole offer");
        // Told when the run was under way, not when it was over.
        let states: Vec<_> = core.told("host/state");
        assert!(states.iter().any(|s| s["state"] == "busy"), "{states:?}");
    }
}

// R-DELIV-04: after an abort results are saved, nothing starts, and the next prompt finds them.
#[test]
fn an_aborted_parent_is_told_silently() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        world.model.on("go", [Turn::hang()]);
        world.model.on_last("next", Turn::say("thank you"));
        world.rpc.prompt("go");
        world.model.wait_first("go");
        core.wait_state("busy");
        core.offer(1, "boundary", &THREE[..1]);
        core.ask(70, "host/launch_event", json!({}));
        world.rpc.request("abort", json!({}));
        core.wait_state("aborted");
        assert_eq!(core.outcome(1), "refused: idle");
        core.offer(2, "wake", &THREE[..1]);
        assert_eq!(core.outcome(2), "refused: aborted");
        core.offer(3, "silent", &THREE);
        assert_eq!(core.outcome(3), "taken");
        assert_eq!(core.ack(3)["found"], json!(THREE));
        wait::stays(
            "nothing starts",
            std::time::Duration::from_millis(300),
            || world.model.requests().len() == 1,
        );
        let settled = world.rpc.records().len();
        world.rpc.prompt("next");
        world.rpc.wait_settled(settled);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(deliveries(&requests[1], &THREE), THREE);
        core.wait_state("idle");
    }
}

// R-DELIV-04: a run that failed counts as one that was aborted.
#[test]
fn a_parent_whose_run_failed_is_not_woken() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        world.model.on("go", [Turn::error(401, "no")]);
        world.rpc.run("go");
        core.wait_state("aborted");
        core.offer(1, "wake", &THREE);
        assert_eq!(core.outcome(1), "refused: aborted");
        assert_eq!(world.model.requests().len(), 1);
    }
}
