//! Counters of the log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A reading of the log's counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Groups appended.
    pub groups: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes of records appended.
    pub record_bytes: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Bytes written, headers and padding included.
    pub written_bytes: u64,
    /// Flushes: each is one batch of blocks made durable.
    pub flushes: u64,
    /// Flushes under way now, and the most that were at once.
    pub flying: u64,
    pub flying_most: u64,
    /// Flushes that were durable before one ahead of them was, and waited for it.
    pub flights_held: u64,
    /// Syncs of segment files by flushes.
    pub syncs: u64,
    /// Time spent in those syncs.
    pub sync_time_total: Duration,
    /// The longest of them.
    pub sync_time_max: Duration,
    /// Calls and tickets that had to wait for a flush.
    pub waits: u64,
    /// Appends that had to wait because the buffers were full.
    pub buffer_full_waits: u64,
    /// Markers written so that the last batch has proof; see [`Log::confirm`](crate::Log::confirm).
    pub markers: u64,
    /// Segments made anew.
    pub segments_created: u64,
    /// Segments reused.
    pub segments_recycled: u64,
    /// Appends that had to prepare a segment themselves.
    pub segments_prepared_late: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            pub(crate) sync_ns_total: AtomicU64,
            pub(crate) sync_ns_max: AtomicU64,
        }
        impl Counters {
            pub(crate) fn snapshot(&self) -> LogStats {
                LogStats {
                    $($name: self.$name.load(Relaxed),)*
                    sync_time_total: Duration::from_nanos(self.sync_ns_total.load(Relaxed)),
                    sync_time_max: Duration::from_nanos(self.sync_ns_max.load(Relaxed)),
                }
            }
        }
    };
}

counters!(
    groups,
    records,
    record_bytes,
    blocks,
    written_bytes,
    flushes,
    flying,
    flying_most,
    flights_held,
    syncs,
    waits,
    buffer_full_waits,
    markers,
    segments_created,
    segments_recycled,
    segments_prepared_late
);

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    pub(crate) fn synced(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Relaxed);
        self.sync_ns_total.fetch_add(ns, Relaxed);
        self.sync_ns_max.fetch_max(ns, Relaxed);
    }
}
