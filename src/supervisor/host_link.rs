//! The line of one Pi session into the actor.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, mpsc, oneshot};

use super::handle::Ask;
use super::host_calls::{carried, core_gone};
use super::hosts::HostAsk;
use crate::client::BoxFuture;
use crate::client::host::{HostAnswer, HostCall, HostLink, HostNews, HostSays};
use crate::fleet::host::{Caller, LeaveReason};
use crate::tools::call::{self, Context};

/// One session's line. See [`HostLink`].
pub(super) struct Link {
    caller: Caller,
    asks: mpsc::Sender<Ask>,
    news: Mutex<mpsc::Receiver<HostNews>>,
    left: AtomicBool,
}

impl Link {
    pub(super) fn new(
        caller: Caller,
        asks: mpsc::Sender<Ask>,
        news: mpsc::Receiver<HostNews>,
    ) -> Self {
        Self {
            caller,
            asks,
            news: Mutex::new(news),
            left: AtomicBool::new(false),
        }
    }
}

impl HostLink for Link {
    fn call(&self, call: HostCall) -> BoxFuture<'_, HostAnswer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let ask = HostAsk::Call {
                caller: self.caller,
                call,
                reply,
            };
            let sent = self.asks.send(Ask::Host(ask)).await;
            let answer = match sent {
                Ok(()) => answer.await.ok(),
                Err(_) => None,
            };
            answer.unwrap_or_else(|| carried(call::failure(&core_gone(), Context::default())))
        })
    }

    fn says(&self, what: HostSays) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if matches!(what, HostSays::Lost) && self.left.swap(true, Ordering::AcqRel) {
                return;
            }
            let ask = HostAsk::Says {
                caller: self.caller,
                what,
            };
            let _ = self.asks.send(Ask::Host(ask)).await;
        })
    }

    fn leave(&self, reason: LeaveReason) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.left.store(true, Ordering::Release);
            let (reply, gone) = oneshot::channel();
            let ask = HostAsk::Leave {
                caller: self.caller,
                reason,
                reply: Some(reply),
            };
            if self.asks.send(Ask::Host(ask)).await.is_ok() {
                let _ = gone.await;
            }
        })
    }

    fn news(&self) -> BoxFuture<'_, Option<HostNews>> {
        Box::pin(async move { self.news.lock().await.recv().await })
    }
}

impl Drop for Link {
    /// A session that is lost without a word takes its agents with it (R-LIFE-08).
    fn drop(&mut self) {
        if self.left.load(Ordering::Acquire) {
            return;
        }
        let (asks, caller) = (self.asks.clone(), self.caller);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let ask = HostAsk::Leave {
                    caller,
                    reason: LeaveReason::Lost,
                    reply: None,
                };
                let _ = asks.send(Ask::Host(ask)).await;
            });
        }
    }
}
