//! Write-back of dirty pages in batches.
//!
//! One batch at a time (the double-write mutex). Latches are only ever *tried*: a
//! thread that needs a frame may hold latches while it waits for a batch to end, so a
//! batch must never wait for a latch. A page that is latched just then stays dirty.
//!
//! Order of a batch: sync the files that hold pages if the previous batch's in-place writes were
//! not synced; copy pages; make the log durable up to their LSNs; write and sync the
//! double-write area; write in place; mark clean what did not change meanwhile.
//!
//! A page that was formatted since it was last written (a *fresh* page) passes the double-write
//! area by: however its place in the file looks after a power loss, its log begins with the
//! record that formats it, and redo makes it from nothing. This holds while that log is kept, so
//! a checkpoint, which leaves out clean pages, syncs them first
//! ([`BufferPool::sync_fresh_pages`]). A bulk load thus writes its pages once, not twice.
//!
//! Where all pages can be rebuilt from their history ([`crate::PageHistory`]: an archive that has them from their first
//! records on), no page needs the area, and all pass it by ([`BufferPool::set_double_writes`]). One that a power loss has
//! torn is rebuilt when it is read. As for fresh pages, a checkpoint syncs what it leaves out.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;

use crate::frame::Frame;
use crate::planted::Planted;
use crate::pool::{BufferPool, NotHad};
use crate::source::{RedoEntry, Restoring, Segment, StuckPage};
use crate::stats::bump;

/// Pages without protection that may be unsynced when a batch begins.
const FRESH_UNSYNCED_MAX: usize = 4096;

/// Segments that are restored for one batch.
const SEGMENTS_BEFORE_WRITING: usize = 8;

/// Which pages a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteGoal {
    /// Pages that the clock would evict next.
    Victims,
    /// Pages whose changes began before this position, so that the log can be truncated.
    OlderThan(Lsn),
    /// Pages that were rebuilt: their files have nothing of use.
    Repaired,
    /// Every dirty page.
    All,
}

/// A dirty page as a checkpoint records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPage {
    pub page: PageId,
    /// The data file may lack records from here on.
    pub rec_lsn: Lsn,
    /// The page's last record.
    pub last_lsn: Lsn,
    /// It cannot be brought up to date, and the log is not kept for it.
    pub aside: bool,
}

/// Checkpoints and others that are looking at the dirty pages just now.
#[derive(Default)]
pub(crate) struct Looking {
    pub looks: u32,
    /// Pages that went from their frames among those that await redo meanwhile: a look at these first and at the frames later could miss
    /// them in both places.
    pub elided: Vec<DirtyPage>,
}

