//! Rows by an index.

use std::ops::Bound;

use resurgam_engine::DatumRef;

use crate::error::{Error, Result};
use crate::fields::{IndexBounds, IndexValues, Values};
use crate::range::Range;
use crate::rows::{ReadRows, Row};

/// An index of a table in a transaction. Values are of the types of its columns; integers are of any width. `None` finds rows that
/// have no value. Ranges have rows without a value in the index's first column only where they are `..` or begin at `None`; of further
/// columns, `None` comes after all values.
pub struct ByIndex<'r, 'tx, R: Row> {
    rows: &'r ReadRows<'tx, R>,
    at: usize,
}

impl<'r, 'tx, R: Row> ByIndex<'r, 'tx, R> {
    pub(crate) fn new(rows: &'r ReadRows<'tx, R>, name: &str) -> Result<Self> {
        Ok(Self { at: rows.store.index(name)?, rows })
    }

    /// The row that a unique index has under these values.
    ///
    /// # Errors
    /// [`Error::WrongIndex`] if it is not unique, has more columns, or allows many rows without a value and a value is `None`;
    /// [`Error::Value`] if a value is of another type than its column.
    pub fn get<Q: IndexValues + ?Sized>(&self, values: &Q) -> Result<Option<R>> {
        let index = self.rows.store.known.table.indexes.get(self.at);
        let given = self.values(values)?;
        if !index.is_some_and(|index| index.keeps_unique() && index.columns.len() == given.len()) {
            let name = index.map_or_else(String::new, |index| index.name.clone());
            let what = "finds one row only if it is unique and all of its columns are given: `all` finds many";
            return Err(Error::WrongIndex { table: self.rows.store.known.name.clone(), index: name, what });
        }
        if let Some(index) = index
            && !index.nulls_alike
            && given.iter().any(DatumRef::is_null)
        {
            let what = "allows many rows that have no value in one of its columns: `all` finds them";
            let table = self.rows.store.known.name.clone();
            return Err(Error::WrongIndex { table, index: index.name.clone(), what });
        }
        self.find(given, false)?.next().transpose()
    }

    /// Rows with these values in the index's first columns, or in all of them, in its order.
    ///
    /// # Errors
    /// [`Error::Value`] if a value is of another type than its column.
    pub fn all<Q: IndexValues + ?Sized>(&self, values: &Q) -> Result<Range<'tx, R>> {
        self.find(self.values(values)?, true)
    }

    /// Rows of a range, in the index's order; backwards with `rev()`. What is said of [`range`](crate::Reader::range) holds here as well.
    ///
    /// # Errors
    /// As [`ByIndex::all`].
    pub fn range(&self, bounds: impl IndexBounds) -> Result<Range<'tx, R>> {
        let store = &self.rows.store;
        let bounds = bounds.index_bounds().map_err(|(unfit, put)| store.unfit_in_index(unfit, self.at, put))?;
        self.rows.scan(Some(self.at), store.key_range(Some(self.at), &bounds)?, true)
    }

    /// How many rows there are in a range.
    ///
    /// # Errors
    /// As [`ByIndex::all`].
    pub fn count_in(&self, bounds: impl IndexBounds) -> Result<u64> {
        self.range(bounds)?.count_rows()
    }

    fn values<'a, Q: IndexValues + ?Sized>(&self, values: &'a Q) -> Result<Values<'a>> {
        let mut given = Values::new();
        let put = values.put_values(&mut given);
        put.map_err(|unfit| self.rows.store.unfit_in_index(unfit, self.at, given.len()))?;
        Ok(given)
    }

    fn find(&self, values: Values<'_>, lasting: bool) -> Result<Range<'tx, R>> {
        let bounds = (Bound::Included(values.clone()), Bound::Included(values));
        self.rows.scan(Some(self.at), self.rows.store.key_range(Some(self.at), &bounds)?, lasting)
    }
}
