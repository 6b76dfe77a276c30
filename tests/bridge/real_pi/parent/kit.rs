//! A parent that does what a test says, step by step, and takes note of whatever else reaches it.
//!
//! Its model decides by the last message that the test named and by how often it has answered since:
//! so it does not matter when a result or a question comes in between.

use std::cell::OnceCell;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use pi_agents::client::{AgentRef, FleetClient, Reply, Request as Asked, RequestError};
use pi_agents::control::client::{ControlClient, connect};
use pi_agents::control::protocol::Role;
use pi_agents::fleet::roster::AgentView;
use serde_json::{Value, json};

use super::{Parent, spawn};
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{Request, Turn};
use crate::support::versions::Version;
use crate::support::wait;

/// Stands in the first message of the parent, and in nobody else's.
const LEAD: &str = "I lead";

/// What one call of a tool came to, as the model read it.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) text: String,
    pub(super) error: bool,
}

#[derive(Clone)]
enum Reaction {
    /// These answers in order, then nothing more.
    Turns(Vec<Turn>),
    /// This answer again and again, until a message holds the text.
    Until(String, Turn),
}

type Reactions = Arc<Mutex<Vec<(String, Reaction)>>>;

/// See the module.
pub(super) struct Lead {
    pub(super) parent: Parent,
    reactions: Reactions,
    steps: usize,
    eye: OnceCell<(tokio::runtime::Runtime, ControlClient)>,
}

impl Lead {
    pub(super) fn start(version: Version) -> Self {
        Self::open(version, |_, _| {})
    }

    pub(super) fn open(version: Version, set: impl FnOnce(&HermeticPi, &mut Command)) -> Self {
        let parent = Parent::open(version, |pi, command| {
            // Named, they are active without the skill.
            command.args(["--tools", "bash,read,agent_spawn,agent_send,agent_stop"]);
            set(pi, command);
        });
        let reactions = Reactions::default();
        let all = Arc::clone(&reactions);
        parent.model.answer(move |request| {
            is_lead(request).then(|| {
                let all = all.lock().unwrap_or_else(PoisonError::into_inner);
                answer(request, &all).unwrap_or_else(|| Turn::say("noted"))
            })
        });
        Self {
            parent,
            reactions,
            steps: 0,
            eye: OnceCell::new(),
        }
    }

    /// An agent whose task holds that text answers so.
    pub(super) fn agent(&self, task: &str, turns: impl IntoIterator<Item = Turn>) {
        self.parent.model.on(task, turns);
    }

    /// To a message that holds this text the parent answers so.
    pub(super) fn reacts(&self, text: &str, turns: impl IntoIterator<Item = Turn>) {
        self.react(text, Reaction::Turns(turns.into_iter().collect()));
    }

    fn react(&self, text: &str, reaction: Reaction) {
        let mut all = self
            .reactions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push((text.to_owned(), reaction));
    }

    fn prompt(&mut self, reaction: Reaction) -> String {
        self.steps += 1;
        let text = format!("{LEAD}: step {}.", self.steps);
        self.react(&text, reaction);
        let response = self.parent.rpc.prompt(&text);
        assert_eq!(response["success"], true, "{response}");
        text
    }

    /// Lets the parent begin what it is to do and does not wait for it; gives the text of the prompt.
    pub(super) fn begins(&mut self, turns: impl IntoIterator<Item = Turn>) -> String {
        self.prompt(Reaction::Turns(turns.into_iter().collect()))
    }

    /// Lets the parent do these turns; gives what its calls came to.
    #[track_caller]
    pub(super) fn does(&mut self, turns: impl IntoIterator<Item = Turn>) -> Vec<Used> {
        let turns: Vec<_> = turns.into_iter().collect();
        let count = turns.len();
        let step = self.begins(turns);
        self.outcome(&step, count)
    }

    /// What the calls of a step that was begun came to.
    #[track_caller]
    pub(super) fn outcome(&self, step: &str, turns: usize) -> Vec<Used> {
        let request = self.asked_after(step, turns);
        let at = last_with(&request, step).unwrap();
        let results = request.messages()[at..]
            .iter()
            .filter(|m| m["role"] == "tool");
        results
            .map(|message| {
                let id = &message["tool_call_id"];
                let ends = |r: &Value| {
                    r["type"] == "tool_execution_end" && same_call(&r["toolCallId"], id)
                };
                // Pi asks its model on another way than it tells us: this may come a moment later.
                let end = wait::wait_for("the end of the call", || {
                    self.parent.rpc.records().into_iter().rfind(ends)
                });
                Used {
                    text: text_of(message),
                    error: end["isError"] == true,
                }
            })
            .collect()
    }

