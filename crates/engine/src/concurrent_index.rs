//! Making an index while others write to its table (CREATE INDEX CONCURRENTLY).
//!
//! ```text
//! 1  Transaction::add_index      one transaction: the definition has the index, which is not valid and has no entry
//! 2  Transaction::fill_some      one after the other, each committed: entries of some rows, in the order of the table
//! 3  Transaction::finish_index   one transaction: the index is valid
//! ```
//! The first and the last lock the table as any change of a definition does, for as long as they take. In between
//! nobody waits but for rows: for those that are looked at just now, which is a few hundred at once.
//!
//! # Invariants
//! 1. *Readers do not see an index that is not valid.* No way to rows leads through it, and no foreign key refers to it.
//! 2. *Writers maintain it.* The change of the definition has waited for all who had written by the earlier one, and whoever writes by
//!    that afterwards is told that it was changed. So who changes or deletes a row deletes the row's entry, if it is there, and puts its
//!    new one in; an entry of a row that did not change in the columns of the index stays where it is, or missing.
//! 3. *Each entry is a row's.* Under a unique key there may be the entry of another row, since those that were there before may be
//!    equal: who deletes an entry looks whether it is his row's.
//! 4. *A row is locked FOR SHARE while its entry is made*, until the transaction has ended that made it. So its newest version is committed,
//!    nobody changes it, and its entry is neither made twice nor left behind. A row that somebody is changing is waited for: what he
//!    does may be taken back, and then the row as it was needs its entry.
//! 5. *Who waits holds nothing*: the rows that were looked at before are committed first. So no writer waits for one who waits for him.
//!    (A transaction that has put a row with a unique key in may go on to change the row that had the key.)
//! 6. *Who sees that the index is valid sees all of its entries*, since they are of transactions that were committed before. An older snapshot
//!    goes by the definition of its time, in which it is not: versions of rows that only such ones see need no entries.
//!
//! Whatever ends it before (a row that is not unique, a cancellation, a crash) leaves the index as it is: not valid, maintained, to be dropped or
//! written anew ([`Transaction::reindex`]). A table that is rewritten has all indexes whole.

use std::ops::Bound;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result, TxId};
use resurgam_txn::RowLockMode;
use resurgam_versions::{Outcome, Seen};

use crate::build::not_unique;
use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::database::Database;
use crate::definition::Definition;
use crate::progress::Build;
use crate::row_lock::Looked;
use crate::rows::{duplicate, with_large};
use crate::table::{IndexSpec, RowBuf, Table};
use crate::transaction::{Attempt, Transaction, attempt};

/// Rows of one transaction: others may have to wait for it.
const ROWS: usize = 256;
/// So often the definition is looked up again that was changed by somebody else.
const LOOKUPS_MAX: usize = 100;

/// An index that is being filled while others write to its table; see the module's head.
///
/// A transaction that was handed it and is not committed ends it: what was done by that one is not done again.
pub struct IndexBuild {
    table: u32,
    index: u32,
    /// Rows up to this key have their entries.
    after: Option<Vec<u8>>,
    /// Whoever is in the way of the row behind it.
    waits_for: Option<TxId>,
    done: bool,
    progress: Build,
}

/// What came of a row.
enum Filled {
    Done,
    Wait(TxId),
    /// There was no room for one row lock more.
    Full,
}

impl IndexBuild {
    /// Begins to fill the index `index`, by id, which [`Transaction::add_index`] has added to `table`; that is committed.
    pub fn begin(db: &Database, table: &Table, index: u32) -> Self {
        let progress = Build::start_concurrent(db, table, index);
        Self { table: table.id, index, after: None, waits_for: None, done: false, progress }
    }

    /// Whether there is nothing left but [`Transaction::finish_index`].
    pub fn has_all_rows(&self) -> bool {
        self.done
    }

    fn gone() -> Error {
        Error::new(ErrorKind::UndefinedObject, "the index was dropped while it was made")
    }
}

