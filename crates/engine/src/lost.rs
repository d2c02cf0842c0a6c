//! Rows whose earlier versions a restart has lost: those of transactions in doubt, in the
//! traditional mode. They are rebuilt from the log (`versions/src/lost.rs`), in the background
//! and transaction by transaction. Until then their readers wait, and nobody else does.
//!
//! # Invariants
//! 1. `rebuilt` of a transaction is held while its undo records are walked along, and by whoever
//!    commits it; once it is resolved nobody begins to walk.
//! 2. One that is rolled back stays in the list until it is in the queue of those that are
//!    undone: whoever finds nothing that waits here, and *then* nothing in the queue, has rows to
//!    read, or never will have.
//! 3. What cannot be read of one keeps nothing else waiting: its readers are told why, and all
//!    others read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, TxId};
use resurgam_txn::ActiveTx;
use resurgam_versions::rebuild_lost;

use crate::database::Database;

/// One transaction in doubt.
pub(crate) struct LostTx {
    pub tx: Arc<ActiveTx>,
    /// All of it is rebuilt.
    pub rebuilt: Mutex<bool>,
    resolved: AtomicBool,
    /// Some of its rows could not be read.
    failed: AtomicBool,
}

/// Those that are not rebuilt.
#[derive(Default)]
pub(crate) struct Lost {
    list: Mutex<Vec<Arc<LostTx>>>,
}

impl Lost {
    pub fn push(&self, tx: Arc<ActiveTx>) {
        let (resolved, failed) = (AtomicBool::new(false), AtomicBool::new(false));
        self.list.lock().push(Arc::new(LostTx { tx, rebuilt: Mutex::new(false), resolved, failed }));
    }

    pub fn of(&self, tx: TxId) -> Option<Arc<LostTx>> {
        self.list.lock().iter().find(|one| one.tx.id == tx).cloned()
    }

    pub fn remove(&self, tx: TxId) {
        self.list.lock().retain(|one| one.tx.id != tx);
    }

    pub fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }

    /// Whether rows may become readable by being rebuilt.
    pub fn is_waiting(&self) -> bool {
        self.list.lock().iter().any(|one| !one.failed.load(Ordering::SeqCst))
    }
}

impl LostTx {
    /// It is resolved, or is about to be: nobody is to walk along its undo records any more.
    pub fn resolve(&self) {
        self.resolved.store(true, Ordering::SeqCst);
    }
}

impl Database {
    /// Makes rows of transactions that a restart found in doubt readable again, as they were
    /// before, but for those that someone else is about. What fails is said in the log and to the readers concerned, and may be tried again.
    pub(crate) fn rebuild_lost(&self) {
        let inner = self.inner();
        let all = inner.prepared.lost.list.lock().clone();
        for lost in all {
            if inner.stopping.load(Ordering::Relaxed) {
                return;
            }
            // Held: someone else is about it.
            if let Some(mut rebuilt) = lost.rebuilt.try_lock() {
                self.rebuild_one(&lost, &mut rebuilt);
            }
        }
    }

    /// As [`Database::rebuild_lost`], of one whose `rebuilt` is held.
    pub(crate) fn rebuild_one(&self, lost: &LostTx, rebuilt: &mut bool) {
        let inner = self.inner();
        let stop = || lost.resolved.load(Ordering::SeqCst) || inner.stopping.load(Ordering::Relaxed);
        if *rebuilt || stop() {
            return;
        }
        match rebuild_lost(&inner.pool, &inner.log, &inner.txs, &lost.tx, &stop) {
            Ok(_) => {
                inner.txs.temporary().set_unreadable(lost.tx.id, Vec::new(), None);
                *rebuilt = true;
                inner.prepared.lost.remove(lost.tx.id);
            }
            Err(error) if stop() || waits(&error) => {
                tracing::debug!("rows of transaction {} are not rebuilt yet: {error}", lost.tx.id);
            }
            Err(error) => {
                // Readers are told from the first of the two on, and wait no more from the other.
                inner.txs.temporary().set_unreadable(lost.tx.id, lost.tx.subs(), Some(error.clone()));
                if !lost.failed.swap(true, Ordering::SeqCst) {
                    tracing::error!(
                        "rows of the prepared transaction {} cannot be read before it is resolved: {error}",
                        lost.tx.id
                    );
                }
            }
        }
    }
}

