//! One statement of a transaction: what it sees, and how it writes.
//!
//! # Protocol
//! 1. A statement begins with a snapshot ([`Transaction::begin_statement`]). In READ COMMITTED that is a new
//!    one; in REPEATABLE READ it is the transaction's.
//! 2. One that writes many rows ([`StatementKind::BulkWrite`]) writes under an id of its own where the
//!    transaction has written before, and neither its view nor its operators meet what it wrote: a row is
//!    changed once ([`Change::SelfModified`]), and what it inserts it does not read.
//! 3. An operator that cannot go ahead ([`Attempt::Wait`], a duplicate) has taken back what it did of that
//!    row, under the statement's id; the same row may be tried again.
//! 4. A statement that fails is taken back whole by its transaction: by going back to a savepoint that was
//!    set before it, or by a rollback.
//! 5. A transaction has one statement at a time that writes. When the next begins, operators of the one
//!    before fail; its view may be read on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::{Error, Result, TxId};
use resurgam_page::types::DatumRef;
use resurgam_txn::Status;
use resurgam_versions::Seen;

use crate::load::Load;
use crate::rows::BulkInserter;
use crate::table::{RowBuf, Table};
use crate::transaction::{Attempt, Change, StatementKind, Transaction};
use crate::view::ReadView;

/// See the module's head.
pub struct Statement<'tx> {
    tx: &'tx Transaction,
    view: ReadView,
}

impl Transaction {
    /// Begins a statement.
    ///
    /// # Errors
    /// `InvalidTransactionState` when the transaction has ended.
    pub fn begin_statement(&self, kind: StatementKind) -> Result<Statement<'_>> {
        Ok(Statement { tx: self, view: self.statement(kind)? })
    }

    /// The statement that `view` is of, once more in hand.
    pub fn resume_statement(&self, view: ReadView) -> Statement<'_> {
        Statement { tx: self, view }
    }

    /// What the running statement wrote, it may change from here on (the actions of foreign keys do): what
    /// follows is a statement of its own to the rows.
    ///
    /// # Errors
    /// As [`Transaction::begin_statement`].
    pub fn begin_actions(&self) -> Result<Statement<'_>> {
        self.begin_statement(StatementKind::PointWrite)
    }
}

impl<'tx> Statement<'tx> {
    /// What it sees.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    pub fn transaction(&self) -> &'tx Transaction {
        self.tx
    }

    /// Refuses to write for a statement behind which another one has begun.
    fn check(&self) -> Result<()> {
        if self.tx.0.statements.load(Ordering::Relaxed) == self.view.statement {
            return Ok(());
        }
        Err(Error::internal("a statement writes while a later one of its transaction runs"))
    }

    /// As [`Transaction::lock_rows`].
    pub fn lock_table(&self, table: &Table) -> Result<Attempt<()>> {
        self.tx.lock_rows(table)
    }

    /// As [`Transaction::insert`].
    pub fn insert(&self, table: &Arc<Table>, row: &[DatumRef<'_>]) -> Result<Attempt<()>> {
        self.check()?;
        self.tx.insert(table, row)
    }

    /// As [`Transaction::load`].
    pub fn load(&self, table: &Arc<Table>) -> Load {
        self.tx.load(table)
    }

    /// As [`Transaction::bulk_insert`].
    pub fn bulk_insert(&self, table: &Arc<Table>) -> BulkInserter {
        self.tx.bulk_insert(table)
    }

    /// As [`Transaction::update_noting`].
    pub fn update(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        row: &[DatumRef<'_>],
        old: Option<&mut RowBuf>,
    ) -> Result<Attempt<Change>> {
        self.check()?;
        self.tx.update_noting(table, key, seen, row, old)
    }

    /// As [`Transaction::delete_noting`].
    pub fn delete(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        old: Option<&mut RowBuf>,
    ) -> Result<Attempt<Change>> {
        self.check()?;
        self.tx.delete_noting(table, key, seen, old)
    }

    /// Whether the version of the row under `key` that is `seen` is this statement's own.
    pub fn is_own_work(&self, table: &Table, key: &[u8], seen: Seen) -> bool {
        let Seen::Version(id) = seen else { return false };
        let again = |(object, k): &(resurgam_base::ObjectId, Vec<u8>)| *object == table.tree.object && k == key;
        let state = self.tx.0.state.lock();
        // Others have higher ids as well.
        let is_own = |top: TxId| self.tx.0.db.inner().txs.status(id) == Status::Active(top);
        state.bulk
            && id >= state.xid
            && state.active.as_ref().is_some_and(|active| is_own(active.id))
            && !state.taken_back.iter().any(again)
    }

    /// The row under `key`, which this statement has locked and left as it was, it may still change.
    pub fn locked_only(&self, table: &Table, key: &[u8]) {
        self.tx.0.state.lock().taken_back.push((table.tree.object, key.to_vec()));
    }

    /// As [`Transaction::lock_row_to_update`].
    pub fn lock_row_to_update(&self, table: &Arc<Table>, key: &[u8], seen: Seen) -> Result<Attempt<Change>> {
        self.check()?;
        self.tx.lock_row_to_update(table, key, seen)
    }
}
