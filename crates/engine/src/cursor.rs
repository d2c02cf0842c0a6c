//! Range reads: rows of a table or index in key order, batch by batch. No latch is held
//! between calls; the position is a key.

use std::ops::{Bound, Range};
use std::sync::Arc;

use resurgam_base::Result;
use resurgam_page::{PageBuf, leaf};

use crate::covering::Covering;
use crate::position::{Filling, Position, Sink};
use crate::row_test::{RowTest, Testing};
use crate::table::{RawRow, RowBuf, Table};
use crate::transaction::Interrupt;
use crate::view::ReadView;

/// Which way a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// A range of encoded keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub low: Bound<Vec<u8>>,
    pub high: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }
    /// Keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self {
            low: Bound::Included(prefix.to_vec()),
            high: resurgam_page::key::prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded),
        }
    }
    /// Whether a key divides the range: it is in it, and not its beginning.
    pub(crate) fn has_within(&self, key: &[u8]) -> bool {
        let behind_low = match &self.low {
            Bound::Unbounded => true,
            Bound::Included(low) | Bound::Excluded(low) => low.as_slice() < key,
        };
        let before_high = match &self.high {
            Bound::Unbounded => true,
            Bound::Included(high) | Bound::Excluded(high) => key < high.as_slice(),
        };
        behind_low && before_high
    }
    /// Divides the range at the given ascending keys, which are within it.
    pub fn split(&self, keys: &[Vec<u8>]) -> Vec<KeyRange> {
        let mut ranges = Vec::new();
        let mut low = self.low.clone();
        for key in keys {
            ranges.push(KeyRange { low, high: Bound::Excluded(key.clone()) });
            low = Bound::Included(key.clone());
        }
        ranges.push(KeyRange { low, high: self.high.clone() });
        ranges
    }

    /// The slots of a leaf that are in the range, and whether the range goes on before and behind the leaf.
    pub(crate) fn slots(&self, leaf: &PageBuf) -> (Range<u16>, bool, bool) {
        let count = leaf.slot_count();
        let (lower, upper) = (leaf.lower_fence(), leaf.upper_fence());
        // Of leaves within the range no key is looked at: most are.
        let (low, before) = match &self.low {
            Bound::Unbounded => (0, true),
            Bound::Included(low) if low.as_slice() <= lower => (0, low.as_slice() < lower),
            Bound::Excluded(low) if low.as_slice() < lower => (0, true),
            Bound::Included(low) => (leaf::search(leaf, low).unwrap_or_else(|slot| slot).0, false),
            Bound::Excluded(low) => (leaf::search(leaf, low).map_or_else(|slot| slot.0, |slot| slot.0 + 1), false),
        };
        let (high, behind) = match (&self.high, upper) {
            (Bound::Unbounded, _) => (count, true),
            (Bound::Included(high), Some(upper)) if high.as_slice() >= upper => (count, true),
            (Bound::Excluded(high), Some(upper)) if high.as_slice() >= upper => (count, high.as_slice() > upper),
            (Bound::Included(high), _) => {
                (leaf::search(leaf, high).map_or_else(|slot| slot.0, |slot| slot.0 + 1), false)
            }
            (Bound::Excluded(high), _) => (leaf::search(leaf, high).unwrap_or_else(|slot| slot).0, false),
        };
        (low..high, before, behind)
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    at: usize,
    key: u32,
    value: u32,
}

/// Rows in one buffer.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    bytes: Vec<u8>,
    rows: Vec<Span>,
}