    #[track_caller]
    fn asked_after(&self, step: &str, turns: usize) -> Request {
        self.parent
            .model
            .wait_request(&format!("the end of {step:?}"), |all| {
                let done = |r: &&Request| {
                    is_lead(r) && last_with(r, step).is_some_and(|at| answers(r, at) >= turns)
                };
                all.iter().rev().find(done).cloned()
            })
    }

    /// One call.
    #[track_caller]
    pub(super) fn uses(&mut self, tool: &str, arguments: Value) -> Used {
        let mut used = self.does([Turn::call(tool, arguments)]);
        assert_eq!(used.len(), 1, "{used:?}");
        used.remove(0)
    }

    #[track_caller]
    pub(super) fn sends(&mut self, to: &str, message: &str) -> Used {
        self.uses("agent_send", json!({"to": to, "message": message}))
    }

    #[track_caller]
    pub(super) fn stops(&mut self, agent: &str) -> Used {
        self.uses("agent_stop", json!({"agent_id": agent}))
    }

    /// Starts an agent in the background and gives its name.
    #[track_caller]
    pub(super) fn spawns(&mut self, task: &str) -> String {
        self.spawns_all(&[task]).remove(0)
    }

    /// Several at once.
    #[track_caller]
    pub(super) fn spawns_all(&mut self, tasks: &[&str]) -> Vec<String> {
        self.spawns_with(tasks.iter().map(|task| spawn(task, true)))
    }

    #[track_caller]
    pub(super) fn spawns_with(&mut self, all: impl IntoIterator<Item = Value>) -> Vec<String> {
        let turn = all.into_iter().fold(Turn::new(), |turn, arguments| {
            turn.tool("agent_spawn", arguments)
        });
        let used = self.does([turn]);
        used.iter().map(name_in).collect()
    }

    /// Keeps the parent busy with short commands until a message of its conversation holds the text.
    #[track_caller]
    pub(super) fn busy_until(&mut self, text: &str) {
        let turn = Turn::call("bash", json!({"command": "sleep 0.05"}));
        let step = self.prompt(Reaction::Until(text.to_owned(), turn));
        self.parent
            .model
            .wait_request(&format!("{text:?} in the parent's conversation"), |all| {
                let seen = |r: &&Request| {
                    let at = last_with(r, &step).filter(|_| is_lead(r));
                    at.is_some_and(|at| r.messages()[at..].iter().any(|m| says(m, text)))
                };
                all.iter().rev().find(seen).map(|_| ())
            });
        self.idle();
    }

    /// Everything that agents told the parent's model so far, in the order in which it reads it.
    #[track_caller]
    pub(super) fn told(&mut self) -> Vec<Value> {
        let step = self.begins([]);
        deliveries(&self.asked_after(&step, 0))
    }

    /// Waits until the parent's model was told so many things, and gives them. More may not come.
    #[track_caller]
    pub(super) fn wait_told(&mut self, count: usize) -> Vec<Value> {
        self.parent
            .model
            .wait_request(&format!("{count} things told"), |all| {
                let mut leads = all.iter().rev().filter(|r| is_lead(r));
                leads.find(|r| deliveries(r).len() >= count).map(|_| ())
            });
        let told = self.told();
        assert_eq!(told.len(), count, "{told:#?}");
        told
    }

    /// Waits until the parent does nothing.
    #[track_caller]
    pub(super) fn idle(&mut self) {
        wait::wait_until("the parent to be idle", || {
            let state = self.parent.rpc.request("get_state", json!({}));
            state["data"]["isStreaming"] == false
        });
    }

    /// Makes a file that somebody waits for.
    pub(super) fn makes(&self, name: &str) {
        std::fs::write(self.parent.pi.work().join(name), "").unwrap();
    }

    /// Takes it away again.
    pub(super) fn removes(&self, name: &str) {
        std::fs::remove_file(self.parent.pi.work().join(name)).unwrap();
    }

