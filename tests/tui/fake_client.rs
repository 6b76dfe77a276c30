//! A core that is not there: answers requests as a test says, keeps what was asked, and gives out
//! news in the order a test makes them.
#![allow(dead_code, reason = "shared by several tests and an example")]

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pi_agents::client::{
    AgentRef, BoxFuture, ErrorCode, FleetClient, Reply, Request, RequestError, Update,
};
use pi_agents::fleet::agent::{AgentSpec, Status, ToolChoice};
use pi_agents::fleet::ids::{AgentId, CoreId, HostId, MessageId};
use pi_agents::fleet::roster::{
    AgentView, ContextUse, CoreView, DialogKind, DialogView, FleetDelta, FleetSnapshot, UsageTotals,
};
use pi_agents::fleet::transcript::{EntryKind, TranscriptLog};
use tokio::sync::Notify;
use uuid::Uuid;

/// Noon of a day, UTC: the wall clock of all pictures.
pub const NOON: i64 = 1_796_040_000_000;

type Answer = Box<dyn Fn(&mut State, &Request) -> Option<Result<Reply, RequestError>> + Send>;

/// What the fake knows.
pub struct State {
    pub fleet: FleetSnapshot,
    pub logs: HashMap<AgentId, TranscriptLog>,
    given: HashMap<AgentId, u64>,
    watched: Vec<AgentId>,
    news: VecDeque<Option<Vec<Update>>>,
    requests: Vec<Request>,
    /// Requests that get no answer until the test gives one.
    held: VecDeque<Result<Reply, RequestError>>,
    hold: bool,
    began: bool,
}

pub struct FakeClient {
    state: Mutex<State>,
    answer: Mutex<Answer>,
    bell: Notify,
    release: Notify,
}