impl RowBatch {
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Bytes of the rows held.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    /// Row `i`; panics beyond [`RowBatch::len`].
    #[inline]
    pub fn row(&self, i: usize) -> RawRow<'_> {
        let span = self.rows[i];
        let (key, rest) = self.bytes[span.at..].split_at(span.key as usize);
        RawRow { key, value: &rest[..span.value as usize] }
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }
    /// Takes a copy of a row.
    pub fn add(&mut self, row: RawRow<'_>) {
        self.push(row.key, row.value);
    }
    /// As [`RowBatch::push`], of a key of so many bytes which its value follows.
    #[inline]
    pub(crate) fn push_content(&mut self, content: &[u8], key_len: usize) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(content);
        self.rows.push(Span { at, key: key_len as u32, value: (content.len() - key_len) as u32 });
    }
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push(Span { at, key: key.len() as u32, value: value.len() as u32 });
    }

    /// Leaves out the rows behind the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if let Some(span) = self.rows.get(rows) {
            self.bytes.truncate(span.at);
            self.rows.truncate(rows);
        }
    }

    /// As [`RowBatch::push`], of a value that is appended in place.
    fn push_made(&mut self, key: &[u8], value: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value_at = self.bytes.len();
        if let Err(error) = value(&mut self.bytes) {
            self.bytes.truncate(at);
            return Err(error);
        }
        self.rows.push(Span { at, key: key.len() as u32, value: (self.bytes.len() - value_at) as u32 });
        Ok(())
    }
}

/// A scan under way.
pub struct Cursor {
    view: ReadView,
    table: Arc<Table>,
    index: Option<usize>,
    /// Rows are made of the entries of the index.
    covering: Option<Arc<Covering>>,
    checked: bool,
    entries: RowBatch,
    at: Position,
    test: Option<Arc<RowTest>>,
    tested: Tested,
}

/// What became of the test of a cursor's rows since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tested {
    /// Rows that were looked at.
    pub rows: u64,
    /// Those that did not pass.
    pub rejected: u64,
}

/// Rows that a cursor with a test looks at in one call, for each row that is wanted.
const LOOKED_AT: usize = 8;

impl Cursor {
    pub(crate) fn new(
        view: ReadView,
        table: Arc<Table>,
        index: Option<usize>,
        range: KeyRange,
        direction: Direction,
    ) -> Self {
        let (entries, at) = (RowBatch::default(), Position::new(range, direction));
        let (test, tested) = (None, Tested::default());
        Self { view, table, index, covering: None, checked: false, entries, at, test, tested }
    }

    /// Has it make rows of the index's entries, with the columns that `covering` was made for: the others are NULL. Without
    /// effect where the cursor reads no index, another one, or the newest state.
    pub fn covered(mut self, covering: Option<Arc<Covering>>) -> Self {
        let serves = |covering: &Arc<Covering>| Some(covering.index) == self.index && !self.view.newest;
        self.covering = covering.filter(serves);
        self
    }

    /// Has it remove deleted rows that are in the way of the first one that it sees and that nobody needs.
    pub(crate) fn removing_ghosts(mut self) -> Self {
        self.at.removes_ghosts = true;
        self
    }

    /// Has it ask now and then whether to stop: there may be nothing to see in many leaves.
    pub(crate) fn interrupted_by(mut self, interrupt: Option<Interrupt>) -> Self {
        self.at.interrupt = interrupt;
        self
    }

    /// Has it pass over rows that do not pass a test, where it reads the table's own tree; without effect on others. None: no row any more.
    pub fn set_test(&mut self, test: Option<Arc<RowTest>>) {
        self.test = test.filter(|_| self.index.is_none());
    }

    /// What became of the test since the last call of this.
    pub fn take_tested(&mut self) -> Tested {
        std::mem::take(&mut self.tested)
    }

    /// The part of its range that it has not come to (an index's: of its keys); none when it has come to its end.
    pub fn rest(&self) -> Option<&KeyRange> {
        self.at.rest()
    }

    /// Appends up to about `max_rows` rows to `batch`. False: the range is exhausted and
    /// nothing was appended. (True without any row: of those that it has looked at none passed the test.)
    pub fn next_batch(&mut self, batch: &mut RowBatch, max_rows: usize) -> Result<bool> {
        self.check()?;
        let before = batch.len();
        match self.index {
            None => self.fill(self.table.tree, batch, max_rows)?,
            Some(at) => {
                let table = Arc::clone(&self.table);
                // One that is not valid lacks rows: nobody may have chosen it.
                let Some(index) = table.indexes.get(at).filter(|index| index.valid) else {
                    return Err(table.no_index(at));
                };
                let mut row = RowBuf::default();
                while batch.len() == before && !self.at.done {
                    let mut entries = std::mem::take(&mut self.entries);
                    entries.clear();
                    self.fill(index.tree, &mut entries, max_rows)?;
                    for i in 0..entries.len() {
                        let entry = entries.row(i);
                        let key = table.clustered_key(at, entry.key, entry.value)?;
                        if let Some(covering) = &self.covering {
                            batch.push_made(key, |value| covering.append_value(&table, entry, value))?;
                        } else if self.view.get_unchecked(&table, key, &mut row)? {
                            batch.push(&row.key, &row.value);
                        }
                    }
                    self.entries = entries;
                }
            }
        }
        Ok(batch.len() > before || (self.test.is_some() && !self.at.done))
    }

