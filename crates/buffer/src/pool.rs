//! Fetching pages and choosing victims.
//!
//! Replacement is a clock with usage counts. Pages that a scan brings in also join a queue;
//! once an eighth of memory holds such pages, the oldest of them that nobody else has asked
//! for is the victim, before the clock moves. So a scan of a table larger than memory
//! recycles its own frames and leaves the working set alone.
//!
//! # Locking
//! shard lock -> (nothing). A frame is pinned under its shard's lock, or by a hint (`occupancy.rs`); a
//! victim is taken under the exclusive shard lock with no pins, so a pinned frame never changes page.
//! The latch of a frame being loaded is held by the loader before the frame can be found. Who reads ahead (`ahead.rs`) holds
//! those of many frames, and waits for no other latch meanwhile.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_log::Log;
use resurgam_page::PageBuf;
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::ahead::Ahead;
use crate::device::Devices;
use crate::double_write::DoubleWrite;
use crate::failing::FailingPages;
use crate::files::{Files, VersionFile};
use crate::frame::{Frame, Pin, ReadGuard, USAGE_MAX, WriteGuard};
use crate::frames::Frames;
use crate::give_back::Holes;
use crate::guide::Guides;
use crate::openings::Openings;
use crate::page_guide::Guess;
use crate::patience;
use crate::planted::Planted;
use crate::source::{
    Loaded, PageCache, PageCacheStatus, PageHistory, PendingRedo, Remote, RemotePages, Restoring, Segment, Sources,
};
use crate::space::Space;
use crate::stats::{Counters, PoolStats, bump};
use crate::writeback::{DirtyPage, Looking, WriteGoal};

const SHARDS: usize = 64;
/// Dirty victims that the clock passes before it asks for a batch to be cleaned.
const DIRTY_SEEN_MAX: usize = 512;

/// Why a page is fetched; decides how long it stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Part of the working set.
    Point,
    /// One pass over many pages.
    Scan,
}

/// How a page is in memory.
enum InMemory {
    No,
    Is(Lsn),
    /// Somebody changes it, or loads it.
    Busy,
}

/// Why a page could not be had.
pub(crate) enum NotHad {
    /// There was no room for it in memory, and others could not be written to make some.
    Room(Error),
    /// It could not be loaded.
    Page(Error),
}

impl NotHad {
    pub fn into_error(self) -> Error {
        match self {
            Self::Room(error) | Self::Page(error) => error,
        }
    }
}

/// Settings of the pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Memory for pages, in bytes; at least 64 pages are used.
    pub bytes: usize,
    /// Most pages of one batch in the double-write area; new pages, which need none, come on top.
    pub batch_pages: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { bytes: 128 << 20, batch_pages: 508 }
    }
}

struct StopHook(Box<dyn Fn(&Error) + Send + Sync>);

/// The pool. See the crate's page for its invariants.
pub struct BufferPool {
    pub(crate) frames: Frames,
    /// Frames in use so far; those above hold no page yet.
    pub(crate) used: AtomicUsize,
    shards: Box<[RwLock<HashMap<PageId, u32>>]>,
    pub(crate) guides: Guides,
    /// Frames that hold no page (failed loads, dropped pages).
    free: Mutex<Vec<u32>>,
    pub(crate) hand: AtomicUsize,
    /// Pages that scans brought in, oldest first.
    scanned: Mutex<VecDeque<(u32, PageId)>>,
    pub(crate) ahead: Ahead,
    pub(crate) log: Arc<Log>,
    pub(crate) double_write: Mutex<DoubleWrite>,
    double_writes: AtomicBool,
    /// 0: no images are logged.
    pub(crate) records_per_page_max: AtomicU32,
    pub(crate) sources: Sources,
    pub(crate) failing: FailingPages,
    pub(crate) devices: Devices,
    pub(crate) counters: Counters,
    space: Space,
    pub(crate) holes: Holes,
    /// Those of them whose hole is made.
    pub(crate) punched: Holes,
    /// Set when a change could not be logged: memory may hold what the log does not.
    poisoned: AtomicBool,
    /// Told of that.
    stop_hook: OnceLock<StopHook>,
    pub(crate) config: PoolConfig,
    pub(crate) writer_wake: (Mutex<bool>, Condvar),
    /// Who looks at the dirty pages just now, and what is dropped meanwhile. Taken before a shard.
    pub(crate) looking_at_dirty_pages: Mutex<Looking>,
    /// What was last found to be the oldest `rec_lsn`: 0 = never asked, `u64::MAX` = none.
    oldest_seen: AtomicU64,
}

