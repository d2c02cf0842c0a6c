//! Rewriting a table: its newest rows are read from the old trees and put, changed, into new
//! ones, in one transaction.
//!
//! # Why this rolls back in constant time
//! The new trees are noted as pending frees to go if the transaction aborts, the old ones to go
//! once it is committed for all: two entries for each tree, none for a row. Nobody else
//! reaches the new trees before the commit, so their rows carry no versions.
//!
//! Large values are not copied: those that a new row still refers to change trees with it.
//! Neither pending free touches them (a tree is freed without the values it refers to). Those
//! that no new row refers to are noted, many in one entry; new ones carry their writer's id
//! and go with it.
//!
//! The definition is stored last. A rewrite that is given up half-way leaves it as it was, but
//! the new trees would stay with a commit: so the transaction is marked as broken off from the
//! beginning of a rewrite to its end.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result, TxId};
use resurgam_page::RowCopy;
use resurgam_page::types::{ColumnType, DatumRef, OrderedType, SECOND_DIGITS_MAX};
use resurgam_txn::{ActiveTx, Status};
use resurgam_versions::PendingFree;

use crate::build::not_unique;
use crate::cursor::{Cursor, RowBatch};
use crate::definition::{Definition, Place};
use crate::fill::Fill;
use crate::gate::Operation;
use crate::progress::Build;
use crate::rows::{duplicate, value_in_row_max, with_large};
use crate::table::{RawRow, Table};
use crate::transaction::Transaction;
use crate::view::ReadView;

/// Most rows that are read at a time, about.
const BATCH: usize = 1000;
/// Rows with more than so many bytes of large values are enough: whoever changes such a column
/// has all of them in memory.
const LARGE_BYTES_MAX: u64 = 4 << 20;
/// Rows that are read before their large values are counted.
const STEP: usize = 50;

/// Whether every value of a column of type `from` is stored as the same value of type `to`
/// is: then a change of the type needs no rewriting.
pub fn is_stored_alike(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as T;
    match (from, to) {
        _ if from == to => true,
        (T::Varchar(_) | T::Char(_) | T::Json, T::Text) | (T::Text | T::Json, T::VARCHAR) => true,
        // A char(n) is stored without the blanks at its end.
        (T::Varchar(n) | T::Char(n), T::Varchar(m)) | (T::Char(n), T::Char(m)) => n <= m,
        (T::Numeric { precision: p, scale: s }, T::Numeric { precision: q, scale: t }) => {
            p <= q && s == t && from.fixed_width() == to.fixed_width()
        }
        (T::VarNumeric(_), T::VarNumeric(None)) | (T::Interval(_), T::Interval(None)) => true,
        (T::VarNumeric(Some(a)), T::VarNumeric(Some(b))) => a.precision <= b.precision && a.scale == b.scale,
        (T::Time(p), T::Time(q)) | (T::Timestamp(p), T::Timestamp(q)) | (T::TimestampTz(p), T::TimestampTz(q)) => {
            let digits = |digits: Option<u8>| digits.unwrap_or(SECOND_DIGITS_MAX);
            digits(p) <= digits(q)
        }
        (T::Ordered(from), T::Ordered(to)) => is_ordered_alike(from, to),
        _ => false,
    }
}

/// The same of types of ordered bytes.
fn is_ordered_alike(from: OrderedType, to: OrderedType) -> bool {
    use OrderedType as O;
    match (from, to) {
        (O::TimeTz(p), O::TimeTz(q)) => p.unwrap_or(SECOND_DIGITS_MAX) <= q.unwrap_or(SECOND_DIGITS_MAX),
        (O::Bit(_) | O::VarBit(_), O::Bit(None) | O::VarBit(None)) => true,
        (O::Bit(Some(n)) | O::VarBit(Some(n)), O::VarBit(Some(m))) => n <= m,
        _ => from == to,
    }
}

/// A rewrite under way. Read a batch, put a row for each of its rows, until there are no more;
/// then finish.
pub struct Rewrite {
    tx: Transaction,
    active: Arc<ActiveTx>,
    /// Under which it writes.
    xid: TxId,
    old: Arc<Table>,
    new: Arc<Table>,
    parts: Definition,
    view: ReadView,
    cursor: Cursor,
    /// Rows and entries that are gathered, to be written leaf by leaf.
    rows: Fill,
    entries: Vec<Fill>,
    row_id: u64,
    /// Large values that are referred to no more.
    gone: Vec<PageId>,
    /// It is this rewrite that has the transaction marked as broken off.
    marked: bool,
    build: Build,
}

