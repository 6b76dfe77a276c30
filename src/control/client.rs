//! The asking end: a [`FleetClient`] over a connection.
//!
//! A task reads, another writes. News wait in a bounded buffer; when it is full the reader stops
//! reading, and the core, which never waits for a viewer, sends fewer and larger changes. Only when
//! an answer is awaited meanwhile is the buffer thrown away instead, since the answer may lie behind
//! more news: then the next batch begins with a fresh snapshot.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::framing::{self, Line, LineReader};
use super::protocol::{
    self, Closing, Initialize, Initialized, NEWEST_VERSION, Nothing, OLDEST_VERSION, Program, Role,
    method,
};
use super::rpc::{self, Message, RpcId};
use crate::client::{BoxFuture, ErrorCode, FleetClient, Reply, Request, RequestError, Update};
use crate::fleet::roster::CoreView;
use crate::sys::user;

/// Requests that wait for the writer.
const REQUESTS: usize = 16;
/// News kept for a viewer that does not take them.
const MAX_NEWS: usize = 256;
/// Bytes of lines these may have come from.
const MAX_NEWS_BYTES: usize = framing::MAX_LINE;
/// Time for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket file.
    #[error("no core runs here (no socket at {path})", path = path.display())]
    Missing {
        /// The socket.
        path: PathBuf,
    },
    /// A socket file nobody listens at.
    #[error("no core runs here (nobody listens at {path})", path = path.display())]
    Stale {
        /// The socket.
        path: PathBuf,
    },
    /// Whoever listens is another user.
    #[error("{path} belongs to user {uid}: not connected", path = path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// Whose process listens.
        uid: u32,
    },
    /// The system refused.
    #[error("cannot connect to {path}: {source}", path = path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The core refused: no version in common, too many clients.
    #[error("the core refused: {0}")]
    Refused(RequestError),
    /// The connection ended during the handshake.
    #[error("the core closed the connection{}", .0.as_deref().map(|r| format!(": {r}")).unwrap_or_default())]
    Closed(Option<String>),
    /// No answer in time.
    #[error("the core does not answer")]
    Silent,
}

impl ConnectError {
    /// True when there is no core, and starting one is the way out.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Stale { .. })
    }
}

/// A connection to a core. Dropping it closes the connection.
pub struct ControlClient {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Vec<u8>>,
    /// One caller of `updates` at a time, and whether news were asked for.
    subscribed: tokio::sync::Mutex<bool>,
    hello: Initialized,
    _stop: DropGuard,
}

impl std::fmt::Debug for ControlClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlClient")
            .field("core", &self.hello.core.id)
            .finish_non_exhaustive()
    }
}

type Outcome = Result<Option<Box<RawValue>>, RequestError>;

#[derive(Default)]
struct State {
    last_id: i64,
    pending: HashMap<i64, oneshot::Sender<Outcome>>,
    news: VecDeque<(Update, usize)>,
    news_bytes: usize,
    lost: Lost,
    /// The connection has ended; the reason if there is one.
    ended: Option<Option<String>>,
}

/// Whether news were thrown away.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lost {
    #[default]
    Nothing,
    /// They were; whatever comes is dropped.
    Thrown,
    /// A fresh snapshot is asked for; whatever comes before it is dropped.
    Asked,
}

struct Shared {
    state: Mutex<State>,
    /// News came, or the end.
    news: Notify,
    /// News were taken, or a request was made: the reader looks again.
    room: Notify,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; if something did, the data is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the outcome of a call to its asker.
    fn answer(&self, id: Option<&RpcId>, outcome: Outcome) {
        let Some(RpcId::Number(id)) = id else {
            if let Err(refusal) = outcome {
                tracing::warn!(%refusal, "the core could not read a line");
            }
            return;
        };
        let waiting = self.state().pending.remove(id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }

    /// Keeps news for the viewer; waits while there is no room.
    async fn keep(&self, update: Update, bytes: usize) {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state();
                match state.lost {
                    Lost::Nothing => {}
                    Lost::Asked if matches!(update, Update::Snapshot(_)) => {
                        state.lost = Lost::Nothing;
                    }
                    Lost::Thrown | Lost::Asked => return,
                }
                let full = state.news.len() >= MAX_NEWS
                    || (!state.news.is_empty() && state.news_bytes + bytes > MAX_NEWS_BYTES);
                if !full {
                    state.news.push_back((update, bytes));
                    state.news_bytes += bytes;
                    self.news.notify_one();
                    return;
                }
                if !state.pending.is_empty() {
                    tracing::debug!("news thrown away: an answer is awaited and nobody takes them");
                    state.news.clear();
                    state.news_bytes = 0;
                    state.lost = Lost::Thrown;
                    self.news.notify_one();
                    continue;
                }
            }
            room.await;
        }
    }

    fn end(&self, reason: Option<String>) {
        let pending = {
            let mut state = self.state();
            if state.ended.is_none() {
                state.ended = Some(reason);
            }
            std::mem::take(&mut state.pending)
        };
        for waiting in pending.into_values() {
            let _ = waiting.send(Err(disconnected()));
        }
        self.news.notify_one();
    }
}

