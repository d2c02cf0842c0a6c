//! What an operator can see.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_buffer::{FreePages, PoolStats, StuckPage, VersionFile};
use resurgam_log::{LogHold, LogHolder, LogStats};
use resurgam_txn::{AbortedList, AbortedTx, TemporaryStats, TxStats};
use resurgam_versions::{SweepReport, VersionStoreStats, version_holders};

use crate::checkpoint_stats::CheckpointStats;
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
    /// How many of them are undone from the log (traditional mode).
    pub transactions_to_undo: u64,
    /// Transactions that were prepared and wait to be committed or rolled back.
    pub transactions_in_doubt: u64,
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
    /// The version-store file; none: off-row versions are in the data file.
    pub version_store_file: Option<PathBuf>,
    /// What keeps off-row versions from being freed, in words.
    pub versions_held_by: String,
    pub space: FreePages,
    /// The length of the data file; 0: page servers have the pages.
    pub data_file_bytes: u64,
    pub checkpoints: CheckpointStats,
    pub sweeps: u64,
    /// The temporary version store (traditional mode).
    pub temporary: TemporaryStats,
    /// Transactions that are prepared and not yet resolved.
    pub prepared: u64,
    /// Prepared transactions that were committed since open.
    pub prepared_committed: u64,
    /// Prepared transactions that were rolled back since open.
    pub prepared_rolled_back: u64,
    /// Transactions that are being undone in the background.
    pub undo_queue: u64,
    /// Records undone from the log since open.
    pub undo_records: u64,
    /// How long it took after the open to bring all pages up to date; none while that runs.
    pub redo_time: Option<Duration>,
    /// How long it took to undo what the last crash cut off; none while that runs.
    pub undo_time: Option<Duration>,
    pub rows_reverted: u64,
    pub rows_stripped: u64,
    pub rows_removed: u64,
    /// Rows that were deleted several to a record of the log, since open.
    pub rows_deleted_in_runs: u64,
    /// And inserted so; entries of indexes count as well, and what was taken back at once does not.
    pub rows_inserted_in_runs: u64,
    /// Temporary files that making indexes and rewriting tables needed to sort, since open.
    pub sort_files: u64,
}

/// See [`Database::damaged_page_list`].
#[derive(Clone, Debug)]
pub struct DamagedPage {
    pub page: PageId,
    /// Whose it is, if the space map can be read.
    pub object: Option<ObjectId>,
    /// It may lack records from here on.
    pub since: Lsn,
    /// The log that could bring it up to date is given up. An image of it that is as new as it was
    /// mends it, and so does an end of what it belongs to.
    pub set_aside: bool,
    pub error: String,
}

/// See [`Database::definition_counts`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionCounts {
    /// Definitions that were read from the catalog's tree since the open.
    pub read: u64,
    /// Trees of which the next row id is kept.
    pub row_id_counters: usize,
    /// Trees made since the open that are not freed.
    pub trees: usize,
}

/// A transaction that has written and not ended.
#[derive(Clone, Debug)]
pub struct ActiveTransaction {
    pub id: TxId,
    /// How long ago it first wrote.
    pub age: Duration,
    /// Its first and last log record; none before the first.
    pub first_lsn: Lsn,
    pub last_lsn: Lsn,
    /// The identifier under which it is prepared, if it is.
    pub prepared_as: Option<String>,
    /// Savepoints' and bulk statements' ids of its own, as inclusive ranges.
    pub subs: Vec<(TxId, TxId)>,
}

fn holder_in_words(holder: &LogHolder) -> String {
    format!("{}, which needs it since LSN {}", holder.name, holder.lsn)
}

/// The log's positions and what keeps it from being truncated further.
#[derive(Clone, Debug)]
pub struct LogStatus {
    pub end: Lsn,
    pub flushed: Lsn,
    /// The oldest position kept.
    pub oldest: Lsn,
    pub checkpoint: Lsn,
    pub bytes_in_use: u64,
    pub bytes_max: u64,
    /// In words.
    pub held_by: String,
    /// Times a writer was slowed down because the log was above its bound.
    pub writers_slowed: u64,
    /// Flushes that may be under way at once.
    pub flights_max: u64,
}

