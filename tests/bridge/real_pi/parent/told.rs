//! What a parent was told, and how often: in the requests to its model, in its session file, and what
//! its core still owes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Parent;
use crate::support::model::Request;
use crate::support::processes::{self, Process};
use crate::support::rpc::Rpc;
use crate::support::wait;

/// How a parent is asked for, so that its tools are active (R-TOOL-12).
pub(super) const TASK: &str = "/skill:pi-subagents-workflow the whole";

/// Commands for what a person does in Pi's own screen. At the start of a session it notes why it
/// started, and which of the processes in `watch` still lived then.
pub(super) const HANDS: &str = r#"
import { appendFileSync, existsSync, readFileSync } from "node:fs";
const alive = (pid) => {
    try {
        return readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "")[0] !== "Z";
    } catch {
        return false;
    }
};
export default function (pi) {
    pi.registerCommand("again", { handler: async (_, ctx) => { await ctx.reload(); } });
    pi.registerCommand("back", { handler: async (_, ctx) => {
        const users = ctx.sessionManager.getEntries().filter((e) => e.type === "message" && e.message.role === "user");
        await ctx.navigateTree(users.at(-1).id);
    } });
    pi.registerCommand("to", { handler: async (id, ctx) => { await ctx.navigateTree(id.trim()); } });
    pi.on("session_start", (event, ctx) => {
        const watch = `${ctx.cwd}/watch`;
        const pids = existsSync(watch) ? readFileSync(watch, "utf8").split(" ").filter((pid) => pid !== "") : [];
        appendFileSync(`${ctx.cwd}/starts`, `${event.reason} ${pids.filter(alive).length}\n`);
    });
}
"#;

/// Everything an agent said to its parent among what a request holds, in its order.
pub(super) fn told(request: &Request) -> Vec<Value> {
    let texts = request.texts("user");
    let values = texts
        .iter()
        .filter_map(|text| serde_json::from_str::<Value>(text).ok());
    values.filter(|value| value["kind"].is_string()).collect()
}

/// Names of the agents that the calls of a turn started, in the order of the calls.
#[track_caller]
pub(super) fn names(request: &Request) -> Vec<String> {
    let answers = request.tool_results();
    let name = |answer: &String| {
        let rest = answer.strip_prefix('@');
        let name = rest.and_then(|rest| rest.split(' ').next());
        name.unwrap_or_else(|| panic!("not started: {answer}"))
            .to_owned()
    };
    answers.iter().map(name).collect()
}

/// The results in it.
pub(super) fn results(told: &[Value]) -> Vec<&str> {
    told.iter().filter_map(|v| v["result"].as_str()).collect()
}

/// Proves that nothing was told twice.
#[track_caller]
pub(super) fn no_repeats(told: &[Value]) {
    let mut seen: Vec<&Value> = Vec::new();
    for value in told {
        assert!(!seen.contains(&value), "told twice: {told:#?}");
        seen.push(value);
    }
    let mut ids: Vec<&str> = told
        .iter()
        .filter_map(|v| v["completion_id"].as_str())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "told twice: {told:#?}");
}

/// Deliveries among the entries of a session file, in any branch: id and text.
pub(super) fn delivered(session: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(session).unwrap_or_default();
    text.lines()
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["type"] == "custom_message")
        .filter_map(|entry| {
            let id = entry["details"]["delivery"].as_str()?.to_owned();
            Some((id, entry["content"].as_str()?.to_owned()))
        })
        .collect()
}

impl Parent {
    /// Starts Pi once more in the same world, the last one being gone.
    pub(super) fn start_again(&mut self, args: &[&str]) {
        let mut command = Self::command(&self.pi, |_, _| {});
        command.args(args).env("PI_AGENTS_LOG", "debug");
        self.rpc = Rpc::start(command);
    }

    /// SIGKILL to Pi, and nothing else of it is left.
    #[track_caller]
    pub(super) fn kill(&mut self) {
        processes::signal(self.rpc.pid(), rustix::process::Signal::KILL);
        self.rpc.wait_exit();
        self.wait_gone();
    }

    /// Nothing of this world runs any more.
    #[track_caller]
    pub(super) fn wait_gone(&self) {
        wait::wait_for_or(
            "nothing to be left",
            || self.pi.sandbox.processes().is_empty().then_some(()),
            || {
                let left = self.pi.sandbox.processes();
                left.iter().map(|p| format!("{p}\n")).collect()
            },
        );
    }

