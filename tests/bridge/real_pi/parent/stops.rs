//! `agent_stop` in every state, and how runs end that did not complete.

use std::process::Command;

use pi_agents::client::Request as Asked;
use pi_agents::fleet::agent::Status;
use rustix::process::Signal;
use serde_json::json;

use super::kit::{Lead, Used, named, replies, until};
use super::spawn;
use crate::support::core::PROGRAM;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Outcome, Request, Turn};
use crate::support::processes;
use crate::support::versions::Version;
use crate::support::wait;

/// Processes of agents that live.
fn children(lead: &Lead) -> Vec<processes::Process> {
    let mut all = lead.parent.pi.sandbox.processes();
    all.retain(|p| {
        std::fs::read(format!("/proc/{}/environ", p.pid))
            .is_ok_and(|e| memchr::memmem::find(&e, b"PI_SUBAGENT_AGENT_ID=").is_some())
    });
    all
}

#[track_caller]
fn stopped(used: &Used, name: &str) {
    assert!(!used.error, "{used:?}");
    assert_eq!(
        used.text,
        format!("@{name} is stopped. Its session is kept.")
    );
}

#[track_caller]
fn was_not_running(used: &Used, name: &str) {
    assert!(!used.error, "{used:?}");
    assert_eq!(
        used.text,
        format!("@{name} was not running. Its session is kept.")
    );
}

// R-TOOL-03, R-DELIV-06: a running, an idle and a failed agent are stopped without a word of theirs, as
// often as one likes; what was told before stays told; each can be messaged again.
#[test]
fn a_stop_is_silent_and_can_be_repeated() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent(
            "runs",
            [
                Turn::call("bash", json!({"command": "sleep 300"})),
                Turn::say("after all"),
            ],
        );
        lead.agent("rests", [Turn::say("the first"), Turn::say("the second")]);
        lead.agent("fails", [Turn::error(400, "no such luck")]);
        let names = lead.spawns_with(["runs", "rests", "fails"].map(|task| spawn(task, true)));
        let [runs, rests, fails] = <[String; 3]>::try_from(names).unwrap();
        lead.wait_told(2);
        lead.parent.model.wait_first("runs");
        lead.wait_row(&fails, "without a process", |a| a.pid.is_none());
        let stop = |name: &str| json!({"agent_id": name});
        let used = lead.does([Turn::new()
            .tool("agent_stop", stop(&runs))
            .tool("agent_stop", stop(&format!("@{rests}")))
            .tool("agent_stop", stop(&fails))
            .tool("agent_stop", stop("sam"))]);
        stopped(&used[0], &runs);
        stopped(&used[1], &rests);
        was_not_running(&used[2], &fails);
        assert!(used[3].error, "{used:?}");
        for name in [&runs, &rests, &fails] {
            assert!(used[3].text.contains(&format!("@{name}")), "{used:?}");
        }
        // The answer is the truth: no process is left.
        assert_eq!(children(&lead), [], "{version:?}");
        for name in [&runs, &rests] {
            let used = lead.stops(name);
            was_not_running(&used, name);
        }
        lead.stays_quiet();
        let told = lead.told();
        assert_eq!(told.len(), 2, "{version:?}: {told:#?}");
        let used = lead.does([Turn::new()
            .tool("agent_send", json!({"to": runs, "message": "go on"}))
            .tool("agent_send", json!({"to": rests, "message": "go on"}))]);
        for used in used {
            assert!(
                used.text.contains("was started again from its session"),
                "{used:?}"
            );
        }
        let told = lead.wait_told(4);
        let mut results: Vec<_> = told[2..].iter().map(|t| t["result"].as_str()).collect();
        results.sort_unstable();
        assert_eq!(
            results,
            [Some("after all"), Some("the second")],
            "{version:?}"
        );
    }
}