impl BufferPool {
    /// Writes one batch. Returns the pages written; 0 = nothing to do for this goal (or
    /// all candidates were latched).
    ///
    /// # Errors
    /// A failed write, a full disk and a failed sync of the double-write area leave the pages dirty,
    /// and the next call tries again; a failed sync of the data file or the version store stops
    /// the pool for good, because what these hold is then unknown.
    pub fn write_back(&self, goal: WriteGoal) -> Result<usize> {
        if self.is_remote() {
            return self.clean_by_log(goal);
        }
        let restoring = self.sources.restoring();
        // What keeps the log long is brought to its place; anything else may wait for its segment out of memory.
        let keep = matches!(goal, WriteGoal::OlderThan(_));
        let mut not_now = None;
        if let Some(restoring) = restoring.as_ref().filter(|_| keep) {
            not_now = self.restore_before_writing(restoring, goal).err();
        }
        let mut dw = self.double_write.lock();
        self.check_poisoned()?;
        self.check_devices()?;
        // The one of now: it may have begun while this thread waited.
        let restoring = self.sources.restoring();
        let mut unrestored: Vec<(PageId, Lsn)> = Vec::new();
        if std::mem::take(&mut dw.must_write_again)
            && let Err(error) = dw.write()
        {
            dw.must_write_again = true;
            self.device_failed(0, &error);
            return Err(error);
        }
        if dw.in_place_unfinished {
            // A write in place failed half-way. The double-write area has the only whole
            // images of its pages: it must not be reused before they are in place.
            self.write_in_place(&mut dw)?;
        }
        let protect = self.double_writes();
        let mut chosen: Vec<(&Frame, Lsn)> = Vec::new();
        dw.begin();
        let mut newest = Lsn::NONE;
        let mut no_space = None;
        for frame in self.candidates(goal) {
            if dw.is_full(!protect || frame.fresh.load(Ordering::Relaxed)) {
                continue;
            }
            let Some(page) = frame.latch.try_read() else { continue };
            if !frame.is_dirty() || !frame.valid.load(Ordering::Acquire) {
                continue;
            }
            let id = frame.page();
            if restoring.as_ref().is_some_and(|restoring| !restoring.is_there(id))
                && !Planted::WriteUnrestored.is_planted()
            {
                // Its place is not to be written; see `Restoring`.
                if unrestored.len() < self.config.batch_pages {
                    unrestored.push((id, page.lsn()));
                }
                continue;
            }
            // A page must not get stuck between the double-write area and its place. Where its
            // disk has no space for it, it waits and the others go on.
            if let Some(version) = self.sources.files.version_of(id)
                && let Err(error) = version.reserve(id.in_file())
            {
                if error.kind() != ErrorKind::DiskFull {
                    return Err(error);
                }
                no_space = Some(error);
                continue;
            }
            // Under the latch, which whoever formats a page holds exclusively. From this copy on,
            // the page's log may begin later.
            let fresh = frame.fresh.swap(false, Ordering::Relaxed) || !protect;
            newest = newest.max(page.lsn());
            chosen.push((frame, page.lsn()));
            let images = if fresh { &mut dw.fresh } else { &mut dw.images };
            images.push(id, &page, &self.sources.openings);
        }
        let mut elided = 0;
        if !keep && !unrestored.is_empty() {
            let last = unrestored.iter().map(|(_, lsn)| *lsn).max().unwrap_or(Lsn::NONE);
            // Their records are all that there is of them.
            self.log.flush(Lsn(last.0 + 1))?;
            elided = unrestored.iter().filter(|(page, lsn)| self.elide(*page, *lsn)).count();
        }
        if chosen.is_empty() {
            return match no_space.or(not_now) {
                Some(error) if elided == 0 => Err(error),
                _ => Ok(elided),
            };
        }
        if dw.data_unsynced && (!dw.images.is_empty() || dw.fresh_unsynced >= FRESH_UNSYNCED_MAX) {
            // The area still protects what is not synced; or a checkpoint would wait for long.
            self.sync_data(&mut dw)?;
        }
        // The WAL rule. A page LSN is the start of its record, so flush past it.
        self.log.flush(Lsn(newest.0 + 1))?;
        self.check_poisoned()?;
        // Where this fails the area's content is unknown, which does no harm: what it protected is
        // synced, nothing of this batch is in place, and its pages stay dirty. The next batch
        // writes all that it relies on anew.
        // It is on the data file's device.
        let failed = |error: &Error| {
            self.device_failed(0, error);
        };
        dw.write().inspect_err(failed)?;
        if dw.has_old_images() {
            if dw.data_unsynced {
                self.sync_data(&mut dw)?;
            }
            dw.forget_images().inspect_err(failed)?;
        }
        self.write_in_place(&mut dw)?;
        if dw.fresh.ids.iter().any(|page| self.sources.unsaved.contains(*page)) {
            // Nothing protects those that were rebuilt, and what the file has of them is of no use.
            self.sync_data(&mut dw)?;
        }
        for (frame, copied) in &chosen {
            let Some(page) = frame.latch.try_read() else { continue };
            if page.lsn() == *copied {
                frame.rec_lsn.store(0, Ordering::SeqCst);
            } else {
                // Everything up to the copy is safe; what came after begins later.
                frame.rec_lsn.store(copied.0 + 1, Ordering::SeqCst);
            }
        }
        // The double-write area has them, or their files.
        for images in [&dw.images, &dw.fresh] {
            self.sources.unsaved.saved(&images.ids);
        }
        bump(&self.counters.pages_written, chosen.len() as u64);
        bump(&self.counters.fresh_pages_written, dw.fresh.len() as u64);
        bump(&self.counters.write_batches, 1);
        Ok(chosen.len() + elided)
    }

