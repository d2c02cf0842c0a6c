//! Taking the first row of a range: reading and deleting it in one.
//!
//! Who takes rows from an end of a table, as from a queue, mostly finds the next one a few deleted rows behind where the range begins
//! (or behind what is known to be empty, `versions/src/empty_spans.rs`), on one leaf, with nothing in its way. Then one descent and one
//! record of the log do it. Whatever else is there is left to a cursor and a deletion, which also note and clean what they pass over:
//! so it comes to them again and again, and what is passed over here stays short.

use std::ops::Bound;
use std::sync::Arc;

use resurgam_base::Result;
use resurgam_page::key;
use resurgam_versions::{Seen, WalkFrom};

use crate::cursor::{Direction, KeyRange, RowBatch};
use crate::table::{RawRow, Table};
use crate::transaction::{Attempt, Change, Transaction, attempt};
use crate::view::ReadView;

/// Whether a row that was found is to be deleted.
pub type Take<'t> = &'t mut dyn FnMut(RawRow<'_>) -> bool;

impl Transaction {
    /// Deletes the first row of a range, from that end, that `view` sees, which is of the running statement. `take` is shown the row
    /// before, and may refuse it. Nothing is latched while it runs; it may be called more than once, where the row changes meanwhile, or
    /// the call is made again after a wait: the last time counts. `None`: there is no row, or it was refused.
    ///
    /// # Errors
    /// As [`Transaction::delete`].
    pub fn pop(
        &self,
        view: &ReadView,
        table: &Arc<Table>,
        range: &KeyRange,
        direction: Direction,
        take: Take<'_>,
    ) -> Result<Attempt<Option<Change>>> {
        if direction == Direction::Forward
            && table.indexes.is_empty()
            && let Some(popped) = self.pop_at_sight(view, table, range, take)?
        {
            return Ok(Attempt::Done(popped.then_some(Change::Done)));
        }
        let mut batch = RowBatch::default();
        let mut cursor = view.scan(table, range.clone(), direction);
        if !cursor.next_batch(&mut batch, 1)? || !take(batch.row(0)) {
            return Ok(Attempt::Done(None));
        }
        let change = attempt!(self.delete(table, batch.row(0).key, Seen::Snapshot));
        Ok(Attempt::Done(Some(change)))
    }

    /// Whether the row was taken or refused, if that could be told by a look at one leaf.
    fn pop_at_sight(
        &self,
        view: &ReadView,
        table: &Arc<Table>,
        range: &KeyRange,
        take: Take<'_>,
    ) -> Result<Option<bool>> {
        view.check_table(table)?;
        self.0.db.throttle(self)?;
        let Attempt::Done(context) = self.row_context(table, || Ok(()))? else { return Ok(None) };
        let inner = self.0.db.inner();
        let begin = || match &range.low {
            Bound::Included(low) => low.clone(),
            Bound::Excluded(low) => key::after(low),
            Bound::Unbounded => Vec::new(),
        };
        let object = table.tree.object;
        // It notes nothing; that is the cursor's.
        let from = match inner.empty_spans.enter(object, &view.view(), || WalkFrom::Key(begin())) {
            None => begin(),
            Some(mut walk) => match walk.start.take() {
                Some(WalkFrom::Key(key)) => key,
                _ => return Ok(None),
            },
        };
        let is_within = |key: &[u8]| match &range.high {
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
            Bound::Unbounded => true,
        };
        let may_hold_external = table.may_hold_external();
        let is_plain = |value: &[u8]| Ok(!may_hold_external || table.externals_of_value(value)?.is_empty());
        let mut key = Vec::new();
        let mut refused = false;
        let mut note = |row: &[u8], value: &[u8]| {
            key.extend_from_slice(row);
            refused = !take(RawRow { key: row, value });
            !refused
        };
        let mut hint = self.0.near.hint(object);
        let deleted =
            self.writer(&context, false).delete_first(table.tree, &from, &is_within, &mut hint, &is_plain, &mut note);
        self.0.near.note(object, hint);
        if refused {
            return Ok(Some(false));
        }
        if !deleted? {
            return Ok(None);
        }
        inner.moves.note_deleted(&inner.txs, object, context.xid, &key);
        table.note_rows_changed(1);
        Ok(Some(true))
    }
}
