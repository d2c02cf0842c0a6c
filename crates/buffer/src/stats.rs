//! Counters of the pool, for operators and for tests that assert a branch was reached.
//!
//! One that every fetch raises is divided: threads that raised the same number would pass its line of the processor's cache to
//! and fro.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $read:ty),* $(,)?) => {
        /// A reading of the pool's counters.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PoolStats { $($(#[$doc])* pub $name: $read),* }
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
    hits: Divided => u64,
    /// Fetches that read the data file.
    misses: AtomicU64 => u64,
    /// Frames given to another page.
    evictions: AtomicU64 => u64,
    /// Pages brought up to date from the log when first fetched after a crash.
    redone_pages: AtomicU64 => u64,
    /// Log records applied in doing so.
    redone_records: AtomicU64 => u64,
    /// Images of pages that were logged since so many records of theirs had gathered (see
    /// [`BufferPool::set_records_per_page_max`](crate::BufferPool::set_records_per_page_max)), and their bytes without record headers.
    images_logged: AtomicU64 => u64,
    image_bytes_logged: AtomicU64 => u64,
    /// Pages that were damaged in the file and rebuilt from what is kept of them elsewhere.
    repaired_pages: AtomicU64 => u64,
    /// Times that a page could not be read from its device, and was rebuilt, or could not be.
    unreadable_pages: AtomicU64 => u64,
    /// Pages that were found older in the file than they had been written.
    lost_writes: AtomicU64 => u64,
    /// Pages that were compared with what the archive knows of how new they must be, when they were first read.
    first_reads_compared: AtomicU64 => u64,
    /// Pages that were not, or not with all of the log, since the archive could not be asked, did not answer in time, or lagged.
    first_reads_not_compared: AtomicU64 => u64,
    /// Pages written to the data file.
    pages_written: AtomicU64 => u64,
    /// Of these, those that were written once: new ones, and all while double writes are off.
    fresh_pages_written: AtomicU64 => u64,
    /// Batches of the double-write area.
    write_batches: AtomicU64 => u64,
    /// Times a fetch had to clean pages itself because no clean victim was left.
    foreground_cleans: AtomicU64 => u64,
    /// Changed pages dropped from memory since their place in the file was not restored yet; they are made again from the log.
    elided_pages: AtomicU64 => u64,
    /// Pages that were had from page servers when they were needed, and how long those who needed them waited for these, and for word that
    /// a copy is current.
    remote_pages: AtomicU64 => u64,
    remote_waits: WaitCounters => Waits,
    /// Pages that were had from the cache below memory, and those of them that a page server had to say of that they are current.
    cached_pages: AtomicU64 => u64,
    confirmed_pages: AtomicU64 => u64,
    /// Waits for a page that ended because the statement was told to stop.
    page_waits_given_up: AtomicU64 => u64,
    /// Pages that were asked for before anybody needed them.
    ahead_asked: AtomicU64 => u64,
    /// Of these, those that were used.
    ahead_used: AtomicU64 => u64,
    /// Those that left memory without having been used.
    ahead_wasted: AtomicU64 => u64,
    /// Those that did not come.
    ahead_not_had: AtomicU64 => u64,
    /// Pages allocated.
    pages_allocated: AtomicU64 => u64,
    /// Pages freed.
    pages_freed: AtomicU64 => u64,
    /// Extents handed to objects.
    extents_allocated: AtomicU64 => u64,
    /// Bytes by which files were cut, and those of holes that were made in them.
    bytes_cut: AtomicU64 => u64,
    bytes_punched: AtomicU64 => u64,
    /// Pages of trees that moved from the end of a file to free places below.
    pages_moved: AtomicU64 => u64,
    /// Leaves whose rows were put on other leaves by who asked for it.
    leaves_packed: AtomicU64 => u64,
}

pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// How many waits were how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits of at most so many microseconds as [`Waits::BOUNDS`] says, and longer than the bound before; last, those that are longer than all.
    pub counts: [u64; Waits::BOUNDS.len() + 1],
    /// All of them together, in microseconds.
    pub micros: u64,
}

impl Waits {
    /// In microseconds, ascending.
    pub const BOUNDS: [u64; 13] = [20, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000, 50_000, 200_000, 1_000_000];
}

#[derive(Default)]
pub(crate) struct WaitCounters {
    counts: [AtomicU64; Waits::BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl WaitCounters {
    pub fn note(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        bump(&self.counts[Waits::BOUNDS.partition_point(|bound| *bound < micros)], 1);
        bump(&self.micros, micros);
    }

    fn load(&self, order: Ordering) -> Waits {
        Waits { counts: std::array::from_fn(|at| self.counts[at].load(order)), micros: self.micros.load(order) }
    }
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
    fn waits_are_counted_by_their_length() {
        let counters = WaitCounters::default();
        [0, 20, 21, 50, 500, 501, 1_000_000, 1_000_001]
            .into_iter()
            .for_each(|us| counters.note(Duration::from_micros(us)));
        let waits = counters.load(Ordering::Relaxed);
        assert_eq!(waits.counts, [2, 2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(waits.micros, 2_001_093);
        assert!(Waits::BOUNDS.is_sorted());
    }

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
