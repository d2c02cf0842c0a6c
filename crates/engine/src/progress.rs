//! How far the filling of indexes and the rewriting of tables are, for an operator's view: which of their phases they are in, and how
//! many of its rows are done. Costs a lock that nobody else wants, once for a thousand rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::TxId;

use crate::database::Database;
use crate::table::Table;

/// What a build does with its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuildPhase {
    /// They are read; and written at once, as long as they come in order.
    #[default]
    Reading,
    /// Those that were put aside are merged, so that there are fewer runs of them.
    Sorting,
    /// They are merged into a tree; of a table that is rewritten, into one of its trees after the other.
    Writing,
}

/// An index or table that is being built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildStatus {
    /// The transaction that does it.
    pub transaction: TxId,
    /// Id of the table.
    pub table: u32,
    /// Id of the index; `None`: the whole table is rewritten, with all its indexes.
    pub index: Option<u32>,
    pub phase: BuildPhase,
    /// Rows of the phase: of the first one, those that the table had about when it began.
    pub rows_total: u64,
    /// Those of them that are done.
    pub rows_done: u64,
    /// Others write to the table meanwhile; the transaction is that of the rows which are looked at just now.
    pub concurrent: bool,
}

/// All builds that are under way.
#[derive(Default)]
pub(crate) struct Builds(Mutex<Vec<Arc<Entry>>>);

struct Entry {
    /// As it began.
    status: BuildStatus,
    transaction: AtomicU64,
    steps: Steps,
}

/// How far a phase is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Step {
    phase: BuildPhase,
    total: u64,
    done: u64,
}

/// Where a build is; whoever does a part of it notes that here.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<Mutex<Step>>);

impl Steps {
    /// A phase of so many rows begins. Gives back how far the one before it was, for [`Steps::go_back_to`].
    pub fn begin(&self, phase: BuildPhase, total: u64) -> Step {
        std::mem::replace(&mut *self.0.lock(), Step { phase, total, done: 0 })
    }
    pub fn go_back_to(&self, step: Step) {
        *self.0.lock() = step;
    }
    pub fn advance(&self, rows: u64) {
        self.0.lock().done += rows;
    }
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
        let steps = Steps::default();
        steps.begin(BuildPhase::Reading, table.tree.estimate(&db.inner().pool).unwrap_or(0));
        let transaction = AtomicU64::new(status.transaction.0);
        let entry = Arc::new(Entry { status, transaction, steps });
        db.inner().builds.0.lock().push(Arc::clone(&entry));
        Self { db: db.clone(), entry }
    }

    /// It goes on in this one.
    pub fn goes_on_in(&self, transaction: TxId) {
        self.entry.transaction.store(transaction.0, Ordering::Relaxed);
    }
    /// Rows of the table that were read.
    pub fn advance(&self, rows: usize) {
        self.entry.steps.advance(rows as u64);
    }
    pub fn steps(&self) -> Steps {
        self.entry.steps.clone()
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
            .map(|entry| {
                let Step { phase, total, done } = *entry.steps.0.lock();
                let transaction = TxId(entry.transaction.load(Ordering::Relaxed));
                BuildStatus { transaction, phase, rows_total: total, rows_done: done, ..entry.status.clone() }
            })
            .collect()
    }
}
