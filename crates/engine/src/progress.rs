//! How far the filling of indexes and the rewriting of tables are: a counter each, for an
//! operator's view. Costs one atomic addition for a thousand rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::TxId;

use crate::database::Database;
use crate::table::Table;

/// An index or table that is being built.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// All builds that are under way.
#[derive(Default)]
pub(crate) struct Builds(Mutex<Vec<Arc<Entry>>>);

struct Entry {
    status: BuildStatus,
    done: AtomicU64,
}

/// One build; it is over when this is dropped.
pub(crate) struct Build {
    db: Database,
    entry: Arc<Entry>,
}

impl Build {
    pub fn start(db: &Database, transaction: TxId, table: &Table, index: Option<u32>) -> Self {
        let rows_total = table.tree.estimate(&db.inner().pool).unwrap_or(0);
        let status = BuildStatus { transaction, table: table.id, index, rows_total, rows_done: 0 };
        let entry = Arc::new(Entry { status, done: AtomicU64::new(0) });
        db.inner().builds.0.lock().push(Arc::clone(&entry));
        Self { db: db.clone(), entry }
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
            .map(|entry| BuildStatus { rows_done: entry.done.load(Ordering::Relaxed), ..entry.status.clone() })
            .collect()
    }
}
