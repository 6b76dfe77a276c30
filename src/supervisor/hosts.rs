//! Pi sessions as hosts: their lines, their calls, their journals. Executes and translates; who gets
//! which result is the machine's decision.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::actor::{Actor, Event};
use super::host_link::Link;
use super::journal::{Journal, JournalEvent, JournalOptions, News, OpenError, Opened};
use super::progress::{CallFeed, Origin};
use super::record::{self, AgentRecord};
use super::requests::child_env;
use crate::client::host::{
    Contributions, HostAnswer, HostBranch, HostCall, HostHello, HostNews, HostSays, HostSeat,
    Offered, ToolView,
};
use crate::client::{ErrorCode, RequestError};
use crate::fleet::agent::Thinking;
use crate::fleet::completion::Delivery;
use crate::fleet::host::{Caller, HostKind, LeaveReason};
use crate::fleet::ids::{AgentId, CallId, HostId};
use crate::fleet::machine::{ChildEnv, Input, OfferAnswer};
use crate::fleet::outbox::JournalRecord;
use crate::fleet::roster::SessionView;
use crate::tools::call::{self};
use crate::tools::subagents::{Position, definitions};

/// A Pi session that does not answer a question about a launch for so long gets no child: its event
/// loop stands still.
pub(super) const LAUNCH_ANSWER: Duration = Duration::from_secs(10);

/// How much longer than the ladder of a stop a core may take to end and to let go of its journals.
const LAST_CORE: Duration = Duration::from_secs(2);

/// Pause between two looks at a journal that another core has.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The bridge waits for the answer to its handshake for ten seconds.
const LONGEST_JOIN: Duration = Duration::from_secs(8);

/// News that may wait for a Pi session. Nothing is offered twice, so that many are only there when it
/// does not read: it is given up then, and what it was owed waits for its next generation (R-Q-02).
const NEWS: usize = 1024;

/// What a Pi session asks the actor.
pub(super) enum HostAsk {
    /// Take a place.
    Join {
        hello: Box<HostHello>,
        reply: oneshot::Sender<Result<HostSeat, RequestError>>,
    },
    /// Use a tool.
    Call {
        caller: Caller,
        call: HostCall,
        reply: oneshot::Sender<HostAnswer>,
    },
    /// Say something.
    Says { caller: Caller, what: HostSays },
    /// Leave.
    Leave {
        caller: Caller,
        reason: LeaveReason,
        reply: Option<oneshot::Sender<()>>,
    },
}

/// A session whose journal was opened and that may enter the machine.
pub(super) struct Opening {
    hello: Box<HostHello>,
    journal: Option<Result<Opened, OpenError>>,
    /// Its agents of earlier cores.
    records: Vec<AgentRecord>,
    reply: oneshot::Sender<Result<HostSeat, RequestError>>,
}

/// One session.
pub(super) struct Desk {
    pub(super) generation: u64,
    pub(super) news: mpsc::Sender<HostNews>,
    pub(super) env: ChildEnv,
    pub(super) cwd: PathBuf,
    pub(super) model: Option<String>,
    pub(super) thinking: Option<Thinking>,
    pub(super) one_task: bool,
    /// Calls by Pi's ids of them. Providers choose those, and some use one twice in an answer.
    pub(super) calls: HashMap<String, Vec<CallId>>,
    pub(super) leaving: Vec<oneshot::Sender<()>>,
    pub(super) launches: HashMap<u64, oneshot::Sender<Result<Contributions, String>>>,
    /// Its foreground calls.
    feed: Arc<CallFeed>,
}

/// All sessions of this core.
#[derive(Default)]
pub(super) struct Hosts {
    pub(super) desks: HashMap<HostId, Desk>,
    /// Open for as long as the core lives: what is owed is kept across generations.
    journals: HashMap<HostId, Journal>,
    generations: u64,
    questions: u64,
}

impl Hosts {
    fn desk(&mut self, caller: Caller) -> Option<&mut Desk> {
        self.desks
            .get_mut(&caller.host)
            .filter(|d| d.generation == caller.generation)
    }

    /// The environment of a host's session, for an agent that somebody else brings back (R-LIFE-18).
    pub(super) fn env_of(&self, host: HostId) -> Option<ChildEnv> {
        self.desks.get(&host).map(|d| d.env.clone())
    }