    /// Where pages are in no file: makes the log durable past the pages of this goal, which are then clean.
    fn clean_by_log(&self, goal: WriteGoal) -> Result<usize> {
        let _one = self.double_write.lock();
        self.check_poisoned()?;
        let mut chosen: Vec<(&Frame, Lsn)> = Vec::new();
        for frame in self.candidates(goal) {
            let Some(page) = frame.latch.try_read() else { continue };
            if frame.is_dirty() && frame.valid.load(Ordering::Acquire) {
                chosen.push((frame, page.lsn()));
            }
        }
        let flushed = self.log.flushed_lsn();
        // Commits have made the log durable past most pages, as a rule: these need no flush, which somebody who needs a frame would wait for.
        let durable = chosen.iter().filter(|(_, lsn)| *lsn < flushed).count();
        if durable > 0 && durable >= chosen.len() / 2 {
            chosen.retain(|(_, lsn)| *lsn < flushed);
        }
        let Some(newest) = chosen.iter().map(|(_, lsn)| *lsn).max() else { return Ok(0) };
        self.log.flush(Lsn(newest.0 + 1))?;
        self.check_poisoned()?;
        for (frame, seen) in &chosen {
            let Some(page) = frame.latch.try_read() else { continue };
            frame.fresh.store(false, Ordering::Relaxed);
            // What came after was not looked at, and begins later.
            let from = if page.lsn() == *seen { 0 } else { seen.0 + 1 };
            frame.rec_lsn.store(from, Ordering::SeqCst);
        }
        bump(&self.counters.write_batches, 1);
        Ok(chosen.len())
    }

    /// Restores a few of the segments that pages of this goal are waiting for.
    fn restore_before_writing(&self, restoring: &Restoring, goal: WriteGoal) -> Result<()> {
        let waiting = self.candidates(goal).into_iter().map(|frame| frame.page());
        let mut segments: Vec<Segment> =
            waiting.filter(|page| page.is_some() && !restoring.is_there(*page)).map(Segment::of).collect();
        segments.dedup();
        segments.truncate(SEGMENTS_BEFORE_WRITING);
        segments.into_iter().try_for_each(|segment| restoring.restore(segment, &self.sources, true))
    }

    /// Writes the batch that the double-write area holds to where its pages belong.
    fn write_in_place(&self, dw: &mut crate::double_write::DoubleWrite) -> Result<()> {
        dw.in_place_unfinished = true;
        dw.data_unsynced = true;
        dw.fresh_unsynced += dw.fresh.len();
        for images in [&dw.images, &dw.fresh] {
            self.sources.note_written(images);
        }
        for images in [&dw.images, &dw.fresh] {
            images.write_in_place(&self.sources.files).map_err(|(file, error)| {
                self.device_failed(file, &error);
                error
            })?;
        }
        dw.in_place_unfinished = false;
        Ok(())
    }

    fn sync_data(&self, dw: &mut crate::double_write::DoubleWrite) -> Result<()> {
        if let Err((file, error)) = self.sources.files.sync() {
            if !self.device_failed(file, &error) {
                self.poison();
            }
            return Err(error);
        }
        dw.data_unsynced = false;
        dw.fresh_unsynced = 0;
        Ok(())
    }

    /// Makes what was written in place without protection durable. For a checkpoint, between
    /// its reading of the dirty pages and the moment from which recovery begins at it.
    ///
    /// # Errors
    /// As a batch: a failed sync stops the pool.
    pub fn sync_fresh_pages(&self) -> Result<()> {
        let mut dw = self.double_write.lock();
        self.check_poisoned()?;
        self.check_devices()?;
        if dw.fresh_unsynced > 0 && !Planted::FreshUnsynced.is_planted() {
            self.sync_data(&mut dw)?;
        }
        Ok(())
    }

    /// Makes the segments that were restored durable, without holding up batches.
    ///
    /// # Errors
    /// As a batch: a failed sync stops the pool.
    pub fn sync_restored(&self) -> Result<()> {
        self.check_poisoned()?;
        self.check_devices()?;
        self.sources.files.sync().map_err(|(file, error)| {
            if !self.device_failed(file, &error) {
                self.poison();
            }
            error
        })
    }