/// Stands in for the program: passes everything on, but holds a stop until there is a file `stop`.
const SLOW_STOP: &str = r#"#!/usr/bin/env node
const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const core = spawn(process.env.REAL_CORE, process.argv.slice(2), { stdio: ["pipe", "inherit", "inherit"] });
const stop = process.env.STOP_FILE;
let rest = "";
process.stdin.on("data", (data) => {
	const lines = (rest + data).split("\n");
	rest = lines.pop();
	for (const line of lines) {
		const pass = () => {
			if (line.includes('"agent_stop"') && !existsSync(stop)) setTimeout(pass, 10);
			else core.stdin.write(line + "\n");
		};
		pass();
	}
});
process.stdin.on("end", () => core.stdin.end());
core.on("exit", (code) => process.exit(code ?? 1));
"#;

/// Gives every child an extension that takes its time while there is a file `slow`.
const GIVES_SLOW: &str = r#"
import { existsSync } from "node:fs";
export default function (pi) {
	pi.events.on("pi-subagents:child-launch:v1", (launch) => {
		if (existsSync(`${process.cwd()}/slow`)) launch.extensions.push(process.env.SLOW);
	});
}
"#;

const SLOW: &str = r#"
import { existsSync } from "node:fs";
export default async function () {
	while (existsSync(`${process.cwd()}/slow`)) await new Promise((done) => setTimeout(done, 10));
}
"#;

/// A parent whose stops wait, and whose agents start slowly.
fn slow(pi: &HermeticPi, command: &mut Command) {
    use std::os::unix::fs::PermissionsExt;
    let root = pi.sandbox.root();
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let program = write("slow-stop", SLOW_STOP);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    command
        .env("PI_AGENTS_BIN", program)
        .env("REAL_CORE", PROGRAM)
        .env("STOP_FILE", pi.work().join("stop"))
        .env("SLOW", write("slow.ts", SLOW))
        .arg("--extension")
        .arg(write("gives-slow.ts", GIVES_SLOW));
}

// R-TOOL-03, R-LIFE-12, R-TOOL-09: an agent that is starting, or coming back, is stopped before it was given
// anything: whoever waited for it is told, and nothing else comes.
#[test]
fn a_stop_meets_an_agent_that_starts_or_comes_back() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, slow);
        lead.makes("slow");
        lead.agent("part one", [Turn::say("here I am"), Turn::say("and again")]);
        let stop = json!({"agent_id": "max"});
        let starting = |lead: &Lead| {
            wait::wait_until("its process", || !children(lead).is_empty());
            lead.wait_row("max", "starting", |a| a.status == Status::Starting);
            lead.makes("stop");
        };
        let step = lead.begins([
            Turn::call("agent_spawn", spawn("part one", true)).tool("agent_stop", stop.clone())
        ]);
        starting(&lead);
        let used = lead.outcome(&step, 1);
        assert!(used[0].error, "{used:?}");
        assert_eq!(used[0].text, "not started: the agent was stopped first");
        stopped(&used[1], "max");
        assert_eq!(children(&lead), [], "{version:?}");
        assert_eq!(lead.parent.asked("part one").len(), 0);
        lead.stays_quiet();

        // It can be messaged all the same, as a stopped one can.
        lead.removes("slow");
        let used = lead.sends("max", "part one");
        assert!(!used.error, "{used:?}");
        let told = lead.wait_told(1);
        assert_eq!(told[0]["result"], "here I am");
        stopped(&lead.stops("max"), "max");

        lead.makes("slow");
        lead.removes("stop");
        let message = json!({"to": "max", "message": "more"});
        let step = lead.begins([Turn::call("agent_send", message).tool("agent_stop", stop)]);
        starting(&lead);
        let used = lead.outcome(&step, 1);
        assert!(used[0].error, "{used:?}");
        assert_eq!(used[0].text, "not delivered: the agent was stopped first");
        stopped(&used[1], "max");
        assert_eq!(children(&lead), [], "{version:?}");
        lead.stays_quiet();
        assert_eq!(
            lead.told().len(),
            1,
            "{version:?}: nothing of the stopped start"
        );
        lead.removes("slow");
        assert!(!lead.sends("max", "part two").error);
        let told = lead.wait_told(2);
        assert_eq!(told[1]["result"], "and again");
        let last = lead.parent.asked("part one").pop().unwrap();
        assert!(
            !last.texts("user").iter().any(|t| t.contains("more")),
            "{version:?}: a message that was given back is not sent later"
        );
    }
}