/// Room for one row that is copied.
#[derive(Default)]
struct Room {
    key: Vec<u8>,
    value: Vec<u8>,
    entry_key: Vec<u8>,
    entry_value: Vec<u8>,
}

impl Transaction {
    /// Begins to rewrite `old`, which is locked exclusively, as `parts`: with new trees.
    pub(crate) fn begin_rewrite(&self, old: &Arc<Table>, mut parts: Definition) -> Result<Rewrite> {
        let context = self.write_context()?;
        let marked = {
            let mut state = self.0.state.lock();
            let marked = state.broken_off.is_none();
            // What was broken off before concerns more than this.
            state.broken_off.get_or_insert(context.xid);
            marked
        };
        parts.tree = self.new_tree()?;
        for index in &mut parts.indexes {
            index.tree = self.new_tree()?;
            index.valid = true;
        }
        let new = self.0.db.inner().catalog.build(Definition::decode(&parts.encode())?, 0);
        let view = self.newest_view();
        let cursor = self.newest_rows(old);
        let build = Build::start(&self.0.db, context.active.id, old, None);
        let fill = |tree| Fill::new(self, &build, tree, 1 + new.indexes.len());
        Ok(Rewrite {
            tx: self.clone(),
            active: Arc::clone(&context.active),
            xid: context.xid,
            old: Arc::clone(old),
            rows: fill(new.tree),
            entries: new.indexes.iter().map(|index| fill(index.tree)).collect(),
            build,
            new,
            parts,
            view,
            cursor,
            row_id: 0,
            gone: Vec::new(),
            marked,
        })
    }
}

/// Takes a row or an entry; if that is enough of its tree, what is gathered is written, or put aside.
fn gather(tx: &Transaction, fill: &mut Fill, key: &[u8], value: &[u8]) -> Result<()> {
    match fill.add(key, value)? {
        true => fill.write(&|| tx.check_interrupt().and_then(|()| tx.0.db.throttle(tx))),
        false => Ok(()),
    }
}

impl Rewrite {
    /// The table whose rows are read.
    pub fn old(&self) -> &Arc<Table> {
        &self.old
    }
    /// The table that is being written; nobody else knows it yet.
    pub fn new_table(&self) -> &Arc<Table> {
        &self.new
    }
    /// What the rows are read through.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    /// Reads the next rows of the old table into `batch`, which is emptied first. False: there
    /// are no more.
    ///
    /// # Errors
    /// That of the transaction's interrupt, if it says to stop.
    pub fn read(&mut self, batch: &mut RowBatch) -> Result<bool> {
        self.tx.check_interrupt()?;
        self.tx.0.db.throttle(&self.tx)?;
        batch.clear();
        let mut large = 0;
        while batch.len() < BATCH && large < LARGE_BYTES_MAX {
            let known = batch.len();
            if !self.cursor.next_batch(batch, STEP)? {
                break;
            }
            for i in known..batch.len() {
                large += self.old.external_bytes(batch.row(i).value)?;
            }
        }
        self.build.advance(batch.len());
        Ok(!batch.is_empty())
    }

