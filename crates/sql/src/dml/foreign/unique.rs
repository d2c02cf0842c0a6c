//! DEFERRABLE UNIQUE constraints: what a write does about them.
//!
//! The index of such a constraint takes equal keys, as any other index does (the engine's `Deferral`). That in the end there
//! is one row for each key is looked after here, with the queues of foreign keys:
//!
//! 1. After a row is written with a new key, one look that never waits tells whether another row has that key, or may have it
//!    when others have ended. If none does, nothing is left to do: no memory is taken, however many rows are written.
//! 2. Else the key is queued, and judged at the end of the statement, or, if the constraint is deferred, when SET CONSTRAINTS
//!    says so and before the transaction commits or is prepared.
//! 3. It is judged by the newest state, not by a snapshot, and waits for whoever makes the outcome depend on him.
//!
//! # Why no two transactions commit the same key
//! Each of them WRITES FIRST AND THEN LOOKS. Writes and looks meet in the pages of the index, under their latches, so of two
//! transactions with the same key the one that looks later finds the other's row, whichever isolation they have: looks go by
//! no snapshot. It has the key queued then, and its judgement waits for the other's end (prepared ones among them): if that
//! one commits there are two rows and this one fails, else it goes on. If both found each other, both wait, and one gets
//! 40P01. The same holds for a row that another is deleting or giving another key: it counts as long as that may be
//! taken back, by a savepoint too.
//!
//! A row can evade a look by moving in the index from ahead of it to behind it. That takes another primary key (the row's
//! place behind its key), so who changes that looks again, as one does who changed the key.
//!
//! Who has no row of his own with the key has nothing to fail for: the others look after theirs. Going back to a
//! savepoint undoes what was written after it, the latest first; so a key that was seen to be free needs no second look, and
//! one that was judged fine with what a savepoint may take back stays in the queue (`deferred.rs`).

use std::sync::Arc;

use resurgam_engine::{ColumnType, Datum, DatumRef, Deferral, Presence, RowBuf, Search, Table, Transaction};
use resurgam_numeric::key as numeric_key;

use super::enforce::pause;
use super::{columns_of, whole};
use crate::exec::bridge::named;
use crate::exec::wait::Waiting;
use crate::pg::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

/// A DEFERRABLE UNIQUE constraint of a table.
#[derive(Debug)]
pub(crate) struct Unique {
    pub table: Arc<Table>,
    /// Position of its index.
    pub index: usize,
    /// How rows with a key are found.
    search: Search,
    /// The columns of which a change must look again: those of the key, and on which the row's place behind it depends.
    path: Vec<usize>,
}

/// The key of one row.
pub(super) struct OwnKey {
    /// Encoded, …
    key: Vec<u8>,
    /// … and the values of its columns.
    values: Vec<Datum>,
}

impl OwnKey {
    pub(super) fn encoded(&self) -> &[u8] {
        &self.key
    }
}

impl Unique {
    /// That of an index.
    pub(super) fn new(table: &Arc<Table>, index: usize) -> Self {
        let search = Search::through(table, index);
        let path = search.path(table);
        Self { table: Arc::clone(table), index, search, path }
    }

