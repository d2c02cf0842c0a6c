//! Pages that a scan will need, asked for before it does, and many at once.
//!
//! A page that comes from a page server takes a round trip, and a scan that asks for one after the other spends its time waiting. Who
//! walks along leaves knows the next ones from their parent (`btree/src/ahead.rs`) and says so here; a thread in the background
//! asks for them in one request. Their frames are there, latched, from before the request on: who needs such a page meanwhile waits
//! for its latch, as if another reader loaded it.
//!
//! # Invariants
//! 1. A page that is asked for ahead is loaded as any other: into a frame that was made for it where there was none, as new as it must be
//!    at that moment (`source/remote.rs`), and looked at before anybody gets it. It never takes the place of a page that is in memory.
//! 2. What fails is no error: the frame is free again, and who needs the page asks for it himself.
//! 3. Who asks ahead holds the latches of frames that nobody else has, and waits for nothing but the answer: for no other latch, no lock but
//!    for a moment, and no page to be written.
//! 4. Pages that are on their way, or came and were not used yet, take half of what scans may take at most. As pages of scans they
//!    are the first to go.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLockWriteGuard};
use resurgam_base::{Lsn, PageId, limits::PAGE_SIZE};
use resurgam_page::PageBuf;

use crate::frame::{Frame, Pin};
use crate::patience;
use crate::planted::Planted;
use crate::pool::BufferPool;
use crate::stats::bump;

/// Requests that wait for a thread at most: scans are faster than what they ask for, then, and ask themselves.
const QUEUED_MAX: usize = 32;

/// What is asked for ahead, and by whom.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Most pages of one request; 0: none is asked for ahead.
    most: AtomicUsize,
    /// Frames whose page nobody has used yet.
    unused: AtomicUsize,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Vec<PageId>>,
    /// Threads that see to them.
    threads: usize,
}

/// A frame with a page on its way. One that does not come is taken out of sight.
struct OnItsWay<'p> {
    pool: &'p BufferPool,
    page: PageId,
    /// None: it has come. Given back before the pin.
    latch: Option<RwLockWriteGuard<'p, PageBuf>>,
    pin: Pin<'p>,
}

impl OnItsWay<'_> {
    /// It has come. False: it cannot be.
    fn fill(&mut self, bytes: &[u8], end: Lsn) -> bool {
        let (Some(remote), Some(latch)) = (self.pool.sources.remote(), &mut self.latch) else { return false };
        if bytes.len() != PAGE_SIZE {
            return false;
        }
        latch.as_bytes_mut().copy_from_slice(bytes);
        remote.accept(self.page, latch, end).is_ok() && self.has_come()
    }

    /// It is at hand. False: it has to be asked for.
    fn fill_from_cache(&mut self, end: Lsn) -> bool {
        let (Some(remote), Some(latch)) = (self.pool.sources.remote(), &mut self.latch) else { return false };
        let is_current = remote.copy(self.page, latch, end).is_some_and(|copy| copy.is_current);
        is_current && remote.accept_copy(self.page, latch, end).is_ok() && self.has_come()
    }

    /// What is in the frame is the page.
    fn has_come(&mut self) -> bool {
        let (pool, frame) = (self.pool, self.pin.0);
        let Some(latch) = self.latch.take() else { return false };
        pool.sources.pending.done(self.page);
        pool.failing.loaded(self.page);
        frame.usage.store(0, Ordering::Relaxed);
        frame.valid.store(true, Ordering::Release);
        drop(latch);
        pool.note_scanned(self.page);
        true
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if self.latch.is_some() {
            bump(&self.pool.counters.ahead_not_had, 1);
            self.pool.forget_ahead(self.pin.0);
            self.pool.abandon(self.page, &self.pin);
        }
    }
}

impl BufferPool {
    /// So many pages are asked for in one request at most, where they come from page servers; 0: none is asked for ahead.
    pub fn set_read_ahead(&self, most: usize) {
        self.ahead.most.store(most, Ordering::Relaxed);
    }

