//! Pages of which the device says that it cannot read them. One is repaired, and many may be as well, one by one for ever: but a device that has
//! so many of them in so short a time is dying, and better replaced while most of it can still be read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::PageId;

/// So many different pages of one file that cannot be read,
pub(crate) const UNREADABLE_MAX: usize = 64;
/// within so long, are more than a bad spot. (A disk that tries a bad sector for seconds, as disks do, does not come to so many.)
const WINDOW: Duration = Duration::from_secs(60);

/// The last of them, and when each was met first.
#[derive(Default)]
pub(crate) struct Unread {
    /// Some file has too many.
    too_many: AtomicBool,
    pages: Mutex<VecDeque<(Instant, PageId)>>,
}

impl Unread {
    /// A page could not be read.
    pub fn note(&self, page: PageId, now: Instant) {
        let mut pages = self.pages.lock();
        pages.retain(|(met, of)| now.saturating_duration_since(*met) < WINDOW && *of != page);
        pages.push_back((now, page));
        let of_file = pages.iter().filter(|(_, of)| of.file() == page.file()).count();
        if of_file >= UNREADABLE_MAX {
            self.too_many.store(true, Ordering::SeqCst);
        }
        if of_file > UNREADABLE_MAX
            && let Some(oldest) = pages.iter().position(|(_, of)| of.file() == page.file())
        {
            pages.remove(oldest);
        }
    }

    /// The files that have too many of them now.
    pub fn too_many(&self, now: Instant) -> Vec<u64> {
        if !self.too_many.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut pages = self.pages.lock();
        pages.retain(|(met, _)| now.saturating_duration_since(*met) < WINDOW);
        let mut files: Vec<u64> = pages.iter().map(|(_, of)| of.file()).collect();
        files.sort_unstable();
        let many: Vec<u64> = files
            .chunk_by(|one, other| one == other)
            .filter(|of_file| of_file.len() >= UNREADABLE_MAX)
            .map(|of_file| of_file[0])
            .collect();
        self.too_many.store(!many.is_empty(), Ordering::SeqCst);
        many
    }

    /// The file has another device now, or its count begins anew.
    pub fn forget(&self, file: u64) {
        let mut pages = self.pages.lock();
        pages.retain(|(_, of)| of.file() != file);
        // Those of another file come again if there are more.
        self.too_many.store(pages.len() >= UNREADABLE_MAX, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pages_of_one_file_in_a_short_time_are_too_many() {
        let (unread, begun) = (Unread::default(), Instant::now());
        let most = UNREADABLE_MAX as u64;
        let at = |millis| begun + Duration::from_millis(millis);
        // The same ones again and again, and of two files together.
        for i in 0..10 * most {
            unread.note(PageId::of_file(0, 1 + i % (most - 1)), at(i));
            unread.note(PageId::of_file(1, 1 + i % (most / 2)), at(i));
        }
        assert_eq!(unread.too_many(at(10 * most)), []);
        unread.note(PageId::of_file(0, most), at(10 * most));
        assert_eq!(unread.too_many(at(10 * most)), [0]);
        unread.forget(0);
        assert_eq!(unread.too_many(at(10 * most)), []);
        // One every few seconds, for an hour.
        for i in 0..1200 {
            unread.note(PageId::of_file(0, 1 + i), at(100_000 + i * 3000));
            assert_eq!(unread.too_many(at(100_000 + i * 3000)), [], "{i}");
        }
        // Many at once, of which nobody has heard for a while.
        let begun = 10_000_000;
        (0..most).for_each(|i| unread.note(PageId::of_file(2, 1 + i), at(begun)));
        assert_eq!(unread.too_many(at(begun + 59_000)), [2]);
        assert_eq!(unread.too_many(at(begun + 60_000)), []);
        // One more makes it no more than one.
        unread.note(PageId::of_file(2, 1), at(begun + 60_000));
        assert_eq!(unread.too_many(at(begun + 60_000)), []);
    }
}
