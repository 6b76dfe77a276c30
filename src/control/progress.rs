//! Lines that say how the calls of a Pi session get on. The writer of a connection asks for the next
//! one when it has nothing else to write: what a slow peer did not take is never written, and no
//! answer and no offer waits behind it (R-Q-02, R-TOOL-19).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::bridge::{Content, ToolProgress, method};
use super::rpc;
use crate::client::host::{CallProgress, ProgressSource};

/// See the module.
pub(super) struct ProgressLines {
    /// Comes when the peer turns out to be a Pi session.
    coming: Option<oneshot::Receiver<Arc<dyn ProgressSource>>>,
    source: Option<Arc<dyn ProgressSource>>,
}

impl ProgressLines {
    /// For a connection whose peer is not known yet.
    pub(super) fn new(coming: oneshot::Receiver<Arc<dyn ProgressSource>>) -> Self {
        Self {
            coming: Some(coming),
            source: None,
        }
    }

    /// The next line, at the earliest moment at which there is one; never, for any other peer.
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some(source) = &self.source {
                match line_of(source.next().await) {
                    Ok(line) => return line,
                    Err(error) => tracing::error!(%error, "progress cannot be written"),
                }
            } else if let Some(coming) = &mut self.coming {
                self.source = coming.await.ok();
                self.coming = None;
            } else {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn line_of(progress: CallProgress) -> serde_json::Result<Vec<u8>> {
    let CallProgress {
        call,
        content,
        details,
    } = progress;
    let params = ToolProgress {
        call,
        content: vec![Content::Text { text: content }],
        details,
    };
    rpc::notice(method::TOOLS_PROGRESS, &params)
}
