//! Locks by name: LOCK TABLE, what it keeps readers from, and who holds what.
//!
//! A lock by name is held until the transaction ends or goes back to a savepoint that was set before it. It takes no
//! snapshot: the first statement after it sees what was committed by whoever held the table before, once that is visible
//! ([`Database::until_visible`]): a lock is free as soon as a commit is decided, which is before it is durable.
//!
//! Readers hold nothing. While a table is locked by name in `ACCESS EXCLUSIVE`, statements of others that read it wait before
//! they begin ([`Transaction::until_readable`]); one that has begun goes on, and sees what it saw.

use resurgam_base::{Error, ErrorKind, ObjectId, Result, TxId};
use resurgam_txn::{Lock, LockMode, LockRow};

use crate::database::Database;
use crate::table::Table;
use crate::transaction::{Attempt, CommitTicket, Transaction, check_open};

impl Transaction {
    /// Its id, given now if it has none; without a snapshot.
    pub(crate) fn id_to_wait(&self) -> Result<TxId> {
        let mut state = self.0.state.lock();
        check_open(&state)?;
        if let Some(active) = &state.active {
            return Ok(active.id);
        }
        let active = self.0.db.inner().txs.begin();
        state.xid = active.id;
        let id = active.id;
        state.active = Some(active);
        Ok(id)
    }

    /// Its id, given now if it has none: for whoever asks for it by name.
    ///
    /// # Errors
    /// Those of an ended transaction.
    pub fn assigned_id(&self) -> Result<TxId> {
        let _operation = self.operation()?;
        self.id_to_wait()
    }

    /// Locks a table or view by name. Done: whether its definition is still `table`; if not, look again for what the name means.
    /// `at_once`: it is not waited for.
    ///
    /// # Errors
    /// `LockNotAvailable` where it is not to be waited for; those of an ended transaction; a deadlock.
    pub fn lock_by_name(&self, table: &Table, mode: LockMode, at_once: bool) -> Result<Attempt<bool>> {
        let object = ObjectId(table.id);
        let inner = self.0.db.inner();
        let _operation = self.operation()?;
        let id = self.id_to_wait()?;
        let refused = || {
            let name = &table.name;
            Error::new(ErrorKind::LockNotAvailable, format!("could not obtain lock on relation \"{name}\""))
        };
        if at_once {
            let unfinished = inner.mode.undo.first().filter(|unfinished| *unfinished != id);
            let is_undone = mode.conflicts_with(LockMode::RowExclusive) && unfinished.is_some();
            if is_undone || self.enter()?.is_some() {
                return Err(refused());
            }
            inner.locks.try_lock_at_once(object, id, Lock::by_name(mode)).map_err(|_| refused())?;
        } else if let Some(wait) = self.lock_table(object, Lock::by_name(mode))? {
            return Ok(Attempt::Wait(wait));
        }
        let mut state = self.0.state.lock();
        if !state.locked_by_name.contains(&(object, mode)) {
            state.locked_by_name.push((object, mode));
        }
        drop(state);
        self.is_newest(table).map(Attempt::Done)
    }

    /// The transactions that a change of `table`'s definition would have to wait for now, as far as they hold its lock.
    pub fn in_the_way_of_change(&self, table: &Table) -> Vec<TxId> {
        let own = self.0.state.lock().active.as_ref().map_or(TxId::NONE, |active| active.id);
        self.0.db.inner().locks.holders(ObjectId(table.id), own, LockMode::AccessExclusive)
    }

    /// Takes back what it has asked of `table`'s lock and not got: whoever asked for it since does not wait for this transaction
    /// any more. A lock that it has it keeps.
    pub fn withdraw_lock(&self, table: &Table) {
        let object = ObjectId(table.id);
        let mut state = self.0.state.lock();
        state.requested.retain(|requested| *requested != object);
        if let Some(active) = &state.active
            && self.0.db.inner().locks.withdraw(object, active.id)
        {
            self.0.db.inner().txs.ended(active.id);
        }
    }

    /// Whether it has written to an entry of the catalog, or made or changed it.
    pub fn has_touched(&self, entry: &Table) -> bool {
        let state = self.0.state.lock();
        state.locked.contains(&ObjectId(entry.id)) || state.catalog.generation(entry.id).is_some()
    }

    /// Waits for whoever keeps others from reading `table`.
    ///
    /// # Errors
    /// Those of an ended transaction; a deadlock.
    pub fn until_readable(&self, table: &Table) -> Result<Attempt<()>> {
        let inner = self.0.db.inner();
        let object = ObjectId(table.id);
        let Some(holder) = inner.locks.closed_by(object) else { return Ok(Attempt::Done(())) };
        let id = self.id_to_wait()?;
        if holder == id {
            return Ok(Attempt::Done(()));
        }
        let is_closed = || inner.locks.closed_by(object) == Some(holder);
        Ok(Attempt::Wait(inner.txs.wait_for_lock(id, holder, is_closed)?))
    }
}

impl Database {
    /// Whether some table is locked by name in `ACCESS EXCLUSIVE`, so that readers may have to wait.
    #[inline]
    pub fn is_any_table_closed(&self) -> bool {
        self.inner().locks.any_closed()
    }

    /// Completes when everything that is committed by now is seen by new snapshots.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn until_visible(&self) -> Result<Option<CommitTicket>> {
        self.inner().txs.seen_from().map(|end| self.durable(end)).transpose()
    }

    /// All locks on tables, views and other objects of the catalog that are held or asked for.
    pub fn locks(&self) -> Vec<LockRow> {
        self.inner().locks.rows()
    }

    /// Who waits for whom, as ids of transactions.
    pub fn waits(&self) -> Vec<(TxId, TxId)> {
        self.inner().txs.waits().edges()
    }
}
