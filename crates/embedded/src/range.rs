//! Rows of a range, one after another, from either end.
//!
//! An iterator sees its table as it was when it was made, whatever the transaction writes while it is read. It holds no latch, and
//! at most [`ROWS_MAX`] rows in memory at each end that it is read from.

use std::iter::FusedIterator;
use std::marker::PhantomData;

use resurgam_engine::{Cursor, DatumRef, Direction, KeyRange, RawRow, ReadView, RowBatch, RowBuf};

use crate::error::Result;
use crate::store::{Source, Store};

/// Rows that are read at once: few at first, since many who look for a range want its first row.
const ROWS_MIN: usize = 8;
const ROWS_MAX: usize = 128;

/// Makes an item of a row.
pub(crate) type Make<T> = fn(&mut Source<'_>) -> Result<T>;

/// An iterator over rows; see the module's head. After an error it ends.
#[must_use = "an iterator does nothing until it is read"]
pub struct Range<'tx, T> {
    store: Store<'tx>,
    view: ReadView,
    index: Option<usize>,
    /// `None`: it is at its end.
    range: Option<KeyRange>,
    front: Option<End>,
    back: Option<End>,
    make: Make<T>,
    of: PhantomData<T>,
}

/// One end that it was read from.
struct End {
    cursor: Cursor,
    batch: RowBatch,
    at: usize,
    rows: usize,
    /// The row that it gave last.
    last: RowBuf,
}

impl End {
    /// Goes to the next row. False: there is none.
    fn advance(&mut self) -> resurgam_engine::Result<bool> {
        if self.at == self.batch.len() {
            self.batch.clear();
            self.at = 0;
            if !self.cursor.next_batch(&mut self.batch, self.rows)? {
                return Ok(false);
            }
            self.rows = (self.rows * 2).min(ROWS_MAX);
        }
        self.last.set(self.batch.row(self.at));
        self.at += 1;
        Ok(true)
    }
}

impl<'tx, T> Range<'tx, T> {
    pub(crate) fn new(
        store: Store<'tx>,
        view: ReadView,
        index: Option<usize>,
        range: Option<KeyRange>,
        make: Make<T>,
    ) -> Self {
        Self { store, view, index, range, front: None, back: None, make, of: PhantomData }
    }

    fn open(&self, range: KeyRange, direction: Direction) -> End {
        let table = &self.store.known.table;
        let cursor = match self.index {
            None => self.view.scan(table, range, direction),
            Some(at) => self.view.scan_index(table, at, range, direction),
        };
        End { cursor, batch: RowBatch::default(), at: 0, rows: ROWS_MIN, last: RowBuf::default() }
    }

    /// What orders the rows: the key, of an index its key and then the row's.
    fn order(&self, row: RawRow<'_>) -> Result<Vec<u8>> {
        let Some(at) = self.index else { return Ok(row.key.to_vec()) };
        let table = &self.store.known.table;
        let columns = table.indexes.get(at).map_or(&[][..], |index| &index.columns);
        let mut large = Vec::new();
        for column in columns {
            let datum = table.column(row, *column)?;
            large.push(match datum {
                DatumRef::External(reference) => Some((self.view.read_external(reference)?, reference.is_text)),
                _ => None,
            });
        }
        let mut values = Vec::new();
        for (column, large) in columns.iter().zip(&large) {
            values.push(match large {
                Some((bytes, true)) => DatumRef::Text(std::str::from_utf8(bytes).map_err(|_| {
                    resurgam_engine::Error::corrupt(format!("a large text of table {} is not UTF-8", table.name))
                })?),
                Some((bytes, false)) => DatumRef::Bytes(bytes),
                None => table.column(row, *column)?,
            });
        }
        let mut order = Vec::new();
        table.encode_index_key(at, &values, &mut order)?;
        order.extend_from_slice(row.key);
        Ok(order)
    }

    fn compared(&self, row: RawRow<'_>) -> Result<Vec<u8>> {
        self.order(row).map_err(|error| self.store.core.note(error))
    }

    /// The next row from one end. `None`: the ends have met.
    fn step(&mut self, direction: Direction) -> Result<Option<T>> {
        let Some(range) = &self.range else { return Ok(None) };
        let is_front = direction == Direction::Forward;
        if if is_front { self.front.is_none() } else { self.back.is_none() } {
            let end = self.open(range.clone(), direction);
            *(if is_front { &mut self.front } else { &mut self.back }) = Some(end);
        }
        let Some(end) = (if is_front { &mut self.front } else { &mut self.back }) else { return Ok(None) };
        if !self.store.noted(end.advance())? {
            return Ok(None);
        }
        // Where both are read they meet at a row that either has given.
        if let (Some(front), Some(back)) = (&self.front, &self.back)
            && self.compared(front.last.raw())? >= self.compared(back.last.raw())?
        {
            return Ok(None);
        }
        let Some(end) = (if is_front { &self.front } else { &self.back }) else { return Ok(None) };
        self.store.make(&self.view, end.last.raw(), self.make).map(Some)
    }

    fn go(&mut self, direction: Direction) -> Option<Result<T>> {
        let item = self.step(direction).transpose();
        if !matches!(item, Some(Ok(_))) {
            // The snapshot is let go with the cursors.
            self.range = None;
            self.front = None;
            self.back = None;
        }
        item
    }

    /// How many rows are left, without making them.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn count_rows(self) -> Result<u64> {
        match &self.range {
            Some(range) => self.store.noted(self.open(range.clone(), Direction::Forward).cursor.count()),
            None => Ok(0),
        }
    }

    /// The encoded key of the next row from one end, and what it is.
    pub(crate) fn next_with_key(&mut self, direction: Direction) -> Result<Option<(Vec<u8>, T)>> {
        let Some(item) = self.step(direction)? else { return Ok(None) };
        let end = if direction == Direction::Forward { &self.front } else { &self.back };
        Ok(end.as_ref().map(|end| (end.last.raw().key.to_vec(), item)))
    }
}

impl<T> Iterator for Range<'_, T> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Self::Item> {
        self.go(Direction::Forward)
    }
}

impl<T> DoubleEndedIterator for Range<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.go(Direction::Backward)
    }
}

impl<T> FusedIterator for Range<'_, T> {}