impl Database {
    /// Transactions that have written and not ended, oldest first.
    pub fn active_transactions(&self) -> Vec<ActiveTransaction> {
        let (active, _) = self.inner().txs.active();
        active
            .iter()
            .map(|tx| ActiveTransaction {
                id: tx.id,
                age: tx.since.elapsed(),
                first_lsn: Lsn(tx.first_lsn.load(Ordering::Relaxed)),
                last_lsn: tx.last_lsn(),
                prepared_as: tx.prepared_as.get().cloned(),
                subs: tx.subs(),
            })
            .collect()
    }

    /// Which transactions wait for which others, for a row or a table.
    pub fn lock_waits(&self) -> Vec<(TxId, TxId)> {
        self.inner().txs.waits().edges()
    }

    /// Aborted transactions whose row versions are not all reverted yet, by id: the oldest one
    /// and about the newest 100,000. Sub-transactions that aborted with their transaction are
    /// not named. [`Database::aborted_list`] says whether some are left out.
    pub fn aborted_transactions(&self) -> Vec<AbortedTx> {
        self.aborted_list().transactions
    }

    /// As [`Database::aborted_transactions`], with the number of ids that the map holds.
    pub fn aborted_list(&self) -> AbortedList {
        self.inner().txs.status_table().aborted().snapshot()
    }

    /// The id that the next transaction that writes gets.
    pub fn next_transaction(&self) -> TxId {
        self.inner().txs.next_id()
    }

    /// How many ids the aborted-transaction map holds, those of sub-transactions included.
    pub fn aborted_count(&self) -> u64 {
        self.inner().txs.status_table().aborted().len()
    }

    /// Where the log is, and what holds it.
    pub fn log_status(&self) -> LogStatus {
        let inner = self.inner();
        let checkpoint = self.last_checkpoint();
        let undo = self.oldest_undo();
        let oldest = inner.pool.oldest_rec_lsn();
        let needed = [oldest, undo.map(|(_, lsn)| lsn)].into_iter().flatten().fold(checkpoint, Lsn::min);
        let holder = inner.log.lowest_holder().filter(|holder| holder.lsn < needed);
        let held_by = match oldest {
            _ if holder.is_some() => holder.as_ref().map(holder_in_words).unwrap_or_default(),
            oldest if undo.is_some_and(|(_, lsn)| lsn < checkpoint && oldest.is_none_or(|oldest| lsn < oldest)) => {
                let (id, lsn) = undo.unwrap_or_default();
                let (active, _) = inner.txs.active();
                let gid = active.iter().find(|tx| tx.id == id).and_then(|tx| tx.prepared_as.get());
                let name = gid.map_or(String::new(), |gid| format!(", prepared as \"{gid}\""));
                format!(
                    "transaction {id}{name}, which is undone through the log, since LSN {lsn} (the traditional mode)"
                )
            }
            Some(lsn) if lsn < checkpoint => format!("pages that are not written since LSN {lsn}"),
            _ => format!("the last checkpoint, at LSN {checkpoint}"),
        };
        LogStatus {
            end: inner.log.end_lsn(),
            flushed: inner.log.flushed_lsn(),
            oldest: inner.log.oldest_lsn(),
            checkpoint,
            bytes_in_use: inner.log.bytes_in_use(),
            bytes_max: inner.options.log_bytes_max,
            held_by,
            writers_slowed: self.slowed(),
            flights_max: inner.log.config().flights as u64,
        }
    }

    /// All who hold the log besides recovery (the archive, for instance), and from where on.
    pub fn log_holders(&self) -> Vec<LogHolder> {
        self.inner().log.holders()
    }

    /// Keeps the log from `lsn` on for `name`, in words, until the hold is dropped. Writers are slowed down
    /// when that makes the log long.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when it is not kept any more.
    pub fn hold_log(&self, name: &str, lsn: Lsn) -> Result<LogHold> {
        self.inner().log.hold(name, lsn)
    }

