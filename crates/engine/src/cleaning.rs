//! The cleaner as the engine runs it, and what operators see of it: a sweep now, what the
//! cleaner is doing, what holds row versions back.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use resurgam_base::{CommitTs, Error, ErrorKind, ObjectId, Result, TxId, limits::PAGE_SIZE};
use resurgam_btree::Tree;
use resurgam_versions::{
    CleanerTotals, FinishedSweep, Pace, PaceSettings, Pressure, SweepProgress, SweepReport, Sweeping,
};

use crate::database::Database;

/// What the cleaner does and did since the database was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerStatus {
    /// The sweep that runs; none between sweeps.
    pub current: Option<SweepProgress>,
    /// The last one that ended.
    pub last: Option<FinishedSweep>,
    pub totals: CleanerTotals,
    /// How fast a sweep goes now, or would go.
    pub pace: Pace,
    /// The cleaner waits until recovery has brought all pages up to date.
    pub waits_for_redo: bool,
    /// Ids that the aborted-transaction map holds, those of sub-transactions included.
    pub aborted_ids: u64,
    /// Off-row versions, in bytes of their pages.
    pub version_store_bytes: u64,
    /// Threads of a sweep (`cleaner_threads`).
    pub threads_max: u32,
    /// Reads that began behind a range of deleted rows, which they would have walked over.
    pub reader_jumps: u64,
}

/// An active transaction that holds versions back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingTransaction {
    pub id: TxId,
    /// How long ago it first wrote.
    pub age: Duration,
    /// The same as a time, in microseconds since 2000-01-01 UTC.
    pub began_us: i64,
    /// Transactions that have written and not ended.
    pub active: u64,
}

/// A snapshot that holds versions back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingSnapshot {
    /// It sees commits up to here.
    pub ts: CommitTs,
    /// Commits since then that it does not see.
    pub commits_behind: u64,
    /// How long it has been held, at least: a statement's snapshot is dated when it is first
    /// noticed, within a second.
    pub age: Duration,
    /// The same as a time, in microseconds since 2000-01-01 UTC.
    pub began_us: i64,
    /// Snapshots in use.
    pub in_use: u64,
}

/// Aborted transactions whose rows await the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingAborted {
    /// Ids in the aborted-transaction map.
    pub ids: u64,
    pub oldest: TxId,
    /// When the oldest aborted, in microseconds since 2000-01-01 UTC; 0 = unknown (by a crash).
    pub aborted_us: i64,
    /// How long ago that was; of one that a crash cut off, since the open.
    pub age: Duration,
    /// Version pages that are kept for aborted transactions and for nobody else.
    pub pages: u64,
}

/// What holds row versions now, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionStoreHolders {
    /// Off-row versions: pages in use and their bytes.
    pub pages: u64,
    pub bytes: u64,
    /// The oldest transaction that has written and not ended (an in-doubt one is such a one).
    pub transaction: Option<HoldingTransaction>,
    /// The oldest snapshot, if commits have happened since.
    pub snapshot: Option<HoldingSnapshot>,
    pub aborted: Option<HoldingAborted>,
}

/// From this much age of the oldest aborted transaction on the cleaner goes faster, in intervals
/// of sweeps.
const AGED_INTERVALS: f64 = 6.0;
/// From this many aborted ids on the cleaner goes faster.
const MANY_ABORTED: u64 = 100_000;
/// Least version store from which it goes faster when none is set, in bytes.
const LARGE_STORE: u64 = 256 << 20;

impl Database {
    /// A complete sweep of the cleaner that begins now, as fast as it can go; returns what it
    /// did. Who asks while one runs waits for it and for the next one; those who ask together
    /// share it.
    ///
    /// # Errors
    /// Those of reading and writing pages and the log. Damaged pages are passed over and
    /// reported.
    pub fn clean_now(&self) -> Result<SweepReport> {
        self.clean_unless(&|| false)
    }

