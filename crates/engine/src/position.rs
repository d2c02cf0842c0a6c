//! Where a cursor is in its range, and how it goes on: leaf by leaf, over what it does not see.
//!
//! Nothing is latched between two calls: the place is a key, the end of the range that is left.

use std::ops::{Bound, Range};

use resurgam_base::{Error, Result, SlotId};
use resurgam_btree::{Ahead, LeafWalk, Tree};
use resurgam_buffer::{Access, BufferPool};
use resurgam_page::leaf::Plain;
use resurgam_page::{LeafRecord, PageBuf, key, leaf};
use resurgam_versions::{
    KnownSeen, SpanWalk, View, Visible, WalkFrom, leaf_seen_at_sight, seen_at_sight, visible_known,
};

use crate::cursor::{Direction, KeyRange, RowBatch};
use crate::met_ghosts::MetGhosts;
use crate::row_test::Testing;
use crate::transaction::Interrupt;
use crate::view::ReadView;

/// What visible rows are for.
pub(crate) enum Sink<'b> {
    /// They are copied, as far as they pass the test.
    Batch { batch: &'b mut RowBatch, limit: usize, testing: Option<Testing<'b>> },
    /// They are counted.
    Count,
}

/// Where visible rows go.
pub(crate) struct Filling<'b> {
    pub sink: Sink<'b>,
    /// How many there were, those that did not pass among them.
    pub rows: u64,
}

impl Filling<'_> {
    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.rows += 1;
        if let Sink::Batch { batch, testing, .. } = &mut self.sink {
            if let Some(testing) = testing
                && !testing.test.passes(testing.table, value)?
            {
                testing.rejected += 1;
                return Ok(());
            }
            batch.push(key, value);
        }
        Ok(())
    }
    /// As [`Filling::add`], of a record that is seen as it is.
    #[inline]
    fn add_plain(&mut self, plain: &Plain<'_>) -> Result<()> {
        match &mut self.sink {
            Sink::Batch { batch, testing: None, .. } => {
                self.rows += 1;
                batch.push_content(plain.content, plain.key_len);
                Ok(())
            }
            _ => {
                let (key, value) = plain.content.split_at(plain.key_len);
                self.add(key, value)
            }
        }
    }
    /// How many rows more it takes, at most.
    fn wanted(&self) -> u64 {
        match &self.sink {
            Sink::Batch { limit, testing: None, .. } => (*limit as u64).saturating_sub(self.rows),
            _ => u64::MAX,
        }
    }
    #[inline]
    fn is_full(&self) -> bool {
        match &self.sink {
            Sink::Count => false,
            Sink::Batch { limit, testing: None, .. } => self.rows >= *limit as u64,
            Sink::Batch { limit, testing: Some(testing), .. } => {
                self.rows - testing.rejected >= *limit as u64 || self.rows >= testing.most
            }
        }
    }
}

/// What became of the first leaf of a range.
enum Begun {
    /// No more is to be read.
    Done,
    /// The range goes on at this key.
    At(Vec<u8>),
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

/// Whether it is worth it to ask the nodes above the leaves for those that can be counted at sight.
#[derive(Default)]
struct Shortcut {
    /// Leaves that are read without asking, more each time that it was in vain.
    unasked: u32,
    left: u32,
}

/// Most leaves that are read without asking.
const UNASKED_MAX: u32 = 64;

impl Shortcut {
    fn is_useless(&mut self) -> bool {
        let useless = self.left > 0;
        self.left = self.left.saturating_sub(1);
        useless
    }
    fn has_passed(&mut self, leaves: usize) {
        if leaves > 0 {
            self.unasked = 0;
        } else {
            self.left = self.unasked;
            self.unasked = (self.unasked * 2 + 1).min(UNASKED_MAX);
        }
    }
}

/// See the module.
pub(crate) struct Position {
    /// What is left.
    range: KeyRange,
    direction: Direction,
    /// There is no more.
    pub done: bool,
    scratch: Vec<u8>,
    pub interrupt: Option<Interrupt>,
    met: MetGhosts,
    /// Whether it has deleted rows removed that nobody needs and that are in its way.
    pub removes_ghosts: bool,
    /// Of the view that all calls are to be made with.
    pub known: KnownSeen,
    /// What it has asked for ahead, where pages come from afar.
    ahead: Ahead,
}

/// Rows that the processor is asked to fetch while those before them are read.
const AHEAD: u16 = 6;
/// Leaves that are read between two looks at whether to stop.
const LEAVES_UNASKED: usize = 16;

impl Position {
    pub fn new(range: KeyRange, direction: Direction) -> Self {
        Self {
            range,
            direction,
            done: false,
            scratch: Vec::new(),
            interrupt: None,
            met: MetGhosts::default(),
            removes_ghosts: false,
            known: KnownSeen::default(),
            ahead: Ahead::default(),
        }
    }

