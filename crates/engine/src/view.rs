//! What one statement sees, and point reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_base::pauses::Pause;
use resurgam_base::{CommitTs, Error, ErrorKind, Result, TxId};
use resurgam_btree::Tree;
use resurgam_buffer::{Access, Patience};
use resurgam_page::types::ExternalRef;
use resurgam_page::{LeafRecord, leaf};
use resurgam_txn::SnapshotHold;
use resurgam_versions::{KnownSeen, View, Visible, read_external, visible_known};

use crate::catalog_overlay::OwnChanges;
use crate::covering::Covering;
use crate::cursor::{Cursor, Direction, KeyRange};
use crate::database::Database;
use crate::definition::Index;
use crate::table::{RawRow, RowBuf, Table};
use crate::transaction::Interrupt;

/// A statement's view of the database. Holding it keeps the row versions that it needs.
#[derive(Clone)]
pub struct ReadView {
    pub(crate) db: Database,
    pub(crate) snapshot: Arc<SnapshotHold>,
    pub(crate) own: TxId,
    pub(crate) hidden_from: TxId,
    /// Version of the catalog when the view was made.
    pub(crate) catalog_version: u64,
    /// What its transaction had changed of definitions by then, which no cache knows.
    pub(crate) own_changes: Option<OwnChanges>,
    /// Its user knows that definitions are current: it has the table locked, say.
    pub(crate) unchecked: bool,
    /// Sees every decided commit, not only those that the snapshot sees.
    pub(crate) newest: bool,
    /// Which statement of its transaction it is of.
    pub(crate) statement: u64,
    pub(crate) known: Known,
    /// How long its reads wait for pages; none: to the end.
    pub(crate) patience: Option<Arc<Patience>>,
}

/// What a view has found out once and need not ask again: those who read a row each would all write the lock of what is
/// asked. What it knows of stays true for it.
#[derive(Default)]
pub(crate) struct Known {
    /// The table that was found to be as it is defined at the view's version of the catalog: id and generation, if both are
    /// short; 0 = none.
    table: AtomicU64,
    /// See [`KnownSeen`].
    seen: AtomicU64,
}

impl Clone for Known {
    /// A clone is often changed before it is used: to see more, or other definitions.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Known {
    fn name(table: &Table) -> u64 {
        let generation = if table.generation >> 32 == 0 { table.generation } else { 0 };
        if generation == 0 { 0 } else { u64::from(table.id) << 32 | generation }
    }
}