impl BufferPool {
    /// Opens the data file at `data` (created when missing) and the double-write area
    /// at `double_write`. Double writes must have been restored before.
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        data: &Path,
        double_write: &Path,
        log: Arc<Log>,
        config: PoolConfig,
    ) -> Result<Self> {
        let file = vfs.open(data, OpenMode::Create)?;
        let dw = DoubleWrite::open(vfs, double_write, config.batch_pages)?;
        let count = (config.bytes / PAGE_SIZE).max(64);
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, RwLock::default);
        Ok(Self {
            frames: Frames::new(count),
            used: AtomicUsize::new(0),
            shards: shards.into_boxed_slice(),
            guides: Guides::new(count),
            free: Mutex::new(Vec::new()),
            hand: AtomicUsize::new(0),
            scanned: Mutex::default(),
            ahead: Ahead::default(),
            sources: Sources::new(Files::new(file), Arc::clone(&log), count * PAGE_SIZE),
            log,
            double_write: Mutex::new(dw),
            double_writes: AtomicBool::new(true),
            records_per_page_max: AtomicU32::new(0),
            failing: FailingPages::default(),
            devices: Devices::default(),
            counters: Counters::default(),
            space: Space::default(),
            holes: Holes::default(),
            punched: Holes::default(),
            poisoned: AtomicBool::new(false),
            stop_hook: OnceLock::new(),
            config,
            writer_wake: (Mutex::new(false), Condvar::new()),
            looking_at_dirty_pages: Mutex::default(),
            oldest_seen: AtomicU64::new(0),
        })
    }

    /// Version pages are given out in this file from now on. Before the pool is used.
    pub fn with_version_file(mut self, file: VersionFile) -> Self {
        self.space.use_version_file(file.number());
        self.sources.files.version = Some(file);
        self
    }
    /// Who has opened the log before. Before the pool is used.
    pub fn with_openings(mut self, before: &Openings) -> Self {
        self.sources.openings = before.and(self.log.opening());
        self
    }
    /// Who has opened the log, the last of them now.
    pub fn openings(&self) -> &Openings {
        &self.sources.openings
    }
    /// Makes sure that all pages given out in the version-store file have space on its disk.
    pub fn reserve_version_file(&self) -> Result<()> {
        match &self.sources.files.version {
            Some(version) => version.reserve(self.space.version_high_water().in_file().saturating_sub(1)),
            None => Ok(()),
        }
    }
    /// The version-store file, where version pages do not live in the data file.
    pub fn version_file(&self) -> Option<&VersionFile> {
        self.sources.files.version.as_ref()
    }

    /// Pages that fit in memory.
    pub fn capacity(&self) -> usize {
        self.frames.len()
    }
    /// Page allocation.
    pub fn space(&self) -> &Space {
        &self.space
    }
    /// A number for the time since which `page` cannot be loaded: while it is the same, nothing was
    /// written to the page. `None`: it can be, as far as is known.
    pub fn failing_since(&self, page: PageId) -> Option<u64> {
        self.failing.since(page)
    }
    /// Whether the place of `page` in its file is as if nothing was ever written there: all zero, or behind the file's
    /// end. So are pages that were never given out, and pages that the device has lost. False where that is not
    /// known, or the page is in memory or awaits redo.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn is_unwritten(&self, page: PageId) -> Result<bool> {
        // In this order: what awaits redo may come into memory meanwhile, and without a restore nothing goes back.
        if self.is_remote() || self.sources.restoring().is_some() || self.sources.pending.get(page).is_some() {
            return Ok(false);
        }
        Ok(!self.is_resident(page) && self.sources.is_unwritten(page)?)
    }
    /// Whether an error of reading a page says that this page is damaged, or cannot be read while others of its file can.
    pub fn concerns_one_page(&self, page: PageId, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Corrupt => true,
            ErrorKind::Io => {
                self.check_poisoned().is_ok()
                    && self.log.check_running().is_ok()
                    && !self.is_remote()
                    && !self.sources.is_whole_file_unread(page)
            }
            _ => false,
        }
    }
    /// Pages that still await redo.
    pub fn pending_redo(&self) -> &PendingRedo {
        &self.sources.pending
    }
    /// Damaged pages are rebuilt from there from now on. Once: a second history is not taken.
    pub fn set_history(&self, history: Arc<dyn PageHistory>) {
        self.sources.set_history(history);
    }
    /// Pages are in no file from now on: they come from there, and leave memory when the log is durable past them. `floor`:
    /// no page has a record at or behind it but those `analysed`, each with its last one. `blocking` runs what keeps a thread
    /// waiting for long. Before the first page is read; once.
    pub fn set_remote(
        &self,
        pages: Arc<dyn RemotePages>,
        blocking: fn(&mut dyn FnMut()),
        floor: Lsn,
        analysed: &[(PageId, Lsn)],
    ) {
        let remote = Remote::new(pages, blocking, floor);
        analysed.iter().for_each(|(page, last)| remote.analysed(*page, *last));
        self.sources.set_remote(remote);
    }
    /// Pages that leave memory may be had from there from now on; after [`BufferPool::set_remote`], and before the first page is read.
    pub fn set_page_cache(&self, cache: Arc<dyn PageCache>) {
        if let Some(remote) = self.sources.remote() {
            remote.set_cache(cache);
        }
    }
    /// What can be seen of the cache of pages; none: there is none.
    pub fn page_cache(&self) -> Option<PageCacheStatus> {
        self.sources.remote()?.cache().map(PageCache::status)
    }
    /// Whether pages are in no file of this process.
    pub fn is_remote(&self) -> bool {
        self.sources.remote().is_some()
    }
    /// Whether pages are written to the double-write area before they are written in place, from the next batch on. They
    /// need not be where every page can be rebuilt from its history.
    pub fn set_double_writes(&self, on: bool) {
        self.double_writes.store(on, Ordering::Relaxed);
    }
    /// See [`BufferPool::set_double_writes`].
    pub fn double_writes(&self) -> bool {
        self.double_writes.load(Ordering::Relaxed)
    }
    /// From now on a page's image is logged before so many records of it follow the one that made it anew, so that no more than
    /// that have to be read to make the page, from whatever base: for an archive of the log. With 0 none is, as at first.
    pub fn set_records_per_page_max(&self, records: u32) {
        self.records_per_page_max.store(records, Ordering::Relaxed);
    }
    /// Whether there are pages that were rebuilt and not written since ([`WriteGoal::Repaired`]).
    pub fn has_repaired_pages(&self) -> bool {
        !self.sources.unsaved.is_empty()
    }
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }
    /// The data file.
    pub fn file(&self) -> Arc<dyn File> {
        self.sources.files.data()
    }
    /// From now on pages of these files are restored, segment by segment, when they are asked for. At most one restore
    /// is under way.
    pub fn set_restoring(&self, restoring: Option<Arc<Restoring>>) {
        self.sources.set_restoring(restoring);
    }
    /// The restore under way.
    pub fn restoring(&self) -> Option<Arc<Restoring>> {
        self.sources.restoring()
    }
    /// Restores a segment unless it is there.
    ///
    /// # Errors
    /// Those of making and writing it.
    pub fn restore_segment(&self, segment: Segment) -> Result<()> {
        self.sources.restoring().map_or(Ok(()), |restoring| restoring.restore(segment, &self.sources, false))
    }
    pub fn stats(&self) -> PoolStats {
        self.counters.read()
    }

    /// Stops all writing: a change was made in memory that the log does not have.
    pub(crate) fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
        if let (Some(StopHook(hook)), Err(error)) = (self.stop_hook.get(), self.check_poisoned()) {
            hook(&error);
        }
    }
    /// Calls `hook` with the error that everybody gets when all writing has stopped; perhaps more than once. It must be short, and must not call the pool.
    /// Only the first hook counts.
    pub fn set_stop_hook(&self, hook: Box<dyn Fn(&Error) + Send + Sync>) {
        let _ = self.stop_hook.set(StopHook(hook));
    }
    /// Fails with `Stopped` after that.
    pub fn check_poisoned(&self) -> Result<()> {
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Stopped,
                "the database stopped after a failure to write its log; restart it to recover",
            ));
        }
        Ok(())
    }

    pub(crate) fn shard(&self, page: PageId) -> &RwLock<HashMap<PageId, u32>> {
        // Multiplicative hash: neighbouring pages go to different shards.
        let hash = page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.shards[hash as usize % SHARDS]
    }

    /// The frame at `index`, if it was ever used.
    pub(crate) fn allocated_frame(&self, index: u32) -> Option<&Frame> {
        self.frames.get(index)
    }

    pub(crate) fn frame(&self, index: u32) -> &Frame {
        self.frames.get_or_make(index)
    }

    /// Shared access to `page`, read from its source if it is not in memory.
    pub fn read(&self, page: PageId, access: Access) -> Result<ReadGuard<'_>> {
        self.read_or_why(page, access).map_err(NotHad::into_error)
    }

    /// As [`BufferPool::read`], for who has to know whether an error is of this page.
    pub(crate) fn read_or_why(&self, page: PageId, access: Access) -> Result<ReadGuard<'_>, NotHad> {
        loop {
            let pin = self.pin(page, access)?;
            let latch = self.latch_shared(pin.0).map_err(NotHad::Page)?;
            if pin.0.valid.load(Ordering::Acquire) {
                return Ok(ReadGuard { latch, pin });
            }
        }
    }

    /// Exclusive access to `page`.
    pub fn write(&self, page: PageId, access: Access) -> Result<WriteGuard<'_>> {
        loop {
            let pin = match self.lookup(page, access) {
                Some(pin) => {
                    self.counters.hits.add(1);
                    pin
                }
                None => patience::to_the_end(|| self.pin(page, access)).map_err(NotHad::into_error)?,
            };
            let latch = self.latch_exclusive(pin.0);
            if pin.0.valid.load(Ordering::Acquire) {
                return Ok(WriteGuard { latch, pin });
            }
        }
    }

    /// Shared access to the page guessed, if it is in memory and nobody has to be waited for.
    pub fn try_read(&self, guess: &Guess<'_>, access: Access) -> Option<ReadGuard<'_>> {
        let pin = self.pin_guessed(guess, access)?;
        let latch = pin.0.latch.try_read()?;
        self.counters.hits.add(1);
        pin.0.valid.load(Ordering::Acquire).then_some(ReadGuard { latch, pin })
    }

    /// Exclusive access to the page guessed, if it is in memory and nobody has to be waited for.
    pub fn try_write(&self, guess: &Guess<'_>) -> Option<WriteGuard<'_>> {
        let pin = self.pin_guessed(guess, Access::Point)?;
        let latch = pin.0.latch.try_write()?;
        self.counters.hits.add(1);
        pin.0.valid.load(Ordering::Acquire).then_some(WriteGuard { latch, pin })
    }

    /// Exclusive access to `page`, if it is in memory and nobody has to be waited for.
    pub fn try_write_resident(&self, page: PageId) -> Option<WriteGuard<'_>> {
        let pin = self.lookup(page, Access::Point)?;
        let latch = pin.0.latch.try_write()?;
        self.counters.hits.add(1);
        pin.0.valid.load(Ordering::Acquire).then_some(WriteGuard { latch, pin })
    }

    /// Exclusive access to a page whose content does not matter because the caller
    /// formats it in the same mini-transaction. Nothing is read.
    pub fn write_new(&self, page: PageId) -> Result<WriteGuard<'_>> {
        loop {
            if let Some(pin) = self.lookup(page, Access::Point) {
                let latch = self.latch_exclusive(pin.0);
                if pin.0.valid.load(Ordering::Acquire) {
                    return Ok(WriteGuard { latch, pin });
                }
                continue;
            }
            let Some((pin, mut latch)) = self.install(page)? else { continue };
            latch.as_bytes_mut().fill(0);
            self.failing.loaded(page);
            pin.0.usage.store(1, Ordering::Relaxed);
            pin.0.valid.store(true, Ordering::Release);
            return Ok(WriteGuard { latch, pin });
        }
    }

    /// The frame of the page guessed: the one that it was in last, if it is there.
    fn pin_guessed(&self, guess: &Guess<'_>, access: Access) -> Option<Pin<'_>> {
        let index = guess.frame.load(Ordering::Relaxed);
        // Side by side with the frame's own line.
        self.frames.prefetch(index);
        if let Some(pin) = self.pin_there(guess.page, index, access) {
            return Some(pin);
        }
        let pin = self.lookup(guess.page, access)?;
        guess.frame.store(pin.0.index, Ordering::Relaxed);
        Some(pin)
    }

    /// The frame of that number, if the page is in it.
    #[inline]
    fn pin_there(&self, page: PageId, index: u32, access: Access) -> Option<Pin<'_>> {
        let frame = self.allocated_frame(index)?;
        if !frame.held.pin_if(page.0) {
            return None;
        }
        if access == Access::Point {
            frame.touch();
        }
        self.note_use(frame);
        Some(Pin(frame))
    }

    /// Shared access to a page that is in a frame which a guide named a while ago, if nobody has to be waited for. Of one that is elsewhere by
    /// now nothing is said: who asks the guide once more tells it where.
    #[inline]
    pub(crate) fn try_read_there(&self, page: PageId, index: u32, access: Access) -> Option<ReadGuard<'_>> {
        let pin = self.pin_there(page, index, access)?;
        let latch = pin.0.latch.try_read()?;
        self.counters.hits.add(1);
        pin.0.valid.load(Ordering::Acquire).then_some(ReadGuard { latch, pin })
    }

    pub(crate) fn lookup(&self, page: PageId, access: Access) -> Option<Pin<'_>> {
        let shard = self.shard(page).read();
        let frame = self.frame(*shard.get(&page)?);
        frame.held.pin();
        drop(shard);
        if access == Access::Point {
            frame.touch();
        }
        self.note_use(frame);
        Some(Pin(frame))
    }

    fn pin(&self, page: PageId, access: Access) -> Result<Pin<'_>, NotHad> {
        if page.is_none() {
            return Err(NotHad::Page(Error::corrupt("a page pointer is empty")));
        }
        loop {
            if let Some(pin) = self.lookup(page, access) {
                self.counters.hits.add(1);
                return Ok(pin);
            }
            let Some((pin, mut latch)) = self.install(page).map_err(NotHad::Room)? else { continue };
            bump(&self.counters.misses, 1);
            // Not over a replacement of the page's file: it ends before, or begins behind it.
            let (loading, loaded) = if self.is_nobodys(page) {
                (self.devices.loads.read(), Self::free_page(page, &mut latch).map(|()| Loaded::nothing()))
            } else {
                self.load(page, &mut latch)
            };
            match loaded {
                Ok(loaded) => {
                    if loaded.needs_log_from.is_some() {
                        pin.0.rec_lsn.store(loaded.needs_log_from.0, Ordering::SeqCst);
                    }
                    let mut stale = false;
                    if let Some(repaired) = loaded.repaired {
                        stale = repaired.stale;
                        self.sources.unsaved.add(page, repaired.hold);
                        self.wake_writer();
                    }
                    if loaded.redone > 0 {
                        bump(&self.counters.redone_pages, 1);
                        bump(&self.counters.redone_records, loaded.redone as u64);
                    }
                    self.sources.pending.done(page);
                    self.failing.loaded(page);
                    pin.0.usage.store(u8::from(access == Access::Point), Ordering::Relaxed);
                    pin.0.valid.store(true, Ordering::Release);
                    drop(loading);
                    drop(latch);
                    if access == Access::Scan {
                        self.note_scanned(page);
                    }
                    if stale {
                        // After a crash nothing would tell that what is in the file is old. Where it fails it is
                        // tried again with the other dirty pages.
                        let _ = self.write_back(WriteGoal::Repaired);
                    }
                    return Ok(pin);
                }
                Err(error) => {
                    drop(loading);
                    if patience::check().is_err() {
                        bump(&self.counters.page_waits_given_up, 1);
                    } else {
                        self.failing.failed(page);
                    }
                    self.abandon(page, &pin);
                    drop(latch);
                    drop(pin);
                    return Err(NotHad::Page(error));
                }
            }
        }
    }

    /// Loads the page, when its segment is there. The guard is held until the frame is complete.
    fn load(&self, page: PageId, buf: &mut PageBuf) -> (RwLockReadGuard<'_, ()>, Result<Loaded>) {
        let mut failed_since = None;
        loop {
            let replaced = self.replacements();
            let loading = self.devices.loads.read();
            match self.sources.restoring().filter(|restoring| !restoring.is_there(page)) {
                Some(restoring) => {
                    drop(loading);
                    if let Err(error) = restoring.restore(Segment::of(page), &self.sources, true) {
                        return (self.devices.loads.read(), Err(error));
                    }
                }
                None => {
                    let loaded = self.sources.load(page, buf, &self.counters);
                    let Err(error) = &loaded else { return (loading, loaded) };
                    if let Err(stopped) = patience::check() {
                        return (loading, Err(stopped));
                    }
                    let since = *failed_since.get_or_insert_with(Instant::now);
                    drop(loading);
                    if !self.is_worth_trying_again(page, error, since, replaced) {
                        return (self.devices.loads.read(), loaded);
                    }
                }
            }
        }
    }

    /// Makes an empty frame findable under `page` with its latch held exclusively.
    /// `None`: another thread was first.
    fn install(&self, page: PageId) -> Result<Option<(Pin<'_>, parking_lot::RwLockWriteGuard<'_, PageBuf>)>> {
        let index = self.take_frame()?;
        let frame = self.frame(index);
        // Nobody can find this frame; a late waiter of its previous failed load may hold the latch briefly.
        let latch = frame.latch.write();
        // Not before it is known: a pin that is dropped is given back.
        Ok(if self.make_findable(page, frame) { Some((Pin(frame), latch)) } else { None })
    }

    /// As [`BufferPool::install`], for a page that nobody has asked for yet: nothing is waited for, and no page is written. `None`: the
    /// page is there, or no frame is to be had like that.
    pub(crate) fn install_ahead(&self, page: PageId) -> Option<(Pin<'_>, parking_lot::RwLockWriteGuard<'_, PageBuf>)> {
        let index = self.free_frame()?;
        let frame = self.frame(index);
        let Some(latch) = frame.latch.try_write() else {
            self.put_back(frame);
            return None;
        };
        frame.ahead.store(true, Ordering::Relaxed);
        if !self.make_findable(page, frame) {
            frame.ahead.store(false, Ordering::Relaxed);
            return None;
        }
        Some((Pin(frame), latch))
    }

    /// Makes an empty frame, which the caller has pinned and latched, findable under `page`. False: another thread was first, and the frame
    /// is free again.
    fn make_findable(&self, page: PageId, frame: &Frame) -> bool {
        let mut shard = self.shard(page).write();
        if shard.contains_key(&page) {
            drop(shard);
            self.put_back(frame);
            return false;
        }
        frame.valid.store(false, Ordering::Relaxed);
        frame.fresh.store(false, Ordering::Relaxed);
        frame.sight.forget();
        frame.held.enter(page.0);
        shard.insert(page, frame.index);
        true
    }

    /// Gives back a frame that was taken and holds no page.
    fn put_back(&self, frame: &Frame) {
        frame.held.unpin();
        self.free.lock().push(frame.index);
    }

    /// A frame holds no page any more.
    pub(crate) fn put_on_free_list(&self, index: u32) {
        self.free.lock().push(index);
    }

    /// Takes a frame whose load failed out of sight. Waiters see `valid == false` and retry.
    pub(crate) fn abandon(&self, page: PageId, pin: &Pin<'_>) {
        let mut shard = self.shard(page).write();
        if let Some(index) = shard.remove(&page) {
            pin.0.held.give_up();
            pin.0.usage.store(0, Ordering::Relaxed);
            drop(shard);
            self.free.lock().push(index);
        }
    }

    /// Takes a page out of sight whose frame was made for it and never filled.
    pub(crate) fn discard(&self, guard: &WriteGuard<'_>) {
        guard.pin.0.valid.store(false, Ordering::Release);
        guard.pin.0.rec_lsn.store(0, Ordering::SeqCst);
        self.abandon(guard.id(), &guard.pin);
    }

    /// A frame that holds no page, with one pin (the caller's).
    fn take_frame(&self) -> Result<u32> {
        let mut failed_since = None;
        loop {
            if let Some(index) = self.free_frame() {
                return Ok(index);
            }
            // No clean victim: clean some pages ourselves.
            self.check_poisoned()?;
            bump(&self.counters.foreground_cleans, 1);
            let replaced = self.replacements();
            match self.write_back(WriteGoal::Victims) {
                Ok(0) => std::thread::yield_now(),
                Ok(_) => {}
                Err(error) => {
                    if !self.wait_for_replacement(*failed_since.get_or_insert_with(Instant::now), replaced) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The same where no page has to be written for it.
    fn free_frame(&self) -> Option<u32> {
        let recycled = {
            let mut free = self.free.lock();
            // A failed load's waiters may still hold pins on it: leave those.
            let found = free.iter().position(|i| !self.frame(*i).held.is_pinned());
            found.map(|at| free.swap_remove(at))
        };
        if let Some(index) = recycled {
            self.frame(index).held.pin();
            return Some(index);
        }
        loop {
            let used = self.used.load(Ordering::Relaxed);
            if used >= self.frames.len() {
                return self.evict_scanned().or_else(|| self.evict());
            }
            if self.used.compare_exchange(used, used + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.frame(used as u32).held.pin();
                return Some(used as u32);
            }
        }
    }

    /// Moves the clock until it finds a clean victim; the frame comes back unmapped with one
    /// pin. Gives up after many dirty ones: then it is cheaper to clean a batch of those.
    fn evict(&self) -> Option<u32> {
        let count = self.frames.len();
        let mut dirty_seen = 0usize;
        for _ in 0..count * (USAGE_MAX as usize + 1) {
            if dirty_seen >= DIRTY_SEEN_MAX {
                return None;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % count;
            let Some(frame) = self.frames.get(at as u32) else { continue };
            if frame.held.is_pinned() {
                continue;
            }
            let usage = frame.usage.load(Ordering::Relaxed);
            if usage > 0 {
                frame.usage.store(usage - 1, Ordering::Relaxed);
                continue;
            }
            if frame.is_dirty() {
                dirty_seen += 1;
                if dirty_seen == 8 {
                    self.wake_writer();
                }
                continue;
            }
            let page = frame.page();
            if page.is_some() && self.unmap(at as u32, page) {
                return Some(at as u32);
            } // a frame without a page is on the free list
        }
        None
    }

    /// Has all pages leave memory that may: for tests with few pages.
    #[doc(hidden)]
    pub fn evict_all(&self) {
        for frame in self.allocated_frames() {
            let page = frame.page();
            if page.is_some() && self.unmap(frame.index, page) {
                self.put_back(frame);
            }
        }
    }

    /// Takes `page` out of the frame at `index` if nobody uses it and it is clean; the frame
    /// then has one pin.
    fn unmap(&self, index: u32, page: PageId) -> bool {
        let frame = self.frame(index);
        let mut shard = self.shard(page).write();
        let mine = shard.get(&page) == Some(&index);
        if !mine || frame.is_dirty() || !frame.held.leave() {
            return false;
        }
        // Nobody can pin it from here on. Until then it may have been changed.
        if frame.is_dirty() || !self.tell_evicted(page, frame) {
            frame.held.stay();
            return false;
        }
        shard.remove(&page);
        frame.valid.store(false, Ordering::Relaxed);
        frame.held.pin();
        frame.held.left();
        bump(&self.counters.evictions, 1);
        self.note_unused(frame);
        if Planted::RaisedLate.is_planted() {
            drop(shard);
            self.raise_late(page, frame);
        }
        true
    }

    /// A mistake that tests make on purpose.
    #[cold]
    fn raise_late(&self, page: PageId, frame: &Frame) {
        std::thread::sleep(std::time::Duration::from_micros(200));
        if let Some(remote) = self.sources.remote() {
            remote.evicted(page, frame.latch.read().lsn());
        }
    }

    /// Where pages are in no file of this process: tells who has them how new the page of `frame`, which nobody uses, was. False:
    /// it cannot be told.
    fn tell_evicted(&self, page: PageId, frame: &Frame) -> bool {
        let Some(remote) = self.sources.remote() else { return true };
        // Without a pin nobody changes it. It is clean, so the log is durable past its LSN.
        let Some(content) = frame.latch.try_read() else { return false };
        if !frame.valid.load(Ordering::Acquire) {
            return false;
        }
        if !Planted::RaisedLate.is_planted() {
            remote.evicted(page, content.lsn());
        }
        if let Some(cache) = remote.cache() {
            cache.evicted(page, &content, self.cached_as_of(), !frame.ahead.load(Ordering::Relaxed));
        }
        true
    }

    /// Pages in memory have all their records below this LSN, which is durable.
    fn cached_as_of(&self) -> Lsn {
        if Planted::CopyBeyondDurable.is_planted() { self.log.end_lsn() } else { self.log.flushed_lsn() }
    }

    /// Has the cache note which of its copies are current, so that they count after a restart. Before a checkpoint counts: what recovery
    /// knows of pages begins there.
    pub fn note_cached(&self) {
        let Some(remote) = self.sources.remote() else { return };
        let Some(cache) = remote.cache() else { return };
        // Whatever is appended from here on is not below. What was, has been applied once its page's latch can be had.
        let as_of = self.cached_as_of();
        cache.note_current(as_of, &|page, lsn, before| match self.lsn_in_memory(page) {
            InMemory::No => before.is_none_or(|before| remote.is_current(page, lsn, before)),
            InMemory::Is(now) => now == lsn,
            InMemory::Busy => false,
        });
    }

    /// The database is closed.
    pub fn close_cache(&self) {
        if let Some(cache) = self.sources.remote().and_then(Remote::cache) {
            cache.close();
        }
    }

    fn lsn_in_memory(&self, page: PageId) -> InMemory {
        let shard = self.shard(page).read();
        let Some(index) = shard.get(&page) else { return InMemory::No };
        let frame = self.frame(*index);
        match frame.latch.try_read() {
            // Under the shard's lock it does not become another page's.
            Some(content) if frame.valid.load(Ordering::Acquire) => InMemory::Is(content.lsn()),
            _ => InMemory::Busy,
        }
    }

    /// Takes a dirty page whose segment is not restored out of memory, as of `last_lsn`: what it lacks in the file is
    /// remembered instead, as after a crash. Its log must be durable. Who is looking at the dirty pages just now is told, and could miss
    /// it in both places otherwise. False: it is in use, or was changed.
    pub(crate) fn elide(&self, page: PageId, last_lsn: Lsn) -> bool {
        let mut looking = self.looking_at_dirty_pages.lock();
        let mut shard = self.shard(page).write();
        let Some(index) = shard.get(&page).copied() else { return false };
        let frame = self.frame(index);
        if !frame.held.leave() {
            return false;
        }
        let Some(rec_lsn) = Self::dirty_as_of(frame, last_lsn) else {
            frame.held.stay();
            return false;
        };
        self.sources.pending.note(page, rec_lsn, last_lsn);
        if looking.looks > 0 {
            looking.elided.push(DirtyPage { page, rec_lsn, last_lsn, aside: false });
        }
        shard.remove(&page);
        frame.valid.store(false, Ordering::Relaxed);
        frame.usage.store(0, Ordering::Relaxed);
        frame.rec_lsn.store(0, Ordering::SeqCst);
        frame.held.left();
        drop(shard);
        self.free.lock().push(index);
        bump(&self.counters.elided_pages, 1);
        true
    }

    /// From where on the log of the page in `frame`, which nobody uses, is missing in its file, if it is as of `last_lsn`.
    fn dirty_as_of(frame: &Frame, last_lsn: Lsn) -> Option<Lsn> {
        if !frame.valid.load(Ordering::Acquire) {
            return None;
        }
        // Without a pin nobody holds the latch but who writes pages back, shared, or waits for it in vain.
        let content = frame.latch.try_read()?;
        let rec_lsn = Lsn(frame.rec_lsn.load(Ordering::SeqCst));
        (rec_lsn.is_some() && content.lsn() == last_lsn).then_some(rec_lsn)
    }

    pub(crate) fn note_scanned(&self, page: PageId) {
        // The shard's lock ends with the statement: eviction takes it under the queue's.
        let index = self.shard(page).read().get(&page).copied();
        if let Some(index) = index {
            self.scanned.lock().push_back((index, page));
        }
    }

    /// Pages that scans have brought in stay without being used again as long as there are no more of them.
    pub(crate) fn scan_share(&self) -> usize {
        (self.frames.len() / 8).max(8)
    }

    /// The oldest page that only scans have used, once they hold their share of memory.
    fn evict_scanned(&self) -> Option<u32> {
        let share = self.scan_share();
        let mut scanned = self.scanned.lock();
        let mut dirty = 0;
        while scanned.len() > share && dirty < 16 {
            let (index, page) = scanned.pop_front()?;
            let frame = self.frame(index);
            if frame.page() != page || frame.usage.load(Ordering::Relaxed) > 0 {
                continue; // gone already, or promoted by another use
            }
            if frame.is_dirty() || frame.held.is_pinned() {
                dirty += 1;
                scanned.push_back((index, page));
                continue;
            }
            if self.unmap(index, page) {
                return Some(index);
            }
        }
        if dirty > 0 {
            drop(scanned);
            self.wake_writer();
        }
        None
    }

    /// Whether `page` is in memory (no pin is taken: a hint).
    pub fn is_resident(&self, page: PageId) -> bool {
        self.shard(page).read().contains_key(&page)
    }

    /// Position up to which the log must be kept for pages: the least `rec_lsn` of
    /// dirty and of not yet redone pages.
    ///
    /// Looks at every frame; see [`BufferPool::oldest_rec_lsn_seen`].
    pub fn oldest_rec_lsn(&self) -> Option<Lsn> {
        let oldest = self.find_oldest_rec_lsn();
        self.oldest_seen.store(oldest.map_or(u64::MAX, |lsn| lsn.0), Ordering::Relaxed);
        oldest
    }

    /// What [`BufferPool::oldest_rec_lsn`] found the last time. The true one may be newer:
    /// pages get written.
    pub fn oldest_rec_lsn_seen(&self) -> Option<Lsn> {
        match self.oldest_seen.load(Ordering::Relaxed) {
            0 => self.oldest_rec_lsn(),
            u64::MAX => None,
            lsn => Some(Lsn(lsn)),
        }
    }

    fn find_oldest_rec_lsn(&self) -> Option<Lsn> {
        let frames = self.find_oldest_in_frames();
        let pending = self.sources.pending.snapshot();
        frames.into_iter().chain(pending.iter().filter(|(_, e)| !e.aside).map(|(_, e)| e.rec_lsn)).min()
    }

    pub(crate) fn find_oldest_in_frames(&self) -> Option<Lsn> {
        let of = |frame: &Frame| Lsn(frame.rec_lsn.load(Ordering::SeqCst));
        self.allocated_frames().map(of).filter(|lsn| lsn.is_some()).min()
    }

    pub(crate) fn allocated_frames(&self) -> impl Iterator<Item = &Frame> {
        let used = self.used.load(Ordering::Acquire);
        self.frames.first(used)
    }
}
