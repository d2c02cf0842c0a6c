//! What foreign keys, and DEFERRABLE unique constraints, ask of the newest state of rows, whatever any snapshot sees.
//!
//! Row versions are the only locks here (rows that are locked to be shared are not asked for: who deletes one waits for those). Both sides of a foreign key WRITE FIRST AND THEN CHECK:
//! - who inserts a referring row (or gives one a new key) looks for the referenced key after
//!   the row and its index entries are in their pages;
//! - who deletes a referenced row (or takes its key away) looks for rows that refer to it after
//!   the row and its index entries are marked.
//!
//!
//! Those of a DEFERRABLE unique constraint are one side only: who writes a key looks, after the row and its index entries are in
//! their pages, for other rows that have it.
//!
//! Pages are written and read under their latches, so of two such transactions the one whose
//! look at the other's page comes later finds the other's version there: if the first looked
//! before the second wrote, the first had written before that, and the second, which looks
//! after it wrote, finds it. (Both may find each other; then both wait, and one gets 40P01.)
//! Whoever finds the version of a transaction that is still active, prepared ones among them,
//! waits for its end and looks again. A version is judged by its writer's state, which is
//! decided for good before anybody is woken; so crashes need nothing of their own.
//!
//! A look does not wait where the answer is the same however the others end: a row whose
//! version before another's change has the same key is there in both cases. That other may
//! still take it away later, but then it looks later, and finds what was written here. It
//! counts all versions of that other, since it may go back to any of them by a savepoint;
//! versions of sub-transactions that were rolled back are aborted ones, and are passed over,
//! as are those of transactions that were. What a transaction writes several times under one
//! id is one version: it can go back to the one before only.
//!
//! In the traditional mode an undo changes rows while their transaction is still active; who
//! meets them waits for its end. After a crash, earlier versions may have to wait for the undo
//! ([`Database::reading`](crate::Database)).
//!
//! A row that refers to a key can evade a search for it by moving from a place that is ahead
//! of the search to one behind it, by an update that leaves the key alone. So whoever changes
//! any column on which its place depends ([`Search::path`]) has to look for the referenced key
//! as one does who changed the key. The search goes through an index only if all columns of
//! that index belong to the foreign key.

use std::collections::VecDeque;
use std::sync::Arc;

use resurgam_base::{Error, Result, SlotId, TxId};
use resurgam_btree::{LeafWalk, Tree};
use resurgam_buffer::{Access, BufferPool};
use resurgam_page::LeafRecord;
use resurgam_page::key::{self as keys, prefix_end};
use resurgam_page::types::{ColumnType, DISPLAY_SCALE_BYTES, Datum, DatumRef, ExternalRef};
use resurgam_txn::{LockWait, Status};
use resurgam_versions::{Seen, View, possible, read_external};

use crate::table::{RawRow, RowBuf, Table};
use crate::transaction::{Transaction, WriteContext};

/// Leaves that one call of [`Referencing::step`] reads at most.
const LEAVES: usize = 16;

/// Whether something is there in the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Yes, whatever becomes of those who are active.
    Yes,
    No,
    /// It depends on how this transaction ends; wait for it and look again.
    Undecided(TxId),
}

impl Presence {
    /// Of what may come to be there, and what may not.
    fn of(yes: bool, no: bool, holder: Option<TxId>) -> Self {
        match (yes, no, holder) {
            (true, true, Some(holder)) => Self::Undecided(holder),
            (true, false, _) => Self::Yes,
            _ => Self::No,
        }
    }
}

/// A row that was looked at by its clustered key.
#[derive(Debug)]
pub struct Found {
    pub presence: Presence,
    /// If it is there: its newest version that is committed or own, and how that is known.
    pub row: RowBuf,
    pub seen: Seen,
    /// This transaction wrote that version.
    pub own: bool,
}

/// How the rows of a table that have some columns in common are found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The index to go through; `None`: the table itself.
    index: Option<usize>,
    /// How many leading columns of its key are given.
    prefix: usize,
    /// For each of those, which of the columns searched for it is.
    from: Vec<usize>,
}

