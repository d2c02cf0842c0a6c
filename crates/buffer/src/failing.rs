//! Pages that cannot be loaded: since when, so that others may conclude what they cannot have got since.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::PageId;

/// Most pages that are remembered. Of the others nothing is concluded.
const PAGES_MAX: usize = 1 << 16;

/// The pages whose last load failed.
#[derive(Default)]
pub(crate) struct FailingPages {
    count: AtomicU64,
    /// With a number that is new each time a page begins to fail.
    pages: Mutex<(HashMap<PageId, u64>, u64)>,
}

impl FailingPages {
    /// Its load failed. Nobody has it: the caller holds the latch of the frame that it was for.
    pub fn failed(&self, page: PageId) {
        let mut pages = self.pages.lock();
        let (failing, last) = &mut *pages;
        if !failing.contains_key(&page) && failing.len() < PAGES_MAX {
            *last += 1;
            failing.insert(page, *last);
            self.count.store(failing.len() as u64, Ordering::SeqCst);
        }
    }

    /// It is in memory now, and nobody has it yet.
    pub fn loaded(&self, page: PageId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut pages = self.pages.lock();
        pages.0.remove(&page);
        self.count.store(pages.0.len() as u64, Ordering::SeqCst);
    }

    /// A number for the time since its loads fail. While it is the same, nothing was written to the
    /// page. `None`: it can be loaded, or that is not known.
    pub fn since(&self, page: PageId) -> Option<u64> {
        self.pages.lock().0.get(&page).copied()
    }
}
