//! Range reads: rows of a table or index in key order, batch by batch. No latch is held
//! between calls; the position is a key.

use std::ops::Bound;
use std::sync::Arc;

use resurgam_base::{Result, SlotId};
use resurgam_btree::LeafWalk;
use resurgam_page::{LeafRecord, PageBuf, key, leaf};
use resurgam_versions::{SpanWalk, Visible, WalkFrom, visible};

use crate::met_ghosts::MetGhosts;
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
    /// Divides the range at the given ascending keys.
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
    fn above_low(&self, key: &[u8]) -> bool {
        match &self.low {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
        }
    }
    fn below_high(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
        }
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
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push(Span { at, key: key.len() as u32, value: value.len() as u32 });
    }
}

/// A batch that is being filled.
struct Filling<'b> {
    batch: &'b mut RowBatch,
    /// Rows that it had before.
    before: usize,
    /// It is full with so many.
    limit: usize,
}

/// What of a leaf was read.
enum LeafRead {
    /// All; the range goes on behind it.
    Whole,
    /// As much as the batch takes.
    Full,
    /// All that is in the range.
    End,
}

/// A scan under way.
pub struct Cursor {
    view: ReadView,
    table: Arc<Table>,
    index: Option<usize>,
    range: KeyRange,
    direction: Direction,
    done: bool,
    checked: bool,
    scratch: Vec<u8>,
    entries: RowBatch,
    interrupt: Option<Interrupt>,
    met: MetGhosts,
    /// Whether it has deleted rows removed that nobody needs and that are in its way.
    removes_ghosts: bool,
}

/// Leaves that are read between two looks at whether to stop.
const LEAVES_UNASKED: usize = 16;

impl Cursor {
    pub(crate) fn new(
        view: ReadView,
        table: Arc<Table>,
        index: Option<usize>,
        range: KeyRange,
        direction: Direction,
    ) -> Self {
        Self {
            view,
            table,
            index,
            range,
            direction,
            done: false,
            checked: false,
            scratch: Vec::new(),
            entries: RowBatch::default(),
            interrupt: None,
            met: MetGhosts::default(),
            removes_ghosts: false,
        }
    }

    /// Has it remove deleted rows that are in the way of the first one that it sees and that nobody needs.
    pub(crate) fn removing_ghosts(mut self) -> Self {
        self.removes_ghosts = true;
        self
    }

    /// Has it ask now and then whether to stop: there may be nothing to see in many leaves.
    pub(crate) fn interrupted_by(mut self, interrupt: Option<Interrupt>) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Appends up to about `max_rows` rows to `batch`. False: the range is exhausted and
    /// nothing was appended.
    pub fn next_batch(&mut self, batch: &mut RowBatch, max_rows: usize) -> Result<bool> {
        if !self.checked {
            self.view.check_table(&self.table)?;
            self.checked = true;
        }
        let before = batch.len();
        match self.index {
            None => self.fill(self.table.tree, batch, max_rows)?,
            Some(at) => {
                let table = Arc::clone(&self.table);
                let Some(index) = table.indexes.get(at) else {
                    return Err(resurgam_base::Error::internal(format!("table {} has no index {at}", table.name)));
                };
                let mut row = RowBuf::default();
                while batch.len() == before && !self.done {
                    let mut entries = std::mem::take(&mut self.entries);
                    entries.clear();
                    self.fill(index.tree, &mut entries, max_rows)?;
                    for i in 0..entries.len() {
                        let entry = entries.row(i);
                        let key = table.clustered_key(at, entry.key, entry.value)?;
                        if self.view.get_unchecked(&table, key, &mut row)? {
                            batch.push(&row.key, &row.value);
                        }
                    }
                    self.entries = entries;
                }
            }
        }
        Ok(batch.len() > before)
    }

    /// Appends visible records of `tree` as they are.
    pub(crate) fn fill(&mut self, tree: resurgam_btree::Tree, batch: &mut RowBatch, max_rows: usize) -> Result<()> {
        let db = self.view.db.clone();
        let before = (batch.bytes.len(), batch.rows.len());
        db.reading(|| {
            // What was read before a row that had to be waited for is read again.
            batch.bytes.truncate(before.0);
            batch.rows.truncate(before.1);
            self.fill_now(tree, batch, max_rows)
        })
    }

