//! The rows that several trees name together: the alternatives of a condition with OR, as one scan reads them.
//!
//! Each way is read for the keys of its rows only (of an index: by itself). They are put together, sorted, and each is taken
//! once: a row that two ways find comes once, and rows come in the order of the table's tree, as if all of it had been read. Where all
//! ways are parts of that tree, they are read as such, and nothing is held.
//!
//! Invariants:
//! 1. What is held is bounded and the statement's: beyond [`PARTS_MAX`] and [`BYTES_MAX`], what its memory allows, or so many rows that fetching them one by one
//!    is no less work than reading all, the table is read. So it is where a value of a way cannot be computed: a scan may never ask for it.
//! 2. Nothing of it decides what is answered: the scan's filter asks the whole condition of each row.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use resurgam_engine::{Covering, Direction, KeyRange, ReadView, RowBatch, RowBuf, Table};

use crate::exec::access_path::{self, AccessPath, evaluate_constant, is_of_one_tree};
use crate::exec::bridge;
use crate::planted::Planted;

/// Most parts of trees that all ways read together.
const PARTS_MAX: usize = 65_536;
/// Most bytes of keys that are held.
const BYTES_MAX: usize = 64 << 20;
/// Of more than one row in so many all are read.
const PART_MAX: u64 = 16;
/// So many rows are fetched, however small the table is.
const ROWS_LEAST: usize = 64;
/// So many where few are wanted: of more, some are soon found by reading the table.
const ROWS_FEW: usize = 2048;
/// Keys that are read at a time.
const BATCH: usize = 1024;
/// Bytes that are reserved at a time.
const RESERVED: usize = 64 << 10;
/// What a key takes beside its bytes.
const SPAN: usize = size_of::<(u32, u32)>();

/// Ways whose rows are wanted together; see the module's head.
#[derive(Clone, Debug)]
pub(crate) struct AnyOfWays {
    pub ways: Arc<[AccessPath<Arc<dyn PhysicalExpr>>]>,
    pub counts: Arc<Counts>,
}

/// What was counted in all runs, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub runs: AtomicU64,
    /// Keys that each way gave.
    pub keys: Vec<AtomicU64>,
    /// Runs in which the table was read.
    pub whole: AtomicU64,
}

/// What a run of a scan reads.
pub(crate) enum Read {
    /// Parts of the table's tree, ascending and disjoint.
    Ranges(Vec<KeyRange>),
    /// The rows of keys that are yet to be found.
    Keys(Finding),
}

/// What is to be found, before it is.
pub(crate) struct Finding {
    /// Of each way its tree and the parts of it.
    ways: Vec<(Option<usize>, Vec<KeyRange>)>,
    counts: Arc<Counts>,
    memory: MemoryReservation,
    /// A few rows are wanted.
    few: bool,
    /// Small tables are looked up in as well.
    always: bool,
}

/// Keys of rows, ascending, each once.
pub(crate) struct FoundKeys {
    bytes: Vec<u8>,
    /// Where each begins and ends.
    spans: Vec<(u32, u32)>,
    /// Those that were not taken yet.
    left: std::ops::Range<usize>,
    _memory: MemoryReservation,
}

impl AnyOfWays {
    pub(crate) fn new(ways: Vec<AccessPath<Arc<dyn PhysicalExpr>>>) -> Self {
        let keys = ways.iter().map(|_| AtomicU64::default()).collect();
        Self { ways: ways.into(), counts: Arc::new(Counts { keys, ..Counts::default() }) }
    }

