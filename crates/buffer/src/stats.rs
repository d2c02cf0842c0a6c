//! Counters of the pool, for operators and for tests that assert a branch was reached.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A reading of the pool's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PoolStats { $($(#[$doc])* pub $name: u64),* }
        #[derive(Default)]
        pub(crate) struct Counters { $(pub $name: AtomicU64),* }
        impl Counters {
            pub fn read(&self) -> PoolStats {
                PoolStats { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Fetches answered from memory.
    hits,
    /// Fetches that read the data file.
    misses,
    /// Frames given to another page.
    evictions,
    /// Pages brought up to date from the log when first fetched after a crash.
    redone_pages,
    /// Log records applied in doing so.
    redone_records,
    /// Pages that were damaged in the file and rebuilt from what is kept of them elsewhere.
    repaired_pages,
    /// Pages that were found older in the file than they had been written.
    lost_writes,
    /// Pages that were compared with what the archive knows of how new they must be, when they were first read.
    first_reads_compared,
    /// Pages that were not, or not with all of the log, since the archive could not be asked, did not answer in time, or lagged.
    first_reads_not_compared,
    /// Pages written to the data file.
    pages_written,
    /// Of these, those that were written once: new ones, and all while double writes are off.
    fresh_pages_written,
    /// Batches of the double-write area.
    write_batches,
    /// Times a fetch had to clean pages itself because no clean victim was left.
    foreground_cleans,
    /// Changed pages dropped from memory since their place in the file was not restored yet; they are made again from the log.
    elided_pages,
    /// Pages allocated.
    pages_allocated,
    /// Pages freed.
    pages_freed,
    /// Extents handed to objects.
    extents_allocated,
}

pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
