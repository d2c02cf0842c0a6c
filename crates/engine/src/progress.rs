//! How far the filling of indexes and the rewriting of tables are: a counter each, for an
//! operator's view. Costs one atomic addition for a thousand rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::TxId;

use crate::database::Database;
use crate::table::Table;

/// An index or table that is being built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildStatus {
    /// The transaction that does it.
    pub transaction: TxId,
    /// Id of the table.
    pub table: u32,
    /// Id of the index; `None`: the whole table is rewritten, with all its indexes.
    pub index: Option<u32>,
    /// Rows that the table had about when it began.
    pub rows_total: u64,
    pub rows_done: u64,
    /// Others write to the table meanwhile; the transaction is that of the rows which are looked at just now.
    pub concurrent: bool,
}

/// All builds that are under way.
#[derive(Default)]
pub(crate) struct Builds(Mutex<Vec<Arc<Entry>>>);

struct Entry {
    status: BuildStatus,
    /// Instead of the one that it began with.
    transaction: AtomicU64,
    done: AtomicU64,
}

/// One build; it is over when this is dropped.
pub(crate) struct Build {
    db: Database,
    entry: Arc<Entry>,
}

impl Build {
    pub fn start(db: &Database, transaction: TxId, table: &Table, index: Option<u32>) -> Self {
        Self::begin(db, table, BuildStatus { transaction, table: table.id, index, ..BuildStatus::default() })
    }

    /// One that goes on in a transaction after the other, while others write to the table.
    pub fn start_concurrent(db: &Database, table: &Table, index: u32) -> Self {
        let index = Some(index);
        Self::begin(db, table, BuildStatus { table: table.id, index, concurrent: true, ..BuildStatus::default() })
    }

    fn begin(db: &Database, table: &Table, status: BuildStatus) -> Self {
        let rows_total = table.tree.estimate(&db.inner().pool).unwrap_or(0);
        let status = BuildStatus { rows_total, ..status };
        let transaction = AtomicU64::new(status.transaction.0);
        let entry = Arc::new(Entry { status, transaction, done: AtomicU64::new(0) });
        db.inner().builds.0.lock().push(Arc::clone(&entry));
        Self { db: db.clone(), entry }
    }

    /// It goes on in this one.
    pub fn goes_on_in(&self, transaction: TxId) {
        self.entry.transaction.store(transaction.0, Ordering::Relaxed);
    }
    pub fn advance(&self, rows: usize) {
        self.entry.done.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        self.db.inner().builds.0.lock().retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

impl Database {
    /// Indexes that are being filled and tables that are being rewritten, oldest first.
    pub fn builds(&self) -> Vec<BuildStatus> {
        let builds = self.inner().builds.0.lock();
        builds
            .iter()
            .map(|entry| BuildStatus {
                transaction: TxId(entry.transaction.load(Ordering::Relaxed)),
                rows_done: entry.done.load(Ordering::Relaxed),
                ..entry.status.clone()
            })
            .collect()
    }
}
