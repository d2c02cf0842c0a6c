//! The newest durable blocks, in memory for those who follow the log.
//!
//! A flush hands its blocks on here after they are durable, if anybody follows; otherwise nothing is
//! kept and nothing is paid but a look at a number. The flush never waits: who lags more than
//! [`TAIL_BYTES_MAX`] reads segment files.
//!
//! # Invariants
//! 1. The blocks follow each other without a gap and end at `upto`, a durable position.
//! 2. Nothing is in here that is not durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use resurgam_base::Lsn;

use crate::sealed::Sealed;

/// Most bytes of blocks kept; the newest block stays, however large.
const TAIL_BYTES_MAX: usize = 4 << 20;
/// Bytes of blocks handed out at a time, about.
const BATCH_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Newest {
    blocks: VecDeque<Arc<Sealed>>,
    bytes: usize,
    /// Raised by each flush, and when the log stops.
    moved: u64,
}

#[derive(Default)]
pub(crate) struct Tail {
    followers: AtomicUsize,
    newest: Mutex<Newest>,
    moved: Condvar,
}

impl Tail {
    pub(crate) fn join(&self) {
        self.followers.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        if self.followers.fetch_sub(1, Ordering::SeqCst) == 1 {
            let mut newest = self.newest.lock();
            // One who joined meanwhile reads files until the next flush.
            newest.blocks = VecDeque::new();
            newest.bytes = 0;
        }
    }

    /// These blocks became durable. The caller has published the durable position before.
    pub(crate) fn push(&self, batch: &[Arc<Sealed>]) {
        if self.followers.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut newest = self.newest.lock();
        if let (Some(last), Some(first)) = (newest.blocks.back(), batch.first())
            && last.header.lsn != first.header.prev
        {
            // Nobody followed while something was written in between.
            newest.blocks.clear();
            newest.bytes = 0;
        }
        for sealed in batch {
            newest.bytes += sealed.bytes.len();
            newest.blocks.push_back(Arc::clone(sealed));
        }
        while newest.bytes > TAIL_BYTES_MAX && newest.blocks.len() > 1 {
            if let Some(oldest) = newest.blocks.pop_front() {
                newest.bytes -= oldest.bytes.len();
            }
        }
        newest.moved += 1;
        self.moved.notify_all();
    }

    /// Wakes all who wait: the log stopped.
    pub(crate) fn wake_all(&self) {
        self.newest.lock().moved += 1;
        self.moved.notify_all();
    }

    /// The blocks from the one at `lsn` on, a few; none when it is not in memory.
    pub(crate) fn from(&self, lsn: Lsn) -> Vec<Arc<Sealed>> {
        let newest = self.newest.lock();
        let at = newest.blocks.partition_point(|sealed| sealed.header.lsn < lsn);
        match newest.blocks.get(at) {
            Some(sealed) if sealed.header.lsn == lsn => {
                let mut left = BATCH_BYTES;
                let fits = |sealed: &&Arc<Sealed>| {
                    let go_on = left > 0;
                    left = left.saturating_sub(sealed.bytes.len());
                    go_on
                };
                newest.blocks.range(at..).take_while(fits).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Waits until `is_over` or the time is up. `is_over` is asked again after each flush.
    pub(crate) fn wait(&self, until: Instant, is_over: impl Fn() -> bool) {
        let mut newest = self.newest.lock();
        while !is_over() {
            let seen = newest.moved;
            if self.moved.wait_until(&mut newest, until).timed_out() && newest.moved == seen {
                return;
            }
        }
    }
}
