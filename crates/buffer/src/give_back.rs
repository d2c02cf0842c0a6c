//! Giving space back to the file system: files that end earlier, and holes where nothing is.
//!
//! Where a file ends is in checkpoints, and analysis raises it by the pages that later records are of. So it goes back in three steps
//! that need no record of their own:
//!
//! 1. [`Space::lower_ends`](crate::Space::lower_ends): free extents at the end are given out no more but by growing. A page that growth
//!    gives out is made from nothing, its space map as well, so what was there before matters to nobody.
//! 2. A checkpoint that begins after that counts, durably. From then on recovery knows nothing of what is behind the end: neither the
//!    checkpoint nor a record behind its begin names such a page, unless the file has grown again, and then from the record on that
//!    makes it. (What is behind the end and was changed before is not in its list of dirty pages.)
//! 3. [`BufferPool::cut_files`]: such pages leave memory, and the file is cut. Before step 2 it must not be: recovery would need a space
//!    map of which nothing is left but its last changes.
//!
//! A crash in between leaves a file that is longer than what is used of it. That is as after growing, and the next time mends it. A
//! cut that a power loss takes back, or a double write that is put behind the end, does no harm either. The archive has those pages
//! as they were, free; backups have them as zeros.
//!
//! # Holes
//! A free extent's pages say nothing: a space map that is durable in the log says that they are free, and whoever gets one formats it. So,
//! the log durable up to here, they leave memory and a hole is made. When the extent is given out again it gets space first
//! ([`File::fill_hole`](resurgam_vfs::File::fill_hole)): a page that is given out can be written.
//!
//! # What reads a page that is not there
//! Somebody who still has its number from before it was freed. He would find a free page, and does so, whatever its place in the file
//! holds ([`BufferPool::is_nobodys`]).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use resurgam_base::{
    Error, Lsn, ObjectId, PageId, Result,
    limits::{EXTENT_PAGES, PAGE_SIZE},
};
use resurgam_page::{PageBuf, PageType, op};

use crate::planted::PlantedInGiveBack as Planted;
use crate::pool::BufferPool;
use crate::space::AllocState;
use crate::stats::bump;

/// How often a page that is to leave memory is tried, with a pause in between. Who has it pinned looks at it and goes on.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(1);
/// A file is cut by no more than this at once: meanwhile nobody can allocate.
const CUT_BYTES: u64 = 1 << 30;
/// Pages of holes that are made while nobody can allocate.
const HOLES_AT_ONCE: u64 = 1024;

/// Free pages of extents of which this process makes holes, or has made them, as long as nobody has got them: ranges, by their first
/// page, with the page behind them.
#[derive(Default)]
pub(crate) struct Holes(RwLock<BTreeMap<u64, u64>>);

impl Holes {
    fn end_of(ranges: &BTreeMap<u64, u64>, page: u64) -> Option<(u64, u64)> {
        ranges.range(..=page).next_back().map(|(first, end)| (*first, *end)).filter(|(_, end)| page < *end)
    }
    /// Whether all of these pages are in one.
    pub fn have_all(&self, first: u64, pages: u64) -> bool {
        Self::end_of(&self.0.read(), first).is_some_and(|(_, end)| first + pages <= end)
    }
    /// Pages of which a part may be there already.
    fn add(&self, first: u64, pages: u64) {
        let (mut from, mut to) = (first, first + pages);
        let mut ranges = self.0.write();
        while let Some((start, end)) = ranges.range(..=to).next_back().map(|(start, end)| (*start, *end))
            && end >= from
        {
            ranges.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        ranges.insert(from, to);
    }
    /// The file is another one.
    pub fn forget(&self) {
        self.0.write().clear();
    }
    /// A page is given out. Whether it was here.
    pub fn remove(&self, page: PageId) -> bool {
        if !self.have_all(page.0, 1) {
            return false;
        }
        let mut ranges = self.0.write();
        let Some((first, end)) = Self::end_of(&ranges, page.0) else { return false };
        ranges.remove(&first);
        if first < page.0 {
            ranges.insert(first, page.0);
        }
        if page.0 + 1 < end {
            ranges.insert(page.0 + 1, end);
        }
        true
    }
    /// A page that was [removed](Self::remove) is free again: it was not given out after all.
    pub fn give_back(&self, page: PageId) {
        self.add(page.0, 1);
    }
}

impl BufferPool {
    /// Whether nobody can have the page, so that it is a free one whatever its place in the file holds. Waits for nobody.
    pub fn is_nobodys(&self, page: PageId) -> bool {
        page.in_file() > 0 && !self.is_remote() && (self.space().is_beyond(page) || self.holes.have_all(page.0, 1))
    }