impl Search {
    /// The best way to the rows of `table` that have given values in `columns`. It depends on
    /// the definition alone: all who use one definition choose the same way.
    pub fn new(table: &Table, columns: &[usize]) -> Self {
        let prefix_of = |key: &[usize]| key.iter().take_while(|at| columns.contains(at)).count();
        let mut best = Self { index: None, prefix: prefix_of(&table.primary_key), from: Vec::new() };
        for (at, index) in table.indexes.iter().enumerate() {
            let prefix = prefix_of(&index.columns);
            if index.valid && prefix == index.columns.len() && prefix > best.prefix {
                best = Self { index: Some(at), prefix, from: Vec::new() };
            }
        }
        let key = best.index.map_or(&table.primary_key, |at| &table.indexes[at].columns);
        best.from = key[..best.prefix].iter().filter_map(|at| columns.iter().position(|c| c == at)).collect();
        best
    }

    /// The way to rows by all columns of one index, in its order.
    pub fn through(table: &Table, index: usize) -> Self {
        let columns = table.indexes.get(index).map_or(0, |index| index.columns.len());
        Self { index: Some(index), prefix: columns, from: (0..columns).collect() }
    }

    /// Columns on which a row's place depends; see the module's head.
    pub fn path(&self, table: &Table) -> Vec<usize> {
        let mut path = table.primary_key.clone();
        if let Some(index) = self.index.and_then(|at| table.indexes.get(at)) {
            path.extend(&index.columns);
        }
        path
    }
}

/// A search for rows that have given values in given columns; see [`Transaction::referencing`].
pub struct Referencing {
    tx: Transaction,
    table: Arc<Table>,
    columns: Vec<usize>,
    values: Vec<Datum>,
    index: Option<usize>,
    walk: LeafWalk,
    /// Keys from here on are none of those sought.
    end: Option<Vec<u8>>,
    at_end: bool,
    found: VecDeque<Vec<u8>>,
}

impl Transaction {
    /// Whether the newest state of `table` has a row under the full encoded key of its unique
    /// index at `index` (`None`: its primary key). The table must be locked for rows, and
    /// `table` known to be its newest definition ([`Transaction::lock_rows`]).
    pub fn key_presence(&self, table: &Table, index: Option<usize>, key: &[u8]) -> Result<Presence> {
        let tree = match index {
            None => table.tree,
            Some(at) => {
                table
                    .indexes
                    .get(at)
                    .ok_or_else(|| Error::internal(format!("table {} has no index {at}", table.name)))?
                    .tree
            }
        };
        let context = self.write_context()?;
        self.reading(|| self.record_presence(&context, tree, key))
    }

    fn record_presence(&self, context: &WriteContext<'_>, tree: Tree, key: &[u8]) -> Result<Presence> {
        let pool = &self.0.db.inner().pool;
        let (page, Ok(slot)) = tree.find(pool, key, Access::Point)? else { return Ok(Presence::No) };
        let record = LeafRecord::parse(page.record(slot)?)?;
        let (mut yes, mut no) = (false, false);
        let holder = possible(pool, &record, &self.newest(context), &mut |possible| {
            if !possible.pending {
                self.note_met(context, possible.xid);
            }
            yes |= possible.value.is_some();
            no |= possible.value.is_none();
            Ok(())
        })?;
        Ok(Presence::of(yes, no, holder))
    }

    fn newest<'a>(&'a self, context: &WriteContext<'_>) -> View<'a> {
        let txs = &self.0.db.inner().txs;
        View { txs, ts: context.snapshot.ts(), own: context.active.id, hidden_from: TxId(u64::MAX) }
    }

    /// A wait for a transaction that [`Presence::Undecided`] names.
    ///
    /// # Errors
    /// `DeadlockDetected`.
    pub fn wait_for_writer(&self, holder: TxId) -> Result<LockWait> {
        let context = self.write_context()?;
        self.wait_for(&context, holder)
    }

