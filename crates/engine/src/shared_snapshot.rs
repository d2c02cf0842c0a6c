//! A snapshot that several transactions read by: one shows its own, others begin with it, and all see the same commits.
//!
//! # Invariants
//! 1. Only the snapshot of an open REPEATABLE READ transaction is shared: it stays what it is, and keeps what it needs from being
//!    cleaned. Once that transaction has ended nobody begins with it any more; who did before keeps it.
//! 2. Nobody sees what another transaction has written and not committed: only commits are shared.

use std::sync::{Arc, Weak};

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_txn::SnapshotHold;

use crate::transaction::{Isolation, Transaction};

/// See the module. It keeps nothing by itself.
#[derive(Clone, Debug)]
pub struct SharedSnapshot {
    snapshot: Weak<SnapshotHold>,
    /// The version of the definitions that it sees.
    catalog_version: u64,
}

impl SharedSnapshot {
    /// Whether the transaction that shows it, or one that reads by it, is still open.
    pub fn is_there(&self) -> bool {
        self.snapshot.strong_count() > 0
    }
}

impl Transaction {
    /// Shows the transaction's snapshot, which is taken if it has none yet.
    ///
    /// # Errors
    /// `NotSupported` of a READ COMMITTED transaction; `InvalidTransactionState` of one that has ended.
    pub fn share_snapshot(&self) -> Result<SharedSnapshot> {
        if self.isolation() != Isolation::RepeatableRead {
            let what = "a snapshot is shared by transactions of REPEATABLE READ only";
            return Err(Error::new(ErrorKind::NotSupported, what));
        }
        drop(self.view()?);
        if let Some(seen) = self.0.db.until_visible()? {
            // It may be of a transaction that had locks already, and see what is not durable yet: others wait for nothing at their ends.
            seen.wait()?;
        }
        let state = self.0.state.lock();
        let Some(snapshot) = &state.snapshot else { return Err(Error::internal("no snapshot")) };
        Ok(SharedSnapshot { snapshot: Arc::downgrade(snapshot), catalog_version: state.catalog_version })
    }

    /// Reads by a snapshot that another transaction of the same server shows; false: there is none any more.
    ///
    /// # Errors
    /// `InvalidTransactionState` unless it is a REPEATABLE READ transaction that has neither read nor written.
    pub fn read_by(&self, shared: &SharedSnapshot) -> Result<bool> {
        let _operation = self.operation()?;
        let mut state = self.0.state.lock();
        if self.isolation() != Isolation::RepeatableRead || state.snapshot.is_some() || state.active.is_some() {
            let what = "a transaction can read by another one's snapshot only from its begin on";
            return Err(Error::new(ErrorKind::InvalidTransactionState, what));
        }
        let Some(snapshot) = shared.snapshot.upgrade() else { return Ok(false) };
        (state.snapshot, state.catalog_version) = (Some(snapshot), shared.catalog_version);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_vfs::SimVfs;

    use super::*;
    use crate::{Database, Durability, Options};

    #[test]
    fn who_reads_by_another_snapshot_sees_what_it_sees() -> Result<()> {
        let options = Options { background: false, ..Options::default() };
        let db = Database::open_with(Arc::new(SimVfs::new(1)), Path::new("/db"), options, |_| {})?;
        let begin = || db.begin(Isolation::RepeatableRead);
        let make = |name: &str| {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.create_table(crate::TableSpec::new("public", name).column("a", crate::ColumnType::Int4))?.done()?;
            tx.commit(Durability::Sync)?.wait()
        };
        let names = |tx: &Transaction| -> Result<Vec<String>> {
            tx.view()?;
            Ok(tx.tables()?.iter().map(|table| table.name.clone()).collect())
        };
        make("a")?;
        let first = begin();
        let shared = first.share_snapshot()?;
        make("b")?;
        let (second, late) = (begin(), begin());
        assert!(second.read_by(&shared)?);
        assert_eq!((names(&first)?, names(&second)?, names(&late)?.len()), (vec!["a".into()], vec!["a".into()], 2));
        assert_eq!(late.read_by(&shared).expect_err("too late").kind(), ErrorKind::InvalidTransactionState);
        let other = db.begin(Isolation::ReadCommitted);
        assert_eq!(other.share_snapshot().expect_err("it changes").kind(), ErrorKind::NotSupported);
        first.rollback()?;
        // Who has it keeps it; it goes with the last.
        assert!(shared.is_there() && names(&second)? == ["a"]);
        second.rollback()?;
        assert!(!shared.is_there() && !begin().read_by(&shared)?);
        Ok(())
    }
}
