//! The off-row version store: one internal append-only table of earlier row versions,
//! addressed by page and slot (Constant Time Recovery, sections 3.2.2 and 3.7.2).
//!
//! Insertion is partitioned, so that threads fill different pages. A version is pushed in
//! the log group of the change that pushes it. Pages are freed whole, when none of the
//! transactions that pushed into them can matter any more (`reclaim.rs`).
//!
//! Pages are in the version-store file where the database has one, else in the data file;
//! some are made ready in advance (`preallocated_pages.rs`). When no page can be had, the write that
//! needs one fails and changes nothing; nothing else needs one, rolling back least of all.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use resurgam_base::{Error, ErrorKind, ObjectId, PageId, Result, SlotId, TxId, limits::PAGE_SIZE};
use resurgam_buffer::{Access, BufferPool, Mtr, PageRef};
use resurgam_page::{PageType, VersionPtr, op, space, version};
use resurgam_txn::{EndedIds, TxIdSet, TxManager};

use crate::preallocated_pages::PreallocatedPages;
use crate::reclaim::{Past, Pushers, Unneeded};

/// Owner of version pages.
pub const VERSION_OBJECT: ObjectId = ObjectId(2);
const PARTITIONS: usize = 8;
/// Most pages kept ready: 8 MB.
const PREALLOCATED_MAX: usize = 1024;
/// Pages made ready in one mini-transaction: an extent.
const BATCH: usize = 8;
/// Pages that are looked at in one go for who pushed into them: 4 MB.
const LEARNED_MAX: usize = 512;

/// Settings of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionStoreConfig {
    /// Pages kept ready once the store is in use; 0 = none. More are kept, up to 1024, when
    /// pushes find them used up.
    pub pages_ready: usize,
    /// Most bytes of version pages; 0 = as the disk allows. Of a version-store file it bounds
    /// the size (see [`resurgam_buffer::VersionFile`]).
    pub bytes_max: u64,
}

/// A reading of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionStoreStats {
    /// Versions pushed off-row since open.
    pub pushed: u64,
    /// Pages in use, those kept ready not counted.
    pub pages: u64,
    /// Pages freed since open.
    pub freed: u64,
    /// Pages made ready in advance and not used yet.
    pub pages_ready: u64,
    /// Times since open that a push needed a page and found none ready.
    pub found_none: u64,
    /// Pages that nobody but aborted transactions needed when pages were freed last.
    pub held_by_aborted: u64,
    /// Size of the version-store file, in bytes; 0 = versions are in the data file.
    pub file_bytes: u64,
}

/// See the module.
#[derive(Default)]
pub struct VersionStore {
    current: [Mutex<PageId>; PARTITIONS],
    config: VersionStoreConfig,
    preallocated: PreallocatedPages,
    pages: Mutex<Pushers>,
    /// Held while pages are freed, and by who must not be led to a page that is.
    freeing: Mutex<()>,
    /// Pages that nobody but aborted transactions needed when pages were freed last.
    held_by_aborted: AtomicU64,
    turn: AtomicU64,
    pushed: AtomicU64,
    freed: AtomicU64,
}

