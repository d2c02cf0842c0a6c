//! How new a page must be that this process reads and has not written: what the archive's page tables say. So a write that the
//! device lost is noticed after a restart as well.
//!
//! Pages with records behind the last checkpoint before the open await redo, and are not asked for. All others must be as new as
//! their last record before it, which is in the archive or, as far as that lags, in the log (`lag.rs`). One whose last record below the
//! checkpoint is in the log is compared with that, whatever the archive does.
//!
//! # Waiting
//! What the page tables in memory and what is noted of the log do not tell is read by a thread of its own, which is started when there is something to read. Who
//! reads a page holds its latch, and waits for an answer for [`PATIENCE`] at most; while the thread gets none from the archive for
//! longer than that, nobody waits, and after an error of the archive nobody asks for [`PAUSE`]. Such pages are not compared, and
//! counted; what was asked for is read all the same, so a store that is slow is asked once for a frame.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{LastLsns, View};
use resurgam_base::{Lsn, PageId, Result};
use resurgam_buffer::Newest;

use super::lag::{Lag, Seen};

/// Longest wait of one read.
const PATIENCE: Duration = Duration::from_millis(100);
/// After an error of the archive, or of the log.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Questions that may wait.
const QUESTIONS_MAX: usize = 64;

struct Question {
    /// Whose tables are to be read; none: nobody's.
    view: Option<Arc<View>>,
    /// Where the archive ends; none: it is away.
    archived: Lsn,
    page: PageId,
    found: Lsn,
    /// What is known already.
    known: Known,
    answer: SyncSender<Known>,
}

/// What is known of a page.
#[derive(Clone, Copy)]
struct Known {
    /// Its last LSN in the archive above the one that was found, or one that is not above it; none: it cannot be told.
    in_archive: Option<Lsn>,
    /// What the log has that the archive lacks; none: it has not been looked at.
    in_lag: Option<Seen>,
}

impl Known {
    fn of(self, found: Lsn) -> Newest {
        let lag_last = self.in_lag.and_then(|seen| seen.last);
        match self.in_archive.max(lag_last) {
            None => Newest::Skipped,
            Some(last) if last > found => Newest::Known { last, complete: false },
            // One in the log is the last one below the checkpoint.
            Some(last) => {
                let reaches = self.in_archive.is_some() && self.in_lag.is_some_and(|seen| seen.reaches);
                Newest::Known { last, complete: lag_last.is_some() || reaches }
            }
        }
    }
}

/// What the thread and those who ask it share.
struct Shared {
    tables: LastLsns,
    lag: Lag,
    /// Since when the thread reads for one question.
    reading_since: Mutex<Option<Instant>>,
    failed_at: Mutex<Option<Instant>>,
}

impl Shared {
    fn has_failed(&self) -> bool {
        self.failed_at.lock().is_some_and(|at| at.elapsed() < PAUSE)
    }

    /// Reads what is not known.
    fn read(&self, question: &Question) -> Known {
        let Question { view, archived, page, found, known, .. } = question;
        let (archived, page, found, mut known) = (*archived, *page, *found, *known);
        if let (None, Some(view)) = (known.in_archive, view) {
            let result: Result<Lsn> = self.tables.read(view, page, found);
            known.in_archive = result
                .inspect_err(|error| {
                    if !self.has_failed() {
                        tracing::warn!("page {page} is read without a comparison with the archive: {error}");
                        *self.failed_at.lock() = Some(Instant::now());
                    }
                })
                .ok();
        }
        if known.in_lag.is_none() {
            known.in_lag = Some(self.lag.read(archived, page));
        }
        known
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
    pub fn new(bytes_max: usize, lag: Lag, inline: bool) -> Self {
        let tables = LastLsns::new(bytes_max);
        let shared = Shared { tables, lag, reading_since: Mutex::default(), failed_at: Mutex::default() };
        Self { shared: Arc::new(shared), thread: Mutex::default(), inline }
    }

    /// How new the page must be that was found as of `found`, as the archive tells in `view` and the log below the checkpoint; see [`Newest`].
    pub fn newest(&self, view: Option<&Arc<View>>, page: PageId, found: Lsn) -> Newest {
        let shared = &self.shared;
        let archived = view.map_or(Lsn::NONE, |view| view.end());
        let known = Known {
            in_archive: view.and_then(|view| shared.tables.known(view, page, found)),
            in_lag: shared.lag.known(archived, page),
        };
        let tells_log = known.in_lag.is_some_and(|seen| seen.last.is_some());
        let view = view.filter(|_| known.in_archive.is_none() && !tells_log && !shared.has_failed());
        let is_older = known.in_archive.is_some_and(|last| last > found);
        if is_older || view.is_none() && known.in_lag.is_some() {
            return known.of(found);
        }
        let (answer, answered) = sync_channel(1);
        let question = Question { view: view.cloned(), archived, page, found, known, answer };
        if self.inline {
            return shared.read(&question).of(found);
        }
        let hangs = || shared.reading_since.lock().is_some_and(|since| since.elapsed() > PATIENCE);
        let answered = if self.ask(question) && !hangs() { answered.recv_timeout(PATIENCE).ok() } else { None };
        answered.unwrap_or(known).of(found)
    }

    /// Gives back what is of no use when the archive ends at `archived`.
    pub fn forget(&self, archived: Lsn) {
        self.shared.lag.forget(archived);
    }

    /// False: too many wait, or there is no thread.
    fn ask(&self, question: Question) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (sender, questions) = sync_channel::<Question>(QUESTIONS_MAX);
            let shared = Arc::downgrade(&self.shared);
            let work = move || {
                // Until the database is gone, and with it who sends.
                for question in questions {
                    let Some(shared) = shared.upgrade() else { return };
                    *shared.reading_since.lock() = Some(Instant::now());
                    let known = shared.read(&question);
                    *shared.reading_since.lock() = None;
                    let _ = question.answer.try_send(known);
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
