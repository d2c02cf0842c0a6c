//! Waits for a page that end when their reader is told to stop.
//!
//! A page that comes from afar ([`crate::RemotePages`]) may be long in coming: its page server has to be started again, say. A
//! statement that is cancelled meanwhile, or out of time, must not go on waiting, and so must none of those who wait for what it
//! has latched. Who reads for a statement says so for its thread ([`Patience::during`]); waits of shared latches, and of pages that are
//! loaded, then ask now and then whether to go on.
//!
//! # Invariants
//! 1. Only reads are given up: who changes pages, commits, rolls back or recovers waits to the end, as does every thread that has
//!    not said otherwise. What a read does beside reading is done by itself ([`to_the_end`]).
//! 2. A wait that is given up leaves no trace: the page's frame is free again, and who waits for the same page loads it himself. It
//!    is not known by that whether the page can be loaded.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use resurgam_base::Result;
use resurgam_page::PageBuf;

use crate::frame::Frame;
use crate::pool::BufferPool;
use crate::stats::bump;

/// Between two looks whether to go on waiting. A wait that takes longer is a long one: whoever runs the thread is told.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// How long a reader waits.
pub struct Patience {
    stop: Box<dyn Fn() -> Result<()> + Send + Sync>,
    /// Threads that wait for a page just now.
    waiting: AtomicU32,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Patience>>> = const { RefCell::new(None) };
}

/// Puts back what the thread read for before.
struct Before(Option<Arc<Patience>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

impl Patience {
    /// Until `stop` gives an error, which the reads end with. Once it has, it goes on doing so for as long as one of them is under way.
    pub fn new(stop: impl Fn() -> Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { stop: Box::new(stop), waiting: AtomicU32::new(0) })
    }

    /// Reads with it.
    pub fn during<T>(self: &Arc<Self>, read: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(Some(Arc::clone(self))));
        read()
    }

    /// Threads that wait for a page just now, and read with it.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Does what must not be left half way, in the middle of a read.
pub fn to_the_end<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.take());
    work()
}

/// # Errors
/// What the read that this thread is in has to end with.
pub(crate) fn check() -> Result<()> {
    CURRENT.with_borrow(Clone::clone).map_or(Ok(()), |patience| (patience.stop)())
}

/// A wait of this thread, until it is dropped.
pub(crate) struct Wait(Option<Arc<Patience>>);

impl Wait {
    pub fn begin() -> Self {
        let patience = CURRENT.with_borrow(Clone::clone);
        if let Some(patience) = &patience {
            patience.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Self(patience)
    }

    /// # Errors
    /// What it is given up with.
    pub fn check(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |patience| (patience.stop)())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(patience) = &self.0 {
            patience.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl BufferPool {
    /// The latch of a frame, shared.
    ///
    /// # Errors
    /// What the wait for it is given up with.
    #[inline]
    pub(crate) fn latch_shared<'f>(&self, frame: &'f Frame) -> Result<RwLockReadGuard<'f, PageBuf>> {
        match frame.latch.try_read() {
            Some(latch) => Ok(latch),
            None => self.wait_for_shared(frame),
        }
    }

    #[cold]
    fn wait_for_shared<'f>(&self, frame: &'f Frame) -> Result<RwLockReadGuard<'f, PageBuf>> {
        let Some(remote) = self.sources.remote() else { return Ok(frame.latch.read()) };
        // Most are short, and no waits for pages.
        if let Some(latch) = frame.latch.try_read_for(LOOK) {
            return Ok(latch);
        }
        let wait = Wait::begin();
        let outcome = remote.long(|| {
            loop {
                wait.check()?;
                if let Some(latch) = frame.latch.try_read_for(LOOK) {
                    return Ok(latch);
                }
            }
        });
        bump(&self.counters.page_waits_given_up, u64::from(outcome.is_err()));
        outcome
    }

    /// The latch of a frame, exclusive. Nobody gives that up.
    #[inline]
    pub(crate) fn latch_exclusive<'f>(&self, frame: &'f Frame) -> RwLockWriteGuard<'f, PageBuf> {
        match frame.latch.try_write() {
            Some(latch) => latch,
            None => self.wait_for_exclusive(frame),
        }
    }

    #[cold]
    fn wait_for_exclusive<'f>(&self, frame: &'f Frame) -> RwLockWriteGuard<'f, PageBuf> {
        let Some(remote) = self.sources.remote() else { return frame.latch.write() };
        match frame.latch.try_write_for(LOOK) {
            Some(latch) => latch,
            None => remote.long(|| frame.latch.write()),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_base::{Error, ErrorKind};

    use super::*;

    #[test]
    fn a_thread_reads_for_one_at_a_time() {
        let stopped = Patience::new(|| Err(Error::new(ErrorKind::Cancelled, "stop")));
        let goes_on = Patience::new(|| Ok(()));
        assert!(check().is_ok() && Wait::begin().check().is_ok());
        stopped.during(|| {
            assert_eq!(check().unwrap_err().kind(), ErrorKind::Cancelled);
            goes_on.during(|| assert!(check().is_ok()));
            to_the_end(|| assert!(check().is_ok() && Wait::begin().check().is_ok()));
            let wait = Wait::begin();
            assert!(wait.check().is_err() && stopped.waiting() == 1);
            drop(wait);
            assert_eq!((stopped.waiting(), check().is_err()), (0, true));
        });
        assert!(check().is_ok());
    }
}