    fn fill_now(&mut self, tree: resurgam_btree::Tree, batch: &mut RowBatch, max_rows: usize) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let db = self.view.db.clone();
        let mut filling = Filling { before: batch.len(), limit: batch.len() + max_rows.max(1), batch };
        self.met.begin();
        let jump = self.jump(tree);
        if self.done {
            drop(jump);
            db.clean_jumped_over(tree);
            return Ok(());
        }
        let read = self.read_leaves(tree, &mut filling);
        let limits = db.inner().options.met_ghosts;
        match jump {
            _ if read.is_err() => {}
            Some(walk) => {
                let has_jumped = walk.has_jumped;
                if let Some(passed) = self.met.passed(limits) {
                    walk.note(&db.inner().empty_spans, passed);
                }
                if has_jumped {
                    db.clean_jumped_over(tree);
                }
            }
            None if self.removes_ghosts && self.met.are_worth_a_note(limits) => db.inner().empty_spans.arm(tree.object),
            None => {}
        }
        read
    }

    /// Where what is left of the range begins, in the cursor's direction.
    fn begin(&self) -> WalkFrom {
        match self.direction {
            Direction::Forward => WalkFrom::Key(match &self.range.low {
                Bound::Included(low) => low.clone(),
                Bound::Excluded(low) => key::after(low),
                Bound::Unbounded => Vec::new(),
            }),
            Direction::Backward => WalkFrom::Below(match &self.range.high {
                Bound::Unbounded => None,
                Bound::Excluded(high) => Some(high.clone()),
                // Keys up to and including it: those below the next possible key.
                Bound::Included(high) => Some(key::after(high)),
            }),
        }
    }

    /// Goes on behind what is known to be empty.
    fn jump(&mut self, tree: resurgam_btree::Tree) -> Option<SpanWalk> {
        if !self.removes_ghosts {
            return None;
        }
        let walk = self.view.db.inner().empty_spans.enter(tree.object, &self.view.view(), self.begin())?;
        if walk.has_jumped {
            match &walk.start {
                None => self.done = true,
                Some(WalkFrom::Key(key)) => self.range.low = Bound::Included(key.clone()),
                Some(WalkFrom::Below(key)) => {
                    self.range.high = key.clone().map_or(Bound::Unbounded, Bound::Excluded);
                }
            }
        }
        Some(walk)
    }

    fn read_leaves(&mut self, tree: resurgam_btree::Tree, filling: &mut Filling<'_>) -> Result<()> {
        let db = self.view.db.clone();
        let pool = &db.inner().pool;
        let mut walk = match self.begin() {
            WalkFrom::Key(key) => LeafWalk::ascending(tree, key),
            WalkFrom::Below(key) => LeafWalk::descending(tree, key),
        };
        let mut leaves = 0usize;
        loop {
            leaves += 1;
            if let Some(interrupt) = self.interrupt.as_ref().filter(|_| leaves.is_multiple_of(LEAVES_UNASKED)) {
                interrupt()?;
            }
            let Some(page) = walk.next(pool)? else {
                self.done = true;
                return Ok(());
            };
            self.met.clear();
            let read = self.read_leaf(&page, &walk, filling)?;
            let many = self.removes_ghosts && self.met.are_many(db.inner().options.met_ghosts, page.slot_count());
            let ghosts = many.then(|| (page.id(), page.lower_fence().to_vec()));
            drop(page);
            if let Some((id, lower)) = ghosts {
                db.remove_met_ghosts(tree, id, &lower);
            }
            match read {
                LeafRead::Whole => {}
                LeafRead::Full => return Ok(()),
                LeafRead::End => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
    }

    /// Appends what is visible on one leaf of the walk.
    fn read_leaf(&mut self, page: &PageBuf, walk: &LeafWalk, filling: &mut Filling<'_>) -> Result<LeafRead> {
        let inner = self.view.db.inner();
        let view = self.view.view();
        let count = page.slot_count();
        let start = match self.direction {
            Direction::Forward => match &self.range.low {
                Bound::Unbounded => 0,
                Bound::Included(k) => leaf::search(page, k).unwrap_or_else(|s| s).0,
                Bound::Excluded(k) => leaf::search(page, k).map_or_else(|s| s.0, |s| s.0 + 1),
            },
            Direction::Backward => match &self.range.high {
                Bound::Unbounded => count,
                Bound::Included(k) => leaf::search(page, k).map_or_else(|s| s.0, |s| s.0 + 1),
                Bound::Excluded(k) => leaf::search(page, k).unwrap_or_else(|s| s).0,
            },
        };
        let mut step = 0u16;
        loop {
            let slot = match self.direction {
                Direction::Forward => {
                    if start + step >= count {
                        break;
                    }
                    start + step
                }
                Direction::Backward => {
                    if step >= start {
                        break;
                    }
                    start - 1 - step
                }
            };
            step += 1;
            let record = LeafRecord::parse(page.record(SlotId(slot))?)?;
            if !walk.is_new(record.key) {
                continue;
            }
            let within = match self.direction {
                Direction::Forward => self.range.below_high(record.key),
                Direction::Backward => self.range.above_low(record.key),
            };
            if !within {
                return Ok(LeafRead::End);
            }
            match visible(&inner.pool, &record, &view, &mut self.scratch)? {
                // Behind the first row they are in nobody's way.
                Visible::No if filling.batch.len() == filling.before => self.met.pass(&view, &record),
                Visible::No => {}
                Visible::Current => filling.batch.push(record.key, record.value),
                Visible::Rebuilt => filling.batch.push(record.key, &self.scratch),
            }
            if filling.batch.len() >= filling.limit {
                match self.direction {
                    Direction::Forward => self.range.low = Bound::Excluded(record.key.to_vec()),
                    Direction::Backward => self.range.high = Bound::Excluded(record.key.to_vec()),
                }
                return Ok(LeafRead::Full);
            }
        }
        Ok(LeafRead::Whole)
    }
}
