//! A session's transaction: how it begins, what it holds, and how it ends.
//!
//! ```text
//! Idle --statement--> implicit --end of Query / Sync--> Idle
//! Idle --BEGIN--> block --COMMIT/ROLLBACK--> Idle
//! block --error--> failed --COMMIT/ROLLBACK--> Idle
//! ```
//! A failed block has given its locks back already: the engine's transaction is rolled back at the error, or goes back to
//! the newest savepoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::sql::sqlparser::ast::Statement;
use parking_lot::Mutex;
use resurgam_engine::{Durability, ErrorKind, Interrupt, Isolation, Savepoint, Transaction};

use crate::dml::foreign::{Deferred, Modes};
use crate::exec::wait::guarded;
use crate::pg::context::PgContext;

use crate::pg::{notify, user_types};
use crate::plan::statement::Kind;
use crate::session::Session;
use crate::session::settings::Hot;
use crate::session::shared::now;
use crate::wire::{SqlError, TransactionStatus};

/// The open transaction.
pub(crate) struct Open {
    pub txn: Transaction,
    /// Begun by BEGIN.
    pub block: bool,
    pub read_only: bool,
    /// A statement has run: its isolation is fixed.
    pub used: bool,
    /// Innermost last.
    pub savepoints: Vec<NamedSavepoint>,
    /// Foreign keys that have to hold at its end.
    pub deferred: Arc<Mutex<Deferred>>,
}

/// A savepoint as SQL knows it. Names may be taken again; the newest counts.
pub(crate) struct NamedSavepoint {
    pub name: String,
    pub savepoint: Savepoint,
    /// Changes of settings before it.
    pub settings: usize,
    /// What SET CONSTRAINTS had said.
    pub constraints: Modes,
    /// Portals that there had been in the session: later ones go with it.
    pub portals: u64,
    /// Advisory locks that the transaction had taken.
    pub advisory: usize,
    /// What it was going to tell.
    pub notifications: notify::Mark,
}

