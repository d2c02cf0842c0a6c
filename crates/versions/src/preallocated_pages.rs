//! Version pages made ready in advance (Constant Time Recovery, section 3.7.2): allocated and
//! formatted in mini-transactions of their own, so that a push neither takes the allocation
//! mutex nor extends a file.
//!
//! A ready page is an empty version page. One that is not used before a crash or a close is
//! found by the next open like any other version page, and freed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use resurgam_base::PageId;

/// See the module.
#[derive(Default)]
pub(crate) struct PreallocatedPages {
    pages: Mutex<Vec<PageId>>,
    /// How many to keep; none before the store is first used. Doubled, up to `most`, when they
    /// turn out to be too few.
    target: AtomicUsize,
    most: usize,
    in_use: AtomicBool,
    found_none: AtomicU64,
    /// One filler at a time.
    pub filling: Mutex<()>,
    wake: (Mutex<bool>, Condvar),
}

impl PreallocatedPages {
    /// `target` and `most` of the fields.
    pub fn new(target: usize, most: usize) -> Self {
        Self { target: AtomicUsize::new(target.min(most)), most, ..Self::default() }
    }
    pub fn len(&self) -> usize {
        self.pages.lock().len()
    }
    /// Times that [`PreallocatedPages::take`] found none.
    pub fn found_none(&self) -> u64 {
        self.found_none.load(Ordering::Relaxed)
    }
    /// How many are to be made.
    pub fn missing(&self) -> usize {
        if !self.in_use.load(Ordering::Relaxed) {
            return 0;
        }
        self.target.load(Ordering::Relaxed).saturating_sub(self.len())
    }

    /// Takes one, if there is one, and asks for more when they run low.
    pub fn take(&self) -> Option<PageId> {
        let first = !self.in_use.swap(true, Ordering::Relaxed);
        let (taken, left) = {
            let mut pages = self.pages.lock();
            (pages.pop(), pages.len())
        };
        if taken.is_none() {
            self.found_none.fetch_add(1, Ordering::Relaxed);
            let target = self.target.load(Ordering::Relaxed);
            if !first && target > 0 {
                self.target.store((target * 2).min(self.most), Ordering::Relaxed);
            }
        }
        if left <= self.target.load(Ordering::Relaxed) / 2
            && let Some(mut wanted) = self.wake.0.try_lock()
        {
            *wanted = true;
            self.wake.1.notify_one();
        }
        taken
    }
    /// Adds pages, or gives back one that was not used.
    pub fn put(&self, pages: impl IntoIterator<Item = PageId>) {
        self.pages.lock().extend(pages);
    }
    /// Waits until pages run low, or `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let mut wanted = self.wake.0.lock();
        if !*wanted {
            self.wake.1.wait_for(&mut wanted, timeout);
        }
        *wanted = false;
    }
}