    /// Makes the in-place writes of the last batch durable.
    pub fn sync_data_file(&self) -> Result<()> {
        let mut dw = self.double_write.lock();
        self.check_devices()?;
        if dw.data_unsynced {
            self.sync_data(&mut dw)?;
        }
        Ok(())
    }

    fn candidates(&self, goal: WriteGoal) -> Vec<&Frame> {
        let limit = self.config.batch_pages * 3;
        let mut found: Vec<&Frame> = Vec::new();
        match goal {
            WriteGoal::Repaired => {
                let unsaved = |f: &&Frame| self.sources.unsaved.contains(f.page());
                found.extend(self.allocated_frames().filter(|f| f.is_dirty()).filter(unsaved));
            }
            WriteGoal::All => found.extend(self.allocated_frames().filter(|f| f.is_dirty())),
            WriteGoal::OlderThan(lsn) => {
                found.extend(self.allocated_frames().filter(|f| {
                    let rec = f.rec_lsn.load(Ordering::SeqCst);
                    rec != 0 && rec < lsn.0
                }));
                // The oldest first: they hold the log. The marks change meanwhile, so each is
                // read once.
                if found.len() > limit {
                    let mut by_age: Vec<(u64, &Frame)> =
                        found.iter().map(|f| (f.rec_lsn.load(Ordering::Relaxed), *f)).collect();
                    by_age.select_nth_unstable_by_key(limit, |(rec, _)| *rec);
                    found = by_age.into_iter().take(limit).map(|(_, f)| f).collect();
                }
            }
            WriteGoal::Victims => {
                // What the clock has just passed, or comes to next.
                let used = self.used.load(Ordering::Acquire).max(1);
                let start = self.hand.load(Ordering::Relaxed).wrapping_sub(limit * 2) % used;
                for most_used in 0..=crate::frame::USAGE_MAX {
                    for at in (0..used).map(|i| (start + i) % used) {
                        let Some(frame) = self.frames.get(at as u32) else { continue };
                        if frame.is_dirty() && frame.usage.load(Ordering::Relaxed) == most_used {
                            found.push(frame);
                            if found.len() >= limit {
                                break;
                            }
                        }
                    }
                    if found.len() >= limit / 4 {
                        break;
                    }
                }
            }
        }
        // In page order within the batch: the disk likes it.
        found.sort_by_key(|f| f.page());
        found
    }

