//! Serving: accepts connections, gives each a client session, counts who is attached.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::{self, Context, Ended};
use super::framing;
use super::protocol::{Closing, Program, Role, method};
use super::rpc;
use super::socket::{Accepted, Listener};
use crate::client::FleetClient;
use crate::client::host::HostGate;

/// Cleaners of temporary folders take files that look days old.
const TOUCH_INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// Who connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Its role.
    pub role: Role,
    /// What it says it is.
    pub program: Program,
    /// Its process, where the system tells it.
    pub pid: Option<u32>,
}

/// Makes the session of a new client.
pub type MakeClient = Arc<dyn Fn(ClientInfo) -> Arc<dyn FleetClient> + Send + Sync>;

/// Bounds of a server. The defaults are the program's; tests take smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Connections at the same time; one more is told so and closed.
    pub max_clients: usize,
    /// Requests of one connection running at the same time; one more is answered "overload".
    pub max_in_flight: usize,
    /// Bytes of the lines of these requests, likewise.
    pub max_in_flight_bytes: usize,
    /// Longest line, in bytes.
    pub max_line: usize,
    /// Lines in a row that are no messages before the connection is closed.
    pub max_bad_lines: u32,
    /// Shortest time between two batches of news.
    pub batch_interval: Duration,
    /// Time for the first message.
    pub handshake_timeout: Duration,
    /// Time for what is in flight when a connection is closed.
    pub close_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_clients: 64,
            max_in_flight: 64,
            max_in_flight_bytes: 2 * framing::MAX_LINE,
            max_line: framing::MAX_LINE,
            max_bad_lines: 16,
            batch_interval: Duration::from_millis(16),
            handshake_timeout: connection::HANDSHAKE,
            close_grace: Duration::from_secs(2),
        }
    }
}

/// Serves connections of any sort with the same sessions and one count.
#[derive(Clone)]
pub struct Server {
    make_client: MakeClient,
    gate: Option<Arc<dyn HostGate>>,
    options: Options,
    shutdown: CancellationToken,
    attached: Arc<watch::Sender<usize>>,
}

impl Server {
    /// A server that ends when `shutdown` is cancelled.
    #[must_use]
    pub fn new(make_client: MakeClient, options: Options, shutdown: CancellationToken) -> Self {
        Self {
            make_client,
            gate: None,
            options,
            shutdown,
            attached: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The same server, at which Pi sessions can join.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn HostGate>) -> Self {
        Self {
            gate: Some(gate),
            ..self
        }
    }

    /// How many clients are attached, for the idle exit rule (R-LIFE-19). Counts from the
    /// handshake to the end of the connection, whatever the role.
    #[must_use]
    pub fn attached(&self) -> watch::Receiver<usize> {
        self.attached.subscribe()
    }

    /// Serves one connection over any pair of streams (stdio, a socket pair) to its end.
    pub async fn serve_stream<R, W>(&self, reader: R, writer: W, pid: Option<u32>) -> Ended
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let context = Context {
            make_client: Arc::clone(&self.make_client),
            gate: self.gate.clone(),
            options: self.options,
            shutdown: self.shutdown.clone(),
            pid,
            attached: Arc::clone(&self.attached),
        };
        Box::pin(connection::serve(reader, writer, context)).await
    }

    /// Accepts until shutdown, then lets connections end (each within its grace) and returns.
    pub async fn serve(&self, mut listener: Listener) {
        let places = Arc::new(Semaphore::new(self.options.max_clients));
        let mut connections = JoinSet::new();
        let first = tokio::time::Instant::now() + TOUCH_INTERVAL;
        let mut touch = tokio::time::interval_at(first, TOUCH_INTERVAL);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
                _ = touch.tick() => {
                    listener.touch();
                    continue;
                }
            };
            let Accepted { stream, pid } = accepted;
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                turn_away(&stream, self.options.max_clients);
                continue;
            };
            let server = self.clone();
            connections.spawn(Box::pin(async move {
                let (reader, writer) = stream.into_split();
                let ended = server.serve_stream(reader, writer, pid).await;
                tracing::info!(?pid, ?ended, "client left");
                drop(place);
            }));
        }
        // No new ones from here on, and no file that promises otherwise.
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

/// Tells a client that there is no place, without waiting for it.
fn turn_away(stream: &tokio::net::UnixStream, most: usize) {
    tracing::warn!(most, "too many clients: one turned away");
    let closing = Closing {
        reason: format!("this core already has {most} clients"),
    };
    if let Ok(line) = rpc::notice(method::CLOSING, &closing) {
        let _ = stream.try_write(&line);
    }
}

/// One attached client, as long as it lives.
pub(super) struct Attached(Arc<watch::Sender<usize>>);

impl Attached {
    pub fn new(count: Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|n| *n += 1);
        Self(count)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}