    /// Counts the rows that are left, without making them.
    ///
    /// # Errors
    /// As [`Cursor::next_batch`].
    pub fn count(mut self) -> Result<u64> {
        if self.index.is_some() {
            // An entry may lead to a row that is another one by now.
            let (mut batch, mut rows) = (RowBatch::default(), 0);
            while self.next_batch(&mut batch, 1000)? {
                rows += batch.len() as u64;
                batch.clear();
            }
            return Ok(rows);
        }
        self.check()?;
        let Self { view, table, at, .. } = &mut self;
        // Once: a count never has enough.
        view.reading(|| {
            let mut filling = Filling { sink: Sink::Count, rows: 0 };
            at.read(view, table.tree, &mut filling)?;
            Ok(filling.rows)
        })
    }

    fn check(&mut self) -> Result<()> {
        if !self.checked {
            self.view.check_table(&self.table)?;
            self.checked = true;
        }
        Ok(())
    }

    /// Appends visible records of `tree` as they are.
    pub(crate) fn fill(&mut self, tree: resurgam_btree::Tree, batch: &mut RowBatch, max_rows: usize) -> Result<()> {
        let Self { view, at, table, test, .. } = self;
        let tested = fill(view, at, tree, test.as_deref().map(|test| (test, table.as_ref())), batch, max_rows)?;
        self.tested.rows += tested.rows;
        self.tested.rejected += tested.rejected;
        Ok(())
    }
}

/// Appends what `view` sees of `tree` from `at` on, of which rows of a table may have to pass a test.
fn fill(
    view: &ReadView,
    at: &mut Position,
    tree: resurgam_btree::Tree,
    test: Option<(&RowTest, &Table)>,
    batch: &mut RowBatch,
    max_rows: usize,
) -> Result<Tested> {
    let before = (batch.bytes.len(), batch.rows.len());
    let limit = max_rows.max(1);
    view.reading(|| {
        // What was read before a row that had to be waited for is read again.
        batch.bytes.truncate(before.0);
        batch.rows.truncate(before.1);
        let most = limit.saturating_mul(LOOKED_AT) as u64;
        let testing = test.map(|(test, table)| Testing { test, table, rejected: 0, most });
        let mut filling = Filling { sink: Sink::Batch { batch, limit, testing }, rows: 0 };
        at.read(view, tree, &mut filling)?;
        Ok(match filling.sink {
            Sink::Batch { testing: Some(Testing { rejected, .. }), .. } => Tested { rows: filling.rows, rejected },
            _ => Tested::default(),
        })
    })
}

impl ReadView {
    /// Appends the first rows of a range in clustered order, up to about `max_rows`, to `batch`. What is left of the range is returned, and is for a cursor; none:
    /// there is no more. For who wants a few rows: it costs less than a cursor.
    ///
    /// # Errors
    /// As [`Cursor::next_batch`].
    pub fn first_rows(
        &self,
        table: &Table,
        range: KeyRange,
        direction: Direction,
        batch: &mut RowBatch,
        max_rows: usize,
    ) -> Result<Option<KeyRange>> {
        self.check_table(table)?;
        let mut at = Position::new(range, direction);
        at.removes_ghosts = true;
        let before = self.known_seen();
        at.known = before;
        fill(self, &mut at, table.tree, None, batch, max_rows)?;
        self.note_seen(before, at.known);
        Ok(at.into_rest())
    }
}