    /// Writes until no page is dirty, then syncs. For a clean close.
    pub fn write_all(&self) -> Result<()> {
        let mut idle = 0;
        while self.allocated_frames().any(Frame::is_dirty) {
            if self.write_back(WriteGoal::All)? == 0 {
                idle += 1;
                if idle > 10_000 {
                    return Err(resurgam_base::Error::internal("dirty pages stay latched at close"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.sync_data_file()
    }

    /// The dirty page table for a checkpoint whose begin record is already in the log:
    /// every page that may lack, in the data file, a record before that one. Pages
    /// being changed are waited for, so that their last record is the real one.
    pub fn dirty_pages(&self) -> Vec<DirtyPage> {
        let (mut pages, elided) = self.noting_elisions(|| self.look_at_dirty_pages());
        if !elided.is_empty() {
            // Perhaps it was in its frame when that was looked at. (One that was set aside then, and is mended by now, has both entries.)
            let mut at: HashMap<PageId, usize> =
                pages.iter().enumerate().filter(|(_, of)| !of.aside).map(|(i, of)| (of.page, i)).collect();
            for one in elided {
                match at.get(&one.page) {
                    Some(i) => {
                        let known = &mut pages[*i];
                        known.rec_lsn = known.rec_lsn.min(one.rec_lsn);
                        known.last_lsn = known.last_lsn.max(one.last_lsn);
                    }
                    None => {
                        at.insert(one.page, pages.len());
                        pages.push(one);
                    }
                }
            }
        }
        pages
    }

    /// What `look` finds, and the pages that went from their frames among those that await redo meanwhile.
    pub(crate) fn noting_elisions<T>(&self, look: impl FnOnce() -> T) -> (T, Vec<DirtyPage>) {
        struct Look<'p>(&'p Mutex<Looking>);
        // Also where the look panics: nobody else would take what is noted.
        impl Drop for Look<'_> {
            fn drop(&mut self) {
                let mut looking = self.0.lock();
                looking.looks -= 1;
                if looking.looks == 0 {
                    looking.elided = Vec::new();
                }
            }
        }
        self.looking_at_dirty_pages.lock().looks += 1;
        let end = Look(&self.looking_at_dirty_pages);
        let found = look();
        let elided = self.looking_at_dirty_pages.lock().elided.clone();
        drop(end);
        (found, elided)
    }

    fn look_at_dirty_pages(&self) -> Vec<DirtyPage> {
        // Those that await redo first: one that is redone meanwhile is in a frame by the time
        // the frames are looked at. The other way round it could be missed in both places.
        let mut pages: Vec<DirtyPage> = self
            .sources
            .pending
            .snapshot()
            .into_iter()
            .map(|(page, RedoEntry { rec_lsn, last_lsn, aside })| DirtyPage { page, rec_lsn, last_lsn, aside })
            .collect();
        for frame in self.allocated_frames() {
            if !frame.is_dirty() {
                continue;
            }
            let Some(page) = self.latch_for_checkpoint(frame) else { return pages };
            let id = frame.page();
            let rec_lsn = Lsn(frame.rec_lsn.load(Ordering::SeqCst));
            let valid = frame.valid.load(Ordering::Acquire);
            // A free page leaves its frame without the latch (`give_back.rs`); another one does not get it without.
            if rec_lsn.is_some() && valid && id.is_some() && frame.page() == id {
                pages.push(DirtyPage { page: id, rec_lsn, last_lsn: page.lsn(), aside: false });
            }
        }
        pages
    }

    /// The page's latch; none when a device is dead: who holds the latch may wait for the replacement, which waits for the
    /// checkpoint. That fails then, when it syncs ([`BufferPool::sync_fresh_pages`]).
    fn latch_for_checkpoint<'f>(&self, frame: &'f Frame) -> Option<parking_lot::RwLockReadGuard<'f, PageBuf>> {
        loop {
            if let Some(page) = frame.latch.try_read_for(Duration::from_millis(20)) {
                return Some(page);
            }
            if !self.dead_devices().is_empty() {
                return None;
            }
        }
    }

    /// Before a checkpoint's begin record: [`BufferPool::space_ends`] counts from here.
    ///
    /// # Errors
    /// A device is dead: an allocation under way may wait for its replacement, which waits for the checkpoint.
    pub fn note_space_ends(&self) -> Result<()> {
        self.unless_dead(|patience| self.space().note_ends_within(patience))
    }

    /// The ends of used space of the data file and the version-store file, for a checkpoint: the highest ones since
    /// [`BufferPool::note_space_ends`].
    ///
    /// # Errors
    /// As there.
    pub fn space_ends(&self) -> Result<(u64, PageId)> {
        self.unless_dead(|patience| self.space().ends_within(patience))
    }

    fn unless_dead<T>(&self, get: impl Fn(Duration) -> Option<T>) -> Result<T> {
        loop {
            if let Some(got) = get(Duration::from_millis(20)) {
                return Ok(got);
            }
            self.check_devices()?;
        }
    }

    /// Number of dirty pages now.
    pub fn dirty_count(&self) -> usize {
        self.allocated_frames().filter(|f| f.is_dirty()).count()
    }

    /// Asks the background writer for clean victims.
    pub fn wake_writer(&self) {
        let (flag, wake) = &self.writer_wake;
        if let Some(mut flag) = flag.try_lock() {
            *flag = true;
            wake.notify_one();
        }
    }

    /// Waits until [`BufferPool`] wants victims cleaned, or `timeout`. For the writer thread.
    pub fn wait_for_work(&self, timeout: Duration) -> bool {
        let (flag, wake) = &self.writer_wake;
        let mut wanted = flag.lock();
        if !*wanted {
            wake.wait_for(&mut wanted, timeout);
        }
        std::mem::take(&mut *wanted)
    }

    /// Sets aside the pages that cannot be brought up to date and need log from before `lsn`, and returns them. Those that could not be
    /// read are tried once more: that may have been the device's fault, which is well again, or of which nothing can be read now.
    pub fn set_aside(&self, lsn: Lsn) -> Vec<StuckPage> {
        let pending = &self.sources.pending;
        let mut spared = HashSet::new();
        for page in pending.unread_before(lsn) {
            if self.sources.is_whole_file_unread(page) {
                spared.insert(page);
                continue;
            }
            match self.read_or_why(page, crate::Access::Scan) {
                Ok(guard) => {
                    drop(guard);
                    pending.done(page);
                }
                Err(NotHad::Page(error)) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Corrupt) => {}
                // Nothing is known of the page.
                Err(_) => _ = spared.insert(page),
            }
        }
        pending.set_aside(lsn, &spared)
    }

