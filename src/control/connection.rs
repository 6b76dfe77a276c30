//! One connection: requests in, answers and news out.
//!
//! The reader starts each request in the order it came and lets them run side by side, up to a
//! bound; beyond it the answer is "overload". The writer pulls news from the client session only
//! when the line before is on its way, and likewise asks how calls get on, so a slow peer is never
//! waited for by anybody and nothing piles up behind it (R-Q-02): it gets fewer, larger changes. Ends when the peer closes, when the
//! core is gone, or on shutdown after what is in flight had its time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::framing::{Line, LineReader};
use super::host_session::HostSession;
use super::outgoing;
use super::progress::ProgressLines;
use super::protocol::{self, Closing, Initialize, Initialized, Nothing, method};
use super::rpc::{self, Message, RpcError, RpcId};
use super::server::{Attached, ClientInfo, MakeClient, Options};
use crate::client::host::{HostGate, ProgressSource};
use crate::client::{ErrorCode, FleetClient, Reply, Request, RequestError};

/// Answers that wait for the writer. The reader stops reading when they are that many.
const ANSWERS: usize = 16;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The peer closed it or it broke.
    Peer,
    /// The core ended it, for this reason.
    Core(String),
}

/// What the connection needs from its server.
pub(super) struct Context {
    pub make_client: MakeClient,
    pub gate: Option<Arc<dyn HostGate>>,
    pub options: Options,
    pub shutdown: CancellationToken,
    /// Process at the other end, where the system tells it.
    pub pid: Option<u32>,
    /// Counts this connection from the handshake to its end.
    pub attached: Arc<watch::Sender<usize>>,
}

/// Serves a connection to its end.
pub(super) async fn serve<R, W>(reader: R, writer: W, context: Context) -> Ended
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (answers, queue) = mpsc::channel(ANSWERS);
    let (client_ready, client) = oneshot::channel();
    let (progress_ready, progress) = oneshot::channel();
    let news = Arc::new(Notify::new());
    // The writer may find out first that the peer is gone.
    let writer_gone = CancellationToken::new();
    let writer_ends = writer_gone.clone().drop_guard();
    let options = context.options;
    let progress = ProgressLines::new(progress);
    let written = write(writer, queue, client, progress, Arc::clone(&news), options);
    let writing = tokio::spawn(Box::pin(async move {
        let ended = written.await;
        drop(writer_ends);
        ended
    }));
    let grace = context.options.close_grace;
    let mut reading = Reading {
        lines: LineReader::new(reader, context.options.max_line),
        answers,
        client_ready: Some(client_ready),
        progress_ready: Some(progress_ready),
        session: None,
        host: None,
        news,
        running: JoinSet::new(),
        slots: Arc::new(Semaphore::new(context.options.max_in_flight)),
        bytes: Arc::new(AtomicUsize::new(0)),
        bad_lines: 0,
        context,
    };
    let ended = tokio::select! {
        ended = Box::pin(reading.run()) => ended,
        () = writer_gone.cancelled() => Ended::Peer,
    };
    if let Some(host) = &reading.host {
        // Before anything that follows from the end of the connection, such as the end of the core:
        // the agents end because their session did.
        host.lost().await;
    }
    if let Ended::Core(reason) = &ended {
        Box::pin(reading.finish(reason)).await;
    }
    drop(reading);
    // All senders are gone: the writer ends when it has written what it has, or is cut off.
    let abort = writing.abort_handle();
    match tokio::time::timeout(grace, writing).await {
        Ok(Ok(Ended::Core(reason))) => Ended::Core(reason),
        Ok(_) => ended,
        Err(_) => {
            abort.abort();
            ended
        }
    }
}

struct Session {
    client: Arc<dyn FleetClient>,
    _attached: Attached,
}

struct Reading<R> {
    lines: LineReader<R>,
    answers: mpsc::Sender<Vec<u8>>,
    client_ready: Option<oneshot::Sender<Arc<dyn FleetClient>>>,
    progress_ready: Option<oneshot::Sender<Arc<dyn ProgressSource>>>,
    session: Option<Session>,
    /// The Pi session at the other end.
    host: Option<HostSession>,
    news: Arc<Notify>,
    running: JoinSet<()>,
    slots: Arc<Semaphore>,
    bytes: Arc<AtomicUsize>,
    /// Lines in a row that were no messages.
    bad_lines: u32,
    context: Context,
}