thread_local! {
    static PARTITION: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

impl VersionStore {
    pub fn new(config: VersionStoreConfig) -> Self {
        // Pages that are ready must not use up a small bound.
        let most = match config.bytes_max {
            0 => PREALLOCATED_MAX,
            bytes => PREALLOCATED_MAX.min((bytes / PAGE_SIZE as u64 / 8) as usize),
        };
        Self { config, preallocated: PreallocatedPages::new(config.pages_ready, most), ..Self::default() }
    }

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
            let page = match mtr.pool().write(*current, Access::Point) {
                // Given to this partition by a log group that failed, and never formatted. Or what was pushed into it cannot
                // be read just now: that concerns who needs it, and the next version goes to another page.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => None,
                other => Some(other?),
            };
            if let Some(page) = page
                && page.is(PageType::Version)
                && page.fits(bytes.len())
            {
                let slot = SlotId(page.slot_count());
                let id = page.id();
                let at = mtr.add(page);
                op::insert(mtr.ops(at), slot, &bytes);
                self.note(id, pusher);
                return Ok(VersionPtr { page: id, slot });
            }
        }
        let (id, at) = match self.take_ready(mtr)? {
            Some(found) => found,
            None => self.allocate(mtr)?,
        };
        op::insert(mtr.ops(at), SlotId(0), &bytes);
        self.note(id, pusher);
        *current = id;
        Ok(VersionPtr { page: id, slot: SlotId(0) })
    }

    /// A ready page, as part of `mtr`.
    fn take_ready(&self, mtr: &mut Mtr<'_>) -> Result<Option<(PageId, PageRef)>> {
        let mut unread = Vec::new();
        let mut found = Ok(None);
        while let Some(id) = self.preallocated.take() {
            match mtr.pool().write(id, Access::Point) {
                Ok(page) if page.is(PageType::Version) && page.slot_count() == 0 => {
                    found = Ok(Some((id, mtr.add(page))));
                    break;
                }
                // A partition that had been given it by a log group that failed fills it already.
                Ok(_) => {}
                // Another one will do; this one stays ready.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => unread.push(id),
                Err(error) => {
                    unread.push(id);
                    found = Err(error);
                    break;
                }
            }
        }
        self.preallocated.put(unread);
        found
    }

    /// A new page, formatted, as part of `mtr`.
    fn allocate(&self, mtr: &mut Mtr<'_>) -> Result<(PageId, PageRef)> {
        let pool = mtr.pool();
        if pool.version_file().is_none() && self.config.bytes_max > 0 {
            let bytes = self.pages.lock().len() * PAGE_SIZE as u64;
            if bytes + PAGE_SIZE as u64 > self.config.bytes_max {
                let (data, most) = (pool.file(), self.config.bytes_max);
                let file = data.path().display();
                return Err(Error::new(
                    ErrorKind::DiskFull,
                    format!("the version store in \"{file}\" may hold {most} bytes (version_store_bytes_max)"),
                ));
            }
        }
        let (id, at) = pool.space().allocate_version(mtr, VERSION_OBJECT)?;
        op::format(mtr.ops(at), PageType::Version, 0, VERSION_OBJECT, &[], None);
        Ok((id, at))
    }

    /// Makes pages ready until there are as many as wanted. `highest` is the highest id that
    /// can have pushed a version before now (see [`VersionStore::adopt`]). Returns how many.
    ///
    /// # Errors
    /// `DiskFull` when there is no space for one more.
    pub fn make_ready(&self, pool: &BufferPool, highest: TxId) -> Result<usize> {
        if self.preallocated.missing() == 0 {
            return Ok(0);
        }
        let Some(_one) = self.preallocated.filling.try_lock() else { return Ok(0) };
        // What is free in the file comes before more of it.
        self.learn_free(pool, highest)?;
        let mut made = 0;
        loop {
            let count = self.preallocated.missing().min(BATCH);
            if count == 0 {
                return Ok(made);
            }
            let batch = match self.make_batch(pool, count) {
                Err(error) if error.kind() == ErrorKind::DiskFull && count > 1 => self.make_batch(pool, 1)?,
                other => other?,
            };
            made += batch.len();
            self.preallocated.put(batch);
        }
    }

    /// Learns what is free in the version-store file, if that is not known yet after an open.
    fn learn_free(&self, pool: &BufferPool, highest: TxId) -> Result<()> {
        for map in pool.space().version_map_pages() {
            if !pool.space().is_discovered(map) {
                self.adopt_all(pool, map, highest)?;
                pool.space().discover(pool, map)?;
            }
        }
        Ok(())
    }

    /// After a push that found no space, before it is tried once more: after an open free pages
    /// may not be known yet. Nothing must be latched.
    pub(crate) fn find_space(&self, pool: &BufferPool, txs: &TxManager) -> Result<()> {
        let _one = self.preallocated.filling.lock();
        self.learn_free(pool, TxId(txs.next_id().0.saturating_sub(1)))
    }

    fn make_batch(&self, pool: &BufferPool, count: usize) -> Result<Vec<PageId>> {
        let mut ids = Vec::with_capacity(count);
        let mut mtr = Mtr::new(pool);
        let made = (0..count)
            .try_for_each(|_| {
                let (id, _) = self.allocate(&mut mtr)?;
                // Before anybody can find it by its space map, and free it.
                self.pages.lock().make_ready(id);
                ids.push(id);
                Ok(())
            })
            .and_then(|()| mtr.commit());
        match made {
            Ok(_) => Ok(ids),
            Err(error) => {
                let mut pages = self.pages.lock();
                ids.iter().for_each(|id| pages.remove(*id));
                Err(error)
            }
        }
    }

    /// Waits until ready pages run low, or `timeout`. For the thread that makes them.
    pub fn wait_for_work(&self, timeout: std::time::Duration) {
        self.preallocated.wait(timeout);
    }

    fn note(&self, page: PageId, pusher: TxId) {
        self.pages.lock().note(page, pusher);
    }

    /// Adds a page found after an open, with the highest id that can have pushed to it.
    pub fn adopt(&self, page: PageId, highest: TxId) {
        self.pages.lock().adopt(page, highest);
    }

    /// Adopts all version pages of one interval of a space map.
    pub fn adopt_all(&self, pool: &BufferPool, map: PageId, highest: TxId) -> Result<()> {
        for (page, owner, _) in pool.space().flagged(pool, map, space::PFS_ALLOCATED)? {
            if owner == VERSION_OBJECT {
                self.adopt(page, highest);
            }
        }
        Ok(())
    }

    /// Keeps pages from being freed while the guard is held: for who walks versions that no
    /// snapshot of his protects. Taken before any page is latched.
    pub fn hold_pages(&self) -> MutexGuard<'_, ()> {
        self.freeing.lock()
    }

    /// Keeps pages from being made ready in advance while the guard is held: for who compares the space
    /// maps with what leads to pages.
    pub fn hold_filling(&self) -> MutexGuard<'_, ()> {
        self.preallocated.filling.lock()
    }

    /// Frees pages that nobody needs: all of their pushers are among `ended`, a moment that the
    /// horizon has passed, and none is in `aborted`, which was read after that was known (see
    /// `reclaim.rs`). Returns how many; 0 while somebody holds the pages, or frees them.
    ///
    /// # Errors
    /// Of a page that cannot be read, when the others are done.
    pub fn free_unneeded(
        &self,
        pool: &BufferPool,
        ended: &EndedIds,
        aborted: &TxIdSet,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let Some(one) = self.freeing.try_lock() else { return Ok(0) };
        let past = Past { ended, aborted };
        let Unneeded { free: candidates, unknown, held } = self.pages.lock().unneeded(&past, LEARNED_MAX);
        self.held_by_aborted.store(held, Ordering::Relaxed);
        let mut freed = 0;
        let mut failed = None;
        // Maps that cannot be read: asked once, not for each page, since allocation waits meanwhile.
        let mut unmapped = Vec::new();
        for id in candidates {
            if stop() {
                break;
            }
            if unmapped.contains(&space::map_page_of(id)) {
                continue;
            }
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
                    self.pages.lock().remove(id);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Io => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let still = self.pages.lock().is_unneeded(id, &past);
            if !still {
                continue;
            }
            if !page.is(PageType::Version) {
                // Freed while it was being adopted, or noted by a push that was given up.
                self.pages.lock().remove(id);
                continue;
            }
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            match pool.space().free(&mut mtr, id, VERSION_OBJECT, at) {
                Ok(()) => {}
                // Its space map: the sweep tells of that.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => {
                    unmapped.push(space::map_page_of(id));
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.pages.lock().remove(id);
            if let Err(error) = mtr.commit() {
                // It is still there: all who pushed into it had ended.
                self.pages.lock().adopt(id, TxId(ended.next().0.saturating_sub(1)));
                return Err(error);
            }
            freed += 1;
        }
        self.freed.fetch_add(freed, Ordering::Relaxed);
        // Many reads of the disk: who holds pages does not wait for them.
        drop(one);
        for id in unknown {
            if stop() {
                break;
            }
            self.learn(pool, id);
        }
        failed.map_or(Ok(freed), Err)
    }

    /// Learns who pushed into a page that was found after an open, for the next time that pages
    /// are freed. A page that cannot be read is left as it is: anybody may have.
    fn learn(&self, pool: &BufferPool, id: PageId) {
        // Its latch keeps pushes away until the page's entry says what it holds.
        let Ok(page) = pool.read(id, Access::Scan) else { return };
        if page.is(PageType::Version) {
            let pusher = |slot| page.record(SlotId(slot)).map_or(TxId::NONE, version::pusher_of);
            self.pages.lock().learn(id, (0..page.slot_count()).map(pusher));
        }
    }

    /// Every page that the store knows, in no order.
    pub fn known(&self) -> Vec<PageId> {
        self.pages.lock().all().collect()
    }

    pub fn stats(&self) -> VersionStoreStats {
        VersionStoreStats {
            pushed: self.pushed.load(Ordering::Relaxed),
            pages: self.pages.lock().used(),
            freed: self.freed.load(Ordering::Relaxed),
            pages_ready: self.preallocated.len() as u64,
            found_none: self.preallocated.found_none(),
            held_by_aborted: self.held_by_aborted.load(Ordering::Relaxed),
            file_bytes: 0,
        }
    }
}