impl FakeClient {
    pub fn new(agents: Vec<AgentView>) -> Self {
        Self {
            state: Mutex::new(State {
                fleet: FleetSnapshot {
                    rev: 1,
                    core: core(),
                    agents,
                },
                logs: HashMap::new(),
                given: HashMap::new(),
                watched: Vec::new(),
                news: VecDeque::new(),
                requests: Vec::new(),
                held: VecDeque::new(),
                hold: false,
                began: false,
            }),
            answer: Mutex::new(Box::new(|_, _| None)),
            bell: Notify::new(),
            release: Notify::new(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests by this; `None` = the usual answer.
    pub fn answer(
        &self,
        by: impl Fn(&mut State, &Request) -> Option<Result<Reply, RequestError>> + Send + 'static,
    ) {
        *self.answer.lock().unwrap() = Box::new(by);
    }

    /// Requests from now on wait for `let_go`.
    pub fn hold(&self) {
        self.state().hold = true;
    }

    /// Answers the oldest waiting request.
    pub fn let_go(&self, answer: Result<Reply, RequestError>) {
        self.state().held.push_back(answer);
        self.release.notify_waiters();
    }

    /// What was asked, watching left out, and forgets it.
    pub fn asked(&self) -> Vec<Request> {
        let mut state = self.state();
        std::mem::take(&mut state.requests)
            .into_iter()
            .filter(|request| !matches!(request, Request::Watch { .. }))
            .collect()
    }

    /// Changes agents; the changed ones become a delta.
    pub fn change(&self, change: impl FnOnce(&mut FleetSnapshot)) {
        let mut state = self.state();
        let before = state.fleet.clone();
        change(&mut state.fleet);
        let agents: Vec<AgentView> = state
            .fleet
            .agents
            .iter()
            .filter(|agent| !before.agents.contains(agent))
            .cloned()
            .collect();
        state.fleet.rev = before.rev + 1;
        let delta = FleetDelta {
            since: before.rev,
            rev: state.fleet.rev,
            core: (state.fleet.core != before.core).then(|| state.fleet.core.clone()),
            agents,
        };
        if state.began {
            state.news.push_back(Some(vec![Update::Delta(delta)]));
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Changes one agent.
    pub fn agent(&self, id: AgentId, change: impl FnOnce(&mut AgentView)) {
        self.change(|fleet| change(fleet.agents.iter_mut().find(|a| a.id == id).unwrap()));
    }

    /// Changes a transcript; those who watch get a patch.
    pub fn say(&self, id: AgentId, change: impl FnOnce(&mut TranscriptLog)) {
        let mut state = self.state();
        change(state.logs.entry(id).or_default());
        if state.watched.contains(&id) {
            state.patch(id);
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Adds an entry.
    pub fn entry(&self, id: AgentId, kind: EntryKind) {
        self.say(id, |log| {
            log.push(NOON, kind);
        });
    }

    /// Gives out something as it is.
    pub fn push(&self, update: Update) {
        self.state().news.push_back(Some(vec![update]));
        self.bell.notify_one();
    }

    /// The core ends.
    pub fn end(&self) {
        self.state().news.push_back(None);
        self.bell.notify_one();
    }
}

impl State {
    fn patch(&mut self, id: AgentId) {
        let since = self.given.get(&id).copied();
        let log = self.logs.entry(id).or_default();
        if let Some(patch) = log.patch_since(since) {
            self.given.insert(id, patch.rev);
            self.news
                .push_back(Some(vec![Update::Transcript { agent: id, patch }]));
        }
    }

    fn find(&self, agent: &AgentRef) -> Option<AgentId> {
        self.fleet
            .agents
            .iter()
            .find(|view| match agent {
                AgentRef::Id(id) => view.id == *id,
                AgentRef::Name(name) => view.name == name.trim_start_matches('@'),
            })
            .map(|view| view.id)
    }

    fn usual(&mut self, request: &Request) -> Result<Reply, RequestError> {
        let known = |state: &Self, agent: &AgentRef| {
            state
                .find(agent)
                .ok_or_else(|| RequestError::new(ErrorCode::NotFound, "no such agent"))
        };
        match request {
            Request::Spawn(_) => Ok(Reply::Spawned {
                agent: id(999),
                name: "new".into(),
                session_path: None,
            }),
            Request::Send { agent, .. } | Request::Continue { agent, .. } => known(self, agent)
                .map(|_| Reply::Sent {
                    message: MessageId(Uuid::from_u128(1)),
                    revived: false,
                    steered: true,
                }),
            Request::Stop { agent } => {
                known(self, agent).map(|_| Reply::Stopped { was_live: true })
            }
            Request::Abort { agent } => known(self, agent).map(|_| Reply::Aborted {
                returned: Vec::new(),
            }),
            Request::Answer { agent, .. } => known(self, agent).map(|_| Reply::Done),
            Request::Explain { .. } => Err(RequestError::new(
                ErrorCode::Unsupported,
                "the screen does not ask this",
            )),
            Request::Watch { agents } => {
                for agent in agents {
                    if !self.watched.contains(agent) {
                        self.given.remove(agent);
                    }
                }
                self.watched.clone_from(agents);
                for agent in agents.clone() {
                    self.patch(agent);
                }
                Ok(Reply::Done)
            }
            Request::Resync => {
                self.news
                    .push_back(Some(vec![Update::Snapshot(Box::new(self.fleet.clone()))]));
                self.given.clear();
                for agent in self.watched.clone() {
                    self.patch(agent);
                }
                Ok(Reply::Done)
            }
            Request::Snapshot => Ok(Reply::Snapshot {
                fleet: Box::new(self.fleet.clone()),
            }),
            Request::Shutdown => Ok(Reply::Done),
        }
    }
}

impl FleetClient for FakeClient {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            let watch = matches!(request, Request::Watch { .. } | Request::Resync);
            let hold = {
                let mut state = self.state();
                state.requests.push(request.clone());
                state.hold && !watch
            };
            if hold {
                loop {
                    let waits = self.release.notified();
                    if let Some(answer) = self.state().held.pop_front() {
                        return answer;
                    }
                    waits.await;
                }
            }
            let answer = {
                let by = self.answer.lock().unwrap();
                let mut state = self.state();
                match by(&mut state, &request) {
                    Some(answer) => answer,
                    None => state.usual(&request),
                }
            };
            self.bell.notify_one();
            answer
        })
    }

    fn updates(&self) -> BoxFuture<'_, Option<Vec<Update>>> {
        Box::pin(async move {
            loop {
                let waits = self.bell.notified();
                {
                    let mut state = self.state();
                    if !state.began {
                        state.began = true;
                        return Some(vec![Update::Snapshot(Box::new(state.fleet.clone()))]);
                    }
                    if let Some(batch) = state.news.pop_front() {
                        return batch;
                    }
                }
                waits.await;
            }
        })
    }
}

/// A fixed id.
pub fn id(n: u128) -> AgentId {
    AgentId(Uuid::from_u128(n))
}

pub fn core() -> CoreView {
    CoreView {
        id: CoreId(Uuid::from_u128(7)),
        pid: 4711,
        version: "0.1.0".into(),
        host: HostId(Uuid::from_u128(8)),
        folder: PathBuf::from("/home/you/shop"),
        pi: "pi".into(),
        demo: false,
        badges: Vec::new(),
        attached: 1,
        sessions: Vec::new(),
    }
}

/// A running agent.
pub fn agent(n: u128, name: &str, label: &str) -> AgentView {
    AgentView {
        id: id(n),
        name: name.into(),
        host: HostId(Uuid::from_u128(8)),
        parent: None,
        depth: 1,
        key: name.into(),
        waited_for: false,
        spec: AgentSpec {
            label: label.into(),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: PathBuf::from("/home/you/shop"),
            persistent: true,
            timeout_ms: None,
            call: None,
        },
        model: Some("anthropic/sonnet".into()),
        thinking: Some("high".into()),
        status: Status::Running,
        closing: false,
        since_ms: NOON - 42_000,
        run_started_ms: Some(NOON - 42_000),
        run_took_ms: None,
        runs_ended: 0,
        usage: UsageTotals {
            input: 9_400,
            output: 3_000,
            cache_read: 30_000,
            cache_write: 0,
            cost: 0.042,
        },
        context: Some(ContextUse {
            tokens: 36_000,
            window: 200_000,
        }),
        tool_uses: 3,
        activity: Some("bash: npm test".into()),
        retry: None,
        compacting: false,
        pending: Vec::new(),
        dialogs: Vec::new(),
        statuses: Vec::new(),
        session_path: None,
        pid: Some(100),
        demo: false,
        rev: 1,
    }
}

/// The same in a state, without a run going on.
pub fn ended(mut view: AgentView, status: Status, took_ms: u64) -> AgentView {
    view.status = status;
    view.run_took_ms = Some(took_ms);
    view.runs_ended = 1;
    view.activity = None;
    view.since_ms = NOON - 27_000;
    view
}

/// A question with choices.
pub fn select(id: &str, title: &str, options: &[&str]) -> DialogView {
    DialogView {
        id: id.into(),
        title: title.into(),
        kind: DialogKind::Select {
            options: options.iter().map(|o| (*o).to_owned()).collect(),
        },
        since_ms: NOON - 60_000,
        timeout_ms: None,
    }
}
