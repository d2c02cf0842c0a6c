//! Filling a new tree with rows: for new indexes and rebuilt tables (`rewrite.rs`).
//!
//! The tree is referred to by an uncommitted definition only, and goes whole if that is
//! rolled back, so its rows carry no versions.

use std::sync::Arc;

use resurgam_base::{Error, Result, SlotId};
use resurgam_btree::LeafWalk;
use resurgam_page::LeafRecord;
use resurgam_page::types::{Datum, DatumRef};

use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::fill::Fill;
use crate::progress::Build;
use crate::rows::{duplicate, with_large};
use crate::table::{RowBuf, Table};
use crate::transaction::Transaction;
use crate::view::ReadView;

impl Transaction {
    /// What a table that is locked exclusively consists of: every row version that is newest
    /// and committed, or own.
    ///
    /// A commit gives up its locks before it is durable, and no snapshot sees it until then.
    /// Whoever got the table afterwards must build on it all the same, as writers of rows do:
    /// its own COMMIT comes later in the same log.
    pub(crate) fn newest_view(&self) -> ReadView {
        let mut view = self.0.db.plain_view();
        view.own = self.id().unwrap_or_default();
        view.unchecked = true;
        view.newest = true;
        view
    }

    /// Reads all of that; may be told to stop.
    pub(crate) fn newest_rows(&self, table: &Arc<Table>) -> Cursor {
        let range = KeyRange::all();
        Cursor::new(self.newest_view(), Arc::clone(table), None, range, Direction::Forward)
            .interrupted_by(self.interrupt())
    }

    /// Calls `each` with every row of `table` that is newest and committed (or own), a batch at a time. The
    /// table must be locked exclusively.
    fn each_batch(
        &self,
        table: &Arc<Table>,
        build: &Build,
        mut each: impl FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = self.newest_rows(table);
        let mut batch = RowBatch::default();
        loop {
            self.check_interrupt()?;
            self.0.db.throttle(self)?;
            batch.clear();
            if !cursor.next_batch(&mut batch, 1000)? {
                return Ok(());
            }
            build.advance(batch.len());
            each(&batch)?;
        }
    }

    /// Fills the index at `at` of `table` from its rows, of which only the index's columns are looked at.
    pub(crate) fn fill_index(&self, table: &Arc<Table>, at: usize) -> Result<()> {
        let index = &table.indexes[at];
        let context = self.write_context()?;
        let build = Build::start(&self.0.db, context.active.id, table, Some(index.id));
        let mut fill = Fill::new(self, &build, index.tree, 1);
        let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
        let ask = || self.check_interrupt().and_then(|()| self.0.db.throttle(self));
        let filled = self
            .each_batch(table, &build, |batch| {
                let mut values: Vec<DatumRef<'_>> = Vec::with_capacity(index.columns.len());
                for row in (0..batch.len()).map(|i| batch.row(i)) {
                    values.clear();
                    for column in &index.columns {
                        values.push(table.column(row, *column)?);
                    }
                    entry_key.clear();
                    entry_value.clear();
                    if values.iter().any(|value| matches!(value, DatumRef::External(_))) {
                        let row_values = table.all_columns(row)?;
                        let large = self.large_indexed(table, &row_values)?;
                        let whole = &*with_large(&row_values, &large)?;
                        table.index_entry(at, whole, row.key, &mut entry_key, &mut entry_value)?;
                    } else {
                        table.index_entry_of(at, &values, row.key, &mut entry_key, &mut entry_value)?;
                    }
                    if fill.add(&entry_key, &entry_value)? {
                        fill.write(&ask)?;
                    }
                }
                Ok(())
            })
            .and_then(|()| match fill.finish(&ask)? {
                None => Ok(()),
                Some((key, value)) => Err(self.not_unique_index(table, at, &key, &value)?),
            })
            .and_then(|()| self.check_filled(table, at));
        // A part of an index must not be committed.
        filled.inspect_err(|_| self.broken_off(context.xid))
    }

    /// Looks for equal keys in an index that was filled: that of a DEFERRABLE constraint has taken them. Equal ones are side by
    /// side in its tree.
    ///
    /// # Errors
    /// `UniqueViolation`
    pub(crate) fn check_filled(&self, table: &Arc<Table>, at: usize) -> Result<()> {
        let index = &table.indexes[at];
        if !index.is_deferrable() {
            return Ok(());
        }
        let mut walk = LeafWalk::ascending(index.tree, Vec::new());
        let mut before = Vec::new();
        while let Some(page) = walk.next(&self.0.db.inner().pool)? {
            self.check_interrupt()?;
            for slot in walk.new_slots(&page) {
                let record = LeafRecord::parse(page.record(SlotId(slot))?)?;
                let key = table.key_columns_of(at, record.key)?;
                if key == before {
                    let values = table.decode_key(Some(at), key)?;
                    let values: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
                    if table.must_differ(at, &values) {
                        let entry = (record.key.to_vec(), record.value.to_vec());
                        drop(page);
                        return Err(self.not_unique_index(table, at, &entry.0, &entry.1)?);
                    }
                }
                before.clear();
                before.extend_from_slice(key);
            }
        }
        Ok(())
    }

    /// The error of the row whose entry an index refused.
    pub(crate) fn not_unique_index(&self, table: &Arc<Table>, at: usize, key: &[u8], value: &[u8]) -> Result<Error> {
        let index = &table.indexes[at].name;
        let mut row = RowBuf::default();
        if !self.newest_view().get_unchecked(table, table.clustered_key(at, key, value)?, &mut row)? {
            return Err(Error::corrupt(format!("an entry for index \"{index}\" was made of a row that is not there")));
        }
        let row = table.all_columns(row.raw())?;
        let large = self.large_indexed(table, &row)?;
        Ok(not_unique(&duplicate(table, Some(at), &with_large(&row, &large)?), index))
    }
}

/// The error of rows that an index is to be unique over and that are not.
pub(crate) fn not_unique(duplicate: &Error, index: &str) -> Error {
    Error::new(duplicate.kind(), format!("could not create unique index \"{index}\""))
        .with_detail(duplicate.detail().unwrap_or_default().replace("already exists", "is duplicated"))
}