    /// Asks a session what its other extensions want a child to have. `None` = it has none to ask.
    pub(super) fn ask_launch(
        &mut self,
        caller: Caller,
    ) -> Option<oneshot::Receiver<Result<Contributions, String>>> {
        self.questions += 1;
        let id = self.questions;
        let desk = self.desk(caller)?;
        let (reply, answer) = oneshot::channel();
        desk.launches.insert(id, reply);
        if desk.news.try_send(HostNews::Launch { id }).is_err() {
            desk.launches.remove(&id);
        }
        Some(answer)
    }

    /// Hands news to a session of this generation. `false` = it has not read for so long that it
    /// counts as gone.
    pub(super) fn tell(&mut self, caller: Caller, news: HostNews) -> bool {
        let Some(desk) = self.desk(caller) else {
            return true;
        };
        let full = desk.news.try_send(news).is_err();
        if full {
            tracing::error!(host = %caller.host, "a Pi session does not read its news: given up");
        }
        !full
    }

    /// Writes a record; `false` = there is no journal to write it into.
    pub(super) fn write(&self, host: HostId, seq: u64, record: JournalRecord) -> bool {
        let journal = self.journals.get(&host);
        journal.is_some_and(|j| {
            j.append(seq, record);
            true
        })
    }

    /// A call of a session waits for an agent from now on.
    pub(super) fn call_waits(&mut self, by: Caller, call: CallId, agent: AgentId, origin: Origin) {
        if let Some(desk) = self.desk(by) {
            desk.feed.open(call, agent, origin);
        }
    }

    /// A call is about to be answered: nothing is told of it any more.
    pub(super) fn call_ends(&self, call: CallId) {
        for desk in self.desks.values() {
            desk.feed.close(call);
        }
    }

    /// The last agent of a generation is gone. `false` = the session has joined again since.
    pub(super) fn closed(&mut self, host: HostId, generation: u64) -> bool {
        let caller = Caller { host, generation };
        let Some(desk) = self.desk(caller) else {
            return false;
        };
        for waiting in desk.leaving.drain(..) {
            let _ = waiting.send(());
        }
        self.desks.remove(&host).is_some()
    }
}