    /// What is left.
    pub fn rest(&self) -> Option<&KeyRange> {
        (!self.done).then_some(&self.range)
    }
    /// As [`Position::rest`], at the end.
    pub fn into_rest(self) -> Option<KeyRange> {
        (!self.done).then_some(self.range)
    }

    /// Takes what `view` sees from here on, until `filling` has enough.
    ///
    /// # Errors
    /// Those of reading; the position is as it was, then.
    pub fn read(&mut self, view: &ReadView, tree: Tree, filling: &mut Filling<'_>) -> Result<()> {
        if self.done {
            return Ok(());
        }
        self.met.begin();
        let db = &view.db;
        let jump = self.jump(view, tree);
        if self.done {
            drop(jump);
            db.clean_jumped_over(tree);
            return Ok(());
        }
        let read = self.read_leaves(view, tree, filling);
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
    fn jump(&mut self, view: &ReadView, tree: Tree) -> Option<SpanWalk> {
        if !self.removes_ghosts {
            return None;
        }
        let walk = view.db.inner().empty_spans.enter(tree.object, &view.view(), || self.begin())?;
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

    fn read_leaves(&mut self, view: &ReadView, tree: Tree, filling: &mut Filling<'_>) -> Result<()> {
        let db = &view.db;
        let (pool, limits) = (&db.inner().pool, db.inner().options.met_ghosts);
        let (mut walk, mut leaves) = if self.direction == Direction::Forward && !matches!(filling.sink, Sink::Count) {
            match self.read_first(view, tree, filling)? {
                Begun::Done => return Ok(()),
                Begun::At(key) => (LeafWalk::ascending(tree, key), 1usize),
            }
        } else {
            let walk = match self.begin() {
                WalkFrom::Key(key) => LeafWalk::ascending(tree, key),
                WalkFrom::Below(key) => LeafWalk::descending(tree, key),
            };
            (walk, 0)
        };
        let mut shortcut = Shortcut::default();
        loop {
            leaves += 1;
            if let Some(interrupt) = self.interrupt.as_ref().filter(|_| leaves.is_multiple_of(LEAVES_UNASKED)) {
                interrupt()?;
            }
            // A batch that begins within a leaf has not come to another one.
            if leaves > 1 {
                self.ask_ahead(pool, &walk);
            }
            if matches!(filling.sink, Sink::Count) && self.direction == Direction::Forward && filling.rows > 0 {
                self.count_at_sight(view, &mut walk, &mut shortcut, filling)?;
            }
            let Some(page) = walk.next(pool)? else {
                self.done = true;
                return Ok(());
            };
            self.met.clear();
            // The walk began where the range does.
            let new = if leaves == 1 { 0..page.slot_count() } else { walk.new_slots(&page) };
            let read = self.read_leaf(&view.view(), pool, &page, new, filling)?;
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

    /// Reads the first leaf of what is left, forwards: where most short ranges end, so it is found as a row is found, and of its fences only the
    /// upper one is looked at, if the range goes on.
    fn read_first(&mut self, view: &ReadView, tree: Tree, filling: &mut Filling<'_>) -> Result<Begun> {
        let db = &view.db;
        let (pool, limits) = (&db.inner().pool, db.inner().options.met_ghosts);
        let low = match &self.range.low {
            Bound::Included(low) | Bound::Excluded(low) => low.as_slice(),
            Bound::Unbounded => &[],
        };
        let (page, found) = tree.find(pool, low, Access::Scan)?;
        let begin = match (found, &self.range.low) {
            (Ok(slot), Bound::Excluded(_)) => slot.0 + 1,
            (Ok(slot) | Err(slot), _) => slot.0,
        };
        let count = page.slot_count();
        let end = match &self.range.high {
            Bound::Unbounded => count,
            Bound::Included(high) => {
                leaf::search_from(&page, high, begin).map_or_else(|slot| slot.0, |slot| slot.0 + 1)
            }
            Bound::Excluded(high) => leaf::search_from(&page, high, begin).unwrap_or_else(|slot| slot).0,
        };
        self.met.clear();
        let read = self.read_slots(&view.view(), pool, &page, begin..end, LeafRead::Whole, filling)?;
        let behind = match read {
            LeafRead::Whole if end == count => page.upper_fence().filter(|upper| match &self.range.high {
                Bound::Unbounded => true,
                Bound::Included(high) => *upper <= high.as_slice(),
                Bound::Excluded(high) => *upper < high.as_slice(),
            }),
            _ => None,
        };
        let behind = behind.map(<[u8]>::to_vec);
        if let (Some(behind), Bound::Included(low) | Bound::Excluded(low)) = (&behind, &self.range.low)
            && behind <= low
        {
            return Err(Error::corrupt(format!("page {} does not cover the key that led to it", page.id())));
        }
        // A range that is full goes on within the leaf.
        self.done = behind.is_none() && !matches!(read, LeafRead::Full);
        if self.removes_ghosts && self.met.are_many(limits, count) {
            let (id, lower) = (page.id(), page.lower_fence().to_vec());
            drop(page);
            db.remove_met_ghosts(tree, id, &lower);
        }
        Ok(behind.map_or(Begun::Done, Begun::At))
    }

    /// Counts leaves of which each record says by itself whether it is seen, without a descent to each.
    fn count_at_sight(
        &mut self,
        view: &ReadView,
        walk: &mut LeafWalk,
        shortcut: &mut Shortcut,
        filling: &mut Filling<'_>,
    ) -> Result<()> {
        if shortcut.is_useless() {
            return Ok(());
        }
        let pool = &view.db.inner().pool;
        let (view, known) = (view.view(), &mut self.known);
        let until = match &self.range.high {
            Bound::Included(high) | Bound::Excluded(high) => Some(high.as_slice()),
            Bound::Unbounded => None,
        };
        loop {
            if let Some(interrupt) = &self.interrupt {
                interrupt()?;
            }
            self.ahead.look(pool, walk, until);
            let passed = walk.pass_leaves(pool, until, |leaf| {
                let seen = leaf_seen_at_sight(leaf, &view, known)?;
                filling.rows += seen.map_or(0, |seen| seen.rows);
                Ok(seen.is_some())
            })?;
            shortcut.has_passed(passed);
            if passed == 0 {
                return Ok(());
            }
        }
    }

    /// Has pages brought that the walk will come to, as far as the range goes.
    fn ask_ahead(&mut self, pool: &BufferPool, walk: &LeafWalk) {
        let end = match self.direction {
            Direction::Forward => &self.range.high,
            Direction::Backward => &self.range.low,
        };
        let end = match end {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.as_slice()),
            Bound::Unbounded => None,
        };
        self.ahead.look(pool, walk, end);
    }

    /// Takes what is visible in some slots of one leaf.
    fn read_leaf(
        &mut self,
        view: &View<'_>,
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
        if matches!(filling.sink, Sink::Count)
            && let Some(seen) = seen_at_sight(page, slots.clone(), view, &mut self.known)?
            // Those in the way of the first row are to be looked at.
            && (seen.ghosts == 0 || filling.rows > 0)
        {
            filling.rows += seen.rows;
            return Ok(all);
        }
        self.read_slots(view, pool, page, slots, all, filling)
    }

    /// Takes what is visible in these slots of a leaf; `all`: what it means to have read them all.
    fn read_slots(
        &mut self,
        view: &View<'_>,
        pool: &BufferPool,
        page: &PageBuf,
        slots: Range<u16>,
        all: LeafRead,
        filling: &mut Filling<'_>,
    ) -> Result<LeafRead> {
        // Those behind them are not looked at, unless there are some between that are not seen.
        let wanted = slots.end.min(slots.start.saturating_add(u16::try_from(filling.wanted()).unwrap_or(u16::MAX)));
        let Self { range, direction, scratch, met, known, .. } = self;
        let mut last = None;
        let mut read = |slot: u16| -> Result<bool> {
            let record = page.record(SlotId(slot))?;
            if let Some(plain) = leaf::plain_of(record)
                && !plain.ghost
                && known.includes(plain.xid)
            {
                filling.add_plain(&plain)?;
                let full = filling.is_full();
                if full {
                    last = Some(&plain.content[..plain.key_len]);
                }
                return Ok(full);
            }
            if filling.rows == 0 && met.pass_alike(record) {
                return Ok(false);
            }
            let record = LeafRecord::parse(record)?;
            match visible_known(pool, &record, view, known, scratch)? {
                // Behind the first row they are in nobody's way.
                Visible::No if filling.rows == 0 => met.pass(view, &record),
                Visible::No => {}
                Visible::Current => filling.add(record.key, record.value)?,
                Visible::Rebuilt => filling.add(record.key, scratch)?,
            }
            let full = filling.is_full();
            if full {
                last = Some(record.key);
            }
            Ok(full)
        };
        match direction {
            Direction::Forward => {
                (slots.start..wanted.min(slots.start + AHEAD)).for_each(|slot| page.prefetch_whole(SlotId(slot)));
                for slot in slots {
                    if slot + AHEAD < wanted {
                        page.prefetch_whole(SlotId(slot + AHEAD));
                    }
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