    /// Whether work is accepted.
    ///
    /// # Errors
    /// `Stopped`: it is being closed, or writing its log or a page's change failed; open it anew.
    pub fn check_running(&self) -> Result<()> {
        let inner = self.inner();
        if inner.stopping.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Stopped, "the database is being closed"));
        }
        inner.pool.check_poisoned()?;
        inner.log.check_running()
    }

    /// Pending frees: storage that is to be freed, or kept, once the outcome of a
    /// transaction is past changing.
    pub fn pending_frees_len(&self) -> resurgam_base::Result<usize> {
        let inner = self.inner();
        Ok(inner.pending_frees.entries(&inner.pool)?.len())
    }

    /// Pages that recovery could not bring up to date.
    pub fn damaged_pages(&self) -> u64 {
        self.inner().pool.pending_redo().stuck()
    }

    /// Pages that recovery could not bring up to date: reading them is an error, all else goes on. Their
    /// log is kept until it gets too long, see [`DamagedPage::set_aside`].
    pub fn damaged_page_list(&self) -> Vec<DamagedPage> {
        let inner = self.inner();
        let of = |stuck: StuckPage| DamagedPage {
            page: stuck.page,
            object: inner.pool.space().owner(&inner.pool, stuck.page).ok().filter(|owner| owner.is_some()),
            since: stuck.entry.rec_lsn,
            set_aside: stuck.entry.aside,
            error: stuck.error,
        };
        inner.pool.pending_redo().stuck_pages().into_iter().map(of).collect()
    }

    /// Bytes of the pages in use, by whose they are: a table's rows ([`Table::rows_object`](crate::Table::rows_object)), an
    /// index's entries, off-row versions, large values of all tables, definitions; [`ObjectId::NONE`]: the
    /// space maps. Reads all of these, a page of 8 kB for 40 MB of the database.
    ///
    /// # Errors
    /// Those of reading.
    pub fn bytes_by_object(&self) -> resurgam_base::Result<hashbrown::HashMap<ObjectId, u64>> {
        let inner = self.inner();
        let mut pages = inner.pool.space().pages_by_owner(&inner.pool)?;
        pages.values_mut().for_each(|pages| *pages *= resurgam_base::limits::PAGE_SIZE as u64);
        Ok(pages)
    }

    /// About how many rows a table has, those among them that nobody sees any more.
    ///
    /// # Errors
    /// Those of reading some of its pages.
    pub fn row_count_estimate(&self, table: &crate::Table) -> resurgam_base::Result<u64> {
        table.tree.estimate(&self.inner().pool)
    }

    /// What the last finished sweep did, and how long ago that was.
    pub fn last_sweep(&self) -> Option<(SweepReport, Duration)> {
        self.inner().cleaner.last().map(|sweep| (sweep.report, sweep.ended.elapsed()))
    }

    /// What is known of definitions in memory: for tests of its bounds.
    #[doc(hidden)]
    pub fn definition_counts(&self) -> DefinitionCounts {
        let inner = self.inner();
        DefinitionCounts {
            read: inner.catalog.definitions_read(),
            row_id_counters: inner.catalog.row_id_counters(),
            trees: inner.known_trees().len(),
        }
    }

    /// A reading of everything.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        let cleaned = inner.cleaner.totals();
        Stats {
            pool: inner.pool.stats(),
            pool_pages: inner.pool.capacity() as u64,
            dirty_pages: inner.pool.dirty_count() as u64,
            pages_awaiting_redo: inner.pool.pending_redo().len(),
            log: inner.log.stats(),
            log_bytes_in_use: inner.log.bytes_in_use(),
            transactions: inner.txs.stats(),
            versions: VersionStoreStats {
                file_bytes: inner.pool.version_file().map_or(0, VersionFile::bytes),
                ..inner.versions.stats()
            },
            version_store_file: inner.pool.version_file().map(|file| file.path().to_path_buf()),
            versions_held_by: version_holders(&inner.txs),
            space: inner.pool.space().free_pages(),
            data_file_bytes: self.data_file_bytes(),
            checkpoints: inner.checkpoints.read(),
            sweeps: cleaned.sweeps,
            temporary: inner.txs.temporary().stats(),
            prepared: inner.prepared.len() as u64,
            prepared_committed: inner.prepared.resolved().0,
            prepared_rolled_back: inner.prepared.resolved().1,
            undo_queue: inner.mode.undo.len(),
            undo_records: inner.mode.undo.records(),
            redo_time: *inner.redo_time.lock(),
            undo_time: inner.mode.undo.finished(),
            rows_reverted: cleaned.report.reverted,
            rows_stripped: cleaned.report.stripped,
            rows_removed: cleaned.report.removed,
            rows_deleted_in_runs: inner.deleted_in_runs.load(Ordering::Relaxed),
            rows_inserted_in_runs: inner.inserted_in_runs.load(Ordering::Relaxed),
            sort_files: inner.sort_files.load(Ordering::Relaxed),
        }
    }
}
