//! What is in the session counts, in any branch, and only when it is on the disk; each way in which
//! Pi changes its session.

use serde_json::{Value, json};

use super::world::{Plan, World, deliveries};
use crate::bridge::scripted_core::Script;
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// Commands for what a person does in Pi's own screen.
const HANDS: &str = r#"
export default function (pi) {
    pi.registerCommand("again", { handler: async (_, ctx) => { await ctx.reload(); } });
    pi.registerCommand("back", { handler: async (_, ctx) => {
        const users = ctx.sessionManager.getEntries().filter((e) => e.type === "message" && e.message.role === "user");
        await ctx.navigateTree(users.at(-1).id);
    } });
}
"#;

// R-DELIV-05: found is not safe before the file exists; said again when it does.
#[test]
fn what_is_in_memory_only_is_not_safe() {
    for version in Version::ALL {
        let (mut world, core) = World::joined(version);
        let facts = core.facts();
        assert_eq!(facts["session_file_exists"], false);
        assert_eq!(facts["durable"], false);
        core.offer(1, "silent", &["one:1", "two:1"]);
        let ack = core.ack(1);
        assert_eq!(ack["found"], json!(["one:1", "two:1"]));
        assert_eq!(ack["durable"], false);
        world.model.on("go", [Turn::say("done")]);
        world.rpc.run("go");
        let ack = core.wait_told("host/ack", |ack| ack["durable"] == true);
        assert_eq!(ack["epoch"], 1);
        assert_eq!(ack["found"], json!(["one:1", "two:1"]));
        assert_eq!(
            deliveries(&world.model.requests()[0], &["two:1", "one:1"]),
            ["one:1", "two:1"]
        );
        let saved = world.saved();
        let ours: Vec<&Value> = saved
            .iter()
            .filter(|e| e["type"] == "custom_message")
            .collect();
        assert_eq!(ours.len(), 2);
        assert_eq!(ours[0]["details"]["delivery"], "one:1");
        assert_eq!(ours[0]["details"]["card"]["label"], "work");
    }
}

// R-DELIV-05: a session that is kept nowhere is as safe as it gets.
#[test]
fn a_session_that_is_kept_nowhere_counts_as_safe() {
    let world = Plan::new(Version::Newest).arg("--no-session").start();
    let core = world.core.joined(0);
    assert_eq!(core.facts()["session_file"], Value::Null);
    assert_eq!(core.facts()["durable"], true);
    core.offer(1, "silent", &["one:1"]);
    assert_eq!(core.ack(1)["durable"], true);
}

/// Throws away what other extensions want to add, the first time.
const DROPS: &str = r#"
let dropped = false;
export default function (pi) {
    for (const boundary of ["turn_end", "agent_before_settle"]) {
        pi.on(boundary, (event) => {
            if (dropped || event.entries.length === 0) return undefined;
            dropped = true;
            return { entries: [] };
        });
    }
}
"#;

// R-DELIV-05: handed over is not delivered. What another extension dropped is reported as missing;
// offered again, it arrives once.
#[test]
fn what_another_extension_drops_is_missed_and_delivered_once() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("drops.ts", DROPS).start();
        let core = world.core.joined(0);
        let gates = [Gate::new(), Gate::new()];
        world.model.on(
            "go",
            [
                Turn::call("bash", json!({"command": "true"})).gate(&gates[0]),
                Turn::call("bash", json!({"command": "true"})).gate(&gates[1]),
                Turn::say("thank you"),
            ],
        );
        world.rpc.prompt("go");
        gates[0].wait_arrival("the first request");
        core.offer(1, "boundary", &["one:1", "two:1"]);
        core.ask(70, "host/launch_event", json!({}));
        gates[0].open();
        assert_eq!(core.outcome(1), "taken");
        let ack = core.ack(1);
        assert_eq!(ack["found"], json!([]));
        assert_eq!(ack["missing"], json!(["one:1", "two:1"]));
        gates[1].wait_arrival("the second request");
        core.offer(2, "boundary", &["one:1", "two:1"]);
        core.ask(71, "host/launch_event", json!({}));
        gates[1].open();
        world.rpc.wait_settled(0);
        assert_eq!(core.ack(2)["found"], json!(["one:1", "two:1"]));
        let requests = world.model.requests();
        let seen: Vec<usize> = requests
            .iter()
            .map(|request| deliveries(request, &["one:1", "two:1"]).len())
            .collect();
        assert_eq!(seen, [0, 0, 2]);
    }
}

