//! Pages that are newer than the log: what was appended last is missing, or the files are not of the same
//! database, or not of the same time.
//!
//! A page is written only when the log is durable up to it, so after any crash the log that an open finds
//! reaches beyond every page in the files. A page from beyond it, that this process has not written, has changes
//! of transactions of which nothing is known, not even that they are not known: their ids will
//! be given out again. It is refused with both positions. (Once the log has grown past it, or after another restart, it is told by
//! who wrote it: `openings.rs`.)
//!
//! What this process writes is kept as a bit for each page, in chunks, so that the memory goes by what was
//! written (a megabyte for 64 GB).

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Lsn, PageId};

/// Pages of a chunk.
const CHUNK_PAGES: u64 = 4096;

struct Chunk(Box<[AtomicU64]>);

/// Which pages may be newer than the log was when it was opened.
pub(super) struct Newer {
    opened_at: Lsn,
    written: RwLock<HashMap<u64, Chunk>>,
}

fn place(page: PageId) -> (u64, usize, u64) {
    let in_chunk = page.0 % CHUNK_PAGES;
    (page.0 / CHUNK_PAGES, (in_chunk / 64) as usize, 1 << (in_chunk % 64))
}

impl Newer {
    /// Of a log that ended at `opened_at` when it was opened.
    pub fn than(opened_at: Lsn) -> Self {
        Self { opened_at, written: RwLock::default() }
    }

    /// These are about to be written in place.
    pub fn note_written(&self, pages: &[PageId]) {
        for page in pages {
            let (number, word, bit) = place(*page);
            if let Some(chunk) = self.written.read().get(&number) {
                chunk.0[word].fetch_or(bit, Ordering::Relaxed);
                continue;
            }
            let mut written = self.written.write();
            let chunk = written.entry(number).or_insert_with(|| {
                let mut words = Vec::new();
                words.resize_with((CHUNK_PAGES / 64) as usize, AtomicU64::default);
                Chunk(words.into_boxed_slice())
            });
            chunk.0[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Where the log ended, if the page, as it was read with that LSN, is from beyond it.
    pub fn is_beyond(&self, page: PageId, lsn: Lsn) -> Option<Lsn> {
        if lsn < self.opened_at {
            return None;
        }
        let (number, word, bit) = place(page);
        let written = self.written.read();
        let known = written.get(&number).is_some_and(|chunk| chunk.0[word].load(Ordering::Relaxed) & bit != 0);
        (!known).then_some(self.opened_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_here_may_be_newer() {
        let newer = Newer::than(Lsn(1000));
        let far = PageId::of_file(3, 70_000);
        assert_eq!(newer.is_beyond(PageId(7), Lsn(999)), None);
        assert_eq!(newer.is_beyond(PageId(7), Lsn(1000)), Some(Lsn(1000)));
        newer.note_written(&[PageId(7), PageId(4096), far]);
        for page in [PageId(7), PageId(4096), far] {
            assert_eq!(newer.is_beyond(page, Lsn(5000)), None);
        }
        for page in [PageId(8), PageId(4095), PageId(4097), PageId(70_000)] {
            assert_eq!(newer.is_beyond(page, Lsn(5000)), Some(Lsn(1000)));
        }
    }
}