    /// Puts the row that takes the place of `before`, as it was read. Values of columns that
    /// stay as they are may be passed as they were read. Large values that only `before` refers
    /// to, in columns that were dropped as well, go with it.
    ///
    /// # Errors
    /// `NotNullViolation`; `LimitExceeded`. The transaction must then be rolled back.
    pub fn put(&mut self, before: RawRow<'_>, row: &[DatumRef<'_>]) -> Result<()> {
        let tx = self.tx.clone();
        let _operation = self.operation(&tx)?;
        self.check_nulls(row)?;
        let new = &self.new;
        self.row_id += 1;
        let row_id = self.row_id;
        let large = self.tx.large_indexed(new, row)?;
        let whole = &*with_large(row, &large)?;
        let mut key = Vec::new();
        new.key_of_row(whole, || Ok(row_id), &mut key)?;
        let encoded = self.tx.encode_value(new, key.len(), row, &self.active, self.xid, &Vec::new)?;
        let kept = new.externals_of_value(&encoded.bytes)?;
        let gone = self.old.externals_of_value(before.value)?;
        self.gone.extend(gone.into_iter().filter(|page| !kept.contains(page)));
        if self.gone.len() >= PendingFree::VALUES_MAX {
            self.tx.drop_externals(&self.active, self.xid, self.gone.drain(..))?;
        }
        gather(&tx, &mut self.rows, &key, &encoded.bytes)?;
        let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
        for (at, entries) in self.entries.iter_mut().enumerate() {
            entry_key.clear();
            entry_value.clear();
            new.index_entry(at, whole, &key, &mut entry_key, &mut entry_value)?;
            gather(&tx, entries, &entry_key, &entry_value)?;
        }
        Ok(())
    }

    /// Writes all rows, and then their entries: of one that is refused the row is looked for.
    fn write_all(&mut self) -> Result<()> {
        let (tx, new) = (&self.tx, &self.new);
        let ask = || tx.check_interrupt().and_then(|()| tx.0.db.throttle(tx));
        if let Some((key, value)) = self.rows.finish(&ask)? {
            let row = new.all_columns(RawRow { key: &key, value: &value })?;
            let large = tx.large_indexed(new, &row)?;
            return Err(not_unique(&duplicate(new, None, &with_large(&row, &large)?), &new.primary_key_name));
        }
        for (at, entries) in self.entries.iter_mut().enumerate() {
            if let Some((key, value)) = entries.finish(&ask)? {
                return Err(tx.not_unique_index(new, at, &key, &value)?);
            }
        }
        Ok(())
    }

    /// The next step. Not after the transaction has gone back to before the rewrite began: its trees
    /// are then no more.
    fn operation<'tx>(&self, tx: &'tx Transaction) -> Result<Operation<'tx>> {
        let operation = tx.operation()?;
        match tx.0.db.inner().txs.status(self.xid) {
            Status::Active(_) => Ok(operation),
            _ => Err(Error::new(ErrorKind::InvalidTransactionState, "the rewrite was rolled back already")),
        }
    }

    fn check_nulls(&self, row: &[DatumRef<'_>]) -> Result<()> {
        if row.len() != self.new.columns.len() {
            return self.new.check_row(row);
        }
        let null = self.new.columns.iter().zip(row).find(|(column, datum)| !column.nullable && datum.is_null());
        match null {
            Some((column, _)) => Err(contains_nulls(&column.name, &self.new.name)),
            None => Ok(()),
        }
    }

    /// Puts every row as it is, and finishes. Of most rows nothing is looked at but what keys are made of.
    pub(crate) fn copy(mut self) -> Result<Arc<Table>> {
        let old = Arc::clone(&self.old);
        let way = self.way();
        let (mut batch, mut room) = (RowBatch::default(), Room::default());
        while self.read(&mut batch)? {
            let tx = self.tx.clone();
            let _operation = self.operation(&tx)?;
            let mut values = Vec::new();
            for raw in (0..batch.len()).map(|i| batch.row(i)) {
                room.value.clear();
                let copied = way.as_ref().is_some_and(|way| way.copy(raw.value, &mut room.value));
                if !copied || !self.put_copied(&old, raw, &mut room, &mut values)? {
                    self.put(raw, &old.all_columns(raw)?)?;
                }
            }
        }
        self.finish()
    }

    /// How values of the old table's rows become those of the new one's without being decoded, if they do.
    fn way(&self) -> Option<RowCopy> {
        let (old, new) = (&self.old, &self.new);
        if old.columns.len() != new.columns.len() {
            return None;
        }
        let mut sources = Vec::with_capacity(new.columns.len());
        for (column, before) in new.columns.iter().zip(&old.columns) {
            match (column.place, before.place) {
                (Place::Value(_), Place::Value(at)) => sources.push((usize::from(at), column.nullable)),
                (Place::Value(_), Place::Key(_)) => return None,
                (Place::Key(_), _) => {}
            }
        }
        RowCopy::new(&old.layout, &new.layout, &sources)
    }

    /// Puts a row whose value is in `room` and refers to no large values. False: it was not put, since it is one that
    /// [`Rewrite::put`] has to look at.
    fn put_copied<'r>(
        &mut self,
        old: &'r Table,
        raw: RawRow<'r>,
        room: &mut Room,
        values: &mut Vec<DatumRef<'r>>,
    ) -> Result<bool> {
        let new = &self.new;
        let take = |values: &mut Vec<DatumRef<'r>>, columns: &[usize]| {
            values.clear();
            columns.iter().try_for_each(|at| old.column(raw, *at).map(|value| values.push(value)))
        };
        take(values, &new.primary_key)?;
        if values.iter().any(DatumRef::is_null) {
            return Ok(false);
        }
        let row_id = self.row_id + 1;
        if new.primary_key.is_empty() {
            values.push(DatumRef::Int8(row_id as i64));
        }
        room.key.clear();
        new.key_of_values(values, &mut room.key)?;
        if room.value.len() > value_in_row_max(room.key.len()) {
            return Ok(false);
        }
        self.row_id = row_id;
        gather(&self.tx, &mut self.rows, &room.key, &room.value)?;
        for (at, entries) in self.entries.iter_mut().enumerate() {
            take(values, &new.indexes[at].columns)?;
            room.entry_key.clear();
            room.entry_value.clear();
            new.index_entry_of(at, values, &room.key, &mut room.entry_key, &mut room.entry_value)?;
            gather(&self.tx, entries, &room.entry_key, &room.entry_value)?;
        }
        Ok(true)
    }

    /// Writes what is gathered, stores the definition and gives up the old trees.
    ///
    /// # Errors
    /// As [`Rewrite::put`]; `UniqueViolation` naming the index, of a row that was put.
    pub fn finish(mut self) -> Result<Arc<Table>> {
        let tx = self.tx.clone();
        let _operation = self.operation(&tx)?;
        self.write_all()?;
        for at in 0..self.new.indexes.len() {
            tx.check_filled(&self.new, at)?;
        }
        self.tx.drop_externals(&self.active, self.xid, self.gone.drain(..))?;
        self.tx.drop_tree(self.old.tree)?;
        for index in &self.old.indexes {
            self.tx.drop_tree(index.tree)?;
        }
        let table = self.tx.store_definition(&self.parts, Some(&self.old))?;
        if self.marked {
            self.tx.0.state.lock().broken_off = None;
        }
        Ok(table)
    }
}