// R-LIFE-12, R-TOOL-03, R-DELIV-11: a message behind a stop starts the agent anew, two stops are one, and of a message
// before a stop nobody says what is not known.
#[test]
fn calls_of_one_message_are_carried_out_in_their_order() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let works = || Turn::call("bash", json!({"command": "touch works; sleep 300"}));
        lead.agent(
            "part one",
            [
                works(),
                Turn::say("back again"),
                works(),
                Turn::say("the last"),
            ],
        );
        let working = |lead: &Lead| {
            let file = lead.parent.pi.work().join("works");
            wait::wait_until("the agent to work", || file.exists());
            std::fs::remove_file(file).unwrap();
        };
        lead.spawns("part one");
        working(&lead);
        let stop = json!({"agent_id": "max"});
        let send = |text: &str| json!({"to": "max", "message": text});
        let used = lead.does([Turn::call("agent_stop", stop.clone())
            .tool("agent_stop", stop.clone())
            .tool("agent_send", send("come back"))]);
        stopped(&used[0], "max");
        stopped(&used[1], "max");
        assert!(
            used[2].text.contains("was started again from its session"),
            "{used:?}"
        );
        let told = lead.wait_told(1);
        assert_eq!(told[0]["result"], "back again", "{version:?}");

        assert!(!lead.sends("max", "work on").error);
        working(&lead);
        let used = lead.does([Turn::call("agent_send", send("too late")).tool("agent_stop", stop)]);
        stopped(&used[1], "max");
        // It was written before the stop came: the agent's Pi may have put it into its session, and
        // then nobody says that it did not.
        let known = if used[0].error {
            "the agent may have the message"
        } else {
            "has the message and reads it when"
        };
        assert!(used[0].text.contains(known), "{version:?}: {used:?}");
        lead.stays_quiet();
        assert!(!lead.sends("max", "and now").error);
        let told = lead.wait_told(2);
        assert_eq!(told[1]["result"], "the last", "{version:?}");
        let mut texts = lead.parent.asked("part one").pop().unwrap().texts("user");
        let before = texts.len();
        texts.retain(|t| t != "[from parent] too late");
        assert!(before - texts.len() <= 1, "{version:?}: not twice");
        assert_eq!(
            texts,
            [
                "part one",
                "[from parent] come back",
                "[from parent] work on",
                "[from parent] and now"
            ],
            "{version:?}"
        );
    }
}

// R-TOOL-17: Esc during a message that was not accepted takes it back, and the agent that was only coming back for it
// stays stopped; Esc during a stop ends the wait alone.
#[test]
fn an_abort_takes_back_a_message_and_no_stop() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, slow);
        lead.makes("stop");
        lead.agent(
            "part one",
            [Turn::say("one"), Turn::hang(), Turn::say("two")],
        );
        lead.spawns("part one");
        lead.wait_told(1);
        stopped(&lead.stops("max"), "max");
        lead.makes("slow");
        let abort = |lead: &mut Lead| {
            let before = lead.parent.rpc.records().len();
            lead.parent.rpc.request("abort", json!({}));
            lead.parent.rpc.wait_settled(before);
        };
        let message = json!({"to": "max", "message": "more"});
        lead.begins([Turn::call("agent_send", message)]);
        wait::wait_until("its process", || !children(&lead).is_empty());
        abort(&mut lead);
        lead.removes("slow");
        lead.wait_row("max", "stopped again", |a| {
            matches!(a.status, Status::Stopped { .. }) && a.pid.is_none()
        });
        assert_eq!(lead.parent.asked("part one").len(), 1, "{version:?}");
        lead.stays_quiet();

        assert!(!lead.sends("max", "hang").error);
        lead.parent.model.wait_request("the run that hangs", |all| {
            let hangs = |r: &&Request| r.last_user_text() == "[from parent] hang";
            all.iter().find(hangs).map(|_| ())
        });
        lead.removes("stop");
        let step = lead.begins([Turn::call("agent_stop", json!({"agent_id": "max"}))]);
        lead.parent
            .model
            .wait_request("the call of the stop", |all| {
                let mut all = all.iter();
                all.find(|r| r.last_user_text() == step && r.outcome == Outcome::Done)
                    .map(|_| ())
            });
        lead.parent.rpc.wait_record("the call to run", |r| {
            r["type"] == "tool_execution_start"
                && r["toolName"] == "agent_stop"
                && r["args"]["agent_id"] == "max"
        });
        lead.makes("stop");
        abort(&mut lead);
        lead.wait_row("max", "stopped all the same", |a| {
            matches!(a.status, Status::Stopped { .. }) && a.pid.is_none()
        });
        lead.stays_quiet();
        assert_eq!(lead.told().len(), 1, "{version:?}");
        assert!(!lead.sends("max", "go on").error);
        let told = lead.wait_told(2);
        assert_eq!(told[1]["result"], "two");
        let last = lead.parent.asked("part one").pop().unwrap();
        assert_eq!(
            last.texts("user"),
            ["part one", "[from parent] hang", "[from parent] go on"],
            "{version:?}"
        );
    }
}