fn disconnected() -> RequestError {
    RequestError::new(
        ErrorCode::Disconnected,
        "the connection to the core was lost",
    )
    .with_hint("whether it was done is unknown: look before asking again")
}

/// Connects to the core at a socket.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(path: &Path, role: Role) -> Result<ControlClient, ConnectError> {
    let fail = |source: io::Error| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                ConnectError::Missing { path }
            }
            io::ErrorKind::ConnectionRefused => ConnectError::Stale { path },
            _ => ConnectError::Io { path, source },
        }
    };
    let stream = UnixStream::connect(path).await.map_err(fail)?;
    let peer = user::peer_uid(&stream).map_err(fail)?;
    if peer != user::uid() {
        return Err(ConnectError::Foreign {
            path: path.to_owned(),
            uid: peer,
        });
    }
    let (reader, writer) = stream.into_split();
    Box::pin(connect_stream(reader, writer, role)).await
}

/// The same over any pair of streams (stdio, a socket pair).
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_stream<R, W>(
    reader: R,
    mut writer: W,
    role: Role,
) -> Result<ControlClient, ConnectError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let hello = Initialize {
        role,
        versions: [OLDEST_VERSION, NEWEST_VERSION],
        client: Program {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        host: None,
    };
    let mut lines = LineReader::new(reader, framing::MAX_LINE);
    let shaking = Box::pin(handshake(&mut lines, &mut writer, &hello));
    let hello = tokio::time::timeout(HANDSHAKE, shaking)
        .await
        .map_err(|_| ConnectError::Silent)??;
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        news: Notify::new(),
        room: Notify::new(),
    });
    let stop = CancellationToken::new();
    let (requests, queue) = mpsc::channel(REQUESTS);
    tokio::spawn(read(lines, Arc::clone(&shared), stop.clone()));
    tokio::spawn(write(writer, queue, stop.clone()));
    Ok(ControlClient {
        shared,
        requests,
        subscribed: tokio::sync::Mutex::new(false),
        hello,
        _stop: stop.drop_guard(),
    })
}

async fn handshake<R, W>(
    lines: &mut LineReader<R>,
    writer: &mut W,
    hello: &Initialize,
) -> Result<Initialized, ConnectError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let refused = |code, what: String| ConnectError::Refused(RequestError::new(code, what));
    let closed = |_| ConnectError::Closed(None);
    let line = rpc::call(0, method::INITIALIZE, hello)
        .map_err(|e| refused(ErrorCode::Internal, e.to_string()))?;
    // A core that turns us away may close before it reads this: its reason is still to be read.
    let _ = writer.write_all(&line).await;
    loop {
        let Some(Line::Whole(line)) = lines.next().await.map_err(closed)? else {
            return Err(ConnectError::Closed(None));
        };
        match rpc::parse(&line) {
            Ok(Message::Answer { outcome, .. }) => {
                let result = outcome.map_err(|e| ConnectError::Refused(e.into_refusal()))?;
                return protocol::params_of(method::INITIALIZE, result.as_deref())
                    .map_err(|e| ConnectError::Refused(e.into_refusal()));
            }
            Ok(Message::Notice { method, params }) if method == method::CLOSING => {
                return Err(ConnectError::Closed(reason_of(params.as_deref())));
            }
            Ok(_) => {}
            Err(_) => {
                let what = "whoever listens there does not speak the control protocol";
                return Err(refused(ErrorCode::Unsupported, what.to_owned()));
            }
        }
    }
}

fn reason_of(params: Option<&RawValue>) -> Option<String> {
    let closing: Option<Closing> = protocol::params_of(method::CLOSING, params).ok();
    closing.map(|closing| closing.reason)
}

async fn read<R: AsyncRead + Unpin>(
    mut lines: LineReader<R>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let reason = tokio::select! {
        reason = read_lines(&mut lines, &shared) => reason,
        () = stop.cancelled() => None,
    };
    shared.end(reason);
    // Also ends the writer.
    stop.cancel();
}