/// The error of rows that lack a value which the definition asks for.
pub(crate) fn contains_nulls(column: &str, table: &str) -> Error {
    Error::new(ErrorKind::NotNullViolation, format!("column \"{column}\" of relation \"{table}\" contains null values"))
}

#[cfg(test)]
mod tests {
    use resurgam_page::types::NumericLimit;

    use super::*;

    #[test]
    fn stored_alike() {
        use ColumnType as T;
        let numeric = |precision, scale| T::Numeric { precision, scale };
        let limit = |precision, scale| Some(NumericLimit { precision, scale });
        for (from, to, alike) in [
            (T::Varchar(5), T::Varchar(5), true),
            (T::Varchar(5), T::Varchar(9), true),
            (T::Varchar(9), T::Varchar(5), false),
            (T::Varchar(9), T::Text, true),
            (T::Text, T::Varchar(9), false),
            (T::Text, T::VARCHAR, true),
            (T::VARCHAR, T::Text, true),
            (T::VARCHAR, T::Varchar(9), false),
            (T::Char(3), T::Text, true),
            (T::Char(3), T::Varchar(2), false),
            (T::Varchar(3), T::Char(3), false),
            (T::Int4, T::Int8, false),
            (numeric(5, 2), numeric(9, 2), true),
            (numeric(5, 2), numeric(9, 3), false),
            (numeric(9, 2), numeric(5, 2), false),
            (numeric(18, 2), numeric(19, 2), false),
            (T::Timestamp(None), T::TimestampTz(None), false),
            (T::Timestamp(Some(3)), T::Timestamp(None), true),
            (T::Timestamp(None), T::Timestamp(Some(6)), true),
            (T::Timestamp(Some(3)), T::Timestamp(Some(2)), false),
            (T::VarNumeric(None), T::VarNumeric(limit(50, 3)), false),
            (T::VarNumeric(limit(50, 3)), T::VarNumeric(None), true),
            (T::VarNumeric(limit(50, 3)), T::VarNumeric(limit(51, 3)), true),
            (T::VarNumeric(limit(50, 3)), T::VarNumeric(limit(51, 4)), false),
            (numeric(9, 2), T::VarNumeric(None), false),
        ] {
            assert_eq!(is_stored_alike(from, to), alike, "{from} to {to}");
        }
    }
}
