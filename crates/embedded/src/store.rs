//! Rows by their columns' values: what typed tables are made on.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use resurgam_engine::key::prefix_end;
use resurgam_engine::{
    Attempt, Change, ColumnType, DatumRef, Direction, ErrorKind, KeyRange, Load, RawRow, ReadView, RowBuf, Seen,
    StatementKind, Table,
};

use crate::error::{Error, Result};
use crate::fields::{BoundValues, Values};
use crate::range::Make;
use crate::shape::{Known, is_plain};
use crate::tx::Core;
use crate::value::{Column, Unfit, show};

/// Bytes that most keys have at most.
const KEY_USUAL: usize = 64;

/// The columns of a row that is being read, one after another.
pub struct Source<'r> {
    known: &'r Known,
    view: &'r ReadView,
    row: RawRow<'r>,
    at: usize,
}

impl<'r> Source<'r> {
    pub(crate) fn new(known: &'r Known, view: &'r ReadView, row: RawRow<'r>) -> Self {
        Self { known, view, row, at: 0 }
    }

    /// Passes over columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.at += columns;
    }

    /// The next column.
    ///
    /// # Errors
    /// [`Error::Value`] if its value is none of type `C`.
    #[doc(hidden)]
    #[expect(clippy::should_implement_trait, reason = "each call is of a type of its own")]
    pub fn next<C: Column>(&mut self) -> Result<C> {
        let table = &self.known.table;
        let at = self.known.columns.get(self.at).copied().unwrap_or(usize::MAX);
        self.at += 1;
        let datum = table.column(self.row, at)?;
        let large;
        let datum = match datum {
            DatumRef::External(reference) => {
                large = self.view.read_external(reference)?;
                match reference.is_text {
                    true => DatumRef::Text(std::str::from_utf8(&large).map_err(|_| {
                        resurgam_engine::Error::corrupt(format!("a large text of table {} is not UTF-8", table.name))
                    })?),
                    false => DatumRef::Bytes(&large),
                }
            }
            datum => datum,
        };
        C::from_datum(datum).ok_or_else(|| Error::Value {
            table: self.known.name.clone(),
            column: table.columns.get(at).map_or_else(String::new, |column| column.name.clone()),
            expected: C::expected(),
            found: show(&datum),
        })
    }
}

/// A table in a transaction.
#[derive(Clone)]
pub(crate) struct Store<'tx> {
    pub core: &'tx Core,
    pub known: Arc<Known>,
}

impl<'tx> Store<'tx> {
    fn table(&self) -> &Arc<Table> {
        &self.known.table
    }

    /// A value given cannot be; of which column is not known.
    pub fn unfit(&self, unfit: Unfit) -> Error {
        Error::Value {
            table: self.known.name.clone(),
            column: "?".to_owned(),
            expected: unfit.expected.to_owned(),
            found: unfit.found.to_owned(),
        }
    }

    /// The same of the column of a row that comes after those that were put already.
    pub fn unfit_at(&self, unfit: Unfit, put: usize) -> Error {
        self.unfit_of(unfit, self.known.columns.get(put))
    }

    /// The same of a column of the key.
    pub fn unfit_in_key(&self, unfit: Unfit, put: usize) -> Error {
        self.unfit_of(unfit, self.table().primary_key.get(put))
    }

    /// The same of a column of an index.
    pub fn unfit_in_index(&self, unfit: Unfit, at: usize, put: usize) -> Error {
        self.unfit_of(unfit, self.table().indexes.get(at).and_then(|index| index.columns.get(put)))
    }

    fn unfit_of(&self, unfit: Unfit, column: Option<&usize>) -> Error {
        match column.and_then(|at| self.table().columns.get(*at)) {
            Some(column) => Error::Value {
                table: self.known.name.clone(),
                column: column.name.clone(),
                expected: unfit.expected.to_owned(),
                found: unfit.found.to_owned(),
            },
            None => self.unfit(unfit),
        }
    }