    /// What a page is that nobody has.
    pub(crate) fn free_page(page: PageId, buf: &mut PageBuf) -> Result<()> {
        let mut format = Vec::new();
        op::format(&mut format, PageType::Free, 0, ObjectId::NONE, &[], None);
        buf.as_bytes_mut().fill(0);
        // It has no record.
        op::apply(buf, page, &format, Lsn::NONE)
    }

    /// Pages by which the data file is longer than what is used of it.
    ///
    /// # Errors
    /// Those of asking for its length.
    pub fn pages_behind_end(&self) -> Result<u64> {
        if self.is_remote() {
            return Ok(0);
        }
        Ok((self.file().len()? / PAGE_SIZE as u64).saturating_sub(self.space().high_water()))
    }

    /// Whether files can be cut now: they are files of this process, and all there.
    pub fn can_give_back(&self) -> bool {
        !self.is_remote()
            && self.sources.restoring().is_none()
            && self.pending_redo().is_caught_up()
            && self.dead_devices().is_empty()
    }

    /// A page of a tree has moved towards the begin of its file.
    pub fn note_moved(&self) {
        bump(&self.counters.pages_moved, 1);
    }

    /// The rows of so many leaves were put on others.
    pub fn note_packed(&self, leaves: u64) {
        bump(&self.counters.leaves_packed, leaves);
    }

    /// Cuts the files at the end of what is used of them. Only after a checkpoint counts that began after
    /// [`Space::lower_ends`](crate::Space::lower_ends), and by one thread at a time. Returns by how many bytes they are shorter.
    ///
    /// # Errors
    /// Those of cutting.
    pub fn cut_files(&self) -> Result<u64> {
        let mut cut = 0;
        loop {
            let mut state = self.space().locked();
            let mut now = 0;
            for (file, end) in state.ends() {
                let end = if file == 0 && Planted::CutInUse.is_planted() { PageId(end.0 - EXTENT_PAGES) } else { end };
                now += self.cut(&mut state, file, end)?;
            }
            if now == 0 {
                return Ok(cut);
            }
            cut += now;
        }
    }

    fn cut(&self, state: &mut AllocState, file: u64, end: PageId) -> Result<u64> {
        // Nothing is on its way to its place, and none takes the place of another.
        let _none_writes = self.double_write.lock();
        self.check_poisoned()?;
        if !self.dead_devices().is_empty() {
            return Ok(0);
        }
        let _none_replaces = self.sources.restores.read();
        if !self.can_give_back() {
            return Ok(0);
        }
        let (handle, used) = self.sources.files.locate(end)?;
        let length = match handle.len() {
            Ok(length) => length,
            Err(error) => return self.none_given_back(file, error),
        };
        let bytes = used.max(length.saturating_sub(CUT_BYTES));
        if length <= bytes {
            return Ok(0);
        }
        let behind = |page: PageId| page.file() == file && page >= end;
        if !self.leave_memory(behind) {
            return Ok(0);
        }
        self.sources.forget_from(end);
        if let Err(error) = handle.set_len(bytes) {
            return self.none_given_back(file, error);
        }
        let pages = bytes / PAGE_SIZE as u64;
        state.was_cut(file, pages);
        if let Some(version) = self.sources.files.version_of(end) {
            version.was_cut(pages);
        }
        bump(&self.counters.bytes_cut, length - bytes);
        Ok(length - bytes)
    }

