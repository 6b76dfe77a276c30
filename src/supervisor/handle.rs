//! The supervisor's front door: requests in, answers out. Cheap to clone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::hosts::HostAsk;
use super::shared::Shared;
use super::viewer::Viewer;
use crate::client::host::{HostGate, HostHello, HostSeat};
use crate::client::{BoxFuture, ErrorCode, FleetClient, Reply, Request, RequestError};

/// What is on its way to the actor, with the way back.
pub(super) enum Ask {
    /// Of a viewer or a shell.
    Request {
        request: Request,
        reply: oneshot::Sender<Result<Reply, RequestError>>,
    },
    /// Of a Pi session.
    Host(HostAsk),
}

/// See the module.
#[derive(Clone)]
pub struct Handle {
    pub(super) asks: mpsc::Sender<Ask>,
    pub(super) shared: Arc<Shared>,
    pub(super) ended: CancellationToken,
    pub(super) waiting: Arc<AtomicUsize>,
}

/// Counts an asker for as long as it waits.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Handle {
    /// Asks the supervisor something and waits for the answer.
    ///
    /// # Errors
    /// The refusal, or `Gone` when the supervisor has ended.
    pub async fn ask(&self, request: Request) -> Result<Reply, RequestError> {
        let gone = || RequestError::new(ErrorCode::Gone, "the core has ended");
        let (reply, answer) = oneshot::channel();
        let _waiting = Waiting::new(&self.waiting);
        self.asks
            .send(Ask::Request { request, reply })
            .await
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Askers that have no answer yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Says to every viewer that the core is gone.
    pub fn end(&self) {
        self.ended.cancel();
        self.shared.ring();
    }

    /// A new viewer.
    #[must_use]
    pub fn viewer(&self) -> Arc<dyn FleetClient> {
        Arc::new(Viewer::new(self.clone(), Arc::clone(&self.shared)))
    }

    /// The shared table.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until the core is gone.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// True once it is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }
}

impl HostGate for Handle {
    fn join(&self, hello: HostHello) -> BoxFuture<'_, Result<HostSeat, RequestError>> {
        Box::pin(async move {
            let gone = || RequestError::new(ErrorCode::Gone, "the core has ended");
            let (reply, answer) = oneshot::channel();
            let hello = Box::new(hello);
            self.asks
                .send(Ask::Host(HostAsk::Join { hello, reply }))
                .await
                .map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }
}