/// The identity of a Pi session as a host: its id, which is a UUID, or one made of it.
pub(super) fn host_id(session: &str) -> HostId {
    let uuid = uuid::Uuid::try_parse(session).unwrap_or_else(|_| {
        // FNV-1a, 128 bits: the same in every core, and not guarded against forgery, since whoever
        // can join can name any session.
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in session.bytes() {
            hash ^= u128::from(byte);
            hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid()
    });
    HostId(uuid)
}

impl Actor {
    pub(super) fn host_ask(&mut self, ask: HostAsk) {
        match ask {
            HostAsk::Join { hello, reply } => self.host_joins(hello, reply),
            HostAsk::Call {
                caller,
                call,
                reply,
            } => self.host_calls(caller, call, reply),
            HostAsk::Says { caller, what } => self.host_says(caller, what),
            HostAsk::Leave {
                caller,
                reason,
                reply,
            } => self.host_leaves(caller, reason, reply),
        }
    }

    /// The journal is opened before the machine hears of the session: what was owed to it comes in
    /// with it.
    fn host_joins(
        &mut self,
        hello: Box<HostHello>,
        reply: oneshot::Sender<Result<HostSeat, RequestError>>,
    ) {
        let events = self.events.clone();
        let host = host_id(&hello.session);
        if self.hosts.journals.contains_key(&host) {
            self.host_opened(Opening {
                hello,
                journal: None,
                records: Vec::new(),
                reply,
            });
            return;
        }
        let folder = self.config.journals.clone();
        let on_record = self.config.session_records.join(host.to_string());
        // A Pi that was just quit, or died, leaves a core that still ends its agents. Its session may
        // be open again by then: that core is waited for, another Pi's is not for long.
        let machine = &self.config.machine;
        let patience = (machine.eof_grace + machine.term_grace + LAST_CORE).min(LONGEST_JOIN);
        tokio::spawn(async move {
            let session = hello.session.clone();
            let opened = tokio::task::spawn_blocking(move || {
                let opened = open_journal(&folder, &session, patience);
                let (records, problems) = record::load_all(&on_record).unwrap_or_else(|error| {
                    tracing::error!(%error, folder = %on_record.display(), "records not read");
                    Default::default()
                });
                for problem in problems {
                    tracing::warn!(%problem, "agent record left alone");
                }
                (opened, records)
            })
            .await;
            let Ok((opened, records)) = opened else {
                let _ = reply.send(Err(RequestError::new(
                    ErrorCode::Internal,
                    "the journal of this session cannot be opened",
                )));
                return;
            };
            let opening = Opening {
                hello,
                journal: Some(opened),
                records,
                reply,
            };
            let _ = events.send(Event::HostOpened(Box::new(opening))).await;
        });
    }

    pub(super) fn host_opened(&mut self, opening: Opening) {
        let Opening {
            hello,
            journal,
            records: agents,
            reply,
        } = opening;
        let host = host_id(&hello.session);
        let mut records = Vec::new();
        let mut failed = None;
        match journal {
            None => {}
            Some(Err(error)) => {
                let _ = reply.send(Err(RequestError::new(
                    ErrorCode::Conflict,
                    error.to_string(),
                )));
                return;
            }
            // Opened twice at once: the first one holds the lock, so this cannot be.
            Some(Ok(_)) if self.hosts.journals.contains_key(&host) => {}
            Some(Ok(opened)) => {
                if let Some(note) = &opened.note {
                    tracing::warn!(%host, %note, "journal");
                }
                records = opened.records;
                failed = opened.failed;
                let news = opened.journal.follow(opened.events, failed.is_some());
                self.hosts.journals.insert(host, opened.journal);
                self.follow_journal(host, news);
            }
        }
        let unknown = agents.into_iter().filter(|a| !self.machine.knows(a.id));
        let unknown: Vec<_> = unknown.collect();
        self.restore(unknown);
        self.hosts.generations += 1;
        let caller = Caller {
            host,
            generation: self.hosts.generations,
        };
        let call = CallId::fresh();
        let (joined, mut answer) = oneshot::channel();
        self.calls.insert(call, joined);
        self.input(Input::HostJoined {
            call,
            host,
            kind: HostKind::Pi,
            generation: caller.generation,
            known: hello.known,
            undecided: hello.undecided,
            durable: hello.durable,
            journal: records,
        });
        self.input(branch_of(caller, hello.branch));
        if let Some(why) = failed {
            tracing::error!(%host, %why, "journal cannot be used");
            self.input(Input::JournalFailed { host });
        }
        match answer.try_recv() {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let _ = reply.send(Err(error));
                return;
            }
            Err(_) => {
                let _ = reply.send(Err(RequestError::new(
                    ErrorCode::Internal,
                    "the core did not answer",
                )));
                return;
            }
        }
        self.shared.session_joined(SessionView {
            host,
            session: hello.session,
            folder: hello.cwd.clone(),
        });
        let (news, inbox) = mpsc::channel(NEWS);
        let feed = CallFeed::new(&self.shared);
        self.hosts.desks.insert(
            host,
            Desk {
                generation: caller.generation,
                news,
                env: child_env(&hello.env),
                cwd: hello.cwd,
                model: hello.model,
                thinking: hello.thinking.as_deref().and_then(Thinking::parse),
                one_task: hello.one_task,
                calls: HashMap::new(),
                leaving: Vec::new(),
                launches: HashMap::new(),
                feed: Arc::clone(&feed),
            },
        );
        let link = Link::new(caller, self.asks.clone(), inbox);
        let seat = HostSeat {
            host,
            generation: caller.generation,
            tools: tools(Position::at(0, self.config.machine.max_depth)),
            link: Arc::new(link),
            progress: feed,
        };
        if reply.send(Ok(seat)).is_err() {
            // Whoever asked is gone; the link that was dropped with the seat says so.
            return;
        }
        self.input(Input::HostState {
            host,
            generation: caller.generation,
            activity: hello.activity,
        });
    }

    /// News of a journal become inputs.
    fn follow_journal(&self, host: HostId, mut news: News) {
        let events = self.events.clone();
        tokio::spawn(async move {
            while let Some(event) = news.next().await {
                let input = match event {
                    JournalEvent::Synced(seq) => Input::Journaled { host, seq },
                    JournalEvent::Failed(why) => {
                        tracing::error!(%host, %why, "journal cannot be written");
                        Input::JournalFailed { host }
                    }
                    JournalEvent::Recovered { seq, records } => {
                        Input::JournalRecovered { host, seq, records }
                    }
                    JournalEvent::Read(records) => Input::JournalRead { host, records },
                };
                if events.send(Event::Input(input)).await.is_err() {
                    return;
                }
            }
        });
    }

    fn host_says(&mut self, caller: Caller, what: HostSays) {
        let Caller { host, generation } = caller;
        if matches!(what, HostSays::Lost) {
            self.host_leaves(caller, LeaveReason::Lost, None);
            return;
        }
        let Some(desk) = self.hosts.desk(caller) else {
            return;
        };
        let offered = |epoch, answer| Input::Offered {
            host,
            generation,
            epoch,
            answer,
        };
        match what {
            HostSays::State {
                activity,
                model,
                thinking,
            } => {
                if model.is_some() {
                    desk.model = model;
                }
                if let Some(level) = thinking.as_deref().and_then(Thinking::parse) {
                    desk.thinking = Some(level);
                }
                self.input(Input::HostState {
                    host,
                    generation,
                    activity,
                });
            }
            HostSays::Branch(branch) => self.input(branch_of(caller, branch)),
            HostSays::Taken { epoch } => self.input(offered(epoch, OfferAnswer::Taken)),
            HostSays::Refused { epoch } => self.input(offered(epoch, OfferAnswer::Refused)),
            HostSays::Ack {
                epoch,
                found,
                missing,
                durable,
            } => {
                let answer = OfferAnswer::Checked {
                    found,
                    missing: if epoch.is_none() { missing } else { Vec::new() },
                    durable,
                };
                self.input(offered(epoch.unwrap_or(0), answer));
            }
            HostSays::Cancel { call } => {
                for call in desk.calls.get(&call).cloned().unwrap_or_default() {
                    self.input(Input::Cancel { call });
                }
            }
            HostSays::Lost => {}
            HostSays::Launch { id, answer } => {
                if let Some(waiting) = desk.launches.remove(&id) {
                    let _ = waiting.send(answer);
                }
            }
        }
    }

    fn host_leaves(
        &mut self,
        caller: Caller,
        reason: LeaveReason,
        reply: Option<oneshot::Sender<()>>,
    ) {
        let Some(desk) = self.hosts.desk(caller) else {
            // An older generation, or one that is closed already: nothing of it is left.
            return;
        };
        desk.leaving.extend(reply);
        self.input(Input::HostLeft {
            host: caller.host,
            generation: caller.generation,
            reason,
        });
    }
}