/// Frees a place among the running requests.
struct Place {
    _slot: OwnedSemaphorePermit,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<R: AsyncRead + Unpin + Send> Reading<R> {
    async fn run(&mut self) -> Ended {
        let handshake = Instant::now() + self.context.options.handshake_timeout;
        let shutdown = self.context.shutdown.clone();
        loop {
            // Only tells finished requests apart from running ones; nothing to do with the results.
            while self.running.try_join_next().is_some() {}
            let waiting = self.session.is_none();
            let line = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ended::Core("the core ends".to_owned()),
                () = tokio::time::sleep_until(handshake), if waiting => {
                    return Ended::Core("no `initialize` came".to_owned());
                }
                line = self.lines.next() => line,
            };
            // A peer that does not take its answers must not hold up the end.
            let ended = tokio::select! {
                biased;
                ended = Box::pin(self.take(line)) => ended,
                () = shutdown.cancelled() => Some(Ended::Core("the core ends".to_owned())),
            };
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    async fn take(&mut self, line: std::io::Result<Option<Line>>) -> Option<Ended> {
        match line {
            Ok(Some(Line::Whole(line))) => self.line(&line).await,
            Ok(Some(Line::Oversize { bytes })) => {
                let most = self.context.options.max_line;
                let what = format!("a line of {bytes} bytes; {most} are the limit");
                let refusal = RequestError::new(ErrorCode::Invalid, what);
                self.bad_line(None, RpcError::new(rpc::INVALID_REQUEST, refusal))
                    .await
            }
            Ok(None) => Some(Ended::Peer),
            Err(error) => {
                tracing::debug!(%error, "connection broke");
                Some(Ended::Peer)
            }
        }
    }

    async fn line(&mut self, line: &[u8]) -> Option<Ended> {
        let message = match rpc::parse(line) {
            Ok(message) => message,
            Err(bad) => return self.bad_line(bad.id, bad.error).await,
        };
        self.bad_lines = 0;
        match message {
            Message::Call { id, method, params } => {
                let params = params.as_deref();
                if self.session.is_none() {
                    return self.initialize(id, &method, params).await;
                }
                match method.as_str() {
                    method::INITIALIZE => {
                        let what = "`initialize` came a second time";
                        let refusal = RequestError::new(ErrorCode::Invalid, what);
                        self.refuse(Some(id), RpcError::new(rpc::NOT_INITIALIZED, refusal))
                            .await
                    }
                    method::SUBSCRIBE => {
                        let ended = self.answer(rpc::result(&id, &Nothing {})).await;
                        self.news.notify_one();
                        ended
                    }
                    name if self.host.is_some() && HostSession::takes(name) => {
                        self.host_call(id, name, params).await
                    }
                    name => match protocol::request_of(name, params) {
                        Ok(request) => self.start(id, request, line.len()).await,
                        Err(error) => self.refuse(Some(id), error).await,
                    },
                }
            }
            Message::Notice { method, params } => {
                match &self.host {
                    Some(host) => host.notice(&method, params.as_deref()).await,
                    None => tracing::debug!(method, "notice nobody knows ignored"),
                }
                None
            }
            Message::Answer { id, outcome } => {
                match &self.host {
                    Some(host) => host.answered(id.as_ref(), outcome).await,
                    None => tracing::debug!("answer to nothing ignored"),
                }
                None
            }
        }
    }

    /// Several lines of rubbish in a row are no client of ours.
    async fn bad_line(&mut self, id: Option<RpcId>, error: RpcError) -> Option<Ended> {
        self.bad_lines += 1;
        let ended = self.refuse(id, error).await;
        if ended.is_none() && self.bad_lines >= self.context.options.max_bad_lines {
            return Some(Ended::Core(
                "too many lines that are no messages".to_owned(),
            ));
        }
        ended
    }

    async fn initialize(
        &mut self,
        id: RpcId,
        name: &str,
        params: Option<&serde_json::value::RawValue>,
    ) -> Option<Ended> {
        if name != method::INITIALIZE {
            let what = format!("`{}` must come first", method::INITIALIZE);
            let refusal = RequestError::new(ErrorCode::Invalid, what);
            return self
                .refuse(Some(id), RpcError::new(rpc::NOT_INITIALIZED, refusal))
                .await;
        }
        let hello: Initialize = match protocol::params_of(name, params) {
            Ok(hello) => hello,
            Err(error) => return self.refuse(Some(id), error).await,
        };
        let version = match protocol::negotiate(hello.versions) {
            Ok(version) => version,
            Err(error) => {
                let ended = self.refuse(Some(id), error).await;
                return ended.or_else(|| Some(Ended::Core("no version in common".to_owned())));
            }
        };
        let info = ClientInfo {
            role: hello.role,
            program: hello.client,
            pid: self.context.pid,
        };
        tracing::info!(role = ?info.role, pid = ?info.pid, "client attached");
        let client = (self.context.make_client)(info);
        let core = match client.request(Request::Snapshot).await {
            Ok(Reply::Snapshot { fleet }) => fleet.core,
            Ok(_) => {
                let what = "the core did not describe itself";
                let refusal = RequestError::new(ErrorCode::Internal, what);
                return self.refuse(Some(id), refusal.into()).await;
            }
            Err(refusal) => return self.refuse(Some(id), refusal.into()).await,
        };
        let mut welcome = None;
        if let (Some(facts), Some(gate)) = (hello.host, self.context.gate.clone()) {
            let joined = HostSession::join(
                gate.as_ref(),
                *facts,
                self.context.pid,
                self.context.options.max_line,
            )
            .await;
            match joined {
                Ok((host, words)) => {
                    welcome = Some(Box::new(words));
                    self.host = Some(host);
                }
                Err(refusal) => {
                    let ended = self.refuse(Some(id), refusal.clone().into()).await;
                    return ended.or(Some(Ended::Core(refusal.message)));
                }
            }
        }
        if let Some(ready) = self.client_ready.take() {
            let _ = ready.send(Arc::clone(&client));
        }
        self.session = Some(Session {
            client,
            _attached: Attached::new(Arc::clone(&self.context.attached)),
        });
        self.answer(rpc::result(
            &id,
            &Initialized {
                version,
                core,
                host: welcome,
            },
        ))
        .await
        .or_else(|| {
            // News go out behind the welcome.
            if let Some(host) = &mut self.host {
                host.send_news(self.answers.clone());
                if let (Some(ready), Some(progress)) =
                    (self.progress_ready.take(), host.take_progress())
                {
                    let _ = ready.send(progress);
                }
            }
            None
        })
    }

    /// A call of a Pi session. Not counted among the places: a model's tools are as many as it says.
    async fn host_call(
        &mut self,
        id: RpcId,
        name: &str,
        params: Option<&serde_json::value::RawValue>,
    ) -> Option<Ended> {
        let work = self.host.as_ref()?.call(id.clone(), name, params);
        let mut work = match work {
            Ok(work) => work,
            Err(error) => return self.refuse(Some(id), error).await,
        };
        let answers = self.answers.clone();
        // Polled once here, so that messages reach an agent in the order in which they were sent.
        let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        match first {
            Poll::Ready(line) => self.answer(line).await,
            Poll::Pending => {
                self.running.spawn(async move {
                    if let Ok(line) = work.await {
                        let _ = answers.send(line).await;
                    }
                });
                None
            }
        }
    }

    /// Starts a request. It is polled once here, so that the client session sees requests in the
    /// order in which they were sent, and then goes on by itself.
    async fn start(&mut self, id: RpcId, request: Request, length: usize) -> Option<Ended> {
        let Some(session) = &self.session else {
            return None;
        };
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let held = self.bytes.load(Ordering::Relaxed);
        let fits =
            held == 0 || held.saturating_add(length) <= self.context.options.max_in_flight_bytes;
        let (Ok(slot), true) = (slot, fits) else {
            let refusal = RequestError::new(ErrorCode::Conflict, "too many requests at once")
                .with_hint("wait for answers before asking for more");
            return self
                .refuse(Some(id), RpcError::new(rpc::OVERLOAD, refusal))
                .await;
        };
        self.bytes.fetch_add(length, Ordering::Relaxed);
        let place = Place {
            _slot: slot,
            bytes: length,
            all: Arc::clone(&self.bytes),
        };
        let client = Arc::clone(&session.client);
        let answers = self.answers.clone();
        let max_line = self.context.options.max_line;
        let mut work = Box::pin(async move {
            let outcome = client.request(request).await;
            let line = answer_line(&id, outcome, max_line);
            // The place is kept until the answer has one: else answers nobody reads would pile up.
            let room = answers.reserve().await;
            drop(place);
            if let (Some(line), Ok(room)) = (line, room) {
                room.send(line);
            }
        });
        if std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await {
            self.running.spawn(work);
        }
        None
    }

    async fn refuse(&mut self, id: Option<RpcId>, error: RpcError) -> Option<Ended> {
        self.answer(rpc::error(id.as_ref(), &error)).await
    }

    async fn answer(&mut self, line: serde_json::Result<Vec<u8>>) -> Option<Ended> {
        match line {
            Ok(line) => self.answers.send(line).await.err().map(|_| Ended::Peer),
            Err(error) => Some(Ended::Core(format!("an answer cannot be written: {error}"))),
        }
    }

    /// Lets running requests end and says goodbye, both within the grace.
    async fn finish(&mut self, reason: &str) {
        let grace = self.context.options.close_grace;
        let running = async { while self.running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(grace, running).await;
        let closing = Closing {
            reason: reason.to_owned(),
        };
        if let Ok(line) = rpc::notice(method::CLOSING, &closing) {
            let _ = tokio::time::timeout(grace, self.answers.send(line)).await;
        }
    }
}

/// The answer to a request as a line; one that is too long becomes an error.
fn answer_line(
    id: &RpcId,
    outcome: Result<Reply, RequestError>,
    max_line: usize,
) -> Option<Vec<u8>> {
    let refuse = |refusal: RequestError| rpc::error(Some(id), &refusal.into()).ok();
    match outcome {
        Ok(reply) => match rpc::result(id, &reply) {
            Ok(line) if line.len() <= max_line.saturating_add(1) => Some(line),
            Ok(line) => {
                let what = format!(
                    "the answer has {} bytes; {max_line} are the limit",
                    line.len()
                );
                refuse(
                    RequestError::new(ErrorCode::Internal, what)
                        .with_hint("subscribe to news instead: they come in parts"),
                )
            }
            Err(error) => refuse(RequestError::new(
                ErrorCode::Internal,
                format!("the answer cannot be written: {error}"),
            )),
        },
        Err(refusal) => refuse(refusal),
    }
}

type Batch<'a> = Pin<Box<dyn Future<Output = Option<Vec<crate::client::Update>>> + Send + 'a>>;

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut answers: mpsc::Receiver<Vec<u8>>,
    client: oneshot::Receiver<Arc<dyn FleetClient>>,
    mut progress: ProgressLines,
    news: Arc<Notify>,
    options: Options,
) -> Ended {
    // Answers only, until the peer is known and wants news.
    let client = {
        let subscribed = async {
            let client = client.await.ok();
            news.notified().await;
            client
        };
        tokio::pin!(subscribed);
        let mut known = true;
        loop {
            tokio::select! {
                biased;
                line = answers.recv() => match line {
                    Some(line) => if writer.write_all(&line).await.is_err() { return Ended::Peer },
                    None => return finish(&mut writer).await,
                },
                client = &mut subscribed, if known => match client {
                    Some(client) => break client,
                    None => known = false,
                },
                // Behind the answers: what is said of a call comes before its answer or never.
                line = progress.next() => {
                    if writer.write_all(&line).await.is_err() {
                        return Ended::Peer;
                    }
                }
            }
        }
    };
    let mut next: Option<Batch<'_>> = None;
    let mut not_before = Instant::now();
    loop {
        let pulling = next.get_or_insert_with(|| {
            let client = &client;
            Box::pin(async move {
                tokio::time::sleep_until(not_before).await;
                client.updates().await
            })
        });
        let batch = tokio::select! {
            biased;
            line = answers.recv() => {
                match line {
                    Some(line) => if writer.write_all(&line).await.is_err() { return Ended::Peer },
                    None => return finish(&mut writer).await,
                }
                continue;
            }
            line = progress.next() => {
                if writer.write_all(&line).await.is_err() {
                    return Ended::Peer;
                }
                continue;
            }
            batch = pulling => batch,
        };
        next = None;
        let Some(batch) = batch else {
            let reason = "the core is gone".to_owned();
            if let Ok(line) = rpc::notice(
                method::CLOSING,
                &Closing {
                    reason: reason.clone(),
                },
            ) {
                let _ = writer.write_all(&line).await;
            }
            let _ = writer.shutdown().await;
            return Ended::Core(reason);
        };
        not_before = Instant::now() + options.batch_interval;
        for update in batch {
            for line in outgoing::lines(update, options.max_line) {
                if writer.write_all(&line).await.is_err() {
                    return Ended::Peer;
                }
                // An answer need not wait for the rest of a large batch.
                while let Ok(line) = answers.try_recv() {
                    if writer.write_all(&line).await.is_err() {
                        return Ended::Peer;
                    }
                }
            }
        }
    }
}

async fn finish<W: AsyncWrite + Unpin>(writer: &mut W) -> Ended {
    let _ = writer.shutdown().await;
    Ended::Peer
}

/// Time a peer has to say who it is.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