impl ReadView {
    pub(crate) fn view(&self) -> View<'_> {
        let ts = if self.newest { CommitTs(u64::MAX) } else { self.snapshot.ts() };
        View { txs: &self.db.inner().txs, ts, own: self.own, hidden_from: self.hidden_from }
    }

    /// The same view, whose reads ask `interrupt` while they wait for a page, where these come from page servers
    /// ([`Transaction::set_interrupt`](crate::Transaction::set_interrupt)).
    pub fn interrupted_by(self, interrupt: impl FnOnce() -> Interrupt) -> Self {
        if self.db.inner().pool.is_remote() {
            return Self { patience: self.db.patience(Some(&interrupt())), ..self };
        }
        self
    }

    /// Reads with its patience.
    pub(crate) fn patiently<R>(&self, read: impl FnOnce() -> R) -> R {
        match &self.patience {
            Some(patience) => patience.during(read),
            None => read(),
        }
    }

    /// As [`Database::reading`], with its patience.
    pub(crate) fn reading<R>(&self, mut read: impl FnMut() -> Result<R>) -> Result<R> {
        self.db.reading(|| self.patiently(&mut read))
    }

    /// Version of the catalog whose definitions the view goes by.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// The same view, but of every commit that is decided, durable or not: what a writer who has
    /// waited finds. Not one moment's state: others commit while it is used.
    pub fn newest(&self) -> Self {
        Self { newest: true, ..self.clone() }
    }

    /// The same view, with what the running statement itself has written.
    pub fn with_own_writes(&self) -> Self {
        Self { hidden_from: TxId(u64::MAX), ..self.clone() }
    }

    /// Refuses a definition that no longer describes the table.
    pub(crate) fn check_table(&self, table: &Table) -> Result<()> {
        let name = Known::name(table);
        if name != 0 && self.known.table.load(Ordering::Relaxed) == name {
            return Ok(());
        }
        let current = match self.own_changes.as_ref().and_then(|own| own.generation(table.id)) {
            _ if self.unchecked => true,
            Some(own) => own == table.generation,
            None => self.db.inner().catalog.was_current(&self.db, table, self.catalog_version)?,
        };
        if current {
            self.known.table.store(name, Ordering::Relaxed);
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::DefinitionChanged,
            format!("could not use table \"{}\" because its definition was changed at the same time", table.name),
        )
        .with_hint("Retry the transaction."))
    }

    /// Reads the row with the encoded clustered key. False: this view sees none.
    pub fn get(&self, table: &Table, key: &[u8], row: &mut RowBuf) -> Result<bool> {
        self.check_table(table)?;
        self.get_unchecked(table, key, row)
    }

    pub(crate) fn get_unchecked(&self, table: &Table, key: &[u8], row: &mut RowBuf) -> Result<bool> {
        let found = self.read_value(table.tree, key, &mut row.value)?;
        if found {
            row.key.clear();
            row.key.extend_from_slice(key);
        }
        Ok(found)
    }

    /// The value seen under `key` in a tree.
    pub(crate) fn read_value(&self, tree: Tree, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.reading(|| self.read_value_now(tree, key, out))
    }

    /// A transaction whose writes it sees, as far as it has met one.
    #[inline]
    pub(crate) fn known_seen(&self) -> KnownSeen {
        KnownSeen::of(TxId(self.known.seen.load(Ordering::Relaxed)))
    }

    /// It has met another one since.
    #[inline]
    pub(crate) fn note_seen(&self, before: KnownSeen, now: KnownSeen) {
        if now.id() != before.id() {
            self.known.seen.store(now.id().0, Ordering::Relaxed);
        }
    }

    fn read_value_now(&self, tree: Tree, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let pool = &self.db.inner().pool;
        let (page, Ok(slot)) = tree.find(pool, key, Access::Point)? else { return Ok(false) };
        let record = page.record(slot)?;
        let before = self.known_seen();
        if let Some(plain) = leaf::plain_of(record)
            && before.includes(plain.xid)
        {
            if !plain.ghost {
                out.clear();
                out.extend_from_slice(plain.value());
            }
            return Ok(!plain.ghost);
        }
        let record = LeafRecord::parse(record)?;
        let mut known = before;
        let found = visible_known(pool, &record, &self.view(), &mut known, out)?;
        self.note_seen(before, known);
        match found {
            Visible::No => Ok(false),
            Visible::Rebuilt => Ok(true),
            Visible::Current => {
                out.clear();
                out.extend_from_slice(record.value);
                Ok(true)
            }
        }
    }

    /// Reads the row that a unique index has under the full encoded key.
    pub fn get_by_index(&self, table: &Table, index: &Index, key: &[u8], row: &mut RowBuf) -> Result<bool> {
        self.check_table(table)?;
        let (mut clustered, mut before) = (Vec::new(), Vec::new());
        loop {
            if !self.read_value(index.tree, key, &mut clustered)? {
                return Ok(false);
            }
            Pause::EntryRead.here();
            if self.get_unchecked(table, &clustered, row)? {
                return Ok(true);
            }
            // The newest state may be another one by now: the row has moved.
            if !self.newest || clustered == before {
                return Ok(false);
            }
            std::mem::swap(&mut clustered, &mut before);
        }
    }

    /// As [`ReadView::get_by_index`], with the columns that `covering` was made for, from the index alone where the view is of a
    /// snapshot.
    pub fn get_covered(&self, table: &Table, covering: &Covering, key: &[u8], row: &mut RowBuf) -> Result<bool> {
        let index = table.indexes.get(covering.index).filter(|index| index.valid);
        let index = index.ok_or_else(|| table.no_index(covering.index))?;
        if self.newest {
            return self.get_by_index(table, index, key, row);
        }
        self.check_table(table)?;
        let mut value = std::mem::take(&mut row.value);
        let found = self.read_value(index.tree, key, &mut value);
        row.value = value;
        if !found? {
            return Ok(false);
        }
        row.key.clear();
        row.key.extend_from_slice(table.clustered_key(covering.index, key, &row.value)?);
        row.value.clear();
        covering.append_value(table, RawRow { key, value: &[] }, &mut row.value)?;
        Ok(true)
    }

    /// Rows of a range in clustered order.
    pub fn scan(&self, table: &Arc<Table>, range: KeyRange, direction: Direction) -> Cursor {
        Cursor::new(self.clone(), Arc::clone(table), None, range, direction).removing_ghosts()
    }

    /// How many rows there are in a range, exactly: faster than to read them.
    ///
    /// # Errors
    /// As [`Cursor::next_batch`].
    pub fn count(&self, table: &Arc<Table>, range: KeyRange) -> Result<u64> {
        self.scan(table, range, Direction::Forward).count()
    }

    /// Rows of a range of an index (by its position in the table's list), in its order.
    pub fn scan_index(&self, table: &Arc<Table>, index: usize, range: KeyRange, direction: Direction) -> Cursor {
        Cursor::new(self.clone(), Arc::clone(table), Some(index), range, direction).removing_ghosts()
    }

    /// Reads a large value.
    pub fn read_external(&self, value: ExternalRef) -> Result<Vec<u8>> {
        self.patiently(|| read_external(&self.db.inner().pool, value))
    }

    /// Splits a table into at most `n` ranges of about equal size.
    pub fn partitions(&self, table: &Table, n: usize) -> Result<Vec<KeyRange>> {
        self.divide(table, &KeyRange::all(), n)
    }

    /// Divides a range of a table at keys that divide the table into about `n` equal parts: the parts within the range are as large, those at its
    /// ends smaller.
    ///
    /// # Errors
    /// Those of reading inner pages of the tree.
    pub fn divide(&self, table: &Table, range: &KeyRange, n: usize) -> Result<Vec<KeyRange>> {
        self.check_table(table)?;
        let mut keys = self.patiently(|| table.tree.separators(&self.db.inner().pool, n))?;
        keys.retain(|key| range.has_within(key));
        Ok(range.split(&keys))
    }

    /// About how many rows a table has.
    pub fn row_count_estimate(&self, table: &Table) -> u64 {
        self.patiently(|| self.db.row_count_estimate(table)).unwrap_or(1000)
    }
}