fn branch_of(caller: Caller, branch: HostBranch) -> Input {
    Input::HostBranch {
        host: caller.host,
        generation: caller.generation,
        agents: branch.agents,
        names: branch.names,
    }
}

/// Opens the journal of a session. One that another core has is waited for, up to `patience`.
fn open_journal(folder: &Path, session: &str, patience: Duration) -> Result<Opened, OpenError> {
    let until = std::time::Instant::now() + patience;
    loop {
        let opened = Journal::open(folder, session, JournalOptions::default());
        let held = matches!(opened, Err(OpenError::Held { .. }));
        if !held || std::time::Instant::now() >= until {
            return opened;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What the model of a session at this position is given.
fn tools(position: Position) -> Vec<ToolView> {
    definitions(position)
        .into_iter()
        .map(|tool| ToolView {
            name: tool.name.to_owned(),
            title: tool.title.to_owned(),
            description: tool.description.clone(),
            prompt_snippet: tool.prompt_snippet.to_owned(),
            input_schema: serde_json::to_value(&tool.input_schema).unwrap_or_default(),
        })
        .collect()
}

/// Results as they are handed over.
pub(super) fn offered(deliveries: &[Delivery]) -> Vec<Offered> {
    deliveries
        .iter()
        .map(|delivery| Offered {
            id: delivery.id(),
            content: call::content(delivery),
            details: call::details(delivery),
        })
        .collect()
}
