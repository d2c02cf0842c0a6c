//! A long range of a table, read by several threads, whose rows come in its order all the same.
//!
//! The range is divided at keys of the tree's inner pages into many parts. Threads take one part after the other, read and decode
//! it and drop the rows that the filter above would drop ([`early`](super::early)); whoever reads the scan takes the batches of the
//! first part, then those of the second, and so on. So what is above sees the rows that it would have seen, in the same order: no answer, not even the
//! last digit of a sum of floats, and no error depends on how many threads there were.
//!
//! Invariants:
//! 1. As many threads read as there are processors, whatever the number of statements: a scan that gets none reads alone. Those that wait because nobody
//!    takes their rows (a cursor that is left open) do not count, but there are [`THREADS_TIMES`] times as many at most.
//! 2. A thread reads through the statement's view and is part of it: it stops when the statement is told to stop, its memory is the statement's,
//!    and what goes wrong in it (a panic as well) is the statement's error, in the place where its rows would have come.
//! 3. Few parts are ahead of the reader: [`AHEAD`] beside one for each thread, each of [`READY`] batches at most.
//! 4. When a scan is let go, its threads have ended: a kept plan can be run again.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc as threads};
use std::thread::{self, JoinHandle};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use parking_lot::Mutex;
use resurgam_engine::KeyRange;
use tokio::sync::mpsc;

use crate::exec::planning::Planning;
use crate::exec::scan::Reader;
use crate::exec::{bridge, compute, panics};
use crate::parse::depth::STACK_BYTES;
use crate::pg::running::{self, Stop};

/// Parts that a table is divided into at most.
const PARTS_MAX: u64 = 1024;
/// Batches of a part that are ready.
const READY: usize = 2;
/// See the module's head.
const AHEAD: usize = 1;

/// See the module's head.
const THREADS_TIMES: usize = 16;

/// Threads that read for scans now.
static READING: AtomicUsize = AtomicUsize::new(0);
/// Those and the ones that wait until somebody takes their rows.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Threads that were begun, since the process began; for metrics.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Threads that have read for scans beside those of their plans, since the process began.
pub fn scan_workers_begun() -> u64 {
    BEGUN.load(Ordering::Relaxed)
}

/// Threads for scans at one time: as many as there are processors; on one there is nothing to be gained.
fn workers_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| match thread::available_parallelism().map_or(1, usize::from) {
        1 => 0,
        processors => processors,
    })
}

/// The right to a thread.
struct Permit;

impl Permit {
    fn take() -> Option<Self> {
        let up_to = |most: usize| move |now: usize| (now < most).then_some(now + 1);
        THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up_to(workers_max() * THREADS_TIMES)).ok()?;
        if READING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up_to(workers_max())).is_err() {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self)
    }

    /// Does what may wait for long: others may read meanwhile, and for a moment there may be more of them than processors afterwards.
    fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        READING.fetch_sub(1, Ordering::Relaxed);
        let waited = wait();
        READING.fetch_add(1, Ordering::Relaxed);
        waited
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        READING.fetch_sub(1, Ordering::Relaxed);
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is worth being read by several threads, see [`Planning::gather_rows`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    pub(super) workers: usize,
    rows: u64,
}

impl Worth {
    /// A scan that is not.
    pub(super) const NEVER: Self = Self { workers: 0, rows: u64::MAX };

    pub(super) fn of(workers: usize, planning: Planning) -> Self {
        if planning.gather_rows == u64::MAX { Self::NEVER } else { Self { workers, rows: planning.gather_rows } }
    }

    /// Whether a scan that has read so many rows may be a long one.
    pub(super) fn may_be_long(self, seen: usize) -> bool {
        self.workers > 0 && seen as u64 >= self.rows / 24
    }

    /// Into how many parts a table of about so many rows is divided; `None`: it is read by one thread.
    pub(super) fn parts(self, rows: u64) -> Option<usize> {
        (rows >= self.rows).then(|| (rows / (self.rows / 3).max(1)).clamp(2, PARTS_MAX) as usize)
    }
}

type Batch = Result<RecordBatch>;

/// A range to be read, and where its rows go.
struct Part {
    range: KeyRange,
    out: mpsc::Sender<Batch>,
}