    /// The process of the core, not its guard.
    #[track_caller]
    pub(super) fn core(&self) -> Process {
        wait::wait_for("the core", || {
            let mut all = self.pi.sandbox.processes();
            all.retain(|p| p.args.iter().any(|arg| arg == "--core"));
            all.pop()
        })
    }

    /// The processes of agents of that name.
    pub(super) fn agents(&self, name: &str) -> Vec<Process> {
        let mut named = processes::with_env("PI_SUBAGENT_AGENT_ID", name);
        let ours = self.pi.sandbox.processes();
        named.retain(|p| ours.iter().any(|our| our.pid == p.pid));
        named
    }

    /// Pi's file of the session that is open.
    #[track_caller]
    pub(super) fn session(&mut self) -> PathBuf {
        let state = self.rpc.request("get_state", json!({}));
        state["data"]["sessionFile"]
            .as_str()
            .expect("a file")
            .into()
    }

    /// Waits until Pi does nothing and `count` requests of the parent were answered.
    #[track_caller]
    pub(super) fn wait_idle(&mut self) {
        wait::wait_until("the parent to be idle", || {
            let state = self.rpc.request("get_state", json!({}));
            state["data"]["isStreaming"] == false && state["data"]["isCompacting"] == false
        });
    }

    /// Waits until these texts were delivered into the session file.
    #[track_caller]
    pub(super) fn wait_delivered(&self, session: &Path, texts: &[&str]) {
        wait::wait_for_or(
            &format!("{texts:?} in the session"),
            || {
                let there = delivered(session);
                let all = texts
                    .iter()
                    .all(|text| there.iter().any(|(_, content)| content.contains(text)));
                all.then_some(())
            },
            || format!("{:#?}\n{}", delivered(session), self.rpc.stderr()),
        );
    }

    /// What the journals of all sessions say.
    pub(super) fn journals(&self) -> String {
        let folder = self.pi.sandbox.state().join("pi-agents/journals");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|f| f.path().extension().is_some_and(|e| e == "jsonl"))
            .filter_map(|f| std::fs::read_to_string(f.path()).ok())
            .collect()
    }

    /// Waits until these texts are safe in a journal.
    #[track_caller]
    pub(super) fn wait_journal(&self, texts: &[&str]) {
        wait::wait_for_or(
            &format!("{texts:?} in the journal"),
            || {
                let there = self.journals();
                texts.iter().all(|text| there.contains(text)).then_some(())
            },
            || format!("{}\n{}", self.journals(), self.rpc.stderr()),
        );
    }

    /// Waits until the bridge holds so many deliveries for the next boundary, by its own trace: on the
    /// disk is offered, in the bridge's memory is a moment later.
    #[track_caller]
    pub(super) fn wait_held(&self, count: usize) {
        wait::wait_for_or(
            &format!("{count} deliveries in the bridge's memory"),
            || {
                let said = self.rpc.stderr();
                let held = said
                    .lines()
                    .filter_map(|line| line.split_once("held for a boundary: "))
                    .map(|(_, ids)| ids.split(' ').count());
                (held.sum::<usize>() >= count).then_some(())
            },
            || format!("{}\n{}", self.journals(), self.rpc.stderr()),
        );
    }

    /// Waits until this Pi has joined a core for the `count`th time, by its bridge's own trace.
    #[track_caller]
    pub(super) fn wait_joined(&self, count: usize) {
        wait::wait_for_or(
            &format!("core number {count}"),
            || (self.rpc.stderr().matches("trace: joined as ").count() >= count).then_some(()),
            || self.rpc.stderr(),
        );
    }

    /// Nothing is asked of the parent's model for a while.
    #[track_caller]
    pub(super) fn stays_quiet(&self, marker: &str) {
        let count = self.asked(marker).len();
        wait::stays(
            "the parent is asked nothing",
            Duration::from_millis(300),
            || self.asked(marker).len() == count,
        );
    }

    /// Everything that is due to this session was delivered exactly once: into its file, and to its
    /// model in the last request.
    #[track_caller]
    pub(super) fn told_once(&self, session: &Path, marker: &str, expected: &[&str]) -> Vec<Value> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (id, _) in delivered(session) {
            *counts.entry(id).or_default() += 1;
        }
        assert!(
            counts.values().all(|count| *count == 1),
            "delivered twice: {:#?}",
            delivered(session)
        );
        let requests = self.asked(marker);
        for request in &requests {
            no_repeats(&told(request));
        }
        let last = told(requests.last().expect("a request of the parent"));
        let mut found: Vec<&str> = results(&last);
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{last:#?}");
        last
    }
}
