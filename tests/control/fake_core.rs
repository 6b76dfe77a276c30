//! A `FleetClient` with nothing behind it: keeps what it was asked, answers on demand, makes news.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pi_agents::client::{
    AgentRef, BoxFuture, ErrorCode, FleetClient, Reply, Request, RequestError, Update,
};
use pi_agents::control::server::{ClientInfo, MakeClient, Options, Server};
use pi_agents::fleet::agent::{AgentSpec, Status, ToolChoice};
use pi_agents::fleet::ids::{AgentId, CoreId, HostId};
use pi_agents::fleet::roster::{
    AgentView, CoreView, FleetDelta, FleetSnapshot, SessionView, UsageTotals,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub fn core_view() -> CoreView {
    CoreView {
        id: CoreId(Uuid::from_u128(1)),
        pid: 7,
        version: "0.1.0".into(),
        host: HostId(Uuid::from_u128(2)),
        folder: PathBuf::from("/home/ada/project"),
        pi: "pi".into(),
        demo: false,
        badges: vec![],
        attached: 1,
        sessions: vec![SessionView {
            host: HostId(Uuid::from_u128(0x0199_c0de_0000_7000_8000_0000_0000_0001)),
            session: "0199c0de-0000-7000-8000-000000000001".into(),
            folder: PathBuf::from("/home/ada/shop"),
        }],
    }
}

pub fn agent_view(id: u128, label: &str) -> AgentView {
    AgentView {
        id: AgentId(Uuid::from_u128(id)),
        name: "max".into(),
        host: HostId(Uuid::from_u128(2)),
        parent: None,
        depth: 1,
        key: "max".into(),
        waited_for: false,
        spec: AgentSpec {
            label: label.into(),
            model: None,
            thinking: None,
            tools: ToolChoice::All,
            cwd: PathBuf::from("/home/ada/project"),
            persistent: true,
            timeout_ms: None,
            call: None,
        },
        model: Some("openai/gpt-5".into()),
        thinking: Some("medium".into()),
        status: Status::Running,
        closing: false,
        since_ms: 1_700_000_000_000,
        run_started_ms: Some(1_700_000_000_000),
        run_took_ms: None,
        runs_ended: 0,
        usage: UsageTotals::default(),
        context: None,
        tool_uses: 0,
        activity: None,
        retry: None,
        compacting: false,
        pending: vec![],
        dialogs: vec![],
        statuses: vec![],
        session_path: None,
        pid: Some(4242),
        demo: false,
        rev: 1,
    }
}

/// What all sessions share.
pub struct FakeCore {
    /// Every request but the snapshots of handshakes, in the order of arrival.
    pub asked: Mutex<Vec<Request>>,
    /// Who connected.
    pub clients: Mutex<Vec<ClientInfo>>,
    /// Number of the last change.
    pub rev: watch::Sender<u64>,
    /// Bytes of label in every change.
    pub weight: AtomicUsize,
    /// Batches taken, all sessions together.
    pub pulled: AtomicU64,
    /// Lets one waiting `Stop` through.
    pub release: Notify,
    /// `Stop`s that wait.
    pub held: AtomicUsize,
    /// Wakes sessions that were asked to begin again.
    pub again: Notify,
    /// The core ends.
    pub gone: CancellationToken,
}

impl FakeCore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            clients: Mutex::default(),
            rev: watch::Sender::new(1),
            weight: AtomicUsize::new(10),
            pulled: AtomicU64::new(0),
            release: Notify::new(),
            held: AtomicUsize::new(0),
            again: Notify::new(),
            gone: CancellationToken::new(),
        })
    }

    pub fn make_client(self: &Arc<Self>) -> MakeClient {
        let core = Arc::clone(self);
        Arc::new(move |info| {
            core.clients.lock().unwrap().push(info);
            Arc::new(FakeSession {
                core: Arc::clone(&core),
                seen: Mutex::new(None),
            })
        })
    }

    pub fn server(self: &Arc<Self>, options: Options) -> (Server, CancellationToken) {
        let shutdown = CancellationToken::new();
        let server = Server::new(self.make_client(), options, shutdown.clone());
        (server, shutdown)
    }

    fn snapshot(&self) -> FleetSnapshot {
        FleetSnapshot {
            rev: *self.rev.borrow(),
            core: core_view(),
            agents: vec![],
        }
    }
}

struct FakeSession {
    core: Arc<FakeCore>,
    /// Number the other end knows.
    seen: Mutex<Option<u64>>,
}

impl FleetClient for FakeSession {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            if request != Request::Snapshot {
                self.core.asked.lock().unwrap().push(request.clone());
            }
            match request {
                Request::Snapshot => Ok(Reply::Snapshot {
                    fleet: Box::new(self.core.snapshot()),
                }),
                Request::Stop { .. } => {
                    self.core.held.fetch_add(1, Ordering::SeqCst);
                    self.core.release.notified().await;
                    self.core.held.fetch_sub(1, Ordering::SeqCst);
                    Ok(Reply::Stopped { was_live: true })
                }
                Request::Abort { agent } => Err(RequestError::new(
                    ErrorCode::NotFound,
                    format!("no agent {agent:?}"),
                )
                .with_hint("look at the roster")),
                Request::Resync => {
                    *self.seen.lock().unwrap() = None;
                    self.core.again.notify_waiters();
                    Ok(Reply::Done)
                }
                _ => Ok(Reply::Done),
            }
        })
    }

    fn updates(&self) -> BoxFuture<'_, Option<Vec<Update>>> {
        Box::pin(async move {
            let mut rev = self.core.rev.subscribe();
            loop {
                let again = self.core.again.notified();
                tokio::pin!(again);
                again.as_mut().enable();
                if self.core.gone.is_cancelled() {
                    return None;
                }
                {
                    let mut seen = self.seen.lock().unwrap();
                    let now = *rev.borrow_and_update();
                    let news = match *seen {
                        None => Some(Update::Snapshot(Box::new(self.core.snapshot()))),
                        Some(since) if since < now => Some(Update::Delta(FleetDelta {
                            since,
                            rev: now,
                            core: None,
                            agents: vec![agent_view(
                                9,
                                &"x".repeat(self.core.weight.load(Ordering::SeqCst)),
                            )],
                        })),
                        Some(_) => None,
                    };
                    if let Some(news) = news {
                        *seen = Some(now);
                        self.core.pulled.fetch_add(1, Ordering::SeqCst);
                        return Some(vec![news]);
                    }
                }
                tokio::select! {
                    _ = rev.changed() => {}
                    () = again => {}
                    () = self.core.gone.cancelled() => {}
                }
            }
        })
    }
}

pub fn named(name: &str) -> AgentRef {
    AgentRef::Name(name.into())
}

/// Waits for a condition, at most ten seconds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "still waiting: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A bound on everything a test awaits.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(10), future).await {
        Ok(value) => value,
        Err(_) => panic!("took too long: {what}"),
    }
}