/// See the module's head.
pub(super) struct Gather {
    /// Not begun yet, in reverse.
    parts: Vec<KeyRange>,
    /// To the threads; gone when nothing more is to be read.
    begun: Option<threads::Sender<Part>>,
    /// What they read, in order.
    ready: VecDeque<mpsc::Receiver<Batch>>,
    threads: Vec<JoinHandle<()>>,
}

impl Gather {
    /// Reads the parts, which are ascending, as `reader` would; `None`: there is no thread for it.
    pub(super) fn begin(
        reader: &Reader,
        mut parts: Vec<KeyRange>,
        workers: usize,
        helped: &AtomicUsize,
    ) -> Option<Self> {
        parts.reverse();
        let (begun, queue) = threads::channel::<Part>();
        let queue = Arc::new(Mutex::new(queue));
        let stop = running::current();
        let mut threads = Vec::new();
        for _ in 0..workers {
            let Some(permit) = Permit::take() else { break };
            let (queue, stop, reader) = (Arc::clone(&queue), stop.clone(), reader.over(KeyRange::all()));
            let work = move || {
                compute::lower_priority();
                work(&queue, stop.as_ref(), &reader, &permit);
            };
            let builder = thread::Builder::new().name("scan".to_owned()).stack_size(STACK_BYTES);
            let Ok(thread) = builder.spawn(work) else { break };
            threads.push(thread);
        }
        if threads.is_empty() {
            return None;
        }
        BEGUN.fetch_add(threads.len() as u64, Ordering::Relaxed);
        helped.fetch_add(threads.len(), Ordering::Relaxed);
        let mut gather = Self { parts, begun: Some(begun), ready: VecDeque::new(), threads };
        for _ in 0..gather.threads.len() + AHEAD {
            gather.begin_one();
        }
        Some(gather)
    }

    /// Has one more part read.
    fn begin_one(&mut self) {
        let (Some(range), Some(begun)) = (self.parts.pop(), &self.begun) else {
            self.begun = None;
            return;
        };
        let (out, ready) = mpsc::channel(READY);
        self.ready.push_back(ready);
        // Without threads nobody sends, which the reader notices.
        let _ = begun.send(Part { range, out });
    }

    /// The next batch.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(first) = self.ready.front_mut() {
            match first.recv().await {
                Some(Ok(batch)) if batch.num_rows() == 0 => {
                    // A part has been read to its end.
                    self.ready.pop_front();
                    self.begin_one();
                }
                Some(batch) => return batch.map(Some),
                None => {
                    return Err(DataFusionError::Internal("a thread of a scan ended before its part did".to_owned()));
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        // Whoever waits for a part, or for room for a batch, ends by that.
        self.begun = None;
        self.ready.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// One thread: part after part.
fn work(queue: &Mutex<threads::Receiver<Part>>, stop: Option<&Arc<dyn Stop>>, like: &Reader, permit: &Permit) {
    loop {
        let part = permit.waiting(|| queue.lock().recv());
        let Ok(Part { range, out }) = part else { return };
        let mut reader = like.over(range);
        loop {
            if out.is_closed() {
                return;
            }
            let mut step = || panics::caught(|| reader.next());
            let read = match stop {
                Some(stop) => running::with(stop, step),
                None => step(),
            };
            let said = match read.map_err(bridge::failure).and_then(|read| read) {
                Ok(Some(batch)) if batch.num_rows() == 0 => continue,
                Ok(Some(batch)) => send(&out, Ok(batch), permit),
                Ok(None) => {
                    // Its end is said: a channel that is closed is a thread that broke off.
                    if send(&out, Ok(like.nothing()), permit).is_break() {
                        return;
                    }
                    break;
                }
                Err(error) => {
                    let _ = send(&out, Err(error), permit);
                    return;
                }
            };
            if said.is_break() {
                return;
            }
        }
    }
}

/// Breaks where nobody wants it.
fn send(out: &mpsc::Sender<Batch>, batch: Batch, permit: &Permit) -> ControlFlow<()> {
    match out.try_send(batch) {
        Ok(()) => ControlFlow::Continue(()),
        Err(mpsc::error::TrySendError::Closed(_)) => ControlFlow::Break(()),
        Err(mpsc::error::TrySendError::Full(batch)) => match permit.waiting(|| out.blocking_send(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        },
    }
}