    /// As [`Database::clean_now`]; then puts rows of partly free leaves together on fewer ([`Database::pack_unless`]), and gives back what
    /// is free at the ends of the files, and elsewhere in them ([`Database::give_back_unless`]); the report says how much that was.
    ///
    /// # Errors
    /// As [`Database::clean_now`]; those of moving rows and pages and of changing the files.
    pub fn clean(&self) -> Result<SweepReport> {
        self.vacuum_unless(&|| false)
    }

    /// As [`Database::clean`], but ended early once `cancelled`; see [`Database::clean_unless`].
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn vacuum_unless(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<SweepReport> {
        let mut report = self.clean_unless(cancelled)?;
        // Without room for its log nothing is packed: all the more is what is free given back.
        let (packed, no_room) = match self.pack_if_any_went(cancelled) {
            Ok(packed) => (packed, None),
            Err(error) if error.kind() == ErrorKind::DiskFull => (0, Some(error)),
            Err(error) => return Err(error),
        };
        report.packed = packed;
        report.merged += report.packed;
        let given = self.give_back_unless(cancelled)?;
        if let Some(error) = no_room {
            return Err(error);
        }
        (report.pages_moved, report.bytes_cut, report.bytes_punched) =
            (given.pages_moved, given.bytes_cut, given.bytes_punched);
        if cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the clean-up was cancelled"));
        }
        Ok(report)
    }

    /// As [`Database::clean_now`], but ended early once `cancelled`, which is asked at every page
    /// and while another sweep is waited for. What was cleaned until then stays cleaned.
    ///
    /// # Errors
    /// `Cancelled`, also when the sweep came to its end just then.
    pub fn clean_unless(&self, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<SweepReport> {
        let report = self.sweep(true, cancelled)?;
        if cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the clean-up was cancelled"));
        }
        Ok(report)
    }