impl Transaction {
    /// Adds an index that is not valid and has no entry yet: the last one of the result.
    ///
    /// # Errors
    /// As [`Transaction::create_index`]; `InvalidParameter` of one that implements a constraint.
    pub fn add_index(&self, table: &Arc<Table>, spec: IndexSpec) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if spec.constraint {
            return Err(Error::new(ErrorKind::InvalidParameter, "a constraint needs an index that has all rows"));
        }
        self.store_index(table, spec, false)
    }

    /// Puts entries of some more rows in. Done: whether there are no more rows; the transaction, which has to be READ COMMITTED and to have
    /// done nothing else, is then to be committed, and the next call is another one's.
    ///
    /// # Errors
    /// `UniqueViolation`; `UndefinedObject` when the index or its table was dropped meanwhile; `Cancelled`; those of writing rows. The
    /// transaction must be rolled back, and the index stays as it is.
    pub fn fill_some(&self, build: &mut IndexBuild) -> Result<Attempt<bool>> {
        let _operation = self.operation()?;
        self.check_interrupt()?;
        if let Some(holder) = build.waits_for.take() {
            return Ok(Attempt::Wait(self.wait_for(&self.write_context()?, holder)?));
        }
        let table = attempt!(self.table_of(build));
        let at = table.indexes.iter().position(|index| index.id == build.index).ok_or_else(IndexBuild::gone)?;
        build.done = table.indexes[at].valid;
        if build.done {
            return Ok(Attempt::Done(true));
        }
        self.0.db.throttle(self)?;
        build.progress.goes_on_in(self.write_context()?.active.id);
        let low = build.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { low, high: Bound::Unbounded };
        let mut cursor = Cursor::new(self.newest_view(), Arc::clone(&table), None, range, Direction::Forward)
            .interrupted_by(self.interrupt());
        let mut batch = RowBatch::default();
        if !cursor.next_batch(&mut batch, ROWS)? {
            build.done = true;
            return Ok(Attempt::Done(true));
        }
        let mut row = 0;
        let filled = loop {
            if row == batch.len() {
                break Filled::Done;
            }
            match self.fill_row(&table, at, batch.row(row).key)? {
                Filled::Done => row += 1,
                // Others hold all row locks that there may be.
                Filled::Full if row == 0 => match self.fill_row_alone(&table, at, batch.row(row).key)? {
                    Filled::Done => row += 1,
                    other => break other,
                },
                other => break other,
            }
        };
        if let Some(last) = row.checked_sub(1) {
            build.after = Some(batch.row(last).key.to_vec());
            build.progress.advance(row);
        }
        if let Filled::Wait(holder) = filled {
            build.waits_for = Some(holder);
        }
        Ok(Attempt::Done(false))
    }

    /// Makes the index valid that has an entry of every row by now. The result is the new definition.
    ///
    /// # Errors
    /// `UndefinedObject` when it was dropped meanwhile; `InvalidParameter` when there are rows to go; those of [`Transaction::alter_table`].
    pub fn finish_index(&self, table: &Arc<Table>, build: &IndexBuild) -> Result<Attempt<Arc<Table>>> {
        let _operation = self.operation()?;
        if !build.done || table.id != build.table {
            return Err(Error::new(ErrorKind::InvalidParameter, "the index has not all rows yet"));
        }
        attempt!(self.lock_exclusive(table));
        let mut parts = Definition::of(table);
        let found = parts.indexes.iter_mut().find(|index| index.id == build.index);
        let index = found.ok_or_else(IndexBuild::gone)?;
        if index.valid {
            return Ok(Attempt::Done(Arc::clone(table)));
        }
        index.valid = true;
        parts.generation += 1;
        self.store_definition(&parts, Some(table)).map(Attempt::Done)
    }

    /// The newest definition of the table, which is locked for writing rows.
    fn table_of(&self, build: &IndexBuild) -> Result<Attempt<Arc<Table>>> {
        let mut lookups = 0;
        loop {
            let table = self.table_by_id(build.table)?.ok_or_else(IndexBuild::gone)?;
            lookups += 1;
            match self.lock_for_rows(&table) {
                Ok(None) => return Ok(Attempt::Done(table)),
                Ok(Some(wait)) => return Ok(Attempt::Wait(wait)),
                Err(error) if error.kind() == ErrorKind::DefinitionChanged && lookups < LOOKUPS_MAX => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn fill_row(&self, table: &Arc<Table>, at: usize, key: &[u8]) -> Result<Filled> {
        let context = self.write_context()?;
        let mut row = RowBuf::default();
        loop {
            // Gone: or somebody is putting it in, and its entry as well.
            let Some(version) = self.newest_row(table, key, &context, &mut row)? else { return Ok(Filled::Done) };
            let seen = Seen::Version(version);
            match self.reading(|| self.share(table, &context, key, seen, RowLockMode::Share))? {
                Looked::Taken => return self.fill_locked(table, at, &row),
                Looked::Wait(holder) => return Ok(Filled::Wait(holder)),
                Looked::Full => return Ok(Filled::Full),
                Looked::Not(_) => self.check_interrupt()?,
            }
        }
    }

    /// As [`Transaction::fill_row`], of a row that is locked by a version of the same content.
    fn fill_row_alone(&self, table: &Arc<Table>, at: usize, key: &[u8]) -> Result<Filled> {
        let context = self.write_context()?;
        let mut row = RowBuf::default();
        loop {
            let Some(version) = self.newest_row(table, key, &context, &mut row)? else { return Ok(Filled::Done) };
            let writer = self.writer(&context, false);
            match writer.update(table.tree, key, &row.value, Seen::Version(version))? {
                Outcome::Done => return self.fill_locked(table, at, &row),
                Outcome::Wait(holder) => return Ok(Filled::Wait(holder)),
                _ => self.check_interrupt()?,
            }
        }
    }

    /// Puts the entry of a row in, which stays as it is until this transaction ends, if it is not there.
    fn fill_locked(&self, table: &Arc<Table>, at: usize, row: &RowBuf) -> Result<Filled> {
        let context = self.write_context()?;
        let index = &table.indexes[at];
        let columns = table.all_columns(row.raw())?;
        let large = self.large_indexed(table, &columns)?;
        let whole = &*with_large(&columns, &large)?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        table.index_entry(at, whole, &row.key, &mut key, &mut value)?;
        let writer = self.writer(&context, true);
        let (mut there, mut again) = (RowBuf::default(), RowBuf::default());
        loop {
            match writer.insert(index.tree, &key, &value, &mut None)? {
                Outcome::Done => return Ok(Filled::Done),
                Outcome::Wait(holder) => return Ok(Filled::Wait(holder)),
                Outcome::Duplicate => {}
                other => return Err(Error::internal(format!("an entry was put in, which ended with {other:?}"))),
            }
            // Such a key has the row's own in it.
            if value.is_empty() {
                return Ok(Filled::Done);
            }
            if self.newest_row_in(index.tree, &key, &context, &mut there)?.is_none() {
                continue;
            }
            if there.value == value {
                return Ok(Filled::Done);
            }
            // It is another row's; but who deletes or changes that one comes to its entry last.
            let other = self.writer(&context, false).delete_check(table.tree, &there.value, Seen::Snapshot)?;
            if let Outcome::Wait(holder) = other {
                return Ok(Filled::Wait(holder));
            }
            if self.newest_row_in(index.tree, &key, &context, &mut again)?.is_some() && again.value == there.value {
                return Err(not_unique(&duplicate(table, Some(at), whole), &index.name));
            }
        }
    }
}