    /// Searches `table` for the rows that have `values` (of the columns' types) in `columns`, by a way that [`Search::new`]
    /// gives for them, or [`Search::through`] for those of an index. A NULL is like another here. The table must be
    /// locked for rows, and `table` known to be its newest definition.
    pub fn referencing(
        &self,
        table: &Arc<Table>,
        search: &Search,
        columns: &[usize],
        values: Vec<Datum>,
    ) -> Result<Referencing> {
        let given: Vec<DatumRef<'_>> = search.from.iter().filter_map(|at| values.get(*at)).map(Datum::as_ref).collect();
        let mut prefix = Vec::new();
        match search.index {
            None => table.encode_key(&given, &mut prefix)?,
            Some(index) => table.encode_index_key(index, &given, &mut prefix)?,
        }
        let tree = match search.index {
            None => table.tree,
            Some(at) => table.indexes[at].tree,
        };
        Ok(Referencing {
            tx: self.clone(),
            table: Arc::clone(table),
            columns: columns.to_vec(),
            values,
            index: search.index,
            end: if search.prefix == 0 { None } else { prefix_end(&prefix) },
            walk: LeafWalk::ascending(tree, prefix),
            at_end: false,
            found: VecDeque::new(),
        })
    }

    /// Reads a large value of a row that is not gone.
    pub fn read_large(&self, value: ExternalRef) -> Result<Vec<u8>> {
        read_external(&self.0.db.inner().pool, value)
    }
}

impl Referencing {
    /// The clustered key of the next row that may be one of those sought, now or when others
    /// have ended: see [`Referencing::judge`]. `Ok(None)`: nothing in the next few pages; it is
    /// over when [`Referencing::is_over`].
    pub fn step(&mut self) -> Result<Option<Vec<u8>>> {
        if self.found.is_empty() && !self.at_end {
            let tx = self.tx.clone();
            let context = tx.write_context()?;
            let before = self.walk.clone();
            tx.reading(|| {
                // What was read before a row that had to be waited for is read again.
                self.found.clear();
                self.walk = before.clone();
                self.at_end = false;
                self.fill(&context)
            })?;
        }
        Ok(self.found.pop_front())
    }

    /// Whether all rows were handed out.
    pub fn is_over(&self) -> bool {
        self.found.is_empty() && self.at_end
    }

