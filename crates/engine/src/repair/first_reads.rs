//! How new a page must be that this process reads and has not written: what the archive's page tables say. So a write that the
//! device lost is noticed after a restart as well.
//!
//! Pages with records behind the last checkpoint before the open await redo, and are not asked for. All others must be as new as
//! their last record before it, which is in the archive or, as far as that lags, in the log.
//!
//! # Waiting
//! What the page tables in memory do not tell is read by a thread of its own, which is started when there is something to read. Who
//! reads a page holds its latch, and waits for an answer for [`PATIENCE`] at most; while the thread gets none from the archive for
//! longer than that, nobody waits, and after an error of the archive nobody asks for [`PAUSE`]. Such pages are not compared, and
//! counted; what was asked for is read all the same, so a store that is slow is asked once for a frame.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{LastLsns, View};
use resurgam_base::{Lsn, PageId, Result};

/// Longest wait of one read.
const PATIENCE: Duration = Duration::from_millis(100);
/// After an error of the archive.
const PAUSE: Duration = Duration::from_secs(1);
/// Questions that may wait.
const QUESTIONS_MAX: usize = 64;

struct Question {
    view: Arc<View>,
    page: PageId,
    found: Lsn,
    answer: SyncSender<Lsn>,
}

/// What the thread and those who ask it share.
struct Shared {
    tables: LastLsns,
    /// Since when the thread reads for one question.
    reading_since: Mutex<Option<Instant>>,
    failed_at: Mutex<Option<Instant>>,
}

impl Shared {
    /// Reads what is needed. None: the archive has failed.
    fn read(&self, view: &View, page: PageId, found: Lsn) -> Option<Lsn> {
        let result: Result<Lsn> = self.tables.read(view, page, found);
        match result {
            Ok(last) => Some(last),
            Err(error) => {
                let mut failed_at = self.failed_at.lock();
                if failed_at.is_none_or(|at| at.elapsed() > PAUSE) {
                    tracing::warn!("page {page} is read without a comparison with the archive: {error}");
                    *failed_at = Some(Instant::now());
                }
                None
            }
        }
    }
}

/// See the module.
pub(super) struct FirstReads {
    shared: Arc<Shared>,
    thread: Mutex<Option<SyncSender<Question>>>,
    /// Whoever asks reads: for simulation.
    inline: bool,
}

impl FirstReads {
    /// Keeps so many bytes of page tables.
    pub fn new(bytes_max: usize, inline: bool) -> Self {
        let tables = LastLsns::new(bytes_max);
        let shared = Shared { tables, reading_since: Mutex::default(), failed_at: Mutex::default() };
        Self { shared: Arc::new(shared), thread: Mutex::default(), inline }
    }

    /// The page's last LSN in `view` above `found`, or one that is not above it. None: it cannot be told now.
    pub fn last(&self, view: &Arc<View>, page: PageId, found: Lsn) -> Option<Lsn> {
        let shared = &self.shared;
        if let Some(last) = shared.tables.known(view, page, found) {
            return Some(last);
        }
        if shared.failed_at.lock().is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        if self.inline {
            return shared.read(view, page, found);
        }
        let (answer, answered) = sync_channel(1);
        if !self.ask(Question { view: Arc::clone(view), page, found, answer }) {
            return None;
        }
        if shared.reading_since.lock().is_some_and(|since| since.elapsed() > PATIENCE) {
            return None;
        }
        answered.recv_timeout(PATIENCE).ok()
    }

    /// False: too many wait, or there is no thread.
    fn ask(&self, question: Question) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (sender, questions) = sync_channel::<Question>(QUESTIONS_MAX);
            let shared = Arc::clone(&self.shared);
            let work = move || {
                // Until the database is gone, and with it who sends.
                for Question { view, page, found, answer } in questions {
                    *shared.reading_since.lock() = Some(Instant::now());
                    let last = shared.read(&view, page, found);
                    *shared.reading_since.lock() = None;
                    if let Some(last) = last {
                        let _ = answer.try_send(last);
                    }
                }
            };
            match std::thread::Builder::new().name("resurgam-first-reads".to_owned()).spawn(work) {
                Ok(_) => *thread = Some(sender),
                Err(error) => {
                    tracing::warn!("no thread to ask the archive of pages: {error}");
                    return false;
                }
            }
        }
        thread.as_ref().is_some_and(|thread| thread.try_send(question).is_ok())
    }
}