    /// A sweep, at the pace of the settings unless somebody asked for it.
    pub(crate) fn sweep(&self, asked: bool, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<SweepReport> {
        let inner = self.inner();
        self.regain_space()?;
        let mut trees: HashMap<ObjectId, Tree> = inner.known_trees();
        trees.extend(self.defined_trees()?.into_iter().map(|tree| (tree.object, tree)));
        let on = Sweeping {
            pool: &inner.pool,
            txs: &inner.txs,
            store: &inner.versions,
            pending_frees: &inner.pending_frees,
            tree_of: &|object| trees.get(&object).copied(),
            trees: &|| self.defined_trees(),
            tree_freed: &|object| inner.forget_tree(object),
            stop: &|| {
                let stop = || inner.stopping.load(Ordering::Relaxed) || cancelled();
                self.cleaner_waits(&stop);
                stop()
            },
            threads: inner.options.cleaner_threads(),
            unit_pages: inner.options.cleaner_unit_pages,
            pace: self.pace_settings(),
            pressure: &|| self.pressure(),
            now_us: inner.vfs.wall_clock_us(),
        };
        inner.cleaner.sweep(&on, asked)
    }

    /// The trees of all committed definitions, and that of the definitions.
    pub(crate) fn defined_trees(&self) -> Result<Vec<Tree>> {
        let inner = self.inner();
        let definitions = inner.catalog.committed(self)?;
        let tables = definitions.by_id.values().filter(|entry| entry.is_table());
        let of_tables = tables.flat_map(|table| {
            let indexes = table.indexes.iter().map(|index| index.tree);
            std::iter::once(table.tree).chain(indexes)
        });
        Ok(of_tables.chain([inner.catalog.tree]).collect())
    }

    /// Frees off-row versions that nobody needs any more, without a sweep. Returns how many
    /// pages. Done in the background about once a second. At the bound of the log it waits as a sweep does.
    pub fn free_versions(&self) -> Result<u64> {
        let inner = self.inner();
        let stop = || {
            let stop = || inner.stopping.load(Ordering::Relaxed);
            self.cleaner_waits(&stop);
            stop()
        };
        inner.cleaner.free_versions(&inner.pool, &inner.txs, &inner.versions, &stop)
    }

    /// From how many bytes on the version store is large: sweeps go faster, and the log says
    /// who holds it.
    pub(crate) fn large_version_store(&self) -> u64 {
        let options = &self.inner().options;
        match options.version_store_bytes_max {
            0 => (options.buffer_bytes as u64).max(LARGE_STORE),
            most => most / 4,
        }
    }

    fn pace_settings(&self) -> PaceSettings {
        let options = &self.inner().options;
        PaceSettings {
            pages_per_second: options.cleaner_pages_per_second,
            cpu_percent: options.cleaner_cpu_percent,
            version_bytes: self.large_version_store(),
            aborted_ids: MANY_ABORTED,
            aborted_age: Duration::from_secs_f64((options.cleaner_interval_s * AGED_INTERVALS).clamp(60.0, 1e9)),
        }
    }

    fn pressure(&self) -> Pressure {
        let inner = self.inner();
        Pressure {
            version_bytes: inner.versions.stats().pages * PAGE_SIZE as u64,
            aborted_ids: inner.txs.status_table().aborted().len(),
            aborted_age: self.oldest_aborted().map_or(Duration::ZERO, |(_, _, age)| age),
        }
    }

    /// The oldest aborted transaction: its id, when it aborted (0 = unknown), how long ago.
    fn oldest_aborted(&self) -> Option<(TxId, i64, Duration)> {
        let inner = self.inner();
        let (oldest, aborted_us) = inner.txs.status_table().aborted().oldest_since()?;
        let since_open = inner.opened.elapsed();
        let age = match aborted_us {
            0 => since_open,
            us => Duration::from_micros(u64::try_from(inner.vfs.wall_clock_us().saturating_sub(us)).unwrap_or(0)),
        };
        Some((oldest, aborted_us, age))
    }

    /// What the cleaner does and did.
    pub fn cleaner_status(&self) -> CleanerStatus {
        let inner = self.inner();
        let pace = inner.cleaner.pace(&self.pace_settings(), &|| self.pressure());
        CleanerStatus {
            current: inner.cleaner.current(pace),
            last: inner.cleaner.last(),
            totals: inner.cleaner.totals(),
            pace,
            waits_for_redo: !inner.pool.pending_redo().is_caught_up(),
            aborted_ids: inner.txs.status_table().aborted().len(),
            version_store_bytes: inner.versions.stats().pages * PAGE_SIZE as u64,
            threads_max: inner.options.cleaner_threads() as u32,
            reader_jumps: inner.empty_spans.jumps(),
        }
    }

    /// What holds row versions now, and since when.
    pub fn version_store_holders(&self) -> VersionStoreHolders {
        let inner = self.inner();
        let now_us = inner.vfs.wall_clock_us();
        let before = |since: Instant| {
            let age = since.elapsed();
            (age, now_us.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)))
        };
        let (active, _) = inner.txs.active();
        let transaction = active.iter().min_by_key(|tx| tx.id).map(|tx| {
            let (age, began_us) = before(tx.since);
            HoldingTransaction { id: tx.id, age, began_us, active: active.len() as u64 }
        });
        let snapshots = inner.txs.snapshots();
        let snapshot = snapshots.oldest().map(|oldest| {
            let (age, began_us) = before(oldest.since);
            let commits_behind = snapshots.visible().0.saturating_sub(oldest.ts.0);
            HoldingSnapshot { ts: oldest.ts, commits_behind, age, began_us, in_use: oldest.in_use as u64 }
        });
        let aborted = self.oldest_aborted().map(|(oldest, aborted_us, age)| HoldingAborted {
            ids: inner.txs.status_table().aborted().len(),
            oldest,
            aborted_us,
            age,
            pages: inner.versions.stats().held_by_aborted,
        });
        let pages = inner.versions.stats().pages;
        VersionStoreHolders { pages, bytes: pages * PAGE_SIZE as u64, transaction, snapshot, aborted }
    }
}
