//! Something between a result and the session: another extension that drops it, a compaction.

use serde_json::{Value, json};

use super::told::{TASK, told};
use super::{Parent, spawn};
use crate::support::model::{Gate, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// Throws away what other extensions want to add at a boundary, so many times as a file says.
const DROPS: &str = r#"
import { existsSync, readFileSync } from "node:fs";
export default function (pi) {
    let dropped = 0;
    for (const boundary of ["turn_end", "agent_before_settle"]) {
        pi.on(boundary, (event, ctx) => {
            const file = `${ctx.cwd}/drops`;
            const count = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
            if (dropped >= count || event.entries.length === 0) return undefined;
            dropped += 1;
            return { entries: [] };
        });
    }
}
"#;

#[test]
fn what_another_extension_drops_once_is_offered_again_and_arrives_once() {
    // R-DELIV-05
    for version in Version::ALL {
        arrives_although_dropped(version, "1");
    }
}

#[test]
fn what_another_extension_always_drops_arrives_once_when_the_parent_is_idle() {
    // R-DELIV-05
    for version in Version::ALL {
        arrives_although_dropped(version, "1000");
    }
}

fn arrives_although_dropped(version: Version, drops: &str) {
    let mut parent = Parent::open(version, |pi, command| {
        let path = pi.sandbox.root().join("drops.ts");
        std::fs::write(&path, DROPS).unwrap();
        command.arg("--extension").arg(path);
        command.env("PI_AGENTS_LOG", "debug");
    });
    std::fs::write(parent.pi.work().join("drops"), drops).unwrap();
    let (held, gate) = (Gate::new(), Gate::new());
    parent.model.on(
        "the whole",
        [
            Turn::call("agent_spawn", spawn("part one", true))
                .tool("agent_spawn", spawn("part two", true)),
            Turn::call("bash", json!({"command": "true"})).gate(&held),
            Turn::say("three"),
            Turn::say("four"),
            Turn::say("five"),
            Turn::say("six"),
            Turn::say("seven"),
        ],
    );
    for part in ["one", "two"] {
        let result = format!("result of {part}");
        parent.model.on(
            &format!("part {part}"),
            [Turn::new().gate(&gate).text(&result)],
        );
    }
    parent.rpc.prompt(TASK);
    held.wait_arrival("the second request");
    gate.open();
    parent.wait_held(2);
    held.open();
    let session = parent.session();
    parent.wait_delivered(&session, &["result of one", "result of two"]);
    wait::wait_until("nothing to be owed", || {
        !parent.journals().contains("result of") || parent.journals().matches("acked").count() == 2
    });
    parent.wait_idle();
    parent.rpc.run("go on");
    parent.told_once(&session, "the whole", &["result of one", "result of two"]);
}

#[test]
fn a_compaction_in_between_loses_and_doubles_nothing() {
    // R-DELIV-03, R-DELIV-05: results that come while the parent compacts wake it once when it is
    // done; those that were compacted away are known for ever
    for version in Version::ALL {
        let mut parent = Parent::open(version, |pi, command| {
            let mut settings = pi.settings();
            settings["compaction"] = json!({"keepRecentTokens": 1, "reserveTokens": 100});
            pi.write_settings(&settings);
            command.env("PI_AGENTS_LOG", "debug");
        });
        let (compacting, gate) = (Gate::new(), Gate::new());
        let summary = compacting.clone();
        parent.model.answer(move |request| {
            let summarize = request.system_text().contains("summar")
                && !request
                    .system_text()
                    .contains("expert coding assistant operating");
            summarize.then(|| Turn::new().gate(&summary).text("what was before"))
        });
        parent.model.on(
            "the whole",
            [
                Turn::call("agent_spawn", spawn("part one", true))
                    .tool("agent_spawn", spawn("part two", true))
                    .tool("agent_spawn", spawn("part three", true)),
                Turn::say("started"),
            ],
        );
        for part in ["one", "two", "three"] {
            let result = format!("result of {part}");
            parent.model.on(
                &format!("part {part}"),
                [Turn::new().gate(&gate).text(&result)],
            );
        }
        parent.rpc.run(TASK);
        let session = parent.session();
        let id = parent.rpc.send("compact", json!({}));
        compacting.wait_arrival("the summary to be asked for");
        gate.open();
        parent.wait_journal(&["result of one", "result of two", "result of three"]);
        parent
            .model
            .queue([Turn::say("thank you"), Turn::say("fine")]);
        let before = parent.rpc.records().len();
        let asked = parent.model.requests().len();
        compacting.open();
        let done = parent.rpc.response(&id);
        assert_eq!(done["success"], true, "{version:?}: {done}");
        parent.rpc.wait_settled(before);
        let requests = parent.model.requests();
        let woken: Vec<_> = requests[asked..]
            .iter()
            .filter(|r| !told(r).is_empty())
            .collect();
        assert_eq!(woken.len(), 1, "{version:?}: one wake");
        assert_eq!(told(woken[0]).len(), 3, "{version:?}");
        // Compacted away, they are among the entries of the session.
        let done = parent.rpc.request("compact", json!({}));
        assert_eq!(done["success"], true, "{version:?}: {done}");
        parent.kill();
        parent.start_again(&["--session", session.to_str().unwrap()]);
        parent.wait_joined(1);
        parent.rpc.run("go on");
        let mut ids: Vec<String> = super::told::delivered(&session)
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!((count, ids.len()), (3, 3), "{version:?}");
        let last: Vec<Value> = told(parent.model.requests().last().unwrap());
        assert!(last.len() <= 1, "{version:?}: {last:?}");
    }
}
