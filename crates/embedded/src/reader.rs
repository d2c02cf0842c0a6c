//! What tables of both kinds have in common: finding rows by key, in order.

use std::marker::PhantomData;

use resurgam_engine::{Direction, KeyRange};

use crate::error::Result;
use crate::fields::{AsKey, AsPrefix, Bounds, Fields, Values};
use crate::range::{Make, Range};
use crate::store::Store;
use crate::value::Unfit;

/// Rows of a range that are deleted at a time.
const DELETED_AT_ONCE: usize = 256;

/// A table whose rows are `T` and whose keys are `K`, in a transaction.
pub struct Reader<'tx, K, T> {
    pub(crate) store: Store<'tx>,
    make: Make<T>,
    of: PhantomData<fn() -> K>,
}

impl<'tx, K: Fields, T> Reader<'tx, K, T> {
    pub(crate) fn new(store: Store<'tx>, make: Make<T>) -> Self {
        Self { store, make, of: PhantomData }
    }

    /// The values of a row or a key: `before`, and what `put` adds.
    pub(crate) fn values<'a>(
        &self,
        before: Values<'a>,
        put: impl FnOnce(&mut Values<'a>) -> Result<(), Unfit>,
    ) -> Result<Values<'a>> {
        let mut values = before;
        match put(&mut values) {
            Ok(()) => Ok(values),
            Err(unfit) => Err(self.store.unfit_at(unfit, values.len())),
        }
    }

    pub(crate) fn key<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Vec<u8>> {
        let mut values = Values::new();
        key.put_key(&mut values).map_err(|unfit| self.store.unfit_in_key(unfit, values.len()))?;
        self.store.key(&values)
    }

    /// Reads as of now; `lasting`: also while the transaction writes.
    pub(crate) fn scan(&self, index: Option<usize>, range: Option<KeyRange>, lasting: bool) -> Result<Range<'tx, T>> {
        let view = if lasting { self.store.lasting_view()? } else { self.store.view()?.into_owned() };
        Ok(Range::new(self.store.clone(), view, index, range, self.make))
    }

    fn bounds(&self, bounds: &impl Bounds<K>) -> Result<Option<KeyRange>> {
        let bounds = bounds.bounds().map_err(|(unfit, put)| self.store.unfit_in_key(unfit, put))?;
        self.store.key_range(None, &bounds)
    }

    /// Whether there is a row with the key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn contains<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<bool> {
        self.store.contains(&self.key(key)?)
    }

    /// The rows of a range of keys, in their order; backwards with `rev()`. A bound may be the first columns of a key.
    ///
    /// The iterator sees the table as it is now: what the transaction writes while it is read does not change what it gives.
    ///
    /// # Errors
    /// A bound cannot be a key.
    pub fn range(&self, bounds: impl Bounds<K>) -> Result<Range<'tx, T>> {
        self.scan(None, self.bounds(&bounds)?, true)
    }

    /// All rows, in the order of their keys.
    ///
    /// # Errors
    /// As [`Reader::range`].
    pub fn iter(&self) -> Result<Range<'tx, T>> {
        self.range(..)
    }

    /// Rows whose keys begin so: with a text or bytes, or, where keys are tuples, with their first columns.
    ///
    /// # Errors
    /// As [`Reader::range`].
    pub fn prefix<Q: AsPrefix<K> + ?Sized>(&self, prefix: &Q) -> Result<Range<'tx, T>> {
        let mut values = Values::new();
        prefix.put_prefix(&mut values).map_err(|unfit| self.store.unfit_in_key(unfit, values.len()))?;
        self.scan(None, Some(self.store.prefix(&values, Q::WITHIN)?), true)
    }

    /// The row with the first key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn first(&self) -> Result<Option<T>> {
        self.scan(None, Some(KeyRange::all()), false)?.next().transpose()
    }

    /// The row with the last key.
    ///
    /// # Errors
    /// Those of reading.
    pub fn last(&self) -> Result<Option<T>> {
        self.scan(None, Some(KeyRange::all()), false)?.next_back().transpose()
    }

    /// How many rows there are. They are counted, which reads all of them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn count(&self) -> Result<u64> {
        self.count_in(..)
    }

    /// How many rows there are in a range of keys.
    ///
    /// # Errors
    /// As [`Reader::range`].
    pub fn count_in(&self, bounds: impl Bounds<K>) -> Result<u64> {
        self.scan(None, self.bounds(&bounds)?, false)?.count_rows()
    }

    /// Whether there is no row.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_empty(&self) -> Result<bool> {
        let view = self.store.view()?.into_owned();
        let mut rows: Range<'_, ()> = Range::new(self.store.clone(), view, None, Some(KeyRange::all()), |_| Ok(()));
        Ok(rows.next().transpose()?.is_none())
    }

    /// Deletes the first row from one end, and returns it.
    pub(crate) fn pop(&self, direction: Direction) -> Result<Option<T>> {
        self.store.check_writable()?;
        self.store.pop(direction, self.make)
    }

    /// Deletes the rows of a range. How many there were.
    pub(crate) fn delete_in(&self, bounds: &impl Bounds<K>) -> Result<u64> {
        self.store.check_writable()?;
        let view = self.store.lasting_view()?;
        let mut rows: Range<'_, ()> = Range::new(self.store.clone(), view, None, self.bounds(bounds)?, |_| Ok(()));
        let (mut deleted, mut keys) = (0, Vec::with_capacity(DELETED_AT_ONCE));
        loop {
            let next = rows.next_with_key(Direction::Forward)?;
            let is_end = next.is_none();
            keys.extend(next.map(|(key, ())| key));
            if is_end || keys.len() == DELETED_AT_ONCE {
                self.store.delete_all_at(&keys)?;
                deleted += keys.len() as u64;
                keys.clear();
            }
            if is_end {
                return Ok(deleted);
            }
        }
    }
}
