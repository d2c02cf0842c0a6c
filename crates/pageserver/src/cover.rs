//! The covering cache: every page of the server's is in a file, at its place; those that were used last are in memory too, with what
//! the log has changed since they were written (*Socrates*, section 4.6: stride-preserving, so that neighbouring pages
//! are one read).
//!
//! Pages are spread over shards by their segments, so a segment is fetched under one lock. A page may be written at any
//! time: only durable log is applied, and redo goes by the page's own LSN.
//!
//! Of a segment that is not there the first pages that somebody needs are made alone, and are in memory only until the segment is made.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::{PageBuf, PageOp, op};

use crate::files::PageFiles;
use crate::partition::Partitions;
use crate::seed::Seed;

const SHARDS: usize = 64;
/// Pages that are written in one call, at most.
const WRITE_PAGES: usize = 128;
/// So many pages of a segment that is not there are made one by one, before all of it is: who waits for one does not wait for its neighbours.
const ALONE_MAX: u32 = 8;
/// Half a megabyte.
const WRITTEN_BUCKETS: usize = 1 << 16;

/// A record of a page, on its way.
#[derive(Clone, Copy)]
pub(crate) struct PageRecord<'a> {
    pub lsn: Lsn,
    pub page: PageId,
    /// The page's record before this one.
    pub previous: Lsn,
    pub body: &'a [u8],
}

/// A record came that does not follow the one before it of its page: one in between was left out, or a write of the page was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub page: PageId,
    /// The record that came, and the one that it follows.
    pub record: Lsn,
    pub previous: Lsn,
    /// What there is of the page.
    pub have: Lsn,
}

struct Slot {
    page: PageBuf,
    /// Not in the file as it is here.
    dirty: bool,
    /// Its checksum is that of what is here.
    sealed: bool,
    used: bool,
    /// A record could not be applied to the page, and has left it in pieces; it was as of this LSN before.
    broken: Option<Lsn>,
}

impl Slot {
    /// Asked for again and again, a page is sealed once.
    fn seal(&mut self) {
        if !self.sealed {
            self.page.seal();
            self.sealed = true;
        }
    }
}

#[derive(Default)]
struct Shard {
    pages: HashMap<PageId, Slot>,
    /// The clock's hand goes around these.
    ring: VecDeque<PageId>,
    /// Segments of this shard that are not there, each with how many of its pages were made alone. Such a page is in memory only: it has no
    /// place in the file before its segment is there, which is made before a page that was changed goes.
    missing: HashMap<u64, u32>,
}

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub hits: AtomicU64,
    pub reads: AtomicU64,
    pub written: AtomicU64,
    pub seeded_segments: AtomicU64,
    pub alone: AtomicU64,
    pub mended: AtomicU64,
}

/// See the module.
pub(crate) struct Cover {
    files: PageFiles,
    seed: Option<Arc<dyn Seed>>,
    shards: Vec<Mutex<Shard>>,
    /// Pages that a shard has in memory.
    shard_pages: usize,
    /// Pages of a segment.
    segment_pages: u64,
    /// Segments that existed when the server was seeded; those behind are there.
    seeded: u64,
    /// The highest LSN of pages that were seen in the file since the start, or written there, by bucket: what is made from the
    /// archive in place of one must not be older.
    written: Box<[AtomicU64]>,
    /// The log was applied from its beginning on when the server was opened: nothing was seeded, and the mark says nothing of pages.
    from_first: bool,
    /// A sync has failed: what the file has is not known any more.
    failed: AtomicBool,
    pub counts: Counts,
}

fn bucket(page: PageId) -> usize {
    (page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - WRITTEN_BUCKETS.trailing_zeros())) as usize
}