async fn read_lines<R: AsyncRead + Unpin>(
    lines: &mut LineReader<R>,
    shared: &Shared,
) -> Option<String> {
    loop {
        let line = match lines.next().await {
            Ok(Some(Line::Whole(line))) => line,
            Ok(Some(Line::Oversize { bytes })) => {
                return Some(format!("the core sent a line of {bytes} bytes"));
            }
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        };
        match rpc::parse(&line) {
            Ok(Message::Answer { id, outcome }) => {
                shared.answer(id.as_ref(), outcome.map_err(rpc::RpcError::into_refusal));
            }
            Ok(Message::Notice { method, params }) if method == method::CLOSING => {
                return reason_of(params.as_deref());
            }
            Ok(Message::Notice { method, params }) => {
                match protocol::update_of(&method, params.as_deref()) {
                    Ok(Some(update)) => shared.keep(update, line.len()).await,
                    Ok(None) => {}
                    // Going on would leave a viewer that is wrong without knowing it.
                    Err(error) => return Some(error.message),
                }
            }
            // A later version may ask clients things; this one has no answer.
            Ok(Message::Call { method, .. }) => tracing::debug!(method, "call of the core ignored"),
            Err(bad) => return Some(format!("the core sent rubbish: {}", bad.error.message)),
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut queue: mpsc::Receiver<Vec<u8>>,
    stop: CancellationToken,
) {
    let writing = async {
        while let Some(line) = queue.recv().await {
            // What the core still has to say is read before the end is declared.
            if writer.write_all(&line).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = stop.cancelled() => {}
    }
    queue.close();
    // A line nobody wrote is a request nobody will answer.
    while queue.try_recv().is_ok() {}
    let _ = writer.shutdown().await;
}

impl ControlClient {
    /// The core as it was at the handshake.
    #[must_use]
    pub fn core(&self) -> &CoreView {
        &self.hello.core
    }

    /// The version of the protocol both ends use.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.hello.version
    }

    /// The core's words for why it ended the connection; `None` while it lasts or without any.
    #[must_use]
    pub fn end_reason(&self) -> Option<String> {
        self.shared.state().ended.clone().flatten()
    }

    /// Makes a call; done as soon as it is on its way. `mark` changes the state in the same moment,
    /// before anything the core says because of the call can arrive.
    async fn begin(
        &self,
        name: &str,
        params: &impl serde::Serialize,
        mark: impl FnOnce(&mut State),
    ) -> Result<oneshot::Receiver<Outcome>, RequestError> {
        // The place in the queue first: a call given up before that was never made, one given up
        // later is made all the same.
        let place = self.requests.reserve().await.map_err(|_| disconnected())?;
        let (asker, answer) = oneshot::channel();
        {
            let mut state = self.shared.state();
            if state.ended.is_some() {
                return Err(disconnected());
            }
            state.last_id += 1;
            let id = state.last_id;
            let line = rpc::call(id, name, params).map_err(|e| {
                RequestError::new(ErrorCode::Invalid, format!("cannot be sent: {e}"))
            })?;
            if line.len() > framing::MAX_LINE {
                let what = format!(
                    "the request has {} bytes; {} are the limit",
                    line.len(),
                    framing::MAX_LINE
                );
                return Err(RequestError::new(ErrorCode::Invalid, what));
            }
            state.pending.insert(id, asker);
            mark(&mut state);
            place.send(line);
        }
        self.shared.room.notify_one();
        Ok(answer)
    }
}

impl FleetClient for ControlClient {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            let (name, params) = protocol::call_of(request).map_err(|e| {
                RequestError::new(ErrorCode::Invalid, format!("cannot be sent: {e}"))
            })?;
            let answer = self.begin(name, &params, |_| {}).await?;
            let result = answer.await.unwrap_or_else(|_| Err(disconnected()))?;
            protocol::reply_of(result.as_deref())
        })
    }

    fn updates(&self) -> BoxFuture<'_, Option<Vec<Update>>> {
        Box::pin(async move {
            let mut subscribed = self.subscribed.lock().await;
            loop {
                let news = self.shared.news.notified();
                let lost = {
                    let mut state = self.shared.state();
                    if !state.news.is_empty() {
                        state.news_bytes = 0;
                        let batch = state.news.drain(..).map(|(update, _)| update).collect();
                        self.shared.room.notify_one();
                        return Some(batch);
                    }
                    if state.ended.is_some() {
                        return None;
                    }
                    state.lost
                };
                // The answers say nothing; whatever goes wrong here shows as the end.
                if !*subscribed {
                    let _ = self.begin(method::SUBSCRIBE, &Nothing {}, |_| {}).await;
                    *subscribed = true;
                } else if lost == Lost::Thrown {
                    let asked = |state: &mut State| state.lost = Lost::Asked;
                    let _ = self.begin(method::RESYNC, &Nothing {}, asked).await;
                }
                news.await;
            }
        })
    }
}
