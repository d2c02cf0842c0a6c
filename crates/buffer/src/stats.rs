//! Counters of the pool, for operators and for tests that assert a branch was reached.
//!
//! One that every fetch raises is divided: threads that raised the same number would pass its line of the processor's cache to
//! and fro.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty),* $(,)?) => {
        /// A reading of the pool's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PoolStats { $($(#[$doc])* pub $name: u64),* }
        #[derive(Default)]
        pub(crate) struct Counters { $(pub $name: $kind),* }
        impl Counters {
            pub fn read(&self) -> PoolStats {
                PoolStats { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Fetches answered from memory.
    hits: Divided,
    /// Fetches that read the data file.
    misses: AtomicU64,
    /// Frames given to another page.
    evictions: AtomicU64,
    /// Pages brought up to date from the log when first fetched after a crash.
    redone_pages: AtomicU64,
    /// Log records applied in doing so.
    redone_records: AtomicU64,
    /// Images of pages that were logged since so many records of theirs had gathered (see
    /// [`BufferPool::set_records_per_page_max`](crate::BufferPool::set_records_per_page_max)), and their bytes without record headers.
    images_logged: AtomicU64,
    image_bytes_logged: AtomicU64,
    /// Pages that were damaged in the file and rebuilt from what is kept of them elsewhere.
    repaired_pages: AtomicU64,
    /// Times that a page could not be read from its device, and was rebuilt, or could not be.
    unreadable_pages: AtomicU64,
    /// Pages that were found older in the file than they had been written.
    lost_writes: AtomicU64,
    /// Pages that were compared with what the archive knows of how new they must be, when they were first read.
    first_reads_compared: AtomicU64,
    /// Pages that were not, or not with all of the log, since the archive could not be asked, did not answer in time, or lagged.
    first_reads_not_compared: AtomicU64,
    /// Pages written to the data file.
    pages_written: AtomicU64,
    /// Of these, those that were written once: new ones, and all while double writes are off.
    fresh_pages_written: AtomicU64,
    /// Batches of the double-write area.
    write_batches: AtomicU64,
    /// Times a fetch had to clean pages itself because no clean victim was left.
    foreground_cleans: AtomicU64,
    /// Changed pages dropped from memory since their place in the file was not restored yet; they are made again from the log.
    elided_pages: AtomicU64,
    /// Pages that were had from page servers when they were needed, and how long those who needed them waited, in microseconds.
    remote_pages: AtomicU64,
    remote_wait_micros: AtomicU64,
    /// Pages that were had from the cache below memory, and those of them that a page server had to say of that they are current.
    cached_pages: AtomicU64,
    confirmed_pages: AtomicU64,
    /// Waits for a page that ended because the statement was told to stop.
    page_waits_given_up: AtomicU64,
    /// Pages that were asked for before anybody needed them.
    ahead_asked: AtomicU64,
    /// Of these, those that were used.
    ahead_used: AtomicU64,
    /// Those that left memory without having been used.
    ahead_wasted: AtomicU64,
    /// Those that did not come.
    ahead_not_had: AtomicU64,
    /// Pages allocated.
    pages_allocated: AtomicU64,
    /// Pages freed.
    pages_freed: AtomicU64,
    /// Extents handed to objects.
    extents_allocated: AtomicU64,
}

pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// A number that is kept in parts, of which threads raise different ones.
#[derive(Default)]
pub(crate) struct Divided([Part; PARTS]);

const PARTS: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Part(AtomicU64);

impl Divided {
    pub fn add(&self, by: u64) {
        bump(&self.0[part()].0, by);
    }
    pub fn load(&self, order: Ordering) -> u64 {
        self.0.iter().map(|part| part.0.load(order)).sum()
    }
}

/// Which part this thread raises.
fn part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PART: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
    }
    // A thread that is ending may have it no more.
    PART.try_with(|part| *part).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_number() {
        let divided = Divided::default();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..100).for_each(|_| divided.add(2)));
            }
        });
        assert_eq!(divided.load(Ordering::Relaxed), 8000);
    }
}