// R-DELIV-05: in any branch: going back in the tree un-says nothing. A reload begins a new
// connection for the same session, and it reports what is there.
#[test]
fn another_branch_and_a_reload_forget_nothing() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("hands.ts", HANDS).start();
        let core = world.core.joined(0);
        world
            .model
            .on("first", [Turn::say("one"), Turn::say("two")]);
        world.rpc.run("first");
        core.wait_state("idle");
        let before = world.rpc.records().len();
        core.offer(1, "wake", &["one:1"]);
        world.rpc.wait_settled(before);
        core.ack(1);
        assert_eq!(world.rpc.prompt("/back")["success"], true);
        let leaf = world.rpc.request("get_entries", json!({}))["data"]["leafId"].clone();
        let saved = world.saved();
        let ours = saved
            .iter()
            .find(|e| e["type"] == "custom_message")
            .unwrap();
        assert_ne!(leaf, ours["id"]);
        assert_eq!(world.rpc.prompt("/again")["success"], true);
        let left = core.wait_told("host/leaving", |_| true);
        assert_eq!(left["reason"], "reload");
        wait::wait_until("the connection to end", || core.ended());
        let next = world.core.joined(1);
        let facts = next.facts();
        assert_eq!(facts["reason"], "reload");
        assert_eq!(facts["session"], core.facts()["session"]);
        assert_eq!(facts["known"], json!(["one:1"]));
        assert_eq!(facts["durable"], true);
        // The old core's offer is not meant for anybody here.
        next.notify(
            "host/offer",
            json!({"generation": core.generation(), "epoch": 9, "mode": "silent", "deliveries": []}),
        );
        assert_eq!(next.outcome(9), "refused: generation");
        // The new one works.
        next.offer(1, "silent", &["two:1"]);
        assert_eq!(next.ack(1)["found"], json!(["two:1"]));
    }
}

// R-DELIV-05: a reload before the file exists: the new connection knows what is not safe yet.
#[test]
fn a_reload_keeps_what_is_not_safe_yet() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("hands.ts", HANDS).start();
        let core = world.core.joined(0);
        core.offer(1, "silent", &["one:1"]);
        assert_eq!(core.ack(1)["durable"], false);
        world.rpc.prompt("/again");
        let next = world.core.joined(1);
        assert_eq!(next.facts()["known"], json!(["one:1"]));
        assert_eq!(next.facts()["durable"], false);
        world.model.on("go", [Turn::say("done")]);
        world.rpc.run("go");
        let ack = next.wait_told("host/ack", |ack| ack["durable"] == true);
        assert_eq!(ack["epoch"], Value::Null);
        assert_eq!(ack["found"], json!(["one:1"]));
    }
}

