//! What this process wrote last to each page, so that a write which the device acknowledged and lost, or put
//! elsewhere, is noticed when the page is read again. (A page that is older than it should be has a right
//! checksum and a right id; nothing in it says so.)
//!
//! Kept are the low 32 bits of the page's LSN: four bytes for each page that was written, in chunks, and no
//! more of them than a 64th of the pool's memory. When there are too many a chunk is dropped, and of its pages
//! nothing is known until they are written again. So what was written in the last while is covered, after a
//! restart nothing at first: then the archive is asked, where there is one ([`PageHistory::newest`](super::PageHistory::newest)), and a page that
//! is what that says is noted as well, where there is room. An older image whose LSN has the same low bits (a multiple of 4 GB apart) passes.
//!
//! # Invariant
//! A page is noted before it is written, and read only after it was evicted, which is after that write was
//! reported as done: what is noted is what the file should hold.

use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Lsn, PageId};

/// Pages of a chunk: 16 KB.
const CHUNK_PAGES: u64 = 4096;
/// What the chunks may take of the pool's memory: one part in so many.
const SHARE: usize = 64;
const CHUNKS_MIN: usize = 16;

/// See the module. 0 in a chunk: not known.
pub(super) struct LastWritten {
    chunks: RwLock<HashMap<u64, Box<[AtomicU32]>>>,
    chunks_max: usize,
}

fn place(page: PageId) -> (u64, usize) {
    (page.0 / CHUNK_PAGES, (page.0 % CHUNK_PAGES) as usize)
}

/// The low bits, but never "not known": LSNs of records are multiples of nothing, and 1 stands for 0 as well.
fn mark(lsn: Lsn) -> u32 {
    (lsn.0 as u32).max(1)
}

impl LastWritten {
    /// For a pool of so many bytes.
    pub fn of(pool_bytes: usize) -> Self {
        let chunks_max = (pool_bytes / SHARE / (CHUNK_PAGES as usize * 4)).max(CHUNKS_MIN);
        Self { chunks: RwLock::default(), chunks_max }
    }

    /// `page` is about to be written as of `lsn`.
    pub fn note(&self, page: PageId, lsn: Lsn) {
        let (number, at) = place(page);
        if let Some(chunk) = self.chunks.read().get(&number) {
            chunk[at].store(mark(lsn), Ordering::Relaxed);
            return;
        }
        let mut chunks = self.chunks.write();
        if chunks.len() >= self.chunks_max
            && let Some(other) = chunks.keys().find(|other| **other != number).copied()
        {
            chunks.remove(&other);
        }
        let chunk = chunks.entry(number).or_insert_with(|| {
            let mut pages = Vec::new();
            pages.resize_with(CHUNK_PAGES as usize, AtomicU32::default);
            pages.into_boxed_slice()
        });
        chunk[at].store(mark(lsn), Ordering::Relaxed);
    }

    /// `page` was read as of `lsn`, and nothing is known of a later state. It is noted where there is room: what was written is worth
    /// more.
    pub fn note_read(&self, page: PageId, lsn: Lsn) {
        let (number, _) = place(page);
        let has_room = {
            let chunks = self.chunks.read();
            chunks.contains_key(&number) || chunks.len() < self.chunks_max
        };
        if has_room {
            self.note(page, lsn);
        }
    }

    /// What was written to `page` is not there any more, and need not be.
    pub fn forget_page(&self, page: PageId) {
        let (number, at) = place(page);
        if let Some(chunk) = self.chunks.read().get(&number) {
            chunk[at].store(0, Ordering::Relaxed);
        }
    }

    /// The same of all pages of a file from `first` on.
    pub fn forget_from(&self, first: PageId) {
        for (number, chunk) in self.chunks.read().iter() {
            for (at, mark) in chunk.iter().enumerate() {
                let page = PageId(number * CHUNK_PAGES + at as u64);
                if page.file() == first.file() && page >= first {
                    mark.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    #[cfg(test)]
    pub fn forget(&self) {
        self.chunks.write().clear();
    }

    /// What was written last to the page, as far as that is known.
    pub fn of_page(&self, page: PageId) -> Written {
        let (number, at) = place(page);
        Written(self.chunks.read().get(&number).map_or(0, |chunk| chunk[at].load(Ordering::Relaxed)))
    }
}

/// What was written last to a page. It is asked once for a load: what is known may be forgotten meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Written(u32);

impl Written {
    /// Another one for another state, nearly always; 0: it is not known.
    pub fn mark(self) -> u32 {
        self.0
    }

    /// Whether it is not known.
    pub fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// Whether a page as of `lsn` is another one, as far as that is known.
    pub fn is_other(self, lsn: Lsn) -> bool {
        self.0 != 0 && self.0 != mark(lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_page_is_noticed_as_long_as_it_is_remembered() {
        let written = LastWritten::of(0);
        let page = PageId(7);
        assert!(!written.of_page(page).is_other(Lsn(100)), "nothing is known");
        written.note(page, Lsn(100));
        written.note(page, Lsn(200));
        assert!(!written.of_page(page).is_other(Lsn(200)));
        assert!(written.of_page(page).is_other(Lsn(100)));
        assert!(!written.of_page(PageId(8)).is_other(Lsn(100)), "its neighbour was not written");
        assert!(written.of_page(page).is_other(Lsn::NONE));
        for chunk in 1..=3 * CHUNKS_MIN as u64 {
            written.note(PageId(chunk * CHUNK_PAGES), Lsn(chunk));
            assert!(written.chunks.read().len() <= CHUNKS_MIN);
            assert!(written.of_page(PageId(chunk * CHUNK_PAGES)).is_other(Lsn(chunk + 1)), "the newest is remembered");
        }
    }

    #[test]
    fn what_was_cut_off_is_forgotten() {
        let written = LastWritten::of(1 << 30);
        let pages = [3, CHUNK_PAGES + 4, CHUNK_PAGES + 5, 3 * CHUNK_PAGES].map(PageId);
        let other = PageId::of_file(1, CHUNK_PAGES + 9);
        pages.iter().chain([&other]).for_each(|page| written.note(*page, Lsn(100)));
        written.forget_from(PageId(CHUNK_PAGES + 5));
        written.forget_page(PageId(3));
        let known = |page: PageId| !written.of_page(page).is_unknown();
        assert_eq!(pages.map(known), [false, true, false, false]);
        assert!(known(other), "of another file");
    }

    #[test]
    fn an_lsn_whose_low_bits_are_zero_is_known() {
        let written = LastWritten::of(1 << 30);
        written.note(PageId(3), Lsn(1 << 32));
        assert!(written.of_page(PageId(3)).is_other(Lsn(5)));
        assert!(!written.of_page(PageId(3)).is_other(Lsn(1 << 32)));
    }
}