    /// Makes holes where extents of the data file are free, and returns their bytes. `stop` is asked now and then.
    ///
    /// # Errors
    /// Those of the log and of making holes.
    pub fn punch_holes(&self, stop: &dyn Fn() -> bool) -> Result<u64> {
        let (mut bytes, mut from) = (0, 0);
        while !stop() && self.can_give_back() {
            let mut state = self.space().locked();
            let ranges = state.free_ranges(from, HOLES_AT_ONCE, |first| self.punched.have_all(first, EXTENT_PAGES));
            let Some((last, pages)) = ranges.last().copied() else { break };
            from = last + pages;
            // That they are free is durable; nobody can get them meanwhile.
            if !Planted::PunchEarly.is_planted() {
                self.log.flush(self.log.end_lsn())?;
            }
            let _none_writes = self.double_write.lock();
            self.check_poisoned()?;
            if !self.dead_devices().is_empty() {
                break;
            }
            let _none_replaces = self.sources.restores.read();
            if self.sources.restoring().is_some() {
                break;
            }
            let file = self.file();
            for (first, pages) in ranges {
                // Before the first one leaves: from then on its place in the file may hold what it was before it was freed. It stays so
                // where one is in use, and the next time the hole is made.
                self.holes.add(first, pages);
                if !(first..first + pages).all(|page| self.leaves_memory(PageId(page))) {
                    continue;
                }
                (first..first + pages).for_each(|page| self.sources.forget_page(PageId(page)));
                match file.punch_hole(first * PAGE_SIZE as u64, pages * PAGE_SIZE as u64) {
                    Ok(true) => {}
                    // It never can.
                    Ok(false) => return Ok(bytes),
                    Err(error) => return self.none_given_back(0, error).map(|more| bytes + more),
                }
                self.punched.add(first, pages);
                state.has_holes();
                bytes += pages * PAGE_SIZE as u64;
                bump(&self.counters.bytes_punched, pages * PAGE_SIZE as u64);
            }
        }
        Ok(bytes)
    }

    /// A file's device did not do it. Where another one takes its place that is no error of who asked: the next time is another chance.
    fn none_given_back(&self, file: u64, error: Error) -> Result<u64> {
        if self.device_failed(file, &error) { Ok(0) } else { Err(error) }
    }

    /// Has pages leave memory unwritten, which nobody has and who allocates cannot get now. False: one is in use all the same.
    fn leave_memory(&self, which: impl Fn(PageId) -> bool) -> bool {
        for frame in self.allocated_frames() {
            let page = frame.page();
            if page.is_some() && which(page) && !self.leaves_memory(page) {
                return false;
            }
        }
        true
    }

    fn leaves_memory(&self, page: PageId) -> bool {
        for _ in 0..TRIES {
            if self.drop_unwritten(page) {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// False: it is pinned.
    fn drop_unwritten(&self, page: PageId) -> bool {
        // A look at the dirty pages meanwhile needs none of these: a checkpoint leaves out what is behind its end, and of a free page
        // redo needs no more than the record that freed it.
        let mut shard = self.shard(page).write();
        let Some(index) = shard.get(&page).copied() else { return true };
        let frame = self.frame(index);
        if !frame.held.leave() {
            return false;
        }
        shard.remove(&page);
        frame.valid.store(false, Ordering::Relaxed);
        frame.usage.store(0, Ordering::Relaxed);
        frame.rec_lsn.store(0, Ordering::SeqCst);
        frame.held.left();
        drop(shard);
        self.put_on_free_list(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_ranges() {
        let holes = Holes::default();
        let ranges = || holes.0.read().iter().map(|(first, end)| (*first, *end)).collect::<Vec<_>>();
        holes.add(9, 8);
        holes.add(25, 8);
        assert!(holes.have_all(9, 8) && !holes.have_all(9, 9) && !holes.have_all(8, 1) && !holes.have_all(17, 1));
        holes.add(17, 8);
        assert_eq!(ranges(), [(9, 33)]);
        assert!(holes.remove(PageId(20)) && !holes.remove(PageId(20)) && !holes.remove(PageId(40)));
        assert_eq!(ranges(), [(9, 20), (21, 33)]);
        holes.give_back(PageId(20));
        assert_eq!(ranges(), [(9, 33)]);
        holes.remove(PageId(20));
        assert_eq!(ranges(), [(9, 20), (21, 33)]);
        holes.remove(PageId(9));
        holes.remove(PageId(32));
        assert_eq!(ranges(), [(10, 20), (21, 32)]);
        holes.add(1, 100);
        assert_eq!(ranges(), [(1, 101)]);
    }
}
