//! The off-row version store: one internal append-only table of earlier row versions,
//! addressed by page and slot (Constant Time Recovery, sections 3.2.2 and 3.7.2).
//!
//! Insertion is partitioned, so that threads fill different pages. A version is pushed in
//! the log group of the change that pushes it. Pages are freed whole, when the highest
//! transaction id that pushed into them can no longer matter.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{ErrorKind, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_buffer::{Access, BufferPool, Mtr};
use resurgam_page::{PageType, VersionPtr, op, version};

/// Owner of version pages.
pub const VERSION_OBJECT: ObjectId = ObjectId(2);
const PARTITIONS: usize = 8;

/// A reading of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionStoreStats {
    /// Versions pushed off-row since open.
    pub pushed: u64,
    /// Pages in use.
    pub pages: u64,
    /// Pages freed since open.
    pub freed: u64,
}

/// See the module.
#[derive(Default)]
pub struct VersionStore {
    current: [Mutex<PageId>; PARTITIONS],
    /// Highest pusher of each page.
    pages: Mutex<HashMap<PageId, TxId>>,
    turn: AtomicU64,
    pushed: AtomicU64,
    freed: AtomicU64,
}

thread_local! {
    static PARTITION: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

impl VersionStore {
    fn partition(&self) -> usize {
        PARTITION.with(|p| {
            if p.get() == usize::MAX {
                p.set(self.turn.fetch_add(1, Ordering::Relaxed) as usize % PARTITIONS);
            }
            p.get()
        })
    }

    /// Adds an earlier version, `leaf` being an encoded leaf record, as part of `mtr`.
    pub fn push(&self, mtr: &mut Mtr<'_>, object: ObjectId, pusher: TxId, leaf: &[u8]) -> Result<VersionPtr> {
        let mut bytes = Vec::with_capacity(leaf.len() + version::OVERHEAD);
        version::encode_into(object, pusher, leaf, &mut bytes);
        self.pushed.fetch_add(1, Ordering::Relaxed);
        let mut current = self.current[self.partition()].lock();
        if current.is_some() {
            let page = mtr.pool().write(*current, Access::Point)?;
            if page.is(PageType::Version) && page.fits(bytes.len()) {
                let slot = SlotId(page.slot_count());
                let id = page.id();
                let at = mtr.add(page);
                op::insert(mtr.ops(at), slot, &bytes);
                self.note(id, pusher);
                return Ok(VersionPtr { page: id, slot });
            }
        }
        let pool = mtr.pool();
        let (id, at) = pool.space().allocate(mtr, VERSION_OBJECT, 0)?;
        let ops = mtr.ops(at);
        op::format(ops, PageType::Version, 0, VERSION_OBJECT, &[], None);
        op::insert(ops, SlotId(0), &bytes);
        self.note(id, pusher);
        *current = id;
        Ok(VersionPtr { page: id, slot: SlotId(0) })
    }

    fn note(&self, page: PageId, pusher: TxId) {
        let mut pages = self.pages.lock();
        let highest = pages.entry(page).or_default();
        *highest = (*highest).max(pusher);
    }

    /// Adds a page found after an open, with the highest id that can have pushed to it.
    pub fn adopt(&self, page: PageId, highest: TxId) {
        self.pages.lock().entry(page).or_insert(highest);
    }

    /// Frees pages all of whose pushers are below `floor`. Returns how many.
    pub fn free_below(&self, pool: &BufferPool, floor: TxId) -> Result<u64> {
        let candidates: Vec<PageId> =
            self.pages.lock().iter().filter(|(_, highest)| **highest < floor).map(|(page, _)| *page).collect();
        let mut freed = 0;
        for id in candidates {
            // Keep pages that are being filled out of it.
            let mut in_use = false;
            for partition in &self.current {
                let mut current = partition.lock();
                if *current == id {
                    *current = PageId::NONE;
                    in_use = true;
                }
            }
            if in_use {
                continue; // next time
            }
            let page = match pool.write(id, Access::Scan) {
                Ok(page) => page,
                // Noted by a push whose log group was given up.
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    self.pages.lock().remove(&id);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let still = self.pages.lock().get(&id).is_some_and(|highest| *highest < floor);
            if !still || !page.is(PageType::Version) {
                continue;
            }
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            pool.space().free(&mut mtr, id, VERSION_OBJECT, at)?;
            self.pages.lock().remove(&id);
            mtr.commit()?;
            freed += 1;
        }
        self.freed.fetch_add(freed, Ordering::Relaxed);
        Ok(freed)
    }

    /// Every page that the store knows, in no order.
    pub fn known(&self) -> Vec<PageId> {
        self.pages.lock().keys().copied().collect()
    }

    pub fn stats(&self) -> VersionStoreStats {
        VersionStoreStats {
            pushed: self.pushed.load(Ordering::Relaxed),
            pages: self.pages.lock().len() as u64,
            freed: self.freed.load(Ordering::Relaxed),
        }
    }
}