    /// Brings up to `limit` pages that still await redo into memory (background redo).
    /// Returns how many remain to be tried. A page that turns out to be damaged, or cannot be read, is
    /// handed to `damaged` and left pending; one that cannot be read is tried a few times.
    ///
    /// # Errors
    /// Those that do not concern one page only: also those of writing other pages to make room for one, and of a device
    /// that is dead and not replaced yet, or of which nothing can be read now. Nothing is said of a page for them, which may in the end
    /// cost its log.
    pub fn redo_some(&self, limit: usize, mut damaged: impl FnMut(PageId, &Error)) -> Result<u64> {
        for page in self.sources.pending.next(limit) {
            let is_dead = || self.dead_devices().iter().any(|(of, _)| *of == page.file());
            match self.read_or_why(page, crate::Access::Scan) {
                Ok(guard) => drop(guard),
                Err(NotHad::Room(error)) => return Err(error),
                Err(NotHad::Page(error)) if error.kind() == ErrorKind::Corrupt => {
                    damaged(page, &error);
                    self.sources.pending.give_up(page, &error);
                    continue;
                }
                Err(NotHad::Page(error))
                    if error.kind() == ErrorKind::Io && !is_dead() && !self.sources.is_whole_file_unread(page) =>
                {
                    self.check_poisoned()?;
                    self.log.check_running()?;
                    damaged(page, &error);
                    self.sources.pending.failed(page, &error);
                    continue;
                }
                Err(NotHad::Page(error)) => return Err(error),
            }
            // Loading a page removes its entry. One that is in memory without having been
            // loaded was to be formatted anew by an allocation that was dropped: it is free,
            // and what it held does not matter.
            self.sources.pending.done(page);
        }
        Ok(self.sources.pending.len() - self.sources.pending.stuck())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use resurgam_log::{Log, LogConfig};
    use resurgam_vfs::{SimVfs, Vfs};

    use super::*;
    use crate::PoolConfig;

    /// Who looks at what awaits redo first and at the frames later is told of a page that goes from these among those meanwhile.
    #[test]
    fn a_page_that_is_elided_under_a_look_is_not_missed() -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        vfs.make_folder(Path::new("/db"))?;
        let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), LogConfig::default(), 1)?;
        let config = PoolConfig { bytes: 1 << 20, batch_pages: 16 };
        let pool = BufferPool::open(&vfs, Path::new("/db/data"), Path::new("/db/dw"), log, config)?;
        let dirty = |number: u64, rec_lsn: u64| -> Result<PageId> {
            let page = PageId(number);
            let guard = pool.write_new(page)?;
            guard.pin.0.dirty_from(Lsn(rec_lsn));
            Ok(page)
        };
        let (one, other) = (dirty(5, 60)?, dirty(6, 70)?);
        let as_of = Lsn::NONE;
        let (oldest, elided) = pool.noting_elisions(|| {
            assert!(pool.sources.pending.snapshot().is_empty());
            assert!(pool.elide(one, as_of));
            pool.find_oldest_in_frames()
        });
        assert_eq!(oldest, Some(Lsn(70)), "it is in no frame any more");
        assert_eq!(elided, [DirtyPage { page: one, rec_lsn: Lsn(60), last_lsn: as_of, aside: false }]);
        // Nobody looks now: nothing is kept.
        assert!(pool.elide(other, as_of));
        assert!(pool.noting_elisions(|| ()).1.is_empty());
        let mut seen: Vec<_> = pool.dirty_pages().into_iter().map(|page| (page.page, page.rec_lsn)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(one, Lsn(60)), (other, Lsn(70))]);
        Ok(())
    }
}