// R-DELIV-06, R-LIFE-05: a stop takes back nothing that was on its way.
#[test]
fn a_result_on_its_way_outlives_the_stop() {
    for version in Version::ALL {
        let mut lead = Lead::open(version, slow);
        lead.agent(
            "part one",
            [
                Turn::call("bash", until("go")),
                Turn::say("the first"),
                Turn::hang(),
            ],
        );
        lead.spawns("part one");
        // The parent is in its tools from here on: the result waits in its bridge.
        let step = lead.begins([Turn::call("agent_stop", json!({"agent_id": "max"}))]);
        lead.parent
            .model
            .wait_request("the call of the stop", |all| {
                let mut all = all.iter();
                all.find(|r| r.last_user_text() == step && r.outcome == Outcome::Done)
                    .map(|_| ())
            });
        lead.makes("go");
        lead.wait_row("max", "idle", |a| a.status == Status::Idle);
        // A person starts another run, which has not ended when the stop comes.
        let send = Asked::Send {
            agent: named("max"),
            text: "and now?".to_owned(),
            env: Vec::new(),
        };
        lead.asks_core(send).unwrap();
        lead.wait_row("max", "running again", |a| a.status == Status::Running);
        lead.makes("stop");
        stopped(&lead.outcome(&step, 1)[0], "max");
        let told = lead.wait_told(1);
        assert_eq!(told[0]["result"], "the first", "{version:?}");
        lead.stays_quiet();
    }
}

// R-LIFE-13, R-DELIV-15: a run beyond its limit is told once as stopped, with what it had said; a message
// brings the agent back, and the limit holds for that run too.
#[test]
fn the_time_limit_ends_a_run_and_not_the_agent() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        lead.agent(
            "part one",
            [
                Turn::say("half of it").then(crate::support::model::Step::Hang),
                Turn::say("all of it"),
                Turn::hang(),
            ],
        );
        let mut arguments = spawn("part one", true);
        arguments["timeoutMs"] = json!(600);
        assert_eq!(lead.spawns_with([arguments]), ["max"]);
        let told = lead.wait_told(1);
        assert_eq!(told[0]["status"], "stopped", "{version:?}");
        assert_eq!(told[0]["result"], "stopped by the time limit\n\nhalf of it");
        assert_eq!(told[0].get("idle"), None);
        lead.wait_row("max", "closed", |a| a.pid.is_none());
        let used = lead.sends("max", "go on");
        assert!(
            used.text.contains("was started again from its session"),
            "{used:?}"
        );
        let told = lead.wait_told(2);
        assert_eq!(told[1]["status"], "completed");
        assert_eq!(told[1]["result"], "all of it");
        assert_eq!(told[1]["idle"], true);
        assert!(!lead.sends("max", "and more").error);
        let told = lead.wait_told(3);
        assert_eq!(told[2]["status"], "stopped", "{version:?}");
        assert_eq!(
            told[2]["result"],
            "stopped by the time limit\n\n(no output)"
        );
        lead.stays_quiet();
        assert_eq!(lead.told().len(), 3, "{version:?}");
    }
}

