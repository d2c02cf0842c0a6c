//! Range reads: rows of a table or index in key order, batch by batch. No latch is held
//! between calls; the position is a key.

use std::ops::{Bound, Range};
use std::sync::Arc;

use resurgam_base::{Result, SlotId};
use resurgam_btree::LeafWalk;
use resurgam_buffer::BufferPool;
use resurgam_page::{LeafRecord, PageBuf, key, leaf};
use resurgam_versions::{KnownSeen, SpanWalk, Visible, WalkFrom, visible_known};

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

    /// The slots of a leaf that are in the range, and whether the range goes on before and behind the leaf.
    fn slots(&self, leaf: &PageBuf) -> (Range<u16>, bool, bool) {
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

/// What visible rows are for.
enum Sink<'b> {
    /// They are copied.
    Batch { batch: &'b mut RowBatch, limit: usize },
    /// They are counted.
    Count,
}

/// Where visible rows go.
struct Filling<'b> {
    sink: Sink<'b>,
    /// How many there were.
    rows: u64,
}

impl Filling<'_> {
    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        if let Sink::Batch { batch, .. } = &mut self.sink {
            batch.push(key, value);
        }
    }
    fn is_full(&self) -> bool {
        matches!(self.sink, Sink::Batch { limit, .. } if self.rows >= limit as u64)
    }
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
    known: KnownSeen,
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
            known: KnownSeen::default(),
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
        self.check()?;
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
        let db = self.view.db.clone();
        let mut rows = 0;
        // Once: a count never has enough.
        if !self.done {
            db.reading(|| {
                let mut filling = Filling { sink: Sink::Count, rows: 0 };
                self.fill_now(self.table.tree, &mut filling)?;
                rows += filling.rows;
                Ok(())
            })?;
        }
        Ok(rows)
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
        let db = self.view.db.clone();
        let before = (batch.bytes.len(), batch.rows.len());
        db.reading(|| {
            // What was read before a row that had to be waited for is read again.
            batch.bytes.truncate(before.0);
            batch.rows.truncate(before.1);
            self.fill_now(tree, &mut Filling { sink: Sink::Batch { batch, limit: max_rows.max(1) }, rows: 0 })
        })
    }

    fn fill_now(&mut self, tree: resurgam_btree::Tree, filling: &mut Filling<'_>) -> Result<()> {
        if self.done {
            return Ok(());
        }
        self.met.begin();
        let jump = self.jump(tree);
        if self.done {
            drop(jump);
            self.view.db.clean_jumped_over(tree);
            return Ok(());
        }
        let read = self.read_leaves(tree, filling);
        let db = &self.view.db;
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
        let (pool, limits) = (&db.inner().pool, db.inner().options.met_ghosts);
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
            // The walk began where the range does.
            let new = if leaves == 1 { 0..page.slot_count() } else { walk.new_slots(&page) };
            let read = self.read_leaf(pool, &page, new, filling)?;
            let many = self.removes_ghosts && self.met.are_many(limits, page.slot_count());
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

    /// Takes what is visible in some slots of one leaf.
    fn read_leaf(
        &mut self,
        pool: &BufferPool,
        page: &PageBuf,
        new: Range<u16>,
        filling: &mut Filling<'_>,
    ) -> Result<LeafRead> {
        let (within, before, behind) = self.range.slots(page);
        let slots = within.start.max(new.start)..within.end.min(new.end);
        let goes_on = match self.direction {
            Direction::Forward => behind,
            Direction::Backward => before,
        };
        let all = if goes_on { LeafRead::Whole } else { LeafRead::End };
        if matches!(filling.sink, Sink::Count) && !page.has_versions() {
            // Each record is a row that all see.
            filling.rows += slots.len() as u64;
            return Ok(all);
        }
        let Self { view, range, direction, scratch, met, known, .. } = self;
        let view = view.view();
        let mut last = None;
        let mut read = |slot: u16| -> Result<bool> {
            let record = LeafRecord::parse(page.record(SlotId(slot))?)?;
            match visible_known(pool, &record, &view, known, scratch)? {
                // Behind the first row they are in nobody's way.
                Visible::No if filling.rows == 0 => met.pass(&view, &record),
                Visible::No => {}
                Visible::Current => filling.add(record.key, record.value),
                Visible::Rebuilt => filling.add(record.key, scratch),
            }
            let full = filling.is_full();
            if full {
                last = Some(record.key);
            }
            Ok(full)
        };
        match direction {
            Direction::Forward => {
                for slot in slots {
                    if read(slot)? {
                        break;
                    }
                }
            }
            Direction::Backward => {
                for slot in slots.rev() {
                    if read(slot)? {
                        break;
                    }
                }
            }
        }
        let Some(last) = last else { return Ok(all) };
        let bound = match direction {
            Direction::Forward => &mut range.low,
            Direction::Backward => &mut range.high,
        };
        match bound {
            Bound::Included(key) | Bound::Excluded(key) => {
                let mut key = std::mem::take(key);
                key.clear();
                key.extend_from_slice(last);
                *bound = Bound::Excluded(key);
            }
            Bound::Unbounded => *bound = Bound::Excluded(last.to_vec()),
        }
        Ok(LeafRead::Full)
    }
}