impl Session {
    /// `I`, `T` or `E` of `ReadyForQuery`.
    pub fn transaction_status(&self) -> TransactionStatus {
        match &self.open {
            _ if self.failed => TransactionStatus::Failed,
            Some(open) if open.block => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    /// The open transaction, begun if there is none.
    #[inline]
    pub(crate) fn transaction(&mut self) -> &mut Open {
        if self.open.is_none() {
            let Hot { repeatable_read, read_only, .. } = self.hot();
            let isolation = if repeatable_read { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            self.begin(isolation, read_only, false);
        }
        match &mut self.open {
            Some(open) => open,
            None => unreachable!("just begun"),
        }
    }

    /// A transaction of the engine, whose long work and waits see that the statement has to stop: it is cancelled, out of
    /// time, or the session ends. Between statements (a rollback) nothing stops it.
    pub(crate) fn engine_transaction(&self, isolation: Isolation) -> Transaction {
        let txn = self.db.engine.begin(isolation);
        txn.set_interrupt(Some(self.interrupt()));
        txn.set_sort_files(Some(Arc::clone(&self.sort_files)));
        txn
    }

    /// What long work and waits of the engine ask whether the statement has to stop.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let stop = Arc::clone(&self.shared.stop);
        Arc::new(move || {
            if !stop.is_running() {
                return Ok(());
            }
            stop.check_time().map_err(|error| {
                let kind = if error.sqlstate == "57P01" { ErrorKind::Stopped } else { ErrorKind::Cancelled };
                resurgam_base::Error::new(kind, error.into_fields().message)
            })
        })
    }

    /// The statement is of a transaction that need not be there; see [`Session::select_plainly`].
    pub(crate) fn begin_plainly(&mut self) {
        if !self.begun_plainly {
            self.begun_plainly = true;
            self.shared.transaction_start.store(self.shared.statement_start(), Ordering::Relaxed);
        }
    }

    /// It ends, if that is all there was of it.
    pub(super) fn end_plainly(&mut self) {
        self.begun_plainly = false;
        self.close_portals();
        self.ended(true);
    }

    pub(crate) fn begin(&mut self, isolation: Isolation, read_only: bool, block: bool) {
        let txn = self.engine_transaction(isolation);
        *self.shared.txn.lock() = Some(txn.clone());
        // That of the statement that begins it, as in PostgreSQL.
        if !self.begun_plainly {
            let start = if self.shared.stop.is_running() { self.shared.statement_start() } else { now() };
            self.shared.transaction_start.store(start, Ordering::Relaxed);
        }
        let deferred = self.deferred_unused.take().unwrap_or_default();
        self.open = Some(Open { txn, block, read_only, used: false, savepoints: Vec::new(), deferred });
    }

    /// Commits what is open, if anything, and waits until it is durable. Settings are part of it:
    /// those of a transaction that cannot be committed are taken back.
    pub(crate) async fn commit(&mut self) -> Result<(), SqlError> {
        self.begun_plainly = false;
        if self.open.as_ref().is_some_and(|open| !open.deferred.lock().is_empty()) {
            self.shared.stop.begin();
            let types = self.type_source();
            let checked = Box::pin(user_types::scope(types, self.check_deferred(false))).await;
            self.shared.stop.end();
            if let Err(error) = checked {
                // Takes the settings back as well.
                self.roll_back();
                return Err(error);
            }
        }
        if self.has_work_at_commit() {
            self.shared.stop.begin();
            let types = self.type_source();
            let done = Box::pin(user_types::scope(types, self.work_at_commit())).await;
            self.shared.stop.end();
            if let Err(error) = done {
                self.roll_back();
                return Err(error);
            }
        }
        if self.shared.has_pending() {
            return Box::pin(self.commit_telling()).await;
        }
        let committed = match self.open.take() {
            None => Ok(()),
            Some(open) => {
                *self.shared.txn.lock() = None;
                let durability = if self.hot().synchronous { Durability::Sync } else { Durability::Async };
                self.close_portals();
                match open.txn.commit(durability) {
                    Ok(ticket) => {
                        let Open { txn, deferred, .. } = open;
                        drop(txn);
                        self.keep_for_next(deferred);
                        if ticket.is_done() { Ok(()) } else { ticket.await }
                    }
                    Err(error) => {
                        self.met |= open.txn.had_met();
                        Err(error)
                    }
                }
            }
        };
        self.ended(committed.is_ok());
        Ok(committed?)
    }

    /// The transaction has ended: what of the session goes by how.
    pub(crate) fn ended(&mut self, committed: bool) {
        self.portals.decide(committed);
        self.end_settings(committed);
    }

    /// The open transaction is no longer the session's.
    pub(crate) fn leave_transaction(&mut self, done: bool) {
        self.begun_plainly = false;
        *self.shared.txn.lock() = None;
        self.open = None;
        self.end_settings(done);
        self.close_portals();
        self.portals.decide(done);
    }

    /// Rolls back what is open, if anything.
    pub(crate) fn roll_back(&mut self) {
        self.drop_transaction();
        self.end_settings(false);
    }

    /// Settings when a transaction has ended: those that it has set stay, or not. Its advisory locks end.
    pub(super) fn end_settings(&mut self, committed: bool) {
        self.closing.clear();
        if let Some(locks) = self.shared.advisory_used() {
            locks.back_to(self.shared.pid, 0);
        }
        if self.shared.signals.is_changed() {
            self.shared.variables.lock().end_transaction(committed);
        }
    }

    /// Has new snapshots see what a transaction had met that was rolled back.
    pub(crate) async fn until_met_is_seen(&mut self) -> Result<(), SqlError> {
        if let Some(ticket) = self.db.engine.until_visible()? {
            let stop = Arc::clone(&self.shared.stop);
            guarded(&stop, self.deadline(), async { ticket.await.map_err(SqlError::from) }).await?;
        }
        self.met = false;
        Ok(())
    }

    /// What no transaction has used is the next one's.
    pub(super) fn keep_for_next(&mut self, mut deferred: Arc<Mutex<Deferred>>) {
        if Arc::get_mut(&mut deferred).is_some_and(|deferred| deferred.get_mut().is_unused()) {
            self.deferred_unused = Some(deferred);
        }
    }

    /// As [`Session::roll_back`], without the settings.
    pub(crate) fn drop_transaction(&mut self) {
        if self.shared.has_pending() {
            self.shared.take_pending();
        }
        self.begun_plainly = false;
        *self.shared.txn.lock() = None;
        if let Some(open) = self.open.take() {
            if let Err(error) = open.txn.rollback() {
                tracing::error!(%error, "rollback failed");
            }
            self.met |= open.txn.had_met();
        }
        self.close_portals();
        self.portals.decide(false);
    }

    /// A statement failed: the transaction is rolled back, at once as far as nothing can bring
    /// it back (its newest savepoint, if it has any); a block waits for its end.
    pub(crate) fn statement_failed(&mut self) {
        self.shared.stop.end();
        let block = self.open.as_ref().is_some_and(|open| open.block);
        let newest = self.open.as_ref().map_or(0, |open| open.savepoints.len());
        if newest > 0 {
            if !self.failed
                && let Err(error) = self.go_back(newest - 1)
            {
                tracing::error!(%error, "going back to a savepoint failed");
                self.roll_back();
            }
        } else {
            self.roll_back();
        }
        self.failed |= block;
        self.end_statement();
    }

    /// No statement runs any more: while the transaction is idle it keeps no row versions for one.
    pub(super) fn end_statement(&self) {
        let Some(open) = &self.open else { return };
        match self.portals.any_running() {
            true => open.txn.end_statement(),
            // A plan that was left lets go of its view on its own thread.
            false => open.txn.leave_statement(),
        }
    }

    /// Takes back everything since the savepoint at `at`, which stays; those after it go.
    ///
    /// Portals that were made before it stay, as PostgreSQL has it: what they read is not what is
    /// taken back.
    pub(crate) fn go_back(&mut self, at: usize) -> Result<(), SqlError> {
        // Plans may name tables that are no more.
        self.forget_local();
        let Some(open) = &mut self.open else { return Err(SqlError::internal("no transaction")) };
        open.savepoints.truncate(at + 1);
        let Some(to) = open.savepoints.last() else { return Err(SqlError::internal("no savepoint")) };
        let until = to.portals;
        if let Some(locks) = self.shared.advisory_used() {
            locks.back_to(self.shared.pid, to.advisory);
        }
        if self.shared.has_pending() {
            self.shared.pending.lock().back_to(to.notifications);
        }
        self.portals.retain(|portal| portal.number <= until);
        open.txn.rollback_to(to.savepoint)?;
        open.deferred.lock().back_to(to.constraints.clone());
        self.shared.variables.lock().back_to(to.settings);
        Ok(())
    }

    /// A statement succeeded; commits if it was a transaction of its own.
    pub(crate) async fn statement_done(&mut self, autocommit: bool) -> Result<(), SqlError> {
        self.shared.stop.end();
        if autocommit && !self.in_block() {
            self.commit().await?;
        }
        self.end_statement();
        Ok(())
    }

    /// The server tells of a failure that this layer did not see.
    pub fn error_occurred(&mut self) {
        self.statement_failed();
    }

    pub(super) fn refuse_if_failed(&self, kind: &Kind) -> Result<(), SqlError> {
        if !self.failed {
            return Ok(());
        }
        match kind {
            Kind::Utility(statement)
                if matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. }) =>
            {
                Ok(())
            }
            Kind::Own(own) if own.is_allowed_when_failed() => Ok(()),
            _ => Err(aborted()),
        }
    }

    pub(crate) fn refuse_if_read_only(&mut self, what: &str) -> Result<(), SqlError> {
        if self.transaction().read_only {
            return Err(SqlError::new("25006", format!("cannot execute {what} in a read-only transaction")));
        }
        Ok(())
    }
}

pub(crate) fn aborted() -> SqlError {
    SqlError::new("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}