// R-DELIV-15, R-DELIV-16: how a run ended, in the words and the status that the parent's model reads.
#[test]
fn every_end_of_a_run_is_told_as_what_it_was() {
    for version in Version::ALL {
        let mut lead = Lead::start(version);
        let hangs = |text: &str| Turn::say(text).then(crate::support::model::Step::Hang);
        lead.agent(
            "part one",
            [
                Turn::say("all of it"),
                Turn::say("cut sho").finish("length"),
                Turn::new(),
                hangs("half of it"),
                Turn::say("I look").tool("bash", json!({"command": "touch in-tool; sleep 300"})),
                Turn::error(400, "no such luck"),
                Turn::say("I look").tool("bash", json!({"command": "touch in-tool; sleep 300"})),
            ],
        );
        lead.spawns("part one");
        let (mut told, mut count) = (lead.wait_told(1), 1);
        let mut next = |lead: &mut Lead, meanwhile: &dyn Fn(&Lead)| {
            assert!(!lead.sends("max", "go on").error);
            meanwhile(lead);
            count += 1;
            told = lead.wait_told(count);
            let last = told.last().unwrap();
            let text = last["result"].as_str().unwrap().to_owned();
            (
                last["status"].as_str().unwrap().to_owned(),
                text,
                last["idle"] == true,
            )
        };
        let is = |status: &str, text: &str, idle: bool| (status.to_owned(), text.to_owned(), idle);
        let abort = |lead: &Lead| {
            let agent = named("max");
            lead.asks_core(Asked::Abort { agent }).unwrap();
        };
        let in_tool = |lead: &Lead| {
            let file = lead.parent.pi.work().join("in-tool");
            wait::wait_until("the tool to run", || file.exists());
            std::fs::remove_file(file).unwrap();
        };
        assert_eq!(next(&mut lead, &|_| ()), is("completed", "cut sho", true));
        assert_eq!(
            next(&mut lead, &|_| ()),
            is("completed", "(no output)", true)
        );
        let in_text = |lead: &Lead| {
            lead.parent.model.wait_request("the half", |all| {
                let mut all = all
                    .iter()
                    .filter(|r: &&Request| r.first_user_text() == "part one");
                all.nth(3).map(|_| ())
            });
            lead.wait_row("max", "some text", |a| {
                a.activity
                    .as_deref()
                    .is_some_and(|t| t.contains("half of it"))
            });
            abort(lead);
        };
        assert_eq!(
            next(&mut lead, &in_text),
            is("stopped", "stopped by the user\n\nhalf of it", true),
            "{version:?}"
        );
        assert_eq!(
            next(&mut lead, &|lead| {
                in_tool(lead);
                abort(lead);
            }),
            is("stopped", "stopped by the user\n\nI look", true),
            "{version:?}"
        );
        let (status, text, idle) = next(&mut lead, &|_| ());
        assert_eq!((status.as_str(), idle), ("failed", false), "{version:?}");
        assert!(text.starts_with("failed: 400"), "{text}");
        assert!(text.contains("no such luck"), "{text}");
        assert!(text.ends_with("\n\n(no output)"), "{text}");
        lead.wait_row("max", "closed", |a| a.pid.is_none());
        // A process that dies in the middle of its work.
        let (status, text, idle) = next(&mut lead, &|lead| {
            in_tool(lead);
            let pid = lead.row("max").unwrap().pid.unwrap();
            processes::signal(pid, Signal::KILL);
        });
        assert_eq!((status.as_str(), idle), ("failed", false), "{version:?}");
        assert_eq!(text, "failed: killed by signal 9\n\nI look");
        lead.stays_quiet();
        assert_eq!(replies(&lead.told()).len(), 7, "{version:?}");
    }
}
