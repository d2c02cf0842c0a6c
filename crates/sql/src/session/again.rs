//! Statements that are planned and run again because a definition changed, or because they met their limit of memory.
//!
//! PostgreSQL locks a table when it plans a statement, so a plan never lags behind the definitions. Here
//! a table is locked when the first row is written. Until then another transaction may change the
//! definitions that the statement was planned with: before the lock is taken, while the statement waits for
//! it, or, for a table that only a cascade reaches, when rows are already written. In READ COMMITTED that is
//! not a conflict: what the statement did is undone, and it is planned and run again, at most [`RUNS_MAX`]
//! times in all.
//!
//! # Invariants
//! 1. A statement runs again only if nothing of its result was sent: only errors that come out of
//!    [`Session::run`] count. For results that are streamed, the definitions of the plan are compared
//!    with those of the snapshot before the first row ([`Session::refuse_older_plan`]).
//! 2. Everything that a run did is undone: the transaction goes back to a savepoint, or starts anew if it
//!    had done nothing before. If the run only locked rows, they stay locked.
//! 3. A cancel, and `statement_timeout`, count for all runs together.
//! 4. In REPEATABLE READ the error (`40001`) reaches the client: its snapshot cannot become newer. One that met its limit of
//!    memory and only reads is run again there, too.

use std::sync::Arc;

use resurgam_engine::{Isolation, ReadView, Savepoint};

use crate::pg::memory;
use crate::pg::notify::Mark;
use crate::plan::statement::Prepared;
use crate::session::Session;
use crate::wire::SqlError;

/// Runs of one statement; each but the first follows somebody's change of definitions.
const RUNS_MAX: usize = 16;

/// How what the running statement did is taken back.
#[derive(Clone, Copy, Debug, Default)]
enum Undo {
    /// Not at all: it is not to be run again.
    #[default]
    No,
    /// It does nothing before it knows that its definitions are the newest.
    Nothing,
    /// Its transaction did nothing before it, and is begun anew.
    Begin,
    To(Savepoint),
}

/// Where the running statement is with its runs.
#[derive(Debug, Default)]
pub(crate) struct Again {
    undo: Undo,
    /// Runs that were taken back.
    runs: usize,
    /// It may have written when it ends.
    writes: bool,
    /// Notices that there were before it.
    notices: usize,
    /// What its transaction was going to tell.
    told: Mark,
    /// It runs others, which are taken back with it.
    keeps_undo: bool,
}

impl Session {
    /// A statement begins.
    pub(crate) fn first_run(&mut self) {
        self.shared.stop.limits.set_lean(false);
        self.look_at_settings();
        let told = if self.shared.has_pending() { self.shared.pending.lock().mark() } else { Mark::default() };
        self.again = Again { notices: self.notices.len(), told, ..Again::default() };
    }

    /// Whether the running statement is run again: no plan that is kept will do.
    pub(crate) fn is_run_again(&self) -> bool {
        self.again.runs > 0
    }

    /// It is about to run. `writes`: it may have written rows when it finds that a definition is
    /// not the newest any more.
    ///
    /// # Errors
    /// Those of setting a savepoint.
    pub(crate) fn note_undo(&mut self, writes: bool) -> Result<(), SqlError> {
        if self.again.keeps_undo {
            return Ok(());
        }
        let txn = &self.transaction().txn;
        let undo = match txn.isolation() {
            Isolation::RepeatableRead => Undo::No,
            Isolation::ReadCommitted if !txn.has_written() => Undo::Begin,
            Isolation::ReadCommitted if writes => Undo::To(txn.savepoint()?),
            Isolation::ReadCommitted => Undo::Nothing,
        };
        (self.again.undo, self.again.writes) = (undo, writes);
        Ok(())
    }

    /// The statement runs others from here on, or does no more: they are taken back with it.
    pub(crate) fn keep_undo(&mut self, keep: bool) {
        self.again.keeps_undo = keep;
    }

    /// Whether a statement that failed is to be planned and run again; what it did is then taken
    /// back.
    pub(crate) fn runs_again(&mut self, error: &SqlError) -> bool {
        let limits = &self.shared.stop.limits;
        // Once more, with operators that take less (`merge_join.rs`).
        let is_starved = error.sqlstate == "53200" && !limits.is_lean();
        if error.sqlstate == "53200" {
            // What it had is free by now, and may be much.
            memory::collect();
        }
        if !(error.definition_changed || is_starved) || self.again.runs + 1 >= RUNS_MAX {
            return false;
        }
        let undo = std::mem::take(&mut self.again.undo);
        let Some(open) = &mut self.open else { return false };
        let taken_back = match undo {
            // The same snapshot will do for one that only reads.
            Undo::No if is_starved && !self.again.writes => Ok(()),
            Undo::No => return false,
            Undo::Nothing => Ok(()),
            Undo::To(savepoint) => open.txn.rollback_to(savepoint),
            Undo::Begin => {
                let isolation = open.txn.isolation();
                let txn = self.engine_transaction(isolation);
                let Some(open) = &mut self.open else { return false };
                let before = std::mem::replace(&mut open.txn, txn.clone());
                *self.shared.txn.lock() = Some(txn.clone());
                // Savepoints that are set now are before its first write as well.
                let begun = if open.savepoints.is_empty() { Ok(()) } else { txn.savepoint().map(|_| ()) };
                let rolled_back = before.rollback();
                self.met |= before.had_met();
                rolled_back.and(begun)
            }
        };
        if let Err(error) = taken_back {
            tracing::error!(%error, "taking a statement back failed");
            return false;
        }
        if is_starved {
            self.shared.stop.limits.set_lean(true);
        }
        self.notices.truncate(self.again.notices);
        if self.shared.has_pending() {
            self.shared.pending.lock().back_to(self.again.told);
        }
        // Plans may name tables that are no more.
        self.forget_local();
        self.again.runs += 1;
        true
    }

    /// The error that has a statement planned again, if its plan is older than its view: rows may
    /// have been sent when a table turns out to be another one.
    pub(crate) fn refuse_older_plan(&self, prepared: &Arc<Prepared>, view: &ReadView) -> Result<(), SqlError> {
        let may_run_again = !matches!(self.again.undo, Undo::No) && self.again.runs + 1 < RUNS_MAX;
        let own = self.open.as_ref().is_some_and(|open| open.txn.has_catalog_changes());
        if !may_run_again || own || prepared.catalog_version == view.catalog_version() {
            return Ok(());
        }
        let mut error = SqlError::new("40001", "a definition was changed while the statement was planned");
        error.definition_changed = true;
        Err(error)
    }
}