// R-PI-03, R-DELIV-05: another session gets nothing of this one, and this one gets it when it is
// there again. Each change ends the old connection before the new one begins.
#[test]
fn a_result_reaches_its_own_session_only() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("hands.ts", HANDS).start();
        let core = world.core.joined(0);
        let gate = Gate::new();
        world.model.on("first", [Turn::say("one")]);
        world.model.on("second", [Turn::hang().gate(&gate)]);
        world.rpc.run("first");
        let first = core.facts()["session"].clone();
        let first_file = core.facts()["session_file"].clone();
        // Outstanding: offered for a run that will not come to a boundary.
        world.rpc.prompt("second");
        wait::wait_until("the request", || world.model.requests().len() == 2);
        core.offer(1, "boundary", &["one:1"]);
        core.ask(70, "host/launch_event", json!({}));

        assert_eq!(world.rpc.request("new_session", json!({}))["success"], true);
        assert_eq!(core.wait_told("host/leaving", |_| true)["reason"], "new");
        let second = world.core.joined(1);
        assert!(core.ended(), "the old one ends before the new one begins");
        assert_eq!(second.facts()["reason"], "new");
        assert_ne!(second.facts()["session"], first);
        assert_eq!(second.facts()["known"], json!([]));
        assert_eq!(second.facts()["state"], "idle");
        world.model.on("other", [Turn::say("nothing")]);
        let before = world.rpc.records().len();
        world.rpc.prompt("other");
        world.rpc.wait_settled(before);
        let last = world.model.requests().pop().unwrap();
        assert!(deliveries(&last, &["one:1"]).is_empty());
        let second_file = second.facts()["session_file"].clone();

        let path = json!({"sessionPath": first_file});
        assert_eq!(world.rpc.request("switch_session", path)["success"], true);
        assert_eq!(
            second.wait_told("host/leaving", |_| true)["reason"],
            "resume"
        );
        let back = world.core.joined(2);
        assert_eq!(back.facts()["session"], first);
        assert_eq!(back.facts()["reason"], "resume");
        // It never got there.
        assert_eq!(back.facts()["known"], json!([]));
        back.offer(1, "silent", &["one:1"]);
        let ack = back.ack(1);
        assert_eq!(
            (&ack["found"], &ack["durable"]),
            (&json!(["one:1"]), &json!(true))
        );

        let saved = world.saved();
        let user = saved
            .iter()
            .rfind(|e| e["message"]["role"] == "user")
            .unwrap();
        let fork = json!({"entryId": user["id"]});
        assert_eq!(world.rpc.request("fork", fork)["success"], true);
        assert_eq!(back.wait_told("host/leaving", |_| true)["reason"], "fork");
        let forked = world.core.joined(3);
        assert_eq!(forked.facts()["reason"], "fork");
        assert_ne!(forked.facts()["session"], first);
        assert_ne!(forked.facts()["session_file"], second_file);
        assert_eq!(world.core.count(), 4, "one connection for each session");
    }
}

// R-PI-03: a core that takes its time to stop the agents holds up the next session, but not for long.
#[test]
fn the_next_session_waits_a_moment_for_the_last() {
    let script = Script {
        says_goodbye: false,
        ..Script::default()
    };
    let mut world = Plan::new(Version::Newest).script(script).start();
    let core = world.core.joined(0);
    let began = std::time::Instant::now();
    world.rpc.request("new_session", json!({}));
    let took = began.elapsed();
    assert!(took >= std::time::Duration::from_millis(2400), "{took:?}");
    wait::wait_until("the connection to end", || core.ended());
    world.core.joined(1);
}

/// Holds up whoever looks at a settled run, or at a change of the branch, until a file appears.
const HOLDS_UP: &str = r#"
import { existsSync } from "node:fs";
export default function (pi) {
    const hold = async (ctx, name) => {
        if (existsSync(`${ctx.cwd}/${name}`)) {
            while (!existsSync(`${ctx.cwd}/go`)) await new Promise((resolve) => setTimeout(resolve, 5));
        }
    };
    pi.on("agent_settled", (_, ctx) => hold(ctx, "hold-settled"));
    pi.on("session_before_tree", (_, ctx) => hold(ctx, "hold-tree"));
}
"#;

// R-DELIV-03, R-DELIV-05: a wake that Pi puts off, behind a prompt it put off too, is neither
// missed nor doubled.
#[test]
fn a_wake_that_pi_puts_off_is_waited_for() {
    for version in Version::ALL {
        let mut world = Plan::new(version).source("holds.ts", HOLDS_UP).start();
        let core = world.core.joined(0);
        world.model.on(
            "first",
            [Turn::say("one"), Turn::say("two"), Turn::say("three")],
        );
        std::fs::write(world.pi.work().join("hold-settled"), "").unwrap();
        world.rpc.prompt("first");
        // Idle again, not idle still.
        core.wait_told("host/state", |state| state["state"] == "busy");
        core.wait_state("idle");
        world.rpc.send(
            "prompt",
            json!({"message": "second", "streamingBehavior": "steer"}),
        );
        world.rpc.request("get_state", json!({}));
        core.offer(1, "wake", &["one:1", "two:1"]);
        assert_eq!(core.outcome(1), "taken");
        std::fs::write(world.pi.work().join("go"), "").unwrap();
        let ack = core.ack(1);
        assert_eq!(ack["found"], json!(["one:1", "two:1"]));
        assert_eq!(ack["missing"], json!([]));
        wait::wait_until("all runs to settle", || {
            let records = world.rpc.records();
            let settled = records.iter().filter(|r| r["type"] == "agent_settled");
            settled.count() == 3
        });
        let saved = world.saved();
        let ours = saved.iter().filter(|e| e["type"] == "custom_message");
        assert_eq!(ours.count(), 2);
        let last = world.model.requests().pop().unwrap();
        assert_eq!(deliveries(&last, &["two:1", "one:1"]), ["one:1", "two:1"]);
    }
}

