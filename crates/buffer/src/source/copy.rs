//! Copies of pages as they are in their files, for a backup, beside the work of the pool.
//!
//! A copy is taken without any latch, so it may be torn by a write that is under way: its checksum says so, and it is read
//! again. What is sound in the file has every record below [`BufferPool::complete_below`] as of before it was read.

use std::time::Duration;

use resurgam_base::{ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::{PageBuf, PageType, space};

use super::{Segment, Sources};
use crate::pool::{Access, BufferPool};
use crate::stats::Counters;

/// How often a page is read that is not sound, and the pause before it is read again.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(1);

/// What a page is like in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePage {
    /// All zero, as one that was never written.
    Zero,
    Sound,
    /// It cannot be used: unreadable, damaged, older than what was written last, newer than the log, or it lacks
    /// records that the log has no more.
    Bad,
}

impl Sources {
    fn copy(&self, first: PageId, pages: &mut [PageBuf], states: &mut [FilePage], counters: &Counters) -> Result<()> {
        if let Some(restoring) = self.restoring() {
            // What is not there yet must not be copied as nothing.
            for i in 0..pages.len() as u64 {
                restoring.restore(Segment::of(PageId(first.0 + i)), self, true)?;
            }
        }
        let (file, offset) = self.files.locate(first)?;
        let mut bytes = vec![0; pages.len() * PAGE_SIZE];
        match file.read_at(&mut bytes, offset) {
            Ok(read) => bytes[read..].fill(0),
            // One page at a time, so that the others are had.
            Err(error) if error.kind() == ErrorKind::Io && pages.len() > 1 => {
                for (i, (page, state)) in pages.iter_mut().zip(states).enumerate() {
                    let id = PageId(first.0 + i as u64);
                    match file.read_at(page.as_bytes_mut(), offset + (i * PAGE_SIZE) as u64) {
                        Ok(read) => {
                            page.as_bytes_mut()[read..].fill(0);
                            *state = self.take(id, page, counters);
                        }
                        Err(error) if error.kind() == ErrorKind::Io => *state = FilePage::Bad,
                        Err(error) => return Err(error),
                    }
                }
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Io => {
                states.fill(FilePage::Bad);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        for (i, (page, state)) in pages.iter_mut().zip(states).enumerate() {
            page.as_bytes_mut().copy_from_slice(&bytes[i * PAGE_SIZE..(i + 1) * PAGE_SIZE]);
            *state = self.take(PageId(first.0 + i as u64), page, counters);
        }
        Ok(())
    }

    /// What the page is like; who wrote it is of its place in the file, not of its content.
    fn take(&self, id: PageId, page: &mut PageBuf, counters: &Counters) -> FilePage {
        let state = self.state(id, page, counters);
        if state == FilePage::Sound {
            page.forget_writer();
        }
        state
    }

    fn state(&self, id: PageId, page: &PageBuf, counters: &Counters) -> FilePage {
        if self.pending.get(id).is_some_and(|entry| entry.aside) {
            return FilePage::Bad;
        }
        let lsn = page.lsn();
        let written = self.last_written.of_page(id);
        // One that an earlier process wrote is compared with what the archive knows, as one that is read: that write may be lost.
        let older = || written.is_other(lsn) || written.is_unknown() && self.is_older_than_known(id, lsn, counters);
        match page.verify(id) {
            // What this process wrote there last cannot be nothing.
            Err(_) if page.is_all_zero() && !written.is_other(Lsn::NONE) => FilePage::Zero,
            Err(_) => FilePage::Bad,
            Ok(()) if self.newer.is_beyond(id, lsn).is_some() || self.openings.misfit(page).is_some() => FilePage::Bad,
            // While it awaits redo its older state is what the file has, and the log has the rest.
            Ok(()) if self.pending.get(id).is_none() && older() => FilePage::Bad,
            Ok(()) => FilePage::Sound,
        }
    }
}

impl BufferPool {
    /// Every record below this position is in the files, and stays there: in the system's cache at least. Looks at every frame.
    pub fn complete_below(&self) -> Lsn {
        // In this order: a record that is in the log by now has its page marked before it was appended; and a page that
        // is redone meanwhile is in a frame before it stops awaiting redo.
        let end = self.log.end_lsn();
        let (oldest, elided) = self.noting_elisions(|| {
            let pending = self.sources.pending.snapshot();
            let pending = pending.iter().filter(|(_, entry)| !entry.aside).map(|(_, entry)| entry.rec_lsn).min();
            self.find_oldest_in_frames().into_iter().chain(pending).min()
        });
        oldest.into_iter().chain(elided.iter().map(|page| page.rec_lsn)).fold(end, Lsn::min)
    }

    /// Copies the pages from `first` on, all of one file, as they are in it; behind its end they are all zero. Those that
    /// are not sound are tried again. Page 0 of a version-store file is none of the database: it is left all zero.
    ///
    /// # Errors
    /// Those of reading that do not concern single pages.
    pub fn copy_from_file(&self, first: PageId, pages: &mut [PageBuf], states: &mut [FilePage]) -> Result<()> {
        self.sources.copy(first, pages, states, &self.counters)?;
        if first.file() > 0
            && first.in_file() == 0
            && let (Some(page), Some(state)) = (pages.first_mut(), states.first_mut())
        {
            page.as_bytes_mut().fill(0);
            *state = FilePage::Zero;
        }
        for i in 0..pages.len() {
            let id = PageId(first.0 + i as u64);
            for _ in 1..TRIES {
                if states[i] != FilePage::Bad {
                    break;
                }
                std::thread::sleep(PAUSE);
                self.sources.copy(id, &mut pages[i..=i], &mut states[i..=i], &self.counters)?;
            }
        }
        Ok(())
    }

    /// Whether the page is nobody's now, by its space map: what is in it says nothing, and whoever gets it formats it.
    ///
    /// # Errors
    /// Those of reading the map.
    pub fn is_free(&self, page: PageId) -> Result<bool> {
        let map_id = space::map_page_of(page);
        if page.in_file() > 0 && self.space().is_beyond(page) {
            return Ok(true);
        }
        if page == map_id || page.in_file() == 0 {
            return Ok(false);
        }
        let map = self.read(map_id, Access::Scan)?;
        if !map.is(PageType::SpaceMap) && self.space().is_beyond(page) {
            return Ok(true); // the file was cut meanwhile
        }
        Ok(map.is(PageType::SpaceMap) && space::pfs(&map, page) & space::PFS_ALLOCATED == 0)
    }

    /// A copy of the page as it is now, in memory or rebuilt, sealed; its records are durable in the log by the time of the return.
    ///
    /// # Errors
    /// As reading it; those of the log.
    pub fn copy_of(&self, page: PageId, buf: &mut PageBuf) -> Result<()> {
        {
            let guard = self.read(page, Access::Scan)?;
            buf.copy_from(&guard);
        }
        buf.seal();
        self.log.flush(Lsn(buf.lsn().0 + 1))
    }
}
