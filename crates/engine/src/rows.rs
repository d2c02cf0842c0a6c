//! Insert, update and delete of a table's rows: the clustered row, its index entries, its
//! large values.
//!
//! The steps of one row are several log groups. A step that cannot go ahead (a duplicate,
//! another transaction in the way) takes back the steps before it, under the same
//! transaction id, so that the caller may wait and try again, or carry on. A crash in
//! between leaves what any crash leaves of an unfinished transaction.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::pauses::Pause;
use resurgam_base::{Error, ErrorKind, PageId, Result, TxId, limits::RECORD_BYTES_MAX};
use resurgam_btree::Tree;
use resurgam_buffer::{Access, Mtr};
use resurgam_page::types::DatumRef;
use resurgam_page::{LeafRecord, leaf};
use resurgam_txn::{ActiveTx, LockWait, RowLockMode, Status};
use resurgam_versions::{
    Outcome, PendingFree, RowWriter, Seen, View, free_external, newest, read_external, write_external,
};

use crate::kept_values::check_kept;
use crate::near::Near;
use crate::table::{RawRow, RowBuf, Table};
use crate::transaction::{Attempt, Change, Isolation, Transaction, WriteContext, attempt};

/// Most bytes of the value of a row with a key of so many that stay in the row; larger values move to overflow pages. The row can be
/// deleted where it is, and changed, and have its earlier version back: what its record needs for that is left free.
pub(crate) const fn value_in_row_max(key_bytes: usize) -> usize {
    (RECORD_BYTES_MAX - leaf::OVERHEAD_MAX).saturating_sub(key_bytes)
}

/// The same of a row of which nothing can move out: its versions are off-row.
const fn value_max(key_bytes: usize) -> usize {
    (RECORD_BYTES_MAX - leaf::OVERHEAD_OFFROW).saturating_sub(key_bytes)
}

/// A column shorter than this gains nothing by moving out.
const EXTERNAL_MIN: usize = 64;

/// What a step over several trees ended with.
pub(crate) enum Steps {
    Done,
    Wait(TxId),
    Duplicate(Option<usize>),
    Change(Change),
    /// An error; the steps before it are taken back. (An `Err` after the first write means that
    /// they are not: the write is broken off.)
    Failed(Error),
}