    /// What is read in a run: a `few` rows are wanted, or all; `always`: small tables are looked up in as well.
    pub(crate) fn begin(
        &self,
        table: &Table,
        (few, always): (bool, bool),
        memory: impl FnOnce() -> MemoryReservation,
    ) -> Read {
        self.counts.runs.fetch_add(1, Ordering::Relaxed);
        let mut ways = Vec::with_capacity(self.ways.len());
        let mut parts = 0;
        for way in self.ways.iter() {
            match ranges(way, table).map(|ranges| ranges.filter(|ranges| parts + ranges.len() <= PARTS_MAX)) {
                Ok(Some(ranges)) => {
                    parts += ranges.len();
                    ways.push((way.index, ranges));
                }
                // What is wrong with a value, the condition says of the rows for which it is asked.
                Ok(None) | Err(_) => {
                    self.counts.whole.fetch_add(1, Ordering::Relaxed);
                    return Read::Ranges(vec![KeyRange::all()]);
                }
            }
        }
        if is_of_one_tree(&self.ways) {
            return Read::Ranges(merged(ways.into_iter().flat_map(|(_, ranges)| ranges).collect()));
        }
        Read::Keys(Finding { ways, counts: Arc::clone(&self.counts), memory: memory(), few, always })
    }
}

/// The parts of its tree that a way reads; `None`: as good as all of it.
fn ranges(way: &AccessPath<Arc<dyn PhysicalExpr>>, table: &Table) -> Result<Option<Vec<KeyRange>>> {
    // A pattern may begin with a wildcard.
    let is_open = way.equal.is_empty()
        && way.prefix.is_some()
        && matches!(way.prefix_bounds(evaluate_constant)?, Some((None, _)));
    if is_open { Ok(None) } else { way.ranges(table, evaluate_constant).map(Some) }
}

impl Finding {
    /// Of more rows all are read.
    fn rows_max(&self, view: &ReadView, table: &Table) -> usize {
        let of_all = if self.always { u64::MAX } else { view.row_count_estimate(table) / PART_MAX };
        let most = usize::try_from(of_all).unwrap_or(usize::MAX);
        (if self.few { most.min(ROWS_FEW) } else { most }).max(ROWS_LEAST)
    }