    /// What was read of the table. Errors that end the transaction are noted.
    pub fn noted<T>(&self, read: resurgam_engine::Result<T>) -> Result<T> {
        read.map_err(|error| self.core.note(self.core.named(&self.known.name, Some(&self.known), error)))
    }

    /// What the transaction sees now.
    pub fn view(&self) -> Result<Cow<'tx, ReadView>> {
        self.noted(self.core.view())
    }

    /// What it sees now, whatever it writes while that is read.
    pub fn lasting_view(&self) -> Result<ReadView> {
        let kind = if self.core.writes { StatementKind::Cursor } else { StatementKind::Read };
        self.noted(self.core.tx.statement(kind))
    }

    /// The clustered key of values of the primary key, in its order.
    pub fn key(&self, values: &[DatumRef<'_>]) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(KEY_USUAL);
        self.table().encode_key(values, &mut key).map_err(|error| self.explain(error, None))?;
        Ok(key)
    }

    fn key_values<'d>(&self, row: &[DatumRef<'d>]) -> Values<'d> {
        self.table().primary_key.iter().filter_map(|at| row.get(*at).copied()).collect()
    }

    /// "(a, b)=(1, 2)" of columns of a row.
    fn show_key(&self, columns: &[usize], row: &[DatumRef<'_>]) -> String {
        let names: Vec<&str> =
            columns.iter().filter_map(|at| self.table().columns.get(*at)).map(|column| column.name.as_str()).collect();
        let values: Vec<String> = columns.iter().filter_map(|at| row.get(*at)).map(show).collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }

    /// The engine's error in this crate's words; `row` is the one that was to be written.
    fn explain(&self, error: resurgam_engine::Error, row: Option<&[DatumRef<'_>]>) -> Error {
        self.explain_own(Error::from(error), row)
    }

    fn explain_own(&self, error: Error, row: Option<&[DatumRef<'_>]>) -> Error {
        let Error::Engine(error) = error else { return error };
        match (error.kind(), row) {
            (ErrorKind::UniqueViolation, Some(row)) => {
                let name = error.constraint().unwrap_or_default();
                let index = self.table().indexes.iter().find(|index| index.name == name);
                let columns = index.map_or(&self.table().primary_key, |index| &index.columns);
                let key = self.show_key(columns, row);
                Error::Duplicate { table: self.known.name.clone(), index: name.to_owned(), key }
            }
            (ErrorKind::LimitExceeded, _) => {
                Error::TooLong { table: self.known.name.clone(), what: error.message().to_owned() }
            }
            _ => Error::Engine(error),
        }
    }

    pub fn check_writable(&self) -> Result<()> {
        match &self.known.read_only {
            Some(why) => Err(Error::ReadOnly { table: self.known.name.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Reads the row under a key with `view`.
    pub fn read<T>(
        &self,
        view: &ReadView,
        key: &[u8],
        make: impl FnOnce(&mut Source<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.core.with_row(|row| {
            if !self.noted(view.get(self.table(), key, row))? {
                return Ok(None);
            }
            self.make(view, row.raw(), make).map(Some)
        })
    }

    /// What `make` makes of a row.
    pub fn make<T>(
        &self,
        view: &ReadView,
        row: RawRow<'_>,
        make: impl FnOnce(&mut Source<'_>) -> Result<T>,
    ) -> Result<T> {
        // A value on pages of its own is read only here.
        make(&mut Source::new(&self.known, view, row)).map_err(|error| self.core.note(error))
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let view = self.view()?;
        self.core.with_row(|row| self.noted(view.get(self.table(), key, row)))
    }

    fn settle<T>(&self, attempt: impl FnMut() -> resurgam_engine::Result<Attempt<T>>) -> Result<T> {
        self.core.settle(&self.known.name, Some(&self.known), attempt)
    }

    fn settle_engine<T>(&self, attempt: impl FnMut() -> resurgam_engine::Result<Attempt<T>>) -> Result<T> {
        self.core.settle_engine(&self.known.name, Some(&self.known), attempt)
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if its key, or one that is unique, is there.
    pub fn insert(&self, row: &[DatumRef<'_>]) -> Result<()> {
        self.check_writable()?;
        let inserted = self.settle_engine(|| self.core.tx.insert(self.table(), row));
        inserted.map_err(|error| self.refused(error, row))
    }

    /// Inserts the rows that `give` gives, all or none; how many they are.
    ///
    /// # Errors
    /// As [`Store::insert`], of the first that cannot be inserted; those of `give`.
    pub fn insert_all(&self, give: impl FnOnce(&mut Loading<'_, 'tx>) -> Result<()>) -> Result<u64> {
        self.check_writable()?;
        self.core.whole(|| {
            let mut loading = Loading { store: self, load: self.core.tx.load(self.table()), failed: false };
            let given = give(&mut loading);
            if given.is_ok() || !loading.failed {
                // What was given before an error comes first.
                loading.flush()?;
            }
            given.map(|()| loading.load.inserted())
        })
    }

    /// Why a row was not written. A duplicate that the transaction does not see came since it began: it is tried again, and then
    /// finds it.
    fn refused(&self, error: Error, row: &[DatumRef<'_>]) -> Error {
        let error = self.core.note(self.explain_own(error, Some(row)));
        let Error::Duplicate { index, .. } = &error else { return error };
        match self.sees_duplicate(index, row) {
            Ok(true) => error,
            Ok(false) => self.core.conflict(&self.known.name, "a row with the same key was inserted at the same time"),
            Err(other) => other,
        }
    }

    fn sees_duplicate(&self, name: &str, row: &[DatumRef<'_>]) -> Result<bool> {
        let table = self.table();
        let Some(at) = table.indexes.iter().position(|index| index.name == name) else {
            return self.contains(&self.key(&self.key_values(row))?);
        };
        let index = &table.indexes[at];
        let values: Values<'_> = index.columns.iter().filter_map(|column| row.get(*column).copied()).collect();
        let mut key = Vec::new();
        table.encode_index_key(at, &values, &mut key)?;
        self.noted(self.view()?.get_by_index(table, index, &key, &mut RowBuf::default()))
    }

    /// Writes a row over the one that is there, or as a new one. Whether one was there.
    pub fn put(&self, row: &[DatumRef<'_>]) -> Result<bool> {
        self.check_writable()?;
        let key = self.key(&self.key_values(row))?;
        if self.contains(&key)? {
            self.update_at(&key, row)?;
            return Ok(true);
        }
        self.insert(row).map(|()| false)
    }

    /// Writes over the row that is there.
    ///
    /// # Errors
    /// [`Error::NoRow`] if there is none.
    pub fn update(&self, row: &[DatumRef<'_>]) -> Result<()> {
        self.check_writable()?;
        let key = self.key(&self.key_values(row))?;
        if !self.contains(&key)? {
            let key = self.show_key(&self.table().primary_key, row);
            return Err(Error::NoRow { table: self.known.name.clone(), key });
        }
        self.update_at(&key, row)
    }

    /// Gives the row under `key`, which the transaction sees, new content.
    pub fn update_at(&self, key: &[u8], row: &[DatumRef<'_>]) -> Result<()> {
        let update = || self.core.tx.update(self.table(), key, Seen::Snapshot, row);
        let change = self.settle_engine(update);
        let change = change.map_err(|error| self.refused(error, row))?;
        self.expect_done(change)
    }

    /// Deletes the row under `key`, if the transaction sees one. Whether it did.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.check_writable()?;
        if !self.contains(key)? {
            return Ok(false);
        }
        self.delete_at(key).map(|()| true)
    }

    /// Deletes the first row from one end; what `make` makes of it.
    pub fn pop<T>(&self, direction: Direction, make: Make<T>) -> Result<Option<T>> {
        let view = self.view()?;
        let mut made = None;
        let change = self.settle(|| {
            // A row of which nothing can be made stays.
            let mut take = |row: RawRow<'_>| {
                let row = self.make(&view, row, make);
                let is_made = row.is_ok();
                made = Some(row);
                is_made
            };
            self.core.tx.pop(&view, self.table(), &KeyRange::all(), direction, &mut take)
        })?;
        if let Some(change) = change {
            self.expect_done(change)?;
        }
        made.transpose()
    }

    /// Deletes the row under `key`, which the transaction sees.
    pub fn delete_at(&self, key: &[u8]) -> Result<()> {
        self.check_writable()?;
        let change = self.settle(|| self.core.tx.delete(self.table(), key, Seen::Snapshot))?;
        self.expect_done(change)
    }

    /// Deletes the rows under `keys`, which ascend and which the transaction sees.
    pub fn delete_all_at(&self, keys: &[Vec<u8>]) -> Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        while done < keys.len() {
            let change = self.settle(|| self.core.tx.delete_many(self.table(), &keys, Seen::Snapshot, &mut done))?;
            self.expect_done(change)?;
        }
        Ok(())
    }

    /// Keeps others from changing the row under `key` until the transaction ends. False: it sees none.
    pub fn lock(&self, key: &[u8]) -> Result<bool> {
        self.check_writable()?;
        if !self.contains(key)? {
            return Ok(false);
        }
        let change = self.settle(|| self.core.tx.lock_row(self.table(), key, Seen::Snapshot))?;
        self.expect_done(change).map(|()| true)
    }

    fn expect_done(&self, change: Change) -> Result<()> {
        match change {
            Change::Done => Ok(()),
            other => {
                Err(self.core.conflict(&self.known.name, &format!("the row was changed at the same time: {other:?}")))
            }
        }
    }

    /// Position of an index by its name.
    pub fn index(&self, name: &str) -> Result<usize> {
        let found = self.known.indexes.iter().find(|(known, _)| known == name);
        found.map(|(_, at)| *at).ok_or_else(|| Error::NoIndex {
            table: self.known.name.clone(),
            index: name.to_owned(),
            there_are: self.there_are(),
        })
    }

    /// Names of its indexes, each once.
    fn there_are(&self) -> Vec<String> {
        let indexes = &self.known.indexes;
        let first = |at: usize| indexes[..at].iter().all(|before| before.1 != indexes[at].1);
        (0..indexes.len()).filter(|at| first(*at)).map(|at| indexes[at].0.clone()).collect()
    }

    /// The encoded keys of an index (`None`: of the table) in a range of values. `None`: no key is in it.
    pub fn key_range(&self, index: Option<usize>, (low, high): &BoundValues<'_>) -> Result<Option<KeyRange>> {
        let is_from = !matches!(low, Bound::Unbounded);
        let from_null =
            matches!(low, Bound::Included(v) | Bound::Excluded(v) if v.first().is_none_or(DatumRef::is_null));
        // A bound of the first columns stands for all that begin with it.
        let low = match low {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => Bound::Included(self.encode(index, values)?),
            Bound::Excluded(values) => match prefix_end(&self.encode(index, values)?) {
                Some(end) => Bound::Included(end),
                None => return Ok(None),
            },
        };
        let high = match high {
            // As in SQL, what is compared with a value is no NULL; NULLs are behind all values. So with the first column; a row that
            // has its value there and none in the second is behind those that have one, and in the range.
            Bound::Unbounded if is_from && !from_null && index.is_some() => {
                Bound::Excluded(self.encode(index, &[DatumRef::Null])?)
            }
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => {
                prefix_end(&self.encode(index, values)?).map_or(Bound::Unbounded, Bound::Excluded)
            }
            Bound::Excluded(values) => Bound::Excluded(self.encode(index, values)?),
        };
        match (&low, &high) {
            (Bound::Included(low), Bound::Excluded(high)) if low >= high => Ok(None),
            _ => Ok(Some(KeyRange { low, high })),
        }
    }

    /// Keys that begin with the values; `within`: with the beginning of a text or of bytes, which is the last of them.
    pub fn prefix(&self, values: &[DatumRef<'_>], within: bool) -> Result<KeyRange> {
        /// Ends a text in a key.
        const TERMINATOR: &[u8] = &[0, 0];
        let key = self.key(values)?;
        let begin = if within { key.strip_suffix(TERMINATOR).unwrap_or(&key) } else { &key };
        Ok(KeyRange::prefix(begin))
    }

    fn encode(&self, index: Option<usize>, values: &[DatumRef<'_>]) -> Result<Vec<u8>> {
        let Some(at) = index else { return self.key(values) };
        let table = self.table();
        let Some(index) = table.indexes.get(at) else { return Ok(Vec::new()) };
        let wrong = |what| Error::WrongIndex { table: self.known.name.clone(), index: index.name.clone(), what };
        if !is_plain(index) {
            return Err(wrong("is not in ascending order, or has its NULLs first: it has no ranges here"));
        }
        if values.len() > index.columns.len() {
            return Err(wrong("has fewer columns than were given"));
        }
        let mut fitting = Values::new();
        for (value, column) in
            values.iter().zip(&index.columns).filter_map(|(v, at)| Some((v, table.columns.get(*at)?)))
        {
            fitting.push(fit(value, column.ty).ok_or_else(|| Error::Value {
                table: self.known.name.clone(),
                column: column.name.clone(),
                expected: column.ty.to_string(),
                found: format!("{} {}", value.kind(), show(value)),
            })?);
        }
        let mut key = Vec::new();
        table.encode_index_key(at, &fitting, &mut key).map_err(|error| self.explain(error, None))?;
        Ok(key)
    }
}

/// Many rows on their way into a table.
pub(crate) struct Loading<'s, 'tx> {
    store: &'s Store<'tx>,
    load: Load,
    /// A row was refused.
    failed: bool,
}

impl Loading<'_, '_> {
    /// Takes a row.
    ///
    /// # Errors
    /// Of this row, or of one before it.
    pub fn push(&mut self, row: &[DatumRef<'_>]) -> Result<()> {
        let Self { store, load, .. } = self;
        let Err(error) = store.settle_engine(|| load.push(row)) else { return Ok(()) };
        self.failed = true;
        Err(self.refused(error, Some(row)))
    }

    fn flush(&mut self) -> Result<()> {
        let Self { store, load, .. } = self;
        store.settle_engine(|| load.flush()).map_err(|error| self.refused(error, None))
    }

    /// Why a row was not written: one that was taken before, or else `row`.
    fn refused(&self, error: Error, row: Option<&[DatumRef<'_>]>) -> Error {
        let before = self.load.refused();
        match before.as_deref().or(row) {
            Some(row) => self.store.refused(error, row),
            None => self.store.core.note(error),
        }
    }
}

/// The value as one of the column's type: integers are of any width.
fn fit<'d>(value: &DatumRef<'d>, ty: ColumnType) -> Option<DatumRef<'d>> {
    let number = match *value {
        DatumRef::Int2(v) => Some(i128::from(v)),
        DatumRef::Int4(v) => Some(i128::from(v)),
        DatumRef::Int8(v) => Some(i128::from(v)),
        DatumRef::Numeric(v) => Some(v),
        _ => None,
    };
    Some(match (ty, *value) {
        (_, DatumRef::Null) => DatumRef::Null,
        (ColumnType::Int2, _) => DatumRef::Int2(number?.try_into().ok()?),
        (ColumnType::Int4, _) => DatumRef::Int4(number?.try_into().ok()?),
        (ColumnType::Int8, _) => DatumRef::Int8(number?.try_into().ok()?),
        (ColumnType::Numeric { scale: 0, .. }, _) => DatumRef::Numeric(number?),
        (ColumnType::Bool, v @ DatumRef::Bool(_))
        | (ColumnType::Float4, v @ DatumRef::Float4(_))
        | (ColumnType::Float8, v @ DatumRef::Float8(_))
        | (ColumnType::Bytes, v @ DatumRef::Bytes(_))
        | (ColumnType::Uuid, v @ DatumRef::Uuid(_))
        | (ColumnType::TimestampTz(_), v @ DatumRef::TimestampTz(_)) => v,
        (ty, v @ DatumRef::Text(_)) if ty.is_text() => v,
        _ => return None,
    })
}
