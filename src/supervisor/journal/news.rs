//! What becomes of records, also when the disk says nothing: one that hangs would hold up every result
//! and every answer that waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::JournalEvent;
use super::writer::Queue;

/// Events of a journal, for a task.
#[derive(Debug)]
pub struct News {
    queue: Arc<Queue>,
    events: mpsc::Receiver<JournalEvent>,
    patience: Duration,
    /// The disk failed and said so: the thread tries again by itself.
    failed: bool,
    /// The disk does not answer, which was told.
    silent: bool,
}

impl News {
    pub(super) fn new(
        queue: Arc<Queue>,
        events: mpsc::Receiver<JournalEvent>,
        patience: Duration,
        failed: bool,
    ) -> Self {
        Self {
            queue,
            events,
            patience,
            failed,
            silent: false,
        }
    }

    /// The next event; `None` when the journal is closed. A disk that does not answer in time gives
    /// [`JournalEvent::Failed`], and its late answer [`JournalEvent::Recovered`]: nothing waits for it meanwhile
    /// (R-DELIV-05). No timer runs while nothing waits for the disk.
    pub async fn next(&mut self) -> Option<JournalEvent> {
        loop {
            let since = self.queue.waiting_since();
            let end = since
                .filter(|_| !self.failed && !self.silent)
                .map(|since| Instant::from_std(since + self.patience));
            tokio::select! {
                biased;
                event = self.events.recv() => return self.heard(event?).into(),
                () = self.queue.waits.notified() => {}
                () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    // Another record may be the one that waits now.
                    let still = self.queue.waiting_since();
                    if still.is_some_and(|since| since.elapsed() >= self.patience) {
                        self.silent = true;
                        let time = self.patience.as_secs();
                        return Some(JournalEvent::Failed(format!(
                            "the disk has not answered for {time} s"
                        )));
                    }
                }
            }
        }
    }

    fn heard(&mut self, event: JournalEvent) -> JournalEvent {
        match event {
            JournalEvent::Synced(seq) if std::mem::take(&mut self.silent) => {
                JournalEvent::Recovered {
                    seq,
                    records: Vec::new(),
                }
            }
            JournalEvent::Recovered { .. } => {
                (self.failed, self.silent) = (false, false);
                event
            }
            JournalEvent::Failed(_) => {
                self.failed = true;
                event
            }
            event => event,
        }
    }
}