    /// Those of a table.
    pub(super) fn of(table: &Arc<Table>) -> impl Iterator<Item = Arc<Self>> + '_ {
        let found = table.indexes.iter().enumerate().filter(|(_, index)| index.is_deferrable());
        found.map(|(at, _)| Arc::new(Self::new(table, at)))
    }

    /// Id of its index.
    pub(super) fn id(&self) -> u32 {
        self.table.indexes[self.index].id
    }

    /// When it is judged, if nothing else was said.
    pub(super) fn deferral(&self) -> Deferral {
        self.table.indexes[self.index].deferral
    }

    fn columns(&self) -> &[usize] {
        &self.table.indexes[self.index].columns
    }

    /// Whether a row must be looked for again when one of these columns changes.
    pub(super) fn concerns(&self, mut changed: impl FnMut(usize) -> bool) -> bool {
        self.path.iter().any(|at| changed(*at))
    }

    /// The key of a row that was just written, encoded, if another row may have it, too.
    pub(super) async fn collides(
        &self,
        txn: &Transaction,
        row: &[DatumRef<'_>],
        waiting: &Waiting<'_>,
    ) -> Result<Option<Vec<u8>>, SqlError> {
        match self.own_key(txn, row)? {
            Some(key) => self.collides_with(txn, key, 1, waiting).await,
            None => Ok(None),
        }
    }

    /// The key of a row; `None`: it may be there several times.
    pub(super) fn own_key(&self, txn: &Transaction, row: &[DatumRef<'_>]) -> Result<Option<OwnKey>, SqlError> {
        let values = self.columns().iter().map(|at| whole(txn, row.get(*at).copied().unwrap_or(DatumRef::Null)));
        let values: Vec<Datum> = values.collect::<Result<_, _>>()?;
        let refs: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
        if !self.table.must_differ(self.index, &refs) {
            return Ok(None);
        }
        let mut key = Vec::with_capacity(16);
        self.table.encode_index_key(self.index, &refs, &mut key)?;
        Ok(Some(OwnKey { key, values }))
    }

    /// The key of a row that is in, encoded, if another row may have it, too. `own`: so many rows have it that were inserted with it,
    /// itself among them, and none of them before it: each of those looks for itself.
    pub(super) async fn collides_with(
        &self,
        txn: &Transaction,
        OwnKey { key, values }: OwnKey,
        own: usize,
        waiting: &Waiting<'_>,
    ) -> Result<Option<Vec<u8>>, SqlError> {
        let mut search = txn.referencing(&self.table, &self.search, self.columns(), values)?;
        let mut rows = 0;
        while !search.is_over() {
            match search.step()? {
                Some(row) if search.judge(&row)?.presence != Presence::No => {
                    rows += 1;
                    if rows > own {
                        return Ok(Some(key));
                    }
                }
                Some(_) => {}
                None => pause(waiting).await?,
            }
        }
        Ok(None)
    }

    /// Judges a key, waiting for those who may settle it.
    ///
    /// # Errors
    /// `23505`; those of waiting.
    pub(super) async fn check(&self, txn: &Transaction, key: &[u8], waiting: &Waiting<'_>) -> Result<(), SqlError> {
        let values = self.values(key)?;
        loop {
            let mut search = txn.referencing(&self.table, &self.search, self.columns(), values.clone())?;
            let (mut rows, mut own, mut holder) = (0, None, None);
            while !search.is_over() {
                let Some(row) = search.step()? else {
                    pause(waiting).await?;
                    continue;
                };
                let found = search.judge(&row)?;
                match found.presence {
                    Presence::No => {}
                    Presence::Undecided(other) => holder = Some(other),
                    Presence::Yes => {
                        rows += 1;
                        own = found.own.then_some(found.row).or(own);
                    }
                }
            }
            let Some(own) = own else { return Ok(()) };
            if rows > 1 {
                return Err(self.violated(txn, &own));
            }
            match holder {
                Some(holder) => waiting.wait(txn.wait_for_writer(holder)?).await?,
                None => return Ok(()),
            }
        }
    }

    /// The values of a key.
    fn values(&self, key: &[u8]) -> Result<Vec<Datum>, SqlError> {
        let mut values = self.table.decode_key(Some(self.index), key)?;
        for (value, at) in values.iter_mut().zip(self.columns()) {
            // A column that has become one since: what is refused of a new constraint.
            if self.table.columns[*at].ty == ColumnType::Jsonb {
                return Err(SqlError::unsupported("keys of jsonb are not judged later"));
            }
            // A key says nothing of how many digits a numeric shows, and rows are compared without.
            if let Datum::Bytes(encoded) = value
                && matches!(self.table.columns[*at].ty, ColumnType::VarNumeric(_))
            {
                let number = numeric_key::read_whole(numeric_key::key_of(encoded)).map_err(numeric_error)?;
                *encoded = number.encoded();
            }
        }
        Ok(values)
    }

    /// The error of a row that is not the only one with its key.
    #[cold]
    fn violated(&self, txn: &Transaction, row: &RowBuf) -> SqlError {
        let index = &self.table.indexes[self.index];
        let error =
            SqlError::new("23505", format!("duplicate key value violates unique constraint \"{}\"", index.name));
        let row = columns_of(&self.table, row).and_then(|row| row.iter().map(|datum| whole(txn, *datum)).collect());
        let row: Vec<Datum> = match row {
            Ok(row) => row,
            Err(failed) => return failed,
        };
        let row: Vec<DatumRef<'_>> = row.iter().map(Datum::as_ref).collect();
        named(error, &self.table, &row)
    }
}
