//! One frame of the pool and the guards that give access to its page.
//!
//! Pin: the frame cannot be given to another page. Latch: the content cannot change
//! (shared) or be seen (exclusive). A guard holds both; the latch is released first.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use resurgam_base::{CommitTs, Lsn, PageId};
use resurgam_page::PageBuf;

use crate::occupancy::Occupancy;
use crate::sight::Sight;

/// Highest usage count of the replacement clock.
pub(crate) const USAGE_MAX: u8 = 3;

/// Begins a line of the processor's cache: who looks for a page reads one line of its frame.
#[repr(C, align(64))]
pub(crate) struct Frame {
    /// Its place in the pool.
    pub index: u32,
    pub usage: AtomicU8,
    /// The content is the page's; false while loading and after a failed load.
    pub valid: AtomicBool,
    /// The page was formatted since it was last copied to be written: its log from `rec_lsn` on
    /// makes it whole. Changes under the latch.
    pub fresh: AtomicBool,
    /// The page was asked for ahead, and nobody has used it since.
    pub ahead: AtomicBool,
    /// The page held (the boot page is never pooled), and its pins.
    pub held: Occupancy,
    pub latch: RwLock<PageBuf>,
    /// 0 = clean; else invariant 2 of the crate.
    pub rec_lsn: AtomicU64,
    /// In the second line.
    pub sight: Sight,
}

const _: () = assert!(std::mem::offset_of!(Frame, sight) <= 64 && size_of::<Frame>() == 128);

impl Frame {
    pub fn new(index: u32, page: PageBuf) -> Self {
        Self {
            index,
            held: Occupancy::default(),
            usage: AtomicU8::new(0),
            valid: AtomicBool::new(false),
            rec_lsn: AtomicU64::new(0),
            fresh: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
            latch: RwLock::new(page),
            sight: Sight::default(),
        }
    }
    pub fn is_dirty(&self) -> bool {
        self.rec_lsn.load(Ordering::SeqCst) != 0
    }
    /// The file lacks what the page's log has from `lsn` on.
    pub fn dirty_from(&self, lsn: Lsn) {
        let earlier = |rec: u64| (rec == 0 || rec > lsn.0).then_some(lsn.0);
        let _ = self.rec_lsn.fetch_update(Ordering::SeqCst, Ordering::SeqCst, earlier);
    }
    /// The page held, or none.
    pub fn page(&self) -> PageId {
        PageId(self.held.page())
    }
    pub fn touch(&self) {
        let usage = self.usage.load(Ordering::Relaxed);
        if usage < USAGE_MAX {
            self.usage.store(usage + 1, Ordering::Relaxed);
        }
    }
}

/// Unpins on drop.
pub(crate) struct Pin<'p>(pub &'p Frame);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.held.unpin();
    }
}

/// Shared access to a page. Fields drop in order: latch, then pin.
pub struct ReadGuard<'p> {
    pub(crate) latch: RwLockReadGuard<'p, PageBuf>,
    pub(crate) pin: Pin<'p>,
}

impl ReadGuard<'_> {
    /// The page held.
    pub fn id(&self) -> PageId {
        self.pin.0.page()
    }
    /// What was noted of a leaf as it is: every record is of a transaction that has committed at or before this time, and so many of them
    /// delete their row.
    #[inline]
    pub fn sight(&self) -> Option<(CommitTs, u16)> {
        self.pin.0.sight.of(self.lsn())
    }
    /// Notes that for the next.
    pub fn note_sight(&self, ts: CommitTs, ghosts: u16) {
        self.pin.0.sight.note(self.lsn(), ts, ghosts);
    }
}

impl Deref for ReadGuard<'_> {
    type Target = PageBuf;
    fn deref(&self) -> &PageBuf {
        &self.latch
    }
}

/// Exclusive access to a page; it is changed through [`crate::Mtr`] only.
pub struct WriteGuard<'p> {
    pub(crate) latch: RwLockWriteGuard<'p, PageBuf>,
    pub(crate) pin: Pin<'p>,
}

impl WriteGuard<'_> {
    /// The page held.
    pub fn id(&self) -> PageId {
        self.pin.0.page()
    }
    /// Sets the frame's `rec_lsn` if it is clean; must precede the log append (invariant 2).
    pub(crate) fn mark_dirty(&self, log_end: Lsn) {
        let rec = &self.pin.0.rec_lsn;
        if rec.load(Ordering::Relaxed) == 0 {
            // Not over a mark that comes from elsewhere in this moment, see `device.rs`: that one is older.
            let _ = rec.compare_exchange(0, log_end.0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

impl Deref for WriteGuard<'_> {
    type Target = PageBuf;
    fn deref(&self) -> &PageBuf {
        &self.latch
    }
}