    /// The keys; `None`: there are too many, and the table is to be read. `check` is asked now and then.
    ///
    /// # Errors
    /// Those of `check`, and of reading trees.
    pub(crate) fn find(
        self,
        view: &ReadView,
        table: &Arc<Table>,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<Option<FoundKeys>> {
        let (mut bytes, mut spans): (Vec<u8>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
        // It is asked where it matters.
        let mut rows_max = None;
        let mut batch = RowBatch::default();
        for (at, (index, ranges)) in self.ways.iter().enumerate() {
            if at > 0 && at + 1 == self.ways.len() && Planted::AlternativeForgotten.is_planted() {
                continue;
            }
            let mut found = 0;
            // Nothing but the key of the row, which every entry has.
            let covering: Option<Arc<Covering>> = access_path::covering(table, *index, &[table.columns.len()]);
            for range in ranges {
                let mut cursor =
                    access_path::cursor(view, table, *index, range.clone(), Direction::Forward, covering.as_ref());
                loop {
                    batch.clear();
                    if !cursor.next_batch(&mut batch, BATCH).map_err(bridge::storage)? {
                        break;
                    }
                    check()?;
                    for at in 0..batch.len() {
                        let begin = bytes.len() as u32;
                        bytes.extend_from_slice(batch.row(at).key);
                        spans.push((begin, bytes.len() as u32));
                    }
                    found += batch.len() as u64;
                    let taken = bytes.len() + spans.len() * SPAN;
                    // Vectors may have twice what is in them.
                    let wanted = (2 * taken).next_multiple_of(RESERVED);
                    let missing = wanted.saturating_sub(self.memory.size());
                    let has_room = missing == 0 || self.memory.try_grow(missing).is_ok();
                    let are_many = spans.len() > ROWS_LEAST
                        && spans.len() > *rows_max.get_or_insert_with(|| self.rows_max(view, table));
                    if are_many || taken > BYTES_MAX || !has_room {
                        self.counts.whole.fetch_add(1, Ordering::Relaxed);
                        return Ok(None);
                    }
                }
                check()?;
            }
            if let Some(count) = self.counts.keys.get(at) {
                count.fetch_add(found, Ordering::Relaxed);
            }
        }
        let key = |span: &(u32, u32)| &bytes[span.0 as usize..span.1 as usize];
        spans.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        if !Planted::RowTwice.is_planted() {
            spans.dedup_by(|a, b| key(a) == key(b));
        }
        let left = 0..spans.len();
        Ok(Some(FoundKeys { bytes, spans, left, _memory: self.memory }))
    }
}

impl FoundKeys {
    /// Appends the rows of the next keys, as far as the view sees them, up to `rows` and about so many `bytes`; from the end if
    /// `backward`. Nothing is appended where there are none left.
    ///
    /// # Errors
    /// Those of reading the table.
    pub(crate) fn fetch(
        &mut self,
        view: &ReadView,
        table: &Table,
        backward: bool,
        (rows, bytes): (usize, usize),
        batch: &mut RowBatch,
    ) -> Result<()> {
        let mut row = RowBuf::default();
        while batch.len() < rows && batch.bytes() < bytes {
            let next = if backward { self.left.next_back() } else { self.left.next() };
            let Some((begin, end)) = next.and_then(|at| self.spans.get(at)).copied() else { break };
            let key = &self.bytes[begin as usize..end as usize];
            // What a view of the newest state has seen may be gone.
            if view.get(table, key, &mut row).map_err(bridge::storage)? {
                batch.add(row.raw());
            }
        }
        Ok(())
    }
}

/// Ranges in ascending order, those that meet as one.
fn merged(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    fn low(bound: &Bound<Vec<u8>>) -> (&[u8], bool) {
        match bound {
            Bound::Unbounded => (&[], false),
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
        }
    }
    /// Whether a range that ends so goes up to where one begins, or beyond.
    fn reaches(high: &Bound<Vec<u8>>, from: &Bound<Vec<u8>>) -> bool {
        match (high, low(from)) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(high), (from, _)) => high.as_slice() >= from,
            (Bound::Excluded(high), (from, is_behind)) => {
                high.as_slice() > from || high.as_slice() == from && !is_behind
            }
        }
    }
    /// Whether the first ends behind the second.
    fn is_behind(one: &Bound<Vec<u8>>, other: &Bound<Vec<u8>>) -> bool {
        match (one, other) {
            (_, Bound::Unbounded) => false,
            (Bound::Unbounded, _) => true,
            (Bound::Included(one), Bound::Excluded(other)) => one >= other,
            (Bound::Included(one) | Bound::Excluded(one), Bound::Included(other) | Bound::Excluded(other)) => {
                one > other
            }
        }
    }
    ranges.sort_by(|a, b| low(&a.low).cmp(&low(&b.low)));
    let mut out: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if reaches(&last.high, &range.low) => {
                if is_behind(&range.high, &last.high) {
                    last.high = range.high;
                }
            }
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte is in the merged ranges if it is in one of those, and these are ascending and apart.
    #[test]
    fn ranges_that_meet_are_one() {
        let mut seed = 20_261_130_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..5000 {
            let count = next(6);
            let ranges: Vec<KeyRange> = (0..count)
                .map(|_| {
                    let (a, b) = (next(12) as u8, next(12) as u8);
                    let (a, b) = (vec![a.min(b)], vec![a.max(b) + 1]);
                    let low = match next(5) {
                        0 => Bound::Unbounded,
                        1 => Bound::Excluded(a),
                        _ => Bound::Included(a),
                    };
                    let high = match next(5) {
                        0 => Bound::Unbounded,
                        1 => Bound::Included(b),
                        _ => Bound::Excluded(b),
                    };
                    KeyRange { low, high }
                })
                .collect();
            let has = |range: &KeyRange, key: &[u8]| {
                let low = match &range.low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => low.as_slice() <= key,
                    Bound::Excluded(low) => low.as_slice() < key,
                };
                let high = match &range.high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => key <= high.as_slice(),
                    Bound::Excluded(high) => key < high.as_slice(),
                };
                low && high
            };
            let merged = merged(ranges.clone());
            // Also what is between two bytes.
            for key in (0..14u8).flat_map(|byte| [vec![byte], vec![byte, 0]]) {
                let wanted = usize::from(ranges.iter().any(|range| has(range, &key)));
                assert_eq!(
                    merged.iter().filter(|range| has(range, &key)).count(),
                    wanted,
                    "{key:?} {ranges:?} {merged:?}"
                );
            }
        }
    }
}