impl Transaction {
    pub(crate) fn writer<'a>(&'a self, context: &'a WriteContext<'_>, trust: bool) -> RowWriter<'a> {
        let inner = self.0.db.inner();
        let hidden_from = if context.bulk && !trust { context.xid } else { TxId(u64::MAX) };
        RowWriter {
            pool: &inner.pool,
            store: &inner.versions,
            spans: &inner.empty_spans,
            view: View { txs: &inner.txs, ts: context.snapshot.ts(), own: context.active.id, hidden_from },
            tx: &context.active,
            xid: context.xid,
            caps: inner.options.versions,
            versioning: inner.mode.versioning(),
            trust,
            frozen: self.0.isolation == Isolation::RepeatableRead,
            update_locks: RowLockMode::Update,
            keeps_ghosts: false,
            prior: std::cell::RefCell::default(),
            over_deleted: std::cell::Cell::default(),
        }
    }

    pub(crate) fn wait_for(&self, context: &WriteContext<'_>, holder: TxId) -> Result<LockWait> {
        context.active.has_met();
        self.0.db.inner().txs.wait_for(context.active.id, holder)
    }

    /// Locks a table for writing rows, ahead of the first of them: for a statement that reads
    /// the newest rows before it writes any ([`Transaction::latest`]).
    ///
    /// # Errors
    /// `DefinitionChanged` when `table` is not its newest definition.
    pub fn lock_rows(&self, table: &Table) -> Result<Attempt<()>> {
        Ok(self.lock_for_rows(table)?.map_or(Attempt::Done(()), Attempt::Wait))
    }

    /// Inserts a row; one datum for each column.
    ///
    /// # Errors
    /// `UniqueViolation` naming the constraint and the key; `NotNullViolation`;
    /// `LimitExceeded`. The row is then not there, and the transaction may go on.
    pub fn insert(&self, table: &Arc<Table>, row: &[DatumRef<'_>]) -> Result<Attempt<()>> {
        self.insert_near(table, row, &self.0.near)
    }

    /// As [`Transaction::insert`], of a row that may follow another.
    pub(crate) fn insert_near(&self, table: &Arc<Table>, row: &[DatumRef<'_>], near: &Near) -> Result<Attempt<()>> {
        self.0.db.throttle(self)?;
        let context = attempt!(self.row_context(table, || table.check_row(row)));
        let mut key = Vec::new();
        table.key_of_row(row, || self.next_row_id(table), &mut key)?;
        let encoded = self.encode_value(table, key.len(), row, &context.active, context.xid, &Vec::new)?;
        let steps = self.insert_steps(table, &context, row, &key, &encoded.bytes, near);
        self.discard_unless_done(&steps, &encoded)?;
        let inserted = self.inserted(table, &context, steps?, row)?;
        if matches!(inserted, Attempt::Done(())) {
            table.note_changed();
        }
        Ok(inserted)
    }

    /// What comes of the steps of an insert.
    pub(crate) fn inserted(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        steps: Steps,
        row: &[DatumRef<'_>],
    ) -> Result<Attempt<()>> {
        match steps {
            Steps::Done => Ok(Attempt::Done(())),
            Steps::Change(change) => match self.change(change)? {
                Attempt::Wait(wait) => Ok(Attempt::Wait(wait)),
                Attempt::Done(change) => Err(Error::internal(format!("an insert ended with {change:?}"))),
            },
            Steps::Wait(holder) => Ok(Attempt::Wait(self.wait_for(context, holder)?)),
            Steps::Duplicate(index) => Err(duplicate(table, index, row)),
            Steps::Failed(error) => Err(error),
        }
    }

    pub(crate) fn insert_steps(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        row: &[DatumRef<'_>],
        key: &[u8],
        value: &[u8],
        near: &Near,
    ) -> Result<Steps> {
        let large = self.large_indexed(table, row)?;
        let row = &*with_large(row, &large)?;
        let writer = self.writer(context, false);
        let mut hint = near.hint(table.tree.object);
        let inserted = writer.insert(table.tree, key, value, &mut hint);
        near.note(table.tree.object, hint);
        match inserted? {
            Outcome::Done => {}
            outcome => return Ok(insert_step_of(outcome, None)),
        }
        self.note_stay(table, context, &writer, key);
        Pause::RowWritten.here();
        let rest = || {
            let steps = self.insert_entries(table, context, row, key, None)?;
            if !matches!(steps, Steps::Done) {
                self.take_back(context, table.tree, key)?;
            }
            Ok(steps)
        };
        rest().inspect_err(|_| self.broken_off(context.xid))
    }

    /// Large values of indexed columns: an entry is made of the value, not of where it is.
    pub(crate) fn large_indexed(&self, table: &Table, row: &[DatumRef<'_>]) -> Result<Vec<LargeValue>> {
        let mut large = Vec::new();
        for (at, datum) in row.iter().enumerate() {
            if let DatumRef::External(reference) = datum
                && (table.primary_key.contains(&at) || table.indexes.iter().any(|i| i.columns.contains(&at)))
            {
                let bytes = read_external(&self.0.db.inner().pool, *reference)?;
                large.push(LargeValue { at, is_text: reference.is_text, bytes });
            }
        }
        Ok(large)
    }

    /// Inserts the index entries of a row, all or none. With `old`, only into indexes whose
    /// entry differs.
    fn insert_entries(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        row: &[DatumRef<'_>],
        key: &[u8],
        old: Option<(&[DatumRef<'_>], &[u8])>,
    ) -> Result<Steps> {
        let writer = self.writer(context, true);
        let mut done: Vec<(Tree, Vec<u8>)> = Vec::new();
        for (at, index) in table.indexes.iter().enumerate() {
            let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
            let mut insert = || -> Result<Option<Outcome>> {
                if let Some((old_row, old_key)) = old {
                    let (mut before, mut before_value) = (Vec::new(), Vec::new());
                    let had = had_entry(table, at, old_row, old_key, &mut before, &mut before_value)?;
                    if !had && index.columns.iter().all(|column| row[*column] == old_row[*column]) {
                        return Ok(None);
                    }
                    table.index_entry(at, row, key, &mut entry_key, &mut entry_value)?;
                    if had && before == entry_key && before_value == entry_value {
                        return Ok(None);
                    }
                } else {
                    table.index_entry(at, row, key, &mut entry_key, &mut entry_value)?;
                }
                writer.insert(index.tree, &entry_key, &entry_value, &mut None).map(Some)
            };
            let steps = match insert() {
                Ok(None) => continue,
                Ok(Some(Outcome::Done)) => {
                    done.push((index.tree, entry_key));
                    Pause::EntryWritten.here();
                    continue;
                }
                Ok(Some(outcome)) => insert_step_of(outcome, Some(at)),
                Err(error) => Steps::Failed(error),
            };
            for (tree, entry) in done.iter().rev() {
                self.take_back(context, *tree, entry)?;
            }
            return Ok(steps);
        }
        Ok(Steps::Done)
    }

    /// Deletes the index entries of a row, except those that `new` has as well. Returns
    /// what was deleted, to take it back. An index that is not valid may have none of the row, or, if it is unique, another
    /// row's under the same key.
    fn delete_entries(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        row: &[DatumRef<'_>],
        key: &[u8],
        new: Option<(&[DatumRef<'_>], &[u8])>,
    ) -> Result<Vec<Deleted>> {
        let mut writer = self.writer(context, true);
        let mut deleted = Vec::new();
        for (at, index) in table.indexes.iter().enumerate() {
            let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
            if !had_entry(table, at, row, key, &mut entry_key, &mut entry_value)? {
                continue;
            }
            if let Some((new_row, new_key)) = new {
                let (mut after, mut after_value) = (Vec::new(), Vec::new());
                table.index_entry(at, new_row, new_key, &mut after, &mut after_value)?;
                if after == entry_key && after_value == entry_value {
                    continue;
                }
            }
            if !index.valid && !self.has_entry(context, index.tree, &entry_key, &entry_value)? {
                continue;
            }
            // A key that others could take meanwhile is kept until the update is done.
            writer.keeps_ghosts = new.is_some() && index.keeps_unique();
            match writer.delete(index.tree, &entry_key, Seen::Snapshot)? {
                Outcome::Done => {
                    deleted.push((index.tree, entry_key, entry_value));
                    Pause::EntryWritten.here();
                }
                other => {
                    return Err(Error::corrupt(format!(
                        "index \"{}\" has no live entry for a row of table \"{}\" ({other:?})",
                        index.name, table.name
                    )));
                }
            }
        }
        Ok(deleted)
    }

    /// Whether an index has this entry of a row that is this transaction's to change: nobody else makes or deletes it meanwhile.
    fn has_entry(&self, context: &WriteContext<'_>, tree: Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut entry = RowBuf::default();
        Ok(self.newest_row_in(tree, key, context, &mut entry)?.is_some() && entry.value == value)
    }

    /// Takes back an insert of this transaction.
    pub(crate) fn take_back(&self, context: &WriteContext<'_>, tree: Tree, key: &[u8]) -> Result<()> {
        match self.writer(context, true).delete(tree, key, Seen::Snapshot)? {
            Outcome::Done | Outcome::Gone => Ok(()),
            other => Err(Error::internal(format!("an insert could not be taken back: {other:?}"))),
        }
    }

    /// Gives the row under the encoded clustered key new content.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; in REPEATABLE READ, `SerializationFailure` where READ
    /// COMMITTED reports [`Change::Changed`] or [`Change::Gone`] of a row that was seen.
    pub fn update(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        new_row: &[DatumRef<'_>],
    ) -> Result<Attempt<Change>> {
        self.update_noting(table, key, seen, new_row, None)
    }

    /// As [`Transaction::update`]; when it is done, `old` has the row as it was.
    pub fn update_noting(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        new_row: &[DatumRef<'_>],
        old: Option<&mut RowBuf>,
    ) -> Result<Attempt<Change>> {
        self.0.db.throttle(self)?;
        let context = attempt!(self.row_context(table, || table.check_row(new_row)));
        let mut new_key = Vec::new();
        if table.primary_key.is_empty() {
            new_key.extend_from_slice(key);
        } else {
            table.key_of_row(new_row, || Ok(0), &mut new_key)?;
        }
        let before = || self.value_before(table, &context, key, seen).unwrap_or_default();
        let encoded = self.encode_value(table, new_key.len(), new_row, &context.active, context.xid, &before)?;
        let steps = self.update_steps(table, &context, key, seen, new_row, &new_key, &encoded, old);
        self.discard_unless_done(&steps, &encoded)?;
        match steps? {
            Steps::Done => {
                table.note_changed();
                Ok(Attempt::Done(Change::Done))
            }
            Steps::Wait(holder) => Ok(Attempt::Wait(self.wait_for(&context, holder)?)),
            Steps::Duplicate(index) => Err(duplicate(table, index, new_row)),
            Steps::Change(change) => self.change(change),
            Steps::Failed(error) => Err(error),
        }
    }

    fn update_steps(
        &self,
        table: &Arc<Table>,
        context: &WriteContext<'_>,
        key: &[u8],
        seen: Seen,
        new_row: &[DatumRef<'_>],
        new_key: &[u8],
        encoded: &Encoded,
        noted: Option<&mut RowBuf>,
    ) -> Result<Steps> {
        let value = encoded.bytes.as_slice();
        let moved = new_key != key;
        let mode = if moved { RowLockMode::Update } else { self.mode_of_update(table, context, key, seen, new_row)? };
        let (outcome, old_value) = self.over_own(table, context, key, mode, moved, |writer| {
            if moved { writer.delete(table.tree, key, seen) } else { writer.update(table.tree, key, value, seen) }
        })?;
        if outcome != Outcome::Done {
            return Ok(step_of(outcome));
        }
        Pause::RowWritten.here();
        let old = RowBuf { key: key.to_vec(), value: old_value };
        let steps = check_kept(table, &old, encoded)
            .and_then(|()| self.update_rest(table, context, &old, new_row, new_key, value))
            .inspect_err(|_| self.broken_off(context.xid))?;
        if let Some(noted) = noted {
            *noted = old;
        }
        Ok(steps)
    }

    /// What follows the first step of an update: the row under its new key, index entries,
    /// large values.
    fn update_rest(
        &self,
        table: &Arc<Table>,
        context: &WriteContext<'_>,
        old: &RowBuf,
        new_row: &[DatumRef<'_>],
        new_key: &[u8],
        value: &[u8],
    ) -> Result<Steps> {
        let key = old.key.as_slice();
        let moved = new_key != key;
        if !moved && table.indexes.is_empty() {
            if table.may_hold_external() {
                self.drop_replaced(table, context, old, value)?;
            }
            return Ok(Steps::Done);
        }
        let old_columns = table.all_columns(old.raw())?;
        let (old_large, new_large) = (self.large_indexed(table, &old_columns)?, self.large_indexed(table, new_row)?);
        let (old_row, whole_row) = (with_large(&old_columns, &old_large)?, with_large(new_row, &new_large)?);
        if moved {
            let writer = self.writer(context, true);
            let inserted = writer.insert(table.tree, new_key, value, &mut None)?;
            if inserted == Outcome::Done {
                self.note_stay(table, context, &writer, new_key);
            } else {
                Pause::TakenBack.here();
                self.restore_row(context, table, key, &old.value)?;
                return Ok(insert_step_of(inserted, None));
            }
        }
        let deleted = self.delete_entries(table, context, &old_row, key, Some((&whole_row, new_key)))?;
        if moved
            || deleted.iter().any(|(tree, ..)| table.indexes.iter().any(|index| index.unique && index.tree == *tree))
        {
            context.active.locks_keys.store(true, Ordering::Release);
        }
        let steps = self.insert_entries(table, context, &whole_row, new_key, Some((&old_row, key)))?;
        if !matches!(steps, Steps::Done) {
            Pause::TakenBack.here();
            for (tree, entry, entry_value) in &deleted {
                self.restore(context, *tree, entry, entry_value)?;
            }
            if moved {
                self.take_back(context, table.tree, new_key)?;
            }
            self.restore_row(context, table, key, &old.value)?;
            return Ok(steps);
        }
        if moved {
            self.note_move(table, context, key, new_key);
        }
        self.drop_replaced(table, context, old, value)?;
        Ok(Steps::Done)
    }

    /// An insert may be over a row that was deleted a short while ago.
    pub(crate) fn note_stay(&self, table: &Table, context: &WriteContext<'_>, writer: &RowWriter<'_>, key: &[u8]) {
        if writer.over_deleted.get() {
            let inner = self.0.db.inner();
            inner.moves.note(&inner.txs, table.tree.object, context.xid, key, None);
        }
    }

    fn note_move(&self, table: &Table, context: &WriteContext<'_>, from: &[u8], to: &[u8]) {
        let inner = self.0.db.inner();
        inner.moves.note(&inner.txs, table.tree.object, context.xid, from, Some(to));
    }

    /// Notes the large values of an updated row that its new content does not refer to.
    fn drop_replaced(&self, table: &Table, context: &WriteContext<'_>, old: &RowBuf, value: &[u8]) -> Result<()> {
        let kept = table.externals_of_value(value)?;
        let gone = table.externals_of_value(&old.value)?;
        self.drop_externals(&context.active, context.xid, gone.into_iter().filter(|p| !kept.contains(p)))
    }

    /// Runs an update or delete of a row. A row that this statement changed and took back
    /// again (it had to wait, say) carries the statement's id but is not its work. `keeps_ghost`: what is deleted may have to come back.
    pub(crate) fn over_own(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        key: &[u8],
        mode: RowLockMode,
        keeps_ghost: bool,
        write: impl Fn(&RowWriter<'_>) -> Result<Outcome>,
    ) -> Result<(Outcome, Vec<u8>)> {
        let mut writer = self.writer(context, false);
        writer.update_locks = mode;
        writer.keeps_ghosts = keeps_ghost;
        let mut outcome = write(&writer)?;
        if outcome == Outcome::SelfModified {
            let mut state = self.0.state.lock();
            let Some(at) = state.taken_back.iter().position(|(o, k)| *o == table.tree.object && k == key) else {
                return Ok((outcome, Vec::new()));
            };
            state.taken_back.swap_remove(at);
            drop(state);
            writer = self.writer(context, true);
            writer.keeps_ghosts = keeps_ghost;
            outcome = write(&writer)?;
        }
        Ok((outcome, writer.prior.take()))
    }

    /// Brings a table's row back, and remembers that the statement has not changed it.
    fn restore_row(&self, context: &WriteContext<'_>, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.restore(context, table.tree, key, value)?;
        if context.bulk {
            self.0.state.lock().taken_back.push((table.tree.object, key.to_vec()));
        }
        Ok(())
    }

    /// Brings back what this transaction has just deleted or changed.
    fn restore(&self, context: &WriteContext<'_>, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = self.writer(context, true);
        let outcome = match writer.update(tree, key, value, Seen::Snapshot)? {
            Outcome::Gone => writer.insert(tree, key, value, &mut None)?,
            other => other,
        };
        if outcome != Outcome::Done {
            return Err(Error::internal(format!("a change could not be taken back: {outcome:?}")));
        }
        Ok(())
    }

    /// Deletes the row under the encoded clustered key.
    pub fn delete(&self, table: &Arc<Table>, key: &[u8], seen: Seen) -> Result<Attempt<Change>> {
        self.delete_noting(table, key, seen, None)
    }

    /// As [`Transaction::delete`]; when it is done, `noted` has the row as it was.
    pub fn delete_noting(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        seen: Seen,
        noted: Option<&mut RowBuf>,
    ) -> Result<Attempt<Change>> {
        self.0.db.throttle(self)?;
        let context = attempt!(self.row_context(table, || Ok(())));
        let (outcome, old_value) = self.over_own(table, &context, key, RowLockMode::Update, false, |writer| {
            self.delete_near(writer, table.tree, key, seen)
        })?;
        let old = RowBuf { key: key.to_vec(), value: old_value };
        if outcome == Outcome::Done && table.indexes.is_empty() {
            if table.may_hold_external() {
                let drop = || {
                    self.drop_externals(&context.active, context.xid, table.externals_of_value(&old.value)?.into_iter())
                };
                drop().inspect_err(|_| self.broken_off(context.xid))?;
            }
        } else if outcome == Outcome::Done {
            Pause::RowWritten.here();
            let rest = || {
                let old_row = table.all_columns(old.raw())?;
                let large = self.large_indexed(table, &old_row)?;
                self.delete_entries(table, &context, &with_large(&old_row, &large)?, key, None)?;
                self.drop_externals(&context.active, context.xid, table.externals_of_value(&old.value)?.into_iter())
            };
            rest().inspect_err(|_| self.broken_off(context.xid))?;
        }
        if outcome == Outcome::Done {
            let inner = self.0.db.inner();
            inner.moves.note_deleted(&inner.txs, table.tree.object, context.xid, key);
            table.note_changed();
        }
        if let Some(noted) = noted {
            *noted = old;
        }
        self.changed(&context, outcome)
    }

    /// Deletes a row, on the leaf of the last one if it is there.
    fn delete_near(&self, writer: &RowWriter<'_>, tree: Tree, key: &[u8], seen: Seen) -> Result<Outcome> {
        let mut hint = self.0.near.hint(tree.object);
        let outcome = writer.delete_hinted(tree, key, seen, &mut hint);
        self.0.near.note(tree.object, hint);
        outcome
    }

    /// Deletes the rows under `keys`, which ascend, from `*done` on, one after the other as [`Transaction::delete`] does; those that are
    /// close to each other cheaper. Counts in `done` those that are deleted: all, or up to the one of which it returns what became of it.
    ///
    /// # Errors
    /// As [`Transaction::delete`], of the row at `*done`.
    pub fn delete_many(
        &self,
        table: &Arc<Table>,
        keys: &[&[u8]],
        seen: Seen,
        done: &mut usize,
    ) -> Result<Attempt<Change>> {
        while *done < keys.len() {
            let run = self.delete_run(table, &keys[*done..], seen)?;
            *done += run;
            if run > 0 {
                continue;
            }
            match self.delete(table, keys[*done], seen)? {
                Attempt::Done(Change::Done) => *done += 1,
                other => return Ok(other),
            }
        }
        Ok(Attempt::Done(Change::Done))
    }

    /// Deletes the rows under the first of `keys` that need nothing else and are on one leaf; how many.
    fn delete_run(&self, table: &Arc<Table>, keys: &[&[u8]], seen: Seen) -> Result<usize> {
        if keys.len() < 2 || !table.indexes.is_empty() {
            return Ok(0);
        }
        self.0.db.throttle(self)?;
        let Attempt::Done(context) = self.row_context(table, || Ok(()))? else { return Ok(0) };
        let may_hold_external = table.may_hold_external();
        let is_plain = |value: &[u8]| Ok(!may_hold_external || table.externals_of_value(value)?.is_empty());
        let mut hint = self.0.near.hint(table.tree.object);
        let run = self.writer(&context, false).delete_run(table.tree, keys, seen, &mut hint, &is_plain);
        self.0.near.note(table.tree.object, hint);
        let rows = run?;
        let inner = self.0.db.inner();
        // One row of a leaf costs what it costs by itself.
        if rows > 1 {
            inner.deleted_in_runs.fetch_add(rows as u64, Ordering::Relaxed);
        }
        for key in &keys[..rows] {
            inner.moves.note_deleted(&inner.txs, table.tree.object, context.xid, key);
        }
        table.note_rows_changed(rows as u64);
        Ok(rows)
    }

    /// The newest committed (or own) row under a key, after [`Change::Changed`] or
    /// [`Transaction::lock_rows`]: `table` must be known to be the newest definition.
    pub fn latest(&self, table: &Arc<Table>, key: &[u8], row: &mut RowBuf) -> Result<Option<Seen>> {
        let context = self.write_context()?;
        Ok(self.newest_row(table, key, &context, row)?.map(Seen::Version))
    }

    /// The wait for whoever is changing, deleting or locking the row under `key` now, if somebody else is.
    pub fn wait_for_row(&self, table: &Arc<Table>, key: &[u8]) -> Result<Option<LockWait>> {
        let context = self.write_context()?;
        match self.writer(&context, false).delete_check(table.tree, key, Seen::Snapshot)? {
            Outcome::Wait(holder) => Ok(Some(self.wait_for(&context, holder)?)),
            _ => Ok(None),
        }
    }

    pub(crate) fn newest_row(
        &self,
        table: &Table,
        key: &[u8],
        context: &WriteContext<'_>,
        row: &mut RowBuf,
    ) -> Result<Option<TxId>> {
        self.newest_row_in(table.tree, key, context, row)
    }

    pub(crate) fn newest_row_in(
        &self,
        tree: Tree,
        key: &[u8],
        context: &WriteContext<'_>,
        row: &mut RowBuf,
    ) -> Result<Option<TxId>> {
        self.0.db.reading(|| self.newest_row_now(tree, key, context, row))
    }

    fn newest_row_now(
        &self,
        tree: Tree,
        key: &[u8],
        context: &WriteContext<'_>,
        row: &mut RowBuf,
    ) -> Result<Option<TxId>> {
        let inner = self.0.db.inner();
        let (page, Ok(slot)) = tree.find(&inner.pool, key, Access::Point)? else { return Ok(None) };
        let record = LeafRecord::parse(page.record(slot)?)?;
        let view =
            View { txs: &inner.txs, ts: context.snapshot.ts(), own: context.active.id, hidden_from: TxId(u64::MAX) };
        let found = newest(&inner.pool, &record, &view, &mut row.value)?;
        found.into_iter().for_each(|xid| self.note_met(context, xid));
        row.key.clear();
        row.key.extend_from_slice(key);
        Ok(found)
    }

    /// The newest version of a row is of `xid`, or was ended by it.
    pub(crate) fn note_met(&self, context: &WriteContext<'_>, xid: TxId) {
        if matches!(self.0.db.inner().txs.status(xid), Status::Committed(ts) if ts > context.snapshot.ts()) {
            context.active.has_met();
        }
    }

    pub(crate) fn changed(&self, context: &WriteContext<'_>, outcome: Outcome) -> Result<Attempt<Change>> {
        match step_of(outcome) {
            Steps::Done => Ok(Attempt::Done(Change::Done)),
            Steps::Wait(holder) => Ok(Attempt::Wait(self.wait_for(context, holder)?)),
            Steps::Change(change) => self.change(change),
            Steps::Duplicate(_) => Err(Error::internal("a duplicate without an insert")),
            Steps::Failed(error) => Err(error),
        }
    }

    pub(crate) fn change(&self, change: Change) -> Result<Attempt<Change>> {
        if self.0.isolation == Isolation::RepeatableRead && matches!(change, Change::Changed | Change::Gone) {
            return Err(Error::new(
                ErrorKind::SerializationFailure,
                "could not serialize access due to concurrent update",
            )
            .with_hint("Retry the transaction."));
        }
        Ok(Attempt::Done(change))
    }

    pub(crate) fn next_row_id(&self, table: &Table) -> Result<u64> {
        let next = &table.counters.next_id;
        if next.load(Ordering::Relaxed) == 0 {
            let last = table.tree.last_key(&self.0.db.inner().pool)?;
            let start = match last {
                None => 1,
                Some(key) => match resurgam_page::key::decode_column(&key, &table.key_columns, 0)?.as_ref() {
                    DatumRef::Int8(id) => id as u64 + 1,
                    _ => return Err(Error::corrupt(format!("a row of table {} has no row id", table.name))),
                },
            };
            let _ = next.compare_exchange(0, start, Ordering::AcqRel, Ordering::Relaxed);
        }
        Ok(next.fetch_add(1, Ordering::Relaxed))
    }

    /// Encodes the value of a row whose key has `key_bytes`; columns that make it too long go to overflow pages, unless `before`, the value
    /// of the row that it replaces, has them there already. A large value that is passed as where it is stays there.
    pub(crate) fn encode_value(
        &self,
        table: &Table,
        key_bytes: usize,
        row: &[DatumRef<'_>],
        tx: &ActiveTx,
        xid: TxId,
        before: &dyn Fn() -> Vec<u8>,
    ) -> Result<Encoded> {
        let mut values = table.value_datums(row);
        let mut bytes = Vec::new();
        let (mut written, mut kept) = (Vec::new(), Vec::new());
        let mut replaced: Option<Vec<u8>> = None;
        loop {
            let len = table.layout.encoded_len(&values);
            let longest = || {
                let long = values.iter().enumerate().filter_map(|(at, datum)| match datum {
                    DatumRef::Text(text) => Some((at, text.as_bytes(), true)),
                    DatumRef::Bytes(bytes) => Some((at, *bytes, false)),
                    _ => None,
                });
                long.max_by_key(|(_, data, _)| data.len()).filter(|(_, data, _)| data.len() >= EXTERNAL_MIN)
            };
            let moves = if len > value_in_row_max(key_bytes) { longest() } else { None };
            let Some((at, data, is_text)) = moves else {
                if len > value_max(key_bytes) {
                    self.discard(&written)?;
                    return Err(Error::new(
                        ErrorKind::LimitExceeded,
                        format!(
                            "row is too big: its short columns need {len} bytes, beside its key of {key_bytes} there is room for {}",
                            value_max(key_bytes)
                        ),
                    ));
                }
                table.layout.encode(&values, &mut bytes).map_err(|error| table.of_caller(error))?;
                return Ok(Encoded { bytes, written, kept });
            };
            let replaced = replaced.get_or_insert_with(before);
            if let Some(reference) = self.same_value(table, replaced, at, data, is_text) {
                kept.push(reference.page);
                values[at] = DatumRef::External(reference);
                continue;
            }
            let external = {
                let room = || self.0.db.throttle(self);
                write_external(&self.0.db.inner().pool, tx, xid, data, is_text, &room)?
            };
            written.push(external.page);
            values[at] = DatumRef::External(external);
        }
    }

    /// After a write that did not take place, or was taken back: its large values go.
    fn discard_unless_done(&self, steps: &Result<Steps>, encoded: &Encoded) -> Result<()> {
        match steps {
            Ok(Steps::Done) => Ok(()),
            // Something may refer to them; the transaction cannot commit, and then they go.
            Err(_) if self.0.state.lock().broken_off.is_some() => Ok(()),
            _ => self.discard(&encoded.written),
        }
    }

    /// Frees large values that were written for a row that did not come to be.
    fn discard(&self, written: &[PageId]) -> Result<()> {
        let pool = &self.0.db.inner().pool;
        for first in written {
            let mut at = *first;
            while at.is_some() {
                let mut mtr = Mtr::new(pool);
                let Some(next) = free_external(&mut mtr, at)? else { break };
                mtr.commit()?;
                at = next;
            }
        }
        Ok(())
    }

    /// Notes large values that this transaction no longer refers to.
    pub(crate) fn drop_externals(&self, tx: &ActiveTx, xid: TxId, pages: impl Iterator<Item = PageId>) -> Result<()> {
        let inner = self.0.db.inner();
        let pages: Vec<PageId> = pages.collect();
        for pages in pages.chunks(PendingFree::VALUES_MAX) {
            let action = PendingFree::ValuesIfCommitted(pages.to_vec());
            tx.logged_aside(inner.pending_frees.add(&inner.pool, xid, &action)?);
        }
        Ok(())
    }

    /// An inserter for many rows of one table, which counts them.
    pub fn bulk_insert(&self, table: &Arc<Table>) -> BulkInserter {
        BulkInserter { tx: self.clone(), table: Arc::clone(table), near: Near::default(), rows: 0 }
    }
}

/// A large value, read, and its column.
pub(crate) struct LargeValue {
    at: usize,
    is_text: bool,
    bytes: Vec<u8>,
}

/// A row with some of its large values in place.
pub(crate) fn with_large<'r>(row: &'r [DatumRef<'r>], large: &'r [LargeValue]) -> Result<Cow<'r, [DatumRef<'r>]>> {
    if large.is_empty() {
        return Ok(Cow::Borrowed(row));
    }
    let mut whole = row.to_vec();
    for value in large {
        whole[value.at] = if value.is_text {
            DatumRef::Text(std::str::from_utf8(&value.bytes).map_err(|_| Error::corrupt("a large text is not UTF-8"))?)
        } else {
            DatumRef::Bytes(&value.bytes)
        };
    }
    Ok(Cow::Owned(whole))
}

/// An index entry that was deleted: its tree, key and value.
type Deleted = (Tree, Vec<u8>, Vec<u8>);

pub(crate) struct Encoded {
    pub bytes: Vec<u8>,
    /// First pages of large values written for it.
    written: Vec<PageId>,
    /// And of those that the version which it replaces has as well.
    pub kept: Vec<PageId>,
}

/// The end of an insert that was not done; `index` is the one it was into, if any.
fn insert_step_of(outcome: Outcome, index: Option<usize>) -> Steps {
    match outcome {
        Outcome::Wait(holder) => Steps::Wait(holder),
        Outcome::Changed => Steps::Change(Change::Changed),
        _ => Steps::Duplicate(index),
    }
}

fn step_of(outcome: Outcome) -> Steps {
    match outcome {
        Outcome::Done => Steps::Done,
        Outcome::Wait(holder) => Steps::Wait(holder),
        Outcome::Duplicate => Steps::Duplicate(None),
        Outcome::Changed => Steps::Change(Change::Changed),
        Outcome::Gone => Steps::Change(Change::Gone),
        Outcome::SelfModified => Steps::Change(Change::SelfModified),
    }
}

/// The error of a duplicate key, worded as PostgreSQL's.
pub(crate) fn duplicate(table: &Table, index: Option<usize>, row: &[DatumRef<'_>]) -> Error {
    let (name, columns) = match index {
        None => (table.primary_key_name.as_str(), &table.primary_key),
        Some(at) => (table.indexes[at].name.as_str(), &table.indexes[at].columns),
    };
    let names: Vec<&str> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
    let values: Vec<String> = columns.iter().map(|c| display(&row[*c], table.columns[*c].ty)).collect();
    Error::new(ErrorKind::UniqueViolation, format!("duplicate key value violates unique constraint \"{name}\""))
        .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
        .with_constraint(name)
}

fn display(datum: &DatumRef<'_>, ty: resurgam_page::types::ColumnType) -> String {
    match datum {
        DatumRef::Null => "null".into(),
        DatumRef::Bool(b) => {
            if *b {
                "t".into()
            } else {
                "f".into()
            }
        }
        DatumRef::Int2(v) => v.to_string(),
        DatumRef::Int4(v) | DatumRef::Date(v) => v.to_string(),
        DatumRef::Int8(v) | DatumRef::Time(v) | DatumRef::Timestamp(v) | DatumRef::TimestampTz(v) => v.to_string(),
        DatumRef::Float4(v) => v.to_string(),
        DatumRef::Float8(v) => v.to_string(),
        DatumRef::Numeric(v) => match ty {
            resurgam_page::types::ColumnType::Numeric { scale, .. } if scale > 0 => {
                let digits = format!("{:0>width$}", v.unsigned_abs(), width = scale as usize + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
                format!("{}{whole}.{fraction}", if *v < 0 { "-" } else { "" })
            }
            _ => v.to_string(),
        },
        DatumRef::Text(text) => (*text).into(),
        DatumRef::Bytes(bytes) => bytes.iter().fold("\\x".into(), |s, b| format!("{s}{b:02x}")),
        DatumRef::Uuid(u) => {
            let hex: String = u.iter().map(|b| format!("{b:02x}")).collect();
            format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
        }
        DatumRef::Interval(v) => format!("{} months {} days {} microseconds", v.months, v.days, v.micros),
        DatumRef::External(_) => "(large value)".into(),
    }
}

impl Table {
    /// All columns of a row.
    pub(crate) fn all_columns<'a>(&'a self, row: RawRow<'a>) -> Result<Vec<DatumRef<'a>>> {
        (0..self.columns.len()).map(|i| self.column(row, i)).collect()
    }
    pub(crate) fn may_hold_external(&self) -> bool {
        self.value_types.iter().any(|t| t.fixed_width().is_none())
    }
    /// Large values that an encoded value refers to.
    pub(crate) fn externals_of_value(&self, value: &[u8]) -> Result<Vec<PageId>> {
        let externals = self.layout.view(value)?.externals()?;
        Ok(externals.into_iter().map(|external| external.page).collect())
    }
    /// Bytes of the large values that an encoded value refers to.
    pub(crate) fn external_bytes(&self, value: &[u8]) -> Result<u64> {
        if !self.may_hold_external() {
            return Ok(0);
        }
        Ok(self.layout.view(value)?.externals()?.iter().map(|external| external.len).sum())
    }
}

/// See [`Transaction::bulk_insert`].
pub struct BulkInserter {
    tx: Transaction,
    table: Arc<Table>,
    /// Its own: the transaction may write elsewhere between its rows.
    near: Near,
    rows: u64,
}

impl BulkInserter {
    /// Inserts a row.
    pub fn push(&mut self, row: &[DatumRef<'_>]) -> Result<Attempt<()>> {
        let attempt = self.tx.insert_near(&self.table, row, &self.near)?;
        if matches!(attempt, Attempt::Done(())) {
            self.rows += 1;
        }
        Ok(attempt)
    }
    /// Rows inserted.
    pub fn finish(self) -> u64 {
        self.rows
    }
}

/// The index entry of a row that is there. False: an index that is not valid can have none of it, since a value is too long: such rows may have
/// been there before the index.
///
/// # Errors
/// Those of [`Table::index_entry`].
pub(crate) fn had_entry(
    table: &Table,
    at: usize,
    row: &[DatumRef<'_>],
    key: &[u8],
    out_key: &mut Vec<u8>,
    out_value: &mut Vec<u8>,
) -> Result<bool> {
    match table.index_entry(at, row, key, out_key, out_value) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::LimitExceeded && !table.indexes[at].valid => Ok(false),
        Err(error) => Err(error),
    }
}