    /// How many pages it is worth to ask for ahead at once; 0: none.
    pub fn reads_ahead(&self) -> usize {
        let Some(remote) = self.sources.remote() else { return 0 };
        let most = self.ahead.most.load(Ordering::Relaxed).min(remote.pages().most_at_once());
        // While a walk goes through one request's pages the next ones are on their way.
        most.min(self.ahead_max() / 2)
    }

    fn ahead_max(&self) -> usize {
        self.scan_share() / 2
    }

    /// Somebody will need these pages soon, in this order. They are asked for by a thread that does that; where there is none
    /// ([`BufferPool::add_ahead_thread`]), at once. The caller has no page latched.
    pub fn ask_ahead(&self, mut pages: Vec<PageId>) {
        pages.retain(|page| page.is_some() && !self.is_resident(*page));
        if pages.is_empty() || self.reads_ahead() == 0 {
            return;
        }
        let mut queue = self.ahead.queue.lock();
        if queue.threads == 0 {
            drop(queue);
            self.fetch_ahead(&pages);
        } else if queue.requests.len() < QUEUED_MAX {
            queue.requests.push_back(pages);
            drop(queue);
            self.ahead.wake.notify_one();
        }
    }

    /// One more thread asks ahead from now on: it calls [`BufferPool::work_ahead`] again and again.
    pub fn add_ahead_thread(&self) {
        self.ahead.queue.lock().threads += 1;
    }

    /// Sees to the next request, and waits for one for so long.
    pub fn work_ahead(&self, timeout: Duration) {
        let mut queue = self.ahead.queue.lock();
        if queue.requests.is_empty() {
            self.ahead.wake.wait_for(&mut queue, timeout);
        }
        let next = queue.requests.pop_front();
        drop(queue);
        if let Some(pages) = next {
            self.fetch_ahead(&pages);
        }
    }

    /// Asks for pages that are not in memory, as far as there is room.
    fn fetch_ahead(&self, pages: &[PageId]) {
        let Some(remote) = self.sources.remote() else { return };
        let mut frames: Vec<OnItsWay<'_>> = Vec::with_capacity(pages.len());
        for page in pages {
            if self.is_resident(*page) {
                continue;
            }
            if self.ahead.unused.fetch_add(1, Ordering::Relaxed) >= self.ahead_max() {
                self.ahead.unused.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            match self.install_ahead(*page) {
                Some((pin, latch)) => frames.push(OnItsWay { pool: self, page: *page, latch: Some(latch), pin }),
                None => {
                    self.ahead.unused.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        if frames.is_empty() {
            return;
        }
        let end = self.log.end_lsn();
        if remote.cache().is_some() {
            // What is at hand need not be asked for.
            frames.retain_mut(|frame| {
                let had = frame.fill_from_cache(end);
                bump(&self.counters.cached_pages, u64::from(had));
                !had
            });
            if frames.is_empty() {
                return;
            }
        }
        bump(&self.counters.ahead_asked, frames.len() as u64);
        // From here on nobody else brings them in: how new they must be does not change.
        let any_age = Planted::AheadOfAnyAge.is_planted();
        let at_least = |page| if any_age { Lsn::NONE } else { remote.at_least(page) };
        let wanted: Vec<_> = frames.iter().map(|frame| (frame.page, at_least(frame.page))).collect();
        remote.pages().get_pages(&wanted, &patience::check, &mut |at, bytes| {
            if let Some(frame) = frames.get_mut(at) {
                frame.fill(bytes, end);
            }
        });
    }

    /// A page is used: whether it was asked for ahead.
    #[inline]
    pub(crate) fn note_use(&self, frame: &Frame) {
        if self.forget_ahead(frame) {
            bump(&self.counters.ahead_used, 1);
        }
    }

    /// A page leaves memory.
    pub(crate) fn note_unused(&self, frame: &Frame) {
        if self.forget_ahead(frame) {
            bump(&self.counters.ahead_wasted, 1);
        }
    }

    /// True: the page was asked for ahead, and not used since.
    #[inline]
    fn forget_ahead(&self, frame: &Frame) -> bool {
        // Most are not.
        let was = frame.ahead.load(Ordering::Relaxed) && frame.ahead.swap(false, Ordering::Relaxed);
        if was {
            self.ahead.unused.fetch_sub(1, Ordering::Relaxed);
        }
        was
    }
}