// R-DELIV-03: Pi is not idle while it changes its branch or compacts, and says when it is again.
#[test]
fn a_parent_that_changes_its_branch_is_not_woken() {
    for version in Version::ALL {
        let mut world = Plan::new(version)
            .source("holds.ts", HOLDS_UP)
            .source("hands.ts", HANDS)
            .start();
        let core = world.core.joined(0);
        world.model.on_last("first", Turn::say("one"));
        world.model.queue([Turn::say("thank you")]);
        world.rpc.run("first");
        core.wait_state("idle");
        std::fs::write(world.pi.work().join("hold-tree"), "").unwrap();
        world.rpc.send("prompt", json!({"message": "/back"}));
        let told = core.told("host/state").len();
        // There is no event for it: the offer finds out.
        let mut epoch = 0;
        wait::wait_until("Pi to be at it", || {
            epoch += 1;
            core.offer(epoch, "boundary", &["one:1"]);
            core.ask(
                i64::try_from(epoch).unwrap(),
                "host/launch_event",
                json!({}),
            );
            let refused = core.told("host/refused");
            !refused.iter().any(|r| r["epoch"] == epoch)
        });
        core.offer(900, "wake", &["two:1"]);
        assert_eq!(core.outcome(900), "refused: busy");
        core.wait_state("busy");
        assert!(core.told("host/state").len() > told);
        std::fs::write(world.pi.work().join("go"), "").unwrap();
        assert_eq!(core.outcome(epoch), "refused: idle");
        core.wait_state("idle");
        core.offer(901, "wake", &["two:1"]);
        assert_eq!(core.ack(901)["found"], json!(["two:1"]));
    }
}

// R-DELIV-10: a question is a message of its own sort, with the text the core wrote.
// R-DELIV-05: what the result of a tool call carried counts as delivered, like what was offered.
#[test]
fn questions_and_results_of_calls_are_found_again() {
    for version in Version::ALL {
        let script = Script {
            tool: Box::new(|_| {
                Some(json!({
                    "content": [{"type": "text", "text": "the reply"}],
                    "details": {"deliveries": ["max:1", 7]},
                }))
            }),
            ..Script::default()
        };
        let mut world = Plan::new(version)
            .script(script)
            .source("hands.ts", HANDS)
            .start();
        let core = world.core.joined(0);
        world.model.on(
            "go",
            [
                Turn::call("agent_spawn", json!({"prompt": "p", "label": "l"})),
                Turn::say("done"),
                Turn::say("main it is"),
            ],
        );
        world.rpc.run("go");
        core.wait_state("idle");
        let text =
            r#"{"kind":"non_blocking_question","agent_id":"max","question":"Which \"branch\"?"}"#;
        let before = world.rpc.records().len();
        core.notify(
            "host/offer",
            json!({"generation": core.generation(), "epoch": 1, "mode": "wake", "deliveries": [
                {"id": "q1", "kind": "non_blocking_question", "content": text},
            ]}),
        );
        world.rpc.wait_settled(before);
        assert_eq!(core.ack(1)["found"], json!(["q1"]));
        assert_eq!(world.model.requests()[2].last_user_text(), text);
        let saved = world.saved();
        let ours: Vec<&Value> = saved
            .iter()
            .filter(|e| e["type"] == "custom_message")
            .collect();
        assert_eq!(ours[0]["customType"], "pi-agents-question");
        world.rpc.prompt("/again");
        let next = world.core.joined(1);
        assert_eq!(next.facts()["known"], json!(["max:1", "q1"]));
    }
}