    fn fill(&mut self, context: &WriteContext<'_>) -> Result<()> {
        let db = self.tx.0.db.clone();
        let (pool, tx) = (&db.inner().pool, self.tx.clone());
        let view = tx.newest(context);
        for _ in 0..LEAVES {
            let Some(page) = self.walk.next(pool)? else {
                self.at_end = true;
                return Ok(());
            };
            for slot in self.walk.new_slots(&page) {
                let record = LeafRecord::parse(page.record(SlotId(slot))?)?;
                if self.end.as_ref().is_some_and(|end| record.key >= end.as_slice()) {
                    self.at_end = true;
                    return Ok(());
                }
                self.candidates(pool, &record, &view)?;
            }
            if !self.found.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Notes the clustered keys that a record may lead to.
    fn candidates(&mut self, pool: &BufferPool, record: &LeafRecord<'_>, view: &View<'_>) -> Result<()> {
        let (table, columns, values) = (&self.table, &self.columns, &self.values);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        possible(pool, record, view, &mut |possible| {
            let Some(value) = possible.value else { return Ok(()) };
            let key = match self.index {
                None if matches(table, columns, values, RawRow { key: record.key, value })? == Some(false) => {
                    return Ok(());
                }
                None => record.key,
                Some(index) => table.clustered_key(index, record.key, value)?,
            };
            if !keys.iter().any(|known| known == key) {
                keys.push(key.to_vec());
            }
            Ok(())
        })?;
        self.found.extend(keys);
        Ok(())
    }

    /// Whether the row under a clustered key is one of those sought.
    pub fn judge(&self, key: &[u8]) -> Result<Found> {
        let context = self.tx.write_context()?;
        self.tx.reading(|| self.judge_now(&context, key))
    }

    fn judge_now(&self, context: &WriteContext<'_>, key: &[u8]) -> Result<Found> {
        let pool = &self.tx.0.db.inner().pool;
        let view = self.tx.newest(context);
        let mut found = Found {
            presence: Presence::No,
            row: RowBuf { key: key.to_vec(), value: Vec::new() },
            seen: Seen::Snapshot,
            own: false,
        };
        let (page, Ok(slot)) = self.table.tree.find(pool, key, Access::Point)? else { return Ok(found) };
        let record = LeafRecord::parse(page.record(slot)?)?;
        let (mut yes, mut no, mut decided) = (false, false, None);
        let holder = possible(pool, &record, &view, &mut |possible| {
            if !possible.pending {
                self.tx.note_met(context, possible.xid);
            }
            let Some(value) = possible.value else {
                no = true;
                return Ok(());
            };
            let same = matches(&self.table, &self.columns, &self.values, RawRow { key, value })?;
            if possible.pending {
                // A large value of another's is not read: it goes when that one rolls back.
                yes |= same != Some(false);
                no |= same != Some(true);
            } else {
                decided = Some((possible.xid, value.to_vec(), same));
            }
            Ok(())
        })?;
        drop(page);
        if let Some((xid, value, same)) = decided {
            found.row.value = value;
            // It was there when this statement's snapshot was taken, or came later: nothing of
            // it goes before the snapshot does.
            let same = match same {
                Some(same) => same,
                None => self.matches_large(&found.row)?,
            };
            yes |= same;
            no |= !same;
            found.seen = Seen::Version(xid);
            found.own =
                xid.is_some() && matches!(view.txs.status(xid), Status::Active(top) if top == context.active.id);
        }
        found.presence = Presence::of(yes, no, holder);
        Ok(found)
    }

    fn matches_large(&self, row: &RowBuf) -> Result<bool> {
        for (column, wanted) in self.columns.iter().zip(&self.values) {
            let ty = self.table.columns[*column].ty;
            let same = match self.table.column(row.raw(), *column)? {
                DatumRef::External(reference) => {
                    let bytes = self.tx.read_large(reference)?;
                    match wanted {
                        Datum::Text(text) => text.as_bytes() == bytes,
                        Datum::Bytes(_) => is_same(&DatumRef::Bytes(&bytes), &wanted.as_ref(), ty),
                        _ => false,
                    }
                }
                datum => is_same(&datum, &wanted.as_ref(), ty),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a row has these values; `None`: it depends on a large one.
fn matches(table: &Table, columns: &[usize], values: &[Datum], row: RawRow<'_>) -> Result<Option<bool>> {
    let mut known = Some(true);
    for (column, wanted) in columns.iter().zip(values) {
        match table.column(row, *column)? {
            DatumRef::External(_) => known = None,
            datum if !is_same(&datum, &wanted.as_ref(), table.columns[*column].ty) => return Ok(Some(false)),
            _ => {}
        }
    }
    Ok(known)
}

/// Equality as keys have it: one NaN is like the other, and so are numerics that show other digits.
fn is_same(a: &DatumRef<'_>, b: &DatumRef<'_>, ty: ColumnType) -> bool {
    fn key(bytes: &[u8]) -> &[u8] {
        &bytes[..bytes.len().saturating_sub(DISPLAY_SCALE_BYTES)]
    }
    match (a, b) {
        (DatumRef::Bytes(a), DatumRef::Bytes(b)) if matches!(ty, ColumnType::VarNumeric(_)) => key(a) == key(b),
        (DatumRef::Null, _) | (_, DatumRef::Null) => a == b,
        // What cannot be a key, since it is too long, is equal if its bytes are.
        _ if ty.is_equal_by_key() => {
            let key = |value: &DatumRef<'_>| {
                let mut out = Vec::new();
                keys::encode(&[*value], &[ty.into()], &mut out).map(|()| out)
            };
            match (key(a), key(b)) {
                (Ok(a), Ok(b)) => a == b,
                _ => a == b,
            }
        }
        (DatumRef::Float4(a), DatumRef::Float4(b)) => a == b || (a.is_nan() && b.is_nan()),
        (DatumRef::Float8(a), DatumRef::Float8(b)) => a == b || (a.is_nan() && b.is_nan()),
        _ => a == b,
    }
}