impl Cover {
    /// `there`: of the segments that existed when the server was seeded, which are there, as far as they are its own. `from_first`: the log is
    /// applied from its beginning on.
    pub fn new(
        files: PageFiles,
        partitions: &Partitions,
        seed: Option<Arc<dyn Seed>>,
        memory_bytes: usize,
        there: &[bool],
        from_first: bool,
    ) -> Self {
        let mut shards: Vec<Mutex<Shard>> = Vec::new();
        shards.resize_with(SHARDS, Mutex::default);
        for (number, there) in (0..).zip(there) {
            if !there && partitions.has_segment(number) {
                shards[number as usize % SHARDS].get_mut().missing.insert(number, 0);
            }
        }
        let shard_pages = (memory_bytes / PAGE_SIZE / SHARDS).max(4);
        let mut written = Vec::new();
        written.resize_with(WRITTEN_BUCKETS, || AtomicU64::new(0));
        Self {
            files,
            seed,
            shards,
            shard_pages,
            segment_pages: partitions.segment_pages(),
            seeded: there.len() as u64,
            written: written.into_boxed_slice(),
            from_first,
            failed: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    /// The segment of a page.
    pub fn segment(&self, page: PageId) -> u64 {
        page.0 / self.segment_pages
    }

    /// The number of a segment's shard.
    pub fn shard_of(&self, segment: u64) -> usize {
        segment as usize % SHARDS
    }

    fn shard(&self, segment: u64) -> MutexGuard<'_, Shard> {
        self.shards[self.shard_of(segment)].lock()
    }

    /// Shows the page as it is, sealed; nobody else has pages of its shard meanwhile.
    ///
    /// # Errors
    /// `Corrupt`, naming the page, when it does not exist, or is damaged and cannot be mended; those of file and seed.
    pub fn show<T>(&self, page: PageId, show: impl FnOnce(&PageBuf) -> T) -> Result<T> {
        let mut shard = self.shard(self.segment(page));
        let slot = self.load(&mut shard, page)?;
        slot.used = true;
        if slot.page.is_all_zero() && self.seed.is_some() {
            // Nobody asks for a page that does not exist: the device may have lost all that was written of it.
            self.mend(slot, page)?;
        }
        if slot.page.is_all_zero() {
            return Err(Error::corrupt(format!("page {page} does not exist")));
        }
        slot.seal();
        Ok(show(&slot.page))
    }

    /// Applies records of pages of one segment, in order of LSNs; returns how many changed a page. `filtered`: some may have been left out; the
    /// first one that shows it is not applied, and nothing behind it.
    ///
    /// # Errors
    /// `Corrupt` when a record does not follow what there is of its page, and the page cannot be made anew; those of file and seed.
    pub fn apply(&self, number: u64, records: &[PageRecord<'_>], filtered: bool) -> Result<(u64, Option<Gap>)> {
        let mut shard = self.shard(number);
        let mut applied = 0;
        for record in records {
            let slot = self.load(&mut shard, record.page)?;
            if !slot.page.is_all_zero() && slot.page.lsn() >= record.lsn {
                continue;
            }
            let anew = matches!(op::decode(record.body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image(_))));
            if anew {
                slot.sealed = false;
                slot.page.as_bytes_mut().fill(0);
            } else if slot.page.lsn() != record.previous || slot.page.is_all_zero() {
                if filtered {
                    let (page, record, previous) = (record.page, record.lsn, record.previous);
                    return Ok((applied, Some(Gap { page, record, previous, have: slot.page.lsn() })));
                }
                // What the file has of it is old: the device has lost a write.
                self.mend(slot, record.page)?;
                if slot.page.lsn() >= record.lsn {
                    continue;
                }
                if slot.page.lsn() != record.previous || slot.page.is_all_zero() {
                    return Err(Error::corrupt(format!(
                        "the record of page {} at LSN {} follows one at LSN {}, but what there is of the page is as of LSN {}",
                        record.page,
                        record.lsn,
                        record.previous,
                        slot.page.lsn()
                    )));
                }
            }
            let before = if anew { record.previous } else { slot.page.lsn() };
            (slot.dirty, slot.sealed) = (true, false);
            slot.used = true;
            if let Err(error) = op::apply(&mut slot.page, record.page, record.body, record.lsn) {
                slot.broken = Some(before);
                return Err(error);
            }
            applied += 1;
        }
        Ok((applied, None))
    }

    /// The page in memory: all zero if it does not exist.
    fn load<'s>(&self, shard: &'s mut Shard, page: PageId) -> Result<&'s mut Slot> {
        self.check()?;
        if let Some(slot) = shard.pages.get_mut(&page) {
            if let Some(before) = slot.broken {
                self.note_written(page, before);
                self.mend(slot, page)?;
            }
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
        } else {
            self.make_room(shard)?;
            let mut slot = Slot { page: PageBuf::zeroed(), dirty: false, sealed: false, used: false, broken: None };
            self.counts.reads.fetch_add(1, Ordering::Relaxed);
            if !self.make_alone(shard, page, &mut slot)? {
                self.make_there(shard, self.segment(page))?;
                self.read(page, &mut slot)?;
            }
            shard.pages.insert(page, slot);
            shard.ring.push_back(page);
        }
        shard.pages.get_mut(&page).ok_or_else(|| Error::internal("a page that was just loaded"))
    }

    /// Reads the page from the file, whose segment is there.
    fn read(&self, page: PageId, slot: &mut Slot) -> Result<()> {
        match self.files.read(page, slot.page.as_bytes_mut()) {
            Ok(read) => slot.page.as_bytes_mut()[read..].fill(0),
            // Sectors that cannot be read are like bytes that are wrong.
            Err(error) if error.kind() == ErrorKind::Io && self.seed.is_some() => return self.mend(slot, page),
            Err(error) => return Err(error),
        }
        if slot.page.is_all_zero() {
            return Ok(());
        }
        if slot.page.verify(page).is_err() {
            return self.mend(slot, page);
        }
        // A process before this one may have written it, behind the mark and the archive's end: the log
        // that is applied again goes by this, and so must what replaces it.
        slot.sealed = true;
        self.note_written(page, slot.page.lsn());
        Ok(())
    }

    /// Fills `slot` with a page of a segment that is not there, which stays so; false: the segment is there, or is to be made.
    fn make_alone(&self, shard: &mut Shard, page: PageId, slot: &mut Slot) -> Result<bool> {
        // The boot page is nobody's to ask for.
        let Some(alone) = shard.missing.get_mut(&self.segment(page)).filter(|_| page.0 > 0) else { return Ok(false) };
        let Some(seed) = self.seed.as_ref().filter(|_| *alone < ALONE_MAX) else { return Ok(false) };
        seed.make(page, std::slice::from_mut(&mut slot.page))?;
        *alone += 1;
        if slot.page.is_all_zero() {
            return Ok(true);
        }
        if let Err(fault) = slot.page.verify(page) {
            return Err(damaged_there(page, &fault));
        }
        slot.sealed = true;
        self.counts.alone.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes a page anew from the seed, as of its end. All zero: it does not exist there.
    fn mend(&self, slot: &mut Slot, page: PageId) -> Result<()> {
        let Some(seed) = &self.seed else {
            return Err(Error::corrupt(format!("page {page} is damaged, and there is no archive to make it from")));
        };
        let mut made = [PageBuf::zeroed()];
        // An end that is looked for now: the page may be newer than what was known.
        let (end, written) = (seed.end()?, Lsn(self.written[bucket(page)].load(Ordering::SeqCst)));
        if written.is_some() && end <= written {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "page {page} is damaged, and the archive ends at LSN {end}: it is made from it when that has reached LSN {written}"
                ),
            ));
        }
        // While the archive has nothing, what is left of the page in the file (torn by a crash, say) counts for nothing, and no mark says that
        // it does: all of its records are in the log that is applied, from the beginning on. (Where the mark is further on, the archive has lost
        // what it had, and the seed says that.)
        if !(end.is_none() && self.from_first) {
            seed.make(page, &mut made)?;
        }
        if !made[0].is_all_zero()
            && let Err(fault) = made[0].verify(page)
        {
            return Err(damaged_there(page, &fault));
        }
        slot.page.as_bytes_mut().copy_from_slice(made[0].as_bytes());
        (slot.broken, slot.sealed) = (None, false);
        if slot.page.is_all_zero() {
            return Ok(());
        }
        slot.dirty = true;
        self.counts.mended.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("page {page} was damaged, or a write of it was lost: it was made again from the archive");
        Ok(())
    }

    /// The page is about to be written, as of this LSN.
    fn note_written(&self, page: PageId, lsn: Lsn) {
        self.written[bucket(page)].fetch_max(lsn.0, Ordering::SeqCst);
    }

    /// Fails when the file cannot be relied upon.
    ///
    /// # Errors
    /// `Io`.
    pub fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::Io,
                "a sync of the page server's file has failed: what it has is not known, and it is to be made anew",
            ));
        }
        Ok(())
    }

    /// Fetches a segment if it is missing.
    fn make_there(&self, shard: &mut Shard, number: u64) -> Result<()> {
        if !shard.missing.contains_key(&number) {
            return Ok(());
        }
        let Some(seed) = &self.seed else { return Err(Error::internal("a segment is missing, and there is no seed")) };
        // The boot page is nobody's to ask for.
        let first = PageId((number * self.segment_pages).max(1));
        let mut pages = vec![PageBuf::zeroed(); ((number + 1) * self.segment_pages - first.0) as usize];
        seed.make(first, &mut pages)?;
        let exists = |page: &PageBuf| !page.is_all_zero();
        if let Some(last) = pages.iter().rposition(exists) {
            let bytes: Vec<u8> = pages[..=last].iter().flat_map(|page| page.as_bytes().iter().copied()).collect();
            self.files.write(first, &bytes)?;
        }
        // What was made of it alone and has had records since then is dirty: it is written over this.
        shard.missing.remove(&number);
        self.counts.seeded_segments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a page out of memory if there is no room for another one.
    fn make_room(&self, shard: &mut Shard) -> Result<()> {
        let mut passed = 0;
        while shard.pages.len() >= self.shard_pages {
            let Some(page) = shard.ring.pop_front() else { return Ok(()) };
            let Some(slot) = shard.pages.get_mut(&page) else { continue };
            if std::mem::take(&mut slot.used) {
                shard.ring.push_back(page);
                continue;
            }
            if slot.broken.is_some() {
                shard.ring.push_back(page);
                return Ok(());
            }
            if slot.dirty && shard.missing.contains_key(&self.segment(page)) {
                shard.ring.push_back(page);
                passed += 1;
                // Others go before one for which a segment has to be made.
                if passed > shard.ring.len() {
                    // Where it cannot be made now, there is a page more than there should be: what is there is read all the same.
                    if self.make_there(shard, self.segment(page)).is_err() {
                        return Ok(());
                    }
                    // One is enough: its page leaves when it comes by again.
                    passed = 0;
                }
                continue;
            }
            if slot.dirty {
                slot.seal();
                self.note_written(page, slot.page.lsn());
                if let Err(error) = self.files.write(page, slot.page.as_bytes()) {
                    shard.ring.push_front(page);
                    return Err(error);
                }
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            }
            shard.pages.remove(&page);
        }
        Ok(())
    }

    /// Fetches up to `limit` segments that are missing; returns how many are missing still.
    ///
    /// # Errors
    /// Those of file and seed.
    pub fn fill(&self, limit: usize) -> Result<u64> {
        let mut left = limit;
        for shard in &self.shards {
            while left > 0 {
                let mut shard = shard.lock();
                let Some(number) = shard.missing.keys().next().copied() else { break };
                self.make_there(&mut shard, number)?;
                left -= 1;
            }
        }
        Ok(self.missing())
    }

    /// Which segments are missing, in no order.
    pub fn missing_segments(&self) -> Vec<u64> {
        self.shards.iter().flat_map(|shard| shard.lock().missing.keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Segments that are missing.
    pub fn missing(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().missing.len() as u64).sum()
    }

    /// Of the segments that existed when the server was seeded, which are there.
    pub fn there(&self) -> Vec<bool> {
        let mut there = vec![true; self.seeded as usize];
        for shard in &self.shards {
            shard.lock().missing.keys().for_each(|number| there[*number as usize] = false);
        }
        there
    }

    /// Writes what is not in the file, and syncs it. Which segments are there is as of before the sync.
    ///
    /// # Errors
    /// Those of the file; what was not written counts as such. After a failed sync nothing is answered any more.
    pub fn write_all(&self) -> Result<Vec<bool>> {
        let mut there = vec![true; self.seeded as usize];
        for shard in &self.shards {
            let mut shard = shard.lock();
            // Those of segments that are not there are made again with these: the mark is not behind the seed's end.
            let is_there = |page: &PageId| !shard.missing.contains_key(&self.segment(*page));
            let mut dirty: Vec<PageId> = shard
                .pages
                .iter()
                .filter(|(page, slot)| slot.dirty && slot.broken.is_none() && is_there(page))
                .map(|(page, _)| *page)
                .collect();
            dirty.sort_unstable();
            let mut rest = &dirty[..];
            while let Some(first) = rest.first().copied() {
                let together = rest.iter().enumerate().take(WRITE_PAGES);
                let count = together.take_while(|(i, page)| page.0 == first.0 + *i as u64).count();
                let (now, later) = rest.split_at(count);
                let mut bytes = Vec::with_capacity(count * PAGE_SIZE);
                for page in now {
                    if let Some(slot) = shard.pages.get_mut(page) {
                        slot.seal();
                        self.note_written(*page, slot.page.lsn());
                        bytes.extend_from_slice(slot.page.as_bytes());
                    }
                }
                self.files.write(first, &bytes)?;
                for page in now {
                    if let Some(slot) = shard.pages.get_mut(page) {
                        slot.dirty = false;
                    }
                }
                self.counts.written.fetch_add(count as u64, Ordering::Relaxed);
                rest = later;
            }
            for number in shard.missing.keys() {
                there[*number as usize] = false;
            }
        }
        // After a sync that failed the system may take what was not written for written: nothing that it says of this
        // file counts any more.
        self.files.sync().inspect_err(|_| self.failed.store(true, Ordering::SeqCst))?;
        Ok(there)
    }

    /// Pages in memory.
    pub fn in_memory(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().pages.len()).sum()
    }
}

#[cold]
fn damaged_there(page: PageId, fault: &dyn std::fmt::Display) -> Error {
    Error::corrupt(format!("page {page} is damaged, in the archive's backup as well: {fault}"))
}

/// Refuses pages that no page server has.
pub(crate) fn check_file(page: PageId) -> Result<()> {
    if page.file() != 0 {
        return Err(Error::new(
            ErrorKind::NotSupported,
            format!("page {page} is in a version-store file; page servers have the pages of the data file"),
        ));
    }
    Ok(())
}
