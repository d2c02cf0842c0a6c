//! Writing one row of a table: its CHECK constraints, the engine's operator, waiting for whoever is in the
//! way, and errors with the names that clients want to know. Everything that writes a row comes through here.

use std::sync::Arc;

use resurgam_engine::{Change, DatumRef, Load, ReadView, RowBuf, Seen, Statement, Table, Transaction};

use super::source::ROWS_PER_TURN;
use crate::dml::check::{Checks, Part};
use crate::exec::bridge;
use crate::exec::compute;
use crate::exec::direct::{Row, Values};
use crate::exec::wait::{Waiting, settle};
use crate::planted::Planted;
use crate::wire::SqlError;

/// Who writes rows of a table for a statement.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub statement: &'a Statement<'a>,
    pub table: &'a Arc<Table>,
    pub checks: &'a Checks,
    pub waiting: &'a Waiting<'a>,
}

impl<'a> Writer<'a> {
    pub(crate) fn txn(&self) -> &'a Transaction {
        self.statement.transaction()
    }

    /// The statement's view; large values are read through it.
    pub(crate) fn view(&self) -> &'a ReadView {
        self.statement.view()
    }

    fn row<'r>(&'r self, row: &'r [DatumRef<'r>]) -> Row<'r> {
        Row { table: self.table, values: Values::Given(row), view: self.view() }
    }

    /// Refuses a row that breaks a constraint of the table which is known from the row alone.
    ///
    /// # Errors
    /// Those of domains before `42501` before `23502` before `23514`.
    pub(crate) fn refuse(&self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        self.refuse_by(Part::Rules, row)
    }

    /// The same of what ON CONFLICT DO UPDATE makes of a row.
    ///
    /// # Errors
    /// As [`Writer::refuse`].
    pub(crate) fn refuse_updated(&self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        self.refuse_by(Part::Updated, row)
    }

    fn refuse_by(&self, rules: Part, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        if self.checks.is_empty() {
            return Ok(()); // the engine tells of a NULL where there must be none
        }
        for part in [Part::Given, Part::Made, rules] {
            self.checks.refuse(part, self.row(row))?;
        }
        self.table.check_row(row).map_err(|error| bridge::named(error.into(), self.table, row))?;
        if Planted::CheckForgotten.is_planted() {
            return Ok(());
        }
        self.checks.refuse(Part::Own, self.row(row))
    }

    /// Refuses a row, just written, that a view WITH CHECK OPTION would not show.
    ///
    /// # Errors
    /// `44000`
    pub(crate) fn refuse_unseen(&self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        self.checks.refuse(Part::Views, self.row(row))
    }

    /// Inserts a row that is not refused.
    ///
    /// # Errors
    /// `23505`, `23502`; those of waiting.
    pub(crate) async fn insert(&self, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        settle(self.waiting, || self.statement.insert(self.table, row))
            .await
            .map_err(|error| bridge::named(error, self.table, row))
    }

    /// Takes a row of many that is not refused; it is inserted then or by [`Writer::flush`].
    ///
    /// # Errors
    /// As [`Writer::insert`], of this row or one before it.
    pub(crate) async fn load(&self, load: &mut Load, row: &[DatumRef<'_>]) -> Result<(), SqlError> {
        let loaded = settle(self.waiting, || load.push(row)).await;
        loaded.map_err(|error| self.not_loaded(error, load, Some(row)))
    }

    /// Inserts all that was taken.
    ///
    /// # Errors
    /// As [`Writer::insert`].
    pub(crate) async fn flush(&self, load: &mut Load) -> Result<(), SqlError> {
        if load.is_empty() {
            return Ok(());
        }
        self.waiting.stop.check_time()?;
        // So many rows take milliseconds: others of this thread go on meanwhile. It asks itself whether to stop.
        let flushed = settle(self.waiting, || match load.len() > ROWS_PER_TURN {
            true => compute::aside(|| load.flush()),
            false => load.flush(),
        });
        flushed.await.map_err(|error| self.not_loaded(error, load, None))
    }

    #[cold]
    fn not_loaded(&self, error: SqlError, load: &Load, row: Option<&[DatumRef<'_>]>) -> SqlError {
        match load.refused().as_deref().or(row) {
            Some(row) => bridge::named(error, self.table, row),
            None => error,
        }
    }

    /// Gives the row under `key`, known by `seen`, new content that is not refused. `old`: what it was.
    ///
    /// # Errors
    /// As [`Writer::insert`]; `40001` in REPEATABLE READ.
    pub(crate) async fn update(
        &self,
        key: &[u8],
        seen: Seen,
        row: &[DatumRef<'_>],
        mut old: Option<&mut RowBuf>,
    ) -> Result<Change, SqlError> {
        settle(self.waiting, || self.statement.update(self.table, key, seen, row, old.as_deref_mut()))
            .await
            .map_err(|error| bridge::named(error, self.table, row))
    }

    /// Deletes the row under `key`, known by `seen`. `old`: what it was.
    ///
    /// # Errors
    /// Those of waiting; `40001` in REPEATABLE READ.
    pub(crate) async fn delete(
        &self,
        key: &[u8],
        seen: Seen,
        mut old: Option<&mut RowBuf>,
    ) -> Result<Change, SqlError> {
        settle(self.waiting, || self.statement.delete(self.table, key, seen, old.as_deref_mut())).await
    }

    /// Locks the row under `key`, known by `seen`.
    ///
    /// # Errors
    /// Those of waiting; `40001` in REPEATABLE READ.
    pub(crate) async fn lock_row(&self, key: &[u8], seen: Seen) -> Result<Change, SqlError> {
        settle(self.waiting, || self.statement.lock_row_to_update(self.table, key, seen)).await
    }

    /// Locks the table for rows: what is found from here on is of its newest definition.
    pub(crate) async fn lock_table(&self) -> Result<(), SqlError> {
        settle(self.waiting, || self.statement.lock_table(self.table)).await
    }
}