    /// The parent's requests to its model so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.parent.asked(LEAD)
    }

    /// Nothing more is asked of the parent's model.
    #[track_caller]
    pub(super) fn stays_quiet(&self) {
        let before = self.requests().len();
        wait::stays(
            "the parent asks its model nothing",
            std::time::Duration::from_millis(250),
            || self.requests().len() == before,
        );
    }

    /// Entries of the parent's session file.
    pub(super) fn saved(&mut self) -> Vec<Value> {
        let state = self.parent.rpc.request("get_state", json!({}));
        let path = state["data"]["sessionFile"].as_str().unwrap();
        entries(path)
    }

    /// Asks the core what a viewer can ask.
    pub(super) fn asks_core(&self, request: Asked) -> Result<Reply, RequestError> {
        let (runtime, client) = self.eye.get_or_init(|| {
            let folder = self.parent.pi.sandbox.runtime().join("pi-agents");
            let socket = wait::wait_for("the socket of the core", || {
                let files = std::fs::read_dir(&folder).ok()?.flatten();
                let mut paths = files.map(|f| f.path());
                paths.find(|p| p.extension().is_some_and(|e| e == "sock"))
            });
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let client = runtime.block_on(connect(&socket, Role::Viewer)).unwrap();
            (runtime, client)
        });
        runtime.block_on(client.request(request))
    }

    /// An agent as a viewer sees it.
    pub(super) fn row(&self, name: &str) -> Option<AgentView> {
        match self.asks_core(Asked::Snapshot) {
            Ok(Reply::Snapshot { fleet }) => fleet.agents.into_iter().find(|a| a.name == name),
            other => panic!("no snapshot: {other:?}"),
        }
    }

    /// Waits for an agent to be as wanted.
    #[track_caller]
    pub(super) fn wait_row(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&AgentView) -> bool,
    ) -> AgentView {
        wait::wait_for_or(
            &format!("@{name}: {what}"),
            || self.row(name).filter(&wanted),
            || format!("{:#?}", self.row(name)),
        )
    }
}

/// The name of an agent, for a viewer's request.
pub(super) fn named(name: &str) -> AgentRef {
    AgentRef::Name(name.to_owned())
}

/// A command that waits for a file in the work folder.
pub(super) fn until(file: &str) -> Value {
    json!({"command": format!("while [ ! -e {file} ]; do sleep 0.02; done; echo {file}")})
}

/// Lines of a session file.
pub(super) fn entries(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The name in the answer to a spawn in the background.
#[track_caller]
pub(super) fn name_in(used: &Used) -> String {
    assert!(!used.error, "{used:?}");
    let name = used.text.strip_prefix('@').and_then(|t| t.split_once(' '));
    name.unwrap_or_else(|| panic!("no name in {used:?}"))
        .0
        .to_owned()
}

/// What agents told a conversation.
pub(super) fn deliveries(request: &Request) -> Vec<Value> {
    let texts = request.texts("user");
    let parsed = texts.iter().filter_map(|t| serde_json::from_str(t).ok());
    parsed.filter(|v: &Value| v["kind"].is_string()).collect()
}

/// The results among them.
pub(super) fn replies(told: &[Value]) -> Vec<&Value> {
    told.iter().filter(|v| v["kind"] == "final_reply").collect()
}

/// A question as the parent's model reads it.
pub(super) fn question(agent: &str, text: &str) -> Value {
    json!({"kind": "non_blocking_question", "agent_id": agent, "question": text})
}

fn is_lead(request: &Request) -> bool {
    request.first_user_text().contains(LEAD)
}

/// Text of a message as the model got it.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|p| p["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn says(message: &Value, text: &str) -> bool {
    message["role"] == "user" && text_of(message).contains(text)
}

fn last_with(request: &Request, text: &str) -> Option<usize> {
    request.messages().iter().rposition(|m| says(m, text))
}

fn answers(request: &Request, after: usize) -> usize {
    let rest = &request.messages()[after..];
    rest.iter().filter(|m| m["role"] == "assistant").count()
}

/// Pi may write more behind the id that the provider gave.
fn same_call(pi: &Value, provider: &Value) -> bool {
    match (pi.as_str(), provider.as_str()) {
        (Some(pi), Some(provider)) => pi == provider || pi.starts_with(&format!("{provider}|")),
        _ => false,
    }
}

fn answer(request: &Request, reactions: &[(String, Reaction)]) -> Option<Turn> {
    let messages = request.messages();
    let (at, reaction) = messages.iter().enumerate().rev().find_map(|(at, m)| {
        let of = reactions.iter().rev().find(|(text, _)| says(m, text));
        of.map(|(_, reaction)| (at, reaction))
    })?;
    match reaction {
        Reaction::Turns(turns) => turns.get(answers(request, at)).cloned(),
        Reaction::Until(text, turn) => {
            let seen = messages[at..].iter().any(|m| says(m, text));
            (!seen).then(|| turn.clone())
        }
    }
}