/// Whether an error goes by itself.
fn waits(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::OutOfMemory | ErrorKind::Stopped)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_base::Result;
    use resurgam_page::{ColumnType, DatumRef};
    use resurgam_vfs::{SimVfs, Vfs};

    use super::*;
    use crate::{Durability, Isolation, Options, Seen, TableSpec, Transaction};

    fn open() -> Result<Database> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let options = Options { background: false, accelerated_database_recovery: false, ..Options::default() };
        let db = Database::open_with(vfs, Path::new("/db"), options, |_| {})?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).primary_key(&["id"]);
        let table = tx.create_table(spec.column("v", ColumnType::Int8))?.done()?;
        for id in 0..600 {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Int8(0)])?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        Ok(db)
    }

    fn update(tx: &Transaction, ids: std::ops::Range<i64>) -> Result<()> {
        let Some(table) = tx.table("public", "t")? else { return Err(Error::internal("no table")) };
        for id in ids {
            let mut key = Vec::new();
            table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
            tx.update(&table, &key, Seen::Snapshot, &[DatumRef::Int8(id), DatumRef::Int8(1)])?.done()?;
        }
        Ok(())
    }

    /// As a restart would find it.
    fn prepare(db: &Database, gid: &str, ids: std::ops::Range<i64>) -> Result<TxId> {
        let tx = db.begin(Isolation::ReadCommitted);
        update(&tx, ids)?;
        tx.prepare(gid, "anna", "postgres")?.wait()?;
        let found = db.prepared().into_iter().find(|one| one.gid == gid);
        let id = found.map(|one| one.id).unwrap_or_default();
        let (active, _) = db.inner().txs.active();
        active.into_iter().filter(|tx| tx.id == id).for_each(|tx| db.inner().prepared.lost.push(tx));
        Ok(id)
    }

    #[test]
    fn nobody_waits_for_the_rows_of_others() -> Result<()> {
        let db = open()?;
        let lost = &db.inner().prepared.lost;
        let large = prepare(&db, "large", 0..500)?;
        for (turn, commits) in [true, false].into_iter().enumerate() {
            let from = 500 + turn as i64 * 10;
            let small = prepare(&db, "small", from..from + 5)?;
            if commits { db.commit_prepared("small")? } else { db.rollback_prepared("small")? }.wait()?;
            assert!(lost.of(small).is_none());
            assert!(lost.of(large).is_some(), "it was not touched");
        }
        // Nor for one that is being rebuilt right now.
        let held = lost.of(large);
        let held = held.as_ref().map(|large| large.rebuilt.lock());
        prepare(&db, "small", 520..525)?;
        db.commit_prepared("small")?.wait()?;
        db.rebuild_lost();
        assert!(lost.is_waiting() && held.is_some_and(|rebuilt| !*rebuilt));
        db.rebuild_lost();
        assert!(!lost.is_waiting() && lost.is_empty());
        Ok(())
    }

    /// Rows that were changed once take no memory while they are rebuilt.
    #[test]
    fn few_rows_are_remembered() -> Result<()> {
        let db = open()?;
        let tx = db.begin(Isolation::ReadCommitted);
        for _ in 0..3 {
            tx.savepoint()?;
            update(&tx, 0..20)?;
        }
        update(&tx, 20..600)?;
        tx.prepare("g", "anna", "postgres")?.wait()?;
        let inner = db.inner();
        let (active, _) = inner.txs.active();
        let report = rebuild_lost(&inner.pool, &inner.log, &inner.txs, &active[0], &|| false)?;
        assert_eq!((report.versions, report.rows_remembered), (580 + 60, 20));
        Ok(())
    }
}
