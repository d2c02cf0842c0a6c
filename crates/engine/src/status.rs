//! What an operator can see.

use std::sync::atomic::Ordering;
use std::time::Duration;

use resurgam_buffer::{FreePages, PoolStats};
use resurgam_log::LogStats;
use resurgam_txn::TxStats;
use resurgam_versions::VersionStoreStats;

use crate::database::Database;

/// What the last open found and did.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The database had been closed cleanly.
    pub was_clean: bool,
    /// Time spent reading the log.
    pub analysis: Duration,
    /// Time until the database was open.
    pub total: Duration,
    pub log_records: u64,
    pub log_bytes: u64,
    /// Pages that were to be redone, on demand and in the background.
    pub pages_to_redo: u64,
    /// Transactions that the crash cut off.
    pub transactions_aborted: u64,
    /// The aborted-transaction map after recovery.
    pub aborted_in_map: u64,
    /// Torn or lost pages restored from the double-write area.
    pub pages_restored: u64,
    /// What stood at the end of the log.
    pub log_end: String,
}

/// Counters and gauges of all parts.
#[derive(Clone, Debug)]
pub struct Stats {
    pub pool: PoolStats,
    pub pool_pages: u64,
    pub dirty_pages: u64,
    pub pages_awaiting_redo: u64,
    pub log: LogStats,
    pub log_bytes_in_use: u64,
    pub transactions: TxStats,
    pub versions: VersionStoreStats,
    pub space: FreePages,
    pub sweeps: u64,
    pub rows_reverted: u64,
    pub rows_stripped: u64,
    pub rows_removed: u64,
}

impl Database {
    /// A reading of everything.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        Stats {
            pool: inner.pool.stats(),
            pool_pages: inner.pool.capacity() as u64,
            dirty_pages: inner.pool.dirty_count() as u64,
            pages_awaiting_redo: inner.pool.pending_redo().len(),
            log: inner.log.stats(),
            log_bytes_in_use: inner.log.bytes_in_use(),
            transactions: inner.txs.stats(),
            versions: inner.versions.stats(),
            space: inner.pool.space().free_pages(),
            sweeps: inner.cleaner.sweeps.load(Ordering::Relaxed),
            rows_reverted: inner.cleaner.reverted.load(Ordering::Relaxed),
            rows_stripped: inner.cleaner.stripped.load(Ordering::Relaxed),
            rows_removed: inner.cleaner.removed.load(Ordering::Relaxed),
        }
    }
}
